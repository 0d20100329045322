//! Tests of the reader: forms of records, pieces of any length, and bad traces.

use super::*;
use crate::attributes::ReceiveRules;
use crate::hash::HashSeed;
use crate::reader::Reader;
use crate::shard::PeerIndex;
use crate::table::Spread;
use alloc::string::{String, ToString};
use alloc::{format, vec};
use core::net::Ipv4Addr;
use sluice_base::{Asn, Ipv4Prefix, Ipv6Prefix, Provenance, RouterId};
use sluice_mrt::{Addresses, MessageForm, Peer, Session, Writer};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn reading() -> Reading {
    let rules = ReceiveRules::new(Asn(1), RouterId(1), Asn(65001), Ipv4Addr::UNSPECIFIED.into());
    Reading {
        peer: PeerIndex(20),
        life: 1,
        reader: Reader::new(rules, Spread::new(HashSeed(1), 1)),
        provenance: Provenance::new(1, 0),
        longest_message: MAX_EXTENDED_LEN,
    }
}

fn session(peer: IpAddr) -> Session {
    let addresses = Addresses::new(peer, Ipv4Addr::new(192, 0, 2, 9).into()).expect("of one family");
    Session { peer_as: Asn(65001), local_as: Asn(1), interface: 0, addresses }
}

/// An UPDATE of 198.51.100.0/24 in a form.
fn update(form: MessageForm) -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0];
    match form.four_octet_as {
        true => attributes.extend([0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe9]),
        false => attributes.extend([0x40, 2, 4, 2, 1, 0xfd, 0xe9]),
    }
    attributes.extend([0x40, 3, 4, 192, 0, 2, 1]);
    let mut out = vec![];
    let at = header::start(&mut out, MessageType::Update);
    out.extend([0, 0, 0, attributes.len() as u8]);
    out.extend(attributes);
    if form.has_path_ids {
        out.extend([0, 0, 0, 7]);
    }
    out.extend([24, 198, 51, 100]);
    header::finish(&mut out, at);
    out
}

const FORMS: [MessageForm; 4] = [
    MessageForm { four_octet_as: true, has_path_ids: false },
    MessageForm { four_octet_as: false, has_path_ids: false },
    MessageForm { four_octet_as: true, has_path_ids: true },
    MessageForm { four_octet_as: false, has_path_ids: true },
];

/// A trace with a table and messages of all forms.
fn trace() -> Vec<u8> {
    let mut writer = Writer::with_microseconds();
    let peer = |address| Peer { router_id: RouterId(7), address, asn: Asn(65001) };
    writer.peer_index(5, RouterId(9), "", &[peer(OTHER), peer(PEER)]).expect("written");
    let ipv4 = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe9, 0x40, 3, 4, 192, 0, 2, 1];
    let mut ipv6 = ipv4[..13].to_vec();
    ipv6.extend([0x80, 14, 17, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let entry = |peer, path_id, attributes| Entry { peer, originated: 5, path_id, attributes };
    let prefix = |text: &str| text.parse().expect("a prefix");
    let both = [entry(0, None, &ipv4), entry(1, None, &ipv4)];
    writer.rib(5, 0, prefix("203.0.113.0/24"), &both).expect("written");
    let paths = [entry(1, Some(3), &ipv4[..]), entry(1, Some(4), &ipv4[..])];
    writer.rib(5, 1, prefix("203.0.113.0/25"), &paths).expect("written");
    writer.rib(5, 2, prefix("2001:db8:7::/48"), &[entry(1, None, &ipv6)]).expect("written");
    for form in FORMS {
        writer.received_message(6_000_000, &session(PEER), form, &update(form)).expect("written");
        writer.received_message(6_000_000, &session(OTHER), form, &update(form)).expect("written");
    }
    writer.sent_message(7_000_000, &session(PEER), &update(FORMS[0])).expect("written");
    writer.state_change(8_000_000, &session(PEER), State::Established, State::Idle).expect("written");
    writer.take()
}

/// Takes a trace in pieces. Returns each change in words, and the error.
fn take(trace: &[u8], piece: usize) -> (Vec<String>, Injector, Result<(), InjectionError>) {
    let mut injector = Injector::new(reading(), PEER);
    let mut batches = [Batches::default()];
    let mut changes = vec![];
    let note = |batches: &mut [Batches; 1], changes: &mut Vec<String>| {
        for (position, change) in batches[0].of::<Ipv4Prefix>().changes().iter().enumerate() {
            changes.push(format!("{} {:?}", change.prefix, batches[0].of::<Ipv4Prefix>().path_id(position)));
        }
        changes
            .extend(batches[0].of::<Ipv6Prefix>().changes().iter().map(|change| change.prefix.to_string()));
        batches[0].clear();
    };
    for mut octets in trace.chunks(piece) {
        loop {
            match injector.take(&mut octets, &mut batches) {
                Ok(Injected::Nothing) => break,
                Ok(Injected::Full) => note(&mut batches, &mut changes),
                Ok(Injected::SessionOver) => {
                    note(&mut batches, &mut changes);
                    changes.push("over".into());
                    injector.open(reading());
                }
                Err(error) => {
                    note(&mut batches, &mut changes);
                    return (changes, injector, Err(error));
                }
            }
        }
    }
    note(&mut batches, &mut changes);
    let finished = injector.finish();
    (changes, injector, finished)
}

#[test]
fn records_of_all_forms_are_read_however_they_come() {
    let trace = trace();
    let expected = [
        "203.0.113.0/24 None",
        "203.0.113.0/25 Some(3)",
        "203.0.113.0/25 Some(4)",
        // Of a batch, the changes of IPv4 come first.
        "198.51.100.0/24 None",
        "198.51.100.0/24 None",
        "2001:db8:7::/48",
        "198.51.100.0/24 Some(7)",
        "198.51.100.0/24 Some(7)",
        "over",
    ];
    for piece in [1, 2, 11, 12, 13, 100, 4096, trace.len()] {
        let (changes, injector, finished) = take(&trace, piece);
        assert_eq!((&changes[..], finished), (&expected.map(String::from)[..], Ok(())), "pieces of {piece}");
        let counts = injector.counts();
        assert_eq!((counts.records, counts.octets), (14, trace.len() as u64));
        assert_eq!((counts.updates, counts.of_others, counts.sessions), (8, 5, 1));
        assert!(injector.others().iter().eq(&[OTHER]));
    }
}

#[test]
fn a_torn_trace_ends_with_its_place() {
    let trace = trace();
    for end in 1..trace.len() {
        let (changes, injector, finished) = take(&trace[..end], 64);
        let counts = injector.counts();
        if counts.octets == end as u64 {
            assert_eq!(finished, Ok(()));
            continue;
        }
        let cause = InjectionCause::Torn;
        let expected = InjectionError { record: counts.records + 1, offset: counts.octets, cause };
        assert_eq!(finished, Err(expected), "{changes:?}");
    }
}

#[test]
fn bad_traces_are_refused_with_a_reason() {
    let whole = |kind: u16, subtype: u16, body: &[u8]| {
        let mut record = vec![0; 4];
        record.extend(kind.to_be_bytes());
        record.extend(subtype.to_be_bytes());
        record.extend((body.len() as u32).to_be_bytes());
        record.extend_from_slice(body);
        record
    };
    let message = |octets: &[u8]| {
        let mut writer = Writer::new();
        writer.message(0, &session(PEER), octets).expect("written");
        writer.take()
    };
    let mut short = update(FORMS[0]);
    short.pop();
    let mut bad_prefix = update(FORMS[0]);
    let len = bad_prefix.len();
    bad_prefix[len - 4] = 33;
    let mut too_long = whole(16, 4, &[]);
    too_long[8..12].copy_from_slice(&[0xff; 4]);
    let peers = {
        let mut writer = Writer::new();
        let peer = Peer { router_id: RouterId(7), address: PEER, asn: Asn(65001) };
        writer.peer_index(5, RouterId(9), "", &[peer]).expect("written");
        writer.take()
    };
    let rib = |peer, attributes: &[u8]| {
        let mut writer = Writer::new();
        let entry = Entry { peer, originated: 5, path_id: None, attributes };
        writer.rib(5, 0, "2001:db8::/32".parse().expect("a prefix"), &[entry]).expect("written");
        writer.take()
    };
    let after_peers = |record: Vec<u8>| [peers.clone(), record].concat();
    let cases = [
        (whole(14, 1, &[]), "MRT has no record type 14"),
        (too_long, "a record of 4294967295 octets is too long"),
        (whole(13, 2, &[0; 3]), "malformed record of type 13, subtype 2"),
        (whole(16, 4, &[0; 9]), "malformed record of type 16, subtype 4"),
        (whole(17, 4, &[0; 3]), "malformed record of type 17, subtype 4"),
        (message(&[0; 19]), "the marker is not all ones"),
        (message(&short), "the message is not as long as its header states"),
        (message(&bad_prefix), "UPDATE message error: invalid network field (3/10)"),
        (rib(0, &[]), "a route stands before PEER_INDEX_TABLE"),
        (after_peers(rib(1, &[])), "PEER_INDEX_TABLE has no peer 1"),
        (after_peers(rib(0, &[0x40, 1, 9])), "malformed attributes"),
        (after_peers(rib(0, &[0x80, 14, 1, 9])), "malformed attributes"),
    ];
    for (trace, expected) in cases {
        for piece in [1, trace.len()] {
            let (changes, mut injector, finished) = take(&trace, piece);
            let error = finished.expect_err(expected);
            assert_eq!((changes.len(), error.cause.to_string()), (0, expected.to_string()));
            // Nothing behind the error is read.
            assert_eq!(injector.take(&mut &trace[..], &mut [Batches::default()]), Err(error.clone()));
            assert_eq!(injector.finish(), Err(error));
        }
    }
    // Types that are not read are skipped.
    let (_, injector, finished) = take(&[whole(12, 1, &[1, 2]), whole(13, 6, &[])].concat(), 5);
    assert_eq!((finished, injector.counts().skipped), (Ok(()), 2));
}
