//! What the forwarding engine is told: pulled by the shell when the engine can take more.

use crate::family::{FamilyRib, Shared};
use sluice_base::{FibBatch, FibRoute, GroupId, Prefix, Provenance};
use sluice_stage::TableKey;

impl<P: TableKey> FamilyRib<P> {
    /// Whether the engine has not been told everything.
    pub fn has_fib_work(&self, shared: &Shared) -> bool {
        !self.fib_queue.is_empty() || shared.groups.has_changes(P::FAMILY)
    }

    /// Fills `batch` (emptied first) with what the engine must be told, at most `limit` routes.
    pub(crate) fn fill_fib(&mut self, shared: &mut Shared, limit: usize, batch: &mut FibBatch<P>) {
        batch.groups.clear();
        batch.routes.clear();
        batch.unused.clear();
        while batch.routes.len() < limit
            && let Some(prefix) = self.fib_queue.pop_front()
        {
            self.tell_prefix(shared, prefix, batch);
        }
        shared.groups.take_changes(P::FAMILY, &mut batch.groups, &mut batch.unused, &mut shared.gone);
    }

    fn tell_prefix(&mut self, shared: &mut Shared, prefix: P, batch: &mut FibBatch<P>) {
        let Some(entry) = self.entries.get_mut(prefix) else { return };
        entry.queued = false;
        let (wanted, provenance) = wanted(shared, entry.selected());
        let told = entry.fib;
        if wanted != told {
            entry.fib = wanted;
            self.rejected.remove(&prefix);
            if let Some(group) = wanted
                && shared.groups.use_in_fib(group)
                && let Some(resolved) = &shared.groups.group(group).resolved
            {
                batch.groups.push((group, resolved.clone()));
            }
            if let Some(group) = told {
                shared.groups.unuse_in_fib(group);
            }
            batch.routes.push(FibRoute { prefix, group: wanted, provenance });
        }
        let Some(entry) = self.entries.get(prefix) else { return };
        if entry.paths().is_empty() && entry.fib.is_none() {
            self.entries.remove(prefix);
        }
    }

    /// The engine was restarted and knows nothing: everything is told again. One walk over the table, which a restart is rare
    /// enough to afford.
    pub(crate) fn restart_fib(&mut self) {
        self.fib_queue.clear();
        self.rejected.clear();
        let prefixes: alloc::vec::Vec<P> = self.entries.iter().map(|(p, _)| p).collect();
        for prefix in prefixes {
            let Some(entry) = self.entries.get_mut(prefix) else { continue };
            entry.fib = None;
            if entry.paths().is_empty() {
                self.entries.remove(prefix);
                continue;
            }
            entry.queued = entry.selected().is_some();
            if entry.queued {
                self.fib_queue.push_back(prefix);
            }
        }
    }
}

/// The group that the engine should have. Subnets of interfaces it installs by itself.
fn wanted(shared: &Shared, selected: Option<&crate::family::Path>) -> (Option<GroupId>, Provenance) {
    match selected {
        Some(path) if !shared.origin(path.origin).connected => {
            (Some(shared.sets.slot(path.set).group), path.provenance)
        }
        Some(path) => (None, path.provenance),
        None => (None, Provenance::NONE),
    }
}

/// Whether a prefix can be in a forwarding table at all; link-local subnets belong to every link.
pub(crate) fn is_routable<P: Prefix>(prefix: P) -> bool {
    match prefix.addr().into() {
        core::net::IpAddr::V6(a) => !(a.is_unicast_link_local() && prefix.len() >= 10),
        core::net::IpAddr::V4(_) => true,
    }
}
