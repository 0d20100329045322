//! The histories of flapping routes (RFC 2439): penalties, and lists of histories by due time.
//!
//! Routes have no timers (section 4.8.7): each history is in a list of the histories due in the same second, when a suppressed
//! route can be used again, or a history can be forgotten. A due history whose penalty has grown meanwhile moves to a later list.

use super::decay::{FRACTION, time_to};
use super::history::{DampedView, DampingCounts, History, HistoryState, NONE, Outcome};
use super::profiles::{Choice, Figures, Profiles, ROUTERS};
use super::rules::{DampingRules, most};
use crate::hash::HashSeed;
use crate::shard::entry::PeerIndex;
use crate::slab::Slab;
use crate::wire::FamilyKey;
use alloc::collections::BTreeMap;
use hashbrown::HashTable;
use sluice_base::Duration;

/// The histories of a shard.
#[derive(Debug)]
pub(crate) struct Histories<P> {
    pub profiles: Profiles,
    /// The most histories.
    most: usize,
    /// The present time in tenths of a second.
    pub now: u32,
    pub histories: Slab<History<P>>,
    index: HashTable<u32>,
    seed: HashSeed,
    /// The first history of each list, by the second in which its histories are due.
    pub lists: BTreeMap<u32, u32>,
    pub counts: DampingCounts,
}

impl<P: FamilyKey> Histories<P> {
    pub fn new(rules: &DampingRules, parts: usize, seed: HashSeed) -> Self {
        Histories {
            profiles: Profiles::new(rules),
            most: most(rules, parts),
            now: 0,
            histories: Slab::default(),
            index: HashTable::new(),
            seed,
            lists: BTreeMap::new(),
            counts: DampingCounts::default(),
        }
    }

    /// Sets the router's parameters, of a router with this number of tables.
    pub fn set_rules(&mut self, rules: &DampingRules, parts: usize) {
        self.profiles.set_routers(rules);
        self.most = most(rules, parts);
    }

    fn hash(&self, prefix: P, peer: PeerIndex) -> u64 {
        hash(self.seed, prefix, peer)
    }

    pub fn find(&self, prefix: P, peer: PeerIndex) -> Option<u32> {
        let is_it = |id: &u32| (self.histories[*id].prefix, self.histories[*id].peer) == (prefix, peer);
        self.index.find(self.hash(prefix, peer), is_it).copied()
    }

    /// Returns true if a route is suppressed.
    #[inline]
    pub fn is_suppressed(&self, prefix: P, peer: PeerIndex) -> bool {
        self.counts.suppressed > 0
            && self.find(prefix, peer).is_some_and(|id| self.histories[id].is_suppressed)
    }

    fn insert(&mut self, history: History<P>) -> u32 {
        let hash = self.hash(history.prefix, history.peer);
        self.counts.histories += 1;
        self.counts.suppressed += u64::from(history.is_suppressed);
        let id = self.histories.insert(history);
        let (histories, seed) = (&self.histories, self.seed);
        let rehash = |id: &u32| hash_of(seed, &histories[*id]);
        self.index.insert_unique(hash, id, rehash);
        id
    }

    /// Returns the parameters of a history.
    fn figures(&self, id: u32) -> Figures {
        self.profiles.figures(self.histories[id].profile)
    }

    /// Gives a history other parameters: the penalty of before is decayed, and counts on.
    pub fn choose(&mut self, id: u32, choice: Choice<'_>) {
        let damping = match choice {
            Choice::Known => return,
            Choice::Routers => None,
            Choice::By(damping) => Some(damping),
        };
        let (before, now) = (self.histories[id].profile, self.now);
        if self.profiles.damping(before) == damping {
            return;
        }
        let old = self.profiles.figures(before);
        let profile = self.profiles.enter(damping);
        self.profiles.leave(before);
        let new = self.profiles.figures(profile);
        let history = &mut self.histories[id];
        history.penalty = old.decayed(history.penalty, now.saturating_sub(history.updated)).min(new.ceiling);
        (history.updated, history.profile) = (now, profile);
        let due = self.due(id);
        self.relink(id, due);
    }

    /// Adds a penalty to a route.
    #[inline(never)]
    pub fn flap(&mut self, prefix: P, peer: PeerIndex, penalty: u32, choice: Choice<'_>) {
        let id = match self.find(prefix, peer) {
            Some(id) => id,
            None if self.histories.len() >= self.most => {
                self.counts.untracked += 1;
                return;
            }
            None => {
                let id = self.insert(History::new(prefix, peer, self.now, ROUTERS));
                self.link(id, self.now / 10);
                id
            }
        };
        self.choose(id, choice);
        let (figures, now) = (self.figures(id), self.now);
        let history = &mut self.histories[id];
        let before = figures.decayed(history.penalty, now.saturating_sub(history.updated));
        history.penalty = before.saturating_add(penalty << FRACTION).min(figures.ceiling);
        (history.updated, history.flaps) = (now, history.flaps.saturating_add(1));
        if history.penalty > figures.suppress && !history.is_suppressed {
            history.is_suppressed = true;
            self.counts.suppressed += 1;
        }
        // A later turn can wait until the earlier one comes, but for a new history, whose turn is at once.
        let due = self.due(id);
        let listed = self.histories[id].due;
        if due < listed || self.histories[id].flaps == 1 {
            self.relink(id, due);
        }
    }

    /// Returns the second in which something follows for a history.
    fn due(&self, id: u32) -> u32 {
        let (history, figures) = (&self.histories[id], self.figures(id));
        let target = if history.is_suppressed { figures.reuse } else { figures.reuse / 2 };
        let time = time_to(history.penalty, target.max(1), figures.half_life);
        history.updated.saturating_add(time).div_ceil(10)
    }

    fn link(&mut self, id: u32, due: u32) {
        let first = self.lists.insert(due, id).unwrap_or(NONE);
        if first != NONE {
            self.histories[first].before = id;
        }
        let history = &mut self.histories[id];
        (history.due, history.before, history.after) = (due, NONE, first);
    }

    fn unlink(&mut self, id: u32) {
        let History { due, before, after, .. } = self.histories[id];
        if after != NONE {
            self.histories[after].before = before;
        }
        match (before, after) {
            (NONE, NONE) => drop(self.lists.remove(&due)),
            (NONE, after) => drop(self.lists.insert(due, after)),
            (before, after) => self.histories[before].after = after,
        }
    }

    fn relink(&mut self, id: u32, due: u32) {
        self.unlink(id);
        self.link(id, due);
    }

    pub fn remove(&mut self, id: u32) {
        self.unlink(id);
        let history = &self.histories[id];
        let hash = self.hash(history.prefix, history.peer);
        self.counts.suppressed -= u64::from(history.is_suppressed);
        self.counts.histories -= 1;
        self.profiles.leave(history.profile);
        if let Ok(place) = self.index.find_entry(hash, |known| *known == id) {
            place.remove();
        }
        // The mark of a free place.
        self.histories[id].flaps = 0;
        self.histories.remove(id);
    }

    /// Returns true if a place has a history.
    pub fn is_used(&self, id: u32) -> bool {
        self.histories[id].flaps > 0
    }

    /// Returns the history whose turn is first, if it has come.
    pub fn first_due(&self) -> Option<u32> {
        let (due, id) = self.lists.first_key_value()?;
        (*due <= self.now / 10).then_some(*id)
    }

    /// Serves a due history. `is_damped` is false if the peer is no longer damped.
    pub fn turn(&mut self, id: u32, is_damped: bool) -> Outcome<P> {
        let (figures, now) = (self.figures(id), self.now);
        let history = &mut self.histories[id];
        let (prefix, peer, was_suppressed) = (history.prefix, history.peer, history.is_suppressed);
        history.penalty = figures.decayed(history.penalty, now.saturating_sub(history.updated));
        history.updated = now;
        let penalty = if is_damped { history.penalty } else { 0 };
        if was_suppressed && penalty <= figures.reuse {
            history.is_suppressed = false;
            self.counts.suppressed -= 1;
        }
        let is_suppressed = self.histories[id].is_suppressed;
        if !is_suppressed && penalty <= figures.reuse / 2 {
            self.remove(id);
        } else {
            // Not the list that is being emptied.
            let due = self.due(id).max(now / 10 + 1);
            self.relink(id, due);
            if is_suppressed || !was_suppressed {
                return Outcome::Waits;
            }
        }
        if was_suppressed { Outcome::Reusable(prefix, peer) } else { Outcome::Forgotten }
    }

    /// Has the turn of histories come at once, with what `change` makes of each.
    pub fn hurry(&mut self, mut change: impl FnMut(&P, PeerIndex, &mut u32) -> bool) {
        for id in 0..self.histories.end() {
            if self.is_used(id) {
                let history = &mut self.histories[id];
                if change(&history.prefix, history.peer, &mut history.penalty) {
                    self.relink(id, 0);
                }
            }
        }
    }

    /// Takes the history of another process, unless there are as many as may be.
    pub fn restore(&mut self, state: &HistoryState<P>) {
        let HistoryState { prefix, peer, penalty, updated, flaps, is_suppressed, ref damping } = *state;
        let peer = PeerIndex(peer);
        if self.find(prefix, peer).is_some() || self.histories.len() >= self.most || flaps == 0 {
            return;
        }
        self.now = self.now.max(updated);
        let history = History::new(prefix, peer, updated, self.profiles.enter(damping.as_ref()));
        let id = self.insert(History { flaps, penalty, is_suppressed, ..history });
        self.link(id, self.due(id));
    }

    /// Returns the history at a place, for a new process; `None` for a free place.
    pub fn export(&self, id: u32) -> Option<HistoryState<P>> {
        let History { prefix, peer, penalty, updated, flaps, is_suppressed, profile, .. } =
            self.histories[id];
        let (peer, damping) = (peer.0, self.profiles.damping(profile).cloned());
        let state = HistoryState { prefix, peer, penalty, updated, flaps, is_suppressed, damping };
        self.is_used(id).then_some(state)
    }

    /// Returns the view of a history at a time in tenths of a second.
    pub fn view(&self, id: u32, now: u32) -> DampedView<P> {
        let history = &self.histories[id];
        let passed = now.saturating_sub(history.updated);
        let figures = self.figures(id);
        let penalty = figures.decayed(history.penalty, passed);
        let left = || time_to(penalty, figures.reuse, figures.half_life);
        DampedView {
            prefix: history.prefix,
            peer: history.peer,
            penalty: penalty >> FRACTION,
            flaps: history.flaps,
            suppressed_for: history.is_suppressed.then(|| Duration::from_millis(u64::from(left()) * 100)),
            damping: self.profiles.damping(history.profile).map(|damping| damping.name.clone()),
        }
    }
}

fn hash<P: FamilyKey>(seed: HashSeed, prefix: P, peer: PeerIndex) -> u64 {
    (seed.prefix(&prefix) ^ u64::from(peer.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn hash_of<P: FamilyKey>(seed: HashSeed, history: &History<P>) -> u64 {
    hash(seed, history.prefix, history.peer)
}

#[cfg(test)]
mod tests {
    use super::super::rules::{HIGHEST, WITHDRAWAL};
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use sluice_base::{Ipv4Prefix, Ipv6Prefix, Prefix};
    use sluice_policy::source::Damping;

    fn prefix(number: u32) -> Ipv4Prefix {
        Ipv4Prefix::from_parts(0x0a00_0000 + (number << 8), 24).expect("a prefix")
    }

    fn histories(rules: DampingRules) -> Histories<Ipv4Prefix> {
        Histories::new(&rules, 1, HashSeed(7))
    }

    /// Serves due histories. Returns the prefixes of routes in use again.
    fn turns(histories: &mut Histories<Ipv4Prefix>, is_damped: bool) -> Vec<Ipv4Prefix> {
        let mut used = Vec::new();
        while let Some(id) = histories.first_due() {
            if let Outcome::Reusable(prefix, _) = histories.turn(id, is_damped) {
                used.push(prefix);
            }
        }
        used
    }

    /// Checks that lists, index and counts agree.
    fn check(histories: &Histories<Ipv4Prefix>) {
        let mut listed = BTreeSet::new();
        for (due, first) in &histories.lists {
            let (mut id, mut before) = (*first, NONE);
            while id != NONE {
                let history = &histories.histories[id];
                assert_eq!((history.due, history.before), (*due, before));
                assert!(listed.insert(id) && histories.find(history.prefix, history.peer) == Some(id));
                (before, id) = (id, history.after);
            }
        }
        let suppressed = listed.iter().filter(|id| histories.histories[**id].is_suppressed).count();
        assert_eq!(listed.len(), histories.index.len());
        assert_eq!(
            (listed.len(), suppressed),
            (histories.counts.histories as usize, histories.counts.suppressed as usize)
        );
        assert!(listed.len() <= histories.most);
    }

    #[test]
    fn a_history_is_small() {
        assert_eq!(size_of::<History<Ipv4Prefix>>(), 36);
        assert!(size_of::<History<Ipv6Prefix>>() <= 52);
    }

    #[test]
    fn ceilings_are_those_of_the_longest_time() {
        assert_eq!(DampingRules::DEFAULT.ceiling(), 12_000);
        assert_eq!(
            DampingRules { half_life: 1, max_suppress_time: 255, ..DampingRules::DEFAULT }.ceiling(),
            HIGHEST
        );
        assert_eq!(DampingRules { half_life: 30, ..DampingRules::DEFAULT }.ceiling(), 3000);
    }

    #[test]
    fn the_time_wraps_nothing() {
        let mut histories = histories(DampingRules::DEFAULT);
        histories.now = u32::MAX - 5;
        (0..9).for_each(|_| histories.flap(prefix(1), PeerIndex(20), WITHDRAWAL, Choice::Known));
        check(&histories);
        assert!(histories.is_suppressed(prefix(1), PeerIndex(20)));
        histories.hurry(|_, _, _| true);
        assert_eq!(turns(&mut histories, false), [prefix(1)]);
        check(&histories);
    }

    proptest! {
        #[test]
        fn lists_and_index_agree(
            steps in prop::collection::vec((0_u32..12, 0_u16..2, prop_oneof![Just(0_u32), 1_u32..20_000], 0_u8..20), 0..150),
            most in 1_u32..20,
        ) {
            let mut histories = histories(DampingRules { histories: most, suppress: 1500, ..DampingRules::DEFAULT });
            for (number, peer, wait, what) in steps {
                histories.now += wait;
                let peer = PeerIndex(20 + peer);
                match what {
                    0 => histories.hurry(|_, of, penalty| { *penalty = 0; of == peer }),
                    1 => drop(turns(&mut histories, false)),
                    2 => {
                        if let Some(id) = histories.find(prefix(number), peer) {
                            let state = histories.export(id).expect("it is used");
                            histories.remove(id);
                            histories.restore(&state);
                        }
                    }
                    3..8 => drop(turns(&mut histories, true)),
                    8 => histories.flap(prefix(number), peer, WITHDRAWAL, Choice::Routers),
                    9..12 => {
                        let half_life = what - 8;
                        let damping = Damping { half_life, ..Damping::default() };
                        histories.flap(prefix(number), peer, WITHDRAWAL, Choice::By(&damping));
                    }
                    _ => histories.flap(prefix(number), peer, WITHDRAWAL, Choice::Known),
                }
                check(&histories);
            }
            histories.now += 60 * 600 * 3;
            turns(&mut histories, true);
            check(&histories);
            prop_assert_eq!(histories.counts.histories, 0);
            prop_assert!(histories.lists.is_empty());
        }
    }

    #[test]
    fn many_routes_flap() {
        flap(2000);
    }

    #[test]
    fn a_million_routes_flap() {
        sluice_testkit::long!("flapping routes");
        flap(1_000_000);
    }

    fn flap(many: u32) {
        let mut histories = histories(DampingRules { histories: many, ..DampingRules::DEFAULT });
        for round in 0..8 {
            histories.now = round * 50;
            (0..many)
                .for_each(|number| histories.flap(prefix(number), PeerIndex(20), WITHDRAWAL, Choice::Known));
        }
        histories.flap(prefix(many), PeerIndex(20), WITHDRAWAL, Choice::Known);
        let counts = histories.counts;
        assert_eq!((counts.histories, counts.suppressed, counts.untracked), (many.into(), many.into(), 1));
        assert!(turns(&mut histories, true).is_empty());
        histories.now += 60 * 600;
        assert_eq!(turns(&mut histories, true).len(), many as usize);
        assert_eq!(histories.counts.suppressed, 0);
    }
}
