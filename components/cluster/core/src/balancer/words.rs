//! The maps of the program `balance` as words of 64 bits, little endian. The program's description is `bpf/include/balance.h`.

use alloc::collections::{BTreeMap, BTreeSet};
use serde::Serialize;
use sluice_machine::Outbox;

/// The classes of packets.
pub const CLASSES: usize = 8;
/// The members of a class.
pub const MEMBERS: usize = 256;
/// The rows of a block of a table.
pub const BLOCK: usize = 128;
/// The blocks of a class.
pub(crate) const CLASS_BLOCKS: usize = 128;
/// The lines of the table of neighbors.
pub const NEIGHBOR_LINES: u32 = 1 << 11;
/// The lines of the table of addresses.
pub const ADDRESS_LINES: u32 = 1 << 10;
/// The inner interfaces.
pub const INNERS: usize = 8;
/// The port of a MAC address that is behind several ports.
pub const SEVERAL: u16 = u16::MAX;

/// The word of the settings with the hashes' seed.
pub const SEED: u16 = 0;
/// The word with the silence in nanoseconds.
pub const SILENCE: u16 = 1;
/// The first word of the keys of hello frames, two words a key.
pub const KEYS: u16 = 2;
/// The word with both EtherTypes, the control plane and the number of inner interfaces.
pub(crate) const NUMBERS: u16 = 6;
/// The first word of the inner interfaces, two to a word.
pub const INNER: u16 = 7;
/// The first word of the classes by DSCP, eight to a word.
pub const DSCP: u16 = 11;

/// A map of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub enum Map {
    /// Interfaces of the host by index: the virtual MAC address and the port in word 0, the side in word 1.
    Interfaces,
    /// Outer ports by number: the virtual MAC address in word 0, the interface in word 1.
    Ports,
    /// Hello frames of elements: time, epoch, counter. Only the program writes.
    Hellos,
    /// Classes: mode and number of members in word 0, then members, four to a word.
    Classes,
    /// Blocks of the classes' tables: elements, four to a word.
    Blocks,
    /// Lines of neighbors.
    Neighbors,
    /// Lines of the router's own addresses.
    Addresses,
    /// Settings, see [`SEED`] and the following constants.
    Settings,
}

impl Map {
    /// The maps that user space writes.
    pub const WRITTEN: [Map; 7] = [
        Map::Interfaces,
        Map::Ports,
        Map::Classes,
        Map::Blocks,
        Map::Neighbors,
        Map::Addresses,
        Map::Settings,
    ];

    /// Returns the map's name in the program.
    pub fn name(self) -> &'static str {
        match self {
            Map::Interfaces => "balance_interfaces",
            Map::Ports => "balance_ports",
            Map::Hellos => "balance_heard",
            Map::Classes => "balance_classes",
            Map::Blocks => "balance_blocks",
            Map::Neighbors => "balance_neighbors",
            Map::Addresses => "balance_addresses",
            Map::Settings => "balance_settings",
        }
    }

    /// Returns the number of entries.
    pub fn entries(self) -> u32 {
        match self {
            Map::Interfaces | Map::Ports | Map::Hellos => 1 << 16,
            Map::Classes => CLASSES as u32,
            Map::Blocks => (CLASSES * CLASS_BLOCKS) as u32,
            Map::Neighbors => NEIGHBOR_LINES,
            Map::Addresses => ADDRESS_LINES,
            Map::Settings => 1,
        }
    }

    /// Returns the number of words of an entry.
    pub fn words(self) -> u16 {
        match self {
            Map::Interfaces | Map::Ports => 2,
            Map::Hellos => 3,
            Map::Classes => 1 + MEMBERS as u16 / 4,
            Map::Blocks => BLOCK as u16 / 4,
            Map::Neighbors | Map::Addresses => 8,
            Map::Settings => DSCP + 8,
        }
    }
}

/// The place of a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Place {
    /// The map.
    pub map: Map,
    /// The entry.
    pub entry: u32,
    /// The word of the entry.
    pub word: u16,
}

impl Place {
    /// Makes a place.
    pub fn new(map: Map, entry: u32, word: u16) -> Self {
        Place { map, entry, word }
    }
}

/// A store of one word, which the shell carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Store {
    /// The place.
    pub place: Place,
    /// The word.
    pub value: u64,
}

/// Words that can be loaded: the maps, or a copy.
pub trait Words {
    /// Returns the word at a place; 0 for a place beyond the map.
    fn load(&self, place: Place) -> u64;
}

/// A copy of the maps' words, by which only differences are stored.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Mirror {
    /// Words that are not 0.
    words: BTreeMap<Place, u64>,
    /// Words of an earlier process that this process has not set yet.
    stale: BTreeSet<Place>,
}

impl Mirror {
    /// Takes over the words of maps that an earlier process filled.
    pub fn found(words: impl IntoIterator<Item = Store>) -> Self {
        let words: BTreeMap<Place, u64> = words
            .into_iter()
            .filter(|store| store.value != 0)
            .map(|store| (store.place, store.value))
            .collect();
        Mirror { stale: words.keys().copied().collect(), words }
    }

    /// Sets a word, and asks for a store if the word differs.
    pub fn set<O: From<Store>>(&mut self, place: Place, value: u64, out: &mut Outbox<O>) {
        self.stale.remove(&place);
        let before = if value == 0 { self.words.remove(&place) } else { self.words.insert(place, value) };
        if before.unwrap_or_default() != value {
            out.push(Store { place, value }.into());
        }
    }

    /// Returns true if an earlier process set the word and this process has not.
    pub fn is_stale(&self, place: Place) -> bool {
        self.stale.contains(&place)
    }

    /// Clears all words that this process has not set.
    pub fn sweep<O: From<Store>>(&mut self, out: &mut Outbox<O>) {
        for place in core::mem::take(&mut self.stale) {
            self.set(place, 0, out);
        }
    }

    /// Iterates over the words that are not 0.
    pub fn iter(&self) -> impl Iterator<Item = Store> + '_ {
        self.words.iter().map(|(place, value)| Store { place: *place, value: *value })
    }
}

impl Words for Mirror {
    fn load(&self, place: Place) -> u64 {
        self.words.get(&place).copied().unwrap_or_default()
    }
}
