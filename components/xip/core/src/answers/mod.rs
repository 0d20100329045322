//! Decisions on rows that are kept: router, forest and cache as one.
//!
//! A decision on a row from a device is cached, and hangs in the forest on everything that it rests on. A change of the routing
//! state reaches the decisions that rest on it. A row that was asked for lately is decided again in the same turn and its answer is
//! overwritten, so that the program never misses it; a row that was not is taken out.

mod program;

pub use program::action;

use crate::anchor::{Deps, Touch};
use crate::answer::{Answer, NeighborId};
use crate::cache::{Cache, CacheEntryId, HashKey, Lines, Put};
use crate::forest::Forest;
use crate::router::{Outcome, Router};
use crate::row::Row;
use alloc::vec::Vec;
use program::Interfaces;
use sluice_base::{Instant, InterfaceIndex, Xid};

/// Counts of what changes did to cached rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reached {
    /// Rows decided again and overwritten in place.
    pub overwritten: u64,
    /// Rows taken out.
    pub taken_out: u64,
    /// Answers that differed from a fresh decision when a hit was checked. Always 0 in a correct router.
    pub wrong: u64,
    /// Hits checked.
    pub checked: u64,
    /// Keys drawn anew because of equal tags.
    pub rekeyed: u64,
}

/// Decisions, and those that are kept.
pub struct Answers<L> {
    router: Router,
    forest: Forest,
    cache: Option<Cache<L>>,
    /// The answers of cached rows, by their numbers.
    kept: Vec<Option<Answer>>,
    /// The answer that was given last without being kept: its numbers are needed until the packet is gone.
    loose: Option<Answer>,
    deps: Deps,
    /// The XID whose answer the last decision waits for.
    pending: Option<Xid>,
    reached: Reached,
    needs_key: bool,
    /// The interfaces of neighbors, by their numbers.
    interfaces: Interfaces,
    /// Sweeps without a hit after which a row is not decided again when a change reaches it.
    lately: u8,
}

impl<L: Lines> Answers<L> {
    /// Makes decisions by `router`; `most_links` bounds the forest, `seed` is secret.
    pub fn new(router: Router, most_links: usize, seed: u64) -> Self {
        Answers {
            router,
            forest: Forest::new(seed, most_links),
            cache: None,
            kept: Vec::new(),
            loose: None,
            deps: Deps::default(),
            pending: None,
            reached: Reached::default(),
            needs_key: false,
            interfaces: Interfaces::new(),
            lately: 2,
        }
    }

    /// Begins to cache, or stops.
    pub fn set_cache(&mut self, cache: Option<Cache<L>>) {
        self.forget_all();
        self.kept.clear();
        self.kept.resize(cache.as_ref().map_or(0, Cache::slots), None);
        self.cache = cache;
    }

    /// Returns the router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the router, for questions that have to be sent. Changes of decisions go through [`Answers::change`].
    pub(crate) fn router_mut(&mut self) -> &mut Router {
        &mut self.router
    }

    /// Notes the interface of a neighbor, before the neighbor is a route. A number keeps its interface.
    pub fn set_interface(&mut self, neighbor: NeighborId, interface: InterfaceIndex) {
        self.interfaces.insert(neighbor, interface);
    }

    /// Changes the router, and decides again what the change reaches. `change` returns what it touched.
    pub fn change<R>(
        &mut self,
        now: Instant,
        change: impl FnOnce(&mut Router) -> (R, crate::anchor::Touched),
    ) -> R {
        let (result, touched) = change(&mut self.router);
        touched.iter().for_each(|touch| self.touch(now, touch));
        result
    }

    /// Returns the cache.
    pub fn cache(&self) -> Option<&Cache<L>> {
        self.cache.as_ref()
    }

    /// Returns the forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Returns the counts.
    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// Returns true if two rows have equal tags: the caller draws a new key ([`Answers::rekey`]).
    pub fn needs_key(&self) -> bool {
        self.needs_key
    }

    /// Takes all rows out and hashes by another key.
    pub fn rekey(&mut self, key: HashKey) {
        self.forget_all();
        if let Some(cache) = &mut self.cache {
            cache.rekey(key);
        }
        self.needs_key = false;
        self.reached.rekeyed += 1;
    }

    /// Takes all rows out.
    pub fn clear(&mut self) {
        self.forget_all();
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
    }

    fn forget_all(&mut self) {
        for number in 0..self.kept.len() {
            self.forget(CacheEntryId(number as u32));
        }
    }

    /// Clears the marks of hits of some slots; see [`Cache::sweep`].
    pub fn sweep(&mut self, most: usize) -> bool {
        self.cache.as_mut().is_none_or(|cache| cache.sweep(most))
    }

    /// Decides on a row, and caches the decision on a row from a device. The answer's numbers hold until the next call.
    /// `None` if the decision is pending or failed.
    pub fn answer(&mut self, now: Instant, row: &Row) -> Option<Answer> {
        if let Some(loose) = self.loose.take() {
            self.router.release(&loose);
        }
        let cached = self.cache.as_ref().filter(|_| row.is_input).and_then(|cache| cache.find(row));
        self.pending = None;
        let (answer, is_cacheable) = match self.router.decide(now, row, &mut self.deps) {
            Outcome::Decided { answer, is_cacheable, .. } => (answer, is_cacheable),
            Outcome::Pending(xid) => {
                self.pending = Some(xid);
                return None;
            }
            Outcome::Failed(_) => return None,
        };
        self.loose = Some(answer);
        if let (Some(id), Some(cache)) = (cached, &mut self.cache) {
            // The packet came here because the program left it to this process, or to check a hit.
            self.reached.checked += 1;
            if cache.answer(id)
                != Some(program::word(answer, self.router.ports(), &self.interfaces, cache.lines_mut()))
            {
                self.reached.wrong += 1;
                self.take_out(id);
            }
            return Some(answer);
        }
        if row.is_input && is_cacheable {
            self.keep(row, answer);
        }
        Some(answer)
    }

    /// Returns the XID whose answer the last call of [`Answers::answer`] waits for.
    pub fn pending(&self) -> Option<Xid> {
        self.pending
    }

    fn keep(&mut self, row: &Row, answer: Answer) {
        let Some(cache) = &mut self.cache else { return };
        let word = program::word(answer, self.router.ports(), &self.interfaces, cache.lines_mut());
        match cache.put(row, word) {
            Put::NotAdmitted => {}
            Put::Collision { lost } => {
                self.forget(lost);
                self.needs_key = true;
            }
            Put::Stored { id, evicted } => {
                if evicted {
                    self.forget(id);
                }
                self.loose = None;
                if let Some(place) = self.kept.get_mut(id.0 as usize) {
                    *place = Some(answer);
                }
                if self.forest.attach(id, self.deps.anchors()).is_err() {
                    // Without its anchors the row would outlive changes.
                    self.loose = self.kept.get_mut(id.0 as usize).and_then(Option::take);
                    if let Some(cache) = &mut self.cache {
                        cache.take_out(id);
                    }
                }
            }
        }
    }

    /// Gives up the answer of a row and its anchors.
    fn forget(&mut self, id: CacheEntryId) {
        if let Some(answer) = self.kept.get_mut(id.0 as usize).and_then(Option::take) {
            self.forest.detach(id);
            self.router.release(&answer);
        }
    }

    fn take_out(&mut self, id: CacheEntryId) {
        self.forget(id);
        if let Some(cache) = &mut self.cache {
            cache.take_out(id);
        }
    }

    /// Decides again what rests on a part of the routing state.
    pub fn touch(&mut self, now: Instant, touch: &Touch) {
        let mut entries: Vec<CacheEntryId> = self.forest.touched(touch).collect();
        entries.sort_unstable();
        entries.dedup();
        for id in entries {
            self.decide_again(now, id);
        }
    }

    fn decide_again(&mut self, now: Instant, id: CacheEntryId) {
        let Some(cache) = &mut self.cache else { return };
        let row = cache.row(id).filter(|_| cache.was_used(id, self.lately));
        if let Some(row) = row
            && let Outcome::Decided { answer, is_cacheable, .. } =
                self.router.decide(now, &row, &mut self.deps)
        {
            if is_cacheable && self.forest.attach(id, self.deps.anchors()).is_ok() {
                let word = program::word(answer, self.router.ports(), &self.interfaces, cache.lines_mut());
                cache.set(id, word);
                self.reached.overwritten += 1;
                let before = self.kept.get_mut(id.0 as usize).and_then(|place| place.replace(answer));
                if let Some(before) = before {
                    self.router.release(&before);
                }
                return;
            }
            self.router.release(&answer);
        }
        self.reached.taken_out += 1;
        self.take_out(id);
    }
}
