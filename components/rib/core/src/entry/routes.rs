//! Routes in the stages, and the parts of a table that its families share.

use super::group::Groups;
use super::looked_up::LookedUp;
use super::origin::{Origin, OriginId};
use super::set::{SetId, Sets};
use crate::entry::Path;
use crate::policy::{Chain, Outcome, Surroundings};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::{
    DigestKey, Distance, FamilyId, GroupId, InterfaceIndex, IpPrefix, Metric, Prefix, TableId,
};
use sluice_stage::{Table as StageTable, TableKey};

/// A route in the RIB's stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibRoute {
    /// The route's origin.
    pub origin: OriginId,
    /// The announced set.
    pub set: SetId,
}

impl RibRoute {
    pub(crate) fn of(path: &Path) -> Self {
        RibRoute { origin: path.origin, set: path.set }
    }
}

/// The table that flows through the RIB's stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibTable<P>(PhantomData<P>);

impl<P: TableKey> StageTable for RibTable<P> {
    type Key = P;
    type Route = RibRoute;
}

/// The parts of a table that its families share.
pub struct Shared {
    /// The table's number.
    pub table: TableId,
    /// The names of interfaces, for policies.
    pub interface_names: BTreeMap<InterfaceIndex, String>,
    /// Origins by number.
    pub origins: Vec<Origin>,
    /// Announced sets.
    pub sets: Sets,
    /// Next-hop groups.
    pub groups: Groups,
    /// Gateways of removed groups, to be forgotten.
    pub gone: Vec<(GroupId, Vec<LookedUp>)>,
    /// True while there is an engine that accepts routes.
    pub has_engine: bool,
    /// The families that the engine forwards.
    pub engine_families: Vec<FamilyId>,
    /// The key of the digests that are compared with the engine's.
    pub digest_key: DigestKey,
}

impl Shared {
    /// An origin by number.
    pub fn origin(&self, id: OriginId) -> &Origin {
        &self.origins[usize::from(id.0)]
    }

    /// Returns true if an engine accepts routes of a family.
    pub(crate) fn feeds_engine(&self, family: FamilyId) -> bool {
        self.has_engine && self.engine_families.contains(&family)
    }

    /// Returns a path's distance: its set's own, or its origin's.
    pub fn distance(&self, path: &Path) -> Distance {
        self.sets.slot(path.set).set.distance.unwrap_or(self.origin(path.origin).distance)
    }

    /// Applies policies to a route of an origin.
    pub(crate) fn decide_policy(
        &self,
        chain: &Chain,
        origin: OriginId,
        prefix: IpPrefix,
        set: SetId,
    ) -> Outcome {
        let owner = self.origin(origin);
        let surroundings = Surroundings {
            origin: &owner.name,
            kinds: &owner.kinds,
            distance: owner.distance,
            table: self.table,
            interface_names: &self.interface_names,
        };
        chain.decide(surroundings, prefix, &self.sets.slot(set).set)
    }

    /// The order of alternatives, best first.
    pub(crate) fn rank(&self, path: &Path) -> (Distance, Metric, OriginId) {
        (self.distance(path), self.sets.slot(path.set).set.metric, path.origin)
    }

    /// Returns true if policies and distance allow a path.
    pub(crate) fn is_allowed(&self, path: &Path) -> bool {
        self.distance(path) < Distance::UNUSABLE && self.sets.slot(path.set).rejection().is_none()
    }

    /// Returns true if a path takes part in the decision.
    pub(crate) fn is_usable<P: Prefix>(&self, prefix: P, path: &Path) -> bool {
        let group = self.groups.group(self.sets.slot(path.set).group);
        self.is_allowed(path) && group.resolved.is_some() && !group.leads_to_itself(prefix)
    }

    /// Removes a user of a set.
    pub(crate) fn release(&mut self, set: SetId) {
        self.gone.extend(self.sets.release(&mut self.groups, set));
    }

    /// Returns the place of the best path; `None` without a usable path. A single pass over a few alternatives.
    pub(crate) fn decide<P: Prefix>(&self, prefix: P, paths: &[Path]) -> Option<usize> {
        let usable = paths.iter().enumerate().filter(|(_, path)| self.is_usable(prefix, path));
        usable.min_by_key(|(_, path)| self.rank(path)).map(|(place, _)| place)
    }
}
