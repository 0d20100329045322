//! Stages that a call plugs into the path of selected routes.

use super::family::FamilyRib;
use crate::entry::routes::{RibRoute, RibTable};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use sluice_stage::{Action, Batch, Change, LiveStage, Stage, StageId, TableKey, Upstream};

/// The most stages of a table's family. Each has a guard, which costs a copy of the table.
pub const MOST_STAGES: usize = 8;

/// The most prefixes of a stage.
pub const MOST_PREFIXES: usize = 4096;

/// A stage to plug in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluggedStage<P> {
    /// Holds back the routes inside these prefixes: they are neither forwarded by nor sent to subscribers.
    HoldBack(Vec<P>),
    /// Breaks the rules of stages at the first route: shows the guard at work.
    Drill,
}

impl<P: TableKey> PluggedStage<P> {
    /// Makes the stage.
    pub fn stage(self) -> Box<dyn Stage<RibTable<P>>> {
        match self {
            PluggedStage::HoldBack(prefixes) => Box::new(HoldBack(prefixes)),
            PluggedStage::Drill => Box::new(Drill),
        }
    }
}

/// The reason why a stage is not plugged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlumbError {
    /// There is no such table.
    NoTable,
    /// The table's family has [`MOST_STAGES`] stages.
    TooManyStages,
    /// The stage has more than [`MOST_PREFIXES`] prefixes.
    TooManyPrefixes,
}

impl fmt::Display for PlumbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlumbError::NoTable => f.write_str("there is no such table"),
            PlumbError::TooManyStages => write!(f, "a table has at most {MOST_STAGES} stages of a family"),
            PlumbError::TooManyPrefixes => write!(f, "a stage has at most {MOST_PREFIXES} prefixes"),
        }
    }
}

impl core::error::Error for PlumbError {}

/// A plugged stage, for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageView {
    /// The stage's number.
    pub id: StageId,
    /// The stage's name.
    pub name: &'static str,
    /// True while the stage leaves, by a call or because it broke a rule.
    pub is_leaving: bool,
}

impl<P: TableKey> FamilyRib<P> {
    /// Returns the stages that selected routes pass.
    pub(crate) fn plugged_stages(&self) -> Vec<StageView> {
        let view = |(id, name)| {
            let stage = self.selected_routes.stage::<LiveStage<RibTable<P>>>(id);
            StageView { id, name, is_leaving: stage.is_some_and(LiveStage::is_leaving) }
        };
        self.selected_routes.names().map(view).collect()
    }
}

/// Drops the routes inside prefixes.
struct HoldBack<P>(Vec<P>);

impl<P: TableKey> HoldBack<P> {
    fn holds(&self, key: P) -> bool {
        self.0.iter().any(|prefix| prefix.covers(key))
    }
}

impl<P: TableKey> Stage<RibTable<P>> for HoldBack<P> {
    fn name(&self) -> &'static str {
        "hold-back"
    }

    fn process(
        &mut self,
        input: &mut Batch<RibTable<P>>,
        _up: Upstream<'_, RibTable<P>>,
        out: &mut Batch<RibTable<P>>,
    ) {
        input.drain().filter(|change| !self.holds(change.key)).for_each(|change| out.push(change));
    }

    fn lookup(&self, key: P, up: Upstream<'_, RibTable<P>>) -> Option<RibRoute> {
        if self.holds(key) { None } else { up.lookup(key) }
    }
}

/// Passes routes on with old halves that it has not sent.
struct Drill;

impl<P: TableKey> Stage<RibTable<P>> for Drill {
    fn name(&self) -> &'static str {
        "drill"
    }

    fn process(
        &mut self,
        input: &mut Batch<RibTable<P>>,
        _up: Upstream<'_, RibTable<P>>,
        out: &mut Batch<RibTable<P>>,
    ) {
        for Change { key, action, provenance } in input.drain() {
            let action = match action {
                Action::Add(new) => Action::Replace { old: new, new },
                action => action,
            };
            out.push(Change { key, action, provenance });
        }
    }

    fn lookup(&self, key: P, up: Upstream<'_, RibTable<P>>) -> Option<RibRoute> {
        up.lookup(key)
    }
}
