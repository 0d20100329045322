//! Interest registration (XORP, section 5.2.1): a watcher that asks for the route of an address receives the largest
//! range with the same answer, and a notice when the answer becomes invalid.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::GroupId;
use sluice_stage::{PrefixTable, TableKey};
use smallvec::SmallVec;

/// A watcher; the process knows its client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct WatcherId(pub u32);

/// Which routes count for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Scope {
    /// Routes for resolving a next hop: every route that does not lead back to the next hop.
    NextHop,
    /// Routes for forwarding.
    All,
}

/// A valid answer.
struct Registration<P> {
    /// The route of the answer; `None`: no route.
    matched: Option<P>,
    /// The groups of the route of the answer, and of more preferred routes that do not reach the address.
    groups: SmallVec<[GroupId; 1]>,
    watchers: SmallVec<[WatcherId; 2]>,
}

/// The valid answers, by their range. No two ranges overlap.
pub struct Interests<P: TableKey> {
    answers: PrefixTable<P, Registration<P>>,
}

impl<P: TableKey> Default for Interests<P> {
    fn default() -> Self {
        Interests { answers: PrefixTable::new() }
    }
}

impl<P: TableKey> Interests<P> {
    /// Returns the number of valid answers.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Returns true if there are no answers.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// The part of `valid` around `addr` that overlaps no earlier answer; the range of an earlier answer if it holds
    /// `addr`. (After the removal of routes, wider answers may be possible.)
    pub fn narrow(&self, valid: P, addr: P::Addr) -> P {
        match self.answers.longest_match_addr(addr) {
            Some((range, _)) => range,
            None => self.answers.largest_enclosing(valid, addr),
        }
    }

    /// Records the answer `valid` for `watcher`.
    pub fn register(
        &mut self,
        watcher: WatcherId,
        valid: P,
        matched: Option<P>,
        groups: SmallVec<[GroupId; 1]>,
    ) {
        let r = self.answers.get_or_insert_with(valid, || Registration {
            matched,
            groups: SmallVec::new(),
            watchers: SmallVec::new(),
        });
        r.groups = groups;
        if !r.watchers.contains(&watcher) {
            r.watchers.push(watcher);
        }
    }

    /// `watcher` no longer cares about the range.
    pub fn deregister(&mut self, watcher: WatcherId, valid: P) {
        if let Some(r) = self.answers.get_mut(valid) {
            r.watchers.retain(|w| *w != watcher);
            if r.watchers.is_empty() {
                self.answers.remove(valid);
            }
        }
    }

    /// `watcher` is gone.
    pub fn forget(&mut self, watcher: WatcherId) {
        let ranges: Vec<P> = self.answers.iter().map(|(p, _)| p).collect();
        for range in ranges {
            self.deregister(watcher, range);
        }
    }

    /// Handles an added, removed or changed route of `changed`: drops the affected answers and adds
    /// them to `invalidated` with their watchers.
    pub fn invalidate(&mut self, changed: P, invalidated: &mut Vec<(WatcherId, P)>) {
        if self.answers.is_empty() {
            return;
        }
        // A route inside the range overlays it; a route around it matters if it is at least as specific as the match.
        let mut hit: SmallVec<[P; 4]> = self
            .answers
            .covered(changed)
            .filter(|(_, r)| r.matched.is_none_or(|m| changed.len() >= m.len()))
            .map(|(range, _)| range)
            .collect();
        hit.extend(
            self.answers.longest_match(changed).map(|(range, _)| range).filter(|range| *range != changed),
        );
        for range in hit {
            self.drop_answer(range, invalidated);
        }
    }

    /// Drops the answers with the resolution of a group whose next hops changed.
    pub(crate) fn invalidate_group(&mut self, group: GroupId, invalidated: &mut Vec<(WatcherId, P)>) {
        let hit: Vec<P> =
            self.answers.iter().filter(|(_, r)| r.groups.contains(&group)).map(|(range, _)| range).collect();
        for range in hit {
            self.drop_answer(range, invalidated);
        }
    }

    /// Drops all answers.
    pub(crate) fn drop_all(&mut self, invalidated: &mut Vec<(WatcherId, P)>) {
        let all: Vec<P> = self.answers.iter().map(|(range, _)| range).collect();
        all.into_iter().for_each(|range| self.drop_answer(range, invalidated));
    }

    fn drop_answer(&mut self, range: P, invalidated: &mut Vec<(WatcherId, P)>) {
        if let Some(r) = self.answers.remove(range) {
            invalidated.extend(r.watchers.into_iter().map(|w| (w, range)));
        }
    }
}
