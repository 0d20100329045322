//! Packed route batches: what goes in comes out, garbage stays outside, and it is fast.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Debug;
use std::net::IpAddr;

use proptest::prelude::*;
use sluice_base::{
    Distance, FibBatch, FibRoute, Forwarding, GroupId, InterfaceIndex, Ipv4Prefix, Ipv6Prefix, Metric,
    NextHop, Prefix, Provenance, RouteAction, RouteBatch, RouteSet, RouteUpdate, Tag,
};
use sluice_xrl::routes::*;

fn hop() -> impl Strategy<Value = NextHop> {
    let gateway = prop_oneof![
        Just(None),
        any::<[u8; 4]>().prop_map(|a| Some(IpAddr::from(a))),
        any::<[u8; 16]>().prop_map(|a| Some(IpAddr::from(a)))
    ];
    (gateway, any::<u32>(), 1..=255u8).prop_map(|(gateway, i, weight)| NextHop {
        gateway,
        interface: InterfaceIndex::new(i),
        weight,
    })
}

fn forwarding() -> impl Strategy<Value = Forwarding> {
    prop_oneof![
        Just(Forwarding::Discard),
        Just(Forwarding::Reject),
        prop::collection::vec(hop(), 1..4).prop_map(|h| Forwarding::many(h).unwrap())
    ]
}

fn set() -> impl Strategy<Value = RouteSet> {
    (forwarding(), any::<u32>(), any::<Option<u8>>(), any::<u32>()).prop_map(
        |(forwarding, metric, d, tag)| RouteSet {
            forwarding,
            metric: Metric(metric),
            distance: d.map(Distance),
            tag: Tag(tag),
        },
    )
}

fn v4() -> impl Strategy<Value = Ipv4Prefix> + Clone {
    (any::<u32>(), 0..=32u8).prop_map(|(bits, len)| Ipv4Prefix::from_parts(bits, len).unwrap())
}

fn v6() -> impl Strategy<Value = Ipv6Prefix> + Clone {
    (any::<u128>(), 0..=128u8).prop_map(|(bits, len)| Ipv6Prefix::from_parts(bits, len).unwrap())
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
    let group = (any::<u32>(), forwarding()).prop_map(|(id, f)| (GroupId(id), f));
    let route = (prefix, any::<Option<u32>>(), any::<u64>()).prop_map(|(prefix, g, p)| FibRoute {
        prefix,
        group: g.map(GroupId),
        provenance: Provenance::from_bits(p),
    });
    let unused = prop::collection::vec(any::<u32>().prop_map(GroupId), 0..5);
    (prop::collection::vec(group, 0..5), prop::collection::vec(route, 0..40), unused)
        .prop_map(|(groups, routes, unused)| FibBatch { groups, routes, unused })
}

fn comes_back<P: PackedPrefix>(batch: &RouteBatch<P>) -> Result<(), TestCaseError>
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
    fn routes_come_back(v4 in batch(v4()), v6 in batch(v6())) {
        comes_back(&v4)?;
        comes_back(&v6)?;
        prop_assert!(decode_routes::<Ipv6Prefix>(&encode_routes(&v4)).is_err());
    }

    #[test]
    fn fib_batches_come_back(v4 in fib(v4()), v6 in fib(v6())) {
        prop_assert_eq!(&decode_fib::<Ipv4Prefix>(&encode_fib(&v4)).unwrap(), &v4);
        prop_assert_eq!(&decode_fib::<Ipv6Prefix>(&encode_fib(&v6)).unwrap(), &v6);
        let (groups, routes, unused) = fib_to_messages(&v6);
        prop_assert_eq!(&fib_from_messages::<Ipv6Prefix>(&groups, &routes, &unused).unwrap(), &v6);
    }

    #[test]
    fn garbage_is_refused_without_a_panic(head in 0..2u8, mut data: Vec<u8>) {
        if data.len() > 3 {
            data[..3].copy_from_slice(&[VERSION, head + 1, 4]);
        }
        let _ = (decode_routes::<Ipv4Prefix>(&data), decode_fib::<Ipv4Prefix>(&data));
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
        forwarding: Forwarding::one(NextHop::via("192.0.2.1".parse().unwrap())),
        metric: Metric(300),
        distance: Some(Distance(20)),
        tag: Tag(0),
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
        1, 1, 4, // version, routes, IPv4
        1, 0, 1, 1, 192, 0, 2, 1, 1, 0xac, 2, 21,
        0, // one set: next hops, one, by IPv4 gateway, weight 1; 300; 20; 0
        2, 8, 10, 3, 2, // two updates: /8; set 0, provenance changed by 1
        23, 192, 0, 2, 0, // /23; delete, same provenance
    ];
    assert_eq!(encode_routes(&batch), expected);
}

#[test]
fn a_claimed_count_reserves_nothing() {
    for claimed in [[1, 1, 4, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], [1, 1, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
        assert!(decode_routes::<Ipv4Prefix>(&claimed).is_err());
    }
}

#[test]
fn a_million_routes() {
    let set = RouteSet {
        forwarding: Forwarding::one(NextHop::via("192.0.2.1".parse().unwrap())),
        metric: Metric(0),
        distance: None,
        tag: Tag(0),
    };
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
