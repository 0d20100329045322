//! PDUs: round trips, malformed octets, and what is left of octets that came in pieces.

use proptest::prelude::*;
use sluice_base::Asn;
use sluice_rpki::serial::Serial;
use sluice_rpki::wire::{
    DecodeError, Decoded, ErrorCode, ErrorReport, Intervals, LONGEST, Pdu, RouterKey, Version, decode,
};
use sluice_validation::{AnyVrp, Providers};
use std::time::Duration;

fn vrp(prefix: &str, max_length: u8, asn: u32) -> AnyVrp {
    AnyVrp::new(prefix.parse().expect("a prefix"), max_length, Asn(asn)).expect("a VRP")
}

fn encoded(pdu: &Pdu, version: u8) -> Vec<u8> {
    let mut octets = Vec::new();
    pdu.encode(Version(version), &mut octets);
    octets
}

fn providers(asns: &[u32]) -> Option<Providers> {
    Some(Providers::new(asns.iter().copied().map(Asn).collect()).expect("a list"))
}

fn all() -> Vec<Pdu> {
    let seconds = Duration::from_secs;
    let intervals = Intervals { refresh: seconds(3600), retry: seconds(600), expire: seconds(7200) };
    vec![
        Pdu::SerialNotify { session: 7, serial: Serial(u32::MAX) },
        Pdu::SerialQuery { session: 7, serial: Serial(1) },
        Pdu::ResetQuery,
        Pdu::CacheResponse { session: 65535 },
        Pdu::Prefix(vrp("192.0.2.0/24", 32, 65001), true),
        Pdu::Prefix(vrp("0.0.0.0/0", 0, 0), false),
        Pdu::Prefix(vrp("2001:db8::/32", 48, u32::MAX), true),
        Pdu::EndOfData { session: 7, serial: Serial(9), intervals: Some(intervals) },
        Pdu::CacheReset,
        Pdu::RouterKey(RouterKey {
            is_announced: true,
            identifier: [3; 20],
            asn: Asn(65001),
            key: vec![1, 2, 3],
        }),
        Pdu::Aspa(Asn(65001), providers(&[65002, u32::MAX])),
        Pdu::Aspa(Asn(65001), providers(&[0])),
        Pdu::Aspa(Asn(0), None),
        Pdu::ErrorReport(ErrorReport {
            code: ErrorCode::DUPLICATE,
            pdu: vec![1, 4, 0, 0],
            text: "twice ä".into(),
        }),
        Pdu::ErrorReport(ErrorReport { code: ErrorCode(99), pdu: vec![], text: String::new() }),
    ]
}

#[test]
fn pdus_are_read_as_they_are_written() {
    for pdu in all() {
        for version in [0, 1, 2] {
            let octets = encoded(&pdu, version);
            let expected = match pdu.clone() {
                Pdu::EndOfData { session, serial, .. } if version == 0 => {
                    Pdu::EndOfData { session, serial, intervals: None }
                }
                Pdu::RouterKey(_) if version == 0 => {
                    assert_eq!(decode(&octets), Err(DecodeError::Type(9)));
                    continue;
                }
                Pdu::Aspa(..) if version < 2 => {
                    assert_eq!(decode(&octets), Err(DecodeError::Type(11)));
                    continue;
                }
                pdu => pdu,
            };
            let len = octets.len();
            let expected = Decoded { version: Version(version), pdu: expected, len };
            assert_eq!(decode(&octets), Ok(Some(expected.clone())));
            for cut in 0..len {
                assert_eq!(decode(&octets[..cut]), Ok(None), "{} of {len} octets of {pdu:?}", cut);
            }
            let mut more = octets.clone();
            more.extend_from_slice(&[1, 2, 3]);
            assert_eq!(decode(&more), Ok(Some(expected)), "what follows does not matter");
        }
    }
}

#[test]
fn octets_are_those_of_rfc_8210() {
    let pdu = Pdu::Prefix(vrp("192.0.2.0/24", 26, 65001), true);
    let expected = [1, 4, 0, 0, 0, 0, 0, 20, 1, 24, 26, 0, 192, 0, 2, 0, 0, 0, 0xfd, 0xe9];
    assert_eq!(encoded(&pdu, 1), expected);
    assert_eq!(encoded(&Pdu::ResetQuery, 0), [0, 2, 0, 0, 0, 0, 0, 8]);
    let query = Pdu::SerialQuery { session: 0x102, serial: Serial(0x0304_0506) };
    assert_eq!(encoded(&query, 1), [1, 1, 1, 2, 0, 0, 0, 12, 3, 4, 5, 6]);
}

#[test]
fn malformed_pdus_are_refused() {
    let with = |pdu: &Pdu, place: usize, octet: u8| {
        let mut octets = encoded(pdu, 1);
        octets[place] = octet;
        decode(&octets)
    };
    let v4 = Pdu::Prefix(vrp("192.0.2.0/24", 26, 65001), true);
    assert_eq!(with(&v4, 0, 3), Err(DecodeError::Version(Version(3))));
    assert_eq!(with(&v4, 1, 5), Err(DecodeError::Type(5)));
    assert_eq!(with(&v4, 1, 200), Err(DecodeError::Type(200)));
    assert_eq!(with(&v4, 7, 21), Err(DecodeError::Length { kind: 4, len: 21 }));
    assert_eq!(with(&v4, 4, 1), Err(DecodeError::Length { kind: 4, len: (1 << 24) + 20 }));
    assert_eq!(with(&v4, 9, 33), Err(DecodeError::Prefix { len: 33, max_length: 26 }));
    assert_eq!(with(&v4, 10, 23), Err(DecodeError::Prefix { len: 24, max_length: 23 }));
    assert_eq!(with(&v4, 10, 33), Err(DecodeError::Prefix { len: 24, max_length: 33 }));
    assert_eq!(with(&v4, 15, 1), Err(DecodeError::Prefix { len: 24, max_length: 26 }), "host bits");
    let v6 = Pdu::Prefix(vrp("2001:db8::/32", 48, 1), true);
    assert_eq!(with(&v6, 9, 129), Err(DecodeError::Prefix { len: 129, max_length: 48 }));
    // Parts of an error report that are longer than the report, and octets behind its parts.
    let report = Pdu::ErrorReport(ErrorReport { code: ErrorCode(0), pdu: vec![1, 2], text: "x".into() });
    for (place, octet) in [(8, 255), (11, 3), (11, 200), (17, 2), (17, 0)] {
        assert!(with(&report, place, octet).is_err(), "{place} {octet}");
    }
    let end = Pdu::EndOfData { session: 1, serial: Serial(1), intervals: None };
    assert_eq!(with(&end, 7, 12), Err(DecodeError::Length { kind: 7, len: 12 }));
    for (error, code) in [
        (DecodeError::Version(Version(9)), ErrorCode::UNSUPPORTED_VERSION),
        (DecodeError::Type(5), ErrorCode::UNSUPPORTED_TYPE),
        (DecodeError::Length { kind: 4, len: 2 }, ErrorCode::CORRUPT_DATA),
    ] {
        assert_eq!(error.code(), code);
    }
}

#[test]
fn aspas_are_those_of_the_draft() {
    let pdu = Pdu::Aspa(Asn(65001), providers(&[1, 2]));
    let expected = [2, 11, 1, 0, 0, 0, 0, 20, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(encoded(&pdu, 2), expected);
    let withdrawn = encoded(&Pdu::Aspa(Asn(65001), None), 2);
    assert_eq!(withdrawn, [2, 11, 0, 0, 0, 0, 0, 12, 0, 0, 0xfd, 0xe9]);
    // The octet that is zero is ignored, and so are the unused flags.
    let mut octets = expected;
    (octets[2], octets[3]) = (0xff, 0xff);
    assert_eq!(decode(&octets).expect("a PDU").expect("a whole PDU").pdu, pdu);
    // An announcement without providers, AS 0 beside others, numbers out of order or twice, and a withdrawal with providers.
    let bad = Err(DecodeError::Providers { customer: Asn(65001) });
    assert_eq!(decode(&[2, 11, 1, 0, 0, 0, 0, 12, 0, 0, 0xfd, 0xe9]), bad);
    for (first, second, flags) in [(0, 2, 1), (2, 1, 1), (2, 2, 1), (1, 2, 0)] {
        let mut octets = expected;
        (octets[2], octets[15], octets[19]) = (flags, first, second);
        assert_eq!(decode(&octets), bad, "{first} {second} {flags}");
    }
    for len in [8, 11, 13, 14, 19] {
        let mut octets = expected;
        octets[7] = len;
        assert_eq!(decode(&octets), Err(DecodeError::Length { kind: 11, len: len.into() }));
    }
    assert_eq!(DecodeError::Providers { customer: Asn(1) }.code(), ErrorCode::PROVIDER_LIST);
    // The longest list fits, and takes no more than a PDU may.
    let most: Vec<Asn> = (1..=16_381).map(Asn).collect();
    let pdu = Pdu::Aspa(Asn(7), Some(Providers::new(most).expect("a list")));
    let octets = encoded(&pdu, 2);
    assert_eq!((octets.len(), decode(&octets).expect("a PDU").expect("a whole PDU").pdu), (LONGEST, pdu));
    let too_many: Vec<Asn> = (1..=16_382).map(Asn).collect();
    assert_eq!(Providers::new(too_many), None);
}

#[test]
fn long_reports_are_cut() {
    let report = ErrorReport { code: ErrorCode(1), pdu: vec![7; 2 * LONGEST], text: "ä".repeat(LONGEST) };
    let octets = encoded(&Pdu::ErrorReport(report), 1);
    assert!(octets.len() <= LONGEST);
    assert!(matches!(decode(&octets), Ok(Some(Decoded { pdu: Pdu::ErrorReport(_), .. }))));
}

proptest! {
    #[test]
    fn decoding_never_panics_and_takes_no_more_than_there_is(
        mut octets in proptest::collection::vec(any::<u8>(), 0..80), version in 0u8..3, kind in 0u8..13, len in 0u8..80
    ) {
        if octets.len() >= 8 {
            octets[..8].copy_from_slice(&[version, kind, 0, 0, 0, 0, 0, len]);
        }
        if let Ok(Some(decoded)) = decode(&octets) {
            prop_assert!(decoded.len <= octets.len());
            let again = encoded(&decoded.pdu, decoded.version.0);
            prop_assert_eq!(decode(&again).expect("a PDU").expect("a whole PDU").pdu, decoded.pdu);
        }
    }
}
