//! The writer of the stream: changes of the leader's RIB in, transactions out, one at a time.

use crate::inventory::ElementId;
use crate::stream::loader::Loaded;
use crate::stream::section::{Catalog, Section, StreamOrigin};
use crate::stream::store::{ChunkId, Key, MOST_OCTETS, MOST_OPERATIONS, Outcome, Transaction};
use crate::stream::table::{Batches, CHUNK_OCTETS, RouteKey, Table, Value};
use crate::stream::wire::{Entry, Head, Routes};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use sluice_base::{Family, Instant, InterfaceIndex, Provenance};

/// The longest time for which changes are gathered.
pub const GATHER_TIME: Duration = Duration::from_millis(5);
/// The most changes of an entry.
pub(crate) const ENTRY_CHANGES: usize = 8192;
/// The most octets of an entry, as estimated.
const ENTRY_OCTETS: usize = 512 << 10;
/// The number of waiting changes at which the RIB has to wait.
pub const MOST_WAITING: usize = 65_536;
/// The most entries of the log before chunks are renewed, and the number at which nothing else is written.
pub const LOG_ENTRIES: [usize; 2] = [64, 256];
/// The same for the octets of the log.
const LOG_OCTETS: [u64; 2] = [8 << 20, 32 << 20];

/// The longest time for which routes of the leader before stay without an announcement of the new leader's RIB: neighbors need time to open sessions
/// with the new leader and to announce their routes.
pub const TAKEOVER_TIME: Duration = Duration::from_secs(120);

/// The state of the writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The writer owns the stream.
    Leads,
    /// Another element is the leader, or somebody else wrote the head.
    Deposed,
}

/// The writer.
#[derive(Debug)]
pub struct Leader {
    head: Head,
    head_revision: u64,
    table: Table,
    /// Changes without an entry.
    waiting: BTreeMap<RouteKey, (Option<Value>, Provenance)>,
    since: Option<Instant>,
    is_catalog_changed: bool,
    /// The store has no readable stream.
    is_new: bool,
    /// By family: the routes that the RIB has announced since the begin of its dump. Other routes go at the end of the dump.
    announced: BTreeMap<Family, BTreeSet<RouteKey>>,
    /// The families of which the RIB has announced all routes.
    complete: BTreeSet<Family>,
    /// Routes of another leader stay until then.
    holds_until: Option<Instant>,
    /// The entries in the store, with their octets.
    log: VecDeque<(u64, u64)>,
    /// Chunks with changes up to this entry are renewed.
    renews_to: Option<u64>,
    was_entry: bool,
    in_flight: Option<Transaction>,
    is_sent: bool,
    standing: Standing,
    written: u64,
}

impl Leader {
    /// Begins with the stream in the store. Without a stream, begins a new one under `seed`.
    pub fn new(now: Instant, epoch: u64, element: ElementId, seed: [u64; 2], found: Option<Loaded>) -> Self {
        let is_new = found.is_none();
        let element = element.number();
        let is_others = found.as_ref().is_some_and(|found| found.head.element != element);
        let (head, head_revision, table, log_octets) = match found {
            Some(loaded) => (loaded.head, loaded.head_revision, loaded.table, loaded.log_octets),
            None => {
                let catalog = Catalog::default();
                let sums = Vec::new();
                let head = Head { epoch, element, number: 0, seed, sequence: 0, first: 1, catalog, sums };
                (head, 0, Table::new(seed), 0)
            }
        };
        let entries = head.sequence.saturating_add(1).saturating_sub(head.first);
        let octets = log_octets / entries.max(1);
        let log = (head.first..=head.sequence).map(|sequence| (sequence, octets)).collect();
        Leader {
            head: Head { epoch, element, ..head },
            head_revision,
            table,
            waiting: BTreeMap::new(),
            since: None,
            // The head may name sections that no entry named: the leader before may have written the head, but not the entry.
            is_catalog_changed: !is_new,
            is_new,
            announced: BTreeMap::new(),
            complete: BTreeSet::new(),
            holds_until: is_others.then(|| now + TAKEOVER_TIME),
            log,
            renews_to: None,
            was_entry: false,
            in_flight: None,
            is_sent: false,
            standing: Standing::Leads,
            written: 0,
        }
    }

    /// Replaces an unreadable stream; `head_revision` is the revision of the replaced head, 0 without a head.
    #[must_use]
    pub fn replacing(mut self, head_revision: u64) -> Self {
        self.head_revision = head_revision;
        self
    }

    /// Goes on with an earlier writer's time for routes of the leader before ([`Leader::holds_until`]): an element may lose its lease and lead again.
    #[must_use]
    pub fn holding(mut self, until: Option<Instant>) -> Self {
        self.holds_until = self.holds_until.max(until);
        self
    }

    /// Returns the time until which routes of the leader before stay, although the RIB does not have them; `None` after that time.
    pub fn holds_until(&self) -> Option<Instant> {
        self.holds_until
    }

    /// Returns the state.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the head as of the last transaction.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the revision of the head's last change.
    pub fn head_revision(&self) -> u64 {
        self.head_revision
    }

    /// Returns the routes.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the number of entries in the log.
    pub fn log_len(&self) -> usize {
        self.log.len()
    }

    /// Returns the number of waiting changes.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of transactions that the store has taken from this writer.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns true if the RIB may go on.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < MOST_WAITING
    }

    /// Takes the names of the leader's interfaces in.
    pub fn set_interfaces(&mut self, interfaces: BTreeMap<InterfaceIndex, String>) {
        if self.head.catalog.interfaces != interfaces {
            self.head.catalog.interfaces = interfaces;
            self.is_catalog_changed = true;
        }
    }

    /// The RIB begins to announce all routes of a family.
    pub fn begin_refresh(&mut self, family: Family) {
        self.complete.remove(&family);
        self.announced.insert(family, BTreeSet::new());
    }

    /// The RIB has announced all routes of a family: other routes go, those of the leader before after [`TAKEOVER_TIME`].
    pub fn end_refresh(&mut self, now: Instant, family: Family) {
        if self.holds_until.is_some_and(|until| now < until) {
            self.complete.insert(family);
            return;
        }
        let Some(announced) = self.announced.remove(&family) else { return };
        let is_of_family = |key: &RouteKey| key.prefix.family() == family;
        let waiting = self.waiting.iter().filter(|(_, (value, _))| value.is_some()).map(|(key, _)| *key);
        let stored = self.table.iter().map(|(key, _)| *key);
        let all = waiting.chain(stored).filter(is_of_family);
        let gone: Vec<RouteKey> = all.filter(|key| !announced.contains(key)).collect();
        for key in gone {
            self.put(now, key, None, Provenance::NONE);
        }
    }

    /// Takes announcements of an origin in. Returns false if the catalog has no room for the section.
    pub fn announce(
        &mut self,
        now: Instant,
        section: &Section,
        origin: &StreamOrigin,
        routes: &Routes,
    ) -> bool {
        let Some((id, is_changed)) = self.head.catalog.put(section, origin) else { return false };
        if is_changed {
            self.is_catalog_changed = true;
            self.since.get_or_insert(now);
        }
        let sets: Vec<_> = routes.sets().iter().map(|set| self.table.share(set)).collect();
        for (prefix, place, provenance) in routes.updates() {
            let key = RouteKey { section: id, prefix };
            let set = place.and_then(|place| sets.get(place as usize));
            let value = set.map(|set| Value { set: set.clone(), provenance });
            if let Some(announced) = self.announced.get_mut(&prefix.family()) {
                if value.is_some() {
                    announced.insert(key);
                } else {
                    announced.remove(&key);
                }
            }
            self.put(now, key, value, provenance);
        }
        true
    }

    fn put(&mut self, now: Instant, key: RouteKey, value: Option<Value>, provenance: Provenance) {
        // The same set by another event is no change: followers need the newest event only of routes that change.
        let is_same = match (self.table.get(&key), &value) {
            (Some(known), Some(value)) => known.set == value.set,
            (None, None) => true,
            _ => false,
        };
        if is_same {
            self.waiting.remove(&key);
        } else {
            self.waiting.insert(key, (value, provenance));
            self.since.get_or_insert(now);
        }
    }

    /// Returns the time at which a transaction is due, if nothing else happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.since.filter(|_| self.in_flight.is_none()).map(|since| since + GATHER_TIME);
        [due, self.holds_until].into_iter().flatten().min()
    }

    /// Returns the next transaction, unless one is under way. `time_ms` are milliseconds since 1970. A transaction whose outcome
    /// is unknown is returned again.
    pub fn next_transaction(&mut self, now: Instant, time_ms: u64) -> Option<Transaction> {
        if self.is_sent || self.standing == Standing::Deposed {
            return None;
        }
        if self.holds_until.is_some_and(|until| now >= until) {
            self.holds_until = None;
            for family in core::mem::take(&mut self.complete) {
                self.end_refresh(now, family);
            }
        }
        if self.in_flight.is_none() {
            self.in_flight = self.make(now, time_ms);
        }
        self.is_sent = self.in_flight.is_some();
        self.in_flight.clone()
    }

    fn make(&mut self, now: Instant, time_ms: u64) -> Option<Transaction> {
        if core::mem::take(&mut self.is_new) {
            let body = self.table.write(ChunkId::ALL, self.head.sequence);
            let mut transaction = self.begin();
            transaction.clears = true;
            transaction.puts.push((Key::Chunk(ChunkId::ALL), body.encode()));
            return Some(self.end(transaction));
        }
        if self.table.large().is_some() {
            return Some(self.split());
        }
        let [soft, hard] = [0, 1].map(|place| {
            let octets: u64 = self.log.iter().map(|(_, octets)| octets).sum();
            self.log.len() > LOG_ENTRIES[place] || octets > LOG_OCTETS[place]
        });
        if soft && self.renews_to.is_none() {
            self.renews_to = self.log.get(self.log.len() / 2).map(|(sequence, _)| *sequence);
        }
        let is_due =
            self.since.is_some_and(|since| now >= since + GATHER_TIME) || self.waiting.len() >= ENTRY_CHANGES;
        let is_entry_next = is_due && !hard && !(self.was_entry && self.renews_to.is_some());
        if !is_entry_next && let Some(to) = self.renews_to {
            self.was_entry = false;
            return Some(self.renew(to));
        }
        if is_due { Some(self.entry(time_ms)) } else { None }
    }

    fn begin(&mut self) -> Transaction {
        self.head.number += 1;
        Transaction {
            epoch: self.head.epoch,
            head_revision: self.head_revision,
            number: self.head.number,
            clears: false,
            puts: Vec::new(),
            removed_chunks: Vec::new(),
            removed_entries: None,
        }
    }

    fn end(&mut self, mut transaction: Transaction) -> Transaction {
        self.head.sums = self.table.sums().iter().map(|(id, sum)| (*id, *sum)).collect();
        transaction.puts.push((Key::Head, self.head.encode()));
        transaction
    }

    fn entry(&mut self, time_ms: u64) -> Transaction {
        self.was_entry = true;
        self.head.sequence += 1;
        let sequence = self.head.sequence;
        let (mut batches, mut octets, mut count) = (Batches::default(), 0, 0);
        let mut sections = BTreeSet::new();
        while count < ENTRY_CHANGES
            && octets < ENTRY_OCTETS
            && let Some((key, (value, provenance))) = self.waiting.pop_first()
        {
            octets += value.as_ref().map_or(0, Value::cost);
            count += 1;
            sections.insert(key.section);
            batches.push(key, value.as_ref(), provenance);
            self.table.set(key, value, sequence);
        }
        if self.waiting.is_empty() {
            self.since = None;
        }
        let sum = |id| (id, self.table.sums().get(&id).copied().unwrap_or_default());
        let entry = Entry {
            epoch: self.head.epoch,
            sequence,
            time_ms,
            catalog: core::mem::take(&mut self.is_catalog_changed).then(|| self.head.catalog.clone()),
            changes: batches.finish(),
            sums: sections.into_iter().map(sum).collect(),
        };
        let octets = entry.encode();
        self.log.push_back((sequence, octets.len() as u64));
        let mut transaction = self.begin();
        transaction.puts.push((Key::Entry(sequence), octets));
        self.end(transaction)
    }

    /// Splits too large chunks. No entry is written before: the parts of a chunk have to fit in a transaction.
    fn split(&mut self) -> Transaction {
        let mut transaction = self.begin();
        let mut estimated = 0;
        while let Some(id) = self.table.large() {
            estimated += self.table.octets(id);
            let is_full = estimated > MOST_OCTETS || transaction.puts.len() > MOST_OPERATIONS / 2;
            if is_full && !transaction.puts.is_empty() {
                break;
            }
            let parts = self.table.split(id);
            if !parts.contains(&id) {
                transaction.removed_chunks.push(id);
            }
            for part in parts {
                transaction.puts.push((Key::Chunk(part), self.write(part)));
            }
        }
        self.end(transaction)
    }

    fn write(&mut self, id: ChunkId) -> Vec<u8> {
        self.table.write(id, self.head.sequence).encode()
    }

    /// Writes chunks with changes up to an entry, and removes the entries that all chunks contain.
    fn renew(&mut self, to: u64) -> Transaction {
        let mut old: Vec<(u64, ChunkId)> = self.table.changed().filter(|(from, _)| *from <= to).collect();
        old.sort_unstable();
        let mut transaction = self.begin();
        let mut octets = 0;
        for (_, id) in old {
            if octets + CHUNK_OCTETS > MOST_OCTETS || transaction.puts.len() + 8 > MOST_OPERATIONS {
                break;
            }
            let body = self.write(id);
            octets += body.len();
            transaction.puts.push((Key::Chunk(id), body));
        }
        let first = self.table.changed().map(|(from, _)| from).min().unwrap_or(self.head.sequence + 1);
        if first > self.head.first {
            transaction.removed_entries = Some((self.head.first, first));
            self.head.first = first;
            while self.log.front().is_some_and(|(sequence, _)| *sequence < first) {
                self.log.pop_front();
            }
        }
        if first > to {
            self.renews_to = None;
        }
        self.end(transaction)
    }

    /// Takes the outcome of the last transaction.
    pub fn answered(&mut self, outcome: Outcome) {
        self.is_sent = false;
        let Some(transaction) = &self.in_flight else { return };
        match outcome {
            Outcome::Done(revision) => self.done(revision),
            Outcome::Refused { is_leader: true, head: Some((octets, revision)) } => {
                // An earlier attempt may have arrived without an answer.
                let head = Head::decode(&octets).ok();
                let mine = head
                    .is_some_and(|head| (head.epoch, head.number) == (transaction.epoch, transaction.number));
                if mine { self.done(revision) } else { self.standing = Standing::Deposed }
            }
            Outcome::Refused { .. } => self.standing = Standing::Deposed,
            Outcome::Unknown => {}
        }
    }

    fn done(&mut self, revision: u64) {
        self.head_revision = revision;
        self.in_flight = None;
        self.written += 1;
    }
}
