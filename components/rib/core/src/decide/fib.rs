//! The changes for the forwarding engine, pulled by the process when the engine can accept more.

use super::family::FamilyRib;
use crate::entry::SentRoute;
use crate::entry::routes::{RibRoute, Shared};
use alloc::vec::Vec;
use sluice_base::{Address, AnyPrefix, FibBatch, FibRoute, Prefix, Provenance};
use sluice_stage::TableKey;

impl<P: TableKey> FamilyRib<P> {
    /// Returns true if the engine still lacks changes.
    pub(crate) fn has_fib_work(&self, shared: &Shared) -> bool {
        !self.downstream.fib_queue.is_empty() || shared.groups.has_changes(P::ID)
    }

    /// Fills `batch` (emptied first) with changes for the engine, at most `limit` routes.
    pub(crate) fn fill_fib(&mut self, shared: &mut Shared, limit: usize, batch: &mut FibBatch<P, Address>) {
        batch.groups.clear();
        batch.routes.clear();
        batch.unused.clear();
        while batch.routes.len() < limit
            && let Some((prefix, sent)) = self.downstream.fib_queue.pop()
        {
            self.send_prefix(shared, prefix, sent, batch);
        }
        shared.groups.take_changes(P::ID, &mut batch.groups, &mut batch.unused, &mut shared.gone);
        batch.groups.iter().for_each(|(id, forwarding)| self.downstream.digest.group(*id, forwarding));
        batch.unused.iter().for_each(|id| self.downstream.digest.unused(*id));
    }

    fn send_prefix(
        &mut self,
        shared: &mut Shared,
        prefix: P,
        sent: Option<SentRoute>,
        batch: &mut FibBatch<P, Address>,
    ) {
        let route = self.forwarded(prefix);
        let Some(entry) = self.entries.get_mut(prefix) else { return };
        entry.set_queued(false);
        let provenance = entry.selected().map_or(Provenance::NONE, |path| path.provenance);
        let wanted = wanted(shared, route);
        if let Some(wanted) = wanted {
            entry.set_sent(wanted, &shared.sets);
        }
        let is_over = entry.is_over();
        if wanted != sent {
            let announced = |sent: SentRoute| (sent.group, sent.is_external);
            self.downstream.digest.route(AnyPrefix::of(prefix), sent.map(announced), wanted.map(announced));
            self.rejected.remove(&prefix);
            if let Some(SentRoute { group, .. }) = wanted
                && shared.groups.use_in_fib(group)
                && let Some(resolved) = &shared.groups.group(group).resolved
            {
                batch.groups.push((group, resolved.clone()));
            }
            if let Some(SentRoute { group, .. }) = sent {
                shared.groups.unuse_in_fib(group);
            }
            let is_external = wanted.is_some_and(|wanted| wanted.is_external);
            let group = wanted.map(|wanted| wanted.group);
            batch.routes.push(FibRoute { prefix, group, is_external, provenance });
        }
        if is_over {
            self.entries.remove(prefix);
        }
    }

    /// Handles an engine that is new, or no longer accepts routes. Every record of sent groups is void, and either
    /// every prefix waits to be sent, or none. Walks once over the table; such changes are rare.
    pub(crate) fn begin_fib(&mut self, shared: &Shared) {
        self.downstream.fib_queue.clear();
        self.downstream.digest.reset(shared.digest_key);
        self.downstream.has_engine = shared.feeds_engine(P::ID);
        self.rejected.clear();
        let mut over = Vec::new();
        for (prefix, entry) in self.entries.iter_mut() {
            entry.take_sent(&shared.sets);
            let waits = self.downstream.has_engine && entry.selected().is_some();
            entry.set_queued(waits);
            if waits {
                self.downstream.fib_queue.push(prefix, None);
            } else if entry.is_over() {
                over.push(prefix);
            }
        }
        for prefix in over {
            self.entries.remove(prefix);
        }
    }
}

/// The route that the engine should have. The engine installs subnets of interfaces by itself.
fn wanted(shared: &Shared, route: Option<RibRoute>) -> Option<SentRoute> {
    let route = route.filter(|route| !shared.origin(route.origin).connected)?;
    let is_external = shared.origin(route.origin).external;
    Some(SentRoute { group: shared.sets.slot(route.set).group, is_external })
}

/// Returns true if a prefix can be in a forwarding table; link-local subnets belong to every link and cannot.
pub(crate) fn is_routable<P: Prefix>(prefix: P) -> bool {
    match AnyPrefix::of(prefix).addr() {
        Address::Ip(core::net::IpAddr::V6(a)) => !(a.is_unicast_link_local() && prefix.len() >= 10),
        Address::Ip(core::net::IpAddr::V4(_)) | Address::Identifier(_) => true,
    }
}
