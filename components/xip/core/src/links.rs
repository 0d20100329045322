//! The interfaces of this host, and the numbers of the neighbors behind them.

use crate::answer::NeighborId;
use crate::wire::Mac;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;
use sluice_base::{Interface, InterfaceIndex};

/// The most neighbors that have a number; the program has room for as many members.
pub const MOST_NEIGHBORS: usize = 1 << 14;

/// An address of the link layer on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Station {
    /// The interface.
    pub interface: InterfaceIndex,
    /// The address.
    pub mac: Mac,
}

/// A neighbor as the program sends to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The neighbor.
    pub station: Station,
    /// The interface's own address.
    pub source: Mac,
    /// The largest packet in octets, beginning with the XIP header.
    pub mtu: u32,
}

/// Interfaces by number, and neighbors. A neighbor keeps its number: answers in the program name it.
#[derive(Clone, Debug, Default)]
pub struct Links {
    interfaces: BTreeMap<InterfaceIndex, Interface>,
    /// The names of the interfaces on which XIP runs.
    configured: BTreeSet<String>,
    numbers: BTreeMap<Station, NeighborId>,
    stations: Vec<Station>,
}

impl Links {
    /// Sets the names of the interfaces on which XIP runs.
    pub fn configure(&mut self, names: BTreeSet<String>) {
        self.configured = names;
    }

    /// Takes in an interface.
    pub fn set(&mut self, interface: Interface) {
        self.interfaces.insert(interface.index, interface);
    }

    /// Removes an interface.
    pub fn remove(&mut self, index: InterfaceIndex) {
        self.interfaces.remove(&index);
    }

    /// Returns the interfaces on which XIP runs.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(|interface| self.configured.contains(&interface.name))
    }

    /// Returns an interface on which XIP runs.
    pub fn get(&self, index: InterfaceIndex) -> Option<&Interface> {
        self.interfaces.get(&index).filter(|interface| self.configured.contains(&interface.name))
    }

    /// Returns the index of an interface by its name.
    pub fn index(&self, name: &str) -> Option<InterfaceIndex> {
        self.interfaces.values().find(|interface| interface.name == name).map(|interface| interface.index)
    }

    /// Returns the number of a neighbor; `None` if all numbers are in use.
    pub fn number(&mut self, station: Station) -> Option<NeighborId> {
        if let Some(number) = self.numbers.get(&station) {
            return Some(*number);
        }
        if self.stations.len() >= MOST_NEIGHBORS {
            return None;
        }
        let number = NeighborId(self.stations.len() as u32);
        self.stations.push(station);
        self.numbers.insert(station, number);
        Some(number)
    }

    /// Returns all neighbors with their numbers.
    pub fn neighbors(&self) -> impl Iterator<Item = (NeighborId, Station)> {
        (0..).map(NeighborId).zip(self.stations.iter().copied())
    }

    /// Returns a neighbor as the program sends to it; `None` while its interface does not run XIP or carries no packets.
    pub fn member(&self, neighbor: NeighborId) -> Option<Member> {
        let station = *self.stations.get(neighbor.0 as usize)?;
        let interface = self.get(station.interface).filter(|interface| interface.running)?;
        let source = Mac(interface.mac.as_slice().try_into().ok()?);
        Some(Member { station, source, mtu: interface.mtu })
    }
}
