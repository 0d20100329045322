//! XIP's decoders: headers, addresses as text, NWP, XCMP.

use sluice_base::Xid;
use sluice_xip::wire::nwp::{
    Announcement, Challenge, Form, Listed, ListedAddress, Message, Probe, ProbeKind, Response, Status,
};
use sluice_xip::wire::xcmp::{self, Echo, Quote};
use sluice_xip::wire::{Dag, Hid, LastNode, Mac, Packet, PacketHead, PacketMut, re};

/// Reads a packet, writes it again, and selects each of its edges.
pub fn header(input: &[u8]) {
    let Ok(packet) = Packet::parse(input) else { return };
    assert_eq!(packet.octets().len(), packet.header_len() + packet.payload().len());
    let mut written = Vec::new();
    let head = PacketHead {
        hop_limit: packet.hop_limit(),
        next_header: packet.next_header(),
        ..PacketHead::new(packet.destination(), packet.source())
    };
    head.put(packet.payload(), &mut written).expect("a parsed packet has a destination");
    if packet.last_node() == LastNode::Entry {
        assert_eq!(written, packet.octets());
    }
    let Ok(row) = packet.row(true) else { return };
    assert!(!packet.is_at_sink() && !row.edges.is_empty());
    for edge in 0..row.edges.len() as u8 {
        let mut octets = input.to_vec();
        let mut changed = PacketMut::parse(&mut octets).expect("a copy of a parsed packet");
        let selected = changed.select(edge).expect("an edge of a valid row");
        assert_eq!(changed.packet().map(|packet| packet.last_node()), Ok(selected));
        let _ = changed.decrement_hop_limit();
    }
}

/// Reads an address in both text forms, and writes it.
pub fn text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for dag in text.parse::<Dag>().ok().into_iter().chain(re::address(text)) {
        assert_eq!(dag.to_string().parse(), Ok(dag));
        assert_eq!(format!("{dag:#}").parse(), Ok(dag));
        let mut rows = Vec::new();
        dag.put(&mut rows);
        assert_eq!(Dag::from_octets(&rows), Some(dag));
    }
}

/// Reads a message in both forms, and writes it.
pub fn nwp(input: &[u8]) {
    for form in [Form::Basic, Form::Monitoring] {
        let Ok(message) = Message::decode(input, form) else { continue };
        let mut written = Vec::new();
        message.put(&mut written);
        assert_eq!(Message::decode(&written, form).as_ref(), Ok(&message));
    }
}

/// Reads a message, and writes it.
pub fn xcmp(input: &[u8]) {
    let Ok(message) = xcmp::Message::decode(input) else { return };
    let mut written = Vec::new();
    message.put(&mut written);
    assert_eq!(xcmp::Message::decode(&written), Ok(message));
    if let xcmp::Message::Unreachable(quote) | xcmp::Message::TimeExceeded(quote) = message {
        header(quote.packet);
    }
}

fn xid(kind: &str, octet: u8) -> Xid {
    let id = format!("{octet:02x}").repeat(20);
    format!("{kind}-{id}").parse().expect("a valid XID")
}

fn addresses() -> Vec<Dag> {
    let scopes = [xid("ad", 0xa1), xid("hid", 0x11)];
    let intent = xid("xdp", 0xd1);
    let shapes = [
        Some(Dag::direct(intent)),
        Dag::scoped(&scopes, intent),
        Dag::refined(&scopes, intent),
        Dag::with_fallback(intent, &scopes),
        Dag::any_of(&[scopes[0], scopes[1], intent]),
        Dag::scoped(&[scopes[0]; 8], intent),
    ];
    shapes.into_iter().flatten().collect()
}

/// A packet to each of the common shapes of addresses.
pub fn packets() -> Vec<Vec<u8>> {
    let addresses = addresses();
    let packet = |destination: &Dag| {
        let mut octets = Vec::new();
        PacketHead::new(*destination, addresses[0]).put(b"payload", &mut octets).expect("a destination");
        octets
    };
    addresses.iter().map(packet).collect()
}

/// Each of the common shapes of addresses, an invalid address, and a line of the original prototype.
pub fn texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<String> = addresses().iter().map(|dag| format!("{dag:#}\n")).collect();
    texts.push(format!("!{}->0*z9:{}", xid("ad", 1), xid("0x1001", 2)));
    let node = |name: &str| format!("{name}:{}", "1".repeat(40));
    texts.push(format!("RE ( IP:192.0.2.1 {} ) {} {}", node("CID"), node("AD"), node("HID")));
    texts.into_iter().map(String::into_bytes).collect()
}

/// A message of each type and form.
pub fn nwp_messages() -> Vec<Vec<u8>> {
    let (one, two, hid) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), Hid([0x11; 20]));
    let listed =
        |status| Message::List(vec![Listed { hid, addresses: vec![ListedAddress { mac: one, status }; 2] }]);
    let announcement = |clock| Message::Announcement(Announcement { clock, sender: one, hids: vec![hid; 2] });
    let probe = |kind: ProbeKind| {
        let investigated = kind.has_investigated().then_some(two);
        Message::Probe(Probe { kind, clock: 7, source: one, destination: two, investigated })
    };
    let messages = [
        announcement(None),
        announcement(Some(7)),
        listed(None),
        listed(Some(Status { is_alive: true, clock: 7 })),
        probe(ProbeKind::Ping),
        probe(ProbeKind::RequestPing),
        Message::Challenge(Challenge { sender: one, hid, nonce: [3; 32] }),
        Message::Response(Response {
            sender: one,
            hid,
            nonce: [3; 32],
            key: &[4; 270],
            signature: &[5; 256],
        }),
    ];
    let octets = |message: &Message<'_>| {
        let mut octets = Vec::new();
        message.put(&mut octets);
        octets
    };
    messages.iter().map(octets).collect()
}

/// A message of each type.
pub fn xcmp_messages() -> Vec<Vec<u8>> {
    let packets = packets();
    let quote = Quote { code: 0, packet: &packets[1] };
    let echo = Echo { identifier: 1, sequence: 2, data: b"data" };
    let messages = [
        xcmp::Message::Echo(echo),
        xcmp::Message::EchoReply(echo),
        xcmp::Message::Unreachable(quote),
        xcmp::Message::TimeExceeded(quote),
    ];
    let octets = |message: &xcmp::Message<'_>| {
        let mut octets = Vec::new();
        message.put(&mut octets);
        octets
    };
    messages.iter().map(octets).collect()
}
