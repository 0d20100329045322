//! ASPAs: verification of paths beside a naive model, differences, and the routes that they concern.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use sluice_base::Asn;
use sluice_validation::{
    AspaSet, Authorization, ChangedPrefixes, Direction, Path, PathValidity, Providers, VrpTable,
};
use std::collections::BTreeSet;

fn providers(asns: &[u32]) -> Providers {
    Providers::new(asns.iter().copied().map(Asn).collect()).expect("a list")
}

fn set(aspas: &[(u32, &[u32])]) -> AspaSet {
    AspaSet::new(aspas.iter().map(|(customer, asns)| (Asn(*customer), providers(asns))))
}

fn path(asns: &[u32]) -> Path {
    let mut path = Path::default();
    asns.iter().for_each(|asn| path.push(Asn(*asn)));
    path
}

#[test]
fn providers_are_as_in_the_set() {
    let aspas = set(&[(1, &[2, 3]), (4, &[0])]);
    for (customer, provider, expected) in [
        (1, 2, Authorization::Provider),
        (1, 4, Authorization::NotProvider),
        (4, 1, Authorization::NotProvider),
        (4, 0, Authorization::NotProvider),
        (2, 1, Authorization::NoAttestation),
    ] {
        assert_eq!(aspas.authorized(Asn(customer), Asn(provider)), expected, "{customer} {provider}");
    }
    for bad in [&[][..], &[2, 1], &[1, 1], &[0, 1]] {
        assert_eq!(Providers::new(bad.iter().copied().map(Asn).collect()), None, "{bad:?}");
    }
}

/// AS 10 and 20 are customers of 1 and of 2, which are peers without providers; 30 is a customer of both 10 and 20.
#[test]
fn leaks_are_invalid() {
    let aspas = set(&[(1, &[0]), (2, &[0]), (10, &[1]), (20, &[2]), (30, &[10, 20])]);
    let check = |asns: &[u32], direction, expected| {
        let found = path(asns).verify(&aspas, direction, Some(Asn(asns[0])));
        assert_eq!(found, expected, "{asns:?} {direction:?}");
    };
    use Direction::{Downstream, Upstream};
    check(&[30], Upstream, PathValidity::Valid);
    check(&[1, 10, 30], Upstream, PathValidity::Valid);
    check(&[1, 1, 10, 10, 10, 30], Upstream, PathValidity::Valid);
    // Over the peering of 1 and 2: fine from a provider, a leak from a customer.
    check(&[1, 2, 20], Upstream, PathValidity::Invalid);
    check(&[10, 1, 2, 20], Downstream, PathValidity::Valid);
    check(&[10, 1, 2, 20], Upstream, PathValidity::Invalid);
    // AS 30 passes a route of one provider on to the other.
    check(&[20, 30, 10, 1], Downstream, PathValidity::Invalid);
    check(&[2, 20, 30, 10], Downstream, PathValidity::Invalid);
    // An AS that attests nothing.
    check(&[1, 10, 99], Upstream, PathValidity::Unknown);
    check(&[1, 99, 10, 30], Upstream, PathValidity::Invalid);
    check(&[99, 98, 97, 96], Downstream, PathValidity::Unknown);
    check(&[99, 98], Downstream, PathValidity::Valid);
}

#[test]
fn malformed_paths_are_invalid() {
    let aspas = set(&[(1, &[2])]);
    let verify = |path: &Path, neighbor| path.verify(&aspas, Direction::Upstream, neighbor);
    assert_eq!(verify(&Path::default(), None), PathValidity::Invalid);
    assert_eq!(verify(&path(&[2, 1]), Some(Asn(3))), PathValidity::Invalid);
    // A route server leaves its AS out.
    assert_eq!(verify(&path(&[2, 1]), None), PathValidity::Valid);
    let mut with_set = path(&[2, 1]);
    with_set.push_set();
    assert_eq!(verify(&with_set, Some(Asn(2))), PathValidity::Invalid);
    // Without data nothing is known, not even of these.
    assert_eq!(with_set.verify(&AspaSet::default(), Direction::Upstream, None), PathValidity::Unknown);
}

/// The model: tries all lengths of both ramps.
fn naive(asns: &[u32], aspas: &AspaSet, direction: Direction) -> PathValidity {
    let mut origin_first: Vec<u32> = asns.to_vec();
    origin_first.dedup();
    origin_first.reverse();
    let len = origin_first.len();
    let answer = |from: usize, to: usize| aspas.authorized(Asn(origin_first[from]), Asn(origin_first[to]));
    let meets = |is_good: &dyn Fn(Authorization) -> bool| {
        let downs = if direction == Direction::Upstream { 0..=0 } else { 0..=len };
        (0..=len).any(|up| {
            let climbs = (1..up).all(|place| is_good(answer(place - 1, place)));
            climbs
                && downs.clone().any(|down| {
                    let descends = (len - down + 1..len).all(|place| is_good(answer(place, place - 1)));
                    descends && up + down >= len
                })
        })
    };
    if !meets(&|answer| answer != Authorization::NotProvider) {
        PathValidity::Invalid
    } else if !meets(&|answer| answer == Authorization::Provider) {
        PathValidity::Unknown
    } else {
        PathValidity::Valid
    }
}

fn sets() -> impl Strategy<Value = AspaSet> {
    let list = btree_set(1u32..7, 1..4).prop_map(|asns| asns.into_iter().collect::<Vec<_>>());
    vec((1u32..7, prop_oneof![Just(vec![0u32]), list]), 0..6).prop_map(|aspas| {
        AspaSet::new(aspas.into_iter().map(|(customer, asns)| (Asn(customer), providers(&asns))))
    })
}

proptest! {
    #[test]
    fn paths_are_verified_as_by_the_model(aspas in sets(), asns in vec(1u32..7, 1..7)) {
        prop_assume!(!aspas.is_empty());
        for direction in [Direction::Upstream, Direction::Downstream] {
            let found = path(&asns).verify(&aspas, direction, Some(Asn(asns[0])));
            prop_assert_eq!(found, naive(&asns, &aspas, direction), "{:?}", direction);
        }
    }

    #[test]
    fn a_path_changes_only_if_it_meets_a_changed_customer(
        old in sets(), new in sets(), asns in vec(1u32..7, 1..7)
    ) {
        let changes = old.changes_to(&new);
        prop_assert_eq!(&old.changed(&changes), &new);
        prop_assert_eq!(old == new, changes.is_empty());
        let (before, after) =
            (VrpTable::default().with_aspas(old.clone()), VrpTable::default().with_aspas(new.clone()));
        let changed = before.changed_states(&after, &before.changes_to(&after));
        let met = changed.meets(asns.iter().copied().map(Asn));
        let differing = changes.keys().map(|customer| customer.0).collect::<BTreeSet<u32>>();
        if changed != ChangedPrefixes::All {
            prop_assert_eq!(met, asns.iter().any(|asn| differing.contains(asn)));
        }
        for direction in [Direction::Upstream, Direction::Downstream] {
            let verify = |aspas| path(&asns).verify(aspas, direction, None);
            prop_assert!(verify(&old) == verify(&new) || met);
        }
        prop_assert!(changed.union(&ChangedPrefixes::All).meets(std::iter::empty()));
    }
}
