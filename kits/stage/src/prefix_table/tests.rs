use super::*;
use proptest::prelude::*;
use sluice_base::ip::V4Addr;
use std::collections::BTreeMap;
use std::vec::Vec;

fn p<P: Prefix>(text: &str) -> P {
    text.parse().unwrap()
}

/// Figure 8 of the XORP paper: a route is overlaid by more specific routes, and the answer for an address is the
/// largest subnet around the address without any overlay.
#[test]
fn figure_8() {
    let mut t: PrefixTable<Ipv4Prefix, ()> = PrefixTable::new();
    for text in ["128.16.0.0/16", "128.16.0.0/18", "128.16.128.0/17", "128.16.192.0/18"] {
        t.insert(p(text), ());
    }
    let check = |addr: &str, route: &str, valid: &str| {
        let addr = V4Addr(addr.parse().unwrap());
        let (m, _) = t.longest_match_addr(addr).unwrap();
        assert_eq!((m, t.largest_enclosing(m, addr)), (p(route), p(valid)), "{addr}");
    };
    check("128.16.32.1", "128.16.0.0/18", "128.16.0.0/18");
    check("128.16.160.1", "128.16.128.0/17", "128.16.128.0/18");
    check("128.16.192.1", "128.16.192.0/18", "128.16.192.0/18");
    check("128.16.64.1", "128.16.0.0/16", "128.16.64.0/18");
}

#[test]
fn without_any_route_the_answer_is_everything() {
    let t: PrefixTable<Ipv6Prefix, ()> = PrefixTable::new();
    let addr = sluice_base::ip::V6Addr("2001:db8::1".parse().unwrap());
    assert_eq!(t.largest_enclosing(Ipv6Prefix::default_route(), addr), Ipv6Prefix::default_route());
}

/// Prefixes from a small part of the space, so that they often coincide and nest.
fn prefix<P: Prefix>(widen: fn(u16) -> P::Bits) -> impl Strategy<Value = P>
where
    P::Bits: 'static,
{
    (any::<u16>(), 0u8..=16).prop_map(move |(bits, len)| P::from_parts(widen(bits), len).unwrap())
}

#[derive(Clone, Debug)]
enum Op<P> {
    Insert(P, u32),
    Remove(P),
    Advance,
}

fn ops<P: Prefix>(widen: fn(u16) -> P::Bits) -> impl Strategy<Value = Vec<Op<P>>> {
    let op = prop_oneof![
        3 => (prefix::<P>(widen), any::<u32>()).prop_map(|(p, v)| Op::Insert(p, v)),
        2 => prefix::<P>(widen).prop_map(Op::Remove),
        2 => Just(Op::Advance),
    ];
    proptest::collection::vec(op, 1..200)
}

/// The table against a sorted map, with a safe iterator that walks during changes of routes.
fn agrees_with_a_sorted_map<P: TableKey>(ops: Vec<Op<P>>, probe: P) {
    let mut table = PrefixTable::new();
    let mut model = BTreeMap::new();
    let mut cursor = Cursor::Start;
    let mut last = None;
    for op in ops {
        match op {
            Op::Insert(p, v) => assert_eq!(table.insert(p, v), model.insert(p, v)),
            Op::Remove(p) => assert_eq!(table.remove(p), model.remove(&p)),
            Op::Advance => {
                let expected =
                    model.iter().find(|(k, _)| last.is_none_or(|l| **k > l)).map(|(k, v)| (*k, *v));
                let got = table.advance(&mut cursor).map(|(k, v)| (k, *v));
                assert_eq!(got, expected);
                last = got.map(|(k, _)| k).or(last);
            }
        }
    }
    assert_eq!(table.len(), model.len());
    assert!(table.iter().map(|(k, v)| (k, *v)).eq(model.iter().map(|(k, v)| (*k, *v))));
    let covering =
        |p: &P| model.iter().filter(|(k, _)| k.covers(*p)).map(|(k, v)| (*k, *v)).collect::<Vec<_>>();
    let got: Vec<_> = table.covering(probe).map(|(k, v)| (k, *v)).collect();
    assert_eq!(got, covering(&probe));
    assert_eq!(table.longest_match(probe).map(|(k, v)| (k, *v)), covering(&probe).last().copied());
    let inside: Vec<_> = table.covered(probe).map(|(k, _)| k).collect();
    assert_eq!(inside, model.keys().copied().filter(|k| probe.covers(*k)).collect::<Vec<_>>());

    // Interest: every address of the answer has the same longest match, and no wider answer would do.
    let addr = probe.addr();
    let within = table.longest_match_addr(addr).map_or(P::default_route(), |(k, _)| k);
    let valid = table.largest_enclosing(within, addr);
    assert!(within.covers(valid) && valid.contains(addr));
    assert!(model.keys().all(|k| *k == within || !valid.covers(*k)));
    if valid != within {
        let wider = valid.truncate(valid.len() - 1);
        assert!(model.keys().any(|k| *k != within && wider.covers(*k)));
    }
}

proptest! {
    #[test]
    fn ipv4_agrees(ops in ops::<Ipv4Prefix>(|b| u32::from(b) << 16), probe in prefix::<Ipv4Prefix>(|b| u32::from(b) << 16)) {
        agrees_with_a_sorted_map(ops, probe);
    }

    #[test]
    fn ipv6_agrees(ops in ops::<Ipv6Prefix>(|b| u128::from(b) << 112), probe in prefix::<Ipv6Prefix>(|b| u128::from(b) << 112)) {
        agrees_with_a_sorted_map(ops, probe);
    }

    #[test]
    fn xids_agree(ops in ops::<XidPrefix>(xid_bits), probe in prefix::<XidPrefix>(xid_bits)) {
        agrees_with_a_sorted_map(ops, probe);
    }

    /// Types, and whole XIDs among prefixes of every length.
    #[test]
    fn xids_of_any_length_agree(ops in proptest::collection::vec(xid_op(), 1..200), probe in xid()) {
        agrees_with_a_sorted_map(ops, probe);
    }
}

fn xid_bits(bits: u16) -> [u8; 24] {
    let [first, second] = bits.to_be_bytes();
    let mut octets = [0; 24];
    octets[..2].copy_from_slice(&[first, second]);
    octets
}

fn xid() -> impl Strategy<Value = XidPrefix> {
    let bits = proptest::array::uniform24(prop_oneof![5 => Just(0u8), 1 => any::<u8>()]);
    (bits, prop_oneof![Just(192u8), 0u8..=192])
        .prop_map(|(bits, len)| XidPrefix::from_parts(bits, len).unwrap())
}

fn xid_op() -> impl Strategy<Value = Op<XidPrefix>> {
    prop_oneof![
        3 => (xid(), any::<u32>()).prop_map(|(p, v)| Op::Insert(p, v)),
        2 => xid().prop_map(Op::Remove),
        2 => Just(Op::Advance),
    ]
}
