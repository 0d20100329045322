//! Presence of routes at the RIB: dependent policies and networks send only changes.

use serde_json::json;
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::policy::Policies;
use sluice_bgp::speaker::{
    Config, DefaultOriginate, Input, Output, PresenceQuestion, PresenceScope, RouterState, Speaker,
};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use std::collections::BTreeSet;

const MANY: u32 = 3000;
const LOW: u64 = 8;

fn all(prefix: IpPrefix) -> PresenceQuestion {
    PresenceQuestion { scope: PresenceScope::All, prefix }
}

fn others(prefix: IpPrefix) -> PresenceQuestion {
    PresenceQuestion { scope: PresenceScope::Others, prefix }
}

/// The route in the policies' conditions.
fn uplink() -> IpPrefix {
    "203.0.113.0/24".parse().unwrap()
}

/// Rejects the first prefixes unless the RIB has the route.
fn policies<P: Net>() -> Policies {
    let low: Vec<String> = (0..LOW as u32).map(|n| P::nth(n).as_ip().unwrap().to_string()).collect();
    let source = json!({
        "prefix-list": [{"name": "low", "prefix": low}],
        "policy-statement": [{"name": "while-up", "term": [
            {"name": "up", "from": {"route-present": [uplink().to_string()]}, "then": {"accept": [null]}},
            {"name": "low", "from": {"prefix-list": ["low"]}, "then": {"reject": [null]}},
        ]}],
    });
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}

/// A router with a feed and two receivers.
fn router<P: Net>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    dut
}

fn connect<P: Net>(dut: &mut Dut<P>) {
    (0..3).for_each(|peer| dut.up(peer));
    let prefixes: Vec<P> = (0..MANY).map(P::nth).collect();
    for chunk in prefixes.chunks(400) {
        dut.announce(0, chunk, &Route::new(vec![65002, 7], P::host_addr(2)));
    }
    dut.settle();
}

fn config<P: Net>(dut: &Dut<P>) -> Config {
    let mut config = Config { policies: policies::<P>(), ..dut.config() };
    config.neighbors[1].export = vec!["while-up".into()];
    config
}

fn a_fact_sends_what_it_changes<P: Net>() {
    let mut dut = router::<P>();
    let config = config(&dut);
    dut.input(Input::Configure(config.clone()));
    assert_eq!(dut.asked, BTreeSet::from([all(uplink())]));
    connect(&mut dut);
    // The RIB has not answered yet: the route is absent.
    assert_eq!(dut.sent(), [(u64::from(MANY) - LOW, 0), (MANY.into(), 0)]);
    let presence = |is_present| Input::Presence(vec![(all(uplink()), is_present)]);
    assert_eq!(dut.news(presence(false)), [(0, 0); 2]);
    assert_eq!(dut.news(presence(true)), [(LOW, 0), (0, 0)]);
    assert_eq!(dut.news(presence(true)), [(0, 0); 2]);
    // What the router announces is what a router announces that knew the fact from the beginning.
    let mut cold = router::<P>();
    cold.input(Input::Configure(config.clone()));
    cold.input(presence(true));
    connect(&mut cold);
    assert_eq!(dut.peers[1].received, cold.peers[1].received);
    // A lost RIB changes nothing, and the next one is asked again.
    dut.asked.clear();
    assert_eq!(dut.news(Input::RibRestarted), [(0, 0); 2]);
    assert_eq!(dut.asked, BTreeSet::from([all(uplink())]));
    assert_eq!(dut.news(presence(false)), [(0, LOW), (0, 0)]);
    // Import policies are bound again too: routes that came are decided on again.
    let mut imports = config.clone();
    imports.neighbors[1].export.clear();
    imports.neighbors[0].import = vec!["while-up".into()];
    assert_eq!(dut.news(Input::Configure(imports)), [(0, 0), (0, LOW)]);
    assert_eq!(dut.news(presence(true)), [(LOW, 0); 2]);
    assert_eq!(dut.news(presence(false)), [(0, LOW); 2]);
    // Nobody asks any more.
    let plain = dut.config();
    assert_eq!(dut.news(Input::Configure(plain)), [(LOW, 0); 2]);
    assert_eq!((dut.asked.len(), dut.news(presence(true))), (0, [(0, 0); 2]));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn a_fact_sends_what_it_changes_ipv4() {
    a_fact_sends_what_it_changes::<Ipv4Prefix>();
}

#[test]
fn a_fact_sends_what_it_changes_ipv6() {
    a_fact_sends_what_it_changes::<Ipv6Prefix>();
}

/// A process that takes over knows the RIB's answers, and sends neighbors nothing.
#[test]
fn facts_are_handed_over() {
    let mut dut = router::<Ipv4Prefix>();
    let network: IpPrefix = "192.0.2.0/24".parse().unwrap();
    let mut config = Config { networks_while_present: vec![network], ..config(&dut) };
    config.neighbors[2].default_originate =
        Some(DefaultOriginate { while_present: Some(uplink()), policy: vec![] });
    dut.input(Input::Configure(config));
    dut.input(Input::Presence(vec![(all(uplink()), true), (others(network), true)]));
    connect(&mut dut);
    let (identity, state) = (sluice_bgp_dut::identity(2), dut.speaker.export());
    let state: RouterState = serde_json::from_value(serde_json::to_value(state).unwrap()).unwrap();
    let (mut next, mut out) = (Speaker::new(identity), Outbox::new());
    next.import(dut.now, state, &mut out);
    while next.run_slice(dut.now, Budget::SLICE, &mut out) == Progress::More {}
    let outputs: Vec<Output> = out.drain().collect();
    let asked = outputs.iter().filter_map(|output| match output {
        Output::WatchPresence(questions) => Some(questions.clone()),
        _ => None,
    });
    let asked: BTreeSet<PresenceQuestion> = asked.flatten().collect();
    assert_eq!(asked, BTreeSet::from([all(uplink()), others(network)]));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Transmit(..))), "{outputs:?}");
    for (peer, more) in [(1, 1), (2, 2)] {
        let index = next.neighbor(dut.peers[peer].address).unwrap().index;
        let advertised = next.tables().advertised::<Ipv4Prefix>(index);
        assert_eq!((advertised, dut.peers[peer].received.len()), (MANY + more, (MANY + more) as usize));
    }
}

/// A network with a condition is announced while the RIB has a route of another origin.
#[test]
fn a_network_follows_the_route_of_another_origin() {
    let mut dut = router::<Ipv4Prefix>();
    let network: IpPrefix = "192.0.2.0/24".parse().unwrap();
    let config = Config { networks_while_present: vec![network], ..dut.config() };
    dut.input(Input::Configure(config.clone()));
    assert_eq!(dut.asked, BTreeSet::from([others(network)]));
    connect(&mut dut);
    let presence = |question, is_present| Input::Presence(vec![(question, is_present)]);
    assert_eq!(dut.news(presence(others(network), true)), [(1, 0); 2]);
    assert_eq!(dut.news(Input::Configure(config)), [(0, 0); 2]);
    assert_eq!(dut.news(presence(all(network), false)), [(0, 0); 2], "another question");
    assert_eq!(dut.news(presence(others(network), false)), [(0, 1); 2]);
    assert_eq!(dut.news(presence(others(network), true)), [(1, 0); 2]);
    let always = Config { networks: vec![network.into()], ..dut.config() };
    assert_eq!(dut.news(Input::Configure(always)), [(0, 0); 2]);
    assert!(dut.asked.is_empty());
}
