//! Properties of the decoders: written values come back, and no octets make a decoder panic.

use crate::wire_vectors::{PACKETS, octets};
use proptest::collection::vec;
use proptest::prelude::*;
use sluice_base::{Xid, XidType};
use sluice_xip::wire::address::Node;
use sluice_xip::wire::nwp::{Announcement, Form, Listed, ListedAddress, Message, Probe, ProbeKind, Status};
use sluice_xip::wire::{Dag, EdgeByte, Hid, Mac, Packet, PacketHead, PacketMut, re, udp, xcmp};

fn nodes(edge: impl Strategy<Value = u8> + Clone) -> impl Strategy<Value = Dag> {
    let node = (prop_oneof![0_u32..0x60, any::<u32>()], any::<[u8; 20]>(), vec(edge, 4)).prop_map(
        |(kind, id, edges)| {
            let mut node = Node::new(Xid { kind: XidType(kind), id }, &[]);
            node.edges.iter_mut().zip(edges).for_each(|(place, edge)| *place = EdgeByte(edge));
            node
        },
    );
    vec(node, 1..=9).prop_map(|nodes| Dag::new(&nodes).expect("at most nine nodes"))
}

/// Addresses, most of them invalid, whose edges have a text.
fn any_address() -> impl Strategy<Value = Dag> {
    nodes(prop_oneof![0_u8..36, Just(0x7f), 0x80_u8..0xa4, Just(0xff)])
}

/// Valid addresses: each node leads to the next, and some nodes to a later node too.
fn valid_address() -> impl Strategy<Value = Dag> {
    (nodes(Just(0x7f)), vec(any::<u8>(), 9)).prop_map(|(dag, extra)| {
        let len = dag.len() as u8;
        let mut valid = Dag::EMPTY;
        for (row, (node, extra)) in (0_u8..).zip(dag.nodes().iter().zip(extra)) {
            let is_last = row + 1 == len;
            let next = if is_last { 0 } else { row + 1 };
            let second = next + extra % (len - next);
            let kind = XidType(node.xid.kind.0.max(1));
            valid.push(Node::new(Xid { kind, ..node.xid }, &[next, second]));
        }
        valid
    })
}

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

fn message(form: Form) -> impl Strategy<Value = Message<'static>> {
    let is_monitoring = form == Form::Monitoring;
    let hid = || any::<[u8; 20]>().prop_map(Hid);
    let announcement = (any::<u32>(), mac(), vec(hid(), 1..60)).prop_map(move |(clock, sender, hids)| {
        Message::Announcement(Announcement { clock: is_monitoring.then_some(clock), sender, hids })
    });
    let address = (mac(), any::<bool>(), 0_u32..1 << 31).prop_map(move |(mac, is_alive, clock)| {
        ListedAddress { mac, status: is_monitoring.then_some(Status { is_alive, clock }) }
    });
    let listed = (hid(), vec(address, 0..4)).prop_map(|(hid, addresses)| Listed { hid, addresses });
    let list = vec(listed, 1..30).prop_map(Message::List);
    let kinds = [
        ProbeKind::Ping,
        ProbeKind::Ack,
        ProbeKind::RequestPing,
        ProbeKind::RequestAck,
        ProbeKind::InvestigationPing,
    ];
    let probe = (0..kinds.len(), any::<u32>(), mac(), mac(), mac()).prop_map(
        move |(kind, clock, source, destination, third)| {
            let kind = kinds[kind];
            let investigated = kind.has_investigated().then_some(third);
            Message::Probe(Probe { kind, clock, source, destination, investigated })
        },
    );
    if is_monitoring {
        prop_oneof![announcement, list, probe].boxed()
    } else {
        prop_oneof![announcement, list].boxed()
    }
}

proptest! {
    #[test]
    fn texts_of_addresses_come_back(dag in any_address()) {
        prop_assert_eq!(dag.to_string().parse(), Ok(dag));
        prop_assert_eq!(format!("{dag:#}\n").parse(), Ok(dag));
        let mut rows = vec![];
        dag.put(&mut rows);
        prop_assert_eq!(Dag::from_octets(&rows), Some(dag));
    }

    #[test]
    fn valid_addresses_are_valid_and_their_packets_are_routed_to_the_sink(dag in valid_address(), payload in vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(dag.validate(), Ok(dag.len()));
        let mut wire = vec![];
        PacketHead::new(dag, dag).put(&payload, &mut wire).unwrap();
        let mut packet = PacketMut::parse(&mut wire).unwrap();
        let mut steps = 0;
        while let Ok(row) = packet.packet().unwrap().row(true) {
            let edge = (row.edges.len() - 1) as u8;
            packet.select(edge).unwrap();
            steps += 1;
        }
        prop_assert!(steps <= 9 && packet.packet().unwrap().is_at_sink());
        prop_assert_eq!(packet.packet().unwrap().payload(), &payload[..]);
        prop_assert_eq!(packet.packet().unwrap().destination().without_marks(), dag);
    }

    #[test]
    fn messages_of_the_basic_form_come_back(message in message(Form::Basic)) {
        let mut wire = vec![];
        message.put(&mut wire);
        prop_assert_eq!(Message::decode(&wire, Form::Basic), Ok(message));
    }

    #[test]
    fn messages_of_the_monitoring_form_come_back(message in message(Form::Monitoring)) {
        let mut wire = vec![];
        message.put(&mut wire);
        prop_assert_eq!(Message::decode(&wire, Form::Monitoring), Ok(message));
    }

    #[test]
    fn any_octets_are_decoded_without_panic(mut wire in vec(any::<u8>(), 0..700)) {
        let _ = Message::decode(&wire, Form::Basic);
        let _ = Message::decode(&wire, Form::Monitoring);
        let _ = xcmp::Message::decode(&wire);
        let _ = udp::UdpHeader::decode(&wire);
        let _ = PacketMut::parse(&mut wire).map(|packet| packet.packet().map(|packet| packet.row(true)));
    }

    #[test]
    fn any_text_is_read_without_panic(text in "(RE|!)?[ ():>*+\\-a-zA-Z0-9\n]{0,200}", other in any::<String>()) {
        for text in [text, other] {
            let _ = text.parse::<Dag>().map(|dag| dag.to_string());
            let _ = re::address(&text);
        }
    }

    #[test]
    fn mutated_vectors_change_only_where_routing_changes_them(
        which in 0..PACKETS.len(), places in vec((0..200_usize, any::<u8>()), 1..4), edge in 0..5_u8,
    ) {
        let mut wire = octets(PACKETS[which].2);
        for (place, octet) in places {
            let len = wire.len();
            wire[place % len] = octet;
        }
        let before = wire.clone();
        let Ok(packet) = Packet::parse(&before) else { return Ok(()) };
        let row = packet.row(true);
        prop_assert!(row.is_err() || !packet.is_at_sink());
        let mut changed = PacketMut::parse(&mut wire).unwrap();
        if changed.select(edge).is_ok() {
            prop_assert!(changed.packet().is_ok());
        }
        let _ = changed.decrement_hop_limit();
        let differing = before.iter().zip(&wire).filter(|(a, b)| a != b).count();
        prop_assert!(differing <= 3);
    }
}
