//! Maximum prefixes: bounds on a neighbor's announced prefixes, and on the prefixes accepted by policy.
//!
//! Each table counts for itself, and reports a neighbor's counts after each batch, so that a neighbor can have at most one batch a table
//! above a limit before the limit takes effect.

use super::registry::Peers;
use crate::event::PeerEvent;
use crate::family::FamilyIndex;
use crate::session;
use crate::shard::PeerIndex;
use crate::speaker::config::{LimitAction, PrefixCount, Stage};
use crate::speaker::messages::{Output, event};
use crate::speaker::neighbor::{LimitStop, Standing};
use crate::table::{Order, SessionEpoch};
use crate::wire::Notification;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

impl Peers {
    /// Takes a table's count of a neighbor's prefixes, and applies the neighbor's bounds.
    pub fn counted(
        &mut self,
        now: Instant,
        table: usize,
        (index, life, family): (PeerIndex, SessionEpoch, FamilyIndex),
        count: PrefixCount,
        out: &mut Outbox<Output>,
    ) {
        let Some(peer) = self.peer_mut(index).filter(|peer| peer.life == Some(life)) else { return };
        peer.limits.counts.insert((family, table), count);
        self.judge(now, index, family, out);
    }

    /// Judges the known counts of a neighbor by other bounds. Counts of families without a bound before come from the tables.
    pub(crate) fn judge_again(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) {
        for family in FamilyIndex::all() {
            let Some(peer) = self.peer_mut(index).filter(|peer| peer.life.is_some()) else { return };
            if !peer.config.maximum_prefixes(family).is_set() {
                peer.limits.counts.retain(|(counted, _), _| *counted != family);
            }
            if let Some(standing) = peer.limits.standings.get_mut(&family) {
                standing.stage = Stage::Below;
                self.judge(now, index, family, out);
            }
        }
    }

    /// Applies a neighbor's bounds of a family to its counts.
    fn judge(&mut self, now: Instant, index: PeerIndex, family: FamilyIndex, out: &mut Outbox<Output>) {
        let code = self.identity.codes.of(family);
        let Some(peer) = self.peer_mut(index) else { return };
        let (address, bounds) = (peer.config.address, peer.config.maximum_prefixes(family));
        let counts = peer.limits.total(family);
        let (exceeded, near) = bounds.judge(counts);
        let is_full = exceeded.is_some() && bounds.action() == LimitAction::Discard;
        let before = peer.limits.standings.get(&family).copied().unwrap_or_default();
        let stage = bounds.stage(before.stage, counts);
        peer.limits.standings.insert(family, Standing { stage, is_full });
        if is_full != before.is_full {
            out.push(Output::Order(None, Order::SetFull(index, family, is_full)));
            // What was ignored comes again where the neighbor can be asked.
            if !is_full {
                self.ask_for_refresh(index, out);
            }
        }
        if stage <= before.stage {
            return;
        }
        if let Some(reached) = exceeded.or(near) {
            out.push(event(address, PeerEvent::MaximumPrefixes(family, reached)));
        }
        let Some(reached) = exceeded.filter(|_| bounds.action() == LimitAction::Shutdown) else { return };
        let after = bounds.restart_after.map(|seconds| Duration::from_secs(seconds.into()));
        if let Some(peer) = self.peer_mut(index) {
            let restart_at = after.map(|after| now + after);
            peer.limits.stopped = Some(LimitStop { family, reached, restart_at });
        }
        let stop = session::Input::Stop(Notification::max_prefixes(code, reached.bound));
        self.drive(now, index, stop, out);
    }

    /// Returns the next time at which a session that ended for a bound is opened again.
    pub fn next_restart(&self) -> Option<Instant> {
        self.configured().filter_map(|peer| peer.limits.stopped?.restart_at).min()
    }

    /// Opens sessions again whose time has come.
    pub fn restart_limited(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let due = |peer: &crate::speaker::neighbor::peer::Peer| {
            peer.limits.stopped.is_some_and(|stop| stop.restart_at.is_some_and(|at| at <= now))
        };
        let all = self.by_address.values().copied();
        let indices: Vec<PeerIndex> =
            all.filter(|index| self.peers[usize::from(index.0)].as_deref().is_some_and(due)).collect();
        for index in indices {
            self.open_limited(now, index, out);
        }
    }

    /// Forgets the end of a neighbor's session for a bound, when the operator ends or begins the session.
    pub(crate) fn forget_stop(&mut self, index: PeerIndex) {
        if let Some(peer) = self.peer_mut(index) {
            peer.limits.stopped = None;
        }
    }

    /// Opens a neighbor's session again after an end for a bound: at the due time, at the operator's request, or after a change
    /// of bounds. Returns true if the session had ended for a bound.
    pub fn open_limited(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) -> bool {
        let Some(peer) = self.peer_mut(index) else { return false };
        let was_stopped = peer.limits.stopped.take().is_some();
        if was_stopped && peer.config.enabled {
            self.drive(now, index, session::Input::Start, out);
        }
        was_stopped
    }
}
