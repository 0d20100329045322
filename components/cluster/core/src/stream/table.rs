//! A copy of the stream's routes: chunks by hash, checksums by section.
//!
//! Equal sets are stored once. A route costs a key, a pointer to the set and an event.

use crate::frames::sip::{SipKey, sip};
use crate::stream::section::{SectionId, Sum};
use crate::stream::store::ChunkId;
use crate::stream::wire::{ChunkBody, Routes};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use sluice_base::{
    IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, Provenance, RouteAction, RouteBatch, RouteSet, RouteUpdate,
};

/// The most routes of a written chunk.
pub(crate) const CHUNK_ROUTES: usize = 2000;
/// The most octets of a written chunk, by the estimate of [`Value::cost`].
pub(crate) const CHUNK_OCTETS: usize = 256 << 10;
/// The estimated octets of a route without its set.
const ROUTE_OCTETS: usize = 24;

/// A route's place: section and prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteKey {
    /// The section.
    pub section: SectionId,
    /// The prefix.
    pub prefix: IpPrefix,
}

/// A shared set.
#[derive(Debug)]
struct Shared {
    set: RouteSet,
    hash: u64,
    octets: usize,
}

/// A reference to a shared set; references of one table are equal if they are the same.
#[derive(Clone, Debug)]
pub struct SetRef(Arc<Shared>);

impl SetRef {
    /// Returns the set.
    pub fn set(&self) -> &RouteSet {
        &self.0.set
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

impl PartialEq for SetRef {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address() || self.0.set == other.0.set
    }
}

impl Eq for SetRef {}

/// Looks sets up by their content.
#[derive(Debug)]
struct ByContent(SetRef);

impl PartialEq for ByContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.0.set == other.0.0.set
    }
}

impl Eq for ByContent {}

impl Hash for ByContent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.0.set.hash(state);
    }
}

impl Borrow<RouteSet> for ByContent {
    fn borrow(&self) -> &RouteSet {
        &self.0.0.set
    }
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// The shared part.
    pub set: SetRef,
    /// The event behind the route.
    pub provenance: Provenance,
}

impl Value {
    /// Returns the most octets of the route in a batch.
    pub fn cost(&self) -> usize {
        ROUTE_OCTETS + self.set.0.octets
    }
}

/// A part of the routes.
#[derive(Clone, Debug)]
pub struct Chunk {
    bits: u8,
    routes: BTreeMap<RouteKey, Value>,
    octets: usize,
    /// The first entry of the log that changed the chunk since it was written.
    changed: Option<u64>,
}

impl Chunk {
    fn new(bits: u8) -> Self {
        Chunk { bits, routes: BTreeMap::new(), octets: 0, changed: None }
    }

    fn is_large(&self) -> bool {
        self.routes.len() > CHUNK_ROUTES || self.octets > CHUNK_OCTETS
    }
}

/// The routes.
#[derive(Debug)]
pub struct Table {
    seed: SipKey,
    /// By the smallest hash: the chunks have all hashes, each once.
    chunks: BTreeMap<u32, Chunk>,
    large: BTreeSet<u32>,
    sums: BTreeMap<SectionId, Sum>,
    sets: hashbrown::HashSet<ByContent, foldhash::fast::FixedState>,
    /// The number of sets at which unused ones are dropped.
    sweep_at: usize,
}

impl Table {
    /// Makes an empty table of one chunk. `seed` is the key of all hashes.
    pub fn new(seed: SipKey) -> Self {
        Table {
            seed,
            chunks: [(0, Chunk::new(0))].into(),
            large: BTreeSet::new(),
            sums: BTreeMap::new(),
            sets: hashbrown::HashSet::with_hasher(foldhash::fast::FixedState::with_seed(seed[0])),
            sweep_at: 1024,
        }
    }

    /// Makes a table without chunks, for [`Table::add_chunk`].
    pub(crate) fn without_chunks(seed: SipKey) -> Self {
        Table { chunks: BTreeMap::new(), ..Table::new(seed) }
    }

    /// Adds an empty chunk. Chunks are added in the order of their hashes, until the table has all hashes.
    pub fn add_chunk(&mut self, id: ChunkId) {
        self.chunks.insert(id.start, Chunk::new(id.bits));
    }

    /// Returns the key of all hashes.
    pub fn seed(&self) -> SipKey {
        self.seed
    }

    /// Returns the checksums of the sections that have routes: what the table holds decides, not its history.
    pub fn sums(&self) -> &BTreeMap<SectionId, Sum> {
        &self.sums
    }

    /// Returns the number of routes.
    pub fn len(&self) -> u64 {
        self.sums.values().map(|sum| sum.routes).sum()
    }

    /// Returns true without routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the shared form of a set.
    pub fn share(&mut self, set: &RouteSet) -> SetRef {
        if let Some(known) = self.sets.get(set) {
            return known.0.clone();
        }
        if self.sets.len() >= self.sweep_at {
            self.sets.retain(|set| Arc::strong_count(&set.0.0) > 1);
            self.sweep_at = (self.sets.len() * 2).max(1024);
        }
        let octets = postcard::to_allocvec(set).unwrap_or_default();
        let shared = Shared { set: set.clone(), hash: sip(self.seed, &octets), octets: octets.len() };
        let shared = SetRef(Arc::new(shared));
        self.sets.insert(ByContent(shared.clone()));
        shared
    }

    fn hash(&self, key: &RouteKey) -> u64 {
        let mut octets = [0; 20];
        octets[..2].copy_from_slice(&key.section.0.to_le_bytes());
        let width = match key.prefix {
            IpPrefix::V4(prefix) => {
                let (bits, len) = prefix.to_parts();
                octets[2] = len;
                octets[3..7].copy_from_slice(&bits.to_le_bytes());
                7
            }
            IpPrefix::V6(prefix) => {
                let (bits, len) = prefix.to_parts();
                octets[2] = len;
                octets[3..19].copy_from_slice(&bits.to_le_bytes());
                19
            }
        };
        sip(self.seed, &octets[..width])
    }

    fn route_hash(&self, key_hash: u64, value: &Value) -> u64 {
        let mut octets = [0; 24];
        octets[..8].copy_from_slice(&key_hash.to_le_bytes());
        octets[8..16].copy_from_slice(&value.set.0.hash.to_le_bytes());
        octets[16..].copy_from_slice(&value.provenance.bits().to_le_bytes());
        sip(self.seed, &octets)
    }

    /// Returns the chunk of a route.
    pub fn chunk_of(&self, key: &RouteKey) -> ChunkId {
        let hash = (self.hash(key) >> 32) as u32;
        let found = self.chunks.range(..=hash).next_back();
        found.map_or(ChunkId::ALL, |(start, chunk)| ChunkId { start: *start, bits: chunk.bits })
    }

    /// Returns true if a route belongs to a chunk.
    pub(crate) fn is_of_chunk(&self, key: &RouteKey, id: ChunkId) -> bool {
        id.contains((self.hash(key) >> 32) as u32)
    }

    /// Returns a route.
    pub fn get(&self, key: &RouteKey) -> Option<&Value> {
        self.chunks.get(&self.chunk_of(key).start)?.routes.get(key)
    }

    /// Sets (`Some`) or removes a route by an entry of the log; 0: the change is in no entry. Returns true if the route changed.
    pub fn set(&mut self, key: RouteKey, value: Option<Value>, sequence: u64) -> bool {
        let key_hash = self.hash(&key);
        let added = value.as_ref().map(|value| self.route_hash(key_hash, value));
        let start = self.chunk_of(&key).start;
        let Some(chunk) = self.chunks.get_mut(&start) else { return false };
        let before = match value {
            Some(value) => {
                if chunk.routes.get(&key) == Some(&value) {
                    return false;
                }
                chunk.octets += value.cost();
                chunk.routes.insert(key, value)
            }
            None => match chunk.routes.remove(&key) {
                Some(before) => Some(before),
                None => return false,
            },
        };
        chunk.octets -= before.as_ref().map_or(0, Value::cost);
        if sequence > 0 {
            chunk.changed.get_or_insert(sequence);
        }
        if chunk.is_large() {
            self.large.insert(start);
        } else {
            self.large.remove(&start);
        }
        let removed = before.map(|before| self.route_hash(key_hash, &before));
        let sum = self.sums.entry(key.section).or_default();
        if let Some(hash) = added {
            sum.routes += 1;
            sum.hash = sum.hash.wrapping_add(hash);
        }
        if let Some(hash) = removed {
            sum.routes -= 1;
            sum.hash = sum.hash.wrapping_sub(hash);
        }
        if sum.routes == 0 {
            self.sums.remove(&key.section);
        }
        true
    }

    /// Applies the wanted changes of a section.
    pub fn apply(
        &mut self,
        section: SectionId,
        routes: &Routes,
        sequence: u64,
        mut is_wanted: impl FnMut(&RouteKey, &Table) -> bool,
    ) {
        let sets: Vec<SetRef> = routes.sets().iter().map(|set| self.share(set)).collect();
        for (prefix, place, provenance) in routes.updates() {
            let key = RouteKey { section, prefix };
            let set = place.and_then(|place| sets.get(place as usize));
            let value = set.map(|set| Value { set: set.clone(), provenance });
            if is_wanted(&key, self) {
                self.set(key, value, sequence);
            }
        }
    }

    /// Returns the first chunk from a hash on.
    pub(crate) fn chunk_from(&self, hash: u32) -> Option<ChunkId> {
        let (start, chunk) = self.chunks.range(hash..).next()?;
        Some(ChunkId { start: *start, bits: chunk.bits })
    }

    /// Iterates over the routes of a chunk.
    pub fn routes_of(&self, id: ChunkId) -> impl Iterator<Item = (&RouteKey, &Value)> {
        self.chunks.get(&id.start).into_iter().flat_map(|chunk| &chunk.routes)
    }

    /// Iterates over all routes, chunk by chunk.
    pub fn iter(&self) -> impl Iterator<Item = (&RouteKey, &Value)> {
        self.chunks.values().flat_map(|chunk| &chunk.routes)
    }

    /// Returns a chunk too large for a transaction.
    pub fn large(&self) -> Option<ChunkId> {
        let start = *self.large.first()?;
        Some(ChunkId { start, bits: self.chunks.get(&start)?.bits })
    }

    /// Returns the estimated octets of a chunk.
    pub fn octets(&self, id: ChunkId) -> usize {
        self.chunks.get(&id.start).map_or(0, |chunk| chunk.octets)
    }

    /// Splits a chunk until no part is too large, and returns the parts.
    pub fn split(&mut self, id: ChunkId) -> Vec<ChunkId> {
        let (mut open, mut parts) = (alloc::vec![id], Vec::new());
        while let Some(id) = open.pop() {
            let is_large = self.chunks.get(&id.start).is_some_and(Chunk::is_large);
            let Some(halves) = id.halves().filter(|_| is_large) else {
                self.large.remove(&id.start);
                parts.push(id);
                continue;
            };
            let Some(whole) = self.chunks.remove(&id.start) else { continue };
            self.large.remove(&id.start);
            let mut split = halves.map(|half| Chunk { changed: whole.changed, ..Chunk::new(half.bits) });
            for (key, value) in whole.routes {
                let place = usize::from(!halves[0].contains((self.hash(&key) >> 32) as u32));
                split[place].octets += value.cost();
                split[place].routes.insert(key, value);
            }
            for (half, chunk) in halves.into_iter().zip(split) {
                self.chunks.insert(half.start, chunk);
                open.push(half);
            }
        }
        parts
    }

    /// Iterates over the chunks with unwritten changes, each with the entry of the first change.
    pub fn changed(&self) -> impl Iterator<Item = (u64, ChunkId)> + '_ {
        let id = |(start, chunk): (&u32, &Chunk)| {
            Some((chunk.changed?, ChunkId { start: *start, bits: chunk.bits }))
        };
        self.chunks.iter().filter_map(id)
    }

    /// Returns the value of a chunk as of the last entry `sequence`, and marks the chunk as written.
    pub fn write(&mut self, id: ChunkId, sequence: u64) -> ChunkBody {
        let mut batches = Batches::default();
        if let Some(chunk) = self.chunks.get_mut(&id.start) {
            chunk.changed = None;
            for (key, value) in &chunk.routes {
                batches.push(*key, Some(value), value.provenance);
            }
        }
        ChunkBody { id, sequence, routes: batches.finish() }
    }
}

/// Changes on their way into an entry or a chunk, by section.
#[derive(Default)]
pub struct Batches(BTreeMap<SectionId, Building>);

#[derive(Default)]
struct Building {
    places: BTreeMap<usize, u32>,
    sets: Vec<RouteSet>,
    v4: Vec<RouteUpdate<Ipv4Prefix>>,
    v6: Vec<RouteUpdate<Ipv6Prefix>>,
}

impl Batches {
    /// Adds a change.
    pub fn push(&mut self, key: RouteKey, value: Option<&Value>, provenance: Provenance) {
        let building = self.0.entry(key.section).or_default();
        let action = value.map_or(RouteAction::Delete, |value| {
            let place = building.places.entry(value.set.address()).or_insert_with(|| {
                building.sets.push(value.set.set().clone());
                (building.sets.len() - 1) as u32
            });
            RouteAction::Set(*place)
        });
        match key.prefix {
            IpPrefix::V4(prefix) => building.v4.push(RouteUpdate { prefix, action, provenance }),
            IpPrefix::V6(prefix) => building.v6.push(RouteUpdate { prefix, action, provenance }),
        }
    }

    /// Returns the changes by section. A section has one family.
    pub fn finish(self) -> Vec<(SectionId, Routes)> {
        let routes = |building: Building| {
            if building.v6.is_empty() {
                Routes::V4(RouteBatch { sets: building.sets, updates: building.v4 })
            } else {
                Routes::V6(RouteBatch { sets: building.sets, updates: building.v6 })
            }
        };
        self.0.into_iter().map(|(section, building)| (section, routes(building))).collect()
    }
}
