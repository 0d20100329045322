//! Messages beyond RFC 4271: marks of route refreshes (RFC 7313) and extended messages (RFC 8654).

use sluice_base::{Duration, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::event::{DownReason, PeerEvent, RefreshIgnored};
use sluice_bgp::session::State;
use sluice_bgp::shard::NotSent;
use sluice_bgp::wire::attribute::code;
use sluice_bgp::wire::route_refresh::subtype;
use sluice_bgp::wire::{Capability, MAX_EXTENDED_LEN, MessageType, Notification, RouteRefresh, header};
use sluice_bgp_dut::route::announcement;
use sluice_bgp_dut::{Dut, Net, Route};

/// A router of so many tables with a feed and two receivers; the feed and the first receiver have these capabilities.
fn router<P: Net>(capabilities: &[Capability], tables: u16) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004], tables);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..2).for_each(|peer| dut.up_with(peer, capabilities));
    dut.up(2);
    dut.settle();
    dut
}

fn some<P: Net>(count: u32) -> Vec<P> {
    (0..count).map(P::nth).collect()
}

fn feed<P: Net>(dut: &mut Dut<P>, prefixes: &[P]) {
    dut.announce(0, prefixes, &Route::new(vec![65002, 7], P::host_addr(2)));
    dut.settle();
}

fn refresh<P: Net>(subtype: u8) -> Vec<u8> {
    let mut octets = vec![];
    RouteRefresh::new(P::AFI, P::SAFI, subtype).put(&mut octets);
    octets
}

/// The subtypes of the ROUTE-REFRESH messages that a peer was sent, and the number of UPDATEs before each.
fn marks<P: Net>(dut: &Dut<P>, peer: usize) -> Vec<(u8, usize)> {
    let mut updates = 0;
    let mut marks = vec![];
    for message in &dut.peers[peer].wire {
        let frame = header::frame_within(message, MAX_EXTENDED_LEN).unwrap().unwrap();
        match frame.kind {
            MessageType::Update => updates += 1,
            MessageType::RouteRefresh => {
                marks.push((RouteRefresh::decode(frame.body).unwrap().subtype, updates))
            }
            _ => {}
        }
    }
    marks
}

fn ignored<P: Net>(dut: &Dut<P>) -> Vec<RefreshIgnored> {
    let all = dut.events.iter().filter_map(|event| match event.what {
        PeerEvent::RefreshIgnored(_, why) => Some(why),
        _ => None,
    });
    all.collect()
}

fn refreshes_are_marked<P: Net>() {
    let mut dut = router::<P>(&[Capability::EnhancedRefresh], 3);
    feed(&mut dut, &some(300));
    for peer in 1..3 {
        dut.peers[peer].wire.clear();
        dut.peers[peer].received.clear();
        dut.say(peer, &refresh::<P>(subtype::REQUEST));
        dut.settle();
        assert_eq!(dut.peers[peer].received.len(), 300);
    }
    let updates = dut.peers[1].wire.len() - 2;
    assert_eq!(marks(&dut, 1), [(subtype::BEGIN, 0), (subtype::END, updates)]);
    assert_eq!(marks(&dut, 2), [], "the peer does not know marks");
    // A second request before the first is answered: the end comes once, behind all routes.
    dut.peers[1].wire.clear();
    dut.peers[1].received.clear();
    dut.say(1, &refresh::<P>(subtype::REQUEST));
    dut.slice(10);
    dut.transmit(1, 100);
    dut.say(1, &refresh::<P>(subtype::REQUEST));
    dut.settle();
    let marks = marks(&dut, 1);
    assert_eq!(marks.iter().filter(|(subtype, _)| *subtype == subtype::END).count(), 1, "{marks:?}");
    assert_eq!((marks.last().map(|mark| mark.0), dut.peers[1].received.len()), (Some(subtype::END), 300));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn refreshes_are_marked_ipv4() {
    refreshes_are_marked::<Ipv4Prefix>();
}

#[test]
fn refreshes_are_marked_ipv6() {
    refreshes_are_marked::<Ipv6Prefix>();
}

/// The prefixes that a receiver knows.
fn advertised<P: Net>(dut: &Dut<P>) -> usize {
    assert_eq!(dut.peers[1].received.len(), dut.peers[2].received.len());
    dut.peers[1].received.len()
}

fn routes_that_do_not_come_again_are_removed<P: Net>() {
    let mut dut = router::<P>(&[Capability::EnhancedRefresh], 3);
    let all = some::<P>(90);
    feed(&mut dut, &all);
    let updates = dut.peers[1].updates;
    dut.say(0, &refresh::<P>(subtype::BEGIN));
    feed(&mut dut, &all[..60]);
    assert_eq!(
        (advertised(&dut), dut.peers[1].updates),
        (90, updates),
        "stale routes stay, equal ones are no news"
    );
    // Another process goes on with the refresh.
    dut.hand_over();
    assert_eq!(advertised(&dut), 90);
    dut.say(0, &refresh::<P>(subtype::END));
    dut.settle();
    assert_eq!(advertised(&dut), 60);
    // A refresh that does not end: the routes go after a time.
    dut.say(0, &refresh::<P>(subtype::BEGIN));
    feed(&mut dut, &all[..30]);
    dut.now = dut.now + Duration::from_secs(80);
    (0..3).for_each(|peer| dut.say(peer, &keepalive()));
    dut.say(0, &refresh::<P>(subtype::BEGIN));
    for _ in 0..5 {
        dut.now = dut.now + Duration::from_secs(70);
        (0..3).for_each(|peer| dut.say(peer, &keepalive()));
        dut.fire();
        dut.settle();
    }
    assert_eq!(advertised(&dut), 60, "another beginning gives more time");
    dut.now = dut.now + Duration::from_secs(20);
    dut.fire();
    dut.settle();
    assert_eq!(advertised(&dut), 30);
    assert!(dut.events.iter().any(|event| matches!(event.what, PeerEvent::RefreshTookTooLong(_))));
    // An end without a beginning does nothing.
    dut.say(0, &refresh::<P>(subtype::END));
    dut.say(0, &refresh::<P>(9));
    dut.settle();
    assert_eq!(advertised(&dut), 30);
    assert_eq!(ignored(&dut), [RefreshIgnored::EndWithoutBegin, RefreshIgnored::Subtype(9)]);
    // A session that ends in a refresh leaves nothing behind.
    dut.say(0, &refresh::<P>(subtype::BEGIN));
    dut.down(0);
    dut.settle();
    assert_eq!(advertised(&dut), 0);
    dut.up_with(0, &[Capability::EnhancedRefresh]);
    feed(&mut dut, &all);
    dut.say(0, &refresh::<P>(subtype::END));
    dut.settle();
    assert_eq!(advertised(&dut), 90);
}

fn keepalive() -> Vec<u8> {
    let mut octets = vec![];
    header::put_keepalive(&mut octets);
    octets
}

#[test]
fn routes_that_do_not_come_again_are_removed_ipv4() {
    routes_that_do_not_come_again_are_removed::<Ipv4Prefix>();
}

#[test]
fn routes_that_do_not_come_again_are_removed_ipv6() {
    routes_that_do_not_come_again_are_removed::<Ipv6Prefix>();
}

#[test]
fn a_beginning_before_a_promised_end_of_rib_is_ignored() {
    let restart = Capability::GracefulRestart { flags: 0, restart_time: 0, families: vec![] };
    let mut dut = router::<Ipv4Prefix>(&[Capability::EnhancedRefresh, restart], 1);
    feed(&mut dut, &some(10));
    dut.say(0, &refresh::<Ipv4Prefix>(subtype::BEGIN));
    dut.say(0, &refresh::<Ipv4Prefix>(subtype::END));
    dut.settle();
    assert_eq!(advertised(&dut), 10);
    assert_eq!(ignored(&dut), [RefreshIgnored::BeforeEndOfRib, RefreshIgnored::EndWithoutBegin]);
}

#[test]
fn without_the_capability_the_subtype_has_no_meaning() {
    let mut dut = router::<Ipv4Prefix>(&[], 1);
    feed(&mut dut, &some(10));
    dut.peers[1].received.clear();
    dut.say(1, &refresh::<Ipv4Prefix>(subtype::BEGIN));
    dut.settle();
    assert_eq!((dut.peers[1].received.len(), ignored(&dut).len()), (10, 0));
}

/// The NOTIFICATION that ended the session of the feed.
fn notification(dut: &Dut<Ipv4Prefix>) -> Option<Notification> {
    dut.events.iter().find_map(|event| match &event.what {
        PeerEvent::Down(DownReason::Sent(notification)) => Some(notification.clone()),
        _ => None,
    })
}

#[test]
fn a_mark_of_a_wrong_length_ends_the_session() {
    let mut dut = router::<Ipv4Prefix>(&[Capability::EnhancedRefresh], 1);
    let mut octets = vec![];
    let long = RouteRefresh { rest: vec![1, 2], ..RouteRefresh::new(1, 1, subtype::BEGIN) };
    long.put(&mut octets);
    dut.say(0, &octets);
    // RFC 7313, section 5: the data is the whole message.
    assert_eq!(notification(&dut), Some(Notification { code: 7, subcode: 1, data: octets }));
}

/// A route with communities of so many octets.
fn long_route<P: Net>(octets: usize) -> Route {
    let value: Vec<u8> = (0..octets).map(|n| (n % 4 + 1) as u8).collect();
    Route { others: vec![(0xc0, code::COMMUNITIES, value)], ..Route::new(vec![65002, 7], P::host_addr(2)) }
}

fn routes_that_fit_in_no_short_message_go_to_those_who_take_long_ones<P: Net>() {
    let mut dut = router::<P>(&[Capability::ExtendedMessage], 2);
    let (short, long) = (P::nth(1), P::nth(2));
    dut.say(0, &announcement(&[short], &Route::new(vec![65002], P::host_addr(2))));
    dut.say(0, &announcement(&[long], &long_route::<P>(60_000)));
    dut.settle();
    assert!(dut.peers[1].received.contains_key(&long) && !dut.peers[2].received.contains_key(&long));
    assert!(dut.peers[1].received.contains_key(&short) && dut.peers[2].received.contains_key(&short));
    let longest = |peer: usize| dut.peers[peer].wire.iter().map(Vec::len).max().unwrap();
    assert!(longest(1) > 60_000 && longest(2) <= 4096);
    let index = dut.speaker.neighbor(dut.peers[2].address).unwrap().index;
    assert_eq!(dut.speaker.tables().export_verdict(index, long), Err(NotSent::TooLarge));
    // A route that grows out of short messages is withdrawn from those who take no other.
    dut.say(0, &announcement(&[short], &long_route::<P>(5_000)));
    dut.settle();
    assert!(dut.peers[1].received.contains_key(&short) && !dut.peers[2].received.contains_key(&short));
    // Long attributes in many messages: short ones stay short.
    let many: Vec<P> = (10..2000).map(P::nth).collect();
    dut.peers[1].wire.clear();
    dut.announce(0, &many, &Route::new(vec![65002, 9], P::host_addr(2)));
    dut.settle();
    assert!(dut.peers[1].wire.iter().all(|message| message.len() <= 4096));
    assert_eq!((dut.peers[1].received.len(), dut.peers[2].received.len()), (1992, 1990));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn routes_that_fit_in_no_short_message_go_to_those_who_take_long_ones_ipv4() {
    routes_that_fit_in_no_short_message_go_to_those_who_take_long_ones::<Ipv4Prefix>();
}

#[test]
fn routes_that_fit_in_no_short_message_go_to_those_who_take_long_ones_ipv6() {
    routes_that_fit_in_no_short_message_go_to_those_who_take_long_ones::<Ipv6Prefix>();
}

#[test]
fn who_offers_long_messages_takes_them_and_who_does_not_offer_them_refuses_them() {
    // RFC 8654, section 4: it is this router's offer that counts.
    let long = announcement(&[Ipv4Prefix::nth(1)], &long_route::<Ipv4Prefix>(5_000));
    let mut dut = router::<Ipv4Prefix>(&[], 1);
    dut.say(0, &long);
    dut.settle();
    assert_eq!((notification(&dut), dut.speaker.tables().received::<Ipv4Prefix>(index(&dut))), (None, 1));
    let mut config = dut.config();
    config.neighbors.iter_mut().for_each(|neighbor| neighbor.extended_messages = false);
    dut.input(sluice_bgp::speaker::Input::Configure(config));
    dut.wait_for(0, State::Active);
    dut.events.clear();
    dut.connect(0, vec![Capability::FourOctetAs(sluice_base::Asn(65002)), Capability::ExtendedMessage]);
    dut.say(0, &long);
    // RFC 4271, section 6.1: Bad Message Length, with the length.
    let data = (long.len() as u16).to_be_bytes().to_vec();
    assert_eq!(notification(&dut), Some(Notification { code: 1, subcode: 2, data }));
}

/// A route with the attributes that it may lose, and an unknown one of so many octets.
fn reducible_route<P: Net>(octets: usize) -> Route {
    let mut sid = vec![77, 0, 97];
    sid.resize(100, 0);
    let others = vec![
        (0x40, code::ATOMIC_AGGREGATE, vec![]),
        (0xc0, code::AGGREGATOR, vec![0, 1, 0x11, 0x70, 192, 0, 2, 1]),
        (0xc0, code::PREFIX_SID, sid),
        (0xd0, 99, vec![7; octets]),
    ];
    Route { others, ..Route::new(vec![65002, 7], P::host_addr(2)) }
}

/// RFC 8654, section 4: a route that grows by an octet at a time loses one attribute after the other, and then goes.
fn long_routes_lose_attributes<P: Net>(four_octet_as: bool) {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004], 2);
    dut.peers[2].four_octet_as = four_octet_as;
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..2).for_each(|peer| dut.up_with(peer, &[Capability::ExtendedMessage]));
    dut.up(2);
    dut.settle();
    let prefix = P::nth(1);
    let advertised = |dut: &Dut<P>, peer: usize| {
        let route = dut.peers[peer].received.get(&prefix)?;
        let codes = route.others.iter().map(|(_, code, _)| *code).filter(|code| *code != 99);
        Some(codes.collect::<Vec<u8>>())
    };
    let whole = vec![code::ATOMIC_AGGREGATE, code::AGGREGATOR, code::PREFIX_SID];
    let index = dut.speaker.neighbor(dut.peers[2].address).unwrap().index;
    let (mut seen, mut counts) = (vec![], [0, 0]);
    for octets in 3_840..4_080 {
        dut.say(0, &announcement(&[prefix], &reducible_route::<P>(octets)));
        dut.settle();
        assert_eq!(advertised(&dut, 1).as_ref(), Some(&whole));
        let verdict = dut.speaker.tables().export_verdict(index, prefix);
        let removed = verdict.map(|sent| sent.paths[0].removed.clone());
        counts[0] += u64::from(removed.as_ref().is_ok_and(|removed| !removed.is_empty()));
        counts[1] += u64::from(removed == Err(NotSent::TooLarge));
        let state = (advertised(&dut, 2), removed);
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        assert!(dut.peers[2].wire.iter().all(|message| message.len() <= 4096));
    }
    let (a, b, c) = (code::AGGREGATOR, code::PREFIX_SID, code::ATOMIC_AGGREGATE);
    let beside = if four_octet_as { vec![] } else { vec![code::AS4_AGGREGATOR] };
    let expected = [
        (Some([whole, beside].concat()), Ok(vec![])),
        (Some(vec![c, b]), Ok(vec![a])),
        (Some(vec![c]), Ok(vec![a, b])),
        (Some(vec![]), Ok(vec![a, b, c])),
        (None, Err(NotSent::TooLarge)),
    ];
    assert_eq!(seen, expected);
    let sent = dut.speaker.neighbor(dut.peers[2].address).unwrap().writer;
    assert_eq!([sent.reduced, sent.too_large], counts);
    assert_eq!(dut.speaker.neighbor(dut.peers[1].address).unwrap().writer.reduced, 0);
    for what in [PeerEvent::Reduced, PeerEvent::TooLarge] {
        let of_peer =
            |event: &&sluice_bgp::event::Event| event.what == what && event.peer == dut.peers[2].address;
        assert_eq!(dut.events.iter().filter(of_peer).count(), 1, "once a session");
    }
    // The shorter route has its attributes again.
    dut.say(0, &announcement(&[prefix], &reducible_route::<P>(10)));
    dut.settle();
    assert_eq!(advertised(&dut, 2).map(|codes| codes.len()), Some(if four_octet_as { 3 } else { 4 }));
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn a_long_route_loses_attributes_that_it_can_do_without_ipv4() {
    long_routes_lose_attributes::<Ipv4Prefix>(true);
    long_routes_lose_attributes::<Ipv4Prefix>(false);
}

#[test]
fn a_long_route_loses_attributes_that_it_can_do_without_ipv6() {
    long_routes_lose_attributes::<Ipv6Prefix>(true);
    long_routes_lose_attributes::<Ipv6Prefix>(false);
}

fn index(dut: &Dut<Ipv4Prefix>) -> sluice_bgp::shard::PeerIndex {
    dut.speaker.neighbor(dut.peers[0].address).unwrap().index
}
