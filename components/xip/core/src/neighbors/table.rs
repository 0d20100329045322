//! The table of neighbors, with bounds for each link and in all.

use crate::wire::{Hid, Mac};
use alloc::collections::BTreeMap;
use core::ops::RangeInclusive;
use serde::{Deserialize, Serialize};
use sluice_base::{Instant, InterfaceIndex};

/// A neighbor: an address of a link that reaches a HID. A HID may have several.
///
/// The order puts the addresses of a HID on a link in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Neighbor {
    /// The link.
    pub interface: InterfaceIndex,
    /// The HID.
    pub hid: Hid,
    /// The link-layer address.
    pub mac: Mac,
}

/// The source of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Origin {
    /// The operator.
    Manual,
    /// The neighbor's announcement.
    Announced,
    /// A list of a different neighbor.
    Listed,
}

/// The reachability of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// The neighbor answers, as far as known.
    Alive,
    /// The neighbor has not answered since then.
    Failed(Instant),
}

/// The state of the proof that a neighbor owns its HID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofState {
    /// No proof. The neighbor is challenged at its next announcement after this time.
    Unproven(Instant),
    /// A challenge is outstanding.
    Challenged,
    /// The proof was verified.
    Proven,
    /// The proof was refused. The neighbor is challenged again at its next announcement after this time.
    Refused(Instant),
}

/// The state of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The source.
    pub origin: Origin,
    /// The reachability.
    pub liveness: Liveness,
    /// The neighbor's clock in seconds, as last received; 0 in the basic form.
    pub clock: u32,
    /// The proof.
    pub proof: ProofState,
    /// True if the process was notified of the neighbor ([`super::Output::Learned`]).
    pub is_usable: bool,
}

/// The reason why a neighbor does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    /// The link has its most neighbors.
    Link,
    /// The table has its most neighbors.
    Table,
}

/// The neighbors of all links.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<Neighbor, Entry>,
    per_link: BTreeMap<InterfaceIndex, usize>,
}

impl Table {
    pub(super) fn get(&self, neighbor: Neighbor) -> Option<&Entry> {
        self.entries.get(&neighbor)
    }

    pub(super) fn get_mut(&mut self, neighbor: Neighbor) -> Option<&mut Entry> {
        self.entries.get_mut(&neighbor)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Neighbor, &Entry)> {
        self.entries.iter()
    }

    /// Iterates over the neighbors of a link.
    pub(super) fn of_link(&self, link: InterfaceIndex) -> impl Iterator<Item = (&Neighbor, &Entry)> {
        self.entries.range(Self::range(link))
    }

    /// Iterates over the neighbors of a link, to change them.
    pub(super) fn of_link_mut(
        &mut self,
        link: InterfaceIndex,
    ) -> impl Iterator<Item = (&Neighbor, &mut Entry)> {
        self.entries.range_mut(Self::range(link))
    }

    fn range(interface: InterfaceIndex) -> RangeInclusive<Neighbor> {
        let bound = |octet| Neighbor { interface, hid: Hid([octet; 20]), mac: Mac([octet; 6]) };
        bound(0)..=bound(0xff)
    }

    /// Returns the number of neighbors of a link.
    pub(super) fn count(&self, link: InterfaceIndex) -> usize {
        self.per_link.get(&link).copied().unwrap_or(0)
    }

    /// Adds a neighbor that is not in the table.
    pub(super) fn insert(
        &mut self,
        neighbor: Neighbor,
        entry: Entry,
        (link_limit, table_limit): (usize, usize),
    ) -> Result<(), Full> {
        if self.count(neighbor.interface) >= link_limit {
            return Err(Full::Link);
        }
        if self.entries.len() >= table_limit {
            return Err(Full::Table);
        }
        if self.entries.insert(neighbor, entry).is_none() {
            *self.per_link.entry(neighbor.interface).or_insert(0) += 1;
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, neighbor: Neighbor) -> Option<Entry> {
        let entry = self.entries.remove(&neighbor)?;
        if let Some(count) = self.per_link.get_mut(&neighbor.interface) {
            *count -= 1;
            if *count == 0 {
                self.per_link.remove(&neighbor.interface);
            }
        }
        Some(entry)
    }
}
