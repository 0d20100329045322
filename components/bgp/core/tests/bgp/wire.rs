//! Real octets both ways: captures of many speakers, whole traces, and messages made to break decoders.

use sluice_base::Ipv4Prefix;
use sluice_base::{Asn, Provenance, RouterId};
use sluice_bgp::attributes::{ReceiveRules, canonical};
use sluice_bgp::batch::Batches;
use sluice_bgp::hash::HashSeed;
use sluice_bgp::reader::{Framer, Reader};
use sluice_bgp::table::Spread;
use sluice_bgp::wire::attribute::Attributes;
use sluice_bgp::wire::{
    FamilyKey, HEADER_LEN, MessageType, Nlri, Notification, Open, RouteRefresh, Update, WireError, header,
};
use sluice_mrt as mrt;
use sluice_testkit::{capture, read, shared};
use std::net::IpAddr;

#[derive(Default, Debug)]
struct Tally {
    messages: [usize; 6],
    bad_frames: usize,
    refused: usize,
    malformed: usize,
}

fn rules(four_octet_as: bool) -> ReceiveRules {
    let asn = Asn(64_999);
    let rules = ReceiveRules::new(asn, RouterId(1), asn, IpAddr::from([192, 0, 2, 255]));
    ReceiveRules { four_octet_as, enforce_first_as: false, ..rules }
}

/// Writes a body again from the parsed values.
fn rewritten(kind: MessageType, body: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![];
    match kind {
        MessageType::Open => Open::decode(body).ok()?.put(&mut out),
        MessageType::Notification => Notification::decode(body).ok()?.put(&mut out),
        MessageType::RouteRefresh => {
            RouteRefresh::decode(body).ok().filter(|_| body.len() == 4)?.put(&mut out)
        }
        MessageType::Keepalive => header::put_keepalive(&mut out),
        MessageType::Update => {
            let update = Update::decode(body).ok()?;
            let prefixes = |field, out: &mut Vec<u8>| {
                let all: Result<Vec<Ipv4Prefix>, _> = Nlri::new(field, 0).collect();
                all.ok().map(|all| all.iter().for_each(|p| p.put(out)))
            };
            let (mut withdrawn, mut attributes, mut nlri) = (vec![], vec![], vec![]);
            prefixes(update.withdrawn, &mut withdrawn)?;
            prefixes(update.nlri, &mut nlri)?;
            for attribute in Attributes::new(update.attributes, 0) {
                attribute.ok()?.put(&mut attributes);
            }
            let at = header::start(&mut out, kind);
            out.extend_from_slice(&(withdrawn.len() as u16).to_be_bytes());
            out.extend(withdrawn);
            out.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
            out.extend(attributes);
            out.extend(nlri);
            header::finish(&mut out, at);
        }
    }
    Some(out.split_off(HEADER_LEN))
}

fn stream(octets: &[u8], four_octet_as: bool, tally: &mut Tally) {
    let mut framer = Framer::default();
    let mut input = octets;
    let mut reader = Reader::new(rules(four_octet_as), Spread::new(HashSeed(1), 1));
    let mut batches = Batches::default();
    loop {
        let frame = match framer.next(&mut input) {
            Ok(Some(frame)) => frame,
            Ok(None) => return,
            Err(_) => {
                tally.bad_frames += 1;
                return;
            }
        };
        tally.messages[frame.kind as usize] += 1;
        if let Some(again) = rewritten(frame.kind, frame.body) {
            let twice = rewritten(frame.kind, &again);
            assert_eq!(twice.as_deref(), Some(&again[..]), "what is written reads the same");
        }
        if frame.kind != MessageType::Update {
            continue;
        }
        match reader.update(frame.body, Provenance::NONE, core::slice::from_mut(&mut batches)) {
            Err(_) => tally.refused += 1,
            Ok(remarks) => tally.malformed += usize::from(remarks.malformed.is_some()),
        }
        for set in batches.of::<Ipv4Prefix>().sets() {
            let octets = batches.of::<Ipv4Prefix>().octets(set);
            let mut again = vec![];
            canonical::attributes(octets).for_each(|a| a.put(&mut again));
            assert_eq!(again, octets);
        }
        batches.clear();
    }
}

fn captures(folder: &str) -> Option<Tally> {
    let folder = shared(folder)?;
    let mut tally = Tally::default();
    let mut files: Vec<_> = std::fs::read_dir(&folder).ok()?.flatten().map(|f| f.path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.is_file()) {
        let name = format!(
            "data/pcap/bgp{}/{}",
            if folder.ends_with("malformed") { "/malformed" } else { "" },
            path.file_name()?.to_str()?
        );
        for octets in capture::tcp_streams(&read(&name)?, 179) {
            for width in [false, true] {
                stream(&octets, width, &mut tally);
            }
        }
    }
    Some(tally)
}

#[test]
fn packet_captures() {
    let Some(tally) = captures("data/pcap/bgp") else { return };
    println!("{tally:?}");
    assert!(tally.messages[1..].iter().all(|n| *n > 0), "{tally:?}");
}

/// The bodies of all messages in `octets`, cut where the octets end: a decoder must stand what a capture lost, and a length that
/// claims too much.
fn bodies(octets: &[u8]) -> Vec<(u8, &[u8])> {
    let marker = [0xff; 16];
    let starts = (0..octets.len()).filter(|at| octets[*at..].starts_with(&marker));
    let body = |at: usize| {
        let header = octets.get(at..at + HEADER_LEN)?;
        let len = usize::from(u16::from_be_bytes([header[16], header[17]])).max(HEADER_LEN);
        Some((header[18], &octets[at + HEADER_LEN..octets.len().min(at + len)]))
    };
    starts.filter_map(body).collect()
}

/// The result for a message body: accepted, accepted with a remark on malformed attributes, or refused with code and subcode.
fn judged(kind: u8, body: &[u8]) -> String {
    let said = |result: Result<(), WireError>| {
        result.map_or_else(|error| format!("refused: {error}"), |()| "accepted".into())
    };
    match kind {
        1 => said(Open::decode(body).map(drop)),
        2 => {
            let mut reader = Reader::new(rules(true), Spread::new(HashSeed(1), 1));
            let mut batches = Batches::default();
            match reader.update(body, Provenance::NONE, core::slice::from_mut(&mut batches)) {
                Err(n) => format!("refused {}/{}", n.code, n.subcode),
                Ok(remarks) if remarks.malformed.is_some() => "malformed".into(),
                Ok(_) => "accepted".into(),
            }
        }
        3 => said(Notification::decode(body).map(drop)),
        5 => said(RouteRefresh::decode(body).map(drop)),
        _ => format!("unknown type {kind}"),
    }
}

#[test]
fn captures_that_broke_decoders() {
    // The first two are OPENs of another version, of which nothing behind the version is read; the session refuses them.
    let expected: [(&str, &[&str]); 6] = [
        ("bgp_capabilities_print-oobr-1", &["1: accepted"]),
        ("bgp_capabilities_print-oobr-2", &["1: accepted"]),
        ("malformed-hard-reset", &["3: accepted"]),
        ("bgp_mp_reach_nlri-oobr", &["2: refused 3/1"; 6]),
        ("bgp_mvpn_6_and_7_oobr", &["2: refused 3/1"]),
        ("bgpsec_invalid_signature_block_length", &["2: malformed"]),
    ];
    let mut found = Vec::new();
    for (name, _) in expected {
        let prefix = if name.starts_with("bgp_capab") || name.starts_with("malformed") { "bgp-" } else { "" };
        let Some(file) = read(&format!("data/pcap/bgp/malformed/tcpdump__{prefix}{name}.pcap")) else {
            return;
        };
        let streams = capture::tcp_streams(&file, 179);
        let mut outcomes = Vec::new();
        for octets in &streams {
            for width in [false, true] {
                stream(octets, width, &mut Tally::default());
            }
            for (kind, body) in bodies(octets) {
                outcomes.push(format!("{kind}: {}", judged(kind, body)));
                // Whatever a message claims to be, no decoder may fall over it, nor over any piece of it.
                for end in 0..=body.len() {
                    (1..=5).for_each(|kind| _ = judged(kind, &body[..end]));
                }
            }
        }
        found.push((name, outcomes));
    }
    let expected = expected.map(|(name, all)| (name, all.iter().map(|o| o.to_string()).collect::<Vec<_>>()));
    assert_eq!(found, expected);
}

#[test]
fn vectors() {
    for name in ["keepalive", "notification", "open", "route_refresh", "update"] {
        let Some(text) = read(&format!("data/vectors/bgp-{name}.hex")) else { return };
        for line in String::from_utf8_lossy(&text).lines() {
            let Some((_, hex)) = line.split_once(' ') else { continue };
            let octets: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            let Some(frame) = header::frame(&octets).unwrap() else { continue };
            if let Some(again) = rewritten(frame.kind, frame.body)
                && !octets.ends_with(&[0; 8])
            {
                // Capabilities spread over several parameters come back in one: the same capabilities all the same.
                if frame.kind == MessageType::Open {
                    assert_eq!(Open::decode(&again), Open::decode(frame.body), "{line}");
                } else {
                    assert_eq!(again, frame.body, "{line}");
                }
            }
        }
    }
}

#[test]
fn traces() {
    let mut messages = 0;
    for (name, expected) in [
        ("pch-as3856.fullfeed.20151023.et.mrt.gz", 89_679),
        ("rrc01.updates.20241001.0055.gz", 93_166),
        ("rv-sydney.updates.20220601.0415.bz2", 53_716),
        ("ris.updates.20160811.1600.gz", 17_216),
        ("ris.updates.20020722.2238.gz", 393),
    ] {
        let Some(trace) = read(&format!("data/bgp/updates/{name}")) else { return };
        let mut tally = Tally::default();
        for message in mrt::messages(&trace) {
            stream(message.octets, message.four_octet_as, &mut tally);
        }
        println!("{name}: {tally:?}");
        assert_eq!((tally.messages[2], tally.bad_frames, tally.refused), (expected, 0, 0), "{name}");
        messages += tally.messages[2];
    }
    assert!(messages > 200_000);
}
