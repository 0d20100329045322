//! Damaged words: found by one cycle of the audit, whatever happens meanwhile.

use super::{Model, Op, op, probes};
use proptest::prelude::*;
use sluice_fea::xdp::{Area, Auditor, Limits, Memory, Tables, Words};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Words that a test can reach behind the tables' back, and the numbers of those that were ever stored.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Recorded>>);

type Recorded = (Memory, BTreeSet<(Area, usize)>);

impl Words for Shared {
    fn load(&self, area: Area, word: usize) -> u64 {
        self.0.borrow().0.load(area, word)
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        let (memory, stored) = &mut *self.0.borrow_mut();
        memory.store(area, word, value);
        stored.insert((area, word));
    }
}

/// Limits at which many prefixes and groups wait for room.
const TIGHT: Limits = Limits { ipv4_nodes: 4, ipv6_nodes: 12, groups: 7, blocks: 2, members: 6 };

#[derive(Clone, Debug)]
enum Step {
    Op(Op),
    /// Damages one of the words that were stored.
    Damage(prop::sample::Index, Damage),
    /// Damages any word.
    DamageAny(usize, prop::sample::Index, u64),
    /// Carries on the audit.
    Audit(usize),
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Any(u64),
    Flip(u8),
    /// Takes the content of another stored word: a pointer to another node, group or member.
    Copy,
}

fn step() -> BoxedStrategy<Step> {
    let damage =
        prop_oneof![any::<u64>().prop_map(Damage::Any), (0..64u8).prop_map(Damage::Flip), Just(Damage::Copy)];
    prop_oneof![
        6 => op(14).prop_map(Step::Op),
        4 => (any::<prop::sample::Index>(), damage).prop_map(|(at, damage)| Step::Damage(at, damage)),
        1 => (0..Area::ALL.len(), any::<prop::sample::Index>(), any::<u64>())
            .prop_map(|(area, word, value)| Step::DamageAny(area, word, value)),
        1 => (1..2_000_000usize).prop_map(Step::Audit),
    ]
    .boxed()
}

/// Returns the words that differ, of those that were ever stored or damaged.
fn differing(damaged: &Shared, sound: &Shared, touched: &BTreeSet<(Area, usize)>) -> BTreeSet<(Area, usize)> {
    let stored = damaged.0.borrow().1.clone();
    let all = stored.into_iter().chain(touched.iter().copied());
    all.filter(|(area, word)| damaged.load(*area, *word) != sound.load(*area, *word)).collect()
}

fn damage_and_audit(steps: &[Step], limits: Limits) {
    let ops: Vec<Op> = steps
        .iter()
        .filter_map(|step| if let Step::Op(op) = step { Some(op.clone()) } else { None })
        .collect();
    let probes = probes(&ops);
    let (words, sound_words) = (Shared::default(), Shared::default());
    let mut tables = Tables::with_limits(words.clone(), limits);
    let mut sound = Tables::with_limits(sound_words.clone(), limits);
    let (mut model, mut sound_model) = (Model::default(), Model::default());
    let (mut auditor, mut touched) = (Auditor::default(), BTreeSet::new());
    for step in steps {
        let (area, word, value) = match step {
            Step::Op(op) => {
                model.apply(&mut tables, op);
                sound_model.apply(&mut sound, op);
                continue;
            }
            Step::Audit(budget) => {
                tables.audit(&mut auditor, *budget);
                continue;
            }
            Step::Damage(at, damage) => {
                let stored: Vec<_> = words.0.borrow().1.iter().copied().collect();
                if stored.is_empty() {
                    continue;
                }
                let (area, word) = *at.get(&stored);
                let value = match damage {
                    Damage::Any(value) => *value,
                    Damage::Flip(bit) => words.load(area, word) ^ 1 << bit,
                    Damage::Copy => {
                        let (area, word) = stored[(at.index(stored.len()) + 1) % stored.len()];
                        words.load(area, word)
                    }
                };
                (area, word, value)
            }
            Step::DamageAny(area, word, value) => {
                let area = Area::ALL[*area];
                (area, word.index(area.words()), *value)
            }
        };
        touched.insert((area, word));
        words.0.borrow_mut().0.store(area, word, value);
    }
    // The rest of the running cycle, and a whole one.
    while !tables.audit(&mut auditor, 1 << 16) {}
    let before = differing(&words, &sound_words, &touched);
    let counted: u64 = Area::ALL.iter().map(|area| auditor.mended(*area)).sum();
    auditor.take_mends();
    let mut lost = BTreeMap::new();
    // One more damaged word of each area's words in use, so that the whole cycle has work.
    for area in Area::ALL {
        let stored: Vec<_> = words.0.borrow().1.iter().copied().filter(|(a, _)| *a == area).collect();
        if let Some((_, word)) = stored.first() {
            let value = words.load(area, *word);
            words.0.borrow_mut().0.store(area, *word, !value);
            lost.insert((area, *word), value);
        }
    }
    while !tables.audit(&mut auditor, 777) {}
    let after = differing(&words, &sound_words, &touched);
    let mends = auditor.take_mends();
    for mend in &mends {
        assert_eq!(mend.expected, words.load(mend.area, mend.word));
        assert_eq!(mend.expected, sound_words.load(mend.area, mend.word), "{mend}");
    }
    for ((area, word), value) in &lost {
        let is_reported = mends.iter().any(|mend| (mend.area, mend.word) == (*area, *word));
        // A word that nothing leads to is not compared.
        assert!(is_reported || after.contains(&(*area, *word)), "{area} {word} was {value:#x}");
    }
    let counted = Area::ALL.iter().map(|area| auditor.mended(*area)).sum::<u64>() - counted;
    let mended: BTreeSet<_> = before.iter().chain(lost.keys()).filter(|at| !after.contains(*at)).collect();
    assert_eq!(counted, mended.len() as u64, "{mends:?}");
    // No word of a root is beside the point, and none of what the model can see.
    assert!(after.iter().all(|(area, _)| !matches!(area, Area::Ipv4Root | Area::Ipv6Root)), "{after:?}");
    model.check(&tables, &probes);
    let cycles = auditor.cycles();
    while !tables.audit(&mut auditor, usize::MAX) {}
    assert_eq!((auditor.take_mends(), auditor.cycles()), (vec![], cycles + 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_cycle_mends_all_damaged_words(steps in prop::collection::vec(step(), 1..90)) {
        damage_and_audit(&steps, Limits::default());
    }

    #[test]
    fn a_cycle_mends_all_damaged_words_of_full_tables(steps in prop::collection::vec(step(), 1..90)) {
        damage_and_audit(&steps, TIGHT);
    }
}
