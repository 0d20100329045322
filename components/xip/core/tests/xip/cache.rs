//! The cache beside a model, and as the program reads it.

use proptest::prelude::*;
use sluice_base::{Rng, Xid, XidType};
use sluice_xip::cache::{AnswerWord, Cache, CacheEntryId, HashKey, Lines, Put, TAG_USED};
use sluice_xip::{Edge, Row};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Memory that the test reads and marks as the program does.
#[derive(Clone)]
struct Shared(Rc<RefCell<Vec<u64>>>);

impl Lines for Shared {
    fn load(&self, word: usize) -> u64 {
        self.0.borrow()[word]
    }

    fn store(&mut self, word: usize, value: u64) {
        self.0.borrow_mut()[word] = value;
    }

    fn lines(&self) -> usize {
        self.0.borrow().len() / 8
    }
}

fn key(seed: u64) -> HashKey {
    let mut rng = Rng::from_seed(seed);
    HashKey::draw(|| rng.next_u64())
}

fn row(number: u32) -> Row {
    let mut id = [0; 20];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let edge = |kind| Edge { xid: Xid { kind, id }, is_sink: number.is_multiple_of(2) };
    let edges = [edge(XidType::AD), edge(XidType::HID)].into_iter().take(1 + number as usize % 2);
    Row { edges: edges.collect(), is_input: true }
}

fn answer(number: u32) -> AnswerWord {
    AnswerWord::new(2, 0, number)
}

/// Makes a cache of `2^bits` lines.
fn cache(bits: u32) -> (Cache<Shared>, Shared) {
    let lines = Shared(Rc::new(RefCell::new(vec![0; 8 << bits])));
    (Cache::new(lines.clone(), bits, key(1)), lines)
}

/// Looks a row up as the program does, and marks the hit.
fn look_up(cache: &Cache<Shared>, row: &Row) -> Option<u64> {
    let hashes = cache.key().hashes(row);
    let line = (hashes.line >> cache.line_shift()) as usize;
    let mut words = cache.lines().0.borrow_mut();
    let at = (0..4).map(|slot| line * 8 + slot * 2).find(|at| words[*at] & !TAG_USED == hashes.tag)?;
    words[at] |= TAG_USED;
    Some(words[at + 1])
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, u32),
    Set(u32, u32),
    TakeOut(u32),
    Sweep(usize),
    Rekey(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..60_u32, any::<u32>()).prop_map(|(row, index)| Step::Put(row, index)),
        2 => (0..60_u32, any::<u32>()).prop_map(|(row, index)| Step::Set(row, index)),
        2 => (0..60_u32).prop_map(Step::TakeOut),
        1 => (1..40_usize).prop_map(Step::Sweep),
        1 => any::<u64>().prop_map(Step::Rekey),
    ]
}

proptest! {
    #[test]
    fn each_cached_row_has_its_own_answer_and_no_other_row_has_one(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let (mut cache, _) = cache(3);
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let mut ids: BTreeMap<CacheEntryId, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(number, index) if !model.contains_key(&number) => {
                    match cache.put(&row(number), answer(index)) {
                        Put::Stored { id, evicted } => {
                            let before = ids.insert(id, number);
                            prop_assert_eq!(before.is_some(), evicted);
                            before.map(|before| model.remove(&before));
                            model.insert(number, index);
                        }
                        Put::NotAdmitted => {}
                        Put::Collision { lost } => {
                            ids.remove(&lost).map(|lost| model.remove(&lost));
                        }
                    }
                }
                Step::Put(..) => {}
                Step::Set(number, index) => {
                    if let Some(id) = cache.find(&row(number)) {
                        cache.set(id, answer(index));
                        model.insert(number, index);
                    }
                }
                Step::TakeOut(number) => {
                    if let Some(id) = cache.find(&row(number)) {
                        cache.take_out(id);
                        ids.remove(&id);
                        model.remove(&number);
                    }
                }
                Step::Sweep(most) => {
                    cache.sweep(most);
                }
                Step::Rekey(seed) => {
                    cache.rekey(key(seed));
                    (model, ids) = Default::default();
                }
            }
            prop_assert_eq!(cache.len(), model.len());
            for number in 0..60 {
                let expected = model.get(&number).map(|index| answer(*index).0);
                prop_assert_eq!(look_up(&cache, &row(number)), expected);
                let id = cache.find(&row(number));
                prop_assert_eq!(id.and_then(|id| ids.get(&id).copied()), expected.map(|_| number));
            }
        }
    }
}

#[test]
fn a_row_asked_for_again_and_again_takes_the_place_of_rows_asked_for_once() {
    let (mut cache, _) = cache(4);
    let mut number = 0;
    while cache.counts().not_admitted < 200 {
        cache.put(&row(number), answer(number));
        number += 1;
    }
    assert_eq!(cache.len(), cache.slots());
    let wanted = row(1_000_000);
    let mut puts = (0..10).map(|_| cache.put(&wanted, answer(7)));
    assert!(puts.any(|put| matches!(put, Put::Stored { evicted: true, .. })));
}

#[test]
fn rows_with_a_hit_keep_their_places_in_a_flood() {
    let (mut cache, _) = cache(6);
    let mut useful = Vec::new();
    for number in 0..100 {
        if matches!(cache.put(&row(number), answer(number)), Put::Stored { evicted: false, .. }) {
            useful.push(number);
        }
    }
    for flood in 0..10_000 {
        if flood % 50 == 0 {
            useful.iter().for_each(|number| assert!(look_up(&cache, &row(*number)).is_some()));
            while !cache.sweep(64) {}
        }
        // The program marks hits between any two sweeps.
        if flood % 50 == 1 {
            useful.iter().for_each(|number| assert!(look_up(&cache, &row(*number)).is_some()));
        }
        cache.put(&row(1_000_000 + flood), answer(flood));
    }
    let kept = useful.iter().filter(|number| cache.find(&row(**number)).is_some()).count();
    assert!(kept * 100 >= useful.len() * 98, "{kept} of {}", useful.len());
}

#[test]
fn sweeps_separate_rows_with_hits_from_idle_rows() {
    let (mut cache, _) = cache(1);
    let Put::Stored { id, .. } = cache.put(&row(1), answer(1)) else { panic!("not stored") };
    while !cache.sweep(3) {}
    assert!(!cache.was_used(id, 1) && cache.was_used(id, 2));
    look_up(&cache, &row(1)).unwrap();
    assert!(cache.was_used(id, 1));
    while !cache.sweep(3) {}
    assert!(cache.was_used(id, 1));
}
