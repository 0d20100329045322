//! Random lives against a naive model: whatever peers, next hops and slow sockets do, in the end Loc-RIB, RIB and every
//! Adj-RIB-Out are what RFC 4271 says in its simplest words.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so

#[allow(dead_code)] // each test uses a part of it
mod dut;

use dut::{Dut, LOCAL_AS, Net, OWN_ID, Route, ScriptedPeer, TestPolicy};
use proptest::prelude::*;
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix, XidPrefix};
use sluice_bgp::family::FamilyIndex;
use sluice_bgp::relationship::Relationship;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The model's candidate: the peer (`None`: the router itself) and its route.
#[derive(Clone)]
struct Candidate<'a, P> {
    peer: Option<&'a ScriptedPeer<P>>,
    route: Route,
    cost: u32,
}

fn keep<'a, P, K: Ord>(field: &mut Vec<Candidate<'a, P>>, key: impl Fn(&Candidate<'a, P>) -> K) {
    if let Some(best) = field.iter().map(&key).min() {
        field.retain(|c| key(c) == best);
    }
}

fn relationship<P>(peer: &ScriptedPeer<P>) -> Option<Relationship> {
    peer.relationship.filter(|_| !peer.internal())
}

/// What becomes of a route that `peer` announces (RFC 9234, section 5, ingress); `None` if it is a leak.
fn received<P>(peer: &ScriptedPeer<P>, route: &Route) -> Option<Route> {
    let mut route = route.clone();
    let (pref, is_customer) = match relationship(peer) {
        None => return Some(route),
        Some(Relationship::Customer) => (100, true),
        Some(Relationship::Peer) => (90, false),
        Some(Relationship::Provider) => (80, false),
    };
    route.local_pref = Some(pref);
    match (relationship(peer), route.only_to_customer) {
        (Some(Relationship::Customer), Some(_)) => return None,
        (Some(Relationship::Peer), Some(asn)) if asn != peer.asn => return None,
        _ => {}
    }
    if !is_customer {
        route.only_to_customer.get_or_insert(peer.asn);
    }
    Some(route)
}

/// RFC 4271, section 9.1.2, word by word.
fn best<P: Net>(dut: &Dut<P>, prefix: P) -> Option<Candidate<'_, P>> {
    let mut own = Route::new(vec![], P::host_addr(1));
    if dut.networks.contains(&prefix) && dut.network_policy.apply(dut.parameter, prefix, &mut own) {
        // Whatever policy says, neighbors reach own networks through this router.
        own.next_hop = P::host_addr(1);
        return Some(Candidate { peer: None, route: own, cost: 0 });
    }
    let mut field: Vec<Candidate<'_, P>> = vec![];
    for peer in &dut.peers {
        let Some(mut route) = peer.announced.get(&prefix).and_then(|r| received(peer, r)) else { continue };
        if route.path.contains(&LOCAL_AS) || !peer.import.apply(dut.parameter, prefix, &mut route) {
            continue;
        }
        let Some(Some((cost, connected))) = dut.reach.get(&route.next_hop) else { continue };
        if P::has_ip_hops() && !peer.internal() && !connected {
            continue;
        }
        // RFC 4456, section 8.
        let came_back =
            |(originator, clusters): &(u32, Vec<u32>)| *originator == OWN_ID || clusters.contains(&OWN_ID);
        if route.reflected.as_ref().is_some_and(came_back) {
            continue;
        }
        field.push(Candidate { peer: Some(peer), route, cost: *cost });
    }
    // RFC 4456, section 9: the originator in the place of the peer, and the number of clusters.
    let of = |c: &Candidate<'_, P>| {
        let peer = c.peer.unwrap();
        let reflected = c.route.reflected.as_ref();
        let id = reflected.map_or(peer.router_id, |(originator, _)| *originator);
        let clusters = reflected.map_or(0, |(_, clusters)| clusters.len());
        (peer.internal(), id, clusters, peer.address)
    };
    keep(&mut field, |c| std::cmp::Reverse(c.route.local_pref.unwrap_or(100)));
    keep(&mut field, |c| c.route.path.len());
    keep(&mut field, |c| c.route.origin);
    let neighbor = |c: &Candidate<'_, P>| c.route.path.first().copied().unwrap_or(LOCAL_AS);
    let med = |c: &Candidate<'_, P>| c.route.med.unwrap_or(0);
    let all = field.clone();
    field.retain(|m| !all.iter().any(|n| neighbor(n) == neighbor(m) && med(n) < med(m)));
    keep(&mut field, |c| of(c).0);
    keep(&mut field, |c| c.cost);
    keep(&mut field, |c| of(c).1);
    keep(&mut field, |c| of(c).2);
    keep(&mut field, |c| of(c).3);
    field.into_iter().next()
}

/// What `peer` should have been told of a best route.
fn exported<P: Net>(
    dut: &Dut<P>,
    prefix: P,
    best: &Candidate<'_, P>,
    peer: &ScriptedPeer<P>,
) -> Option<Route> {
    let from = best.peer;
    // RFC 4456, section 6: between internal neighbors go the routes of clients, and those to clients.
    let reflected = from.filter(|from| from.internal() && peer.internal());
    let stays = reflected.is_some_and(|from| !from.client && !peer.client);
    let itself = from.is_some_and(|p| p.address == peer.address);
    if itself || stays || (best.route.no_export && !peer.internal()) {
        return None;
    }
    let mut route = best.route.clone();
    // RFC 9234, section 5, egress.
    let relationship = relationship(peer);
    let up = matches!(relationship, Some(Relationship::Peer | Relationship::Provider));
    if up && route.only_to_customer.is_some() {
        return None;
    }
    let (med, next_hop) = (route.med, route.next_hop);
    if !peer.export.apply(dut.parameter, prefix, &mut route) {
        return None;
    }
    let has_own_med =
        route.med != med || (peer.export == TestPolicy::PrependLow && med == Some(7 + dut.parameter));
    let sets_hop = peer.export == TestPolicy::NextHop;
    assert!(sets_hop || next_hop == route.next_hop);
    let has_own_hop = sets_hop && P::has_ip_hops();
    if sets_hop && !has_own_hop {
        route.next_hop = P::host_addr(1);
    }
    if matches!(relationship, Some(Relationship::Peer | Relationship::Customer)) {
        route.only_to_customer.get_or_insert(LOCAL_AS);
    }
    if let Some(from) = reflected {
        let (originator, clusters) = route.reflected.take().unwrap_or((from.router_id, vec![]));
        route.reflected = Some((originator, [vec![OWN_ID], clusters].concat()));
    }
    if peer.internal() {
        route.local_pref.get_or_insert(100);
    } else {
        route.local_pref = None;
        route.path.insert(0, LOCAL_AS);
        // RFC 4271, section 5.1.3: what an external neighbor says of its subnet goes to others there.
        let is_near = |hop: IpAddr| (0..16).any(|host| P::host_addr(host) == hop);
        let is_third_party = P::has_ip_hops()
            && from.is_some_and(|p| !p.internal() && peer.on_subnet)
            && is_near(route.next_hop)
            && route.next_hop != peer.address;
        if !is_third_party && !has_own_hop {
            route.next_hop = P::host_addr(1);
        }
        route.reflected = None;
        if from.is_some() && !has_own_med {
            route.med = None;
        }
    }
    Some(route)
}

fn compare<P: Net>(dut: &Dut<P>, prefixes: u32) {
    let mut rib = BTreeMap::new();
    let mut told: Vec<BTreeMap<P, Route>> = dut.peers.iter().map(|_| BTreeMap::new()).collect();
    for n in 0..prefixes {
        let prefix = P::nth(n);
        let Some(best) = best(dut, prefix) else { continue };
        if let Some(peer) = best.peer {
            let distance = if peer.internal() { 200 } else { 20 };
            rib.insert(prefix, (best.route.next_hop, best.route.med.unwrap_or(0), distance));
        }
        for (peer, told) in dut.peers.iter().zip(&mut told) {
            if peer.connection.is_some()
                && let Some(route) = exported(dut, prefix, &best, peer)
            {
                told.insert(prefix, route);
            }
        }
    }
    assert_eq!(dut.rib, rib, "the RIB");
    for (peer, told) in dut.peers.iter().zip(told) {
        let view = dut.speaker.neighbor(peer.address).unwrap();
        assert_eq!(view.prefixes.sent[P::INDEX] as usize, told.len(), "count of {}", peer.address);
        assert!(peer.keep_rejected || view.prefixes.rejected[P::INDEX] == 0, "stored of {}", peer.address);
        assert_eq!(peer.told, told, "Adj-RIB-Out of {}", peer.address);
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

#[derive(Clone, Debug)]
enum Op {
    Up(usize),
    Down(usize),
    Announce { peer: usize, first: u32, count: u32, route: RouteOp },
    Withdraw { peer: usize, first: u32, count: u32 },
    Reach { hop: u8, reach: Option<(u32, bool)> },
    Network(u32),
    Answer,
    Slice(u32),
    Transmit { peer: usize, limit: usize },
    Rib(usize),
    Refresh(usize),
    Relate(usize, Option<Relationship>),
    Import(usize, TestPolicy),
    Export(usize, TestPolicy),
    KeepRejected(usize, bool),
    AnswerRefresh(usize),
    Redefine(u32),
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

const RELATIONSHIPS: &[Relationship] = &[Relationship::Customer, Relationship::Peer, Relationship::Provider];
const PREFIXES: u32 = 24;
/// Two internal peers, two of one neighbouring AS, one of another.
const PEERS: [u32; 5] = [LOCAL_AS, LOCAL_AS, 65002, 65002, 65003];

/// Hosts that are next hops: those of external peers, others on the router's subnet, and farther ones.
const HOPS: &[u8] = &[4, 5, 10, 20, 21, 22];

fn hop() -> impl Strategy<Value = u8> {
    prop::sample::select(HOPS)
}

fn policy() -> impl Strategy<Value = TestPolicy> {
    prop::sample::select(&TestPolicy::ALL[..])
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
        8 => (peer.clone(), range.clone(), route)
            .prop_map(|(peer, (first, count), route)| Op::Announce { peer, first, count, route }),
        4 => (peer.clone(), range).prop_map(|(peer, (first, count))| Op::Withdraw { peer, first, count }),
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
    ];
    prop::collection::vec(op, 1..120)
}

fn live<P: Net>(ops: &[Op], tables: u16, clients: [bool; 2]) {
    let mut dut: Dut<P> = Dut::new(&PEERS, tables);
    // The internal peers.
    (0..).zip(clients).for_each(|(peer, client): (usize, _)| dut.peers[peer].client = client);
    dut.configure();
    for hop in HOPS {
        dut.set_reach(P::host_addr(*hop), Some((u32::from(*hop) % 3, true)));
    }
    // An internal peer is there too, which changes nothing for it.
    [1, 2, 4].iter().for_each(|peer| dut.peers[*peer].on_subnet = true);
    for op in ops {
        run(&mut dut, op);
    }
    dut.settle();
    compare(&dut, PREFIXES);
    // And nothing is left when all peers are gone.
    for peer in 0..PEERS.len() {
        dut.down(peer);
    }
    dut.networks.clear();
    dut.configure();
    dut.settle();
    compare(&dut, PREFIXES);
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
        Op::Announce { peer, first, count, route } if dut.peers[*peer].connection.is_some() => {
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
            dut.announce(*peer, &prefixes(*first, *count), &route);
        }
        Op::Withdraw { peer, first, count } if dut.peers[*peer].connection.is_some() => {
            dut.withdraw(*peer, &prefixes(*first, *count));
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
            sluice_bgp::wire::RouteRefresh { afi: P::AFI, safi: P::SAFI }.put(&mut octets);
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

    #[cfg(not(feature = "labels"))]
    #[test]
    fn random_lives_ipv4(ops in ops(), tables in 1u16..5, clients: [bool; 2]) {
        live::<Ipv4Prefix>(&ops, tables, clients);
    }

    #[cfg(not(feature = "labels"))]
    #[test]
    fn random_lives_ipv6(ops in ops(), tables in 1u16..5, clients: [bool; 2]) {
        live::<Ipv6Prefix>(&ops, tables, clients);
    }

    #[cfg(not(feature = "labels"))]
    #[test]
    fn random_lives_xids(ops in ops(), tables in 1u16..5, clients: [bool; 2]) {
        live::<XidPrefix>(&ops, tables, clients);
    }

    #[cfg(feature = "labels")]
    #[test]
    fn random_lives_labels(ops in ops(), tables in 1u16..5, clients: [bool; 2]) {
        live::<sluice_bgp::labels::Label>(&ops, tables, clients);
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

/// Who comes late hears all of a table that is told in many portions.
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
    assert_eq!((dut.peers[1].told.len(), dut.peers[2].told.len()), (MANY as usize, MANY as usize));
}

/// One prefix flaps as long as a neighbour does not read; what came before that and after it is told all the same.
#[test]
fn a_neighbour_that_does_not_read_meanwhile() {
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
    assert_eq!(dut.peers[1].told.len(), 4);
}
