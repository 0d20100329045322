//! The values in the store: the first octet is the version, the rest is postcard's encoding. Readers refuse other versions.

use crate::stream::section::{Catalog, MOST_INTERFACES, MOST_SECTIONS, SectionId, Sum};
use crate::stream::store::ChunkId;
use alloc::vec::Vec;
use core::fmt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, RouteAction, RouteBatch, RouteSet};

/// The version of all values.
pub const VERSION: u8 = 1;

/// The reason why a value is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The value has this version.
    Version(u8),
    /// The value ends early, or has octets without a meaning.
    Malformed,
    /// Octets follow the value.
    Trailing(usize),
    /// A route points to a missing set.
    Set(u32),
    /// There are more sections or interfaces than a catalog has.
    Catalog,
    /// A chunk's first hash does not fit its number of bits.
    Chunk(ChunkId),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Version(version) => {
                write!(f, "version {version}, but this element reads version {VERSION}: upgrade the element")
            }
            DecodeError::Malformed => f.write_str("the octets are not well-formed"),
            DecodeError::Trailing(octets) => write!(f, "{octets} octets too many"),
            DecodeError::Set(set) => write!(f, "a route points to set {set}, which is missing"),
            DecodeError::Catalog => f.write_str("the catalog is too long"),
            DecodeError::Chunk(id) => write!(f, "{id} is no chunk"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// The content of the store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The epoch of the last writer.
    pub epoch: u64,
    /// The element of the last writer.
    pub element: u16,
    /// The number of the transaction, larger with each.
    pub number: u64,
    /// The key of all hashes.
    pub seed: [u64; 2],
    /// The number of the last entry of the log.
    pub sequence: u64,
    /// The number of the first entry that is kept. Every chunk contains all entries before.
    pub first: u64,
    /// The sections and interfaces.
    pub catalog: Catalog,
    /// The checksums after the last entry, by section.
    pub sums: Vec<(SectionId, Sum)>,
}

/// Changes of a section's routes, or its routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Routes {
    /// Of IPv4.
    V4(RouteBatch<Ipv4Prefix>),
    /// Of IPv6.
    V6(RouteBatch<Ipv6Prefix>),
}

/// A change of a route: its set and the event that changed it.
pub type RouteChange<'a> = (IpPrefix, Option<&'a RouteSet>, Provenance);

impl Routes {
    /// Returns the family.
    pub fn family(&self) -> Family {
        match self {
            Routes::V4(_) => Family::Ipv4,
            Routes::V6(_) => Family::Ipv6,
        }
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        match self {
            Routes::V4(batch) => batch.updates.len(),
            Routes::V6(batch) => batch.updates.len(),
        }
    }

    /// Returns true without changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sets.
    pub fn sets(&self) -> &[RouteSet] {
        match self {
            Routes::V4(batch) => &batch.sets,
            Routes::V6(batch) => &batch.sets,
        }
    }

    /// Iterates over the changes: prefix, place of the set unless the route is removed, event.
    pub fn updates(&self) -> impl Iterator<Item = (IpPrefix, Option<u32>, Provenance)> + '_ {
        let place = |action: RouteAction| match action {
            RouteAction::Set(place) => Some(place),
            RouteAction::Delete => None,
        };
        let (v4, v6) = match self {
            Routes::V4(batch) => (batch.updates.as_slice(), &[][..]),
            Routes::V6(batch) => (&[][..], batch.updates.as_slice()),
        };
        let v4 = v4.iter().map(move |u| (IpPrefix::V4(u.prefix), place(u.action), u.provenance));
        let v6 = v6.iter().map(move |u| (IpPrefix::V6(u.prefix), place(u.action), u.provenance));
        v4.chain(v6)
    }

    fn check(&self) -> Result<(), DecodeError> {
        let sets = self.sets().len();
        let places = self.updates().filter_map(|(_, place, _)| place);
        match places.into_iter().find(|place| *place as usize >= sets) {
            Some(place) => Err(DecodeError::Set(place)),
            None => Ok(()),
        }
    }
}

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The epoch of the leader.
    pub epoch: u64,
    /// The number of the entry.
    pub sequence: u64,
    /// The time at the leader, in milliseconds since 1970.
    pub time_ms: u64,
    /// The catalog after a change, for this entry and later ones.
    pub catalog: Option<Catalog>,
    /// The changes.
    pub changes: Vec<(SectionId, Routes)>,
    /// The checksums of the changed sections after the changes.
    pub sums: Vec<(SectionId, Sum)>,
}

/// The routes of a chunk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChunkBody {
    /// The chunk.
    pub id: ChunkId,
    /// The last entry of the log in the routes.
    pub sequence: u64,
    /// The routes.
    pub routes: Vec<(SectionId, Routes)>,
}

/// Writes a value behind the version.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Encoding into memory fails only for sequences of unknown length, which no value has.
    postcard::to_extend(value, alloc::vec![VERSION]).unwrap_or_default()
}

/// Reads a value behind the version.
///
/// # Errors
/// The version is another one, or the octets are malformed.
pub(crate) fn decode<T: DeserializeOwned>(octets: &[u8]) -> Result<T, DecodeError> {
    let (version, rest) = octets.split_first().ok_or(DecodeError::Malformed)?;
    if *version != VERSION {
        return Err(DecodeError::Version(*version));
    }
    let (value, rest) = postcard::take_from_bytes(rest).map_err(|_| DecodeError::Malformed)?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::Trailing(rest.len())) }
}

fn check_catalog(catalog: &Catalog) -> Result<(), DecodeError> {
    let fits = catalog.sections.len() <= MOST_SECTIONS && catalog.interfaces.len() <= MOST_INTERFACES;
    if fits { Ok(()) } else { Err(DecodeError::Catalog) }
}

impl Head {
    /// Writes the value.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another version, or malformed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let head: Head = decode(octets)?;
        check_catalog(&head.catalog)?;
        Ok(head)
    }
}

impl Entry {
    /// Writes the value.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another version, or malformed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let entry: Entry = decode(octets)?;
        entry.catalog.as_ref().map_or(Ok(()), check_catalog)?;
        entry.changes.iter().try_for_each(|(_, routes)| routes.check())?;
        Ok(entry)
    }
}

impl ChunkBody {
    /// Writes the value.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another version, or malformed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let body: ChunkBody = decode(octets)?;
        if !body.id.is_valid() {
            return Err(DecodeError::Chunk(body.id));
        }
        body.routes.iter().try_for_each(|(_, routes)| routes.check())?;
        Ok(body)
    }
}
