//! Groups of paths that share packets: the updates to the RIB, and the views of operators.

use sluice_base::Ipv4Prefix;
use sluice_bgp::shard::{LeftOut, Multipath, MultipathRules};
use sluice_bgp::wire::attribute::code;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, identity};
use std::net::IpAddr;

type Prefix = Ipv4Prefix;

const RULES: MultipathRules = MultipathRules { external: 3, internal: 2, relax_as_path: false };

/// A router with sessions to neighbors of these ASes and with next hops on its subnet.
fn router(asns: &[u32], multipath: MultipathRules) -> Dut<Prefix> {
    let mut identity = identity(1);
    identity.decision.multipath = multipath;
    let mut dut = Dut::with_identity(asns, identity);
    (2..20).for_each(|host| dut.set_reach(Prefix::host_addr(host), Some((0, true))));
    (0..asns.len()).for_each(|peer| dut.up(peer));
    dut
}

/// A route with a link bandwidth in octets a second.
fn with_bandwidth(asn: u32, host: u8, bandwidth: f32) -> Route {
    let value = [&[0x40, 0x04, 0xfd, 0xe9], &bandwidth.to_be_bytes()[..]].concat();
    Route { others: vec![(0xc0, code::EXTENDED_COMMUNITIES, value)], ..route(asn, host) }
}

fn route(asn: u32, host: u8) -> Route {
    Route::new(if asn == LOCAL_AS { vec![7] } else { vec![asn, 7] }, Prefix::host_addr(host))
}

fn announce(dut: &mut Dut<Prefix>, peer: usize, route: &Route) {
    dut.announce(peer, &[Prefix::nth(0)], route);
    dut.settle();
}

/// The hosts and weights of the group that the RIB has.
fn group(dut: &Dut<Prefix>) -> Vec<(u8, u8)> {
    let host = |hop: IpAddr| (1..=255u8).find(|host| Prefix::host_addr(*host) == hop).unwrap();
    let group = dut.rib_groups.get(&Prefix::nth(0)).into_iter().flatten();
    group.map(|(hop, weight)| (host(*hop), *weight)).collect()
}

/// The parts of the paths in forwarding, by the host of the next hop.
fn part(dut: &Dut<Prefix>, host: u8) -> Option<Multipath> {
    let route = dut.speaker.tables().route(Prefix::nth(0)).unwrap();
    let path =
        route.paths.into_iter().find(|path| path.next_hop.address.ip() == Some(Prefix::host_addr(host)));
    path.unwrap().multipath
}

#[test]
fn the_paths_of_the_lowest_identifiers_are_used_up_to_the_limit() {
    let mut dut = router(&[65002; 5], RULES);
    (0..5).rev().for_each(|peer| announce(&mut dut, peer, &route(65002, peer as u8 + 2)));
    assert_eq!(group(&dut), [(2, 1), (3, 1), (4, 1)]);
    assert_eq!(part(&dut, 3), Some(Multipath::Used { weight: 1 }));
    assert_eq!(part(&dut, 5), Some(Multipath::LeftOut(LeftOut::Limit(3))));
    // A used path that is not the best goes, and the next one is used in its place.
    dut.down(1);
    dut.settle();
    assert_eq!(group(&dut), [(2, 1), (4, 1), (5, 1)]);
    // A next hop that cannot be reached.
    dut.set_reach(Prefix::host_addr(4), None);
    dut.settle();
    assert_eq!(group(&dut), [(2, 1), (5, 1), (6, 1)]);
    // One that is farther away.
    dut.set_reach(Prefix::host_addr(5), Some((1, true)));
    dut.settle();
    assert_eq!((group(&dut), part(&dut, 5)), (vec![(2, 1), (6, 1)], None));
    // The best path is alone again.
    dut.down(4);
    dut.settle();
    assert_eq!(group(&dut), []);
}

#[test]
fn internal_paths_have_a_limit_of_their_own() {
    let mut dut = router(&[LOCAL_AS, LOCAL_AS, LOCAL_AS, 65002, 65002], RULES);
    (0..3).for_each(|peer| announce(&mut dut, peer, &route(LOCAL_AS, peer as u8 + 12)));
    assert_eq!(
        (group(&dut), part(&dut, 14)),
        (vec![(12, 1), (13, 1)], Some(Multipath::LeftOut(LeftOut::Limit(2))))
    );
    // External paths beat internal ones, with which they share nothing.
    let short = |host| Route { path: vec![65002], ..route(65002, host) };
    announce(&mut dut, 3, &short(5));
    assert_eq!((group(&dut), dut.rib[&Prefix::nth(0)].0), (vec![], Prefix::host_addr(5)));
    announce(&mut dut, 4, &short(6));
    assert_eq!((group(&dut), part(&dut, 12)), (vec![(5, 1), (6, 1)], None));
}

#[test]
fn paths_through_other_ases_need_relax_as_path() {
    for relax_as_path in [false, true] {
        let mut dut = router(&[65002, 65003, 65004], MultipathRules { relax_as_path, ..RULES });
        (0..3).for_each(|peer| announce(&mut dut, peer, &route(65002 + peer as u32, peer as u8 + 2)));
        let (expected, of_second) = match relax_as_path {
            true => (vec![(2, 1), (3, 1), (4, 1)], Multipath::Used { weight: 1 }),
            false => (vec![], Multipath::LeftOut(LeftOut::OtherAsPath)),
        };
        assert_eq!((group(&dut), part(&dut, 3)), (expected, Some(of_second)));
        // An AS path that is longer is no equal one.
        announce(&mut dut, 2, &Route { path: vec![65004, 7, 7], ..route(65004, 4) });
        assert_eq!((group(&dut).len(), part(&dut, 4)), (if relax_as_path { 2 } else { 0 }, None));
    }
}

#[test]
fn one_next_hop_has_one_share() {
    let mut dut = router(&[65002; 3], RULES);
    let route = route(65002, 2);
    announce(&mut dut, 0, &route);
    announce(&mut dut, 1, &route);
    assert_eq!(group(&dut), []);
    let paths = dut.speaker.tables().route(Prefix::nth(0)).unwrap().paths;
    assert_eq!(paths[1].multipath, Some(Multipath::LeftOut(LeftOut::SameNextHop)));
}

#[test]
fn weights_follow_bandwidths_and_what_is_none_is_ignored() {
    let mut dut = router(&[65002; 2], RULES);
    announce(&mut dut, 0, &with_bandwidth(65002, 2, 1e9));
    announce(&mut dut, 1, &with_bandwidth(65002, 3, 3e9));
    assert_eq!(group(&dut), [(2, 25), (3, 75)]);
    let before = dut.updates_of_rib();
    for (bandwidth, expected) in [
        (1e9, [(2, 50), (3, 50)]),
        (0.0, [(2, 100), (3, 1)]),
        (1.0, [(2, 99), (3, 1)]),
        (f32::MAX, [(2, 1), (3, 99)]),
        (f32::NAN, [(2, 1), (3, 1)]),
        (f32::INFINITY, [(2, 1), (3, 1)]),
        (-1e9, [(2, 1), (3, 1)]),
    ] {
        announce(&mut dut, 1, &with_bandwidth(65002, 3, bandwidth));
        assert_eq!(group(&dut), expected, "{bandwidth}");
    }
    assert!(dut.updates_of_rib() > before);
    // Another attribute set that leaves the group as it is: the RIB receives nothing.
    let known = dut.updates_of_rib();
    announce(&mut dut, 1, &Route { med: Some(0), ..with_bandwidth(65002, 3, -2e9) });
    assert_eq!(dut.updates_of_rib(), known);
}
