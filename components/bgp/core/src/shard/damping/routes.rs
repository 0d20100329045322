//! Flap damping (RFC 2439) with the figures of RFC 7196: the histories of external neighbors' flapping routes.
//!
//! A withdrawal, or an announcement with changed attributes, adds to a route's penalty. The penalty decays by half in each
//! half-life. A route whose penalty exceeds the suppress threshold is *suppressed*: the path stays stored like a path rejected by
//! import policy, until the penalty has decayed to the reuse threshold. The ceiling of penalties bounds the time of suppression
//! (section 4.2 of RFC 2439).
//!
//! Import policy may choose a route's parameters, or no damping: the choice is a private property of the accepted attributes, and
//! applies to the history from the next flap on. A suppressed route keeps the parameters of its history until policy decides
//! again.
//!
//! Routes without a history, and neighbors without `damping`, are free of cost. The end of a session is no flap, and histories
//! outlast sessions. Routes with path identifiers (RFC 7911) have no histories.

use super::histories::Histories;
use super::history::{DampedView, DampingCounts, HistoryState, Outcome, tenths};
use super::profiles::Choice;
use super::rules::{ATTRIBUTE_CHANGE, DampingRules, WITHDRAWAL};
use crate::attributes::private::{Private, RouteDamping};
use crate::shard::adj_rib_in::Imports;
use crate::shard::entry::{AdjRibIn, PathNumber, PathSet, PeerIndex, SetId, Sets};
use crate::shard::resolver::Interest;
use crate::shard::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

/// Returns the parameters chosen by policy for a route; `None` if flaps are not counted. `chosen` is the choice for accepted
/// attributes, or `None` for a route without accepted attributes.
fn choice(chosen: Option<&Option<RouteDamping>>) -> Option<Choice<'_>> {
    match chosen {
        None => Some(Choice::Known),
        Some(None) => Some(Choice::Routers),
        Some(Some(RouteDamping::By(damping))) => Some(Choice::By(damping)),
        Some(Some(RouteDamping::Off)) => None,
    }
}

/// Flap damping in a shard.
#[derive(Debug)]
pub(crate) struct Damping<P: FamilyKey> {
    /// The histories of damped routes; `None` while no peer is damped.
    histories: Option<Box<Histories<P>>>,
    rules: DampingRules,
    /// The number of tables of the router.
    tables: usize,
}

impl<P: FamilyKey> Default for Damping<P> {
    fn default() -> Self {
        Damping { histories: None, rules: DampingRules::DEFAULT, tables: 1 }
    }
}

impl<P: FamilyKey> Damping<P> {
    /// Returns true if a path of a peer is suppressed, after policy's decision with the result `attributes`: the history gets the
    /// parameters of policy's choice, and is forgotten if policy chose no damping.
    pub fn is_still_damped(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        (peer, number): (PeerIndex, PathNumber),
        prefix: P,
        attributes: PathSet,
    ) -> bool {
        if !self.is_damped_path(peer, number, prefix) {
            return false;
        }
        let chosen = chosen(&adj_rib_in.sets, attributes);
        let Some(damping) = &mut self.histories else { return false };
        let Some(id) = damping.find(prefix, peer) else { return false };
        match choice(chosen.as_ref()) {
            Some(choice) => damping.choose(id, choice),
            None => damping.remove(id),
        }
        damping.is_suppressed(prefix, peer)
    }

    /// Counts the withdrawal of a route of a damped peer.
    #[cold]
    pub fn count_withdrawal(&mut self, adj_rib_in: &AdjRibIn<P>, peer: PeerIndex, prefix: P) {
        let Some(damping) = &mut self.histories else { return };
        if let Some(attributes) = attributes_of(adj_rib_in, peer, prefix)
            && counts(&adj_rib_in.sets, damping, (prefix, peer), attributes)
            && let Some(choice) = choice(chosen(&adj_rib_in.sets, attributes).as_ref())
        {
            damping.flap(prefix, peer, WITHDRAWAL, choice);
        }
    }

    /// Counts the announcement of a route of a damped peer with the attributes `received`, and policy's result `attributes`.
    /// Returns true if the route is suppressed.
    #[cold]
    pub fn count_announcement(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        peer: PeerIndex,
        prefix: P,
        received: SetId,
        attributes: PathSet,
    ) -> bool {
        let Some(damping) = &mut self.histories else { return false };
        let sets = &adj_rib_in.sets;
        let before = attributes_of(adj_rib_in, peer, prefix);
        let chosen_now = chosen(sets, attributes).or_else(|| chosen(sets, before?));
        let is_flap = before.is_some_and(|before| {
            sets.received(before) != received && counts(sets, damping, (prefix, peer), before)
        });
        match (choice(chosen_now.as_ref()), damping.find(prefix, peer)) {
            (Some(choice), _) if is_flap => damping.flap(prefix, peer, ATTRIBUTE_CHANGE, choice),
            (Some(choice), Some(id)) => damping.choose(id, choice),
            (None, Some(id)) => damping.remove(id),
            (_, None) => {}
        }
        damping.is_suppressed(prefix, peer)
    }

    /// Returns true if a path of a peer is suppressed.
    #[inline]
    pub fn is_damped_path(&self, peer: PeerIndex, number: PathNumber, prefix: P) -> bool {
        let is_first = number == PathNumber::first_of(peer);
        is_first && self.histories.as_ref().is_some_and(|damping| damping.is_suppressed(prefix, peer))
    }

    /// Returns the time for which a path stays suppressed; `None` for an unsuppressed path.
    pub fn suppressed_for(&self, peer: PeerIndex, prefix: P) -> Option<Duration> {
        let damping = self.histories.as_ref()?;
        damping.view(damping.find(prefix, peer)?, damping.now).suppressed_for
    }
}

/// Returns the damping chosen by policy for a route with accepted attributes, `Some(None)` for the router's; `None` for rejected
/// attributes.
fn chosen(sets: &Sets, attributes: PathSet) -> Option<Option<RouteDamping>> {
    let set = sets.accepted(attributes)?;
    let private = sets.has_private(set).then(|| Private::of(sets.octets(&sets[set])));
    Some(private.and_then(|private| private.damping))
}

/// Returns the attributes of a peer's first path of a prefix.
fn attributes_of<P: FamilyKey>(adj_rib_in: &AdjRibIn<P>, peer: PeerIndex, prefix: P) -> Option<PathSet> {
    let id = adj_rib_in.find(prefix)?;
    let position = adj_rib_in.entries.position(id, PathNumber::first_of(peer))?;
    Some(adj_rib_in.entries.paths(id)[position].attributes)
}

/// Returns true if flaps of a peer's path are counted: import policy accepts the path, or the path is suppressed.
fn counts<P: FamilyKey>(
    sets: &Sets,
    damping: &Histories<P>,
    (prefix, peer): (P, PeerIndex),
    attributes: PathSet,
) -> bool {
    sets.accepted(attributes).is_some() || damping.is_suppressed(prefix, peer)
}

impl<P: FamilyKey> Shard<P> {
    /// Sets the parameters, of a router with this number of tables.
    pub fn set_damping(&mut self, rules: DampingRules, tables: usize) {
        let known = &mut self.core.damping;
        if (known.rules, known.tables) == (rules, tables) {
            return;
        }
        (known.rules, known.tables) = (rules, tables);
        if let Some(damping) = &mut self.core.damping.histories {
            damping.set_rules(&rules, tables);
            damping.hurry(|_, _, _| true);
        }
    }

    /// Damps the routes of a peer from now on, or no longer.
    pub fn set_damped(&mut self, peer: PeerIndex, is_damped: bool) {
        let Core { adj_rib_in, damping: Damping { histories: damping, rules, tables }, .. } = &mut self.core;
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

    /// Forgets the histories of a peer number, before reuse of the number.
    #[cold]
    pub(crate) fn forget_histories(&mut self, peer: PeerIndex) {
        if let Some(damping) = &mut self.core.damping.histories {
            let of_peer = |id: &u32| damping.is_used(*id) && damping.histories[*id].peer == peer;
            let all: Vec<u32> = (0..damping.histories.end()).filter(of_peer).collect();
            all.into_iter().for_each(|id| damping.remove(id));
        }
    }

    /// Forgets the history of a prefix, or all histories: suppressed routes are used again.
    pub fn clear_damping(&mut self, prefix: Option<P>) {
        if let Some(damping) = &mut self.core.damping.histories {
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
        self.core.damping.histories.is_some()
    }

    /// Sets the present time.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        if let Some(damping) = &mut self.core.damping.histories {
            damping.now = damping.now.max(tenths(now));
        }
    }

    /// Returns the next time at which a history is due.
    #[inline]
    pub fn next_turn(&self) -> Option<Instant> {
        let (due, _) = self.core.damping.histories.as_ref()?.lists.first_key_value()?;
        Some(Instant::ZERO + Duration::from_secs((*due).into()))
    }

    /// Returns true if histories are due.
    #[inline]
    pub(crate) fn has_turns(&self) -> bool {
        self.core.damping.histories.as_ref().is_some_and(|damping| damping.first_due().is_some())
    }

    /// Does what is due for up to `limit` histories.
    pub(crate) fn turn_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let core = &mut self.core;
        let mut imports = Imports::default();
        let mut of_imports = None;
        for _ in 0..limit {
            let Some(damping) = &core.damping.histories else { break };
            let Some(id) = damping.first_due() else { break };
            let peer = damping.histories[id].peer;
            let known = core.adj_rib_in.peers.get(usize::from(peer.0));
            let is_damped = known.is_some_and(|known| known.is_damped);
            let Some(damping) = &mut core.damping.histories else { break };
            let Outcome::Reusable(prefix, peer) = damping.turn(id, is_damped) else { continue };
            if of_imports.replace(peer) != Some(peer) {
                // Results are those of one policy.
                imports.clear(&mut core.adj_rib_in, &mut core.resolver, out);
            }
            if let Some(id) = core.adj_rib_in.find(prefix) {
                let policy = core.adj_rib_in.peers[usize::from(peer.0)].import.clone();
                core.import_again(id, peer, policy.as_deref(), &mut imports, out);
            }
        }
        imports.clear(&mut core.adj_rib_in, &mut core.resolver, out);
    }

    /// Returns the counts.
    pub fn damping_counts(&self) -> DampingCounts {
        self.core.damping.histories.as_ref().map_or(DampingCounts::default(), |damping| damping.counts)
    }

    /// Returns up to `limit` histories from place `from` on as they are at `now`, and the place where the next page begins;
    /// `None` at the end. With `suppressed_only`, returns suppressed routes only.
    pub fn damped(
        &self,
        now: Instant,
        from: u32,
        limit: usize,
        suppressed_only: bool,
    ) -> (Vec<DampedView<P>>, Option<u32>) {
        let mut all = Vec::new();
        let Some(damping) = &self.core.damping.histories else { return (all, None) };
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
        let Some(damping) = &self.core.damping.histories else { return (all, None) };
        for id in from..damping.histories.end() {
            if all.len() >= limit {
                return (all, Some(id));
            }
            all.extend(damping.export(id));
        }
        (all, None)
    }

    /// Restores a history of the old process, before the history's path.
    pub fn restore_history(&mut self, state: &HistoryState<P>) {
        if let Some(damping) = &mut self.core.damping.histories {
            damping.restore(state);
        }
    }
}
