//! Files that tools and tests read: traces, captures, archives, lists of prefixes, topologies.

pub mod captures;
pub mod graphs;

use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, Provenance, RouterId};
use sluice_bgp::attributes::ReceiveRules;
use sluice_bgp::batch::Batches;
use sluice_bgp::family::Families;
use sluice_bgp::hash::HashSeed;
use sluice_bgp::injection::{Injected, InjectionCounts, Injector};
use sluice_bgp::intake::Reading;
use sluice_bgp::mrt::RecordedSession;
use sluice_bgp::reader::Reader;
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::table::Spread;
use sluice_lab::Topology;
use sluice_load::source;
use sluice_mrt as mrt;
use sluice_sim::campaign;
use sluice_sim::scenario::Scenario;
use sluice_testkit::{capture, tar};

/// An MRT trace: no message is longer than the trace.
pub fn mrt_trace(octets: &[u8]) {
    let total: usize = mrt::messages(octets).map(|m| m.octets.len()).sum();
    assert!(total <= octets.len());
}

/// An MRT trace with records of every kind: parsed records are the same after writing and parsing.
pub fn mrt_records(octets: &[u8]) {
    let mut writer = mrt::Writer::with_microseconds();
    for record in mrt::records(octets) {
        let wrote = match &record {
            mrt::Record::Message(m) if !m.is_local => {
                let form = mrt::MessageForm { four_octet_as: m.four_octet_as, has_path_ids: m.has_path_ids };
                writer.received_message(m.time, &m.session, form, m.octets)
            }
            mrt::Record::StateChange(c) => writer.state_change(c.time, &c.session, c.old, c.new),
            mrt::Record::PeerIndex(p) => writer.peer_index(p.time, p.collector, p.view, &p.peers),
            mrt::Record::Rib(r) => writer.rib(r.time, r.sequence, r.prefix, &r.entries),
            _ => continue,
        };
        let written = writer.take();
        // What does not fit is a time after 2106, or a message longer than any.
        assert!(wrote.is_err() || mrt::records(&written).eq([record]));
    }
}

/// Messages of a neighbor, for a trace: each is in one record, as it came.
pub fn recorded_messages(octets: &[u8]) {
    let (peer, local) = ([192, 0, 2, 2].into(), [192, 0, 2, 1].into());
    for (four_octet_as, add_path) in [(true, Families::NONE), (true, Families::ALL), (false, Families::ALL)] {
        let rules = ReceiveRules::new(Asn(65001), RouterId(1), Asn(65002), local);
        let rules = ReceiveRules { four_octet_as, add_path, ..rules };
        let mut writer = mrt::Writer::with_microseconds();
        let session = RecordedSession::established(peer, &rules);
        let count = session.write(&mut writer, 0, octets).expect("the time fits");
        let trace = writer.take();
        let written: Vec<&[u8]> = mrt::messages(&trace).map(|message| message.octets).collect();
        assert_eq!(written.len() as u64, count);
        assert!(octets.starts_with(&written.concat()));
    }
}

/// A trace that is injected: in pieces it has the same routes and the same end as at once.
pub fn injected(octets: &[u8]) {
    let at_once = inject(octets, octets.len().max(1));
    assert_eq!(inject(octets, 7), at_once);
    let (_, counts, end) = at_once;
    assert!(counts.octets <= octets.len() as u64);
    assert!(end.is_none_or(|end| !end.is_empty()));
}

/// Injects a trace in pieces. Returns the number of changes, the counts, and the error.
fn inject(octets: &[u8], piece: usize) -> (usize, InjectionCounts, Option<String>) {
    let reading = || {
        let rules = ReceiveRules::new(Asn(1), RouterId(1), Asn(65001), [0, 0, 0, 0].into());
        let spread = Spread::new(HashSeed(1), 2);
        let (provenance, reader) = (Provenance::new(1, 0), Reader::new(rules, spread));
        Reading { peer: PeerIndex(20), life: 1, reader, provenance, longest_message: 4096 }
    };
    let mut injector = Injector::new(reading(), [10, 0, 0, 1].into());
    let mut batches = [Batches::default(), Batches::default()];
    let mut changes = 0;
    for mut octets in octets.chunks(piece) {
        loop {
            let taken = injector.take(&mut octets, &mut batches);
            changes += batches.iter().flat_map(|b| b.len().into_values()).sum::<usize>();
            batches.iter_mut().for_each(Batches::clear);
            match taken {
                Ok(Injected::Nothing) => break,
                Ok(Injected::Full) => {}
                Ok(Injected::SessionOver) => injector.open(reading()),
                Err(error) => return (changes, injector.counts().clone(), Some(error.to_string())),
            }
        }
    }
    let end = injector.finish().err().map(|error| error.to_string());
    (changes, injector.counts().clone(), end)
}

/// A packet capture.
pub fn packets(octets: &[u8]) {
    let streams = capture::tcp_streams(octets, 179);
    assert!(streams.iter().map(Vec::len).sum::<usize>() <= octets.len());
}

/// A scenario of the simulator, as for `--replay`: an accepted scenario is the same after writing and reading.
pub fn scenario(octets: &[u8]) {
    let Ok(scenario) = Scenario::parse(&String::from_utf8_lossy(octets)) else { return };
    let again = serde_json::to_string(&scenario).expect("scenarios are written");
    assert_eq!(Scenario::parse(&again).ok(), Some(scenario));
}

/// Scenarios of a campaign.
pub fn scenarios() -> Vec<Vec<u8>> {
    let write = |seed| serde_json::to_vec(&campaign::scenario(seed)).expect("scenarios are written");
    (1..=3).map(write).collect()
}

/// A tar archive.
pub fn archive(octets: &[u8]) {
    let total: usize = tar::files(octets).iter().map(|(_, content)| content.len()).sum();
    assert!(total <= octets.len());
}

/// A list of prefixes, of any of the three kinds.
pub fn prefix_list(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let lines = text.lines().count();
    let again: String = source::prefixes(&text).map(|(prefix, _)| format!("{prefix}\n")).collect();
    let first: Vec<_> = source::prefixes(&text).map(|(prefix, _)| prefix).collect();
    assert_eq!(source::prefixes(&again).map(|(prefix, _)| prefix).collect::<Vec<_>>(), first);
    assert!(source::csv(&text).count() <= lines);
    assert!(text.lines().filter_map(source::mrt_line).all(|a| !a.path.is_empty()));
}

/// A lab's topology: a parsed topology is consistent, and the same after writing and parsing.
pub fn topology(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match text.parse::<Topology>() {
        Ok(topology) => {
            assert!(topology.check().is_ok());
            let written = serde_json::to_value(&topology).expect("it can be written");
            assert_eq!(serde_json::from_value::<Topology>(written).ok(), Some(topology));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Records of every supported kind.
pub fn traces() -> Vec<Vec<u8>> {
    let record = |kind: u16, subtype: u16, body: &[u8]| {
        let mut out = 1_700_000_000u32.to_be_bytes().to_vec();
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&subtype.to_be_bytes());
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(body);
        out
    };
    let message = crate::bgp::messages().swap_remove(0);
    let two = [&[0xfd, 0xe9, 0xfd, 0xea, 0, 0, 0, 1, 10, 0, 0, 1, 10, 0, 0, 2][..], &message].concat();
    let four = [&[0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea, 0, 0, 0, 2][..], &[0x20; 32], &message].concat();
    let finer = [&7u32.to_be_bytes()[..], &four].concat();
    vec![[record(16, 1, &two), record(16, 4, &four), record(17, 7, &finer), record(13, 2, &[])].concat()]
}

/// Records as the writer makes them, of every kind.
pub fn record_traces() -> Vec<Vec<u8>> {
    let addresses = mrt::Addresses::V4 { peer: [10, 0, 0, 1].into(), local: [10, 0, 0, 2].into() };
    let session = mrt::Session { peer_as: Asn(65001), local_as: Asn(65002), interface: 0, addresses };
    let peer = |address| mrt::Peer { router_id: RouterId(1), address, asn: Asn(65001) };
    let peers = [peer([10, 0, 0, 1].into()), peer([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into())];
    let entry = mrt::Entry { peer: 1, originated: 5, path_id: None, attributes: &[0x40, 1, 1, 0] };
    let time = 1_700_000_000_000_007;
    let traces = [mrt::Writer::new(), mrt::Writer::with_microseconds()].map(|mut writer| {
        let message = crate::bgp::messages().swap_remove(0);
        let done = writer
            .message(time, &session, &message)
            .and_then(|()| writer.state_change(time, &session, mrt::State::Idle, mrt::State::Active))
            .and_then(|()| writer.peer_index(7, RouterId(9), "view", &peers))
            .and_then(|()| writer.rib(7, 0, IpPrefix::V4(Ipv4Prefix::default_route()), &[entry, entry]))
            .and_then(|()| writer.rib(7, 1, IpPrefix::V6(Ipv6Prefix::default_route()), &[]));
        assert!(done.is_ok());
        writer.take()
    });
    traces.into()
}

/// A capture of either format: two segments of a stream and an unrelated segment.
pub fn captures() -> Vec<Vec<u8>> {
    let frame = |sequence: u8, port: u8, payload: &[u8]| {
        let mut ip =
            vec![0x45, 0, 0, 40 + payload.len() as u8, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip.extend_from_slice(&[
            0, port, 0x30, 0x39, 0, 0, 0, sequence, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0,
        ]);
        ip.extend_from_slice(payload);
        [&[0u8; 12][..], &[8, 0], &ip].concat()
    };
    let frames = [frame(1, 179, b"first"), frame(6, 179, b"second"), frame(1, 80, b"other")];
    let mut old = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let mut new = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let size = (12 + body.len().next_multiple_of(4)) as u32;
        new.extend_from_slice(&kind.to_le_bytes());
        new.extend_from_slice(&size.to_le_bytes());
        new.extend_from_slice(body);
        new.resize(new.len().next_multiple_of(4), 0);
        new.extend_from_slice(&size.to_le_bytes());
    };
    block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    block(1, &[1, 0, 0, 0, 0, 0, 4, 0]);
    for frame in &frames {
        let size = (frame.len() as u32).to_le_bytes();
        old.extend_from_slice(&[[0; 4], [0; 4], size, size].concat());
        old.extend_from_slice(frame);
        block(6, &[&[[0; 4], [0; 4], [0; 4], size, size].concat()[..], frame].concat());
    }
    vec![old, new]
}

/// An archive of two files.
pub fn archives() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (name, content) in [("a/first", &b"one"[..]), ("second", &[7; 600])] {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..136].copy_from_slice(format!("{:011o} ", content.len()).as_bytes());
        header[156] = b'0';
        out.extend_from_slice(&header);
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    vec![out]
}

/// Lists of each kind.
pub fn lists() -> Vec<Vec<u8>> {
    let all = [
        "10.0.0.0/8 64500\n# no\n2001:db8::/32\t64501\n192.0.2.0/24,65000,x\n::/0\n",
        "net,len,asn\n66.253.19.0,24,18566\n10.0.0.0,8,1\n",
        "TABLE_DUMP2|1400824800|B|203.181.248.168|7660|1.0.0.0/24|7660 2516 {15169,3}|IGP|203.181.248.168|0|0||NAG||\n\
         BGP4MP|1|A|2001:db8::1|1|2001:db8::/32|1 2|IGP|::|0|0||NAG||\n",
    ];
    all.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Topologies.
pub fn topologies() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../seeds/lab.toml").to_vec(), b"[nodes.a]\n[[links]]\na='a:x'\nb='a:y'".to_vec()]
}
