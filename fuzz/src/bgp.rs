//! BGP: messages, attributes, and a whole session.

use sluice_base::{Asn, Instant, Ipv4Prefix, Ipv6Prefix, Prefix, Provenance, RouterId, Xid, XidPrefix};
use sluice_bgp::attributes::{ReceiveRules, canonical};
use sluice_bgp::batch::Batch;
use sluice_bgp::batch::Batches;
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::family::{Families, FamilyCodes};
use sluice_bgp::gtsm;
use sluice_bgp::hash::HashSeed;
use sluice_bgp::orf::Entries;
use sluice_bgp::reader::{Framer, Reader};
use sluice_bgp::session::{ConnectionId, Direction};
use sluice_bgp::session_note;
use sluice_bgp::speaker::{
    AddPath, Config, DefaultPolicy, Identity, Input, NeighborConfig, SendPaths, Speaker,
};
use sluice_bgp::table::Spread;
use sluice_bgp::wire::as_path::{Summary, Width};
use sluice_bgp::wire::attribute::{Attributes, code, put_header};
use sluice_bgp::wire::orf::FilterMessage;
use sluice_bgp::wire::{
    AFI_IPV4, AFI_IPV6, AFI_XID, Capability, FamilyKey, HEADER_LEN, MessageType, Nlri, Notification, Open,
    PathsFamily, RouteRefresh, SAFI_XID, Update, header,
};
use sluice_bgp::writer::put_end_of_rib;
use sluice_machine::{Budget, Machine, Outbox};
use std::net::IpAddr;

/// Framing: the octets in a single piece and in many pieces give the same messages.
pub fn frame(octets: &[u8]) {
    let whole = cut(octets, octets.len().max(1));
    assert_eq!(cut(octets, 7), whole);
}

/// The note of sessions for the next process: read notes are written again as they were, but for order and repetitions.
pub fn session_note(octets: &[u8]) {
    if let Some(neighbors) = session_note::read(octets) {
        let written = session_note::write(&neighbors);
        assert!(written.len() <= octets.len());
        assert_eq!(session_note::read(&written), Some(neighbors));
    }
}

/// The first packet of a connection: a packet from further away is never nearer.
pub fn first_packet(octets: &[u8]) {
    let is_near = |least| gtsm::is_near(least, octets, true);
    assert!((1..=u8::MAX).all(|least| !is_near(least) || is_near(least - 1)));
}

fn cut(octets: &[u8], piece: usize) -> Vec<(u8, Vec<u8>)> {
    let mut framer = Framer::default();
    let mut messages = Vec::new();
    for mut chunk in octets.chunks(piece) {
        loop {
            match framer.next(&mut chunk) {
                Ok(Some(frame)) => messages.push((frame.kind as u8, frame.body.to_vec())),
                Ok(None) => break,
                Err(_) => return messages,
            }
        }
    }
    messages
}

/// OPEN: a valid message is the same after encoding and decoding.
pub fn open(body: &[u8]) {
    let Ok(open) = Open::decode(body) else { return };
    let mut octets = Vec::new();
    open.put(&mut octets);
    let again = Open::decode(&octets[HEADER_LEN..]).expect("what was written is read");
    assert_eq!((again.version, again.asn(), again.router_id), (open.version, again.asn(), open.router_id));
    assert!(open.version != 4 || open.capabilities.starts_with(&again.capabilities));
}

/// NOTIFICATION.
pub fn notification(body: &[u8]) {
    let Ok(n) = Notification::decode(body) else { return };
    assert!(!n.to_string().is_empty());
    let mut octets = Vec::new();
    n.put(&mut octets);
    let again = Notification::decode(&octets[HEADER_LEN..]).expect("what was written is read");
    assert!(n.data.starts_with(&again.data));
}

/// ROUTE-REFRESH, with outbound route filters.
pub fn route_refresh(body: &[u8]) {
    let Ok(refresh) = RouteRefresh::decode(body) else { return };
    let mut octets = Vec::new();
    refresh.put(&mut octets);
    let is_ipv4 = refresh.afi == AFI_IPV4;
    if let Ok(FilterMessage { actions: Some(actions), .. }) = FilterMessage::decode(&refresh.rest, is_ipv4) {
        let mut entries = Entries::default();
        entries.apply(&actions);
        let _ = entries.filter().is_some_and(|filter| filter.permits(Ipv4Prefix::default_route().into()));
    }
    assert_eq!(RouteRefresh::decode(&octets[HEADER_LEN..]), Ok(refresh));
}

/// UPDATE: decoded, judged and made canonical for every kind of peer; the canonical form is stable.
pub fn update(body: &[u8]) {
    if let Ok(update) = Update::decode(body) {
        let prefixes = |field| Nlri::<Ipv4Prefix>::new(field, 0).flatten().count();
        let _ = prefixes(update.nlri) + Nlri::<Ipv6Prefix>::new(update.nlri, 0).flatten().count();
        xids(update.nlri);
        for attribute in Attributes::new(update.attributes, 0).flatten() {
            for width in [Width::Two, Width::Four] {
                let _ = Summary::of(attribute.value, width, 0, Asn(65001));
            }
        }
    }
    let kinds = [(65001, true), (65002, true), (65002, false)];
    // Each kind of peer sends one path of each prefix, or several (RFC 7911).
    for ((peer_as, four_octet_as), add_path) in
        [Families::NONE, Families::ALL].into_iter().flat_map(|add_path| kinds.map(|kind| (kind, add_path)))
    {
        let rules = ReceiveRules::new(Asn(65001), RouterId(1), Asn(peer_as), IpAddr::from([10, 0, 0, 1]));
        let rules = ReceiveRules { four_octet_as, add_path, enforce_first_as: false, ..rules };
        let mut batches = [Batches::default(), Batches::default(), Batches::default()];
        let mut reader = Reader::new(rules, Spread::new(HashSeed(1), 3));
        if reader.update(body, Provenance::new(1, 1), &mut batches).is_ok() {
            for batches in &batches {
                check::<Ipv4Prefix>(batches.of(), add_path);
                check::<Ipv6Prefix>(batches.of(), add_path);
                check::<XidPrefix>(batches.of(), add_path);
            }
        } else {
            assert!(batches.iter().all(Batches::is_empty));
        }
    }
}

/// XIDs are written as they were read, but for bits after the length.
fn xids(field: &[u8]) {
    let read: Vec<XidPrefix> = Nlri::new(field, 0).flatten().collect();
    let mut octets = Vec::new();
    read.iter().for_each(|xids| xids.put(&mut octets));
    let again: Result<Vec<XidPrefix>, _> = Nlri::new(&octets, 0).collect();
    assert_eq!(again, Ok(read));
}

fn check<P: FamilyKey>(batch: &Batch<P>, add_path: Families) {
    for set in batch.sets() {
        let octets = batch.octets(set);
        let mut again = Vec::new();
        canonical::attributes(octets).for_each(|a| a.put(&mut again));
        assert_eq!(again, octets, "the canonical form is canonical");
        let codes: Vec<u8> = canonical::attributes(octets).map(|a| a.code).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        let path = canonical::find(octets, code::AS_PATH).unwrap_or_default();
        assert!(Summary::of(path, Width::Four, 0, Asn(0)).is_ok_and(|s| !s.has_zero));
    }
    for (position, change) in batch.changes().iter().enumerate() {
        assert_eq!(batch.path_id(position).is_some(), !add_path.is_empty());
        assert!(change.is_withdrawal() || (change.set as usize) < batch.sets().len());
    }
}

/// An established session receives any octets; a second peer receives the resulting routes. So it is with one path of each prefix, and
/// with several (RFC 7911).
pub fn session(octets: &[u8]) {
    session_with(octets, &AddPath::NONE);
    session_with(octets, &AddPath { receive: true, send: Some(SendPaths::All), ..AddPath::NONE });
}

fn session_with(octets: &[u8], add_path: &AddPath) {
    let identity = Identity {
        local_as: Asn(65001),
        router_id: RouterId(1),
        seed: 7,
        tables: 2,
        source: 1,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
        started: Instant::ZERO,
        is_restarted: false,
    };
    let mut speaker = Speaker::new(identity);
    let mut out = Outbox::new();
    let peers = [(IpAddr::from([10, 0, 0, 2]), 65002), (IpAddr::from([10, 0, 0, 3]), 65001)];
    let neighbors = peers.map(|(address, asn)| {
        let config = NeighborConfig::new(address, Asn(asn));
        let mut config = NeighborConfig {
            passive: true,
            enforce_first_as: false,
            default_policy: Some(DefaultPolicy::Accept),
            add_path: add_path.clone(),
            ..config
        };
        config.offer(Families::ALL);
        config.xid.next_hop = Some(Xid::of_link_address([2, 0, 0, 0, 0, 1]));
        config
    });
    let config = Config { neighbors: neighbors.to_vec(), ..Config::default() };
    let now = Instant::ZERO;
    speaker.handle(now, Input::Configure(config), &mut out);
    speaker.check(true);
    for (number, (address, asn)) in peers.into_iter().enumerate() {
        let connection = ConnectionId { direction: Direction::Incoming, number: number as u32 };
        let endpoints = Endpoints { ipv6: Some(1.into()), ..Endpoints::new(IpAddr::from([10, 0, 0, 1])) };
        speaker.handle(now, Input::Accepted(address, connection, endpoints), &mut out);
        let mut hello = Vec::new();
        let mut open = Open { router_id: RouterId(number as u32 + 2), ..sample_open(Asn(asn)) };
        if add_path.receive {
            let paths =
                [AFI_IPV4, AFI_IPV6].map(|afi| PathsFamily { afi, safi: 1, receive: true, send: true });
            open.capabilities.push(Capability::AddPath(paths.into()));
        }
        open.put(&mut hello);
        header::put_keepalive(&mut hello);
        speaker.receive(now, address, connection, &hello, &mut out);
    }
    let connection = ConnectionId { direction: Direction::Incoming, number: 0 };
    speaker.receive(now, peers[0].0, connection, octets, &mut out);
    for _ in 0..100 {
        speaker.run_slice(now, Budget::SLICE, &mut out);
    }
    let mut octets_out = Vec::new();
    while speaker.fill(now, peers[1].0, 4096, &mut octets_out) {}
    let shards = speaker.tables();
    assert!(shards.violations::<Ipv4Prefix>().is_empty() && shards.violations::<Ipv6Prefix>().is_empty());
    assert!(shards.violations::<XidPrefix>().is_empty());
}

fn sample_open(asn: Asn) -> Open {
    Open {
        version: 4,
        as_field: asn.to_u16(),
        hold_time: 90,
        router_id: RouterId(2),
        capabilities: vec![
            Capability::unicast(AFI_IPV4),
            Capability::unicast(AFI_IPV6),
            Capability::Multiprotocol { afi: AFI_XID, safi: SAFI_XID },
            Capability::RouteRefresh,
            Capability::FourOctetAs(asn),
        ],
    }
}

fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut octets = Vec::new();
    write(&mut octets);
    octets.split_off(HEADER_LEN)
}

/// Bodies of OPENs.
pub fn session_notes() -> Vec<Vec<u8>> {
    let neighbors = ["10.0.0.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
    vec![session_note::write(&neighbors.into()), session_note::write(&[].into())]
}

/// Seeds: the beginnings of an IPv4 and of an IPv6 packet.
pub fn first_packets() -> Vec<Vec<u8>> {
    let packet = |version: u8| {
        let mut packet = vec![255; 60];
        packet[0] = version << 4;
        packet
    };
    vec![packet(4), packet(6)]
}

/// Seeds.
pub fn opens() -> Vec<Vec<u8>> {
    let sample = sample_open(Asn(65002));
    let bare = Open { capabilities: vec![], ..sample.clone() };
    vec![body(|b| sample.put(b)), body(|b| bare.put(b))]
}

/// Bodies of NOTIFICATIONs.
pub fn notifications() -> Vec<Vec<u8>> {
    vec![vec![6, 2, 3, b'b', b'y', b'e'], vec![1, 2, 0, 7], vec![3, 1]]
}

/// Bodies of ROUTE-REFRESHes.
pub fn refreshes() -> Vec<Vec<u8>> {
    let filter = vec![0, 1, 0, 1, 1, 64, 0, 10, 0x80, 0x20, 0, 0, 0, 5, 9, 24, 8, 10];
    vec![vec![0, 1, 0, 1], vec![0, 2, 0, 1], vec![0, 1, 2, 1], filter]
}

/// Bodies of UPDATEs: every known attribute, both families, both kinds of withdrawals.
pub fn updates() -> Vec<Vec<u8>> {
    let all: &[(u8, u8, &[u8])] = &[
        (0x40, 1, &[0]),
        (0x40, 2, &[2, 2, 0, 0, 0xfd, 0xea, 0, 0, 0, 7, 1, 1, 0, 0, 0, 8]),
        (0x40, 3, &[10, 0, 0, 2]),
        (0x80, 4, &[0, 0, 0, 5]),
        (0x40, 5, &[0, 0, 0, 100]),
        (0x40, 6, &[]),
        (0xc0, 7, &[0, 0, 0xfd, 0xea, 10, 0, 0, 2]),
        (0xc0, 8, &[0xff, 0xff, 0xff, 1]),
        (0x80, 9, &[10, 0, 0, 9]),
        (0x80, 10, &[10, 0, 0, 9]),
        (0xc0, 16, &[0; 8]),
        (0xc0, 32, &[0; 12]),
        (0xc0, 99, &[1, 2, 3]),
    ];
    let reach: &[u8] =
        &[0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 32, 0x20, 1, 0xd, 0xb8];
    let make = |attributes: &[(u8, u8, &[u8])], withdrawn: &[u8], nlri: &[u8]| {
        let mut field = Vec::new();
        for (flags, code, value) in attributes {
            put_header(&mut field, *flags, *code, value.len());
            field.extend_from_slice(value);
        }
        let mut body = (withdrawn.len() as u16).to_be_bytes().to_vec();
        body.extend_from_slice(withdrawn);
        body.extend_from_slice(&(field.len() as u16).to_be_bytes());
        body.extend_from_slice(&field);
        body.extend_from_slice(nlri);
        body
    };
    let old: &[(u8, u8, &[u8])] = &[
        (0x40, 1, &[0]),
        (0x40, 2, &[2, 2, 0xfd, 0xea, 0x5b, 0xa0]),
        (0x40, 3, &[10, 0, 0, 2]),
        (0xc0, 7, &[0x5b, 0xa0, 10, 0, 0, 2]),
        (0xc0, 17, &[2, 1, 0, 1, 0x11, 0x70]),
        (0xc0, 18, &[0, 1, 0x11, 0x70, 10, 0, 0, 2]),
    ];
    let mut v6 = vec![(0x80, 14, reach)];
    v6.extend_from_slice(all);
    // A prefix of LPM by way of a U4ID.
    let mut reach_xid = vec![0xc0, 0xde, 241, 24, 0, 0, 0, 0x16, 10, 0, 0, 9, 0x35, 0xd5];
    reach_xid.resize(4 + 24 + 1, 0);
    reach_xid.extend_from_slice(&[40, 0, 0, 0, 0x21, 0x0a, 33, 0, 0, 0, 0x21, 0x80]);
    let mut xid = vec![(0x80, 14, &reach_xid[..])];
    xid.extend_from_slice(all);
    vec![
        make(all, &[], &[24, 192, 0, 2, 8, 10]),
        make(old, &[], &[24, 192, 0, 2]),
        make(&v6, &[], &[]),
        make(&xid, &[], &[]),
        make(&[(0x80, 15, &[0xc0, 0xde, 241, 40, 0, 0, 0, 0x21, 0x0a])], &[], &[]),
        make(&[(0x80, 15, &[0, 2, 1, 32, 0x20, 1, 0xd, 0xb8])], &[], &[]),
        make(&[], &[24, 192, 0, 2, 0], &[]),
    ]
}

/// Whole messages of every type.
pub fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut kinds = vec![(MessageType::Keepalive, vec![vec![]]), (MessageType::Open, opens())];
    kinds.push((MessageType::Notification, notifications()));
    kinds.push((MessageType::RouteRefresh, refreshes()));
    kinds.push((MessageType::Update, updates()));
    for (kind, bodies) in kinds {
        for body in bodies {
            let mut octets = Vec::new();
            let at = header::start(&mut octets, kind);
            octets.extend_from_slice(&body);
            header::finish(&mut octets, at);
            messages.push(octets);
        }
    }
    let mut marker = Vec::new();
    put_end_of_rib(sluice_bgp::family::FamilyIndex::IPV6, &FamilyCodes::DEFAULT, &mut marker);
    messages.push(marker);
    messages
}
