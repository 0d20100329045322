//! Aggregates: one route in the place of many, by the rules of RFC 4271, section 9.2.2.2.

use serde_json::json;
use sluice_base::{AnyPrefix, Duration, IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::NotSent;
use sluice_bgp::speaker::{AggregateConfig, Config, Input, Speaker};
use sluice_bgp::wire::attribute::code;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, OWN_ID, Route};
use sluice_machine::{Machine, Outbox};

/// A family with prefixes to aggregate.
trait Aggregated: Net {
    /// An aggregate.
    fn whole() -> Self;
    /// Parts of the aggregate under several covers, and so in several tables.
    fn nth_part(n: u8) -> Self;
    /// A prefix outside the aggregate.
    fn outside() -> Self;
}

impl Aggregated for Ipv4Prefix {
    fn whole() -> Self {
        "172.0.0.0/8".parse().unwrap()
    }
    fn nth_part(n: u8) -> Self {
        format!("172.{n}.7.0/24").parse().unwrap()
    }
    fn outside() -> Self {
        "198.51.100.0/24".parse().unwrap()
    }
}

impl Aggregated for Ipv6Prefix {
    fn whole() -> Self {
        "2001:d00::/24".parse().unwrap()
    }
    fn nth_part(n: u8) -> Self {
        format!("2001:d{n:02x}:7::/48").parse().unwrap()
    }
    fn outside() -> Self {
        "2001:e00::/32".parse().unwrap()
    }
}

/// A router of three tables with two feeds, an external receiver and an internal one.
fn router<P: Aggregated>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004, LOCAL_AS], 3);
    (2..4).for_each(|host| dut.set_reach(P::host_addr(host), Some((0, true))));
    (0..4).for_each(|peer| dut.up(peer));
    dut.settle();
    dut
}

fn policies() -> Policies {
    let source = json!({
        "community": [{"name": "no-export", "member": ["no-export"]}],
        "policy-statement": [
            {"name": "short", "term": [
                {"name": "all", "from": {"as-path-length": ["3-100"]}, "then": {"reject": [null]}},
            ]},
            {"name": "marked", "term": [{"name": "all", "then": {"community-add": "no-export", "med": 9}}]},
        ],
    });
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}

fn aggregate<P: Aggregated>() -> AggregateConfig {
    let prefix: IpPrefix = P::whole().as_ip().unwrap();
    AggregateConfig { prefix, summary_only: false, as_set: false, contributors: vec![] }
}

fn config<P: Aggregated>(dut: &Dut<P>, aggregates: Vec<AggregateConfig>) -> Config {
    Config { policies: policies(), aggregates, ..dut.config() }
}

fn configure<P: Aggregated>(dut: &mut Dut<P>, aggregates: Vec<AggregateConfig>) {
    let config = config(dut, aggregates);
    dut.input(Input::Configure(config));
    rest(dut);
}

/// Runs until the aggregates are up to date.
fn rest<P: Aggregated>(dut: &mut Dut<P>) {
    for _ in 0..3 {
        dut.settle();
        dut.now = dut.now + Duration::from_secs(1);
        dut.fire();
    }
    dut.settle();
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

/// Returns the external receiver's route of the aggregate.
fn advertised<P: Aggregated>(dut: &Dut<P>) -> Option<&Route> {
    dut.peers[2].received.get(&P::whole())
}

fn feed<P: Aggregated>(dut: &mut Dut<P>, peer: usize, parts: &[u8], path: Vec<u32>) {
    let parts: Vec<P> = parts.iter().map(|n| P::nth_part(*n)).collect();
    let hop = P::host_addr(peer as u8 + 2);
    dut.announce(peer, &parts, &Route::new(path, hop));
}

fn the_aggregate_lives_as_long_as_a_contributor<P: Aggregated>() {
    let mut dut = router::<P>();
    configure(&mut dut, vec![aggregate::<P>()]);
    assert_eq!(advertised(&dut), None);
    dut.announce(0, &[P::outside()], &Route::new(vec![65002], P::host_addr(2)));
    rest(&mut dut);
    assert_eq!(advertised(&dut), None, "a prefix outside does not contribute");
    feed(&mut dut, 0, &[1, 2, 3], vec![65002, 7]);
    feed(&mut dut, 1, &[40, 50], vec![65003]);
    assert_eq!(advertised(&dut), None);
    rest(&mut dut);
    let route = advertised(&dut).unwrap();
    let aggregator = [LOCAL_AS.to_be_bytes(), OWN_ID.to_be_bytes()].concat();
    let expected = vec![(0x40, code::ATOMIC_AGGREGATE, vec![]), (0xc0, code::AGGREGATOR, aggregator)];
    assert_eq!((&route.path, route.origin, route.med), (&vec![LOCAL_AS], 0, None));
    assert_eq!(route.others, expected);
    assert_eq!(dut.peers[3].received[&P::whole()].path, Vec::<u32>::new());
    assert_eq!(dut.peers[2].received.len(), 7, "contributors are announced too");
    // Packets without a contributor are dropped: no packet circles.
    assert_eq!(dut.rib_discards.get(&P::whole()), Some(&200));
    let parts: Vec<P> = [1, 2, 3].into_iter().map(P::nth_part).collect();
    dut.withdraw(0, &parts);
    rest(&mut dut);
    assert!(advertised(&dut).is_some());
    dut.down(1);
    rest(&mut dut);
    assert_eq!((advertised(&dut), dut.rib_discards.len()), (None, 0));
}

#[test]
fn the_aggregate_lives_as_long_as_a_contributor_ipv4() {
    the_aggregate_lives_as_long_as_a_contributor::<Ipv4Prefix>();
}

#[test]
fn the_aggregate_lives_as_long_as_a_contributor_ipv6() {
    the_aggregate_lives_as_long_as_a_contributor::<Ipv6Prefix>();
}

#[test]
fn as_sets_are_made_on_request() {
    let mut dut = router::<Ipv4Prefix>();
    configure(&mut dut, vec![AggregateConfig { as_set: true, ..aggregate::<Ipv4Prefix>() }]);
    feed(&mut dut, 0, &[1, 2], vec![65002, 7]);
    rest(&mut dut);
    let route = advertised(&dut).unwrap();
    // The receiver of the same paths receives the path, and nothing is left out.
    assert_eq!((&route.path, route.others.len()), (&vec![LOCAL_AS, 65002, 7], 1));
    feed(&mut dut, 1, &[3], vec![65003, 8]);
    rest(&mut dut);
    assert_eq!(advertised(&dut).unwrap().path, [LOCAL_AS, 7, 8, 65002, 65003]);
    configure(&mut dut, vec![aggregate::<Ipv4Prefix>()]);
    assert_eq!(advertised(&dut).unwrap().path, [LOCAL_AS]);
}

fn contributors_are_suppressed<P: Aggregated>() {
    let mut dut = router::<P>();
    let short = vec!["short".to_owned()];
    let summary = AggregateConfig { summary_only: true, ..aggregate::<P>() };
    configure(&mut dut, vec![summary.clone()]);
    feed(&mut dut, 0, &[1, 2, 3], vec![65002]);
    feed(&mut dut, 1, &[40, 50], vec![65003, 8, 9]);
    dut.announce(0, &[P::outside()], &Route::new(vec![65002], P::host_addr(2)));
    dut.settle();
    assert_eq!(dut.peers[2].received.len(), 1, "no contributor is announced before the aggregate is");
    rest(&mut dut);
    assert_eq!(dut.peers[2].received.keys().copied().collect::<Vec<P>>(), [P::whole(), P::outside()]);
    let verdict = |dut: &Dut<P>, part| {
        let neighbor = dut.speaker.neighbor(dut.peers[2].address).unwrap();
        dut.speaker.tables().export_verdict(neighbor.index, P::nth_part(part))
    };
    let suppressed = NotSent::Suppressed(AnyPrefix::of(P::whole()));
    assert_eq!(verdict(&dut, 1), Err(suppressed.clone()));
    // The RIB has contributors in any case.
    assert_eq!((dut.rib.len(), dut.rib_discards.len()), (6, 1));
    // A policy selects contributors: the others are announced.
    configure(&mut dut, vec![AggregateConfig { contributors: short.clone(), ..summary.clone() }]);
    assert_eq!(dut.peers[2].received.len(), 4);
    assert!(verdict(&dut, 1) == Err(suppressed) && verdict(&dut, 40).is_ok());
    // A longer path no longer contributes.
    feed(&mut dut, 0, &[1], vec![65002, 5, 6, 7]);
    rest(&mut dut);
    assert_eq!(dut.peers[2].received.len(), 5);
    feed(&mut dut, 0, &[2, 3], vec![65002, 5, 6, 7]);
    rest(&mut dut);
    assert_eq!((dut.peers[2].received.len(), advertised(&dut)), (6, None));
    configure(&mut dut, vec![summary]);
    assert_eq!(dut.peers[2].received.len(), 2);
    configure(&mut dut, vec![]);
    assert_eq!((dut.peers[2].received.len(), advertised(&dut)), (6, None));
}

#[test]
fn contributors_are_suppressed_ipv4() {
    contributors_are_suppressed::<Ipv4Prefix>();
}

#[test]
fn contributors_are_suppressed_ipv6() {
    contributors_are_suppressed::<Ipv6Prefix>();
}

#[test]
fn aggregates_do_not_contribute_to_aggregates() {
    let mut dut = router::<Ipv4Prefix>();
    let wide = AggregateConfig { prefix: "168.0.0.0/5".parse().unwrap(), ..aggregate::<Ipv4Prefix>() };
    let narrow = AggregateConfig { summary_only: true, ..aggregate::<Ipv4Prefix>() };
    configure(&mut dut, vec![AggregateConfig { summary_only: true, ..wide }, narrow]);
    feed(&mut dut, 0, &[1], vec![65002]);
    rest(&mut dut);
    let advertised: Vec<String> = dut.peers[2].received.keys().map(ToString::to_string).collect();
    assert_eq!(advertised, ["168.0.0.0/5", "172.0.0.0/8"]);
    let counts: Vec<u32> = dut.speaker.aggregates().iter().map(|view| view.contributors).collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn contributors_that_flap_cost_one_update_a_rest() {
    let mut dut = router::<Ipv4Prefix>();
    configure(&mut dut, vec![AggregateConfig { summary_only: true, ..aggregate::<Ipv4Prefix>() }]);
    feed(&mut dut, 1, &[200], vec![65003]);
    rest(&mut dut);
    let before = dut.peers[2].updates;
    for n in 0..100_u8 {
        feed(&mut dut, 0, &[n % 7], vec![65002, 7]);
        dut.settle();
        dut.withdraw(0, &[Ipv4Prefix::nth_part(n % 7)]);
        dut.settle();
    }
    rest(&mut dut);
    assert_eq!(dut.peers[2].updates, before, "another contributor keeps the aggregate as it is");
    // The last contributor flaps: 40 changes in 4 s, each a change of the aggregate.
    dut.withdraw(1, &[Ipv4Prefix::nth_part(200)]);
    rest(&mut dut);
    let before = dut.peers[2].updates;
    for n in 0..40 {
        if n % 2 == 0 {
            feed(&mut dut, 1, &[200], vec![65003]);
        } else {
            dut.withdraw(1, &[Ipv4Prefix::nth_part(200)]);
        }
        dut.settle();
        dut.now = dut.now + Duration::from_millis(100);
        dut.fire();
    }
    rest(&mut dut);
    let updates = dut.peers[2].updates - before;
    assert!(updates <= 5, "{updates} UPDATEs in 4 s");
    assert_eq!(advertised(&dut), None);
}

#[test]
fn policies_give_aggregates_their_attributes() {
    let mut dut = router::<Ipv4Prefix>();
    feed(&mut dut, 0, &[1], vec![65002]);
    let marked = config(&dut, vec![aggregate::<Ipv4Prefix>()]);
    let marked = Config { aggregate_policy: vec!["marked".into()], ..marked };
    dut.input(Input::Configure(marked));
    rest(&mut dut);
    assert!(advertised(&dut).is_none() && dut.peers[3].received[&Ipv4Prefix::whole()].no_export);
    configure(&mut dut, vec![aggregate::<Ipv4Prefix>()]);
    assert!(advertised(&dut).is_some_and(|route| route.med.is_none()));
}

#[test]
fn a_process_that_takes_over_announces_nothing_again() {
    let mut dut = router::<Ipv4Prefix>();
    configure(&mut dut, vec![AggregateConfig { summary_only: true, ..aggregate::<Ipv4Prefix>() }]);
    feed(&mut dut, 0, &[1, 2, 3], vec![65002]);
    rest(&mut dut);
    let state = dut.speaker.export();
    let mut after = Speaker::starting_at(state.control.identity.clone(), dut.now);
    let mut out = Outbox::new();
    after.import(dut.now, state, &mut out);
    let mut octets = vec![];
    assert!(!after.fill(dut.now, dut.peers[2].address, 100_000, &mut octets) && octets.is_empty());
    dut.speaker = after;
    let before = dut.peers[2].updates;
    rest(&mut dut);
    assert_eq!(dut.peers[2].updates, before);
    // The sums are those of before.
    dut.withdraw(0, &[Ipv4Prefix::nth_part(1), Ipv4Prefix::nth_part(2)]);
    rest(&mut dut);
    assert!(advertised(&dut).is_some());
    dut.withdraw(0, &[Ipv4Prefix::nth_part(3)]);
    rest(&mut dut);
    assert!(advertised(&dut).is_none());
}
