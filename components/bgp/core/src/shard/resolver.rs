//! Next hops and their resolution by the RIB (RFC 4271, section 9.1.2.1; XORP, section 5.1.1).
//!
//! Every distinct next hop is kept once. The RIB is asked about a new next hop; the answer holds for a whole prefix until
//! invalidated, so next hops on one subnet cost one registration. A next hop has a log of the entries with paths through it:
//! after a changed answer, exactly these entries are decided again, in slices, without a scan.

use super::entry::PeerIndex;
use crate::wire::multiprotocol::NextHop;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::{AnyPrefix, Metric, Prefix, Provenance};
use sluice_machine::Outbox;

/// The resolution of a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Resolution {
    /// The RIB was asked.
    Waiting,
    /// The RIB has no route to it.
    Unreachable,
    /// The RIB has a route to it.
    Reachable {
        /// The route's metric: the interior cost of RFC 4271, section 9.1.2.2 e.
        metric: Metric,
        /// True if the next hop is on a connected subnet.
        connected: bool,
    },
}

/// A question of a shard to the RIB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Interest<P: Prefix> {
    /// Asks how this address is reached, now and after changes.
    Register(P::Addr),
    /// The answer for this prefix is of no more use.
    Deregister(P),
}

/// A log may hold so many more entries than live paths before it is squeezed.
const LOG_SLACK: usize = 1024;

#[derive(Debug)]
struct Hop<P> {
    next_hop: NextHop,
    /// Attribute sets with it.
    sets: u32,
    resolution: Resolution,
    /// The prefix of the route to the next hop; `None` on a connected subnet, and without an answer.
    via: Option<P>,
    /// Entries with a path through the next hop at the time of adding; may have outdated and duplicate entries.
    log: Vec<u32>,
    /// Paths through it.
    paths: u32,
    /// The peer of every path since the next hop was last unused; `None` for several peers.
    user: Option<PeerIndex>,
    /// Entries of the log still to be decided by the last change; later entries were decided already.
    redecide: Option<(Range<usize>, Provenance)>,
    /// True if the next hop is listed in [`Resolver::next_bloated`].
    is_listed: bool,
}

impl<P> Hop<P> {
    /// Its log is mostly stale.
    fn needs_compaction(&self) -> bool {
        self.log.len() > 2 * self.paths as usize + LOG_SLACK
    }
}

/// The next hops of a shard.
#[derive(Debug)]
pub(crate) struct Resolver<P> {
    hops: Vec<Option<Hop<P>>>,
    free: Vec<u32>,
    by_address: BTreeMap<NextHop, u32>,
    answers: BTreeMap<P, (Resolution, Option<P>)>,
    /// Next hops with entries to decide again, and some unused ones: an idle slice need not visit every next hop.
    redeciding: VecDeque<u32>,
    /// Next hops with a mostly stale log at the last visit, and some unused ones.
    next_bloated: Vec<u32>,
    /// Next hops whose route's prefix changed: routes around them may lead to themselves now, or no more.
    moved: Vec<NextHop>,
    /// Single entries to decide again, with the event behind it.
    single: Vec<(u32, Provenance)>,
}

impl<P: Prefix> Default for Resolver<P> {
    fn default() -> Self {
        Resolver {
            hops: Vec::new(),
            free: Vec::new(),
            by_address: BTreeMap::new(),
            answers: BTreeMap::new(),
            redeciding: VecDeque::new(),
            next_bloated: Vec::new(),
            moved: Vec::new(),
            single: Vec::new(),
        }
    }
}

/// The address in the family of the table. Next hops of another family are impossible: the reader makes only next hops of its own
/// family.
fn address<P: Prefix>(hop: &NextHop) -> Option<P::Addr> {
    P::Addr::try_from(hop.address).ok()
}

/// Returns true if the RIB is asked about a next hop: not about the router itself, nor about a link-local address, which is
/// reached by the interface of the naming session.
fn is_asked_about(hop: &NextHop) -> bool {
    !hop.is_unspecified() && hop.interface.is_none()
}

/// The resolution of a next hop about which the RIB is not asked.
const ON_LINK: Resolution = Resolution::Reachable { metric: Metric(0), connected: true };

impl<P: Prefix> Resolver<P> {
    fn hop(&self, id: u32) -> Option<&Hop<P>> {
        self.hops.get(id as usize)?.as_ref()
    }

    fn hop_mut(&mut self, id: u32) -> Option<&mut Hop<P>> {
        self.hops.get_mut(id as usize)?.as_mut()
    }

    #[inline]
    pub fn resolution(&self, id: u32) -> Resolution {
        self.hop(id).map_or(Resolution::Unreachable, |h| h.resolution)
    }

    /// Returns true if a next hop is in use, by paths of this peer only.
    pub fn is_used_by(&self, next_hop: &NextHop, peer: PeerIndex) -> bool {
        let hop = self.by_address.get(next_hop).and_then(|id| self.hop(*id));
        hop.is_some_and(|hop| hop.paths > 0 && hop.user == Some(peer))
    }

    pub fn next_hop(&self, id: u32) -> Option<&NextHop> {
        self.hop(id).map(|h| &h.next_hop)
    }

    /// Returns a next hop; the unspecified address for a number that is no next hop's.
    pub fn next_hop_of(&self, id: u32) -> NextHop {
        let unspecified = || NextHop::at(P::default_route().addr().into());
        self.next_hop(id).copied().unwrap_or_else(unspecified)
    }

    /// The next hop's number, for one more attribute set; asks the RIB about a new next hop.
    pub fn acquire(&mut self, next_hop: NextHop, out: &mut Outbox<Interest<P>>) -> u32 {
        if let Some(&id) = self.by_address.get(&next_hop) {
            if let Some(hop) = self.hop_mut(id) {
                hop.sets += 1;
            }
            return id;
        }
        let (resolution, via) = match address::<P>(&next_hop) {
            None => (Resolution::Unreachable, None),
            Some(_) if !is_asked_about(&next_hop) => (ON_LINK, None),
            Some(addr) => match self.answer_for(addr) {
                Some((_, answer)) => answer,
                None => {
                    out.push(Interest::Register(addr));
                    (Resolution::Waiting, None)
                }
            },
        };
        let id = self.store(next_hop, resolution);
        if let Some(hop) = self.hop_mut(id) {
            hop.via = via;
        }
        id
    }

    /// The next hop of the router's own networks: the router itself, without a question.
    pub fn acquire_own(&mut self, next_hop: NextHop) -> u32 {
        let Some(&id) = self.by_address.get(&next_hop) else { return self.store(next_hop, ON_LINK) };
        if let Some(hop) = self.hop_mut(id) {
            hop.sets += 1;
        }
        id
    }

    fn store(&mut self, next_hop: NextHop, resolution: Resolution) -> u32 {
        self.store_with(next_hop, resolution, 1)
    }

    /// Restores another process's resolution of a next hop; the known resolution holds until the RIB answers.
    pub fn restore(&mut self, next_hop: NextHop, resolution: Resolution) {
        if !self.by_address.contains_key(&next_hop) {
            self.store_with(next_hop, resolution, 0);
        }
    }

    /// Forgets restored next hops that no attribute set has.
    pub fn drop_unused(&mut self) {
        let unused = |h: &Option<Hop<P>>| h.as_ref().is_some_and(|h| h.sets == 0);
        for id in 0..self.hops.len() {
            if unused(&self.hops[id])
                && let Some(hop) = self.hops[id].take()
            {
                self.by_address.remove(&hop.next_hop);
                self.free.push(id as u32);
            }
        }
    }

    fn store_with(&mut self, next_hop: NextHop, resolution: Resolution, sets: u32) -> u32 {
        let hop = Hop {
            next_hop,
            sets,
            resolution,
            via: None,
            log: Vec::new(),
            paths: 0,
            user: None,
            redecide: None,
            is_listed: false,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.hops[id as usize] = Some(hop);
                id
            }
            None => {
                self.hops.push(Some(hop));
                (self.hops.len() - 1) as u32
            }
        };
        self.by_address.insert(next_hop, id);
        id
    }

    /// Removes an attribute set from the next hop's users.
    pub fn release(&mut self, id: u32, out: &mut Outbox<Interest<P>>) {
        let Some(hop) = self.hop_mut(id) else { return };
        hop.sets -= 1;
        if hop.sets > 0 {
            return;
        }
        let next_hop = hop.next_hop;
        self.hops[id as usize] = None;
        self.free.push(id);
        self.by_address.remove(&next_hop);
        if let Some((valid, _)) = address::<P>(&next_hop).and_then(|a| self.answer_for(a)) {
            self.deregister_unless_used(valid, out);
        }
    }

    fn answer_for(&self, addr: P::Addr) -> Option<(P, (Resolution, Option<P>))> {
        let (valid, answer) = self.answers.range(..=P::host(addr)).next_back()?;
        valid.contains(addr).then_some((*valid, *answer))
    }

    /// Returns the numbers of the next hops inside `prefix` about which the RIB is asked.
    fn inside(&self, prefix: P) -> impl Iterator<Item = u32> {
        let first = NextHop::at(prefix.addr().into());
        let in_prefix = move |hop: &NextHop| address::<P>(hop).is_some_and(|a| prefix.contains(a));
        let inside = self.by_address.range(first..).take_while(move |(hop, _)| in_prefix(hop));
        inside.filter(|(hop, _)| is_asked_about(hop)).map(|(_, id)| *id)
    }

    fn deregister_unless_used(&mut self, valid: P, out: &mut Outbox<Interest<P>>) {
        if self.inside(valid).next().is_none() {
            self.answers.remove(&valid);
            out.push(Interest::Deregister(valid));
        }
    }

    /// Takes the RIB's answer. Concerned entries are decided again by [`Resolver::slice`].
    pub fn answer(
        &mut self,
        answer: &InterestAnswer<P>,
        provenance: Provenance,
        out: &mut Outbox<Interest<P>>,
    ) {
        let (resolution, via) = match &answer.route {
            None => (Resolution::Unreachable, None),
            Some(route) => (
                Resolution::Reachable { metric: route.metric, connected: route.connected },
                Some(route.prefix).filter(|_| !route.connected),
            ),
        };
        // Answers that hold never overlap: one that this one covers or is covered by holds no more.
        self.answers.retain(|valid, _| !valid.covers(answer.valid) && !answer.valid.covers(*valid));
        self.answers.insert(answer.valid, (resolution, via));
        let concerned: Vec<u32> = self.inside(answer.valid).collect();
        for id in concerned {
            let Some(hop) = self.hops.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            if core::mem::replace(&mut hop.via, via) != via {
                self.moved.push(hop.next_hop);
            }
            if hop.resolution != resolution {
                hop.resolution = resolution;
                let is_listed = hop.redecide.is_some();
                hop.redecide = Some((0..hop.log.len(), provenance));
                if !is_listed {
                    self.redeciding.push_back(id);
                }
            }
        }
        self.deregister_unless_used(answer.valid, out);
    }

    /// Returns the prefix of the route to a next hop; `None` on a connected subnet, and for an unreachable next hop.
    pub fn resolved_by(&self, id: u32) -> Option<P> {
        self.hop(id)?.via
    }

    /// Takes the next hops whose route has another prefix than before.
    pub fn take_moved(&mut self) -> Vec<NextHop> {
        core::mem::take(&mut self.moved)
    }

    /// Decides an entry again in the next slice.
    pub fn redecide(&mut self, entry: u32, provenance: Provenance) {
        self.single.push((entry, provenance));
    }

    /// Returns true if a route of `prefix` would be the most specific route to its own next hop (RFC 4271, section 9.1.2.1).
    #[inline]
    pub fn leads_to_itself(&self, id: u32, prefix: impl Prefix) -> bool {
        self.hop(id).is_some_and(|hop| {
            hop.via.is_some_and(|via| via.len() < prefix.len())
                && AnyPrefix::of(prefix).contains(hop.next_hop.address)
        })
    }

    /// The RIB takes its answers inside or around `prefix` back. The answers hold until the new answer comes.
    pub fn invalid(&mut self, prefix: P, out: &mut Outbox<Interest<P>>) {
        let void: Vec<P> =
            self.answers.keys().filter(|v| v.covers(prefix) || prefix.covers(**v)).copied().collect();
        for valid in void {
            self.answers.remove(&valid);
            self.register_inside(valid, out);
        }
    }

    /// The RIB has forgotten everything: all is asked again.
    pub fn ask_again(&mut self, out: &mut Outbox<Interest<P>>) {
        self.answers.clear();
        self.register_inside(P::default_route(), out);
    }

    fn register_inside(&self, prefix: P, out: &mut Outbox<Interest<P>>) {
        let mut last = None;
        for addr in self.inside(prefix).filter_map(|id| address::<P>(&self.hop(id)?.next_hop)) {
            if last != Some(addr) {
                out.push(Interest::Register(addr));
            }
            last = Some(addr);
        }
    }

    /// An entry got a path through this next hop.
    #[inline]
    pub fn add_path(&mut self, id: u32, entry: u32, peer: PeerIndex) {
        if let Some(hop) = self.hop_mut(id) {
            if hop.paths == 0 {
                hop.user = Some(peer);
            }
            hop.user = hop.user.filter(|user| *user == peer);
            hop.paths += 1;
            hop.log.push(entry);
        }
    }

    /// An entry lost a path through this next hop.
    #[inline]
    pub fn remove_path(&mut self, id: u32) {
        if let Some(hop) = self.hops.get_mut(id as usize).and_then(Option::as_mut) {
            hop.paths -= 1;
            // A path more makes no log stale.
            if !hop.is_listed && hop.needs_compaction() {
                hop.is_listed = true;
                self.next_bloated.push(id);
            }
        }
    }

    /// Returns true if an answer of the RIB holds for every next hop, and every entry was decided by it.
    pub fn is_settled(&self) -> bool {
        let is_answered = |hop: &NextHop| address::<P>(hop).is_none_or(|a| self.answer_for(a).is_some());
        self.hops
            .iter()
            .flatten()
            .all(|h| h.redecide.is_none() && (!is_asked_about(&h.next_hop) || is_answered(&h.next_hop)))
            && self.single.is_empty()
    }

    /// Returns true if [`Resolver::slice`] or [`Resolver::next_bloated`] may have anything.
    #[inline]
    pub fn has_work(&self) -> bool {
        !(self.redeciding.is_empty() && self.next_bloated.is_empty() && self.single.is_empty())
    }

    /// Returns up to `limit` entries to decide again, with the cause; empty at the end.
    pub fn slice(&mut self, limit: usize, entries: &mut Vec<u32>) -> Option<Provenance> {
        if let Some((entry, provenance)) = self.single.pop() {
            entries.push(entry);
            return Some(provenance);
        }
        while let Some(id) = self.redeciding.front().copied() {
            if let Some(hop) = self.hop_mut(id)
                && let Some((left, provenance)) = hop.redecide.take()
            {
                let to = (left.start + limit).min(left.end);
                entries.extend_from_slice(&hop.log[left.start..to]);
                hop.redecide = (to < left.end).then_some((to..left.end, provenance));
                if !entries.is_empty() {
                    return Some(provenance);
                }
            }
            self.redeciding.pop_front();
        }
        None
    }

    /// A log that is mostly stale and not in use, for [`Resolver::squeezed`]: `(next hop, log)`.
    pub fn next_bloated(&mut self) -> Option<(u32, Vec<u32>)> {
        let Resolver { hops, next_bloated, .. } = self;
        let mut found = None;
        next_bloated.retain(|id| {
            let Some(hop) = hops.get_mut(*id as usize).and_then(Option::as_mut).filter(|h| h.is_listed)
            else {
                return false;
            };
            // What is in use is looked at again later.
            if found.is_some() || hop.redecide.is_some() {
                return true;
            }
            hop.is_listed = false;
            if hop.needs_compaction() {
                found = Some((*id, core::mem::take(&mut hop.log)));
            }
            false
        });
        found
    }

    /// Gives back a log without its stale and repeated entries.
    pub fn squeezed(&mut self, id: u32, log: Vec<u32>) {
        if let Some(hop) = self.hop_mut(id) {
            hop.log = log;
        }
    }

    /// Returns the next hops with their resolution, by address.
    pub fn view(&self) -> impl Iterator<Item = (&NextHop, Resolution, u32)> {
        self.by_address.iter().filter_map(|(hop, id)| {
            let known = self.hop(*id)?;
            Some((hop, known.resolution, known.paths))
        })
    }
}

#[cfg(test)]
mod tests;
