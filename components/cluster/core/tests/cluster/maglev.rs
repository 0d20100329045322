//! Maglev's table: shares, and the rows that move when elements join and leave.

use proptest::prelude::*;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::maglev::{ROWS, row, table};
use std::collections::BTreeSet;

type Members = Vec<(ElementId, u16)>;

fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn alike(numbers: &BTreeSet<u16>) -> Members {
    numbers.iter().map(|number| (id(*number), 1)).collect()
}

fn share(rows: &[u16], element: u16) -> f64 {
    rows.iter().filter(|row| **row == element).count() as f64 / f64::from(ROWS)
}

fn numbers() -> impl Strategy<Value = BTreeSet<u16>> {
    prop::collection::btree_set(1..=u16::MAX, 2..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_element_that_leaves_moves_about_its_own_share(numbers in numbers(), seed: u64, which: prop::sample::Index) {
        let before = table(&alike(&numbers), seed);
        let gone = *numbers.iter().nth(which.index(numbers.len())).unwrap();
        let mut left = numbers.clone();
        left.remove(&gone);
        let after = table(&alike(&left), seed);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        let moved = moved as f64 / f64::from(ROWS);
        let fair = 1.0 / numbers.len() as f64;
        // All of its rows move, and few others: at most 6 % of all rows, and less the fewer elements there are.
        prop_assert!(after.iter().all(|element| *element != gone && *element != 0));
        prop_assert!(moved >= share(&before, gone) && moved < fair + 0.06, "{} of {}", moved, fair);
        // An element that joins is the same change in the other direction.
        prop_assert_eq!(table(&alike(&numbers), seed), before);
    }

    #[test]
    fn shares_are_in_proportion_to_weights(
        weights in prop::collection::btree_map(1..=u16::MAX, 0..=100u16, 1..40),
        seed: u64,
    ) {
        let members: Members = weights.iter().map(|(number, weight)| (id(*number), *weight)).collect();
        let rows = table(&members, seed);
        let total: f64 = weights.values().map(|weight| f64::from(*weight)).sum();
        if total == 0.0 {
            prop_assert!(rows.iter().all(|element| *element == 0));
            return Ok(());
        }
        for (number, weight) in &weights {
            let (has, fair) = (share(&rows, *number), f64::from(*weight) / total);
            // Each element waits for less than one turn at the end; what all wait for has gone to all by their shares. The last
            // round may be incomplete.
            let bound = (2.0 + fair * weights.len() as f64) / f64::from(ROWS);
            prop_assert!((has - fair).abs() <= bound, "{number}: {has} of {fair}");
        }
    }

    #[test]
    fn the_order_of_members_does_not_matter(numbers in numbers(), seed: u64) {
        let members = alike(&numbers);
        let reversed: Members = members.iter().rev().copied().collect();
        prop_assert_eq!(table(&members, seed), table(&reversed, seed));
    }

    #[test]
    fn each_hash_has_a_row(hash: u32) {
        prop_assert!(row(hash) < ROWS);
    }
}

#[test]
fn rows_of_the_ends_are_the_first_and_the_last() {
    assert_eq!((row(0), row(u32::MAX)), (0, ROWS - 1));
}
