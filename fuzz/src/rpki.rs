//! Octets of RPKI caches, and of payloads between processes.

use sluice_base::{Asn, Instant};
use sluice_machine::{Machine, Outbox};
use sluice_rpki::exceptions::Exceptions;
use sluice_rpki::machine::{ConnectionId, Input, Rpki};
use sluice_rpki::serial::Serial;
use sluice_rpki::settings::{CacheSettings, PORT, Settings};
use sluice_rpki::wire::{ErrorCode, ErrorReport, Intervals, Pdu, RouterKey, Version, decode};
use sluice_validation::{AnyVrp, Providers, Record, read_records, write_record};

fn vrp(prefix: &str, max_length: u8, asn: u32) -> AnyVrp {
    let prefix = prefix.parse().expect("a prefix");
    AnyVrp::new(prefix, max_length, Asn(asn)).expect("a payload")
}

fn providers() -> Option<Providers> {
    Providers::new(vec![Asn(65002), Asn(65003)])
}

fn all() -> Vec<Pdu> {
    let (session, serial) = (7, Serial(9));
    let report = ErrorReport { code: ErrorCode::NO_DATA, pdu: vec![1, 2, 0, 0], text: "none".into() };
    let key = RouterKey { is_announced: true, identifier: [1; 20], asn: Asn(2), key: vec![3; 91] };
    vec![
        Pdu::CacheResponse { session },
        Pdu::Prefix(vrp("192.0.2.0/24", 32, 65001), true),
        Pdu::Prefix(vrp("2001:db8::/32", 48, 65002), true),
        Pdu::RouterKey(key),
        Pdu::Aspa(Asn(65001), providers()),
        Pdu::Aspa(Asn(65002), None),
        Pdu::EndOfData { session, serial, intervals: Some(Intervals::RECOMMENDED) },
        Pdu::SerialNotify { session, serial: Serial(10) },
        Pdu::CacheReset,
        Pdu::ErrorReport(report),
        Pdu::SerialQuery { session, serial },
        Pdu::ResetQuery,
    ]
}

/// Valid PDUs: each alone, and all in a row, in each version.
pub fn pdus() -> Vec<Vec<u8>> {
    let encoded = |pdus: &[Pdu], version| {
        let mut octets = Vec::new();
        pdus.iter().for_each(|pdu| pdu.encode(Version(version), &mut octets));
        octets
    };
    let each = all()
        .into_iter()
        .flat_map(|pdu| [0, 1, 2].map(|version| encoded(std::slice::from_ref(&pdu), version)));
    each.chain([0, 1, 2].map(|version| encoded(&all(), version))).collect()
}

/// PDUs are read, written and read again.
pub fn pdu(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some(decoded)) = decode(rest) {
        let mut again = Vec::new();
        decoded.pdu.encode(decoded.version, &mut again);
        let read = decode(&again).expect("what was written").expect("a whole PDU");
        assert_eq!(read.pdu, decoded.pdu);
        rest = &rest[decoded.len..];
    }
}

/// The machine takes whatever a cache sends, in pieces.
pub fn session(octets: &[u8]) {
    let cache = CacheSettings {
        name: "a".into(),
        address: [192, 0, 2, 1].into(),
        port: PORT,
        local_address: None,
        tls: None,
        preference: 1,
        refresh: None,
        retry: None,
        expire: None,
    };
    let (mut machine, mut out) = (Rpki::new(1), Outbox::new());
    let settings = Settings { caches: vec![cache], exceptions: Exceptions::default() };
    machine.handle(Instant::ZERO, Input::Configure(settings), &mut out);
    let first = ConnectionId(0);
    machine.handle(Instant::ZERO, Input::Connected(first), &mut out);
    for piece in octets.chunks(usize::from(octets.first().copied().unwrap_or(1)).max(1)) {
        machine.handle(Instant::ZERO, Input::Received(first, piece.to_vec()), &mut out);
    }
    machine.handle(Instant::ZERO, Input::Closed(first), &mut out);
    machine.view(Instant::ZERO);
}

/// Valid records.
pub fn record_lists() -> Vec<Vec<u8>> {
    let mut octets = Vec::new();
    let records = [
        Record::Vrp(vrp("192.0.2.0/24", 25, 65001), true),
        Record::Vrp(vrp("2001:db8::/32", 48, 65002), false),
        Record::Aspa(Asn(65001), providers()),
        Record::Aspa(Asn(65002), None),
    ];
    records.iter().for_each(|record| write_record(record, &mut octets));
    vec![octets]
}

/// Records are read, written and read again.
pub fn records(octets: &[u8]) {
    let Ok(records) = read_records(octets) else { return };
    let mut again = Vec::new();
    records.iter().for_each(|record| write_record(record, &mut again));
    assert_eq!(read_records(&again).as_ref(), Ok(&records));
}
