//! Policies that change while routes flow: the sent routes, the receivers, and the avoided requests.

use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::shard::Elimination;
use sluice_bgp::speaker::{DefaultPolicy, Input};
use sluice_bgp::wire::MessageType;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, TestPolicy};

/// The low prefixes of the tests' policies.
const LOW: u64 = 8;
const MANY: u32 = 5000;

/// A router with a feed, an external and an internal receiver, with complete tables.
fn router<P: Net>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    dut.set_reach(P::host_addr(22), Some((0, true)));
    (0..3).for_each(|peer| dut.up(peer));
    let all: Vec<P> = (0..MANY).map(P::nth).collect();
    for chunk in all.chunks(400) {
        dut.announce(0, chunk, &Route::new(vec![65002, 7], P::host_addr(2)));
    }
    dut.settle();
    dut
}

/// Prefixes announced and withdrawn to the two receivers so far.
fn sent<P: Net>(dut: &Dut<P>) -> [(u64, u64); 2] {
    [1, 2].map(|peer| {
        let view = dut.speaker.neighbor(dut.peers[peer].address).unwrap();
        (view.writer.announced, view.writer.withdrawn)
    })
}

/// Configures the router, and returns the messages to the receivers since.
fn change<P: Net>(dut: &mut Dut<P>, change: impl FnOnce(&mut Dut<P>)) -> [(u64, u64); 2] {
    let before = sent(dut);
    change(dut);
    dut.configure();
    dut.settle();
    let after = sent(dut);
    [0, 1].map(|n| (after[n].0 - before[n].0, after[n].1 - before[n].1))
}

fn only_changed_routes_are_sent<P: Net>() {
    let mut dut = router::<P>();
    assert_eq!(sent(&dut), [(MANY.into(), 0); 2]);
    let received = dut.peers[0].wire.len();
    let export = |policy: TestPolicy| move |dut: &mut Dut<P>| dut.peers[1].export = policy;
    let import = |policy: TestPolicy| move |dut: &mut Dut<P>| dut.peers[0].import = policy;
    assert_eq!(change(&mut dut, export(TestPolicy::PrependLow)), [(LOW, 0), (0, 0)]);
    // The same again changes nothing, and another parameter changes what it names.
    assert_eq!(change(&mut dut, export(TestPolicy::PrependLow)), [(0, 0); 2]);
    assert_eq!(change(&mut dut, |dut| dut.parameter = 1), [(LOW + 1, 0), (0, 0)]);
    assert_eq!(change(&mut dut, |dut| dut.parameter = 0), [(LOW + 1, 0), (0, 0)]);
    assert_eq!(change(&mut dut, export(TestPolicy::RejectLow)), [(0, LOW), (0, 0)]);
    assert_eq!(change(&mut dut, export(TestPolicy::AcceptAll)), [(LOW, 0), (0, 0)]);
    // Policies that change what is not there change nothing.
    assert_eq!(change(&mut dut, export(TestPolicy::PreferPath)), [(0, 0); 2]);
    assert_eq!(change(&mut dut, import(TestPolicy::PrependLow)), [(LOW, 0); 2]);
    assert_eq!(change(&mut dut, import(TestPolicy::RejectLow)), [(0, LOW); 2]);
    let rejected =
        dut.speaker.tables().rejected::<P>(dut.speaker.neighbor(dut.peers[0].address).unwrap().index);
    assert_eq!(u64::from(rejected), LOW);
    let route = dut.speaker.tables().route(P::nth(0)).unwrap();
    assert_eq!(route.paths[0].lost, Some(Elimination::Rejected), "what came is kept");
    assert_eq!(change(&mut dut, import(TestPolicy::AcceptAll)), [(LOW, 0); 2]);
    assert_eq!(change(&mut dut, import(TestPolicy::Nothing)), [(0, MANY.into()); 2]);
    assert_eq!(change(&mut dut, import(TestPolicy::AcceptAll)), [(MANY.into(), 0); 2]);
    // The feed was asked for nothing.
    let asked = dut.peers[0].messages.iter().filter(|kind| **kind == MessageType::RouteRefresh);
    assert_eq!((asked.count(), dut.peers[0].wire.len()), (0, received));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn only_changed_routes_are_sent_ipv4() {
    only_changed_routes_are_sent::<Ipv4Prefix>();
}

#[test]
fn only_changed_routes_are_sent_ipv6() {
    only_changed_routes_are_sent::<Ipv6Prefix>();
}

/// A change of an internal neighbor's next hop reaches the neighbor with a walk that finds every route.
#[test]
fn a_walk_is_not_begun_anew_by_fresh_changes_and_second_policies() {
    let mut dut = router::<Ipv4Prefix>();
    dut.peers[1].export = TestPolicy::PrependLow;
    dut.configure();
    let before = sent(&dut);
    // The walk is on; a route changes, and so does the policy.
    dut.slice(1000);
    let fresh = Route { origin: 2, ..Route::new(vec![65002, 7], Ipv4Prefix::host_addr(2)) };
    dut.announce(0, &[Ipv4Prefix::nth(4000)], &fresh);
    dut.transmit(1, 100_000);
    dut.parameter = 1;
    dut.configure();
    dut.settle();
    let after = sent(&dut);
    // Each low route once or, where it was sent before the second change, twice; and the fresh one.
    let announced = after[0].0 - before[0].0;
    assert!((LOW + 2..=2 * LOW + 2).contains(&announced), "{announced}");
    assert_eq!(after[1].0 - before[1].0, 1);
    let path = |n| dut.peers[1].received[&Ipv4Prefix::nth(n)].path.clone();
    assert!((0..9).all(|n| path(n)[1] == 64999) && path(9)[1] == 65002);
}

#[test]
fn five_hundred_customers_that_a_policy_does_not_name_are_one_group() {
    const CUSTOMERS: usize = 500;
    let asns: Vec<u32> = std::iter::once(65002).chain((64000..).take(CUSTOMERS)).collect();
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&asns, 1);
    dut.set_reach(Ipv4Prefix::host_addr(2), Some((0, true)));
    dut.peers[1..].iter_mut().for_each(|peer| peer.export = TestPolicy::PrependLow);
    dut.configure();
    (0..asns.len()).for_each(|peer| dut.up(peer));
    dut.announce(0, &[Ipv4Prefix::nth(0)], &Route::new(vec![65002], Ipv4Prefix::host_addr(2)));
    dut.settle();
    let members = |dut: &Dut<Ipv4Prefix>| {
        let mut all: Vec<usize> =
            dut.speaker.tables().groups::<Ipv4Prefix>().iter().map(|group| group.members.len()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(members(&dut), [1, CUSTOMERS]);
    // They stay together through a change of the policy, and while it is walked.
    dut.parameter = 1;
    dut.configure();
    assert_eq!(members(&dut), [1, CUSTOMERS]);
    dut.settle();
    assert_eq!(members(&dut), [1, CUSTOMERS]);
    assert!(dut.peers[1..].iter().all(|peer| peer.received[&Ipv4Prefix::nth(0)].path[1] == 64999));
}

#[test]
fn an_external_neighbor_without_a_policy_exchanges_nothing() {
    let mut dut = router::<Ipv4Prefix>();
    let mut config = dut.config();
    config.neighbors.iter_mut().for_each(|neighbor| neighbor.default_policy = None);
    dut.input(Input::Configure(config.clone()));
    dut.settle();
    assert!(dut.rib.is_empty(), "nothing of an external neighbor is accepted");
    assert!(dut.peers.iter().all(|peer| peer.received.is_empty()));
    // An import policy alone lets routes in; the internal neighbor receives routes without a policy.
    config.neighbors[0].default_policy = Some(DefaultPolicy::Accept);
    dut.input(Input::Configure(config));
    dut.settle();
    assert_eq!(dut.rib.len(), MANY as usize);
    assert_eq!((dut.peers[1].received.len(), dut.peers[2].received.len()), (0, MANY as usize));
}

/// A router that does not store what the import policy of its feed rejects: all but the low prefixes of a changing policy.
fn forgetful<P: Net>(has_refresh: bool) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    dut.peers[0].keep_rejected = false;
    dut.peers[0].import = TestPolicy::RejectLow;
    dut.configure();
    if has_refresh {
        dut.up(0);
    } else {
        dut.up_without_refresh(0);
    }
    (1..3).for_each(|peer| dut.up(peer));
    let all: Vec<P> = (0..MANY).map(P::nth).collect();
    for chunk in all.chunks(400) {
        dut.announce(0, chunk, &Route::new(vec![65002, 7], P::host_addr(2)));
    }
    dut.settle();
    dut
}

/// Returns the stored paths of the feed, the rejected ones among them, and the requests for routes so far.
fn stored<P: Net>(dut: &Dut<P>) -> (u32, u32, usize) {
    let index = dut.speaker.neighbor(dut.peers[0].address).unwrap().index;
    let tables = dut.speaker.tables();
    let asked = dut.peers[0].messages.iter().filter(|kind| **kind == MessageType::RouteRefresh).count();
    (tables.received::<P>(index), tables.rejected::<P>(index), asked)
}

fn no_refresh<P: Net>(dut: &mut Dut<P>) -> Vec<bool> {
    let lack = |event: PeerEvent| match event {
        PeerEvent::NoRefresh(without) => Some(without.is_missing),
        _ => None,
    };
    dut.events.drain(..).filter_map(|event| lack(event.what)).collect()
}

fn rejected_routes_are_not_stored_and_come_by_refresh<P: Net>() {
    let low = u32::try_from(LOW).unwrap();
    let mut dut = forgetful::<P>(true);
    assert_eq!(stored(&dut), (MANY - low, 0, 0));
    assert_eq!(no_refresh(&mut dut), Vec::<bool>::new());
    let import = |policy: TestPolicy| move |dut: &mut Dut<P>| dut.peers[0].import = policy;
    // Receivers are sent what they would be sent if the routes had been stored.
    assert_eq!(change(&mut dut, import(TestPolicy::AcceptAll)), [(LOW, 0); 2]);
    assert_eq!(stored(&dut), (MANY, 0, 1));
    assert_eq!(change(&mut dut, import(TestPolicy::RejectLow)), [(0, LOW); 2]);
    assert_eq!(stored(&dut), (MANY - low, 0, 2));
    assert_eq!(change(&mut dut, import(TestPolicy::Nothing)), [(0, u64::from(MANY) - LOW); 2]);
    assert_eq!(stored(&dut), (0, 0, 3));
    // Nothing is stored, and nothing holds memory.
    let view = dut.speaker.tables().view(P::INDEX);
    assert_eq!((view.prefixes, view.attribute_sets, view.imported_pairs), (0, 0, 0));
    // An equal policy asks for nothing.
    assert_eq!(change(&mut dut, import(TestPolicy::Nothing)), [(0, 0); 2]);
    assert_eq!(stored(&dut), (0, 0, 3));
    // From now on everything is stored again, for which the feed is asked once.
    assert_eq!(change(&mut dut, |dut| dut.peers[0].keep_rejected = true), [(0, 0); 2]);
    assert_eq!(stored(&dut), (MANY, MANY, 4));
    assert_eq!(change(&mut dut, import(TestPolicy::AcceptAll)), [(MANY.into(), 0); 2]);
    assert_eq!(stored(&dut), (MANY, 0, 4));
    assert_eq!(change(&mut dut, import(TestPolicy::RejectLow)), [(0, LOW); 2]);
    assert_eq!(stored(&dut), (MANY, low, 4));
    // What is rejected is dropped without a word to anybody.
    assert_eq!(change(&mut dut, |dut| dut.peers[0].keep_rejected = false), [(0, 0); 2]);
    assert_eq!(stored(&dut), (MANY - low, 0, 4));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn rejected_routes_are_not_stored_and_come_by_refresh_ipv4() {
    rejected_routes_are_not_stored_and_come_by_refresh::<Ipv4Prefix>();
}

#[test]
fn rejected_routes_are_not_stored_and_come_by_refresh_ipv6() {
    rejected_routes_are_not_stored_and_come_by_refresh::<Ipv6Prefix>();
}

#[test]
fn a_rejected_route_takes_the_place_of_the_accepted_one_before() {
    let mut dut = forgetful::<Ipv4Prefix>(true);
    dut.peers[0].import = TestPolicy::Nothing;
    dut.configure();
    // The walk has not come to the route, and the feed announces the route again.
    dut.announce(
        0,
        &[Ipv4Prefix::nth(100)],
        &Route { origin: 2, ..Route::new(vec![65002], Ipv4Prefix::host_addr(2)) },
    );
    assert!(dut.speaker.tables().route(Ipv4Prefix::nth(100)).is_none());
    dut.settle();
    assert_eq!(stored(&dut).0, 0);
}

#[test]
fn a_neighbor_that_cannot_be_asked_is_reported() {
    let mut dut = forgetful::<Ipv4Prefix>(false);
    let shown = |dut: &Dut<Ipv4Prefix>| {
        let view = dut.speaker.neighbor(dut.peers[0].address).unwrap();
        view.without_refresh.map(|without| (without.is_missing, without.to_string()))
    };
    assert_eq!(no_refresh(&mut dut), [false]);
    let (is_missing, text) = shown(&dut).unwrap();
    assert!(!is_missing && text.contains("configure `keep-rejected true`"), "{text}");
    // Stored routes are decided on again at once; the others are missing until the session comes up anew.
    dut.peers[0].import = TestPolicy::PrependLow;
    dut.configure();
    dut.settle();
    assert_eq!(
        (no_refresh(&mut dut), stored(&dut)),
        (vec![true], (MANY - u32::try_from(LOW).unwrap(), 0, 0))
    );
    assert!(
        shown(&dut).is_some_and(|(is_missing, text)| is_missing && text.contains("`clear bgp neighbor`"))
    );
    // Keeping from now on brings no route back.
    dut.peers[0].keep_rejected = true;
    dut.configure();
    assert!(shown(&dut).is_some_and(|(is_missing, _)| is_missing));
    dut.down(0);
    dut.up_without_refresh(0);
    assert_eq!(shown(&dut), None);
    // A neighbor whose rejected routes are stored needs no refresh.
    assert!(dut.peers[0].keep_rejected && no_refresh(&mut dut) == [true]);
}
