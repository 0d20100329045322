//! The receivers of decisions: the stages for selected routes, subscribers, and the forwarding engine.

use crate::entry::origin::OriginId;
use crate::entry::queue::Queue;
use crate::entry::routes::{RibRoute, RibTable, Shared};
use crate::entry::{Entry, SentRoute};
use alloc::vec::Vec;
use sluice_base::{AnnouncedDigest, DigestKey, Provenance};
use sluice_stage::{Action, Batch, Change, TableKey};

/// Decisions not yet sent downstream.
pub(crate) struct Downstream<P: TableKey> {
    /// Prefixes with a selected route.
    pub(crate) selected_count: u64,
    /// Prefixes with waiting changes for the engine, each once, with the route last sent to the engine.
    pub(crate) fib_queue: Queue<P>,
    /// Prefixes with an added, changed or removed route, as input for the resolution.
    pub(crate) changed: Vec<P>,
    /// True while there is an engine that accepts routes of the family.
    pub(crate) has_engine: bool,
    /// The digests of what the engine was sent.
    pub(crate) digest: AnnouncedDigest,
    /// Changes of selected routes, for stages and subscribers.
    pub(crate) selected_batch: Batch<RibTable<P>>,
}

impl<P: TableKey> Default for Downstream<P> {
    fn default() -> Self {
        Downstream {
            selected_count: 0,
            fib_queue: Queue::default(),
            changed: Vec::new(),
            has_engine: false,
            digest: AnnouncedDigest::new(DigestKey(0)),
            selected_batch: Batch::new(),
        }
    }
}

/// An entry to be decided again.
pub(crate) struct Open<'a, P> {
    pub(crate) prefix: P,
    pub(crate) entry: &'a mut Entry,
    /// The route selected before.
    pub(crate) before: Option<RibRoute>,
    /// The route sent to the engine, unless the queue has it already.
    pub(crate) sent: Option<SentRoute>,
    /// The event that opened the entry.
    pub(crate) provenance: Provenance,
}

impl<P: TableKey> Downstream<P> {
    /// Decides an entry again and stores the differences for sending: for the selected_routes only if a route of a wanted origin was
    /// or is selected.
    pub(crate) fn settle(
        &mut self,
        shared: &Shared,
        is_wanted: impl Fn(OriginId) -> bool,
        open: Open<'_, P>,
    ) {
        let Open { prefix, entry, before, sent, provenance } = open;
        entry.select(shared.decide(prefix, entry.paths()));
        let after = entry.selected().map(RibRoute::of);
        let Some(action) = Action::between(before, after) else {
            if let Some(sent) = sent {
                entry.set_sent(sent, &shared.sets);
            }
            return;
        };
        match action {
            Action::Add(_) => self.selected_count += 1,
            Action::Delete(_) => self.selected_count -= 1,
            Action::Replace { .. } => {}
        }
        let concerns = |route: Option<&RibRoute>| route.is_some_and(|route| is_wanted(route.origin));
        if concerns(action.before()) || concerns(action.after()) {
            self.selected_batch.push(Change { key: prefix, action, provenance });
            entry.set_in_batch(true);
        }
        if self.has_engine && !entry.is_queued() {
            entry.set_queued(true);
            self.fib_queue.push(prefix, sent);
        }
    }
}
