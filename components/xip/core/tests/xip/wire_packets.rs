//! Whole packets, malformed headers and encapsulation: the vectors of the wire format.

use crate::wire_vectors::{PACKETS, octets};
use sluice_base::XidType;
use sluice_xip::wire::address::Node;
use sluice_xip::wire::udp::{Ends, UdpHeader};
use sluice_xip::wire::{
    AddressError, Dag, HeaderError, LastNode, LinkDestination, Marks, Packet, PacketHead, PacketMut, RowError,
};

fn vector(name: &str) -> Vec<u8> {
    let (_, _, digits) = PACKETS.iter().find(|(known, ..)| *known == name).expect("a known vector");
    octets(digits)
}

#[test]
fn packets_are_read_and_written_as_their_vectors() {
    for (name, text, digits) in PACKETS {
        let wire = octets(digits);
        let packet = Packet::parse(&wire).unwrap();
        assert_eq!(packet.octets(), wire, "{name}");
        let destination: Dag = text.parse().unwrap();
        assert_eq!((packet.destination(), packet.destination().to_string().as_str()), (destination, text));
        assert!(packet.source().validate().is_ok(), "{name}");
        if packet.last_node() == LastNode::Entry {
            let head = PacketHead {
                hop_limit: packet.hop_limit(),
                ..PacketHead::new(packet.destination(), packet.source())
            };
            let mut written = vec![];
            head.put(packet.payload(), &mut written).unwrap();
            assert_eq!(written, wire, "{name}");
        }
    }
}

#[test]
fn a_packet_that_is_routed_changes_as_its_vectors() {
    let mut wire = vector("V2");
    let mut packet = PacketMut::parse(&mut wire).unwrap();
    assert!(packet.decrement_hop_limit());
    for (edge, name) in [(0, "V3a"), (0, "V3b"), (0, "V3c")] {
        packet.select(edge).unwrap();
        assert_eq!(packet.octets(), vector(name), "{name}");
    }
    assert_eq!(packet.packet().unwrap().row(true), Err(RowError::AtSink));
    assert!(packet.packet().unwrap().is_at_sink());

    let mut wire = vector("V5");
    let mut packet = PacketMut::parse(&mut wire).unwrap();
    assert_eq!(packet.select(2), Ok(LastNode::Row(0)));
    assert_eq!(packet.octets(), vector("V8c"));
    let mut wire = vector("V8a");
    let mut packet = PacketMut::parse(&mut wire).unwrap();
    assert_eq!(packet.select(3), Err(RowError::Edges(AddressError::EdgeOutOfRange)));
    assert_eq!(packet.select(4), Err(RowError::Edges(AddressError::EdgeOutOfRange)));
    assert_eq!(packet.select(0), Ok(LastNode::Row(2)));
    assert_eq!(packet.octets(), vector("V8b"));
}

#[test]
fn the_row_of_the_last_node_is_the_key_of_the_decision() {
    let edges = |name: &str| {
        let wire = vector(name);
        let row = Packet::parse(&wire).unwrap().row(true).unwrap();
        row.edges.iter().map(|edge| (edge.xid.kind, edge.is_sink)).collect::<Vec<_>>()
    };
    assert_eq!(edges("V1"), [(XidType::XDP, true)]);
    assert_eq!(edges("V3a"), [(XidType::HID, false)]);
    assert_eq!(edges("V4"), [(XidType(0x12), true), (XidType::AD, false)]);
    assert_eq!(edges("V5"), [(XidType::XDP, true), (XidType::ZF, false), (XidType::U4ID, false)]);
    assert_eq!(edges("V7"), [(XidType::AD, true); 4]);
    assert_eq!(edges("V8c"), [(XidType::XDP, true), (XidType::ZF, false)]);
}

#[test]
fn malformed_headers_are_dropped_for_the_first_reason() {
    for (head, error) in [
        ("0000000080010 07e", HeaderError::Version(0)),
        ("0200000080 01007e", HeaderError::Version(2)),
        ("0100000080 00007e", HeaderError::DestinationRows(0)),
        ("01000000800a007e", HeaderError::DestinationRows(10)),
        ("0100000080010a7e", HeaderError::SourceRows(10)),
        ("0100000080010001", HeaderError::LastNode(1)),
        ("01000000800100ff", HeaderError::LastNode(0xff)),
        ("010000068001007e", HeaderError::ShortPayload),
    ] {
        let mut wire = vector("V1");
        wire[..8].copy_from_slice(&octets(head));
        assert_eq!(Packet::parse(&wire), Err(error), "{head}");
        assert_eq!(HeaderError::NAMES[error.index()], error.name());
    }
    let wire = vector("V1");
    assert_eq!(Packet::parse(&wire[..7]), Err(HeaderError::ShortFixedHeader));
    assert_eq!(Packet::parse(&wire[..35]), Err(HeaderError::ShortRows));
    assert_eq!(Packet::parse(&wire[..40]), Err(HeaderError::ShortPayload));
    assert_eq!(Packet::receive(LinkDestination::OtherHost, &[]), Err(HeaderError::OtherHost));
}

#[test]
fn a_packet_at_its_sink_passes_reception_and_is_not_routed() {
    let mut wire = vector("V1");
    wire[7] = 0;
    assert_eq!(Packet::parse(&wire).unwrap().row(true), Err(RowError::AtSink));
    // Row 0 of V7 is a sink before the last row.
    let mut wire = vector("V7");
    wire[7] = 0;
    let packet = Packet::parse(&wire).unwrap();
    assert_eq!((packet.row(true), packet.is_at_sink()), (Err(RowError::AtSink), true));
}

#[test]
fn only_the_row_of_the_last_node_is_validated() {
    let place = |row: usize, edge: usize| 8 + row * Node::LEN + 24 + edge;
    for (row, edge, octet, error) in [
        (2, 0, 0x80, AddressError::ChosenEdge),
        (2, 0, 0x03, AddressError::EdgeOutOfRange),
        (2, 0, 0x7e, AddressError::EdgeOutOfRange),
        (2, 0, 0x7f, AddressError::NoEntry),
        (2, 2, 0x00, AddressError::EmptyEdgeMisplaced),
    ] {
        let mut wire = vector("V2");
        wire[place(row, edge)] = octet;
        assert_eq!(Packet::parse(&wire).unwrap().row(true), Err(RowError::Edges(error)));
    }
    let mut wire = vector("V3a");
    wire[place(0, 0)] = 0;
    assert_eq!(Packet::parse(&wire).unwrap().row(true), Err(RowError::Edges(AddressError::NotTopological)));
    wire[place(0, 0)] = 1;
    wire[place(1, 0)] = 0xff;
    wire[place(4, 0)] = 0x80;
    assert!(Packet::parse(&wire).unwrap().row(true).is_ok());
}

#[test]
fn padding_of_ethernet_is_left_out() {
    let mut wire = vector("V1");
    wire.extend([0; 5]);
    assert_eq!(Packet::parse(&wire).unwrap().payload(), b"hello");
    assert_eq!(PacketMut::parse(&mut wire).unwrap().octets().len(), 41);
}

#[test]
fn a_hop_limit_of_0_is_not_decremented() {
    let mut wire = vector("V1");
    wire[4] = 0;
    let mut packet = PacketMut::parse(&mut wire).unwrap();
    assert!(!packet.decrement_hop_limit());
    assert_eq!(packet.octets()[4], 0);
}

#[test]
fn headers_have_36_to_512_octets() {
    let nine =
        Dag::scoped(&[PACKETS[0].1[..44].parse().unwrap(); 8], PACKETS[0].1[..44].parse().unwrap()).unwrap();
    let mut wire = vec![];
    PacketHead::new(nine, nine).put(&[], &mut wire).unwrap();
    assert_eq!(Packet::parse(&wire).unwrap().header_len(), 512);
    assert_eq!(Packet::parse(&vector("V1")).unwrap().header_len(), 36);
    let mut out = vec![];
    assert!(PacketHead::new(nine, nine).put(&vec![0; 65_536], &mut out).is_err() && out.is_empty());
    assert!(PacketHead::new(Dag::EMPTY, nine).put(&[], &mut out).is_err() && out.is_empty());
}

#[test]
fn the_reply_goes_to_the_source_without_marks() {
    let wire = vector("V3c");
    let text = Packet::parse(&wire).unwrap().destination().to_string();
    let reply = Dag::parse(&text, Marks::Drop).unwrap();
    assert_eq!(reply, Packet::parse(&vector("V2")).unwrap().destination());
}

#[test]
fn a_packet_in_udp_has_the_header_of_its_vector() {
    let payload = vector("V1");
    let (from, to) = ("10.2.71.1:13781".parse().unwrap(), "10.2.71.2:50135".parse().unwrap());
    let ends = Ends::V4 { from, to };
    for (with_checksum, digits) in [(false, "35d5c3d700310000"), (true, "35d5c3d70031ec39")] {
        let header = UdpHeader::of(ends, &payload, with_checksum).unwrap();
        assert_eq!(header.octets().to_vec(), octets(digits));
        let datagram = [&header.octets()[..], &payload, &[0; 3]].concat();
        assert_eq!(UdpHeader::decode(&datagram), Some((header, &payload[..])));
        assert!(header.is_intact(ends, &payload));
        assert_eq!(header.is_intact(ends, &payload[1..]), !with_checksum);
    }
}
