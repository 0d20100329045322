//! The digests of the forwarder's routes.

use super::tables::{GroupSlot, Target};
use crate::engine::NextHopId;
use alloc::vec::Vec;
use sluice_base::{Digest, DigestKey, IpPrefix};

/// The digests of the routes by family.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteDigests {
    /// `None` until digests are to be kept.
    pub(super) key: Option<DigestKey>,
    pub(super) sums: [Digest; 2],
    /// The group's number in the core, by the number of its slot. A slot gets a new group only after the last route has left.
    pub(super) names: Vec<NextHopId>,
}

impl RouteDigests {
    /// Records the new group of a slot.
    pub(super) fn name(&mut self, slot: GroupSlot, id: NextHopId) {
        let place = slot.number() as usize;
        if self.names.len() <= place {
            self.names.resize(place + 1, NextHopId(0));
        }
        self.names[place] = id;
    }

    /// Returns the group's number in the core; 0 for the kernel.
    pub(super) fn value(&self, target: Target) -> NextHopId {
        match target {
            Target::Group(slot) => self.names.get(slot.number() as usize).copied().unwrap_or(NextHopId(0)),
            Target::Kernel => NextHopId(0),
        }
    }

    /// Notes a changed route.
    pub(super) fn note(&mut self, prefix: IpPrefix, old: Option<Target>, new: Option<Target>) {
        let Some(key) = self.key else { return };
        let hash = |target| key.of_prefix(prefix.into(), u64::from(self.value(target).0));
        let (old, new) = (old.map(hash), new.map(hash));
        self.sums[prefix.family() as usize].replace(old, new);
    }
}
