use super::*;
use crate::attributes::{Reach, View};
use crate::batch::{Batch, Change};
use crate::family::FamilyIndex;
use crate::hash::HashSeed;
use crate::shard::Shard;
use crate::shard::entry::{PeerInfo, RouteSource};
use crate::shard::own_router::OwnRouter;
use crate::shard::resolver::Interest;
use crate::wire::multiprotocol::NextHop;
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::num::NonZeroU32;
use proptest::prelude::*;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{Distance, Forwarding, Ipv4Prefix, Metric, Prefix, Provenance, RouterId};
use sluice_machine::{Budget, Outbox, Progress};

const PEERS: u16 = 6;

/// Returns the index of a neighbor: indices below are the router's own sources.
fn neighbor(n: u16) -> PeerIndex {
    PeerIndex(PeerIndex::OWN_SOURCES + n)
}

/// A change of the prefix.
#[derive(Clone, Debug)]
enum Step {
    /// A peer announces it with a next hop, or withdraws it.
    Change(u16, u8, Option<View>),
    /// A next hop is so far away from now on, or cannot be reached.
    Distance(u8, Option<u32>),
}

fn host(last: u8) -> Ipv4Prefix {
    Ipv4Prefix::from_parts(0xc000_0200 | u32::from(last), 32).expect("a prefix")
}

fn address(last: u8) -> IpAddr {
    host(last).addr().into()
}

fn view() -> impl Strategy<Value = View> {
    let origin = prop_oneof![3 => Just(Origin::Igp), 1 => Just(Origin::Incomplete)];
    let local_pref = prop_oneof![4 => Just(100), 1 => Just(90)];
    let reflected = (prop::option::of(1..8_u32), 0..3_u16);
    (local_pref, 1..3_u16, origin, 1..3_u32, prop::option::of(0..3_u32), reflected).prop_map(
        |(local_pref, path_length, origin, neighbor_as, med, (originator, clusters))| View {
            local_pref,
            med,
            neighbor_as: Asn(neighbor_as),
            path_length,
            origin,
            reach: Reach::Everybody,
            originator_id: originator.and_then(NonZeroU32::new),
            cluster_list_length: clusters,
            weight: 0,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let change = (1..=PEERS, 1..4_u8, prop::option::weighted(0.9, view()));
    let distance = (1..4_u8, prop::option::weighted(0.8, 1..3_u32));
    prop_oneof![
        9 => change.prop_map(|(peer, hop, view)| Step::Change(peer, hop, view)),
        1 => distance.prop_map(|(hop, metric)| Step::Distance(hop, metric)),
    ]
}

fn answer(hop: u8, metric: Option<u32>) -> InterestAnswer<Ipv4Prefix> {
    let valid = host(hop);
    let route = metric.map(|metric| ResolvingRoute {
        prefix: valid,
        metric: Metric(metric),
        distance: Distance(0),
        connected: true,
        forwarding: Forwarding::Discard,
    });
    InterestAnswer { valid, route }
}

/// RFC 4271, section 9.1.2.1: a route that would be the most specific one to its own next hop cannot be used, until a more specific
/// route reaches the next hop.
#[test]
fn a_route_does_not_reach_its_own_next_hop() {
    let seed = HashSeed(1);
    let code = FamilyIndex::IPV4.row().code;
    let mut shard = Shard::<Ipv4Prefix>::new(OwnRouter::new(Asn(9), RouterId(99)), seed, code);
    let mut out = Outbox::new();
    let info = PeerInfo {
        router_id: RouterId(1),
        address: address(1),
        internal: true,
        client: false,
        direct: false,
        path_check: None,
        source: RouteSource::Session,
    };
    shard.peer_up(neighbor(1), info);
    let mut batch = Batch::default();
    let view = View {
        local_pref: 100,
        med: None,
        neighbor_as: Asn(1),
        path_length: 1,
        origin: Origin::Igp,
        reach: Reach::Everybody,
        originator_id: None,
        cluster_list_length: 0,
        weight: 0,
    };
    let set = batch.add_set(seed, NextHop::new(address(7)), |_| view);
    let prefix = host(7).truncate(16);
    batch.push(prefix, set);
    shard.apply(neighbor(1), &batch, &mut out);
    for (length, is_used) in [(0, false), (24, true), (15, false), (16, true)] {
        let route = ResolvingRoute {
            prefix: host(7).truncate(length),
            metric: Metric(3),
            distance: Distance(20),
            connected: false,
            forwarding: Forwarding::Discard,
        };
        let answer = InterestAnswer { valid: host(7), route: Some(route) };
        shard.answer(&answer, Provenance::NONE, &mut out);
        while shard.run_slice(Budget::SLICE, &mut out) == Progress::More {}
        let id = shard.core.adj_rib_in.find(prefix).expect("the entry stays");
        assert_eq!(shard.core.adj_rib_in.entries.best(id).is_some(), is_used, "by a route of {length} bits");
    }
}

proptest! {
    /// Checks that comparing two paths gives the same result as comparing all.
    #[test]
    fn best_is_the_best_of_all(steps in prop::collection::vec(step(), 1..40)) {
        let prefix = host(100);
        let seed = HashSeed(1);
        let mut shard = Shard::new(
            OwnRouter::new(Asn(9), RouterId(99)),
            seed,
            FamilyIndex::IPV4.row().code,
        );
        let mut out = Outbox::new();
        for peer in 1..=PEERS {
            let (router_id, address) = (RouterId(u32::from(peer * 5 % 7)), address(peer as u8));
            shard.peer_up(neighbor(peer), PeerInfo { router_id, address, internal: peer % 2 == 0, client: false, direct: false, path_check: None, source: RouteSource::Session });
        }
        let mut distances = [Some(1), Some(1), Some(2)];
        for step in steps {
            match step {
                Step::Change(peer, hop, view) => {
                    let mut batch = Batch::default();
                    let set = view.map(|view| {
                        batch.add_set(seed, NextHop::new(address(hop)), |octets| {
                            octets.extend_from_slice(format!("{view:?}").as_bytes());
                            view
                        })
                    });
                    batch.push(prefix, set.unwrap_or(Change::<Ipv4Prefix>::WITHDRAWN));
                    shard.apply(neighbor(peer), &batch, &mut out);
                }
                Step::Distance(hop, metric) => {
                    distances[usize::from(hop) - 1] = metric;
                    shard.answer(&answer(hop, metric), Provenance::NONE, &mut out);
                }
            }
            let asked: Vec<_> = out.drain().collect();
            for interest in asked {
                if let Interest::Register(addr) = interest {
                    let hop = (1..4).find(|hop| host(*hop).addr() == addr).expect("one of them");
                    shard.answer(&answer(hop, distances[usize::from(hop) - 1]), Provenance::NONE, &mut out);
                }
            }
            while shard.run_slice(Budget::SLICE, &mut out) == Progress::More {}
            let Some(id) = shard.core.adj_rib_in.find(prefix) else { continue };
            let paths = shard.core.adj_rib_in.entries.paths(id);
            let best = shard.core.loc_rib.tables(&shard.core.adj_rib_in, &shard.core.resolver, id).decide(paths, None, |_, _| {}).map(|index| &paths[index]);
            prop_assert_eq!(shard.core.adj_rib_in.entries.best(id), best);
        }
    }
}
