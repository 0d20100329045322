//! Revalidation: after a new epoch of validated payloads (RFC 6811, draft-ietf-sidrops-aspa-verification), the policies with
//! conditions on validation decide again on the routes whose state may have changed.
//!
//! One walk over the entries in slices looks at each prefix: a binary search finds out if a changed VRP covers the prefix. After a change of
//! ASPAs the walk looks at the AS paths of the entry too: another binary search finds out if an AS is a changed customer. Only
//! the found entries are decided on again: under import policies and export views with conditions on validation. The outcome
//! under an export view is compared with the previous outcome. Fresh routes have the state of the new epoch at once. An epoch
//! during the walk adds the changed prefixes to the walk, which then goes once around from the present place.

use super::import::Imports;
use crate::policy::{BoundPolicy, Memory, OriginData, Trace, path_asns, path_state, state};
use crate::shard::entry::PeerIndex;
use crate::shard::policy_context::route_type;
use crate::shard::resolver::Interest;
use crate::shard::{Accepted, Core, Shard};
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, IpPrefix};
use sluice_machine::Outbox;
use sluice_validation::{ChangedPrefixes, PathValidity, Validity, VrpTable};
use smallvec::SmallVec;

/// The most earlier epochs with which states are compared; with more, every covered entry counts as changed.
const MOST_EPOCHS: usize = 4;

/// Look-ups of prefixes with about the cost of a decision.
const LOOKS: usize = 16;

/// A walk over the entries.
#[derive(Debug)]
struct Walk {
    /// The place at which the walk was when the last epoch came.
    from: u32,
    has_wrapped: bool,
    changed: ChangedPrefixes,
    /// The payloads under which entries may have been announced so far; empty if there were too many epochs.
    before: SmallVec<[Option<Arc<VrpTable>>; 1]>,
}

/// The walk after the last epoch.
#[derive(Debug, Default)]
pub(crate) struct Revalidation {
    next: u32,
    walk: Option<Walk>,
    progress: RevalidationProgress,
}

/// The work of walks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RevalidationProgress {
    /// Entries whose prefix was looked at.
    pub visited: u64,
    /// Entries that a changed payload concerns, which were decided on again.
    pub covered: u64,
}

impl core::ops::AddAssign for RevalidationProgress {
    fn add_assign(&mut self, other: Self) {
        self.visited += other.visited;
        self.covered += other.covered;
    }
}

impl Revalidation {
    /// Returns true if the walk has entries to visit.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.walk.is_some()
    }

    /// Begins a walk, or extends the present one.
    fn begin(&mut self, changed: &ChangedPrefixes, before: Option<Arc<VrpTable>>) {
        let walk = match self.walk.take() {
            None => Walk {
                from: self.next,
                has_wrapped: false,
                changed: changed.clone(),
                before: SmallVec::from_iter([before]),
            },
            Some(walk) => {
                let is_known = !walk.before.is_empty() && walk.before.len() < MOST_EPOCHS;
                let more = is_known.then_some(before);
                let before = walk.before.into_iter().filter(|_| is_known).chain(more).collect();
                Walk { from: self.next, has_wrapped: false, changed: walk.changed.union(changed), before }
            }
        };
        self.walk = Some(walk);
    }

    /// Moves on from the present entry; `end` is the number of entries.
    fn advance(&mut self, end: u32) {
        self.next += 1;
        let Some(walk) = &mut self.walk else { return };
        if self.next >= end {
            self.next = 0;
            walk.has_wrapped = true;
        }
        if walk.has_wrapped && self.next >= walk.from {
            self.walk = None;
        }
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Takes another epoch of payloads.
    pub fn set_origins(&mut self, data: &OriginData) {
        let before = core::mem::replace(&mut self.core.context.origins, data.table.clone());
        if self.core.adj_rib_in.entries.end() > 0 && P::default_route().ip_key().is_some() {
            self.revalidation.begin(&data.changed, before);
            self.validate_contributors();
        }
    }

    /// Returns the work of walks after epochs so far.
    pub fn revalidation_progress(&self) -> RevalidationProgress {
        self.revalidation.progress
    }

    /// Validates the routes of up to `limit` entries again.
    pub(crate) fn revalidate_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let mut results: Vec<(PeerIndex, Arc<BoundPolicy>, Imports)> = Vec::new();
        let has_exports = self.adj_rib_out.ask_for_validation();
        // Most entries cost a look at their prefix, and no more.
        let mut left = limit.saturating_mul(LOOKS);
        while left > 0 {
            let end = self.core.adj_rib_in.entries.end();
            let id = self.revalidation.next.min(end.saturating_sub(1));
            let Some(walk) = &self.revalidation.walk else { break };
            if end == 0 {
                self.revalidation.walk = None;
                break;
            }
            let prefix = self.core.adj_rib_in.entries[id].prefix.ip_key();
            let mut is_concerned = prefix.is_some_and(|prefix| walk.changed.covers(prefix));
            if !is_concerned && !walk.changed.has_no_customers() {
                is_concerned = self.core.meets(id, &walk.changed);
                left = left.saturating_sub(self.core.adj_rib_in.entries.paths(id).len());
            }
            if is_concerned && !self.core.adj_rib_in.entries.is_vacant(id) {
                self.core.import_covered(id, &mut results, out);
                if has_exports {
                    self.adj_rib_out.export_again(&self.core, id, &walk.before);
                }
                self.revalidation.progress.covered += 1;
                left = left.saturating_sub(LOOKS);
            }
            left = left.saturating_sub(1);
            self.revalidation.progress.visited += 1;
            self.revalidation.advance(end);
        }
        results
            .iter_mut()
            .for_each(|(.., imports)| imports.clear(&mut self.core.adj_rib_in, &mut self.core.resolver, out));
    }
}

/// A key as an IP prefix.
trait IpKeyOf {
    /// Returns the IP prefix; `None` for other keys.
    fn ip_key(self) -> Option<IpPrefix>;
}

impl<P: FamilyKey> IpKeyOf for P {
    fn ip_key(self) -> Option<IpPrefix> {
        AnyPrefix::of(self).ip()
    }
}

impl<P: FamilyKey> Core<P> {
    /// Returns true if an AS of a path of an entry is a changed customer.
    fn meets(&self, id: u32, changed: &ChangedPrefixes) -> bool {
        let mut paths = self.adj_rib_in.entries.paths(id).iter();
        paths.any(|path| {
            changed.meets(path_asns(
                self.adj_rib_in
                    .sets
                    .octets(&self.adj_rib_in.sets[self.adj_rib_in.sets.received(path.attributes)]),
            ))
        })
    }

    /// Decides again on the paths of an entry whose import policies ask for validation.
    fn import_covered(
        &mut self,
        id: u32,
        results: &mut Vec<(PeerIndex, Arc<BoundPolicy>, Imports)>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let asking = self
            .adj_rib_in
            .entries
            .paths(id)
            .iter()
            .map(|path| self.adj_rib_in.lanes.peer(path.number))
            .filter(|peer| {
                let import = &self.adj_rib_in.peers[usize::from(peer.0)].import;
                import.as_ref().is_some_and(|policy| policy.asks_for_validation())
            });
        let mut peers: SmallVec<[PeerIndex; 8]> = asking.collect();
        // A neighbor with several paths of the prefix is asking for each of them.
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            let place = results.iter().position(|(known, ..)| *known == peer).unwrap_or_else(|| {
                let import = self.adj_rib_in.peers[usize::from(peer.0)].import.clone();
                let policy = import.unwrap_or_else(BoundPolicy::reject_all);
                results.push((peer, policy, Imports::default()));
                results.len() - 1
            });
            let (_, policy, imports) = &mut results[place];
            self.import_again(id, peer, Some(policy), imports, out);
        }
    }

    /// Returns true if an export policy may have decided otherwise on a path of an entry under earlier payloads than it does now.
    pub(crate) fn decides_otherwise(
        &self,
        policy: &BoundPolicy,
        id: u32,
        path: Accepted,
        before: &[Option<Arc<VrpTable>>],
    ) -> bool {
        let now = self.changes_under(policy, id, path, self.context.origins.as_deref());
        let was_other =
            |table: &Option<Arc<VrpTable>>| self.changes_under(policy, id, path, table.as_deref()) != now;
        before.is_empty() || before.iter().any(was_other)
    }

    /// Returns the changes of a path by a policy under payloads; `None` for a rejected path.
    fn changes_under(
        &self,
        policy: &BoundPolicy,
        id: u32,
        path: Accepted,
        origins: Option<&VrpTable>,
    ) -> Option<Trace> {
        let prefix = self.adj_rib_in.entries[id].prefix;
        let mut route = self.context.route_under(&self.adj_rib_in, &self.resolver, prefix, path, origins);
        let mut memory = Memory::new(policy);
        policy.decide(&mut route, &mut memory).is_accepted.then(|| memory.trace())
    }

    fn state_of(
        &self,
        peer: PeerIndex,
        prefix: Option<IpPrefix>,
        set: crate::shard::entry::sets::SetId,
        table: Option<&VrpTable>,
    ) -> Validity {
        let kind = route_type(peer, &self.adj_rib_in.peers[usize::from(peer.0)].info);
        state(
            table,
            prefix,
            self.adj_rib_in.sets.octets(&self.adj_rib_in.sets[set]),
            kind,
            self.context.local_as,
        )
    }

    /// Returns the verification of the path of a peer's route with the attributes of a set.
    pub(crate) fn path_validity(
        &self,
        peer: PeerIndex,
        prefix: P,
        set: crate::shard::entry::sets::SetId,
    ) -> PathValidity {
        let check = self.adj_rib_in.peers[usize::from(peer.0)].info.path_check;
        path_state(
            self.context.origins.as_deref(),
            prefix.ip_key(),
            self.adj_rib_in.sets.octets(&self.adj_rib_in.sets[set]),
            check,
        )
    }

    /// Returns the validation state of a peer's route with the attributes of a set.
    pub(crate) fn validity(
        &self,
        peer: PeerIndex,
        prefix: P,
        set: crate::shard::entry::sets::SetId,
    ) -> Validity {
        self.state_of(peer, prefix.ip_key(), set, self.context.origins.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(walk: &mut Revalidation, end: u32, steps: usize) -> Vec<u32> {
        let mut visited = Vec::new();
        while walk.is_on() && visited.len() < steps {
            visited.push(walk.next);
            walk.advance(end);
        }
        visited
    }

    #[test]
    fn a_walk_visits_each_entry_once_after_the_last_epoch() {
        let mut revalidation = Revalidation::default();
        revalidation.begin(&ChangedPrefixes::All, None);
        assert_eq!(walk(&mut revalidation, 4, 100), [0, 1, 2, 3]);
        revalidation.begin(&ChangedPrefixes::All, None);
        assert_eq!(walk(&mut revalidation, 4, 2), [0, 1]);
        for _ in 0..MOST_EPOCHS + 1 {
            revalidation.begin(&ChangedPrefixes::All, None);
        }
        let before = revalidation.walk.as_ref().map(|walk| walk.before.len());
        assert_eq!(before, Some(0), "too many epochs to compare with");
        assert_eq!(walk(&mut revalidation, 4, 100), [2, 3, 0, 1]);
        assert!(!revalidation.is_on());
    }
}
