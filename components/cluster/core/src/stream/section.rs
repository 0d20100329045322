//! Sections: the routes of an origin, of one table and family. The catalog has the numbers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, Family, InterfaceIndex, TableId};

/// The most sections of a catalog.
pub const MOST_SECTIONS: usize = 1024;
/// The most interfaces of a catalog.
pub(crate) const MOST_INTERFACES: usize = 8192;

/// The number of a section: its place in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SectionId(pub u16);

/// The routes of an origin, of one table and family.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Section {
    /// The table.
    pub table: TableId,
    /// The family.
    pub family: Family,
    /// The origin's name.
    pub origin: String,
}

/// The registration of an origin at the leader's RIB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StreamOrigin {
    /// The distance of routes without a distance of their own.
    pub distance: Distance,
    /// True if the origin's routes are learned from other networks, as those of BGP.
    pub external: bool,
    /// The time for which the origin's routes outlive its process.
    pub grace: Duration,
    /// The names of the kinds of its routes: the first name is of kind 1.
    pub kinds: Vec<String>,
}

/// The number and the checksum of a section's routes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Sum {
    /// The number of routes.
    pub routes: u64,
    /// The sum of the routes' hashes, modulo 2 to the 64.
    pub hash: u64,
}

/// The meanings of the numbers in entries and chunks.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Catalog {
    /// The sections by number. Sections are added only.
    pub sections: Vec<(Section, StreamOrigin)>,
    /// The names of the leader's interfaces, by the numbers in next hops.
    pub interfaces: BTreeMap<InterfaceIndex, String>,
}

impl Catalog {
    /// Returns the number of a section.
    pub fn id(&self, section: &Section) -> Option<SectionId> {
        let place = self.sections.iter().position(|(known, _)| known == section);
        place.map(|place| SectionId(place as u16))
    }

    /// Returns a section by number.
    pub fn get(&self, id: SectionId) -> Option<&(Section, StreamOrigin)> {
        self.sections.get(usize::from(id.0))
    }

    /// Adds a section, or another registration of its origin. Returns the section's number, and true if the catalog changed; `None` if
    /// there is no room.
    pub fn put(&mut self, section: &Section, origin: &StreamOrigin) -> Option<(SectionId, bool)> {
        if let Some(id) = self.id(section) {
            let known = &mut self.sections[usize::from(id.0)].1;
            let is_changed = known != origin;
            if is_changed {
                known.clone_from(origin);
            }
            return Some((id, is_changed));
        }
        if self.sections.len() >= MOST_SECTIONS {
            return None;
        }
        self.sections.push((section.clone(), origin.clone()));
        Some((SectionId((self.sections.len() - 1) as u16), true))
    }
}
