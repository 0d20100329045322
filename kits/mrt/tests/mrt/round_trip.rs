//! What is written is read again: by the reader here, and by bgpdump.

use proptest::prelude::*;
use sluice_base::{Asn, IpPrefix, RouterId};
use sluice_mrt::{
    Addresses, Entry, MessageForm, Peer, PeerIndex, Record, Rib, Session, State, StateChange, Unwritable,
    Writer, messages, records,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// Something to write.
#[derive(Clone, Debug)]
enum Item {
    Message { time: u64, session: Session, is_local: bool, octets: Vec<u8> },
    StateChange(StateChange),
    PeerIndex { time: u32, collector: u32, view: String, peers: Vec<Peer> },
    Rib { time: u32, sequence: u32, prefix: IpPrefix, entries: Vec<(u16, u32, Vec<u8>)> },
}

fn put(writer: &mut Writer, item: &Item) {
    let done = match item {
        Item::Message { time, session, is_local: false, octets } => writer.message(*time, session, octets),
        Item::Message { time, session, octets, .. } => writer.sent_message(*time, session, octets),
        Item::StateChange(c) => writer.state_change(c.time, &c.session, c.old, c.new),
        Item::PeerIndex { time, collector, view, peers } => {
            writer.peer_index(*time, RouterId(*collector), view, peers)
        }
        Item::Rib { time, sequence, prefix, entries } => {
            writer.rib(*time, *sequence, *prefix, &entries_of(*sequence, entries))
        }
    };
    done.unwrap();
}

/// The routes of a record; those of odd records have path identifiers.
fn entries_of(sequence: u32, entries: &[(u16, u32, Vec<u8>)]) -> Vec<Entry<'_>> {
    entries
        .iter()
        .map(|(peer, originated, a)| Entry {
            peer: *peer,
            originated: *originated,
            path_id: (sequence % 2 == 1).then_some(!originated),
            attributes: a,
        })
        .collect()
}

fn check(item: &Item, record: &Record<'_>, with_microseconds: bool) {
    let round = |time: u64| if with_microseconds { time } else { time / 1_000_000 * 1_000_000 };
    match (item, record) {
        (Item::Message { time, session, is_local, octets }, Record::Message(m)) => {
            assert_eq!((m.time, m.session, m.is_local), (round(*time), *session, *is_local));
            assert_eq!((m.peer_as, m.peer), (session.peer_as.0, session.addresses.peer()));
            assert!(m.four_octet_as && m.octets == octets);
        }
        (Item::StateChange(c), found) => {
            assert_eq!(*found, Record::StateChange(StateChange { time: round(c.time), ..*c }));
        }
        (Item::PeerIndex { time, collector, view, peers }, found) => {
            let collector = RouterId(*collector);
            let expected = PeerIndex { time: *time, collector, view, peers: peers.clone() };
            assert_eq!(*found, Record::PeerIndex(expected));
        }
        (Item::Rib { time, sequence, prefix, entries }, found) => {
            let entries = entries_of(*sequence, entries);
            let expected = Rib { time: *time, sequence: *sequence, prefix: *prefix, entries };
            assert_eq!(*found, Record::Rib(expected));
        }
        (item, found) => panic!("{item:?} became {found:?}"),
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|a| Ipv4Addr::from(a).into()),
        any::<u128>().prop_map(|a| Ipv6Addr::from(a).into()),
    ]
}

fn session() -> impl Strategy<Value = Session> {
    let addresses = prop_oneof![
        any::<(u32, u32)>().prop_map(|(p, l)| Addresses::V4 { peer: p.into(), local: l.into() }),
        any::<(u128, u128)>().prop_map(|(p, l)| Addresses::V6 { peer: p.into(), local: l.into() }),
    ];
    (any::<(u32, u32, u16)>(), addresses).prop_map(|((peer_as, local_as, interface), addresses)| Session {
        peer_as: Asn(peer_as),
        local_as: Asn(local_as),
        interface,
        addresses,
    })
}

fn time() -> impl Strategy<Value = u64> {
    0..(u64::from(u32::MAX) + 1) * 1_000_000
}

fn item() -> impl Strategy<Value = Item> {
    let octets = |most| prop::collection::vec(any::<u8>(), 0..most);
    let state = || prop::sample::select(State::ALL.to_vec());
    let peer = (any::<(u32, u32)>(), address()).prop_map(|((id, asn), address)| Peer {
        router_id: RouterId(id),
        address,
        asn: Asn(asn),
    });
    let prefix = (address(), 0u8..=128).prop_map(|(address, len)| {
        let width = if address.is_ipv4() { 32 } else { 128 };
        IpPrefix::new(address, len.min(width)).unwrap()
    });
    prop_oneof![
        (time(), session(), any::<bool>(), octets(300))
            .prop_map(|(time, session, is_local, octets)| Item::Message { time, session, is_local, octets }),
        (time(), session(), state(), state())
            .prop_map(|(time, session, old, new)| Item::StateChange(StateChange { time, session, old, new })),
        (any::<(u32, u32)>(), ".{0,20}", prop::collection::vec(peer, 0..5))
            .prop_map(|((time, collector), view, peers)| Item::PeerIndex { time, collector, view, peers }),
        (any::<(u32, u32)>(), prefix, prop::collection::vec((any::<u16>(), any::<u32>(), octets(60)), 0..4))
            .prop_map(|((time, sequence), prefix, entries)| Item::Rib { time, sequence, prefix, entries }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(items in prop::collection::vec(item(), 0..20), with_microseconds: bool) {
        let mut writer = if with_microseconds { Writer::with_microseconds() } else { Writer::new() };
        items.iter().for_each(|item| put(&mut writer, item));
        let trace = writer.take();
        let found: Vec<Record<'_>> = records(&trace).collect();
        prop_assert_eq!(found.len(), items.len());
        items.iter().zip(&found).for_each(|(item, record)| check(item, record, with_microseconds));
        let count = found.iter().filter(|r| matches!(r, Record::Message(_))).count();
        prop_assert_eq!(messages(&trace).count(), count);
        // Whatever is cut off, what came before is read.
        for end in (0..trace.len()).step_by(7) {
            prop_assert!(records(&trace[..end]).eq(found[..records(&trace[..end]).count()].iter().cloned()));
        }
    }

    #[test]
    fn damage_does_not_panic(items in prop::collection::vec(item(), 1..6), at: prop::sample::Index, octet: u8) {
        let mut writer = Writer::with_microseconds();
        items.iter().for_each(|item| put(&mut writer, item));
        let mut trace = writer.take();
        let at = at.index(trace.len());
        trace[at] = octet;
        prop_assert!(records(&trace).count() <= trace.len() / 12);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let session = Session {
        peer_as: Asn(1),
        local_as: Asn(2),
        interface: 0,
        addresses: Addresses::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()).unwrap(),
    };
    assert_eq!(Addresses::new("10.0.0.1".parse().unwrap(), "::2".parse().unwrap()), None);
    let mut writer = Writer::new();
    let long = vec![0; 65_536];
    assert_eq!(writer.message(u64::MAX, &session, &[]), Err(Unwritable::Time));
    assert_eq!(writer.message(0, &session, &long), Err(Unwritable::TooLong("octets of a message")));
    let prefix = "10.0.0.0/8".parse().unwrap();
    let entry = Entry { peer: 0, originated: 0, path_id: None, attributes: &long };
    assert_eq!(writer.rib(0, 0, prefix, &[entry]), Err(Unwritable::TooLong("octets of attributes")));
    let entries = vec![Entry { attributes: &[], ..entry }; 65_536];
    assert!(writer.rib(0, 0, prefix, &entries).is_err());
    assert!(writer.octets().is_empty());
}

#[test]
fn messages_in_each_form_are_read_again() {
    let addresses = Addresses::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into()).unwrap();
    let session = Session { peer_as: Asn(400_000), local_as: Asn(64_500), interface: 3, addresses };
    for (four_octet_as, has_path_ids) in [(true, true), (true, false), (false, true), (false, false)] {
        let form = MessageForm { four_octet_as, has_path_ids };
        let mut writer = Writer::with_microseconds();
        writer.received_message(5_000_007, &session, form, &[0xff; 23]).unwrap();
        let trace = writer.take();
        let read: Vec<_> = messages(&trace).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].four_octet_as, read[0].has_path_ids), (four_octet_as, has_path_ids));
        // AS_TRANS has the place of a number of more than 2 octets (RFC 6793, section 9).
        let peer_as = if four_octet_as { session.peer_as } else { Asn(23_456) };
        assert_eq!((read[0].session, read[0].octets), (Session { peer_as, ..session }, &[0xff; 23][..]));
        // The subtype: RFC 6396, section 4.4, and RFC 8050, section 3.
        assert_eq!(trace[7], [1, 4, 8, 9][usize::from(has_path_ids) * 2 + usize::from(four_octet_as)]);
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// The examples of RFC 6396, appendix A.
#[test]
fn the_examples_of_the_rfc() {
    const TIME: u32 = 1_300_475_700;
    let session = Session {
        peer_as: Asn(64496),
        local_as: Asn(64497),
        interface: 0,
        addresses: Addresses::new("192.0.2.85".parse().unwrap(), "198.51.100.4".parse().unwrap()).unwrap(),
    };
    // The UPDATE's own length octets say 0x3e; the record's say 82 = 20 + 62.
    let update = hex(
        "ffffffffffffffffffffffffffffffff003e020000001f4001010240020e02030000fbf00000fbff0000fbf6400304c6336455c0\
         0804fbf0000e18cb0071",
    );
    let mut writer = Writer::new();
    writer.message(u64::from(TIME) * 1_000_000, &session, &update).unwrap();
    let head = hex("4d83af34 0010 0004 00000052 0000fbf0 0000fbf1 0000 0001 c0000255 c6336404");
    assert_eq!(writer.take(), [head, update].concat());

    let peer = |address: &str, asn| Peer {
        router_id: RouterId(address.parse::<Ipv4Addr>().unwrap().into()),
        address: address.parse().unwrap(),
        asn: Asn(asn),
    };
    let peers = [peer("198.51.100.5", 65541), peer("192.0.2.33", 65542)];
    writer.peer_index(TIME, RouterId(0xc633_6404), "", &peers).unwrap();
    let expected = hex(
        "4d83af34 000d 0001 00000022 c6336404 0000 0002 02 c6336405 c6336405 00010005 02 c0000221 c0000221 00010006",
    );
    assert_eq!(writer.take(), expected);

    // Figure 19 has 68 octets of attributes, of which MP_REACH_NLRI is not shortened; here they are octets.
    let attributes = [0; 68];
    let entry = Entry { peer: 15, originated: TIME, path_id: None, attributes: &attributes };
    writer.rib(TIME, 42, "2001:db8::/32".parse().unwrap(), &[entry]).unwrap();
    let head = hex("4d83af34 000d 0004 00000057 0000002a 20 20010db8 0001 000f 4d83af34 0044");
    assert_eq!(writer.take(), [head, attributes.to_vec()].concat());
}

/// An UPDATE that announces 203.0.113.0/24 and one that withdraws it.
fn updates() -> [Vec<u8>; 2] {
    let update = |body: &str| {
        let body = hex(body);
        let len = (19 + body.len()) as u16;
        [&[0xff; 16][..], &len.to_be_bytes(), &[2], &body].concat()
    };
    let attributes = "40010100 40020e0203 0000fbf0 00011170 0000fbf6 400304 c0000255";
    [update(&format!("0000 001c {attributes} 18cb0071")), update("0004 18cb0071 0000")]
}

#[test]
fn bgpdump_reads_it() {
    if Command::new("bgpdump").arg("-h").output().is_err() {
        return sluice_testkit::skipped("no bgpdump");
    }
    let v4 = Session {
        peer_as: Asn(70000),
        local_as: Asn(64497),
        interface: 0,
        addresses: Addresses::new("192.0.2.85".parse().unwrap(), "198.51.100.4".parse().unwrap()).unwrap(),
    };
    let addresses = Addresses::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()).unwrap();
    let v6 = Session { addresses, ..v4 };
    let [announce, withdraw] = updates();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.mrt");
    let dump = |trace: &[u8]| -> Vec<String> {
        std::fs::write(&file, trace).unwrap();
        let output = Command::new("bgpdump").args(["-m", "-q"]).arg(&file).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
    };
    let announced = |kind: &str, time: &str, peer: &str| {
        format!("{kind}|{time}|A|{peer}|70000|203.0.113.0/24|64496 70000 64502|IGP|192.0.2.85|0|0||NAG||")
    };
    for with_microseconds in [false, true] {
        let mut writer = if with_microseconds { Writer::with_microseconds() } else { Writer::new() };
        let second = 1_300_475_700_000_000;
        writer.state_change(second, &v4, State::OpenConfirm, State::Established).unwrap();
        writer.message(second + 5, &v4, &announce).unwrap();
        writer.message(second + 1_000_000, &v6, &announce).unwrap();
        writer.message(second + 2_000_000, &v6, &withdraw).unwrap();
        writer.state_change(second + 3_000_000, &v6, State::Established, State::Idle).unwrap();
        let kind = if with_microseconds { "BGP4MP_ET" } else { "BGP4MP" };
        let at = |seconds: u32, micros: u32| match with_microseconds {
            true => format!("{seconds}.{micros:06}"),
            false => seconds.to_string(),
        };
        let expected = [
            format!("{kind}|{}|STATE|192.0.2.85|70000|5|6", at(1_300_475_700, 0)),
            announced(kind, &at(1_300_475_700, 5), "192.0.2.85"),
            announced(kind, &at(1_300_475_701, 0), "2001:db8::1"),
            format!("{kind}|{}|W|2001:db8::1|70000|203.0.113.0/24", at(1_300_475_702, 0)),
            format!("{kind}|{}|STATE|2001:db8::1|70000|6|1", at(1_300_475_703, 0)),
        ];
        assert_eq!(dump(&writer.take()), expected);
    }
    let mut writer = Writer::new();
    let peer =
        |address: &str| Peer { router_id: RouterId(1), address: address.parse().unwrap(), asn: Asn(70000) };
    writer.peer_index(7, RouterId(2), "", &[peer("192.0.2.85"), peer("2001:db8::1")]).unwrap();
    let attributes = hex("40010100 40020e0203 0000fbf0 00011170 0000fbf6 400304 c0000255");
    let entry = |peer| Entry { peer, originated: 6, path_id: None, attributes: &attributes };
    writer.rib(7, 0, "203.0.113.0/24".parse().unwrap(), &[entry(0), entry(1)]).unwrap();
    // Of MP_REACH_NLRI there is only the next hop (RFC 6396, section 4.3.4).
    let attributes = hex("40010100 4002060201 00011170 800e11 10 20010db8000000000000000000000001");
    let entry = Entry { peer: 1, originated: 6, path_id: None, attributes: &attributes };
    writer.rib(7, 1, "2001:db8:1::/48".parse().unwrap(), &[entry]).unwrap();
    let found = dump(&writer.take());
    let path = "64496 70000 64502|IGP|192.0.2.85|0|0||NAG||";
    let expected = [
        format!("TABLE_DUMP2|7|B|192.0.2.85|70000|203.0.113.0/24|{path}"),
        format!("TABLE_DUMP2|7|B|2001:db8::1|70000|203.0.113.0/24|{path}"),
        "TABLE_DUMP2|7|B|2001:db8::1|70000|2001:db8:1::/48|70000|IGP|2001:db8::1|0|0||NAG||".into(),
    ];
    assert_eq!(found, expected);
}

/// A real trace, taken apart and written again, is the same.
#[test]
fn a_real_trace_comes_out_as_it_went_in() {
    for (path, with_microseconds) in [
        ("data/bgp/updates/rrc01.updates.20241001.0055.gz", false),
        ("data/bgp/updates/pch-as3856.fullfeed.20151023.et.mrt.gz", true),
    ] {
        let Some(trace) = sluice_testkit::read(path) else { return };
        let mut writer = if with_microseconds { Writer::with_microseconds() } else { Writer::new() };
        let (mut same, mut at, mut count) = (0, 0, 0);
        for record in records(&trace) {
            let len = u32::from_be_bytes(trace[at + 8..at + 12].try_into().unwrap()) as usize;
            match record {
                Record::Message(m) if m.four_octet_as && !m.is_local => {
                    writer.message(m.time, &m.session, m.octets).unwrap();
                }
                Record::StateChange(c) => writer.state_change(c.time, &c.session, c.old, c.new).unwrap(),
                _ => {}
            }
            let written = writer.take();
            let raw = &trace[at..at + 12 + len];
            // Sessions with 2-octet AS numbers are written with 4.
            if !written.is_empty() && matches!(raw[7], 4 | 5) {
                assert_eq!(written, raw, "{path} at {at}");
                same += 1;
            }
            (at, count) = (at + 12 + len, count + 1);
        }
        assert_eq!(at, trace.len());
        println!("{path}: {same} of {count} records");
        assert!(same * 10 > count * 9, "{path}: {same} of {count}");
    }
}
