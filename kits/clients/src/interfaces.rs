//! The interfaces announced by the FEA.

use alloc::collections::{BTreeMap, BTreeSet};
use sluice_base::{Interface, InterfaceEvent, InterfaceIndex};

/// The interfaces of the forwarding engine, kept up to date by the FEA's events.
///
/// Each life of the FEA begins with a snapshot. An interface missing in the snapshot disappeared while no FEA was
/// running, and is removed at the snapshot's end.
#[derive(Clone, Debug, Default)]
pub struct InterfaceTable {
    known: BTreeMap<InterfaceIndex, Interface>,
    /// Interfaces not announced yet by the snapshot in progress.
    unconfirmed: BTreeSet<InterfaceIndex>,
}

impl InterfaceTable {
    /// Applies an event. Returns true if an interface appeared, disappeared, or changed the name, the addresses or
    /// the operational state.
    pub fn apply(&mut self, event: InterfaceEvent) -> bool {
        match event {
            InterfaceEvent::SnapshotBegin => {
                self.unconfirmed = self.known.keys().copied().collect();
                false
            }
            InterfaceEvent::Changed(interface) => {
                self.unconfirmed.remove(&interface.index);
                let is_changed = self.known.get(&interface.index).is_none_or(|before| {
                    before.running != interface.running
                        || before.name != interface.name
                        || before.addresses != interface.addresses
                });
                self.known.insert(interface.index, interface);
                is_changed
            }
            InterfaceEvent::Removed(index) => {
                self.unconfirmed.remove(&index);
                self.known.remove(&index).is_some()
            }
            InterfaceEvent::SnapshotEnd => {
                let missing = core::mem::take(&mut self.unconfirmed);
                for index in &missing {
                    self.known.remove(index);
                }
                !missing.is_empty()
            }
        }
    }

    /// Iterates over the interfaces, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.known.values()
    }

    /// Returns the interface with an index.
    pub fn get(&self, index: InterfaceIndex) -> Option<&Interface> {
        self.known.get(&index)
    }

    /// Iterates over the interfaces not announced yet by the snapshot in progress, and removed at the end.
    pub fn unconfirmed(&self) -> impl Iterator<Item = InterfaceIndex> {
        self.unconfirmed.iter().copied()
    }

    /// Returns the running interface with a name.
    pub fn running(&self, name: &str) -> Option<&Interface> {
        self.known.values().find(|interface| interface.running && interface.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn interface(index: u32, name: &str, running: bool) -> InterfaceEvent {
        InterfaceEvent::Changed(Interface {
            index: InterfaceIndex::new(index).unwrap(),
            name: name.into(),
            admin_up: true,
            running,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: Vec::new(),
            addresses: Vec::new(),
        })
    }

    #[test]
    fn an_interface_that_a_new_snapshot_does_not_contain_is_removed() {
        let mut table = InterfaceTable::default();
        for event in [InterfaceEvent::SnapshotBegin, interface(1, "lo", true), interface(2, "eth0", true)] {
            table.apply(event);
        }
        assert!(!table.apply(InterfaceEvent::SnapshotEnd));
        assert_eq!(table.running("eth0").map(|i| i.index.number()), Some(2));
        // The FEA restarts; eth0 was removed meanwhile.
        table.apply(InterfaceEvent::SnapshotBegin);
        assert!(!table.apply(interface(1, "lo", true)));
        assert!(table.running("eth0").is_some(), "kept until the snapshot is complete");
        assert!(table.apply(InterfaceEvent::SnapshotEnd));
        assert!(table.running("eth0").is_none());
        assert_eq!(table.iter().count(), 1);
    }

    #[test]
    fn changes_that_routes_depend_on_are_reported() {
        let mut table = InterfaceTable::default();
        assert!(table.apply(interface(2, "eth0", true)));
        assert!(!table.apply(interface(2, "eth0", true)));
        assert!(table.apply(interface(2, "eth0", false)));
        assert!(table.apply(interface(2, "wan0", false)));
        assert!(table.running("wan0").is_none());
        let index = InterfaceIndex::new(2).unwrap();
        assert!(table.apply(InterfaceEvent::Removed(index)));
        assert!(!table.apply(InterfaceEvent::Removed(index)));
        assert!(table.get(index).is_none());
    }
}
