//! Random pipelines: stages are plugged in and out while routes come and go, a check stage stands behind every stage, and the
//! end of the pipe must hold what a plain map holds.

use crate::deletion::DeletionStage;
use crate::expect::ExpectStage;
use proptest::prelude::*;
use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};
use sluice_stage::{
    Action, Batch, Branch, Change, CheckStage, DumpStage, Source, Stage, StageId, Table, Upstream,
};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbers;

impl Table for Numbers {
    type Key = u8;
    type Route = u32;
}

/// An origin: where routes are stored.
#[derive(Default)]
struct Origin(BTreeMap<u8, u32>);

impl Source<Numbers> for Origin {
    fn lookup(&self, key: u8) -> Option<u32> {
        self.0.get(&key).copied()
    }

    fn next_after(&self, key: Option<u8>) -> Option<(u8, u32)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded)).next().map(|(k, v)| (*k, *v))
    }
}

/// A filter bank: drops some routes and changes some.
struct Filter {
    modulus: u32,
}

impl Filter {
    fn apply(&self, route: u32) -> Option<u32> {
        (!route.is_multiple_of(self.modulus)).then_some(route * 2)
    }
}

impl Stage<Numbers> for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn process(&mut self, input: &mut Batch<Numbers>, _up: Upstream<'_, Numbers>, out: &mut Batch<Numbers>) {
        for change in input.drain() {
            let (old, new) = change.action.into_halves();
            out.push_between(
                change.key,
                old.and_then(|r| self.apply(r)),
                new.and_then(|r| self.apply(r)),
                change.provenance,
            );
        }
    }

    fn lookup(&self, key: u8, up: Upstream<'_, Numbers>) -> Option<u32> {
        up.lookup(key).and_then(|r| self.apply(r))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u32),
    Delete(u8),
    /// The origin dies and starts afresh.
    Flap,
    Slice(u32),
    /// A check stage is plugged into the live branch, or the latest check stage is removed.
    PlugCheck(usize),
    UnplugCheck,
    /// A second reader appears and must be sent everything.
    Join,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (any::<u8>(), 0u32..50).prop_map(|(k, v)| Op::Set(k % 40, v)),
        5 => any::<u8>().prop_map(|k| Op::Delete(k % 40)),
        1 => Just(Op::Flap),
        4 => (1u32..8).prop_map(Op::Slice),
        1 => (0usize..6).prop_map(Op::PlugCheck),
        1 => Just(Op::UnplugCheck),
        1 => Just(Op::Join),
    ]
}

/// An origin branch with a filter, and readers below it that join late.
struct Network {
    origin: Origin,
    branch: Branch<Numbers>,
    checks: Vec<StageId>,
    late_checks: Vec<StageId>,
    readers: Vec<Reader>,
}

/// A branch, its check stages, and its output.
type Reader = (Branch<Numbers>, Vec<StageId>, BTreeMap<u8, u32>);

/// The source of a reader's branch: the end of the origin's branch.
struct Trunk<'a>(&'a Origin, &'a Branch<Numbers>);

impl Source<Numbers> for Trunk<'_> {
    fn lookup(&self, key: u8) -> Option<u32> {
        self.1.lookup(self.0, key)
    }

    fn next_after(&self, mut key: Option<u8>) -> Option<(u8, u32)> {
        loop {
            let (next, route) = self.1.upstream(self.0).next_after(key)?;
            if let Some(route) = route {
                return Some((next, route));
            }
            key = Some(next);
        }
    }
}

fn apply(table: &mut BTreeMap<u8, u32>, batch: &mut Batch<Numbers>) {
    for change in batch.drain() {
        match change.action.after() {
            Some(new) => table.insert(change.key, *new),
            None => table.remove(&change.key),
        };
    }
}

fn copy(batch: &Batch<Numbers>) -> Batch<Numbers> {
    let mut out = Batch::new();
    for c in batch.as_slice() {
        out.push(Change { key: c.key, action: c.action.clone(), provenance: c.provenance });
    }
    out
}

impl Network {
    fn new() -> Self {
        let mut branch = Branch::new();
        let first = branch.plumb_last(Box::new(CheckStage::new()));
        branch.plumb_last(Box::new(Filter { modulus: 7 }));
        let second = branch.plumb_last(Box::new(CheckStage::new()));
        let mut network = Network {
            origin: Origin::default(),
            branch,
            checks: vec![first, second],
            late_checks: Vec::new(),
            readers: Vec::new(),
        };
        network.join();
        network
    }

    fn join(&mut self) {
        let mut branch = Branch::new();
        branch.plumb_last(Box::new(DumpStage::new()));
        let check = branch.plumb_last(Box::new(CheckStage::new()));
        self.readers.push((branch, vec![check], BTreeMap::new()));
    }

    fn deliver(&mut self, batch: &Batch<Numbers>) {
        let trunk = Trunk(&self.origin, &self.branch);
        for (branch, _, table) in &mut self.readers {
            let mut mine = copy(batch);
            branch.push(&trunk, &mut mine);
            apply(table, &mut mine);
        }
    }

    fn change(&mut self, key: u8, new: Option<u32>) {
        let old = match new {
            Some(new) => self.origin.0.insert(key, new),
            None => self.origin.0.remove(&key),
        };
        let mut batch = Batch::new();
        batch.push_between(key, old, new, Provenance::NONE);
        self.branch.push(&self.origin, &mut batch);
        self.deliver(&batch);
    }

    fn slice(&mut self, budget: u32) -> Progress {
        let mut progress = Progress::Done;
        let mut batch = Batch::new();
        progress = progress.or(self.branch.run_slice(&self.origin, &mut Budget(budget), &mut batch));
        self.deliver(&batch);
        let trunk = Trunk(&self.origin, &self.branch);
        for (branch, _, table) in &mut self.readers {
            let mut batch = Batch::new();
            progress = progress.or(branch.run_slice(&trunk, &mut Budget(budget), &mut batch));
            apply(table, &mut batch);
        }
        progress
    }

    fn violations(&self) -> Vec<String> {
        let of = |branch: &Branch<Numbers>, ids: &[StageId]| -> Vec<String> {
            ids.iter()
                .filter_map(|id| branch.stage::<CheckStage<Numbers>>(*id))
                .flat_map(|c| c.violations().iter().map(|v| format!("{v:?}")).collect::<Vec<_>>())
                .collect()
        };
        let mut all = of(&self.branch, &self.checks);
        all.extend(of(&self.branch, &self.late_checks));
        for (branch, ids, _) in &self.readers {
            all.extend(of(branch, ids));
        }
        all
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Set(key, value) => self.change(key, Some(value)),
            Op::Delete(key) => self.change(key, None),
            Op::Flap => {
                let held = std::mem::take(&mut self.origin.0);
                self.branch.plumb(0, Box::new(DeletionStage::new(held, Provenance::NONE)));
            }
            Op::Slice(budget) => {
                self.slice(budget);
            }
            Op::PlugCheck(position) => {
                self.late_checks.push(self.branch.plumb(position, Box::new(CheckStage::late())));
            }
            Op::UnplugCheck => {
                if let Some(id) = self.late_checks.pop() {
                    self.branch.unplumb(id);
                }
            }
            Op::Join => {
                if self.readers.len() < 4 {
                    self.join();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sequence_keeps_both_rules_and_ends_right(ops in proptest::collection::vec(op(), 1..200)) {
        let mut network = Network::new();
        for op in ops {
            network.run(op);
            prop_assert_eq!(network.violations(), Vec::<String>::new());
        }
        let mut slices = 0;
        while network.slice(5) == Progress::More {
            slices += 1;
            prop_assert!(slices < 10_000, "background work never ends");
        }
        prop_assert_eq!(network.violations(), Vec::<String>::new());
        let filter = Filter { modulus: 7 };
        let expected: BTreeMap<u8, u32> =
            network.origin.0.iter().filter_map(|(k, v)| filter.apply(*v).map(|v| (*k, v))).collect();
        for (branch, _, table) in &network.readers {
            prop_assert_eq!(table, &expected);
            prop_assert!(branch.names().all(|(_, name)| name == "check"), "a finished stage stayed plugged in");
        }
        prop_assert!(network.branch.names().all(|(_, name)| name != "deletion"));
    }
}

/// A stage that breaks each rule must be caught, or the checks above prove nothing.
#[test]
fn the_check_stage_finds_what_is_wrong() {
    struct Liar;
    impl Stage<Numbers> for Liar {
        fn name(&self) -> &'static str {
            "liar"
        }
        fn process(
            &mut self,
            input: &mut Batch<Numbers>,
            _up: Upstream<'_, Numbers>,
            out: &mut Batch<Numbers>,
        ) {
            for change in input.drain() {
                if let Some(new) = change.action.after() {
                    out.push(Change { action: Action::Add(*new), ..change });
                }
            }
        }
        fn lookup(&self, _key: u8, _up: Upstream<'_, Numbers>) -> Option<u32> {
            None
        }
    }
    let mut network = Network::new();
    network.branch.plumb(0, Box::new(Liar));
    network.change(1, Some(1));
    network.change(1, Some(2));
    let found = network.violations().join(" ");
    assert!(found.contains("LookupDiffers") && found.contains("AddOfExisting"), "{found}");
}

#[test]
fn a_deletion_stage_turns_a_new_announcement_into_a_replace() {
    let mut branch: Branch<Numbers> = Branch::new();
    let held = BTreeMap::from([(1, 10), (2, 20)]);
    branch.plumb_last(Box::new(DeletionStage::new(held, Provenance::NONE)));
    let expect = branch.plumb_last(Box::new(ExpectStage::new()));
    let stage = branch.stage_mut::<ExpectStage<Numbers>>(expect).expect("just plugged in");
    stage.expect(1, Action::Replace { old: 10, new: 11 });
    stage.expect(2, Action::Delete(20));

    let origin = Origin(BTreeMap::from([(1, 11)]));
    assert_eq!(branch.lookup(&origin, 2), Some(20));
    let mut batch = Batch::new();
    batch.push(Change { key: 1, action: Action::Add(11), provenance: Provenance::NONE });
    branch.push(&origin, &mut batch);
    batch.clear();
    while branch.run_slice(&origin, &mut Budget(10), &mut batch) == Progress::More {
        batch.clear();
    }
    let stage = branch.stage::<ExpectStage<Numbers>>(expect).expect("still plugged in");
    assert_eq!(stage.differences(), Vec::<String>::new());
    assert_eq!(branch.len(), 1);
}
