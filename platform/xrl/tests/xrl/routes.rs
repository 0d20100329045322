//! Packed route batches: the output equals the input, garbage is refused, and packing is fast.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Debug;
use std::net::IpAddr;

use proptest::prelude::*;
use sluice_base::{
    Address, Distance, Encapsulation, FamilyId, FibBatch, FibRoute, Forwarding, GroupId, Identifier,
    InterfaceIndex, Ipv4Prefix, Ipv6Prefix, Metric, NextHop, Prefix, Provenance, RouteAction, RouteBatch,
    RouteKind, RouteSet, RouteUpdate, Tag, XidPrefix,
};
use sluice_xrl::routes::*;

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn address() -> impl Strategy<Value = Address> {
    let identifier = (7..=255u8, prop::collection::vec(any::<u8>(), 0..=Identifier::ROOM));
    let identifier = identifier.prop_map(|(family, o)| Identifier::new(FamilyId(family), &o).unwrap());
    prop_oneof![ip().prop_map(Address::Ip), identifier.prop_map(Address::Identifier)]
}

fn encapsulation() -> impl Strategy<Value = Encapsulation> {
    (any::<u8>(), prop::collection::vec(any::<u8>(), 0..=Encapsulation::ROOM))
        .prop_map(|(kind, parameters)| Encapsulation::new(kind, &parameters).unwrap())
}

fn hop<G: Gateway + Debug>(gateway: impl Strategy<Value = G>) -> impl Strategy<Value = NextHop<G>> {
    let gateway = prop::option::of(gateway);
    let encapsulation = prop::option::weighted(0.2, encapsulation());
    (gateway, any::<u32>(), 1..=255u8, any::<bool>(), encapsulation).prop_map(
        |(gateway, i, weight, is_backup, encapsulation)| NextHop {
            is_backup,
            gateway,
            interface: InterfaceIndex::new(i),
            encapsulation,
            weight,
        },
    )
}

fn forwarding<G: Gateway + Debug>(gateway: impl Strategy<Value = G>) -> impl Strategy<Value = Forwarding<G>> {
    prop_oneof![
        Just(Forwarding::Discard),
        Just(Forwarding::Reject),
        Just(Forwarding::Local),
        prop::collection::vec(hop(gateway), 1..4).prop_map(|h| Forwarding::many(h).unwrap())
    ]
}

fn set() -> impl Strategy<Value = RouteSet> {
    let tags = prop::collection::vec(1..=u32::MAX, 0..3);
    (forwarding(address()), any::<u32>(), any::<Option<u8>>(), any::<u8>(), tags).prop_map(
        |(forwarding, metric, d, kind, tags)| RouteSet {
            forwarding,
            metric: Metric(metric),
            distance: d.map(Distance),
            kind: RouteKind(kind),
            tags: tags.into_iter().map(Tag).collect(),
        },
    )
}

fn v4() -> impl Strategy<Value = Ipv4Prefix> + Clone {
    (any::<u32>(), 0..=32u8).prop_map(|(bits, len)| Ipv4Prefix::from_parts(bits, len).unwrap())
}

fn v6() -> impl Strategy<Value = Ipv6Prefix> + Clone {
    (any::<u128>(), 0..=128u8).prop_map(|(bits, len)| Ipv6Prefix::from_parts(bits, len).unwrap())
}

fn xids() -> impl Strategy<Value = XidPrefix> + Clone {
    (any::<[u8; 24]>(), 0..=192u8).prop_map(|(bits, len)| XidPrefix::from_parts(bits, len).unwrap())
}

fn batch<P: Prefix>(prefix: impl Strategy<Value = P> + Clone) -> impl Strategy<Value = RouteBatch<P>> {
    prop::collection::vec(set(), 1..5).prop_flat_map(move |sets| {
        let n = sets.len() as u32;
        let action = prop_oneof![Just(RouteAction::Delete), (0..n).prop_map(RouteAction::Set)];
        let update = (prefix.clone(), action, any::<u64>()).prop_map(|(prefix, action, p)| RouteUpdate {
            prefix,
            action,
            provenance: Provenance::from_bits(p),
        });
        prop::collection::vec(update, 0..40)
            .prop_map(move |updates| RouteBatch { sets: sets.clone(), updates })
    })
}

fn fib<P: Prefix>(prefix: impl Strategy<Value = P>) -> impl Strategy<Value = FibBatch<P>> {
    let group = (any::<u32>(), forwarding(ip())).prop_map(|(id, f)| (GroupId(id), f));
    let group_of_route = any::<Option<(u32, bool)>>();
    let route = (prefix, group_of_route, any::<u64>()).prop_map(|(prefix, g, p)| FibRoute {
        prefix,
        group: g.map(|(group, _)| GroupId(group)),
        is_external: g.is_some_and(|(_, is_external)| is_external),
        provenance: Provenance::from_bits(p),
    });
    let unused = prop::collection::vec(any::<u32>().prop_map(GroupId), 0..5);
    (prop::collection::vec(group, 0..5), prop::collection::vec(route, 0..40), unused)
        .prop_map(|(groups, routes, unused)| FibBatch { groups, routes, unused })
}

fn comes_back<P: Prefix>(batch: &RouteBatch<P>) -> Result<(), TestCaseError>
where
    RouteBatch<P>: PartialEq + Debug,
{
    let packed = encode_routes(batch);
    prop_assert_eq!(&decode_routes::<P>(&packed).unwrap(), batch);
    let (sets, routes) = routes_to_messages(batch);
    prop_assert_eq!(&routes_from_messages::<P>(&sets, &routes).unwrap(), batch);
    // Every shorter text is refused, and so is a longer one.
    for end in 0..packed.len() {
        prop_assert!(decode_routes::<P>(&packed[..end]).is_err());
    }
    prop_assert!(decode_routes::<P>(&[&packed[..], &[0]].concat()).is_err());
    Ok(())
}

proptest! {
    #[test]
    fn routes_come_back(v4 in batch(v4()), v6 in batch(v6()), xids in batch(xids())) {
        comes_back(&v4)?;
        comes_back(&v6)?;
        comes_back(&xids)?;
        prop_assert!(decode_routes::<Ipv6Prefix>(&encode_routes(&v4)).is_err());
    }

    #[test]
    fn fib_batches_come_back(v4 in fib(v4()), v6 in fib(v6())) {
        prop_assert_eq!(&decode_fib::<Ipv4Prefix, IpAddr>(&encode_fib(&v4)).unwrap(), &v4);
        prop_assert_eq!(&decode_fib::<Ipv6Prefix, IpAddr>(&encode_fib(&v6)).unwrap(), &v6);
        let (groups, routes, unused) = fib_to_messages(&v6);
        prop_assert_eq!(&fib_from_messages::<Ipv6Prefix, IpAddr>(&groups, &routes, &unused).unwrap(), &v6);
    }

    #[test]
    fn garbage_is_refused_without_a_panic(version in OLDEST_VERSION..=VERSION, head in 0..2u8, mut data: Vec<u8>) {
        if data.len() > 3 {
            data[..3].copy_from_slice(&[version, head + 1, FamilyId::XID.0]);
        }
        let _ = decode_routes::<XidPrefix>(&data);
        if data.len() > 3 {
            data[2] = 4;
        }
        let _ = (decode_routes::<Ipv4Prefix>(&data), decode_fib::<Ipv4Prefix, IpAddr>(&data));
    }

    #[test]
    fn a_flipped_bit_never_panics(batch in batch(v4()), at: prop::sample::Index, bit in 0..8u8) {
        let mut packed = encode_routes(&batch);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        let _ = decode_routes::<Ipv4Prefix>(&packed);
    }
}

#[test]
fn the_layout_is_as_documented() {
    let set = RouteSet {
        metric: Metric(300),
        distance: Some(Distance(20)),
        kind: RouteKind(2),
        tags: [Tag(7)].into_iter().collect(),
        ..via("192.0.2.1")
    };
    let update = |prefix: &str, action| RouteUpdate {
        prefix: prefix.parse().unwrap(),
        action,
        provenance: Provenance::from_bits(1),
    };
    let batch: RouteBatch<Ipv4Prefix> = RouteBatch {
        sets: vec![set],
        updates: vec![update("10.0.0.0/8", RouteAction::Set(0)), update("192.0.2.0/23", RouteAction::Delete)],
    };
    let expected = [
        2, 1, 4, // version, routes, IPv4
        1, 0, 1, 1, 192, 0, 2, 1, 1, 0xac, 2, 21, 2, 1,
        7, // one set: next hops, one, by IPv4 gateway, weight 1; 300; 20; kind 2; one tag, 7
        2, 8, 10, 3, 2, // two updates: /8; set 0, provenance changed by 1
        23, 192, 0, 2, 0, // /23; delete, same provenance
    ];
    assert_eq!(encode_routes(&batch), expected);
}

fn via(gateway: &str) -> RouteSet {
    RouteSet::plain(Forwarding::one(NextHop::via(Address::Ip(gateway.parse().unwrap()))))
}

/// A component built before kinds, backups and lists of tags.
#[test]
fn the_version_before_is_read() {
    let routes = |tag: u8| {
        let octets = [1, 1, 4, 1, 0, 1, 1, 192, 0, 2, 1, 1, 0xac, 2, 21, tag, 1, 8, 10, 3, 2];
        decode_routes::<Ipv4Prefix>(&octets)
    };
    let expected = RouteSet { metric: Metric(300), distance: Some(Distance(20)), ..via("192.0.2.1") };
    assert_eq!(routes(0).unwrap().sets, std::slice::from_ref(&expected));
    assert_eq!(routes(7).unwrap().sets, [RouteSet { tags: [Tag(7)].into_iter().collect(), ..expected }]);
    // What version 1 had no meaning for is refused in it.
    let fib = |version: u8, flags: u8| {
        let octets = [version, 2, 4, 1, 9, 0, 1, flags | 1, 192, 0, 2, 1, 1, 0, 0];
        decode_fib::<Ipv4Prefix, IpAddr>(&octets)
    };
    assert!(fib(1, 0).is_ok() && fib(2, 16).is_ok());
    assert!(fib(1, 16).is_err() && fib(1, 8).is_err() && fib(4, 0).is_err());
}

/// A component built after this version.
#[test]
fn a_newer_version_is_refused_with_both_versions() {
    for found in [VERSION + 1, OLDEST_VERSION - 1] {
        let errors = [
            decode_routes::<Ipv4Prefix>(&[found, 1, 4, 0, 0]).unwrap_err(),
            decode_fib::<Ipv4Prefix, IpAddr>(&[found, 2, 4, 0, 0, 0]).unwrap_err(),
        ];
        assert_eq!(errors, [UnpackError::Version { found }; 2]);
        let text = errors[0].to_string();
        assert!(text.contains(&format!("version {found};")) && text.ends_with("versions 1 to 3"), "{text}");
    }
    let other = decode_routes::<Ipv4Prefix>(&[2, 2, 6, 0, 0]).unwrap_err();
    assert_eq!(other, UnpackError::Head { found: [2, 6], expected: [1, 4] });
}

/// Version 3 marks each forwarding route as one of an external origin, or not; older versions do not.
#[test]
fn external_routes_are_marked() {
    let route = |prefix: &str, group: Option<u32>, is_external| FibRoute {
        prefix: prefix.parse().unwrap(),
        group: group.map(GroupId),
        is_external,
        provenance: Provenance::NONE,
    };
    let routes = vec![
        route("10.0.0.0/8", Some(3), false),
        route("11.0.0.0/8", Some(3), true),
        route("12.0.0.0/8", None, false),
    ];
    let batch = FibBatch::<Ipv4Prefix> { routes, ..FibBatch::default() };
    let octets = [3, 2, 4, 0, 3, 8, 10, 14, 8, 11, 16, 8, 12, 0, 0];
    assert_eq!(encode_fib(&batch), octets);
    assert_eq!(decode_fib::<Ipv4Prefix, IpAddr>(&octets).unwrap(), batch);
    let old = [2, 2, 4, 0, 2, 8, 10, 8, 8, 11, 8, 0];
    let groups: Vec<_> = decode_fib::<Ipv4Prefix, IpAddr>(&old).unwrap().routes;
    assert_eq!(groups, [route("10.0.0.0/8", Some(3), false), route("11.0.0.0/8", Some(3), false)]);
    // Twice the highest number of a group is no number of a group.
    let beyond = [3, 2, 4, 0, 1, 8, 10, 0x82, 0x80, 0x80, 0x80, 0x40, 0];
    assert!(decode_fib::<Ipv4Prefix, IpAddr>(&beyond).is_err());
}

/// An engine of IP refuses gateways of foreign families, from any sender.
#[test]
fn gateways_of_other_families_are_refused_by_an_ip_engine() {
    let id = Identifier::new(FamilyId(200), &[1, 2, 3]).unwrap();
    let groups = vec![(GroupId(1), Forwarding::one(NextHop::via(Address::Identifier(id))))];
    let batch = FibBatch::<Ipv4Prefix, Address> { groups, ..FibBatch::default() };
    let packed = encode_fib(&batch);
    assert_eq!(decode_fib::<Ipv4Prefix, Address>(&packed).unwrap(), batch);
    assert!(decode_fib::<Ipv4Prefix, IpAddr>(&packed).is_err());
}

#[test]
fn a_claimed_count_reserves_nothing() {
    for claimed in [[2, 1, 4, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], [2, 1, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
        assert!(decode_routes::<Ipv4Prefix>(&claimed).is_err());
    }
}

#[test]
fn a_million_routes() {
    let set = via("192.0.2.1");
    let updates = (0..1_000_000u32).map(|n| RouteUpdate {
        prefix: Ipv4Prefix::from_parts(n << 8, 24).unwrap(),
        action: RouteAction::Set(0),
        provenance: Provenance::new(1, u64::from(n / 10)),
    });
    let batch = RouteBatch { sets: vec![set], updates: updates.collect() };
    let start = std::time::Instant::now();
    let packed = encode_routes(&batch);
    let encoded = start.elapsed();
    let start = std::time::Instant::now();
    let back: RouteBatch<Ipv4Prefix> = decode_routes(&packed).unwrap();
    println!(
        "1,000,000 routes: {} octets, packed in {encoded:?}, unpacked in {:?}",
        packed.len(),
        start.elapsed()
    );
    assert_eq!(back.updates.len(), 1_000_000);
    assert!(packed.len() < 6_000_000);
}
