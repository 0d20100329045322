//! A table: a part of the prefixes, with a shard of each family. Tables share no state.
//!
//! A table receives [`Order`]s, in order, and batches of readers ([`Table::apply`]). Writers pull octets ([`Table::fill`]), and
//! the RIB pulls routes ([`Table::rib_batch`]). A table reports [`TableEvent`]s unasked. The carrier may be a function call or a
//! channel between threads: a table works the same with both.

mod aggregates;
mod any_shard;
mod counts;
mod damping;
mod handover;
mod marks;
mod messages;
mod monitor;
mod output;
mod pace;
mod peer_export;
mod retained;
mod spread;
pub mod turns;
mod view;

use crate::batch::Batches;
pub use crate::family::Sharded;
use crate::family::{ByFamily, FamilyCodes, FamilyIndex};
use crate::hash::HashSeed;
use crate::shard::{ExportView, Interest, OwnRouter, PeerIndex, Shard};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use any_shard::{AnyShard, Part, new_shards};
use core::any::Any;
use pace::Holds;
use sluice_base::{Instant, Prefix, Provenance};
use sluice_machine::{Budget, Outbox, Progress};

pub use handover::{TablePart, fingerprint, import};
pub use marks::Marks;
pub use messages::{
    AggregateRule, DampingOrder, Order, Origination, SessionEpoch, TableContributors, TableEvent, Versioned,
};
pub use monitor::{MonitorRequest, MonitorVoid, TableChunk};
pub use peer_export::{ImportPolicies, PeerExport, PeerImport, PeerPolicies};
pub use retained::Retained;
pub use spread::Spread;
pub use view::{NextHops, Tables};

/// A table's state of a peer whose session is up.
#[derive(Debug)]
struct PeerOut {
    life: SessionEpoch,
    outlet: Option<Box<PeerExport>>,
    /// The family that had the last turn.
    turn: FamilyIndex,
    /// The latest reported counts of received and rejected prefixes.
    reported: ByFamily<(u32, u32)>,
}

/// The result of filling a peer's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FillResult {
    /// The limit was reached: there may be more.
    pub more: bool,
    /// Marks behind the octets.
    pub marks: Marks,
}

/// A thread's part of the tables.
pub struct Table {
    shards: ByFamily<Box<dyn AnyShard>>,
    /// By number.
    peers: Vec<Option<PeerOut>>,
    /// The newest answer of the RIB that was seen, by family.
    seen: ByFamily<u64>,
    /// Peers whose routes are being forgotten, and the last session of each.
    leaving: BTreeMap<PeerIndex, SessionEpoch>,
    rib_offered: ByFamily<bool>,
    /// True if control waits for the contributors of aggregates.
    owes_contributors: bool,
    holds: Holds,
    /// True if a peer had bounds on its prefixes since the start.
    counts_prefixes: bool,
    /// True if flaps of any peer's routes were counted since the start.
    damps: bool,
    /// The time of the turn that control was asked for.
    turn_asked: Option<Instant>,
}

impl Table {
    /// An empty table of a router; `seed` is the readers', and `codes` are the families on the wire.
    pub fn new(router: OwnRouter, seed: HashSeed, codes: FamilyCodes) -> Self {
        Table {
            shards: new_shards(router, seed, codes),
            peers: Vec::new(),
            seen: ByFamily::default(),
            leaving: BTreeMap::new(),
            rib_offered: ByFamily::default(),
            owes_contributors: false,
            holds: Holds::default(),
            damps: false,
            counts_prefixes: false,
            turn_asked: None,
        }
    }

    /// Carries out an order.
    pub fn order(&mut self, order: Order, out: &mut Outbox<TableEvent>) {
        match order {
            Order::PeerUp { peer, life, info, import } => {
                self.each(|_, shard| shard.peer_up(peer, info));
                self.set_import(peer, &import);
                let place = usize::from(peer.0);
                if self.peers.len() <= place {
                    self.peers.resize_with(place + 1, || None);
                }
                let (turn, reported) = (FamilyIndex::LAST, ByFamily::default());
                self.holds.end(peer);
                self.peers[place] = Some(PeerOut { life, outlet: None, turn, reported });
            }
            Order::Open(peer, outlet) => {
                self.each(|family, shard| {
                    if outlet.families.has(family) {
                        shard.join(peer, outlet.views[family].clone());
                    }
                });
                self.set_outlet(peer, outlet);
                self.report_count(peer, out);
            }
            Order::SetImport(peer, import) => self.set_import(peer, &import),
            Order::SetFull(peer, family, is_full) => self.shards[family].set_full(peer, is_full),
            Order::ReportPrefixes(peer) => self.report_again(peer, out),
            Order::SetPolicies(policies) => self.set_policies(&policies),
            Order::Refresh(peer, family, number) => {
                self.shards[family].refresh(peer, None, number);
            }
            Order::Release(peer, life) => self.release(peer, life),
            Order::MarkStale(peer, family) => self.shards[family].mark_stale(peer),
            Order::MarkLongLived(peer, families) => self.each(|family, shard| {
                if families.has(family) {
                    shard.mark_long_lived(peer);
                }
            }),
            Order::DropStale(peer, families) => self.each(|family, shard| {
                if families.has(family) {
                    shard.drop_stale(peer);
                }
            }),
            Order::PeerDown(peer, life, retained) => {
                self.each(|family, shard| {
                    if let Some(address) = shard.peer_down(peer, retained.of(family)) {
                        out.push(TableEvent::GatewayLost(address));
                    }
                });
                if let Some(known) = self.peers.get_mut(usize::from(peer.0)) {
                    *known = None;
                }
                self.leaving.insert(peer, life);
            }
            Order::Originate(origination) => self.each(|_, shard| shard.originate(&origination)),
            Order::SetSource(source, name, import) => self.each(|family, shard| {
                shard.set_source(source, name.clone());
                shard.set_import(source, import[family].clone(), true);
            }),
            Order::AnswerIpv4(answer, provenance) => self.answer(&answer, provenance),
            Order::AnswerIpv6(answer, provenance) => self.answer(&answer, provenance),
            Order::AnswerXid(answer, provenance) => self.answer(&answer, provenance),
            Order::Invalid(prefix) => self.each(|_, shard| shard.invalid(prefix)),
            Order::RibRestarted => {
                self.each(|_, shard| shard.rib_restarted());
                self.rib_offered = ByFamily::default();
            }
            Order::AnnounceBackups => self.each(|_, shard| shard.announce_backups()),
            Order::SetAggregates(rules) => self.each(|_, shard| shard.set_aggregates(&rules)),
            Order::ReportContributors => self.owes_contributors = true,
            Order::SetOrigins(data) => self.each(|_, shard| shard.set_origins(&data)),
            Order::Damping(order) => self.order_damping(order),
            Order::Check(peer, on) => self.each(|_, shard| shard.check(peer, on)),
        }
        self.report(out);
    }

    fn each(&mut self, mut act: impl FnMut(FamilyIndex, &mut dyn AnyShard)) {
        self.shards.iter_mut().for_each(|(family, shard)| act(family, &mut **shard));
    }

    /// Returns the shard of a family. To be called once for several routes.
    pub fn shard<P: Sharded>(&self) -> &Shard<P> {
        let part: &dyn Any = &*self.shards[P::INDEX];
        &part.downcast_ref::<Part<P>>().expect("a family's shard has the family's keys").shard
    }

    /// Returns the shard of a family, to change in place, and the outbox of the shard's questions.
    fn shard_mut<P: Sharded>(&mut self) -> (&mut Shard<P>, &mut Outbox<Interest<P::Hop>>) {
        let part: &mut dyn Any = &mut *self.shards[P::INDEX];
        let part = part.downcast_mut::<Part<P>>().expect("a family's shard has the family's keys");
        (&mut part.shard, &mut part.interests)
    }

    fn set_import(&mut self, peer: PeerIndex, import: &PeerImport) {
        self.each(|family, shard| {
            shard.set_import(peer, import.policies[family].clone(), import.keeps_rejected);
            shard.set_damped(peer, import.is_damped);
        });
        self.damps |= import.is_damped;
    }

    /// Sets the policies of peers. Every route is advertised again to a peer with changed next hops, because views do not contain
    /// next hops.
    fn set_policies(&mut self, policies: &[PeerPolicies]) {
        let mut views: ByFamily<Vec<(PeerIndex, Arc<ExportView>)>> = ByFamily::default();
        for PeerPolicies { peer, import, export } in policies {
            self.set_import(*peer, import);
            if !export.paced {
                self.holds.end(*peer);
            }
            let Some(known) = self.peer_mut(*peer) else { continue };
            let before = known.outlet.replace(Box::new(export.clone()));
            self.counts_prefixes |= !export.counted.is_empty();
            let has_other_hops = before.is_none_or(|before| {
                let of = |e: &PeerExport| (e.subnets, e.keeps_third_party);
                (&before.next_hops, of(&before)) != (&export.next_hops, of(export))
            });
            for (family, view) in export.views.clone().into_pairs() {
                if has_other_hops {
                    self.shards[family].refresh(*peer, Some(view), 0);
                } else {
                    views[family].push((*peer, view));
                }
            }
        }
        self.each(|family, shard| shard.set_views(&views[family]));
    }

    /// Takes the RIB's answer to the shards of the families whose next hops it is about.
    fn answer<H: Prefix>(&mut self, versioned: &Versioned<H>, provenance: Provenance) {
        for family in FamilyIndex::all().filter(|family| family.row().hops == H::ID) {
            let seen = &mut self.seen[family];
            *seen = versioned.number.max(*seen);
            self.shards[family].answer(&versioned.answer, provenance);
        }
    }

    fn peer_mut(&mut self, peer: PeerIndex) -> Option<&mut PeerOut> {
        self.peers.get_mut(usize::from(peer.0))?.as_mut()
    }

    fn set_outlet(&mut self, peer: PeerIndex, outlet: Box<PeerExport>) {
        if !outlet.paced {
            self.holds.end(peer);
        }
        self.counts_prefixes |= !outlet.counted.is_empty();
        if let Some(known) = self.peer_mut(peer) {
            known.outlet = Some(outlet);
        }
    }

    /// Returns true if the session of this number is up.
    pub fn is_up(&self, peer: PeerIndex, life: SessionEpoch) -> bool {
        self.peers.get(usize::from(peer.0)).and_then(Option::as_ref).is_some_and(|p| p.life == life)
    }

    /// Applies the batches of `peer` in a session, and leaves the batches empty. Batches of an ended session are ignored.
    pub fn apply(
        &mut self,
        peer: PeerIndex,
        life: SessionEpoch,
        batches: &mut Batches,
        out: &mut Outbox<TableEvent>,
    ) {
        if self.is_up(peer, life) {
            self.each(|_, shard| shard.apply(peer, batches));
            self.report_count(peer, out);
        }
        batches.clear();
        self.report(out);
    }

    /// Returns true if there is background work.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.shards.values().any(|shard| shard.has_work())
    }

    /// Background work.
    #[inline]
    pub fn run_slice(&mut self, budget: Budget, out: &mut Outbox<TableEvent>) -> Progress {
        if self.has_work() { self.work(budget, out) } else { Progress::Done }
    }

    fn work(&mut self, budget: Budget, out: &mut Outbox<TableEvent>) -> Progress {
        let mut progress = Progress::Done;
        self.each(|_, shard| {
            if shard.has_work() {
                progress = progress.or(shard.run_slice(budget));
            }
        });
        self.report_counts(out);
        self.report(out);
        progress
    }

    /// Reports what was not reported yet.
    fn report(&mut self, out: &mut Outbox<TableEvent>) {
        if self.shards.values().any(|shard| shard.has_questions()) {
            self.ask(out);
        }
        for (family, shard) in self.shards.iter() {
            if shard.has_rib_changes() && !core::mem::replace(&mut self.rib_offered[family], true) {
                out.push(TableEvent::RibReady(family));
            }
        }
        if !self.leaving.is_empty() {
            self.take_leave(out);
        }
        let mut is_due = false;
        self.each(|_, shard| is_due |= shard.take_backup_news());
        if is_due {
            out.push(TableEvent::BackupsDue);
        }
        self.report_aggregates(out);
        if self.damps {
            self.ask_for_turn(out);
        }
    }

    /// Passes on what the shards ask of the RIB.
    #[cold]
    fn ask(&mut self, out: &mut Outbox<TableEvent>) {
        let seen = self.seen;
        self.each(|family, shard| shard.ask(seen[family], out));
    }

    /// Reports the peers whose routes are removed by now.
    #[cold]
    fn take_leave(&mut self, out: &mut Outbox<TableEvent>) {
        let Table { shards, leaving, .. } = self;
        leaving.retain(|peer, life| {
            let is_clean = shards.values().all(|shard| shard.is_clean(*peer));
            if is_clean {
                out.push(TableEvent::Drained(*peer, *life));
            }
            !is_clean
        });
    }
}
