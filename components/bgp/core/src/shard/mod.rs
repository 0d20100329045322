//! A shard: a complete pipeline for a family's prefixes, by hash (XORP, section 5.1).
//!
//! ```text
//! PeerIn -> [Deletion] -> Import policy -> Next-hop resolver -> Decision -> Fan-out -> groups -> [Check] -> PeerOut
//!                                                              \----> RIB branch
//! ```
//!
//! The paths of a prefix lie together in an [`entry::Entry`], so the stages up to the decision are steps over an entry and not
//! objects in a row. Export policy is a step in the groups' branches. The stage rules hold between these steps as between objects
//! (see [`rules`]). A shard shares no state with further shards and is driven by a single thread.
//!
//! * *PeerIn* is a peer's slice of the entries (the Adj-RIB-In); paths of earlier sessions are stale, marked by the
//!   generation in the path.
//! * *Deletion* is a single walk over the entries that drops stale paths in slices, for any number of ended sessions. A new
//!   announcement ahead of the walk replaces the stale path in place. Stale paths of a restarting peer stay until
//!   [`Shard::drop_stale`].
//! * *Import policy*: see [`import`], and [`refilter`] for a policy that changes.
//! * *Resolver* and *decision*: see [`resolver`] and [`decision`].
//! * *Fan-out*: see [`queue`] and [`branch`].
//!
//! Most routes of a quiet day come alone, when the processor has run different code for a while: a route then costs the cache lines
//! and pages of code on the way. So a step with one caller is inlined (`inline(always)`), and code that a single route does not need is kept
//! apart (`inline(never)`, `cold`).

mod adj_rib_in;
pub(crate) mod adj_rib_out;
mod changed_paths;
mod damping;
mod entry;
mod explain;
mod handover;
mod loc_rib;
mod monitor;
mod own_router;
mod policy_context;
mod queue;
mod resolver;
mod upkeep;

use super::family::FamilyCode;
use super::hash::HashSeed;
use super::wire::FamilyKey;
use adj_rib_in::{Deletion, Dropped, ImportParts, Imports, Refilter, Revalidation};
pub use adj_rib_in::{OwnRoute, RefilterProgress, RevalidationProgress};
use adj_rib_out::AdjRibOut;
pub use adj_rib_out::{
    DefaultRoute, ExportView, Filled, NextHopsFor, OtherAs, Reflection, Sent, SentCommunities, SentPaths,
    rules,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use changed_paths::ChangedPaths;
use core::net::{IpAddr, Ipv4Addr};
use damping::Damping;
pub use damping::{ATTRIBUTE_CHANGE, DampedView, DampingCounts, DampingRules, HistoryState, WITHDRAWAL};
pub(crate) use entry::Restored;
use entry::{AdjRibIn, SetId};
pub use entry::{PeerIndex, PeerInfo, Retention, RouteSource};
pub use explain::{
    ExportVerdict, GroupView, NotSent, PathView, PolicyHits, PolicyUse, ReceivedView, RouteView, ShardView,
    UseHits,
};
pub use handover::{Fingerprint, PeerPaths, ShardPart};
pub use loc_rib::{Aggregate, DecisionRules, Elimination, LeftOut, Multipath, MultipathRules, RIB_KINDS};
use loc_rib::{LocRib, RibBranch};
use monitor::Monitors;
pub use monitor::{MonitorChunk, MonitorId, MonitoredRib, MonitoredRibs, MonitoredUpdate};
pub use own_router::OwnRouter;
use policy_context::PolicyContext;
use queue::Cursor;
use resolver::Resolver;
pub use resolver::{Interest, Resolution};
use sluice_base::interest::InterestAnswer;
use sluice_base::{Provenance, RouteBatch};
use sluice_machine::{Budget, Outbox, Progress};

/// The best path of a prefix: import policy accepted the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Accepted {
    /// The peer that announced the path.
    pub peer: PeerIndex,
    /// The attributes after import policy.
    pub set: SetId,
}

/// The state that the steps of the pipeline share.
#[derive(Debug)]
pub(crate) struct Core<P: FamilyKey> {
    /// The family on the wire.
    code: FamilyCode,
    context: PolicyContext,
    adj_rib_in: AdjRibIn<P>,
    resolver: Resolver<P::Hop>,
    loc_rib: LocRib<P>,
    dropped: Dropped<P>,
    damping: Damping<P>,
    changed_paths: ChangedPaths,
    monitors: Monitors<P>,
}

impl<P: FamilyKey> Core<P> {
    /// Returns the parts that import reads and changes.
    fn import_parts(&mut self) -> ImportParts<'_, P> {
        let Core { adj_rib_in, resolver, context, .. } = self;
        ImportParts { adj_rib_in, resolver, context }
    }
}

/// A shard.
pub struct Shard<P: FamilyKey> {
    core: Core<P>,
    adj_rib_out: AdjRibOut<P>,
    rib: RibBranch,
    deletion: Deletion,
    refilter: Refilter,
    revalidation: Revalidation,
    /// The results of import policy for the present batch.
    imports: Imports,
    /// The sets of the present batch, by index in the batch, with true for a set unchanged by import.
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
            code,
            context: PolicyContext::new(local_as),
            adj_rib_in: AdjRibIn::new(seed),
            resolver: Resolver::default(),
            loc_rib: LocRib::new(decision),
            dropped: Dropped::default(),
            damping: Damping::default(),
            changed_paths: ChangedPaths::default(),
            monitors: Monitors::default(),
        };
        let mut shard = Shard {
            rib: RibBranch::new(Cursor::default()),
            core,
            adj_rib_out: AdjRibOut::default(),
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

    /// Notes a restart of the RIB: every question about next hops and every route is sent again.
    pub fn rib_restarted(&mut self, out: &mut Outbox<Interest<P::Hop>>) {
        self.core.resolver.ask_again(out);
        self.rib = RibBranch::new(self.core.loc_rib.queue.end());
        self.core.loc_rib.backups.all_due();
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
            || self.adj_rib_out.is_reexporting()
            || self.core.loc_rib.aggregates.has_work(self.core.loc_rib.queue.end())
    }

    /// Does background work: decides entries with changed next hops again, and deletes stale paths.
    pub fn run_slice(&mut self, budget: Budget, out: &mut Outbox<Interest<P::Hop>>) -> Progress {
        self.core.loc_rib.queue.begin_background();
        let progress = self.work(budget, out);
        self.core.loc_rib.queue.end_background();
        self.pass_on_paths();
        progress
    }

    fn work(&mut self, budget: Budget, out: &mut Outbox<Interest<P::Hop>>) -> Progress {
        let limit = budget.0.max(1) as usize;
        self.slice.clear();
        if let Some(provenance) = self.core.resolver.slice(limit, &mut self.slice) {
            for id in self.slice.drain(..) {
                if !self.core.adj_rib_in.entries.is_vacant(id) {
                    let old = self.core.adj_rib_in.best(id);
                    self.core.decide(id, old, provenance);
                }
            }
            self.compact();
            return Progress::More;
        }
        if self.core.adj_rib_in.peers.iter().any(|p| p.overdue > 0) {
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
        if self.adj_rib_out.is_reexporting() {
            self.adj_rib_out.compare_slice(&self.core, limit);
            return Progress::More;
        }
        if !self.is_summed_up() {
            self.sum_slice(limit);
            return Progress::More;
        }
        self.squeeze_log();
        Progress::Done
    }

    /// Passes changed paths on to the groups whose members are sent several paths of a prefix.
    #[inline]
    fn pass_on_paths(&mut self) {
        if !self.core.changed_paths.paths.is_empty() {
            self.adj_rib_out.note_paths(&mut self.core.changed_paths.paths);
        }
        self.bound_monitors();
    }

    /// Begins to advertise routes to the peer under the export view.
    pub fn join(&mut self, peer: PeerIndex, view: Arc<ExportView>) {
        self.adj_rib_out.join(peer, view, self.core.loc_rib.queue.end());
        self.note_member();
        self.core.changed_paths.is_on = self.adj_rib_out.send_several_paths();
    }

    /// Ends advertisements to the peer.
    pub fn leave(&mut self, peer: PeerIndex) {
        self.adj_rib_out.leave(peer);
        self.core.changed_paths.is_on = self.adj_rib_out.send_several_paths();
        self.trim();
    }

    /// Advertises every route to the peer again, under the new `view` if any: a view of the same `internal`. The beginning and
    /// the end of a refresh with a number above 0 are marked ([`Filled`]).
    pub fn refresh(&mut self, peer: PeerIndex, view: Option<Arc<ExportView>>, number: u32) {
        self.adj_rib_out.refresh(peer, view, number);
    }

    /// Gives peers new export views, of the same `internal`: routes with a changed outcome are advertised.
    pub fn set_views(&mut self, views: &[(PeerIndex, Arc<ExportView>)]) {
        self.adj_rib_out.set_views(views, self.core.adj_rib_in.entries.end());
        self.note_views();
    }

    /// Returns true if [`Shard::fill`] has UPDATEs for the peer.
    pub fn has_output(&self, peer: PeerIndex) -> bool {
        self.adj_rib_out.has_output(peer, self.core.loc_rib.queue.end())
    }

    /// Adds all peers for which [`Shard::has_output`] is true to `out`.
    pub fn with_output(&self, out: &mut Vec<PeerIndex>) {
        self.adj_rib_out.with_output(self.core.loc_rib.queue.end(), out);
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
        let filled = self.adj_rib_out.fill(&self.core, peer, hop, limit, out, sent);
        self.note_sent();
        self.trim();
        filled
    }

    /// Returns true if [`Shard::rib_batch`] has changes.
    pub fn has_rib_changes(&self) -> bool {
        !self.rib.is_idle(self.core.loc_rib.queue.end()) || !self.core.loc_rib.changed_groups.is_empty()
    }

    /// Adds about `limit` changes for the RIB to `batch`.
    pub fn rib_batch(&mut self, limit: usize, batch: &mut RouteBatch<P>) {
        let Core { adj_rib_in, resolver, loc_rib, .. } = &mut self.core;
        self.rib.fill(adj_rib_in, resolver, loc_rib, limit, batch);
        self.trim();
    }
}
