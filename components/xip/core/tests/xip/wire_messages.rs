//! NWP and XCMP: vectors, malformed messages, and the text forms of the original prototype.

use crate::wire_vectors::{PACKETS, octets};
use sluice_xip::wire::nwp::{
    Announcement, Challenge, Form, Listed, ListedAddress, Message, NwpError, Probe, ProbeKind, Response,
    Status, signed_octets,
};
use sluice_xip::wire::xcmp::{self, Echo, MOST_LEN, Quote, XcmpError};
use sluice_xip::wire::{Dag, Hid, Mac, Packet, PacketHead, re};

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

fn hid(octet: u8) -> Hid {
    Hid([octet; 20])
}

/// The documented messages, with their forms and octets.
fn messages() -> Vec<(Form, Message<'static>, String)> {
    let (one, two) = ("11".repeat(20), "22".repeat(20));
    let listed = |addresses: &[ListedAddress]| {
        Message::List(vec![Listed { hid: hid(0x22), addresses: addresses.to_vec() }])
    };
    let address = |last, status| ListedAddress { mac: mac(last), status };
    let probe = |kind, investigated| {
        Message::Probe(Probe { kind, clock: 0x5f00_0000, source: mac(1), destination: mac(2), investigated })
    };
    let announcement = |clock, hids| Message::Announcement(Announcement { clock, sender: mac(1), hids });
    let alive = Some(Status { is_alive: true, clock: 0x5f00_0000 });
    vec![
        (
            Form::Basic,
            announcement(None, vec![hid(0x11), hid(0x22)]),
            format!("01010206 020000000001 {one} {two}"),
        ),
        (
            Form::Basic,
            listed(&[address(1, None), address(2, None)]),
            format!("01020106 {two} 02 020000000001 020000000002"),
        ),
        (
            Form::Monitoring,
            announcement(Some(0x5f00_0000), vec![hid(0x11)]),
            format!("01010106 5f000000 020000000001 {one}"),
        ),
        (Form::Monitoring, listed(&[address(2, alive)]), format!("01020106 {two} 01 020000000002 df000000")),
        (
            Form::Monitoring,
            probe(ProbeKind::Ping, None),
            "01030006 5f000000 020000000001 020000000002".into(),
        ),
        (
            Form::Monitoring,
            probe(ProbeKind::RequestPing, Some(mac(3))),
            "01050006 5f000000 020000000001 020000000002 020000000003".into(),
        ),
    ]
}

#[test]
fn messages_are_read_and_written_as_their_vectors() {
    for (form, message, digits) in messages() {
        let wire = octets(&digits);
        assert_eq!(Message::decode(&wire, form), Ok(message.clone()));
        let mut written = vec![];
        message.put(&mut written);
        assert_eq!(written, wire);
        let padded = [&wire[..], &[0; 9]].concat();
        assert_eq!(Message::decode(&padded, form), Ok(message), "padding");
        for end in 0..wire.len() {
            assert_eq!(Message::decode(&wire[..end], form), Err(NwpError::Truncated), "{end} of {digits}");
        }
    }
}

#[test]
fn malformed_messages_are_dropped() {
    let wire = octets(&messages()[0].2);
    for (place, octet, error) in [
        (0, 2, NwpError::Version(2)),
        (1, 0, NwpError::Kind(0)),
        (1, 3, NwpError::Kind(3)),
        (1, 0x82, NwpError::Kind(0x82)),
        (2, 0, NwpError::NoHids),
        (3, 8, NwpError::AddressLength(8)),
        (2, 3, NwpError::Truncated),
    ] {
        let mut wire = wire.clone();
        wire[place] = octet;
        assert_eq!(Message::decode(&wire, Form::Basic), Err(error));
    }
}

#[test]
fn challenges_and_proofs_come_back_in_both_forms() {
    let challenge = Message::Challenge(Challenge { sender: mac(1), hid: hid(2), nonce: [3; 32] });
    let (key, signature) = ([4; 270], [5; 256]);
    let response = Message::Response(Response {
        sender: mac(2),
        hid: hid(2),
        nonce: [3; 32],
        key: &key,
        signature: &signature,
    });
    for message in [challenge, response] {
        let mut wire = vec![];
        message.put(&mut wire);
        for form in [Form::Basic, Form::Monitoring] {
            assert_eq!(Message::decode(&wire, form), Ok(message.clone()));
        }
        wire[2] = 2;
        assert_eq!(Message::decode(&wire, Form::Basic), Err(NwpError::Proof));
    }
    let mut wire = vec![];
    let empty = Response { sender: mac(2), hid: hid(2), nonce: [3; 32], key: &[], signature: &[1] };
    Message::Response(empty).put(&mut wire);
    assert_eq!(Message::decode(&wire, Form::Basic), Err(NwpError::Proof));
    assert_ne!(
        signed_octets(mac(1), mac(2), hid(3), &[0; 32]),
        signed_octets(mac(2), mac(1), hid(3), &[0; 32])
    );
}

#[test]
fn echoes_and_errors_come_back() {
    let packet = octets(PACKETS[1].2);
    let packet = Packet::parse(&packet).unwrap();
    let echo = Echo { identifier: 7, sequence: 9, data: b"ping" };
    for message in [
        xcmp::Message::Echo(echo),
        xcmp::Message::EchoReply(echo),
        xcmp::Message::Unreachable(Quote::of(&packet)),
        xcmp::Message::TimeExceeded(Quote { code: 1, ..Quote::of(&packet) }),
    ] {
        let mut wire = vec![];
        message.put(&mut wire);
        assert_eq!(xcmp::Message::decode(&wire), Ok(message));
        wire[5] ^= 1;
        assert_eq!(xcmp::Message::decode(&wire), Err(XcmpError::Checksum));
    }
    let mut redirect = vec![5, 0, 0xfa, 0xff, 0, 0, 0, 0];
    assert_eq!(xcmp::Message::decode(&redirect), Err(XcmpError::Kind(5, 0)));
    redirect.truncate(7);
    assert!(matches!(xcmp::Message::decode(&redirect), Err(XcmpError::Truncated(_))));
    assert_eq!(xcmp::Message::decode(&[0; MOST_LEN + 1]), Err(XcmpError::Long));
}

#[test]
fn the_largest_error_has_584_octets() {
    let nine = Dag::any_of(&["ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1".parse().unwrap()]).unwrap();
    let xid = nine.intent().unwrap();
    let nine = Dag::scoped(&[xid; 8], xid).unwrap();
    let mut wire = vec![];
    PacketHead::new(nine, nine).put(&[1; 1000], &mut wire).unwrap();
    let mut error = vec![];
    xcmp::Message::TimeExceeded(Quote::of(&Packet::parse(&wire).unwrap())).put(&mut error);
    assert_eq!((error.len(), MOST_LEN), (584, 584));
}

#[test]
fn errors_are_sent_about_packets_with_a_source_that_are_no_errors() {
    let (anonymous, named) = (octets(PACKETS[0].2), octets(PACKETS[1].2));
    assert!(!xcmp::may_report(&Packet::parse(&anonymous).unwrap()));
    let named = Packet::parse(&named).unwrap();
    assert!(xcmp::may_report(&named));
    let mut error = vec![];
    let local = Dag::direct("hid-1111111111111111111111111111111111111111".parse().unwrap());
    let message = xcmp::Message::Unreachable(Quote::of(&named));
    xcmp::put_answer(&named, local, &message, &mut error).unwrap();
    let error = Packet::parse(&error).unwrap();
    assert_eq!((error.next_header(), error.destination(), error.source()), (61, named.source(), local));
    assert_eq!(xcmp::Message::decode(error.payload()), Ok(message));
    assert!(!xcmp::may_report(&error));
}

#[test]
fn text_forms_of_the_prototype_are_read_as_its_tests_expect() {
    let Some(file) = sluice_testkit::read("data/vectors/xia-address-strings.tsv") else { return };
    let text = String::from_utf8(file).unwrap();
    let mut cases = 0;
    for line in text.lines().skip(1) {
        let mut fields = line.splitn(3, '\t');
        let (kind, expected, string) = (fields.next(), fields.next(), fields.next().unwrap());
        let is_read = match kind {
            Some("dag") => re::address(string).is_ok_and(|dag| dag.validate().is_ok()),
            _ => re::xid(string).is_ok(),
        };
        assert_eq!(is_read, expected == Some("pass"), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 13);
}
