//! Outbound route filters by prefix (RFC 5291, RFC 5292), in both directions.

use serde_json::json;
use sluice_base::{Duration, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::NotSent;
use sluice_bgp::speaker::{Config, Input, Speaker};
use sluice_bgp::wire::orf::{Action, Entry, FilterFamily, FilterMessage, RECEIVE, SEND, messages};
use sluice_bgp::wire::route_refresh::subtype;
use sluice_bgp::wire::{Capability, MessageType, RouteRefresh, header};
use sluice_bgp_dut::{Dut, Net, Route};
use sluice_machine::{Machine, Outbox};

/// A router with a feed of 100 routes, and a receiver that sends filters and takes some.
fn router<P: Net>(list: Option<&[&str]>) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003], 3);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    configure(&mut dut, list);
    dut.up(0);
    let all: Vec<P> = (0..100).map(P::nth).collect();
    dut.announce(0, &all, &Route::new(vec![65002], P::host_addr(2)));
    dut.settle();
    dut.up_with(1, &[filters::<P>(RECEIVE | SEND), Capability::EnhancedRefresh]);
    dut.settle();
    dut
}

fn filters<P: Net>(mode: u8) -> Capability {
    Capability::RouteFilter(vec![FilterFamily { afi: P::AFI, safi: P::SAFI, mode }])
}

fn config<P: Net>(dut: &Dut<P>, list: Option<&[&str]>) -> Config {
    let source = json!({"prefix-list": [{"name": "wanted", "prefix": list.unwrap_or_default()}]});
    let policies = Policies::compile(serde_json::from_value(source).unwrap()).unwrap();
    let mut config = Config { policies, ..dut.config() };
    config.neighbors[1].prefix_filter_receive = true;
    config.neighbors[1].prefix_filter_send = list.map(|_| "wanted".into());
    config
}

fn configure<P: Net>(dut: &mut Dut<P>, list: Option<&[&str]>) {
    let config = config(dut, list);
    dut.input(Input::Configure(config));
    dut.settle();
}

/// An entry that permits or denies exactly a test prefix.
fn exactly<P: Net>(sequence: u32, denies: bool, n: u32) -> Entry {
    Entry { sequence, denies, prefix: P::nth(n).as_ip().unwrap(), min_len: 0, max_len: 0 }
}

fn say<P: Net>(dut: &mut Dut<P>, rest: Vec<u8>) {
    let mut octets = vec![];
    RouteRefresh { rest, ..RouteRefresh::new(P::AFI, P::SAFI, subtype::REQUEST) }.put(&mut octets);
    dut.say(1, &octets);
    dut.settle();
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

fn send<P: Net>(dut: &mut Dut<P>, entries: &[Entry]) {
    messages(entries, true).into_iter().for_each(|rest| say(dut, rest));
}

fn neighbors_receive_what_they_want<P: Net>() {
    let mut dut = router::<P>(None);
    assert_eq!(
        (dut.peers[1].received.len(), dut.peers[1].end_of_rib),
        (0, false),
        "nothing before the filter"
    );
    send(&mut dut, &[exactly::<P>(1, false, 3), exactly::<P>(2, false, 4)]);
    assert_eq!(dut.peers[1].received.keys().copied().collect::<Vec<P>>(), [P::nth(3), P::nth(4)]);
    assert!(dut.peers[1].end_of_rib);
    let index = dut.speaker.neighbor(dut.peers[1].address).unwrap().index;
    assert_eq!(dut.speaker.tables().export_verdict(index, P::nth(5)), Err(NotSent::NotWanted));
    // Another filter sends what differs.
    let updates = dut.peers[1].updates;
    send(&mut dut, &[exactly::<P>(1, false, 4), exactly::<P>(2, false, 5)]);
    assert_eq!(dut.peers[1].received.keys().copied().collect::<Vec<P>>(), [P::nth(4), P::nth(5)]);
    assert!(dut.peers[1].updates - updates <= 2);
    // Fresh changes are filtered too.
    dut.withdraw(0, &[P::nth(5), P::nth(6)]);
    dut.announce(0, &[P::nth(200)], &Route::new(vec![65002], P::host_addr(2)));
    dut.settle();
    assert_eq!(dut.peers[1].received.len(), 1);
    // A request without a filter has all wanted routes sent again.
    dut.peers[1].received.clear();
    say(&mut dut, vec![]);
    assert_eq!(dut.peers[1].received.len(), 1);
    // No entries: all routes.
    send(&mut dut, &[]);
    assert_eq!(dut.peers[1].received.len(), 99);
    let events = dut.events.iter().filter(|event| matches!(event.what, PeerEvent::BadFilter(_))).count();
    assert_eq!(events, 0);
    // A malformed entry removes the filter, and a cut message too.
    send(&mut dut, &[exactly::<P>(1, false, 4)]);
    assert_eq!(dut.peers[1].received.len(), 1);
    say(&mut dut, vec![1, 64, 0, 8, 0, 0, 0, 0, 1, 0, 0, 255]);
    assert_eq!(dut.peers[1].received.len(), 99);
    send(&mut dut, &[exactly::<P>(1, false, 4)]);
    say(&mut dut, vec![1, 64, 9, 9]);
    assert_eq!(dut.peers[1].received.len(), 99);
    let events = dut.events.iter().filter(|event| matches!(event.what, PeerEvent::BadFilter(_))).count();
    assert_eq!(events, 2);
}

#[test]
fn neighbors_receive_what_they_want_ipv4() {
    neighbors_receive_what_they_want::<Ipv4Prefix>();
}

#[test]
fn neighbors_receive_what_they_want_ipv6() {
    neighbors_receive_what_they_want::<Ipv6Prefix>();
}

#[test]
fn deferred_entries_wait_for_a_request() {
    let mut dut = router::<Ipv4Prefix>(None);
    say(&mut dut, vec![]);
    assert_eq!(dut.peers[1].received.len(), 100);
    let mut deferred = messages(&[exactly::<Ipv4Prefix>(1, true, 4)], false).remove(0);
    deferred[0] = 2;
    say(&mut dut, deferred);
    assert_eq!(dut.peers[1].received.len(), 100);
    say(&mut dut, vec![]);
    assert_eq!(dut.peers[1].received.len(), 0, "no entry permits anything");
}

#[test]
fn a_neighbor_that_sends_no_filter_receives_all_after_a_while() {
    let mut dut = router::<Ipv4Prefix>(None);
    assert_eq!(dut.peers[1].received.len(), 0);
    dut.now = dut.now + Duration::from_secs(10);
    dut.fire();
    dut.settle();
    assert_eq!(dut.peers[1].received.len(), 100);
}

/// The filters that the receiver was sent, joined, and the number of messages.
fn sent(dut: &Dut<Ipv4Prefix>) -> (Vec<Action>, usize) {
    let frames = dut.peers[1].wire.iter().map(|message| header::frame(message).unwrap().unwrap());
    let refreshes = frames.filter(|frame| frame.kind == MessageType::RouteRefresh);
    let refreshes = refreshes.map(|frame| RouteRefresh::decode(frame.body).unwrap());
    let filters = refreshes.filter(|refresh| refresh.subtype == subtype::REQUEST);
    let filters: Vec<FilterMessage> =
        filters.map(|refresh| FilterMessage::decode(&refresh.rest, true).unwrap()).collect();
    let count = filters.len();
    (filters.into_iter().flat_map(|filter| filter.actions.unwrap()).collect(), count)
}

#[test]
fn a_list_is_sent_as_a_filter() {
    let list = ["10.0.0.0/8 upto /24", "192.0.2.0/24", "2001:db8::/32 orlonger", "172.16.0.0/12 longer"];
    let mut dut = router::<Ipv4Prefix>(Some(&list));
    let entry = |sequence, prefix: &str, min_len, max_len| {
        Action::Add(Entry { sequence, denies: false, prefix: prefix.parse().unwrap(), min_len, max_len })
    };
    let expected = vec![
        entry(5, "10.0.0.0/8", 0, 24),
        entry(10, "192.0.2.0/24", 0, 0),
        entry(15, "172.16.0.0/12", 13, 32),
    ];
    assert_eq!(sent(&dut), (expected, 1));
    // Another list in the same session; the same list is not sent again.
    dut.peers[1].wire.clear();
    configure(&mut dut, Some(&list));
    assert_eq!(sent(&dut).1, 0);
    configure(&mut dut, Some(&list[1..2]));
    assert_eq!(sent(&dut), (vec![Action::RemoveAll, entry(5, "192.0.2.0/24", 0, 0)], 2));
    assert!(dut.peers[1].connection.is_some());
}

#[test]
fn filters_are_handed_over() {
    let list = ["10.0.0.0/8 upto /24"];
    let mut dut = router::<Ipv4Prefix>(Some(&list));
    send(&mut dut, &[exactly::<Ipv4Prefix>(1, false, 3)]);
    let state = dut.speaker.export();
    let mut after = Speaker::starting_at(state.control.identity.clone(), dut.now);
    let mut out = Outbox::new();
    after.import(dut.now, state, &mut out);
    dut.speaker = after;
    dut.peers[1].wire.clear();
    configure(&mut dut, Some(&list));
    assert_eq!((dut.peers[1].wire.len(), dut.peers[1].received.len()), (0, 1));
    send(&mut dut, &[exactly::<Ipv4Prefix>(1, false, 4)]);
    assert_eq!(dut.peers[1].received.keys().copied().collect::<Vec<_>>(), [Ipv4Prefix::nth(4)]);
}
