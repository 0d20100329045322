//! Flap damping (RFC 2439) with the figures of RFC 7196: the histories of routes of external neighbors that come and go.
//!
//! A route that is withdrawn, or that is announced with other attributes, gets a penalty, which decays by half in each half-life. A route
//! whose penalty exceeds the suppress threshold is *suppressed*: its path stays stored like one that import policy rejects, until the
//! penalty has decayed to the reuse threshold. The ceiling of penalties bounds the time of that (section 4.2 of RFC 2439).
//!
//! Import policy may choose other parameters for a route, or none: they are a private property of the accepted attributes, and the history has
//! them from the next flap on. A suppressed route keeps the parameters of its history until policy decides again.
//!
//! Routes without a history cost nothing, and neither do neighbors without `damping`. The end of a session is no flap, and
//! histories outlast sessions. Routes with path identifiers (RFC 7911) have no histories.

use super::histories::Histories;
use super::history::{DampedView, DampingCounts, HistoryState, Outcome, tenths};
use super::profiles::Choice;
use super::rules::{ATTRIBUTE_CHANGE, DampingRules, WITHDRAWAL};
use crate::attributes::private::{Private, RouteDamping};
use crate::shard::adj_rib_in::Imports;
use crate::shard::entry::{PathNumber, PathSet, PeerIndex, SetId};
use crate::shard::resolver::Interest;
use crate::shard::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

/// Returns the parameters that policy chose for a route; `None` if flaps are not counted. `chosen` is the choice for accepted attributes, or
/// `None` for a route without such.
fn choice(chosen: Option<&Option<RouteDamping>>) -> Option<Choice<'_>> {
    match chosen {
        None => Some(Choice::Known),
        Some(None) => Some(Choice::Routers),
        Some(Some(RouteDamping::By(damping))) => Some(Choice::By(damping)),
        Some(Some(RouteDamping::Off)) => None,
    }
}

impl<P: FamilyKey> Core<P> {
    /// Returns the damping that policy chose for a route with accepted attributes, which is `None` for the router's; `None` for attributes that
    /// policy rejects.
    fn chosen_damping(&self, attributes: PathSet) -> Option<Option<RouteDamping>> {
        let set = self.adj_rib_in.sets.accepted(attributes)?;
        let private = self
            .adj_rib_in
            .sets
            .has_private(set)
            .then(|| Private::of(self.adj_rib_in.sets.octets(&self.adj_rib_in.sets[set])));
        Some(private.and_then(|private| private.damping))
    }

    /// Returns true if a path of a peer is suppressed, with `attributes` that policy made just now: the history has the parameters that
    /// policy chose from now on, and is forgotten where policy chose none.
    pub(crate) fn is_still_damped(
        &mut self,
        peer: PeerIndex,
        number: PathNumber,
        prefix: P,
        attributes: PathSet,
    ) -> bool {
        if !self.is_damped_path(peer, number, prefix) {
            return false;
        }
        let chosen = self.chosen_damping(attributes);
        let Some(damping) = &mut self.damping else { return false };
        let Some(id) = damping.find(prefix, peer) else { return false };
        match choice(chosen.as_ref()) {
            Some(choice) => damping.choose(id, choice),
            None => damping.remove(id),
        }
        damping.is_suppressed(prefix, peer)
    }

    /// Returns true if a path of a peer is one that flaps are counted of: import policy accepts it, or it is suppressed.
    fn counts(&self, damping: &Histories<P>, (prefix, peer): (P, PeerIndex), attributes: PathSet) -> bool {
        self.adj_rib_in.sets.accepted(attributes).is_some() || damping.is_suppressed(prefix, peer)
    }

    /// Counts the withdrawal of a route of a damped peer.
    #[cold]
    pub(crate) fn damp_withdrawal(&mut self, peer: PeerIndex, prefix: P) {
        let number = PathNumber::first_of(peer);
        let Some(mut damping) = self.damping.take() else { return };
        if let Some(id) = self.adj_rib_in.find(prefix)
            && let Some(position) = self.adj_rib_in.entries.position(id, number)
            && let attributes = self.adj_rib_in.entries.paths(id)[position].attributes
            && self.counts(&damping, (prefix, peer), attributes)
            && let Some(choice) = choice(self.chosen_damping(attributes).as_ref())
        {
            damping.flap(prefix, peer, WITHDRAWAL, choice);
        }
        self.damping = Some(damping);
    }

    /// Counts the announcement of a route of a damped peer with the attributes `received`, of which policy made `attributes`. Returns true if
    /// the route is suppressed.
    #[cold]
    pub(crate) fn damp_announcement(
        &mut self,
        peer: PeerIndex,
        prefix: P,
        received: SetId,
        attributes: PathSet,
    ) -> bool {
        let number = PathNumber::first_of(peer);
        let Some(mut damping) = self.damping.take() else { return false };
        let position = self
            .adj_rib_in
            .find(prefix)
            .and_then(|id| Some((id, self.adj_rib_in.entries.position(id, number)?)));
        let before = position.map(|(id, position)| self.adj_rib_in.entries.paths(id)[position].attributes);
        let chosen = self.chosen_damping(attributes).or_else(|| self.chosen_damping(before?));
        let is_flap = before.is_some_and(|before| {
            self.adj_rib_in.sets.received(before) != received && self.counts(&damping, (prefix, peer), before)
        });
        match (choice(chosen.as_ref()), damping.find(prefix, peer)) {
            (Some(choice), _) if is_flap => damping.flap(prefix, peer, ATTRIBUTE_CHANGE, choice),
            (Some(choice), Some(id)) => damping.choose(id, choice),
            (None, Some(id)) => damping.remove(id),
            (_, None) => {}
        }
        let is_suppressed = damping.is_suppressed(prefix, peer);
        self.damping = Some(damping);
        is_suppressed
    }

    /// Returns true if a path of a peer is suppressed.
    #[inline]
    pub(crate) fn is_damped_path(&self, peer: PeerIndex, number: PathNumber, prefix: P) -> bool {
        let is_first = number == PathNumber::first_of(peer);
        is_first && self.damping.as_ref().is_some_and(|damping| damping.is_suppressed(prefix, peer))
    }

    /// Returns the time for which a path stays suppressed; `None` if it is not.
    pub(crate) fn suppressed_for(&self, peer: PeerIndex, prefix: P) -> Option<Duration> {
        let damping = self.damping.as_ref()?;
        damping.view(damping.find(prefix, peer)?, damping.now).suppressed_for
    }

    fn is_damped(&self, peer: PeerIndex) -> bool {
        self.adj_rib_in.peers.get(usize::from(peer.0)).is_some_and(|known| known.is_damped)
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Sets the parameters, of a router with this number of tables.
    pub fn set_damping(&mut self, rules: DampingRules, tables: usize) {
        if self.core.damping_rules == (rules, tables) {
            return;
        }
        self.core.damping_rules = (rules, tables);
        if let Some(damping) = &mut self.core.damping {
            damping.set_rules(&rules, tables);
            damping.hurry(|_, _, _| true);
        }
    }

    /// Damps the routes of a peer from now on, or no longer.
    pub fn set_damped(&mut self, peer: PeerIndex, is_damped: bool) {
        let Core { adj_rib_in, damping, damping_rules: (rules, tables), .. } = &mut self.core;
        let Some(known) = adj_rib_in.peers.get_mut(usize::from(peer.0)) else { return };
        if core::mem::replace(&mut known.is_damped, is_damped) == is_damped {
            return;
        }
        if is_damped {
            damping.get_or_insert_with(|| Box::new(Histories::new(rules, *tables, adj_rib_in.seed)));
        } else if let Some(damping) = damping {
            damping.hurry(|_, of, _| of == peer);
        }
    }

    /// Forgets the histories of a number that another peer has from now on.
    #[cold]
    pub(crate) fn forget_histories(&mut self, peer: PeerIndex) {
        if let Some(damping) = &mut self.core.damping {
            let of_peer = |id: &u32| damping.is_used(*id) && damping.histories[*id].peer == peer;
            let all: Vec<u32> = (0..damping.histories.end()).filter(of_peer).collect();
            all.into_iter().for_each(|id| damping.remove(id));
        }
    }

    /// Forgets the history of a prefix, or all histories: suppressed routes are used again.
    pub fn clear_damping(&mut self, prefix: Option<P>) {
        if let Some(damping) = &mut self.core.damping {
            damping.hurry(|of, _, penalty| {
                let is_meant = prefix.is_none_or(|prefix| prefix == *of);
                if is_meant {
                    *penalty = 0;
                }
                is_meant
            });
        }
    }

    /// Returns true if flaps are counted, so that [`Shard::set_now`] is needed.
    #[inline]
    pub const fn damps(&self) -> bool {
        self.core.damping.is_some()
    }

    /// Sets the present time.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        if let Some(damping) = &mut self.core.damping {
            damping.now = damping.now.max(tenths(now));
        }
    }

    /// Returns the next time at which a history is due.
    #[inline]
    pub fn next_turn(&self) -> Option<Instant> {
        let (due, _) = self.core.damping.as_ref()?.lists.first_key_value()?;
        Some(Instant::ZERO + Duration::from_secs((*due).into()))
    }

    /// Returns true if histories are due.
    #[inline]
    pub(crate) fn has_turns(&self) -> bool {
        self.core.damping.as_ref().is_some_and(|damping| damping.first_due().is_some())
    }

    /// Does what is due for up to `limit` histories.
    pub(crate) fn turn_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let core = &mut self.core;
        let mut imports = Imports::default();
        let mut of_imports = None;
        for _ in 0..limit {
            let Some(damping) = &core.damping else { break };
            let Some(id) = damping.first_due() else { break };
            let is_damped = core.is_damped(damping.histories[id].peer);
            let Some(damping) = &mut core.damping else { break };
            let Outcome::Reusable(prefix, peer) = damping.turn(id, is_damped) else { continue };
            if of_imports.replace(peer) != Some(peer) {
                // Results are those of one policy.
                core.end_imports(&mut imports, out);
            }
            if let Some(id) = core.adj_rib_in.find(prefix) {
                let policy = core.adj_rib_in.peers[usize::from(peer.0)].import.clone();
                core.import_again(id, peer, policy.as_deref(), &mut imports, out);
            }
        }
        core.end_imports(&mut imports, out);
    }

    /// Returns the counts.
    pub fn damping_counts(&self) -> DampingCounts {
        self.core.damping.as_ref().map_or(DampingCounts::default(), |damping| damping.counts)
    }

    /// Returns up to `limit` histories from place `from` on as they are at `now`, and the place where the next page begins; `None` at the end. With
    /// `suppressed_only`, those of suppressed routes.
    pub fn damped(
        &self,
        now: Instant,
        from: u32,
        limit: usize,
        suppressed_only: bool,
    ) -> (Vec<DampedView<P>>, Option<u32>) {
        let mut all = Vec::new();
        let Some(damping) = &self.core.damping else { return (all, None) };
        for id in from..damping.histories.end() {
            if all.len() >= limit {
                return (all, Some(id));
            }
            if damping.is_used(id) && (damping.histories[id].is_suppressed || !suppressed_only) {
                all.push(damping.view(id, tenths(now)));
            }
        }
        (all, None)
    }

    /// Returns up to `limit` histories from place `from` on for another process, and where to go on.
    pub fn export_histories(&self, from: u32, limit: usize) -> (Vec<HistoryState<P>>, Option<u32>) {
        let mut all = Vec::new();
        let Some(damping) = &self.core.damping else { return (all, None) };
        for id in from..damping.histories.end() {
            if all.len() >= limit {
                return (all, Some(id));
            }
            all.extend(damping.export(id));
        }
        (all, None)
    }

    /// Restores the history of another process, before the path that it is about.
    pub fn restore_history(&mut self, state: &HistoryState<P>) {
        if let Some(damping) = &mut self.core.damping {
            damping.restore(state);
        }
    }
}
