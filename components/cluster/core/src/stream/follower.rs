//! The reader of the stream: the store's routes in, announcements for the element's own RIB out.
//!
//! The copy keeps the leader's numbers of interfaces. An announced route has the element's own numbers, by the interfaces' names. A next hop on a
//! missing interface is left out, and a route without next hops is not announced.

use crate::stream::loader::Loaded;
use crate::stream::section::{Catalog, Section, SectionId, StreamOrigin};
use crate::stream::store::ChunkId;
use crate::stream::table::{RouteKey, Table};
use crate::stream::wire::{DecodeError, Entry, Routes};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{
    Address, Family, Forwarding, InterfaceIndex, IpPrefix, Ipv4Prefix, Ipv6Prefix, NextHop, Provenance,
    RouteAction, RouteBatch, RouteSet, RouteUpdate,
};

/// The reader.
#[derive(Debug, Default)]
pub struct Follower {
    copy: Option<Copy>,
    /// Changes that were not announced yet.
    waiting: BTreeMap<Section, BTreeSet<IpPrefix>>,
    interfaces: BTreeMap<String, InterfaceIndex>,
    needs_load: bool,
    differs: bool,
    mended: Option<Mended>,
    loads: u64,
    /// The comparison under way.
    walk: Option<Walk>,
}

#[derive(Debug)]
struct Copy {
    epoch: u64,
    sequence: u64,
    revision: u64,
    catalog: Catalog,
    table: Table,
}

impl Copy {
    /// Returns true if numbers mean the same in a copy before.
    fn continues(&self, before: &Copy) -> bool {
        let names = |copy: &Copy| {
            copy.catalog.sections.iter().map(|(section, _)| section.clone()).collect::<Vec<_>>()
        };
        let is_same =
            self.catalog.interfaces == before.catalog.interfaces && self.table.seed() == before.table.seed();
        is_same && names(self).starts_with(&names(before))
    }
}

/// The comparison of a copy with the one before, chunk by chunk: first the present routes, then the earlier ones.
#[derive(Debug)]
struct Walk {
    before: Option<Copy>,
    /// True if all routes are announced, changed or not.
    is_all: bool,
    is_second: bool,
    /// The hash from which on chunks are left; `None` at the end.
    next: Option<u32>,
    /// The chunks with differences.
    chunks: BTreeSet<ChunkId>,
}

impl Default for Walk {
    fn default() -> Self {
        Walk { before: None, is_all: false, is_second: false, next: Some(0), chunks: BTreeSet::new() }
    }
}

/// A mended difference from the leader's routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mended {
    /// The first chunk with a difference.
    pub first: ChunkId,
    /// The number of chunks with a difference.
    pub chunks: usize,
}

/// The effect of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// The copy is as the leader's.
    Applied,
    /// The copy contains the entry already.
    Known,
    /// The copy has to be read anew.
    Lost,
}

impl Follower {
    /// Returns true if the stream has to be read as a whole: at the start, and after a gap in the log.
    pub fn needs_load(&self) -> bool {
        self.needs_load || self.copy.is_none()
    }

    /// Notes possibly missed changes, as after a lost watch or a compacted history.
    pub fn lost(&mut self) {
        self.needs_load = true;
    }

    /// Notes the present revision of the store. A smaller one than that of the copy is of a store that was wiped: the watch waits for
    /// revisions that do not come.
    pub fn looked(&mut self, revision: u64) {
        if self.copy.as_ref().is_some_and(|copy| revision < copy.revision) {
            self.needs_load = true;
        }
    }

    /// Returns true if routes that were read are of a store that began anew: its leader writes the routes that the copy has, and has not
    /// written all of them yet.
    pub fn began_anew(&self, loaded: &Loaded) -> bool {
        let head = (loaded.head.epoch, loaded.head.sequence);
        self.copy
            .as_ref()
            .is_some_and(|copy| loaded.revision < copy.revision || head < (copy.epoch, copy.sequence))
    }

    /// Returns true if the waiting changes contain all differences from the RIB: the RIB may drop all other routes.
    pub fn is_complete(&self) -> bool {
        self.copy.is_some() && self.walk.is_none()
    }

    /// Returns the epoch and the last entry of the copy.
    pub fn position(&self) -> Option<(u64, u64)> {
        self.copy.as_ref().map(|copy| (copy.epoch, copy.sequence))
    }

    /// Returns the copy's revision of the store.
    pub fn revision(&self) -> u64 {
        self.copy.as_ref().map_or(0, |copy| copy.revision)
    }

    /// Returns how often the stream was read as a whole.
    pub fn loads(&self) -> u64 {
        self.loads
    }

    /// Returns the routes.
    pub fn table(&self) -> Option<&Table> {
        self.copy.as_ref().map(|copy| &copy.table)
    }

    /// Returns the sections with the registrations of their origins.
    pub fn sections(&self) -> &[(Section, StreamOrigin)] {
        self.copy.as_ref().map(|copy| copy.catalog.sections.as_slice()).unwrap_or_default()
    }

    /// Takes a whole stream in. [`Follower::run_slice`] finds the differences to announce.
    pub fn loaded(&mut self, loaded: Loaded) {
        let Loaded { revision, head, table, .. } = loaded;
        let (epoch, sequence, catalog) = (head.epoch, head.sequence, head.catalog);
        let after = Copy { epoch, sequence, revision, catalog, table };
        // A walk that has not ended announces all routes: what it compared with is gone.
        let is_all = self.walk.is_some();
        let mut before = self.copy.replace(after);
        if let Some(earlier) = self.walk.take().and_then(|walk| walk.before) {
            // The oldest copy may have routes that the RIB still has.
            for (key, _) in earlier.table.iter() {
                note(&mut self.waiting, &earlier.catalog, key);
            }
        }
        let is_continued = self.copy.as_ref().zip(before.as_ref());
        let is_continued = is_continued.is_some_and(|(after, before)| after.continues(before));
        if !is_continued && let Some(before) = before.take() {
            for (key, _) in before.table.iter() {
                note(&mut self.waiting, &before.catalog, key);
            }
        }
        self.walk = Some(Walk { before, is_all: is_all || !is_continued, ..Walk::default() });
        self.needs_load = false;
        self.loads += 1;
    }

    /// Compares a chunk with the copy before. Returns false if nothing is left to compare; the difference, if the copy had gone astray, is
    /// in [`Follower::take_mended`] then.
    pub fn run_slice(&mut self) -> bool {
        let (Some(copy), Some(walk)) = (&self.copy, &mut self.walk) else { return false };
        let (table, is_old) = match &walk.before {
            Some(before) if walk.is_second => (&before.table, true),
            _ => (&copy.table, false),
        };
        let chunk = walk.next.and_then(|next| table.chunk_from(next));
        let Some(chunk) = chunk else {
            if walk.before.is_some() && !walk.is_second {
                (walk.is_second, walk.next) = (true, Some(0));
                return true;
            }
            let chunks = core::mem::take(&mut walk.chunks);
            self.walk = None;
            let first = chunks.first().copied().filter(|_| core::mem::take(&mut self.differs));
            self.mended = first.map(|first| Mended { first, chunks: chunks.len() }).or(self.mended);
            return false;
        };
        walk.next = u32::try_from(u64::from(chunk.start) + chunk.size()).ok();
        let other = if is_old { Some(copy) } else { walk.before.as_ref() };
        for (key, value) in table.routes_of(chunk) {
            let known = other.and_then(|other| other.table.get(key));
            let is_changed = if is_old { known.is_none() } else { known != Some(value) };
            if is_changed {
                walk.chunks.insert(copy.table.chunk_of(key));
            }
            if is_changed || (walk.is_all && !is_old) {
                note(&mut self.waiting, &copy.catalog, key);
            }
        }
        true
    }

    /// Takes the mended difference.
    pub fn take_mended(&mut self) -> Option<Mended> {
        self.mended.take()
    }

    /// Takes a value of the log in, as of a revision of the store.
    ///
    /// # Errors
    /// The value cannot be read; the copy has to be read anew.
    pub fn follow(&mut self, octets: &[u8], revision: u64) -> Result<(Followed, u64), DecodeError> {
        let entry = Entry::decode(octets).inspect_err(|_| self.needs_load = true)?;
        let time_ms = entry.time_ms;
        let Some(copy) = self.copy.as_mut().filter(|_| !self.needs_load) else {
            return Ok((Followed::Lost, time_ms));
        };
        if entry.sequence <= copy.sequence && entry.epoch <= copy.epoch {
            // Later entries of one store have larger numbers: this is the log of a store that began anew.
            self.needs_load = revision > copy.revision;
            let followed = if self.needs_load { Followed::Lost } else { Followed::Known };
            return Ok((followed, time_ms));
        }
        if entry.sequence != copy.sequence + 1 {
            self.needs_load = true;
            return Ok((Followed::Lost, time_ms));
        }
        let catalog = entry.catalog.as_ref().unwrap_or(&copy.catalog);
        if entry.changes.iter().any(|(section, _)| catalog.get(*section).is_none()) {
            self.needs_load = true;
            return Ok((Followed::Lost, time_ms));
        }
        let mut moved = false;
        if let Some(catalog) = entry.catalog {
            moved = copy.catalog.interfaces != catalog.interfaces;
            copy.catalog = catalog;
        }
        for (section, routes) in &entry.changes {
            let (waiting, catalog) = (&mut self.waiting, &copy.catalog);
            copy.table.apply(*section, routes, 0, |key, _| {
                note(waiting, catalog, key);
                true
            });
        }
        (copy.epoch, copy.sequence, copy.revision) = (entry.epoch, entry.sequence, revision);
        let sum = |id: &SectionId| copy.table.sums().get(id).copied().unwrap_or_default();
        if entry.sums.iter().any(|(id, expected)| sum(id) != *expected) {
            self.differs = true;
            self.needs_load = true;
            return Ok((Followed::Lost, time_ms));
        }
        if moved {
            self.announce_interfaces();
        }
        Ok((Followed::Applied, time_ms))
    }

    /// Takes the names and numbers of the element's own interfaces in.
    pub fn set_interfaces(&mut self, interfaces: BTreeMap<String, InterfaceIndex>) {
        if self.interfaces != interfaces {
            self.interfaces = interfaces;
            self.announce_interfaces();
        }
    }

    /// Announces the routes by named interfaces again.
    fn announce_interfaces(&mut self) {
        let Some(copy) = &self.copy else { return };
        let names_interface =
            |set: &RouteSet| set.forwarding.next_hops().iter().any(|hop| hop.interface.is_some());
        for (key, _) in copy.table.iter().filter(|(_, value)| names_interface(value.set.set())) {
            note(&mut self.waiting, &copy.catalog, key);
        }
    }

    /// Announces all routes again, by [`Follower::run_slice`]: the RIB is new.
    pub fn announce_all(&mut self) {
        if self.copy.is_some() {
            let walk = self.walk.take().unwrap_or_default();
            self.walk = Some(Walk { is_all: true, is_second: false, next: Some(0), ..walk });
        }
    }

    /// Returns the sections with waiting changes.
    pub fn waiting(&self) -> impl Iterator<Item = &Section> {
        self.waiting.keys()
    }

    /// Returns the number of waiting changes.
    pub fn waiting_changes(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }

    /// Takes at most `limit` changes of a section, as of now.
    pub fn take(&mut self, section: &Section, limit: usize) -> Routes {
        let copy = self.copy.as_ref();
        let id = copy.and_then(|copy| copy.catalog.id(section));
        let mut out = Translated { copy, own: &self.interfaces, sets: Vec::new(), places: BTreeMap::new() };
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let mut rest = self.waiting.remove(section).unwrap_or_default();
        while v4.len() + v6.len() < limit
            && let Some(prefix) = rest.pop_first()
        {
            let key = id.map(|section| RouteKey { section, prefix });
            let value = key.and_then(|key| copy?.table.get(&key));
            let provenance = value.map_or(Provenance::NONE, |value| value.provenance);
            let place = value.and_then(|value| out.place(value.set.set()));
            let action = place.map_or(RouteAction::Delete, RouteAction::Set);
            match prefix {
                IpPrefix::V4(prefix) => v4.push(RouteUpdate { prefix, action, provenance }),
                IpPrefix::V6(prefix) => v6.push(RouteUpdate { prefix, action, provenance }),
            }
        }
        let sets = out.sets;
        if !rest.is_empty() {
            self.waiting.insert(section.clone(), rest);
        }
        match section.family {
            Family::Ipv4 => Routes::V4(RouteBatch::<Ipv4Prefix> { sets, updates: v4 }),
            Family::Ipv6 => Routes::V6(RouteBatch::<Ipv6Prefix> { sets, updates: v6 }),
        }
    }
}

/// Sets with the element's own numbers of interfaces.
struct Translated<'a> {
    copy: Option<&'a Copy>,
    own: &'a BTreeMap<String, InterfaceIndex>,
    sets: Vec<RouteSet>,
    /// By the address of the copy's set.
    places: BTreeMap<usize, Option<u32>>,
}

impl Translated<'_> {
    fn place(&mut self, set: &RouteSet) -> Option<u32> {
        let address = core::ptr::from_ref(set).addr();
        if let Some(place) = self.places.get(&address) {
            return *place;
        }
        let place = self.translate(set).map(|set| {
            self.sets.push(set);
            (self.sets.len() - 1) as u32
        });
        self.places.insert(address, place);
        place
    }

    fn translate(&self, set: &RouteSet) -> Option<RouteSet> {
        let hops = set.forwarding.next_hops();
        if hops.iter().all(|hop| hop.interface.is_none()) {
            return Some(set.clone());
        }
        let own = |index: InterfaceIndex| self.own.get(self.copy?.catalog.interfaces.get(&index)?).copied();
        let hop = |hop: &NextHop<Address>| match hop.interface {
            None => Some(*hop),
            Some(index) => own(index).map(|index| NextHop { interface: Some(index), ..*hop }),
        };
        let forwarding = Forwarding::many(hops.iter().filter_map(hop))?;
        Some(RouteSet { forwarding, ..set.clone() })
    }
}

fn note(waiting: &mut BTreeMap<Section, BTreeSet<IpPrefix>>, catalog: &Catalog, key: &RouteKey) {
    let Some((section, _)) = catalog.get(key.section) else { return };
    match waiting.get_mut(section) {
        Some(prefixes) => {
            prefixes.insert(key.prefix);
        }
        None => {
            waiting.insert(section.clone(), [key.prefix].into());
        }
    }
}
