//! Hits of a policy over the present routes.

use proptest::prelude::*;
use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::shard::{PeerIndex, PolicyHits, PolicyUse};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, TestPolicy};

const MANY: u32 = 100;

/// A router with two feeds, an external and an internal receiver.
fn router<P: Net>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004, LOCAL_AS], 2);
    [2, 3].iter().for_each(|host| dut.set_reach(P::host_addr(*host), Some((0, true))));
    dut.peers[0].import = TestPolicy::RejectLow;
    dut.peers[1].import = TestPolicy::PreferPath;
    dut.peers[2].export = TestPolicy::RejectLow;
    dut.networks.insert(P::nth(200));
    dut.network_policy = TestPolicy::NoExport;
    dut.configure();
    (0..4).for_each(|peer| dut.up(peer));
    let all: Vec<P> = (0..MANY).map(P::nth).collect();
    dut.announce(0, &all, &Route::new(vec![65002], P::host_addr(2)));
    // The second feed has the low prefixes too, and four of its routes have the favorite AS in their path.
    dut.announce(1, &all[..20], &Route::new(vec![65003, 7], P::host_addr(3)));
    dut.announce(1, &all[..4], &Route::new(vec![65003, 64600], P::host_addr(3)));
    dut.settle();
    dut
}

fn index<P: Net>(dut: &Dut<P>, peer: usize) -> PeerIndex {
    dut.speaker.neighbor(dut.peers[peer].address).unwrap().index
}

/// Returns routes and hits of each term in a line.
fn of(hits: &PolicyHits, place: &PolicyUse) -> String {
    let Some(counts) = hits.get(place) else { return "no use".into() };
    let terms = counts.terms.iter().map(|(term, routes)| format!(", {term} {routes}"));
    format!("{} routes{}", counts.routes, terms.collect::<String>())
}

fn each_use_is_counted<P: Net>() {
    let dut = router::<P>();
    let hits = |policy: TestPolicy| dut.speaker.tables().policy_hits::<P>(&format!("{policy:?}"), 7);
    let low = hits(TestPolicy::RejectLow);
    // Rejected routes are counted: they come to the policy.
    assert_eq!(of(&low, &PolicyUse::Import(index(&dut, 0))), "100 routes, low 8");
    // The own network has NO_EXPORT, and does not come to the export policy.
    assert_eq!(of(&low, &PolicyUse::Export(vec![index(&dut, 2)])), "100 routes, low 8");
    assert_eq!(low.len(), 2, "{low:?}");
    let favorite = hits(TestPolicy::PreferPath);
    assert_eq!(of(&favorite, &PolicyUse::Import(index(&dut, 1))), "20 routes, favorite 4");
    assert_eq!(favorite.len(), 1);
    let own = hits(TestPolicy::NoExport);
    assert_eq!(of(&own, &PolicyUse::Source("network".into())), "1 routes, all 1");
    assert_eq!(own.len(), 1);
    assert!(hits(TestPolicy::Strip).is_empty(), "nobody uses the policy");
}

#[test]
fn each_use_is_counted_ipv4() {
    each_use_is_counted::<Ipv4Prefix>();
}

#[test]
fn each_use_is_counted_ipv6() {
    each_use_is_counted::<Ipv6Prefix>();
}

#[test]
fn a_neighbor_s_own_route_does_not_come_to_its_export_policy() {
    let mut dut = router::<Ipv4Prefix>();
    dut.peers[0].export = TestPolicy::RejectLow;
    dut.peers[2].export = TestPolicy::AcceptAll;
    dut.configure();
    dut.settle();
    let hits = dut.speaker.tables().policy_hits::<Ipv4Prefix>("RejectLow", 1000);
    // Of the eight low prefixes the second feed's routes are the best, and the rest is the neighbor's own.
    assert_eq!(of(&hits, &PolicyUse::Export(vec![index(&dut, 0)])), "8 routes, low 8");
}

proptest! {
    #[test]
    fn slices_of_any_size_count_alike(limit in 1usize..500) {
        let dut = router::<Ipv4Prefix>();
        let hits = |limit| dut.speaker.tables().policy_hits::<Ipv4Prefix>("RejectLow", limit);
        prop_assert_eq!(hits(limit), hits(usize::MAX));
    }
}
