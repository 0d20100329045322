//! The RIB's branch: best routes for the routing information base, in batches as large as it can take.

use super::Core;
use super::branch::{Branch, Item};
use super::entry::{Path, PeerIndex};
use crate::wire::Unicast;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{
    Address, Distance, Forwarding, Metric, NextHop, RouteAction, RouteBatch, RouteKind, RouteSet,
    RouteUpdate, Tags,
};

/// The kinds of BGP's routes at the RIB, in the order of their numbers: learned from neighbors of other autonomous systems, and of
/// the router's own.
pub const RIB_KINDS: [&str; 2] = ["external", "internal"];
const EXTERNAL: RouteKind = RouteKind(1);
const INTERNAL: RouteKind = RouteKind(2);

#[derive(Debug)]
pub(super) struct RibBranch {
    pub branch: Branch,
    items: Vec<Item>,
    sets: BTreeMap<(u32, u32, bool), u32>,
}

/// The RIB gets every best path but the router's own networks: those it has from who made them.
fn exports(path: &Path) -> bool {
    path.peer != PeerIndex::LOCAL
}

impl RibBranch {
    pub fn new(queue_end: u64) -> Self {
        RibBranch { branch: Branch::new(queue_end), items: Vec::new(), sets: BTreeMap::new() }
    }

    /// Adds up to about `limit` changes to `batch`.
    pub fn fill<P: Unicast>(&mut self, core: &Core<P>, limit: usize, batch: &mut RouteBatch<P>) {
        let mut items = core::mem::take(&mut self.items);
        self.branch.gather(core, limit, exports, &mut items);
        self.sets.clear();
        for item in items.drain(..) {
            let action = match core.entries.best(item.entry).filter(|_| item.set.is_some()) {
                None => RouteAction::Delete,
                Some(path) => RouteAction::Set(self.set(core, path, batch)),
            };
            batch.updates.push(RouteUpdate {
                prefix: core.entries[item.entry].prefix,
                action,
                provenance: item.provenance,
            });
        }
        self.items = items;
    }

    fn set<P: Unicast>(&mut self, core: &Core<P>, path: &Path, batch: &mut RouteBatch<P>) -> u32 {
        let set = &core.sets[path.set];
        let internal = core.peers[usize::from(path.peer.0)].info.internal;
        let med = set.view.med.unwrap_or(0);
        *self.sets.entry((set.hop, med, internal)).or_insert_with(|| {
            let forwarding = match core.resolver.next_hop(set.hop) {
                Some(hop) => {
                    let gateway = Address::Ip(hop.address);
                    Forwarding::one(NextHop { interface: hop.interface, ..NextHop::via(gateway) })
                }
                None => Forwarding::Reject,
            };
            let (distance, kind) =
                if internal { (Distance::IBGP, INTERNAL) } else { (Distance::EBGP, EXTERNAL) };
            let (metric, distance) = (Metric(med), Some(distance));
            batch.sets.push(RouteSet { forwarding, metric, distance, kind, tags: Tags::NONE });
            (batch.sets.len() - 1) as u32
        })
    }
}
