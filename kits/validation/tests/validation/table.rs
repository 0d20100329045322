//! Tables of VRPs beside a naive model, differences, and records.

use proptest::prelude::*;
use sluice_base::{Asn, IpPrefix};
use sluice_validation::{
    AnyVrp, ChangedPrefixes, Providers, Record, RecordError, Validity, VrpTable, read_records, write_record,
};
use std::net::IpAddr;

fn vrp(prefix: &str, max_length: u8, asn: u32) -> AnyVrp {
    AnyVrp::new(prefix.parse().expect("a prefix"), max_length, Asn(asn)).expect("a VRP")
}

fn state(table: &VrpTable, prefix: &str, origin: Option<u32>) -> Validity {
    table.validate(prefix.parse().expect("a prefix"), origin.map(Asn))
}

#[test]
fn states_are_those_of_rfc_6811() {
    for (net, inner, longer, other) in [
        ("192.0.2.0/24", "192.0.2.0/25", "192.0.2.0/26", "198.51.100.0/24"),
        ("2001:db8::/32", "2001:db8::/33", "2001:db8::/34", "2001:db9::/32"),
    ] {
        let len = net.parse::<IpPrefix>().expect("a prefix").len();
        let table = VrpTable::new([vrp(net, len + 1, 65001), vrp(net, len, 65002), vrp(other, len, 0)]);
        for (prefix, origin, expected) in [
            (net, Some(65001), Validity::Valid),
            (inner, Some(65001), Validity::Valid),
            (longer, Some(65001), Validity::Invalid),
            (net, Some(65002), Validity::Valid),
            (inner, Some(65002), Validity::Invalid),
            (net, Some(65003), Validity::Invalid),
            // A path that ends with a set has no origin.
            (net, None, Validity::Invalid),
            // AS 0 makes nothing valid.
            (other, Some(0), Validity::Invalid),
            (if len == 24 { "192.0.0.0/16" } else { "2001::/16" }, Some(65001), Validity::NotFound),
        ] {
            assert_eq!(state(&table, prefix, origin), expected, "{prefix} {origin:?}");
        }
        let covering = table.covering(longer.parse().expect("a prefix"));
        assert_eq!(covering, [vrp(net, len, 65002), vrp(net, len + 1, 65001)]);
    }
    assert_eq!(state(&VrpTable::default(), "192.0.2.0/24", Some(1)), Validity::NotFound);
}

#[test]
fn wrong_lengths_make_no_vrp() {
    let net: IpPrefix = "192.0.2.0/24".parse().expect("a prefix");
    assert_eq!(AnyVrp::new(net, 23, Asn(1)), None);
    assert_eq!(AnyVrp::new(net, 33, Asn(1)), None);
    assert_eq!(vrp("192.0.2.0/24", 28, 1).to_string(), "192.0.2.0/24 up to /28 AS 1");
    assert_eq!(vrp("2001:db8::/32", 32, 1).to_string(), "2001:db8::/32 AS 1");
}

#[test]
fn malformed_records_are_refused() {
    let mut octets = Vec::new();
    let written = [
        Record::Vrp(vrp("192.0.2.0/24", 25, 65001), true),
        Record::Vrp(vrp("2001:db8::/32", 48, 65002), false),
        Record::Aspa(Asn(65001), Providers::new(vec![Asn(1), Asn(2)])),
        Record::Aspa(Asn(65002), None),
    ];
    written.iter().for_each(|record| write_record(record, &mut octets));
    let records = read_records(&octets).expect("what was written");
    assert_eq!(records, written);
    for cut in (1..octets.len()).filter(|cut| ![11, 34, 49].contains(cut)) {
        assert!(matches!(read_records(&octets[..cut]), Err(RecordError::Truncated(_))), "{cut}");
    }
    let with = |place: usize, octet: u8| {
        let mut octets = octets.clone();
        octets[place] = octet;
        read_records(&octets)
    };
    assert_eq!(with(0, 8), Err(RecordError::Bits(8)));
    // The providers of the third record: out of order, and in a record of a removed ASPA.
    let third = 11 + 23;
    assert_eq!(with(third + 10, 3), Err(RecordError::Providers { customer: Asn(65001) }));
    assert_eq!(with(third, 4), Err(RecordError::Providers { customer: Asn(65001) }));
    assert_eq!(with(1, 33), Err(RecordError::Prefix { len: 33, max_length: 25 }));
    assert_eq!(with(2, 23), Err(RecordError::Prefix { len: 24, max_length: 23 }));
    assert_eq!(with(10, 1), Err(RecordError::Prefix { len: 24, max_length: 25 }), "host bits");
}

/// Prefixes that are often inside each other.
fn prefixes() -> impl Strategy<Value = IpPrefix> {
    let ipv4 = (0u32..64, 0u8..=8).prop_map(|(bits, len)| (IpAddr::from((bits << 24).to_be_bytes()), len));
    let ipv6 = (0u128..64, 0u8..=8).prop_map(|(bits, len)| (IpAddr::from((bits << 120).to_be_bytes()), len));
    prop_oneof![ipv4, ipv6].prop_map(|(addr, len)| IpPrefix::new(addr, len).expect("a length"))
}

fn vrps() -> impl Strategy<Value = Vec<AnyVrp>> {
    let one = (prefixes(), 0u8..4, 0u32..3);
    let one = one.prop_map(|(prefix, more, asn)| {
        AnyVrp::new(prefix, prefix.len() + more, Asn(asn)).expect("a length")
    });
    proptest::collection::vec(one, 0..40)
}

/// Validates by looking at every VRP.
fn naive(vrps: &[AnyVrp], prefix: IpPrefix, origin: Option<Asn>) -> Validity {
    let covering: Vec<_> = vrps.iter().filter(|vrp| vrp.prefix().covers(prefix)).collect();
    let is_valid =
        |vrp: &&AnyVrp| vrp.asn().0 != 0 && Some(vrp.asn()) == origin && prefix.len() <= vrp.max_length();
    match covering.iter().copied().any(|vrp| is_valid(&vrp)) {
        _ if covering.is_empty() => Validity::NotFound,
        true => Validity::Valid,
        false => Validity::Invalid,
    }
}

proptest! {
    #[test]
    fn tables_validate_like_the_model(vrps in vrps(), prefix in prefixes(), origin in 0u32..4) {
        let table = VrpTable::new(vrps.iter().copied());
        let origin = Some(Asn(origin)).filter(|asn| asn.0 < 3);
        prop_assert_eq!(table.validate(prefix, origin), naive(&vrps, prefix, origin));
        let mut covering = table.covering(prefix);
        prop_assert!(covering.is_sorted_by(|a, b| a.prefix().len() >= b.prefix().len()));
        let mut expected: Vec<_> = vrps.iter().copied().filter(|v| v.prefix().covers(prefix)).collect();
        covering.sort_unstable();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(covering, expected);
    }

    #[test]
    fn a_difference_leads_from_one_epoch_to_the_next(
        old in vrps(), new in vrps(), prefix in prefixes(), origin in 0u32..3
    ) {
        let (old, new) = (VrpTable::new(old), VrpTable::new(new));
        let changes = old.changes_to(&new);
        prop_assert_eq!(&old.changed(&changes), &new);
        prop_assert_eq!(old == new, changes.is_empty());
        let changed = changes.prefixes();
        if old.validate(prefix, Some(Asn(origin))) != new.validate(prefix, Some(Asn(origin))) {
            prop_assert!(changed.covers(prefix));
        }
        let is_inside = changes.vrps().any(|(vrp, _)| vrp.prefix().covers(prefix));
        prop_assert_eq!(changed.covers(prefix), is_inside);
        prop_assert_eq!(changed.union(&changed), changed.clone());
        prop_assert!(changed.union(&ChangedPrefixes::All).covers(prefix));
        let mut octets = Vec::new();
        changes.records().for_each(|record| write_record(&record, &mut octets));
        let read = read_records(&octets).expect("what was written");
        prop_assert_eq!(read, changes.records().collect::<Vec<_>>());
    }
}
