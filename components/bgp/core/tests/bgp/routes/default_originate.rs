//! The default route for neighbors with `default-originate`, and for no further neighbors.

use serde_json::json;
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::Elimination;
use sluice_bgp::speaker::{Config, DefaultOriginate, Input, PresenceQuestion, PresenceScope};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route};

/// A router with a feed, an external and an internal receiver.
fn router<P: Net>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..3).for_each(|peer| dut.up(peer));
    let some: Vec<P> = (0..500).map(P::nth).collect();
    dut.announce(0, &some, &Route::new(vec![65002, 7], P::host_addr(2)));
    dut.settle();
    dut
}

fn policies() -> Policies {
    let source = json!({"policy-statement": [
        {"name": "costly", "term": [{"name": "all", "then": {"med": 7, "as-path-prepend": "64999"}}]},
        {"name": "none", "term": [{"name": "all", "then": {"reject": [null]}}]},
    ]});
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}

/// The configuration in which receivers have this `default-originate`, and reject all else if `is_closed`.
fn config<P: Net>(dut: &Dut<P>, originate: [Option<DefaultOriginate>; 2], is_closed: bool) -> Config {
    let mut config = Config { policies: policies(), ..dut.config() };
    for (neighbor, originate) in config.neighbors[1..].iter_mut().zip(originate) {
        neighbor.default_originate = originate;
        if is_closed {
            neighbor.export = vec!["none".into()];
        }
    }
    config
}

fn configure<P: Net>(dut: &mut Dut<P>, originate: [Option<DefaultOriginate>; 2], is_closed: bool) {
    let config = config(dut, originate, is_closed);
    dut.input(Input::Configure(config));
    dut.settle();
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

/// Returns the AS paths of the receivers' default routes.
fn paths<P: Net>(dut: &Dut<P>) -> [Option<Vec<u32>>; 2] {
    [1, 2].map(|peer| dut.peers[peer].received.get(&P::default_route()).map(|route| route.path.clone()))
}

fn always() -> Option<DefaultOriginate> {
    Some(DefaultOriginate::default())
}

fn only_the_neighbor_receives_it<P: Net>() {
    let mut dut = router::<P>();
    let before: Vec<usize> = dut.peers.iter().map(|peer| peer.received.len()).collect();
    configure(&mut dut, [always(), None], false);
    let own = Some(vec![LOCAL_AS]);
    assert_eq!(paths(&dut), [own.clone(), None]);
    assert!(!dut.rib.contains_key(&P::default_route()), "the RIB has it not from BGP");
    // A learned default route goes to the others, and to the RIB.
    dut.announce(0, &[P::default_route()], &Route::new(vec![65002, 9], P::host_addr(2)));
    dut.settle();
    let (learned, inside) = (Some(vec![LOCAL_AS, 65002, 9]), Some(vec![65002, 9]));
    assert_eq!(paths(&dut), [own.clone(), inside.clone()]);
    assert!(dut.rib.contains_key(&P::default_route()));
    let route = dut.speaker.tables().route(P::default_route()).unwrap();
    let lost: Vec<Option<Elimination>> = route.paths.iter().map(|path| path.lost).collect();
    assert_eq!(lost, [None, Some(Elimination::DefaultOriginate)]);
    // Without the statement the neighbor receives what the others do; export policy does not see the route.
    configure(&mut dut, [None, always()], false);
    assert_eq!(paths(&dut), [learned.clone(), Some(vec![])]);
    configure(&mut dut, [always(), None], true);
    assert_eq!(paths(&dut), [own.clone(), None]);
    assert_eq!(dut.peers[1].received.len(), 1);
    configure(&mut dut, [None, None], false);
    assert_eq!(paths(&dut), [learned, inside]);
    dut.withdraw(0, &[P::default_route()]);
    dut.settle();
    assert_eq!(paths(&dut), [None, None]);
    let after: Vec<usize> = dut.peers.iter().map(|peer| peer.received.len()).collect();
    assert_eq!(after, before);
    assert!(dut.speaker.tables().route(P::default_route()).is_none(), "nothing is left");
}

#[test]
fn only_the_neighbor_receives_it_ipv4() {
    only_the_neighbor_receives_it::<Ipv4Prefix>();
}

#[test]
fn only_the_neighbor_receives_it_ipv6() {
    only_the_neighbor_receives_it::<Ipv6Prefix>();
}

#[test]
fn a_policy_gives_the_route_its_attributes_or_rejects_it() {
    let mut dut = router::<Ipv4Prefix>();
    let with =
        |policy: &str| Some(DefaultOriginate { policy: vec![policy.into()], ..DefaultOriginate::default() });
    configure(&mut dut, [with("costly"), None], true);
    let advertised = &dut.peers[1].received[&Ipv4Prefix::default_route()];
    assert_eq!((advertised.path.clone(), advertised.med), (vec![LOCAL_AS, 64999], Some(7)));
    configure(&mut dut, [with("none"), None], true);
    assert_eq!(paths(&dut), [None, None]);
}

#[test]
fn the_route_follows_its_condition() {
    let mut dut = router::<Ipv4Prefix>();
    let uplink: IpPrefix = "2001:db8:7::/48".parse().unwrap();
    let question = PresenceQuestion { scope: PresenceScope::All, prefix: uplink };
    let originate = Some(DefaultOriginate { while_present: Some(uplink), policy: vec![] });
    configure(&mut dut, [originate.clone(), None], false);
    assert!(dut.asked.contains(&question));
    assert_eq!(paths(&dut), [None, None]);
    let set_present = |dut: &mut Dut<Ipv4Prefix>, is_present| {
        dut.input(Input::Presence(vec![(question, is_present)]));
        dut.settle();
        paths(dut)
    };
    assert_eq!(set_present(&mut dut, true), [Some(vec![LOCAL_AS]), None]);
    // A session that comes up later receives it too.
    dut.down(1);
    dut.up(1);
    dut.settle();
    assert_eq!(paths(&dut), [Some(vec![LOCAL_AS]), None]);
    assert_eq!(set_present(&mut dut, false), [None, None]);
}
