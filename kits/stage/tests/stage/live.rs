//! Stages that arrive and leave while routes flow, some of them broken: the output keeps both rules, and ends as
//! expected.

use proptest::prelude::*;
use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};
use sluice_stage::{
    Action, Batch, Branch, Change, CheckStage, LiveStage, Source, Stage, StageId, Table, Upstream,
};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbers;

impl Table for Numbers {
    type Key = u8;
    type Route = u32;
}

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

/// Drops even routes and adds one to the others.
struct Filter;

const fn filtered(route: u32) -> Option<u32> {
    if route.is_multiple_of(2) { None } else { Some(route + 1) }
}

impl Stage<Numbers> for Filter {
    fn name(&self) -> &'static str {
        "filter"
    }

    fn process(&mut self, input: &mut Batch<Numbers>, _up: Upstream<'_, Numbers>, out: &mut Batch<Numbers>) {
        for change in input.drain() {
            let (old, new) = change.action.into_halves();
            out.push_between(change.key, old.and_then(filtered), new.and_then(filtered), change.provenance);
        }
    }

    fn lookup(&self, key: u8, up: Upstream<'_, Numbers>) -> Option<u32> {
        up.lookup(key).and_then(filtered)
    }
}

/// Breaks a rule from its `after`th change on.
struct Broken {
    after: u32,
    how: u8,
    seen: u32,
}

impl Stage<Numbers> for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn process(&mut self, input: &mut Batch<Numbers>, _up: Upstream<'_, Numbers>, out: &mut Batch<Numbers>) {
        for change in input.drain() {
            self.seen += 1;
            let Change { key, action, provenance } = change;
            let push = |out: &mut Batch<Numbers>, action| out.push(Change { key, action, provenance });
            if self.seen <= self.after {
                push(out, action);
                continue;
            }
            match self.how {
                0 => push(out, Action::Delete(1_000)),
                1 => push(out, Action::Add(1_000)),
                2 => push(out, Action::Replace { old: 1_000, new: 1_001 }),
                3 => {
                    push(out, action.clone());
                    push(out, action);
                }
                // Sends nothing, and answers look-ups as if it had.
                _ => {}
            }
        }
    }

    fn lookup(&self, key: u8, up: Upstream<'_, Numbers>) -> Option<u32> {
        let route = up.lookup(key)?;
        Some(if self.how == 5 && self.seen > self.after { route + 7 } else { route })
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u32),
    Delete(u8),
    Slice(u32),
    Arrive { guarded: bool, at: usize },
    Leave(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0u8..30, 0u32..50).prop_map(|(key, route)| Op::Set(key, route)),
        5 => (0u8..30).prop_map(Op::Delete),
        4 => (1u32..8).prop_map(Op::Slice),
        1 => (any::<bool>(), 0usize..3).prop_map(|(guarded, at)| Op::Arrive { guarded, at }),
        1 => (0usize..3).prop_map(Op::Leave),
    ]
}

/// An origin, stages, and at the end a check stage that has seen every change.
struct Network {
    origin: Origin,
    stages: Branch<Numbers>,
    check: Branch<Numbers>,
    check_id: StageId,
    end: BTreeMap<u8, u32>,
}

/// The source of the check stage.
struct Stages<'a>(&'a Origin, &'a Branch<Numbers>);

impl Source<Numbers> for Stages<'_> {
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

impl Network {
    fn new() -> Self {
        let mut check = Branch::new();
        let check_id = check.plumb_last(Box::new(CheckStage::new()));
        Network { origin: Origin::default(), stages: Branch::new(), check, check_id, end: BTreeMap::new() }
    }

    fn set(&mut self, key: u8, route: Option<u32>) {
        let old = match route {
            Some(route) => self.origin.0.insert(key, route),
            None => self.origin.0.remove(&key),
        };
        let mut batch = Batch::new();
        batch.push_between(key, old, route, Provenance::NONE);
        self.stages.push(&self.origin, &mut batch);
        self.arrive_at_the_end(batch);
    }

    fn arrive_at_the_end(&mut self, mut batch: Batch<Numbers>) {
        self.check.push(&Stages(&self.origin, &self.stages), &mut batch);
        for change in batch.drain() {
            match change.action.after() {
                Some(route) => self.end.insert(change.key, *route),
                None => self.end.remove(&change.key),
            };
        }
    }

    fn slice(&mut self, budget: u32) -> Progress {
        let mut out = Batch::new();
        let progress = self.stages.run_slice(&self.origin, &mut Budget(budget), &mut out);
        self.arrive_at_the_end(out);
        progress
    }

    fn rest(&mut self) {
        let mut slices = 0;
        while self.slice(3) == Progress::More {
            slices += 1;
            assert!(slices < 10_000, "background work never ends");
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let check = self.check.stage::<CheckStage<Numbers>>(self.check_id).expect("it is there");
        prop_assert_eq!(check.violations(), &[]);
        let seen = Stages(&self.origin, &self.stages);
        for key in 0..30 {
            prop_assert_eq!(seen.lookup(key), self.end.get(&key).copied(), "key {}", key);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn stages_arrive_and_leave_while_routes_flow(ops in prop::collection::vec(op(), 1..80)) {
        let mut network = Network::new();
        let mut ids: Vec<StageId> = Vec::new();
        for op in ops {
            match op {
                Op::Set(key, route) => network.set(key, Some(route)),
                Op::Delete(key) => network.set(key, None),
                Op::Slice(budget) => drop(network.slice(budget)),
                Op::Arrive { guarded, at } if ids.len() < 3 => {
                    let stage = if guarded { LiveStage::guarded(Box::new(Filter)) } else { LiveStage::new(Box::new(Filter)) };
                    ids.push(network.stages.plumb(at, Box::new(stage)));
                }
                Op::Arrive { .. } => {}
                Op::Leave(which) if which < ids.len() => {
                    if let Some(stage) = network.stages.stage_mut::<LiveStage<Numbers>>(ids.remove(which)) {
                        stage.leave();
                    }
                }
                Op::Leave(_) => {}
            }
            network.check()?;
        }
        network.rest();
        network.check()?;
        prop_assert_eq!(network.stages.len(), ids.len(), "stages that left are taken out");
        let expected = network.origin.0.iter().filter_map(|(key, route)| {
            let mut stages = 0..ids.len();
            Some((*key, stages.try_fold(*route, |route, _| filtered(route))?))
        });
        prop_assert_eq!(expected.collect::<BTreeMap<_, _>>(), network.end.clone());
    }

    #[test]
    fn a_guarded_stage_that_breaks_a_rule_is_isolated(
        ops in prop::collection::vec(op(), 1..80),
        at in 0usize..40,
        after in 0u32..20,
        how in 0u8..6,
    ) {
        let mut network = Network::new();
        let mut id = None;
        let mut was_broken = false;
        for (number, op) in ops.into_iter().enumerate() {
            if number == at {
                let stage = LiveStage::guarded(Box::new(Broken { after, how, seen: 0 }));
                id = Some(network.stages.plumb_last(Box::new(stage)));
            }
            match op {
                Op::Set(key, route) => network.set(key, Some(route)),
                Op::Delete(key) => network.set(key, None),
                Op::Slice(budget) => drop(network.slice(budget)),
                Op::Arrive { .. } | Op::Leave(_) => {}
            }
            let stage = id.and_then(|id| network.stages.stage::<LiveStage<Numbers>>(id));
            was_broken |= stage.is_some_and(|stage| stage.violation().is_some());
            network.check()?;
        }
        network.rest();
        network.check()?;
        if was_broken {
            prop_assert!(network.stages.is_empty(), "an isolated stage is taken out");
            prop_assert_eq!(&network.end, &network.origin.0);
        }
    }
}
