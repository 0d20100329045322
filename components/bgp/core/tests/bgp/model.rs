//! Random lives against a naive model: whatever peers, next hops and slow sockets do, in the end Loc-RIB, RIB and every
//! Adj-RIB-Out are as in the simplest reading of RFC 4271.

use proptest::prelude::*;
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix, XidPrefix};
use sluice_bgp::family::FamilyIndex;
use sluice_bgp::relationship::Relationship;
use sluice_bgp::shard::MultipathRules;
use sluice_bgp_dut::oracle::{Candidate, best, exported, own, sharers, usable};
use sluice_bgp_dut::station::Watcher;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, TestPolicy, identity};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

fn compare<P: Net>(dut: &Dut<P>, prefixes: u32) {
    compare_with(dut, prefixes, MultipathRules::OFF);
}

fn compare_with<P: Net>(dut: &Dut<P>, prefixes: u32, multipath: MultipathRules) {
    let mut rib = BTreeMap::new();
    let mut advertised: Vec<BTreeMap<P, Route>> = dut.peers.iter().map(|_| BTreeMap::new()).collect();
    let mut advertised_paths: Vec<Vec<(P, Route)>> = dut.peers.iter().map(|_| vec![]).collect();
    for n in 0..prefixes {
        let prefix = P::nth(n);
        let Some(best) = best(dut, prefix) else { continue };
        if let Some(peer) = best.peer {
            let distance = if peer.internal() { 200 } else { 20 };
            let hop = lowest_of_group(dut, prefix, &best, multipath);
            rib.insert(prefix, (hop, best.route.med.unwrap_or(0), distance));
        }
        let all: Vec<Candidate<'_, P>> = own(dut, prefix).into_iter().chain(usable(dut, prefix)).collect();
        for (peer, advertised) in dut.peers.iter().zip(&mut advertised_paths) {
            if peer.connection.is_some() && peer.several {
                advertised.extend(all.iter().filter_map(|c| Some((prefix, exported(dut, prefix, c, peer)?))));
            }
        }
        for (peer, advertised) in dut.peers.iter().zip(&mut advertised) {
            if peer.connection.is_some()
                && !peer.several
                && let Some(route) = exported(dut, prefix, &best, peer)
            {
                advertised.insert(prefix, route);
            }
        }
    }
    assert_eq!(dut.rib, rib, "the RIB");
    assert!(dut.rib_groups.keys().all(|prefix| rib.contains_key(prefix)), "groups without routes");
    let groups: usize = FamilyIndex::all().map(|family| dut.speaker.tables().view(family).multipath).sum();
    assert_eq!(groups, dut.rib_groups.len(), "count of groups");
    for ((peer, advertised), mut advertised_paths) in dut.peers.iter().zip(advertised).zip(advertised_paths) {
        let view = dut.speaker.neighbor(peer.address).unwrap();
        let count = advertised.len() + advertised_paths.len();
        assert_eq!(view.prefixes.sent[P::INDEX] as usize, count, "count of {}", peer.address);
        let mut paths: Vec<(P, Route)> =
            peer.received_paths.iter().map(|((p, _), r)| (*p, r.clone())).collect();
        paths.sort_unstable();
        advertised_paths.sort_unstable();
        assert_eq!(paths, advertised_paths, "paths of the Adj-RIB-Out of {}", peer.address);
        assert!(peer.keep_rejected || view.prefixes.rejected[P::INDEX] == 0, "stored of {}", peer.address);
        assert_eq!(peer.received, advertised, "Adj-RIB-Out of {}", peer.address);
        assert_eq!(peer.end_of_rib, peer.connection.is_some(), "End-of-RIB of {}", peer.address);
    }
    let shards = dut.speaker.tables();
    assert_eq!(shards.violations::<Ipv4Prefix>(), []);
    assert_eq!(shards.violations::<Ipv6Prefix>(), []);
    assert_eq!(shards.violations::<XidPrefix>(), []);
    assert_eq!(shards.violations::<P>(), []);
    assert!(shards.is_resolved());
    let view: Vec<_> = FamilyIndex::all().map(|family| shards.view(family)).collect();
    assert!(view.iter().all(|v| v.stale == 0 && v.queued == 0), "{view:?}");
}

/// Checks the next hops that the RIB was notified of a prefix, and returns the lowest one.
fn lowest_of_group<P: Net>(
    dut: &Dut<P>,
    prefix: P,
    best: &Candidate<'_, P>,
    multipath: MultipathRules,
) -> IpAddr {
    let (sharers, limit) = sharers(dut, prefix, best, multipath);
    let group: BTreeSet<IpAddr> =
        dut.rib_groups.get(&prefix).into_iter().flatten().map(|(hop, _)| *hop).collect();
    if sharers.len().min(limit) < 2 {
        assert_eq!(group, BTreeSet::new(), "group of {prefix:?}");
        return best.route.next_hop;
    }
    assert_eq!(group.len(), sharers.len().min(limit), "group of {prefix:?}");
    assert!(group.is_subset(&sharers) && group.contains(&best.route.next_hop), "group of {prefix:?}");
    *group.first().unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Up(usize),
    Down(usize),
    Announce {
        peer: usize,
        is_further: bool,
        first: u32,
        count: u32,
        route: RouteOp,
    },
    Withdraw {
        peer: usize,
        is_further: bool,
        first: u32,
        count: u32,
    },
    Reach {
        hop: u8,
        reach: Option<(u32, bool)>,
    },
    Network(u32),
    Answer,
    Slice(u32),
    Transmit {
        peer: usize,
        limit: usize,
    },
    Rib(usize),
    Refresh(usize),
    Relate(usize, Option<Relationship>),
    Import(usize, TestPolicy),
    Export(usize, TestPolicy),
    KeepRejected(usize, bool),
    AnswerRefresh(usize),
    Redefine(u32),
    /// A monitoring station connects, or connects again.
    Watch,
    /// The station takes so many changes.
    Serve(usize),
    NetworkPolicy(TestPolicy),
}

#[derive(Clone, Debug)]
struct RouteOp {
    path: Vec<u32>,
    origin: u8,
    med: Option<u32>,
    local_pref: u32,
    hop: u8,
    no_export: bool,
    only_to_customer: Option<u32>,
    reflected: Option<(u32, Vec<u32>)>,
}

const RELATIONSHIPS: &[Relationship] = &[
    Relationship::Customer,
    Relationship::Peer,
    Relationship::Provider,
    Relationship::RouteServer,
    Relationship::RouteServerClient,
];
const PREFIXES: u32 = 24;
/// Two internal peers, two peers of one neighboring AS, one of a further AS.
const PEERS: [u32; 5] = [LOCAL_AS, LOCAL_AS, 65002, 65002, 65003];

/// Hosts as next hops: external peers, further hosts on the router's subnet, and distant hosts.
const HOPS: &[u8] = &[4, 5, 10, 20, 21, 22];

fn hop() -> impl Strategy<Value = u8> {
    prop::sample::select(HOPS)
}

fn policy() -> impl Strategy<Value = TestPolicy> {
    prop::sample::select(&TestPolicy::ALL[..])
}

fn multipath() -> impl Strategy<Value = MultipathRules> {
    let of = |(external, internal, relax_as_path)| MultipathRules { external, internal, relax_as_path };
    let limit = || prop_oneof![1 => Just(1), 2 => 2..4u8, 1 => Just(64)];
    prop_oneof![
        1 => Just(MultipathRules::OFF),
        2 => (limit(), limit(), any::<bool>()).prop_map(of),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let peer = 0..PEERS.len();
    let path = prop::collection::vec(prop_oneof![9 => 64600u32..64604, 1 => Just(LOCAL_AS)], 0..3);
    let route = (
        // Most are alike in what is compared first, so that it comes to what is compared last.
        prop_oneof![2 => Just(vec![64600]), 1 => path],
        prop_oneof![3 => Just(0), 1 => 0u8..3],
        prop::option::weighted(0.3, 0u32..3),
        prop_oneof![3 => Just(100), 1 => 99u32..102],
        hop(),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.2, 65002u32..65004),
        // 1 is the router itself, 2 and 3 are its internal peers.
        prop::option::weighted(0.5, (1u32..6, prop::collection::vec(1u32..9, 1..4))),
    )
        .prop_map(|(path, origin, med, local_pref, hop, no_export, only_to_customer, reflected)| RouteOp {
            path,
            origin,
            med,
            local_pref,
            hop,
            no_export,
            only_to_customer,
            reflected,
        });
    let range = (0..PREFIXES, 1u32..8);
    let op = prop_oneof![
        2 => peer.clone().prop_map(Op::Up),
        1 => peer.clone().prop_map(Op::Down),
        8 => (peer.clone(), any::<bool>(), range.clone(), route)
            .prop_map(|(peer, is_further, (first, count), route)| {
                Op::Announce { peer, is_further, first, count, route }
            }),
        4 => (peer.clone(), any::<bool>(), range)
            .prop_map(|(peer, is_further, (first, count))| Op::Withdraw { peer, is_further, first, count }),
        2 => (hop(), prop::option::weighted(0.8, (0u32..3, prop::bool::weighted(0.8))))
            .prop_map(|(hop, reach)| Op::Reach { hop, reach }),
        1 => (0..PREFIXES).prop_map(Op::Network),
        3 => Just(Op::Answer),
        3 => (1u32..20).prop_map(Op::Slice),
        4 => (peer.clone(), 1usize..200).prop_map(|(peer, limit)| Op::Transmit { peer, limit }),
        2 => (1usize..20).prop_map(Op::Rib),
        1 => peer.clone().prop_map(Op::Refresh),
        2 => (peer.clone(), prop::option::weighted(0.8, prop::sample::select(RELATIONSHIPS)))
            .prop_map(|(peer, relationship)| Op::Relate(peer, relationship)),
        2 => (peer.clone(), policy()).prop_map(|(peer, policy)| Op::Import(peer, policy)),
        1 => (peer.clone(), any::<bool>()).prop_map(|(peer, keeps)| Op::KeepRejected(peer, keeps)),
        1 => peer.clone().prop_map(Op::AnswerRefresh),
        2 => (peer, policy()).prop_map(|(peer, policy)| Op::Export(peer, policy)),
        1 => (0u32..3).prop_map(Op::Redefine),
        1 => policy().prop_map(Op::NetworkPolicy),
        1 => Just(Op::Watch),
        3 => (1usize..9).prop_map(Op::Serve),
    ];
    prop::collection::vec(op, 1..120)
}

fn live<P: Net>(ops: &[Op], tables: u16, clients: [bool; 2], several: [bool; PEERS.len()]) {
    live_with::<P>(ops, tables, clients, several, MultipathRules::OFF);
}

fn live_with<P: Net>(
    ops: &[Op],
    tables: u16,
    clients: [bool; 2],
    several: [bool; PEERS.len()],
    multipath: MultipathRules,
) {
    let mut identity = identity(tables);
    identity.decision.multipath = multipath;
    // Several paths are used of IP prefixes only.
    let is_ip = [FamilyIndex::IPV4, FamilyIndex::IPV6].contains(&P::INDEX);
    let multipath = if is_ip { multipath } else { MultipathRules::OFF };
    let mut dut: Dut<P> = Dut::with_identity(&PEERS, identity);
    // The internal peers.
    (0..).zip(clients).for_each(|(peer, client): (usize, _)| dut.peers[peer].client = client);
    // Several paths are of IP prefixes.
    (0..).zip(several).for_each(|(peer, several): (usize, _)| dut.peers[peer].several = several && is_ip);
    dut.configure();
    for hop in HOPS {
        dut.set_reach(P::host_addr(*hop), Some((u32::from(*hop) % 3, true)));
    }
    // An internal peer is there too, which changes nothing for it.
    [1, 2, 4].iter().for_each(|peer| dut.peers[*peer].on_subnet = true);
    let mut watcher = Watcher::begin(&mut dut);
    for op in ops {
        match op {
            Op::Watch => watcher = Watcher::begin(&mut dut),
            Op::Serve(limit) => drop(watcher.serve(&mut dut, *limit)),
            _ => run(&mut dut, op),
        }
    }
    dut.settle();
    compare_with(&dut, PREFIXES, multipath);
    watcher.compare(&mut dut, PREFIXES);
    // And nothing is left when all peers are gone.
    for peer in 0..PEERS.len() {
        dut.down(peer);
    }
    dut.networks.clear();
    dut.configure();
    dut.settle();
    compare_with(&dut, PREFIXES, multipath);
    watcher.compare(&mut dut, PREFIXES);
    let shards = dut.speaker.tables();
    for view in FamilyIndex::all().map(|family| shards.view(family)) {
        assert_eq!((view.prefixes, view.attribute_sets), (0, 0));
    }
}

fn prefixes<P: Net>(first: u32, count: u32) -> Vec<P> {
    (first..(first + count).min(PREFIXES)).map(P::nth).collect()
}

fn run<P: Net>(dut: &mut Dut<P>, op: &Op) {
    match op {
        Op::Up(peer) if dut.peers[*peer].connection.is_none() => dut.up(*peer),
        Op::Down(peer) => dut.down(*peer),
        Op::Announce { peer, is_further, first, count, route } if dut.peers[*peer].connection.is_some() => {
            let internal = dut.peers[*peer].internal();
            let mut path = route.path.clone();
            if !internal {
                path.insert(0, dut.peers[*peer].asn);
            }
            let next_hop: IpAddr = P::host_addr(route.hop);
            let route = Route {
                path,
                origin: route.origin,
                med: route.med,
                local_pref: internal.then_some(route.local_pref),
                next_hop,
                link_local: None,
                no_export: route.no_export,
                only_to_customer: route.only_to_customer,
                reflected: route.reflected.clone().filter(|_| internal),
                others: vec![],
            };
            dut.announce_path(*peer, *is_further, &prefixes(*first, *count), &route);
        }
        Op::Withdraw { peer, is_further, first, count } if dut.peers[*peer].connection.is_some() => {
            dut.withdraw_path(*peer, *is_further, &prefixes(*first, *count));
        }
        Op::Reach { hop, reach } => dut.set_reach(P::host_addr(*hop), *reach),
        Op::Network(n) => {
            let prefix = P::nth(*n);
            if !dut.networks.remove(&prefix) {
                dut.networks.insert(prefix);
            }
            dut.configure();
        }
        Op::Answer => {
            dut.answer_one();
        }
        Op::Slice(budget) => {
            dut.slice(*budget);
        }
        Op::Transmit { peer, limit } => {
            dut.transmit(*peer, *limit);
        }
        Op::Rib(limit) => {
            dut.drain_rib(*limit);
        }
        Op::Refresh(peer) if dut.peers[*peer].connection.is_some() => {
            let mut octets = vec![];
            sluice_bgp::wire::RouteRefresh::new(P::AFI, P::SAFI, 0).put(&mut octets);
            dut.say(*peer, &octets);
        }
        Op::Relate(peer, relationship) => {
            dut.peers[*peer].relationship = *relationship;
            dut.configure();
        }
        Op::Import(peer, policy) => {
            dut.peers[*peer].import = *policy;
            dut.configure();
        }
        Op::Export(peer, policy) => {
            dut.peers[*peer].export = *policy;
            dut.configure();
        }
        Op::KeepRejected(peer, keeps) => {
            dut.peers[*peer].keep_rejected = *keeps;
            dut.configure();
        }
        Op::AnswerRefresh(peer) if dut.peers[*peer].connection.is_some() => {
            dut.answer_refresh(*peer);
        }
        Op::NetworkPolicy(policy) => {
            dut.network_policy = *policy;
            dut.configure();
        }
        Op::Redefine(parameter) => {
            dut.parameter = *parameter;
            dut.configure();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn random_lives_ipv4(ops in ops(), tables in 1u16..5, clients: [bool; 2], several: [bool; 5], multipath in multipath()) {
        live_with::<Ipv4Prefix>(&ops, tables, clients, several, multipath);
    }

    #[test]
    fn random_lives_ipv6(ops in ops(), tables in 1u16..5, clients: [bool; 2], several: [bool; 5], multipath in multipath()) {
        live_with::<Ipv6Prefix>(&ops, tables, clients, several, multipath);
    }

    #[test]
    fn random_lives_xids(ops in ops(), tables in 1u16..5, clients: [bool; 2], several: [bool; 5], multipath in multipath()) {
        live_with::<XidPrefix>(&ops, tables, clients, several, multipath);
    }
}

/// A peer with a large table flaps while its old routes are being deleted.
fn flaps<P: Net>() {
    const MANY: u32 = 3000;
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 3);
    for hop in 2..5 {
        dut.set_reach(P::host_addr(hop), Some((0, true)));
    }
    let route = |peer: u32, asn: u32| Route {
        med: Some(peer),
        ..Route::new(vec![asn, 7], P::host_addr(peer as u8 + 2))
    };
    let all: Vec<P> = (0..MANY).map(P::nth).collect();
    dut.up(1);
    dut.up(2);
    for chunk in all.chunks(400) {
        dut.announce(1, chunk, &route(1, 65003));
    }
    dut.settle();
    for flap in 0..20u32 {
        dut.up(0);
        // Each life announces another part, and some of it another way.
        for chunk in all[flap as usize * 100..][..1000].chunks(100) {
            let route = Route { origin: (flap % 2) as u8, ..route(0, 65002) };
            dut.announce(0, chunk, &route);
        }
        for _ in 0..flap % 3 {
            dut.slice(300);
            dut.answer_one();
            dut.transmit(2, 5000);
            dut.drain_rib(200);
        }
        if flap < 19 {
            dut.down(0);
        }
    }
    dut.settle();
    compare(&dut, MANY);
    assert_eq!(dut.peers[0].announced.len(), 1000);
}

#[test]
fn a_peer_that_flaps_ipv4() {
    flaps::<Ipv4Prefix>();
}

#[test]
fn a_peer_that_flaps_ipv6() {
    flaps::<Ipv6Prefix>();
}

#[test]
fn a_peer_that_flaps_xids() {
    flaps::<XidPrefix>();
}

fn plain<P: Net>(path: Vec<u32>, hop: u8) -> Route {
    Route::new(path, P::host_addr(hop))
}

/// A late neighbor receives all of a table that is sent in many portions.
#[test]
fn a_late_joiner_of_a_large_table() {
    const MANY: u32 = 5000;
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&[65002, 65003, LOCAL_AS], 1);
    dut.set_reach(Ipv4Prefix::host_addr(2), Some((0, true)));
    dut.up(0);
    let all: Vec<Ipv4Prefix> = (0..MANY).map(Net::nth).collect();
    for chunk in all.chunks(400) {
        dut.announce(0, chunk, &plain::<Ipv4Prefix>(vec![65002], 2));
    }
    dut.settle();
    dut.up(1);
    dut.transmit(1, 5000);
    dut.up(2);
    dut.settle();
    compare(&dut, MANY);
    assert_eq!((dut.peers[1].received.len(), dut.peers[2].received.len()), (MANY as usize, MANY as usize));
}

/// A prefix flaps as long as a neighbor does not read; earlier and later changes are sent nevertheless.
#[test]
fn a_neighbor_that_does_not_read_meanwhile() {
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&[65002, 65003], 1);
    dut.set_reach(Ipv4Prefix::host_addr(2), Some((0, true)));
    dut.up(0);
    dut.up(1);
    let announce = |dut: &mut Dut<Ipv4Prefix>, n: u32, origin: u8| {
        let route = Route { origin, ..plain::<Ipv4Prefix>(vec![65002], 2) };
        dut.announce(0, &[Net::nth(n)], &route);
    };
    // So that the next hop is known.
    announce(&mut dut, 3, 0);
    dut.settle();
    announce(&mut dut, 0, 0);
    // More changes than the queue keeps for so few prefixes.
    for change in 0..10_000u32 {
        announce(&mut dut, 1, (change % 3) as u8);
    }
    announce(&mut dut, 2, 0);
    let view = dut.speaker.tables().view(Family::Ipv4);
    assert!(view.queued < 5000, "{}", view.queued);
    dut.settle();
    compare(&dut, 4);
    assert_eq!(dut.peers[1].received.len(), 4);
}

fn announcement(peer: usize, first: u32, count: u32, hop: u8) -> Op {
    let (path, origin, med, local_pref, no_export) = (vec![64600], 0, None, 100, false);
    let (only_to_customer, reflected) = (None, None);
    let route = RouteOp { path, origin, med, local_pref, hop, no_export, only_to_customer, reflected };
    Op::Announce { peer, is_further: false, first, count, route }
}

/// A path is sent to the first of two ADD-PATH neighbors before its entry was decided by the new answer about the next hop, and to the
/// second neighbor after that.
#[test]
fn groups_of_several_paths_are_equal_before_they_are_one() {
    let transmit = Op::Transmit { peer: 3, limit: 1 };
    let ops =
        [Op::Up(4), Op::Up(3), announcement(3, 2, 1, 4), announcement(4, 0, 1, 5), transmit, Op::Answer];
    live::<Ipv6Prefix>(&ops, 1, [false, false], [false, false, false, true, true]);
}

/// A path becomes usable, is written for a neighbor that is sent several paths, and goes before its entry is decided: the place of the
/// entry is another prefix's then.
#[test]
fn a_path_that_goes_before_its_entry_is_decided() {
    let ops = [
        Op::Up(3),
        Op::Up(2),
        Op::Up(0),
        announcement(3, 7, 6, 4),
        Op::Answer,
        Op::Transmit { peer: 2, limit: 1 },
        Op::Withdraw { peer: 3, is_further: false, first: 2, count: 6 },
        announcement(2, 0, 1, 4),
    ];
    live::<Ipv4Prefix>(&ops, 1, [false, false], [false, false, true, false, false]);
    live::<Ipv6Prefix>(&ops, 1, [false, false], [false, false, true, false, false]);
}
