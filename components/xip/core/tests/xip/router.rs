//! Decisions on addresses: the test vectors of XIA at the level of decisions, styles of addressing, redirects and their bounds.

use crate::world;
use crate::world::{Dag, World, exact, forward, of, row_of, sent, xid};
use sluice_base::{Xid, XidType};
use sluice_xip::answer::{Action, Answer, NeighborId};
use sluice_xip::counters::Reason;
use sluice_xip::ports::Port;
use sluice_xip::principals::{u4id, u6id};
use sluice_xip::route::{ChangeError, Route};
use sluice_xip::router::{Limits, Outcome, RouteError};
use sluice_xip::walk::{DropReason, PacketFacts, Routed, RowError, Rows, follow};

const AD: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const HID: &str = "hid-1111111111111111111111111111111111111111";
const XDP: &str = "xdp-d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1";
/// The address of vector V2.
const SCOPED: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1-1:hid-1111111111111111111111111111111111111111-2:xdp-d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1-0";
/// The address of vector V4.
const REFINED: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1-21:hid-1111111111111111111111111111111111111111-2:cid-c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1-20";
/// The address of vectors V5 and V8.
const MULTICAST: &str = "u4id-0a024702c3d70000000000000000000000000000-21:zf-0110000000000000000000000000000000000000-2:xdp-007f4e38904e83634acc7e1340ef7665e3f1f57b-210";

#[test]
fn a_scoped_packet_is_dug_through_its_domain_to_the_neighbor_and_then_to_the_socket() {
    let mut router = World::new(Limits::default());
    router.route(xid(AD), Route::Local);
    router.route(xid(HID), Route::Neighbor(NeighborId(7)));
    let mut packet = Dag::new(SCOPED);
    assert_eq!(router.packet(&mut packet), sent(7));
    assert_eq!((packet.last_node, packet.marks.as_slice()), (0, [(0x7e, 0)].as_slice()), "V3a");
    let mut host = World::new(Limits::default());
    host.route(xid(HID), Route::Local);
    host.route(xid(XDP), Route::Local);
    assert_eq!(host.packet(&mut packet), Routed::Deliver(0));
    assert_eq!((packet.last_node, &packet.marks[1..]), (2, [(0, 0), (1, 0)].as_slice()), "V3b, V3c");
    assert_eq!(packet.row(true), Err(RowError::AtSink));
    assert_eq!(host.packet(&mut packet), Routed::Drop(DropReason::Row(RowError::AtSink)));
}

#[test]
fn a_packet_outside_of_its_domain_follows_the_redirect_to_the_gateway() {
    let mut router = World::new(Limits::default());
    let gateway = of(XidType::HID, 9);
    router.route(xid(AD), Route::Redirect(gateway));
    router.route(gateway, Route::Neighbor(NeighborId(3)));
    let mut packet = Dag::new(SCOPED);
    assert_eq!(router.packet(&mut packet), sent(3));
    assert_eq!((packet.last_node, packet.marks.len()), (0x7e, 0));
    router.route(xid(AD), Route::Redirect(of(XidType::HID, 10)));
    assert_eq!(router.packet(&mut packet), Routed::Drop(DropReason::Unreachable));
    router.route(of(XidType::HID, 10), Route::Neighbor(NeighborId(4)));
    assert_eq!(router.packet(&mut packet), sent(4));
    router.change(exact(xid(AD)), None);
    assert_eq!(router.packet(&mut packet), Routed::Drop(DropReason::Unreachable));
}

#[test]
fn iterative_refinement_prefers_the_content_in_each_row() {
    let mut router = World::new(Limits::default());
    router.route(xid(AD), Route::Local);
    let mut packet = Dag::new(REFINED);
    assert_eq!(router.packet(&mut packet.clone()), Routed::Drop(DropReason::Unreachable));
    router.route(xid(HID), Route::Neighbor(NeighborId(1)));
    assert_eq!(router.packet(&mut packet), sent(1));
    assert_eq!(packet.marks, [(0x7e, 1)], "the content is unknown, the domain is the second edge");
    // A principal for content appears: from then on the first edge of each row is taken, also of the row that the packet is at.
    router.register(world::inside("xdp", XidType(0x12)));
    assert_eq!(router.packet(&mut packet), sent(1));
    router.route(of(XidType(0x12), 0xc1), Route::Local);
    assert_eq!(router.packet(&mut packet), Routed::Deliver(0));
    assert_eq!(packet.marks[1..], [(0, 0)]);
    router.unregister(XidType(0x12));
    assert_eq!(router.packet(&mut Dag::new(REFINED)), sent(1));
}

#[test]
fn the_multicast_address_takes_the_tunnel_then_the_filter_then_the_socket() {
    let u4id = xid("u4id-0a024702c3d70000000000000000000000000000");
    let own = Xid { kind: XidType::U4ID, id: u4id::id_of("10.2.71.1".parse().unwrap(), 13781) };
    let mut server = World::new(Limits::default());
    assert_eq!(server.packet(&mut Dag::new(MULTICAST)), Routed::Drop(DropReason::Unreachable));
    server.route(own, Route::Tunnel { no_check: true });
    let Routed::Send { port: Port::Tunnel(tunnel), .. } = server.packet(&mut Dag::new(MULTICAST)) else {
        panic!("V5 is not sent through the tunnel");
    };
    assert_eq!(server.router.ports().far_end(tunnel), Some(u4id));

    let mut router = World::new(Limits::default());
    router.route(u4id, Route::Local);
    let mut dug = Dag::new(MULTICAST);
    assert_eq!(router.packet(&mut dug), Routed::Drop(DropReason::Unreachable));
    assert_eq!((dug.last_node, dug.marks.as_slice()), (0, [(0x7e, 2)].as_slice()), "V8c");
    for (link, host) in [("zf-01", 1_u8), ("zf-0010", 2), ("zf-0120", 3)] {
        let link = xid(&format!("{link:0<43}"));
        router.route(link, Route::Redirect(of(XidType::HID, host)));
        router.route(of(XidType::HID, host), Route::Neighbor(NeighborId(u32::from(host))));
    }
    let mut packet = Dag::new(MULTICAST);
    let Routed::Replicate { ports, hop_limit: 127, local: None } = router.packet(&mut packet) else {
        panic!("V8a is not copied");
    };
    let ports = router.router.ports().set(ports).unwrap();
    assert_eq!(ports, [Port::Neighbor(NeighborId(1)), Port::Neighbor(NeighborId(2))]);
    assert_eq!((packet.last_node, packet.marks.len()), (0x7e, 0), "copies leave unmarked");

    let mut receiver = World::new(Limits::default());
    receiver.route(xid("xdp-007f4e38904e83634acc7e1340ef7665e3f1f57b"), Route::Local);
    assert_eq!(receiver.packet(&mut packet), Routed::Deliver(0));
    assert_eq!((packet.last_node, packet.marks.as_slice()), (2, [(0x7e, 0)].as_slice()), "V8b");
}

#[test]
fn edges_that_fail_are_passed_over_in_order_of_priority() {
    let mut router = World::new(Limits::default());
    let unknown = |n| of(XidType(0x7777), n);
    let ad = |n| of(XidType::AD, n);
    let row = row_of(&[unknown(1), ad(2), of(XidType::HID, 3), ad(4)]);
    assert_eq!(router.answer(&row), Some(Answer::Unreachable));
    router.route(of(XidType::HID, 9), Route::Neighbor(NeighborId(5)));
    router.route(ad(4), Route::Redirect(of(XidType::HID, 9)));
    assert_eq!(router.answer(&row), Some(forward(3, 5)));
    router.route(of(XidType::HID, 3), Route::Neighbor(NeighborId(6)));
    assert_eq!(router.answer(&row), Some(forward(2, 6)));
    router.set_neighbor(NeighborId(6), false);
    assert_eq!(router.answer(&row), Some(forward(3, 5)));
    router.route(ad(2), Route::Local);
    assert_eq!(router.answer(&row), Some(Answer::Chosen { edge: 1, action: Action::Dig }));
    router.set_neighbor(NeighborId(6), true);
    assert_eq!(router.cache.len(), 1, "a decision does not rest on edges behind the chosen one");
    router.check();
}

#[test]
fn redirects_are_bounded_and_loops_are_named() {
    let (ad, hid, lpm) = (of(XidType::AD, 1), of(XidType::HID, 1), of(XidType::LPM, 1));
    for (consultations, expected) in [(2, None), (3, Some(forward(0, 8)))] {
        let mut router = World::new(Limits { consultations, ..Limits::default() });
        router.route(lpm, Route::Redirect(ad));
        router.route(ad, Route::Redirect(hid));
        router.route(hid, Route::Neighbor(NeighborId(8)));
        assert_eq!(router.answer(&row_of(&[ad])), Some(forward(0, 8)));
        let drop = Answer::Chosen { edge: 0, action: Action::Drop };
        assert_eq!(router.answer(&row_of(&[lpm])), Some(expected.unwrap_or(drop)));
        if expected.is_none() {
            assert_eq!(router.router.counters().by_reason(Reason::TooManyRedirects), 1);
        }
        router.route(hid, Route::Redirect(ad));
        let error = RouteError::RedirectLoop { from: hid, back: ad };
        let outcome = router.uncached(&row_of(&[ad]));
        assert_eq!(outcome, Outcome::Decided { answer: drop, error: Some(error), is_cacheable: true });
        assert_eq!(error.to_string(), format!("redirects of {ad} lead over {hid} back to {ad}"));
        assert_eq!(router.answer(&row_of(&[ad])), Some(drop));
        router.route(hid, Route::Neighbor(NeighborId(8)));
        assert_eq!(router.answer(&row_of(&[ad])), Some(forward(0, 8)));
        let refused = router.router.change(exact(ad), Some(Route::Redirect(of(XidType::AD, 2))));
        assert_eq!(refused, Err(ChangeError::SameTypeGateway));
    }
}

#[test]
fn hops_and_sizes_are_bounded_for_packets_that_leave() {
    let mut router = World::new(Limits::default());
    router.route(xid(AD), Route::Local);
    router.route(xid(HID), Route::Neighbor(NeighborId(1)));
    for (is_input, hop_limit, octets, expected) in [
        (true, 1, 1_500, Routed::Send { port: Port::Neighbor(NeighborId(1)), hop_limit: 0 }),
        (true, 0, 1_500, Routed::Drop(DropReason::HopLimit)),
        (true, 9, 1_501, Routed::Drop(DropReason::TooBig)),
        (false, 0, 1_500, Routed::Send { port: Port::Neighbor(NeighborId(1)), hop_limit: 0 }),
        (false, 128, 1_500, Routed::Send { port: Port::Neighbor(NeighborId(1)), hop_limit: 128 }),
    ] {
        let facts = PacketFacts { is_input, hop_limit, octets };
        let routed = follow(&mut Dag::new(SCOPED), facts, |row| router.answer(row), |_| 1_500);
        assert_eq!(routed, expected);
    }
    router.route(xid(HID), Route::Local);
    router.route(xid(XDP), Route::Local);
    let facts = PacketFacts { is_input: true, hop_limit: 0, octets: 60_000 };
    let routed = follow(&mut Dag::new(SCOPED), facts, |row| router.answer(row), |_| 1_500);
    assert_eq!(routed, Routed::Deliver(0), "what stays here needs neither hops nor an MTU");
}

#[test]
fn tunnels_need_a_socket_and_well_formed_ids() {
    let mut router = World::new(Limits::default());
    let far = Xid { kind: XidType::U6ID, id: u6id::id_of("2001:db8::1".parse().unwrap(), 9) };
    let own = Xid { kind: XidType::U6ID, id: u6id::id_of("2001:db8::2".parse().unwrap(), 9) };
    let second = Xid { kind: XidType::U6ID, id: u6id::id_of("2001:db8::3".parse().unwrap(), 9) };
    let (row, bad) = (row_of(&[far]), row_of(&[of(XidType::U6ID, 0xff)]));
    assert_eq!(router.answer(&row), Some(Answer::Unreachable));
    assert_eq!(router.answer(&bad), Some(Answer::Chosen { edge: 0, action: Action::Unsupported }));
    router.route(own, Route::Tunnel { no_check: false });
    let Some(Answer::Chosen { action: Action::Tunnel(tunnel), .. }) = router.answer(&row) else { panic!() };
    assert_eq!(router.router.ports().far_end(tunnel), Some(far));
    let refused = router.router.change(exact(second), Some(Route::Tunnel { no_check: false }));
    assert_eq!(refused, Err(ChangeError::TunnelExists));
    router.route(far, Route::Local);
    assert_eq!(router.answer(&row), Some(Answer::Chosen { edge: 0, action: Action::Dig }));
    router.change(exact(far), None);
    router.change(exact(own), None);
    assert_eq!(router.answer(&row), Some(Answer::Unreachable));
    assert_eq!(router.router.ports().counts(), (0, 0), "far ends without answers are forgotten");
    assert_eq!(router.cache.len(), 2, "the decision on the ill-formed XID was never touched");
}

#[test]
fn united_4ids_are_redirected_to_the_fixed_port() {
    let mut router = World::new(Limits::default());
    let own = Xid { kind: XidType::U4ID, id: u4id::id_of("10.0.0.1".parse().unwrap(), 1) };
    router.route(own, Route::Tunnel { no_check: false });
    let row = row_of(&[xid("uni4id-4500000000010000fafa0000000000000a024702")]);
    let Some(Answer::Chosen { action: Action::Tunnel(tunnel), .. }) = router.answer(&row) else { panic!() };
    let expected = xid("u4id-0a02470235d50000000000000000000000000000");
    assert_eq!(router.router.ports().far_end(tunnel), Some(expected));
    let bad = row_of(&[xid("uni4id-4500000000010000fafa0000000000010a024702")]);
    assert_eq!(router.answer(&bad), Some(Answer::Chosen { edge: 0, action: Action::Unsupported }));
}

#[test]
fn decisions_are_counted_by_reason_and_by_principal() {
    let mut router = World::new(Limits::default());
    router.route(xid(HID), Route::Neighbor(NeighborId(1)));
    router.route(xid(AD), Route::Redirect(xid(HID)));
    for row in [row_of(&[xid(AD)]), row_of(&[xid(HID)]), row_of(&[xid(XDP)])] {
        router.uncached(&row);
    }
    let counters = router.router.counters();
    let counts = [Reason::Forward, Reason::Unreachable].map(|reason| counters.by_reason(reason));
    assert_eq!((counts, counters.decisions()), ([2, 1], 3));
    assert_eq!(counters.by_principal().collect::<Vec<_>>(), [(XidType::HID, 2)]);
}
