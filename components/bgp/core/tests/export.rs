//! Attributes on their way out: what a neighbor is told of a route, attribute by attribute.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so

#[allow(dead_code)] // each test uses a part of it
mod dut;

use dut::{Dut, LOCAL_AS, Net, Route};
use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::wire::attribute::code;

/// An attribute in octets: flags, code and value.
type Attribute = (u8, u8, Vec<u8>);

/// A router that was told a route with `others` by an external neighbor, and tells it to an external and an internal one.
/// Returns the attributes without a field of their own that these two were told.
fn passed_on<P: Net>(others: &[Attribute]) -> [Vec<Attribute>; 2] {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 1);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..3).for_each(|peer| dut.up(peer));
    let route = Route { others: others.to_vec(), ..Route::new(vec![65002], P::host_addr(2)) };
    dut.announce(0, &[P::nth(1)], &route);
    dut.settle();
    [1, 2].map(|peer| dut.peers[peer].told[&P::nth(1)].others.clone())
}

fn non_transitive_communities_end_at_the_border<P: Net>() {
    // Link bandwidth and validation state do not leave the AS, a route target does.
    let target = [0, 2, 0xfd, 0xe9, 0, 0, 0, 1];
    let bandwidth = [0x40, 4, 0xfd, 0xe9, 0, 0, 0, 1];
    let state = [0x43, 0, 0, 0, 0, 0, 0, 2];
    let wide = |first: u8| [&[first, 2][..], &[7; 18]].concat();
    let long = |communities: &[&[u8]]| (0xc0, code::IPV6_EXTENDED_COMMUNITIES, communities.concat());
    let short = |communities: &[&[u8]]| (0xc0, code::EXTENDED_COMMUNITIES, communities.concat());
    let mixed = [short(&[&bandwidth, &target, &state]), long(&[&wide(0x40), &wide(0), &wide(0x40)])];
    let [outside, inside] = passed_on::<P>(&mixed);
    assert_eq!(outside, [short(&[&target]), long(&[&wide(0)])]);
    assert_eq!(inside, mixed);
    // Of an attribute without transitive communities nothing is left.
    let ending = [short(&[&bandwidth, &state]), long(&[&wide(0x40)])];
    let [outside, inside] = passed_on::<P>(&ending);
    assert_eq!((outside, inside), (vec![], ending.to_vec()));
}

#[test]
fn non_transitive_communities_end_at_the_border_of_the_as() {
    non_transitive_communities_end_at_the_border::<Ipv4Prefix>();
    non_transitive_communities_end_at_the_border::<Ipv6Prefix>();
}
