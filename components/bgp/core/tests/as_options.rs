//! AS paths by agreement: own ASes let in, ASes of neighbors replaced, route servers that stay out of the path, and MEDs compared
//! otherwise.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so

#[allow(dead_code)] // each test uses a part of it
mod dut;

use dut::{Dut, LOCAL_AS, Net, Route};
use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::speaker::{Config, Identity, Input};
use std::net::IpAddr;

fn hop<P: Net>(peer: usize) -> IpAddr {
    P::host_addr(peer as u8 + 2)
}

fn router<P: Net>(asns: &[u32], change: impl FnOnce(&mut Config)) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(asns, 1);
    (0..asns.len()).for_each(|peer| dut.set_reach(hop::<P>(peer), Some((5, true))));
    let mut config = dut.config();
    change(&mut config);
    dut.input(Input::Configure(config));
    (0..asns.len()).for_each(|peer| dut.up(peer));
    dut
}

/// Announces a route of the first neighbor; returns the route that the second one is told.
fn passed_on<P: Net>(dut: &mut Dut<P>, path: &[u32]) -> Option<Route> {
    let route = Route { med: Some(7), ..Route::new(path.to_vec(), hop::<P>(0)) };
    dut.announce(0, &[P::nth(1)], &route);
    dut.settle();
    dut.peers[1].told.get(&P::nth(1)).cloned()
}

#[test]
fn the_own_as_is_let_in_as_often_as_allowed() {
    for (allowed, own, is_told) in
        [(0, 1, false), (1, 1, true), (1, 2, false), (10, 10, true), (10, 11, false)]
    {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| {
            config.neighbors[0].allow_as_in = allowed;
        });
        let path = [vec![65002], vec![LOCAL_AS; own]].concat();
        assert_eq!(passed_on(&mut dut, &path).is_some(), is_told, "{own} of {allowed}");
    }
}

#[test]
fn the_as_of_a_neighbor_is_replaced() {
    let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| config.neighbors[1].as_override = true);
    let told = passed_on(&mut dut, &[65002, 65003, 9, 65003]).unwrap();
    assert_eq!(told.path, [LOCAL_AS, 65002, LOCAL_AS, 9, LOCAL_AS]);
    // As many as fit in a segment with this router's own before.
    let long = [vec![65002], vec![65003; 253]].concat();
    let told = passed_on(&mut dut, &long).unwrap();
    assert_eq!(told.path, [vec![LOCAL_AS, 65002], vec![LOCAL_AS; 253]].concat());
}

fn unchanged<P: Net>() {
    let mut dut = router::<P>(&[65002, 65003], |config| config.neighbors[1].transparent = true);
    let told = passed_on(&mut dut, &[65002, 9]).unwrap();
    assert_eq!((told.path, told.next_hop, told.med), (vec![65002, 9], hop::<P>(0), Some(7)));
    // A neighbor that is not told so gets this router's AS and next hop.
    let mut dut = router::<P>(&[65002, 65003], |_| {});
    let told = passed_on(&mut dut, &[65002, 9]).unwrap();
    assert_eq!((told.path, told.med), (vec![LOCAL_AS, 65002, 9], None));
    assert_ne!(told.next_hop, hop::<P>(0));
}

#[test]
fn a_route_server_changes_no_path_next_hop_and_med() {
    unchanged::<Ipv4Prefix>();
    unchanged::<Ipv6Prefix>();
}

/// Returns the neighbor whose path is the best: the first one's MED is 20, the second one's `med`.
fn best(med: Option<u32>, change: impl FnOnce(&mut Identity)) -> usize {
    let mut identity = dut::identity(1);
    change(&mut identity);
    let mut dut = Dut::<Ipv4Prefix>::with_identity(&[65002, 65003, 65004], identity);
    (0..2).for_each(|peer| dut.set_reach(hop::<Ipv4Prefix>(peer), Some((5, true))));
    (0..3).for_each(|peer| dut.up(peer));
    for (peer, med) in [(0, Some(20)), (1, med)] {
        let path = vec![[65002, 65003][peer]];
        dut.announce(
            peer,
            &[Ipv4Prefix::nth(1)],
            &Route { med, ..Route::new(path, hop::<Ipv4Prefix>(peer)) },
        );
    }
    dut.settle();
    let told = &dut.peers[2].told[&Ipv4Prefix::nth(1)];
    [65002, 65003].iter().position(|asn| told.path[1] == *asn).unwrap()
}

#[test]
fn meds_of_different_ases_are_compared_on_demand() {
    assert_eq!(best(Some(10), |_| {}), 0, "the lower router identifier decides");
    assert_eq!(best(Some(10), |identity| identity.decision.always_compare_med = true), 1);
    assert_eq!(best(Some(30), |identity| identity.decision.always_compare_med = true), 0);
}

#[test]
fn a_missing_med_is_the_best_or_the_worst() {
    assert_eq!(best(None, |identity| identity.decision.always_compare_med = true), 1);
    let both = |identity: &mut Identity| {
        identity.decision.always_compare_med = true;
        identity.decision.missing_med_worst = true;
    };
    assert_eq!(best(None, both), 0);
}
