//! Copies of another process's payloads: pages, differences, epochs that overtake a fetch, and the end of a copy that nobody answers.

use proptest::prelude::*;
use sluice_base::{Asn, Duration, Instant, IpPrefix};
use sluice_validation::replica::{EXPIRE, MOST_PAGES};
use sluice_validation::{
    AnyVrp, ChangedPrefixes, Page, PageError, Progress, Record, Replica, VrpTable, write_record,
};
use std::collections::BTreeSet;

const NOW: Instant = Instant::ZERO;
/// Records of a page.
const PAGE: usize = 2;

fn vrp(n: u8) -> AnyVrp {
    let prefix: IpPrefix = format!("10.{n}.0.0/16").parse().expect("a prefix");
    AnyVrp::new(prefix, 24, Asn(65000 + u32::from(n))).expect("a VRP")
}

fn table(numbers: &BTreeSet<u8>) -> VrpTable {
    VrpTable::new(numbers.iter().map(|n| vrp(*n)))
}

/// The records of the pages that lead a copy of `old` to `new`; of the whole table without `old`.
fn pages(old: Option<&BTreeSet<u8>>, new: &BTreeSet<u8>) -> Vec<Vec<u8>> {
    let records: Vec<_> = match old {
        Some(old) => table(old).changes_to(&table(new)).records().collect(),
        None => new.iter().map(|n| Record::Vrp(vrp(*n), true)).collect(),
    };
    let page = |chunk: &[Record]| {
        let mut octets = Vec::new();
        chunk.iter().for_each(|record| write_record(record, &mut octets));
        octets
    };
    let pages: Vec<_> = records.chunks(PAGE).map(page).collect();
    if pages.is_empty() { vec![Vec::new()] } else { pages }
}

const DATA: Page<'_> = Page {
    epoch: 1,
    has_data: true,
    is_settled: true,
    is_whole: true,
    is_superseded: false,
    pages: 1,
    records: &[],
};

/// Gives a copy all pages of an epoch; returns the last result.
fn fetch(replica: &mut Replica, epoch: u64, is_whole: bool, pages: &[Vec<u8>]) -> Progress {
    let mut request = replica.begin();
    loop {
        let records = &pages[request.page as usize];
        let page = Page { epoch, is_whole, pages: pages.len() as u32, records, ..DATA };
        match replica.page(NOW, page).expect("a good page") {
            Progress::Next(next) => {
                assert_eq!((next.epoch, next.page), (epoch, request.page + 1));
                request = next;
            }
            progress => return progress,
        }
    }
}

proptest! {
    #[test]
    fn a_copy_equals_the_epochs_that_it_fetches(
        epochs in prop::collection::vec((prop::collection::btree_set(0..20_u8, 0..12), any::<bool>()), 1..8),
    ) {
        let mut replica = Replica::new(NOW);
        let mut known: Option<BTreeSet<u8>> = None;
        for (number, (new, is_whole)) in (1..).zip(epochs) {
            let old = known.as_ref().filter(|_| !is_whole);
            prop_assert_eq!(replica.begin().known, number - 1);
            let progress = fetch(&mut replica, number, old.is_none(), &pages(old, &new));
            let Progress::Changed(changed) = progress else { panic!("{progress:?}") };
            prop_assert_eq!(&**replica.table().expect("data"), &table(&new));
            // Each prefix whose state differs is named.
            if let Some(known) = &known {
                for n in known.symmetric_difference(&new) {
                    prop_assert!(changed.covers(vrp(*n).prefix()));
                }
            }
            known = Some(new);
        }
    }
}

fn filled() -> Replica {
    let mut replica = Replica::new(NOW);
    let new = BTreeSet::from([1, 2, 3]);
    assert!(matches!(fetch(&mut replica, 1, true, &pages(None, &new)), Progress::Changed(_)));
    replica
}

#[test]
fn an_epoch_that_is_known_changes_nothing() {
    let mut replica = filled();
    replica.begin();
    assert_eq!(replica.page(NOW, Page { is_whole: false, ..DATA }), Ok(Progress::Unchanged));
    assert_eq!(replica.table().map(|table| table.len()), Some(3));
}

#[test]
fn an_epoch_that_overtakes_a_fetch_has_it_begin_again() {
    let mut replica = filled();
    let all = pages(None, &BTreeSet::from([4, 5, 6]));
    replica.begin();
    let first = Page { epoch: 2, pages: 2, records: &all[0], ..DATA };
    assert!(matches!(replica.page(NOW, first), Ok(Progress::Next(_))));
    assert_eq!(replica.page(NOW, Page { is_superseded: true, ..DATA }), Ok(Progress::Superseded));
    assert_eq!(replica.table().map(|table| table.len()), Some(3), "half an epoch has no effect");
    fetch(&mut replica, 3, true, &all);
    assert_eq!(**replica.table().expect("data"), table(&BTreeSet::from([4, 5, 6])));
}

#[test]
fn a_difference_to_data_that_are_gone_is_not_used() {
    let mut replica = filled();
    assert!(replica.expire(NOW + EXPIRE + Duration::from_secs(1)));
    replica.begin();
    assert_eq!(replica.page(NOW, Page { epoch: 2, is_whole: false, ..DATA }), Ok(Progress::Superseded));
    assert_eq!(replica.begin().known, 0);
}

#[test]
fn the_absence_of_data_counts_when_it_is_final() {
    let mut replica = filled();
    let none = Page { epoch: 2, has_data: false, pages: 0, ..DATA };
    replica.begin();
    assert_eq!(replica.page(NOW, Page { is_settled: false, ..none }), Ok(Progress::Unchanged));
    assert!(replica.table().is_some(), "the component has just started");
    replica.begin();
    assert_eq!(replica.page(NOW, none), Ok(Progress::Changed(ChangedPrefixes::All)));
    assert!(replica.table().is_none());
}

#[test]
fn data_hold_for_a_while_without_an_answer() {
    let mut replica = filled();
    assert!(!replica.expire(NOW + EXPIRE));
    let later = NOW + EXPIRE;
    replica.begin();
    assert_eq!(replica.page(later, Page { is_whole: false, ..DATA }), Ok(Progress::Unchanged));
    assert!(!replica.expire(later + EXPIRE));
    assert!(replica.expire(later + EXPIRE + Duration::from_secs(1)));
    assert!(!replica.expire(later + EXPIRE * 3), "there is nothing left");
}

#[test]
fn pages_that_make_no_sense_change_nothing() {
    let mut replica = filled();
    replica.begin();
    let many = Page { epoch: 2, pages: MOST_PAGES + 1, ..DATA };
    assert_eq!(replica.page(NOW, many), Err(PageError::TooManyPages(MOST_PAGES + 1)));
    replica.begin();
    let torn = Page { epoch: 2, records: &[1, 16], ..DATA };
    assert!(matches!(replica.page(NOW, torn), Err(PageError::Records(_))));
    assert_eq!(replica.table().map(|table| table.len()), Some(3));
}
