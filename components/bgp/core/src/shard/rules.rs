//! The two rules between the decision and PeerOut, in the words of the stage kit, for the checking stage.
//!
//! The hot part of a shard is not a row of stage objects: one entry holds all paths of a prefix, and a branch is a cursor
//! into one queue. What a stage promises holds all the same: a group is told a deletion only of what it was told (rule 1),
//! and what it is told is what a look-up finds at that moment (rule 2). This file states both so that they can be verified.

use super::branch::{Item, Source};
use super::export_view::ExportView;
use super::exporter::Exporter;
use super::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::Provenance;
use sluice_stage::{Action, Batch, Change, CheckStage, Source as Head, Stage, Table, Upstream, Violation};

/// The Adj-RIB-Out of an update group: the source of each prefix's route. The attributes follow from the shard's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced<P>(PhantomData<P>);

impl<P: FamilyKey> Table for Announced<P> {
    type Key = P;
    type Route = AdvertisedSource;
}

/// Whose route a group was told.
pub type AdvertisedSource = Source;

/// The Adj-RIB-Out that a group should have, by the shard's entries.
pub(super) struct Truth<'a, P: FamilyKey> {
    pub core: &'a Core<P>,
    pub view: &'a ExportView,
}

impl<P: FamilyKey> Head<Announced<P>> for Truth<'_, P> {
    fn lookup(&self, prefix: P) -> Option<Source> {
        let id = self.core.find(prefix)?;
        Exporter::default().best(self.core, self.view, id).map(|(peer, _)| Source::of(peer))
    }

    fn next_after(&self, prefix: Option<P>) -> Option<(P, Source)> {
        let entries = &self.core.entries;
        let all = (0..entries.end()).filter(|id| !entries.is_vacant(*id)).map(|id| entries[id].prefix);
        let next = all.filter(|next| prefix.is_none_or(|p| *next > p)).min()?;
        self.lookup(next).map(|source| (next, source)).or_else(|| self.next_after(Some(next)))
    }
}

/// Sends the items through the checking stage as changes of the advertised source.
#[cold]
pub(super) fn run_check<P: FamilyKey>(
    check: &mut CheckStage<Announced<P>>,
    core: &Core<P>,
    view: &ExportView,
    items: &[Item],
) {
    let told = |source: Source| source.peer().map(|_| source);
    let mut batch = Batch::new();
    for item in items {
        let action = match (told(item.before), told(item.source)) {
            (Some(old), Some(new)) => Action::Replace { old, new },
            (None, Some(new)) => Action::Add(new),
            (Some(old), None) => Action::Delete(old),
            (None, None) => continue,
        };
        let provenance: Provenance = item.provenance;
        batch.push(Change { key: core.entries[item.entry].prefix, action, provenance });
    }
    let truth = Truth { core, view };
    check.process(&mut batch, Upstream::new(&truth, &[]), &mut Batch::new());
}

impl<P: FamilyKey> Shard<P> {
    /// Puts checking stages before every PeerOut, or removes all checking stages.
    pub fn check(&mut self, on: bool) {
        self.groups.check(on);
    }

    /// Returns the violations that the checking stages found so far.
    pub fn violations(&self) -> Vec<Violation<Announced<P>>> {
        self.groups.violations().cloned().collect()
    }
}
