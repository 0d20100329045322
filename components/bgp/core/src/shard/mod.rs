//! A shard: one complete pipeline for the prefixes of one family that hash to it (XORP, section 5.1).
//!
//! ```text
//! PeerIn -> [Deletion] -> Import policy -> Next-hop resolver -> Decision -> Fan-out -> groups -> [Check] -> PeerOut
//!                                                              \----> RIB branch
//! ```
//!
//! All alternatives of a prefix lie together in one [`entry::Entry`], so that the stages up to the decision are steps over
//! one entry and not objects in a row. Export policy is a step in the groups' branches. The stage rules hold between these steps as between objects (see
//! [`rules`]). A shard shares nothing with others and is driven by one thread.
//!
//! * *PeerIn* is a peer's slice of the entries (the Adj-RIB-In); paths of earlier sessions are stale, marked by the
//!   generation in the path.
//! * *Deletion* is one walk over the entries that drops stale paths in slices, however many sessions went down. A route that
//!   is announced again before the walk gets there replaces the stale path in place. Stale paths of a peer that restarts stay until
//!   [`Shard::drop_stale`].
//! * *Import policy*: see [`import`], and [`refilter`] for a policy that changes.
//! * *Resolver* and *decision*: see [`resolver`] and [`decision`].
//! * *Fan-out*: see [`queue`] and [`branch`].
//!
//! Most routes of a quiet day come alone, when the processor has run different code for a while: a route then costs the cache lines
//! and pages of code on the way. So a step with one caller is inlined (`inline(always)`), and code that a single route does not need is kept
//! apart (`inline(never)`, `cold`).

mod aggregates;
mod backup;
mod branch;
mod damping;
mod decay;
mod decision;
mod dropped;
mod entry;
mod explain;
mod export;
mod export_view;
mod exporter;
mod filled;
mod groups;
mod handover;
mod histories;
mod hits;
mod import;
mod lanes;
mod lists;
mod monitor;
mod monitored;
mod multipath;
mod own;
mod own_router;
mod pack;
mod pages;
mod paths;
mod paths_out;
mod peer_in;
mod profiles;
mod queue;
mod reexport;
mod refilter;
mod resolver;
mod revalidate;
mod rib;
pub mod rules;
mod sets;
mod stale;
mod view;

pub use aggregates::Aggregate;
pub use decision::DecisionRules;
pub use decision::Elimination;
pub use entry::PeerIndex;
pub use explain::{ExportVerdict, NotSent};
pub use export_view::{DefaultRoute, ExportView, OtherAs, Reflection, SentCommunities, SentPaths};
pub use filled::Filled;
pub(crate) use handover::Restored;
pub use handover::{Fingerprint, PeerPaths, ShardPart};
pub use histories::{ATTRIBUTE_CHANGE, DampedView, DampingCounts, DampingRules, HistoryState, WITHDRAWAL};
pub use hits::{PolicyHits, PolicyUse, UseHits};
pub use monitor::{MonitorId, MonitoredRib, MonitoredRibs};
pub use monitored::{MonitorChunk, MonitoredUpdate};
pub use multipath::{LeftOut, Multipath, MultipathRules};
pub use own::OwnRoute;
pub use own_router::OwnRouter;
pub use pack::{NextHopsFor, Sent};
pub use peer_in::{PeerInfo, Retention, RouteSource};
pub use refilter::RefilterProgress;
pub use resolver::{Interest, Resolution};
pub use revalidate::RevalidationProgress;
pub use rib::RIB_KINDS;
pub use view::{GroupView, PathView, ReceivedView, RouteView, ShardView};

use crate::batch::{Batch, DropCause};
use crate::family::FamilyCode;
use crate::hash::HashSeed;
use crate::index::Index;
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use aggregates::Aggregates;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use backup::Backups;
use core::net::{IpAddr, Ipv4Addr};
use dropped::Dropped;
use entry::{Entries, Path, PathNumber};
use groups::Groups;
use histories::Histories;
use import::Imports;
use lanes::Lanes;
use monitor::Monitor;
use peer_in::PeerIn;
use queue::{Cursor, Queue};
use refilter::Refilter;
use resolver::Resolver;
use revalidate::Revalidation;
use rib::RibBranch;
use sets::{PathSet, SetId, Sets};
use sluice_base::interest::InterestAnswer;
use sluice_base::{Asn, Provenance, RouteBatch};
use sluice_machine::{Budget, Outbox, Progress};
use sluice_validation::VrpTable;

/// The number of changes that are looked up ahead: the touched memory stays in the first-level cache.
const AHEAD: usize = 32;

/// The best path of a prefix: import policy accepted the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::shard) struct Accepted {
    /// The peer that announced the path.
    pub peer: PeerIndex,
    /// The attributes after import policy.
    pub set: SetId,
}

/// The state that the steps of the pipeline share.
#[derive(Debug)]
pub(crate) struct Core<P: FamilyKey> {
    local_as: Asn,
    decision: DecisionRules,
    /// The family on the wire.
    code: FamilyCode,
    seed: HashSeed,
    entries: Entries<P>,
    index: Index,
    sets: Sets,
    resolver: Resolver<P::Hop>,
    peers: Vec<PeerIn>,
    /// The neighbors of further paths, and the identifiers of paths.
    lanes: Lanes,
    /// The names of the sources of the router's own, by number.
    sources: Vec<Arc<str>>,
    queue: Queue,
    /// The number of entries with a best path.
    selected: u32,
    aggregates: Aggregates<P>,
    backups: Backups,
    /// Entries with several paths whose used paths may have changed and that the RIB branch has yet to look at.
    changed_groups: BTreeSet<u32>,
    dropped: Dropped<P>,
    /// The histories of damped routes; `None` while no peer is damped.
    damping: Option<Box<Histories<P>>>,
    /// The parameters of flap damping, and the number of tables.
    damping_rules: (DampingRules, usize),
    /// True if members of an update group are sent several paths of a prefix.
    notes_paths: bool,
    /// Changed paths that no group has noted yet, by entry.
    changed_paths: Vec<(u32, PathNumber)>,
    /// The payloads that validate the origins of routes; `None` if there are no data.
    origins: Option<Arc<VrpTable>>,
    /// The monitors of stations; `None` without one.
    monitor: Option<Box<Monitor<P>>>,
}

/// The deletion stage: a walk that repeats while any path is stale.
#[derive(Debug, Default)]
struct Deletion {
    next: u32,
    /// True if a path may be stale.
    is_on: bool,
}

/// A shard.
pub struct Shard<P: FamilyKey> {
    core: Core<P>,
    groups: Groups<P>,
    rib: RibBranch,
    deletion: Deletion,
    refilter: Refilter,
    revalidation: Revalidation,
    /// The results of import policy for the present batch.
    imports: Imports,
    /// The sets of the present batch, by index in the batch, with true for a set that import leaves as it is.
    interned: Vec<Option<(SetId, bool)>>,
    slice: Vec<u32>,
}

impl<P: FamilyKey> Shard<P> {
    /// Makes an empty shard of a router; `seed` is the readers' seed, and `code` the family on the wire.
    pub fn new(router: OwnRouter, seed: HashSeed, code: FamilyCode) -> Self {
        let OwnRouter { local_as, router_id, mut decision } = router;
        // The forwarding of routes that are no IP prefixes knows one next hop of each.
        if P::ID.ip().is_none() {
            decision.multipath = MultipathRules::OFF;
        }
        let core = Core {
            local_as,
            decision,
            code,
            seed,
            entries: Entries::default(),
            index: Index::default(),
            sets: Sets::default(),
            resolver: Resolver::default(),
            peers: Vec::new(),
            lanes: Lanes::default(),
            sources: Vec::new(),
            queue: Queue::default(),
            selected: 0,
            aggregates: Aggregates::default(),
            backups: Backups::default(),
            changed_groups: BTreeSet::new(),
            dropped: Dropped::default(),
            damping: None,
            damping_rules: (DampingRules::DEFAULT, 1),
            notes_paths: false,
            changed_paths: Vec::new(),
            origins: None,
            monitor: None,
        };
        let mut shard = Shard {
            rib: RibBranch::new(Cursor::default()),
            core,
            groups: Groups::default(),
            deletion: Deletion::default(),
            refilter: Refilter::default(),
            revalidation: Revalidation::default(),
            imports: Imports::default(),
            interned: Vec::new(),
            slice: Vec::new(),
        };
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        // All sources of the router's own are known from the beginning.
        let last = PeerIndex(PeerIndex::OWN_SOURCES - 1);
        shard.peer_up(
            last,
            PeerInfo {
                router_id,
                address,
                internal: false,
                client: false,
                direct: false,
                path_check: None,
                source: RouteSource::Session,
            },
        );
        shard
    }

    /// Takes a batch of `peer`'s changes.
    pub fn apply(&mut self, peer: PeerIndex, batch: &Batch<P>, out: &mut Outbox<Interest<P::Hop>>) {
        self.take(peer, None, batch, out);
    }

    /// Takes paths of `peer` that another process had.
    pub(crate) fn restore(
        &mut self,
        peer: PeerIndex,
        restored: Restored,
        batch: &Batch<P>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        self.take(peer, Some(restored), batch, out);
    }

    fn take(
        &mut self,
        peer: PeerIndex,
        restored: Option<Restored>,
        batch: &Batch<P>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let core = &mut self.core;
        let Some(known) = core.peers.get(usize::from(peer.0)) else { return };
        let (policy, is_full, keeps_rejected) = (known.import.clone(), known.is_full, known.keeps_rejected);
        let is_damped = known.is_damped;
        self.interned.clear();
        self.interned.resize(batch.sets().len(), None);
        let mut events = batch.events().iter().copied();
        let (mut end, mut provenance) = events.next().unwrap_or((u32::MAX, Provenance::NONE));
        let changes = batch.changes();
        for (position, change) in changes.iter().enumerate() {
            if position as u32 >= end {
                (end, provenance) = events.next().unwrap_or((u32::MAX, Provenance::NONE));
            }
            if position.is_multiple_of(AHEAD) && changes.len() > position + 1 {
                core.prefetch(&changes[position..changes.len().min(position + AHEAD)]);
            }
            let path_id = batch.path_id(position);
            if change.is_withdrawal() {
                if is_damped && path_id.is_none() {
                    core.damp_withdrawal(peer, change.prefix);
                }
                core.withdraw(peer, path_id, change.prefix, provenance, out);
                core.note_withdrawal(peer, change);
                continue;
            }
            if is_full && !core.has_path(peer, path_id, change.prefix) {
                core.note_dropped(peer, change.prefix, DropCause::MaximumPrefixes);
                continue;
            }
            let index = change.set as usize;
            let (set, is_unchanged) = *self.interned[index].get_or_insert_with(|| {
                let set = &batch.sets()[index];
                let octets = batch.octets(set);
                let is_unchanged = policy.as_ref().is_none_or(|policy| policy.leaves_unchanged(octets));
                (core.intern(set, octets, out), is_unchanged)
            });
            let attributes = match &policy {
                Some(policy) if !is_unchanged => {
                    core.import(policy, peer, change.prefix, set, &mut self.imports, out)
                }
                _ => PathSet::as_received(set),
            };
            if !keeps_rejected && core.sets.accepted(attributes).is_none() {
                core.withdraw(peer, path_id, change.prefix, provenance, out);
                core.dropped.forget(change.prefix, peer);
                continue;
            }
            let is_suppressed = is_damped
                && path_id.is_none()
                && core.damp_announcement(peer, change.prefix, set, attributes);
            let suppressed = is_suppressed.then(|| core.sets.imported(set, None));
            let attributes = suppressed.unwrap_or(attributes);
            match (path_id, restored) {
                (_, Some(restored)) => {
                    core.restore_path((peer, restored), path_id, change.prefix, attributes, out)
                }
                (None, None) => {
                    core.announce(PathNumber::first_of(peer), change.prefix, attributes, provenance, out);
                }
                (Some(id), None) => {
                    core.announce_path((peer, id), change.prefix, attributes, provenance, out)
                }
            }
            if let Some(pair) = suppressed {
                core.release_path(pair, out);
            }
        }
        core.end_imports(&mut self.imports, out);
        for (set, _) in self.interned.drain(..).flatten() {
            core.release(set, out);
        }
        self.pass_on_paths();
        self.compact();
    }

    /// Takes the RIB's answer about next hops. Concerned entries are decided again in slices.
    pub fn answer(
        &mut self,
        answer: &InterestAnswer<P::Hop>,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        self.core.resolver.answer(answer, provenance, out);
        for next_hop in self.core.resolver.take_moved() {
            self.core.redecide_covering(next_hop, provenance);
        }
    }

    /// Notes that the RIB's answer for `prefix` is void.
    pub fn invalid(&mut self, prefix: P::Hop, out: &mut Outbox<Interest<P::Hop>>) {
        self.core.resolver.invalid(prefix, out);
    }

    /// Notes a restart of the RIB: all questions about next hops are asked, and all routes are sent again.
    pub fn rib_restarted(&mut self, out: &mut Outbox<Interest<P::Hop>>) {
        self.core.resolver.ask_again(out);
        self.rib = RibBranch::new(self.core.queue.end());
        self.core.backups.all_due();
    }

    /// Returns true if every path was decided with the RIB's answer for the next hop: no answer is outstanding or waits to take effect.
    pub fn is_resolved(&self) -> bool {
        self.core.resolver.is_settled()
    }

    /// Returns true if there is background work.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.deletion.is_on
            || self.refilter.is_on()
            || self.revalidation.is_on()
            || self.has_turns()
            || self.core.resolver.has_work()
            || self.groups.is_reexporting()
            || self.core.aggregates.has_work(self.core.queue.end())
    }

    /// Does background work: decides entries with changed next hops again, and deletes stale paths.
    pub fn run_slice(&mut self, budget: Budget, out: &mut Outbox<Interest<P::Hop>>) -> Progress {
        self.core.queue.begin_background();
        let progress = self.work(budget, out);
        self.core.queue.end_background();
        self.pass_on_paths();
        progress
    }

    fn work(&mut self, budget: Budget, out: &mut Outbox<Interest<P::Hop>>) -> Progress {
        let limit = budget.0.max(1) as usize;
        self.slice.clear();
        if let Some(provenance) = self.core.resolver.slice(limit, &mut self.slice) {
            for id in self.slice.drain(..) {
                if !self.core.entries.is_vacant(id) {
                    let old = self.core.best(id);
                    self.core.decide(id, old, provenance);
                }
            }
            self.compact();
            return Progress::More;
        }
        if self.core.peers.iter().any(|p| p.overdue > 0) {
            self.delete_slice(limit, out);
            self.compact();
            return Progress::More;
        }
        self.deletion.is_on = false;
        if self.refilter.is_on() {
            self.refilter_slice(limit, out);
            self.compact();
            return Progress::More;
        }
        if self.revalidation.is_on() {
            self.revalidate_slice(limit, out);
            self.compact();
            return Progress::More;
        }
        if self.has_turns() {
            self.turn_slice(limit, out);
            self.compact();
            return Progress::More;
        }
        if self.groups.is_reexporting() {
            self.groups.compare_slice(&self.core, limit);
            return Progress::More;
        }
        if !self.is_summed_up() {
            self.sum_slice(limit);
            return Progress::More;
        }
        self.squeeze_log();
        Progress::Done
    }

    fn delete_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let core = &mut self.core;
        for _ in 0..limit.min(core.entries.end() as usize) {
            if self.deletion.next >= core.entries.end() {
                self.deletion.next = 0;
            }
            let id = self.deletion.next;
            loop {
                let (peers, lanes) = (&core.peers, &core.lanes);
                let is_overdue =
                    |p: &Path| peers[usize::from(lanes.peer(p.number).0)].is_overdue(p.generation);
                let Some(position) = core.entries.paths(id).iter().position(is_overdue) else { break };
                core.remove_path(id, position, Provenance::NONE, out);
            }
            self.deletion.next += 1;
        }
    }

    /// Passes changed paths on to the groups whose members are sent several paths of a prefix.
    #[inline]
    fn pass_on_paths(&mut self) {
        if !self.core.changed_paths.is_empty() {
            self.groups.note_paths(&mut self.core.changed_paths);
        }
        self.bound_monitors();
    }

    /// Compacts a queue with too many stale items.
    fn compact(&mut self) {
        let rib = &mut self.rib.branch.cursor;
        let Core { queue, entries, aggregates, .. } = &mut self.core;
        if queue.needs_compaction(entries.len()) {
            let mut cursors: Vec<&mut Cursor> =
                self.groups.cursors().chain([rib]).chain(aggregates.cursor()).collect();
            queue.compact(entries, &mut cursors);
        }
    }

    /// Drops the items that all readers of the queue have passed. The RIB's branch is mostly the last reader.
    #[inline]
    fn trim(&mut self) {
        if self.rib.branch.cursor.is_past(self.core.queue.start()) {
            self.trim_passed();
        }
    }

    fn trim_passed(&mut self) {
        let others = self.core.aggregates.cursor().map(|c| *c).into_iter().chain([self.rib.branch.cursor]);
        let place = self.groups.cursors().map(|c| *c).chain(others).fold(self.core.queue.end(), Cursor::min);
        self.slice.clear();
        let (core, freed) = (&mut self.core, &mut self.slice);
        core.queue.trim(&mut core.entries, place, |id| freed.push(id));
        for id in self.slice.drain(..) {
            self.core.free_if_vacant(id);
        }
    }

    fn squeeze_log(&mut self) {
        let Some((hop, mut log)) = self.core.resolver.next_bloated() else { return };
        let core = &self.core;
        log.sort_unstable();
        log.dedup();
        let leads_there =
            |p: &Path| core.sets.accepted(p.attributes).is_some_and(|set| core.sets[set].hop == hop);
        log.retain(|id| core.entries.paths(*id).iter().any(leads_there));
        self.core.resolver.squeezed(hop, log);
    }

    /// Begins to advertise all routes to the peer that the peer's export view lets through.
    pub fn join(&mut self, peer: PeerIndex, view: Arc<ExportView>) {
        self.groups.join(peer, view, self.core.queue.end());
        self.note_member();
        self.core.notes_paths = self.groups.send_several_paths();
    }

    /// Ends advertisements to the peer.
    pub fn leave(&mut self, peer: PeerIndex) {
        self.groups.leave(peer);
        self.core.notes_paths = self.groups.send_several_paths();
        self.trim();
    }

    /// Advertises all routes to the peer again, under the new `view` if there is one: a view of the same `internal`. The beginning and the
    /// end of a refresh with a number above 0 are marked ([`Filled`]).
    pub fn refresh(&mut self, peer: PeerIndex, view: Option<Arc<ExportView>>, number: u32) {
        self.groups.refresh(peer, view, number);
    }

    /// Gives peers other export views, of the same `internal`: routes with another outcome are advertised.
    pub fn set_views(&mut self, views: &[(PeerIndex, Arc<ExportView>)]) {
        self.groups.set_views(views, self.core.entries.end());
        self.note_views();
    }

    /// Returns true if [`Shard::fill`] has UPDATEs for the peer.
    pub fn has_output(&self, peer: PeerIndex) -> bool {
        self.groups.has_output(peer, self.core.queue.end())
    }

    /// Adds all peers for which [`Shard::has_output`] is true to `out`.
    pub fn with_output(&self, out: &mut Vec<PeerIndex>) {
        self.groups.with_output(self.core.queue.end(), out);
    }

    /// Appends UPDATEs for `peer` to `out` up to about `limit` octets. `hop` has the next hops to advertise to the peer.
    pub fn fill(
        &mut self,
        peer: PeerIndex,
        hop: &NextHopsFor<'_, P::Hop>,
        limit: usize,
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) -> Filled {
        let filled = self.groups.fill(&self.core, peer, hop, limit, out, sent);
        self.note_sent();
        self.trim();
        filled
    }

    /// Returns true if [`Shard::rib_batch`] has changes.
    pub fn has_rib_changes(&self) -> bool {
        !self.rib.is_idle(self.core.queue.end()) || !self.core.changed_groups.is_empty()
    }

    /// Adds about `limit` changes for the RIB to `batch`.
    pub fn rib_batch(&mut self, limit: usize, batch: &mut RouteBatch<P>) {
        self.rib.fill(&mut self.core, limit, batch);
        self.trim();
    }
}
