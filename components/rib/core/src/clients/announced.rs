//! Subscriptions before the decision: the routes of origins as the origins announced them, also those that another origin's route
//! beats, that no next hop resolves, and that a policy rejects. A copy of the RIB is made of these: it decides by itself.
//!
//! The subscriber first receives the existing routes (in the background), then every change. A prefix waits at most once for each
//! origin, and its route is read when the subscriber takes it: a slow subscriber sees no intermediate route, and costs at most the
//! size of the table's keys.

use super::subscription::{DUMP_PAUSE, Dump, SubscribedBatch, SubscribedOrigin, SubscriptionId};
use crate::entry::Entry;
use crate::entry::origin::{Origin, OriginId};
use crate::entry::set::{SetId, Sets};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;
use sluice_base::{Provenance, RouteAction, RouteBatch, RouteUpdate};
use sluice_machine::{Budget, Progress};
use sluice_stage::{Cursor, PrefixTable, TableKey};

/// A subscriber to announced routes.
pub struct AnnouncedSubscriber<P: TableKey> {
    /// The subscription's number.
    pub id: SubscriptionId,
    origins: Vec<String>,
    /// The numbers of the subscribed origins.
    allowed: Vec<OriginId>,
    /// The prefixes whose routes changed, by origin, with the event that changed each. No origin has an empty map.
    pending: BTreeMap<OriginId, BTreeMap<P, Provenance>>,
    /// The number of prefixes in `pending`.
    waiting: usize,
    /// The origin of the last batch: origins take turns.
    last: Option<OriginId>,
    dump: Dump,
    /// The place of the dump.
    cursor: Cursor<P>,
}

impl<P: TableKey> AnnouncedSubscriber<P> {
    /// A subscriber to routes of the named origins; none named: every origin but the interfaces' own.
    pub(crate) fn new(id: SubscriptionId, origins: Vec<String>, known: &[Origin]) -> Self {
        let mut subscriber = AnnouncedSubscriber {
            id,
            origins,
            allowed: Vec::new(),
            pending: BTreeMap::new(),
            waiting: 0,
            last: None,
            dump: Dump::Running,
            cursor: Cursor::Start,
        };
        subscriber.note_origins(known);
        subscriber
    }

    /// Handles new origins, which have no routes yet.
    pub(crate) fn note_origins(&mut self, known: &[Origin]) {
        let is_named = |name: &String| self.origins.is_empty() || self.origins.contains(name);
        let allowed = known.iter().enumerate();
        let allowed = allowed.filter(|(_, origin)| !origin.connected && is_named(&origin.name));
        self.allowed = allowed.map(|(number, _)| OriginId(number as u16)).collect();
    }

    /// Returns true if the subscriber receives routes of an origin.
    pub(crate) fn wants(&self, origin: OriginId) -> bool {
        self.allowed.contains(&origin)
    }

    /// Notes that an origin's announcement for a prefix changed.
    pub(crate) fn note(&mut self, origin: OriginId, prefix: P, provenance: Provenance) {
        if self.wants(origin) && self.pending.entry(origin).or_default().insert(prefix, provenance).is_none()
        {
            self.waiting += 1;
        }
    }

    /// A slice of the first dump.
    pub(crate) fn run_slice(&mut self, entries: &PrefixTable<P, Entry>, budget: &mut Budget) -> Progress {
        if self.dump != Dump::Running || self.waiting >= DUMP_PAUSE {
            return Progress::Done;
        }
        let mut walk = entries.iter_after(self.cursor);
        loop {
            let Some((prefix, entry)) = walk.next() else {
                self.dump = Dump::Ended;
                return Progress::Done;
            };
            self.cursor = Cursor::After(prefix);
            for path in entry.paths() {
                self.note(path.origin, prefix, path.provenance);
            }
            if !budget.spend(1) || self.waiting >= DUMP_PAUSE {
                return Progress::More;
            }
        }
    }

    /// Returns true if there are changes to take.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiting > 0 || self.dump == Dump::Ended
    }

    /// Takes at most `limit` changes, all of one origin: the batch's only one. The second value is true once: when everything that
    /// existed at the subscription has been taken.
    pub(crate) fn take(
        &mut self,
        entries: &PrefixTable<P, Entry>,
        origins: &[Origin],
        sets: &Sets,
        limit: usize,
    ) -> (SubscribedBatch<P>, bool) {
        let mut batch =
            SubscribedBatch { origins: Vec::new(), set_origins: Vec::new(), routes: RouteBatch::default() };
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let next =
            self.pending.range((behind, Bound::Unbounded)).next().or_else(|| self.pending.iter().next());
        if let Some(origin) = next.map(|(origin, _)| *origin) {
            self.last = Some(origin);
            batch.origins.extend(origins.get(usize::from(origin.0)).map(SubscribedOrigin::of));
            batch.routes = self.take_of(origin, entries, sets, limit);
            batch.set_origins = vec![0; batch.routes.sets.len()];
        }
        let done = self.dump == Dump::Ended && self.waiting == 0;
        if done {
            self.dump = Dump::Sent;
        }
        (batch, done)
    }

    fn take_of(
        &mut self,
        origin: OriginId,
        entries: &PrefixTable<P, Entry>,
        sets: &Sets,
        limit: usize,
    ) -> RouteBatch<P> {
        let mut routes = RouteBatch::default();
        let mut places: BTreeMap<SetId, u32> = BTreeMap::new();
        let Some(pending) = self.pending.get_mut(&origin) else { return routes };
        while routes.updates.len() < limit
            && let Some((prefix, provenance)) = pending.pop_first()
        {
            self.waiting -= 1;
            let paths = entries.get(prefix).map(Entry::paths).unwrap_or_default();
            let (action, provenance) = match paths.iter().find(|path| path.origin == origin) {
                None => (RouteAction::Delete, provenance),
                Some(path) => {
                    let announced = sets.source(path.set);
                    let index = *places.entry(announced).or_insert_with(|| {
                        routes.sets.push(sets.slot(announced).set.clone());
                        (routes.sets.len() - 1) as u32
                    });
                    (RouteAction::Set(index), path.provenance)
                }
            };
            routes.updates.push(RouteUpdate { prefix, action, provenance });
        }
        if pending.is_empty() {
            self.pending.remove(&origin);
        }
        routes
    }
}
