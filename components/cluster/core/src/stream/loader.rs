//! Reading the stream as a whole: the head, all chunks and the log, at one revision of the store.

use crate::stream::section::SectionId;
use crate::stream::store::{ChunkId, Key};
use crate::stream::table::Table;
use crate::stream::wire::{ChunkBody, DecodeError, Entry, Head};
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

/// The most octets of a stream.
pub const MOST_OCTETS: usize = 2 << 30;

/// The reason why the stream cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// No leader has written a head.
    Empty,
    /// A value cannot be read.
    Value(String, DecodeError),
    /// No key of the cluster gives the tag of a value.
    Tag(String),
    /// The chunks lack hashes, or have some twice.
    Chunks,
    /// An entry of the log is missing.
    Entry(u64),
    /// The checksum of a section differs from the head's.
    Sum(SectionId),
    /// The stream is larger than [`MOST_OCTETS`].
    Size,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Empty => f.write_str("the store has no routes yet"),
            LoadError::Value(key, error) => write!(f, "{key}: {error}"),
            LoadError::Tag(key) => write!(f, "{key} is not of this cluster's key"),
            LoadError::Chunks => f.write_str("the chunks in the store are not complete"),
            LoadError::Entry(sequence) => write!(f, "entry {sequence} is missing in the store"),
            LoadError::Sum(section) => {
                write!(f, "the checksum of section {} in the store is wrong", section.0)
            }
            LoadError::Size => f.write_str("the store has too many routes for this element"),
        }
    }
}

impl core::error::Error for LoadError {}

/// A stream, read as a whole.
#[derive(Debug)]
pub struct Loaded {
    /// The revision of the store; the log is followed from the next one on.
    pub revision: u64,
    /// The head.
    pub head: Head,
    /// The revision of the head's last change.
    pub head_revision: u64,
    /// The routes. Chunks that lack entries of the log are marked as changed.
    pub table: Table,
    /// The octets of the log.
    pub log_octets: u64,
}

/// The reader of a stream, a value at a time.
#[derive(Debug, Default)]
pub struct Loader {
    begun: Option<Begun>,
    octets: usize,
    problem: Option<LoadError>,
}

/// A stream whose head is known.
#[derive(Debug)]
struct Begun {
    head: Head,
    head_revision: u64,
    table: Table,
    /// The number of hashes of the chunks so far.
    covered: u64,
    /// The last entry in each chunk.
    versions: BTreeMap<ChunkId, u64>,
    /// The next entry of the log.
    next: u64,
    log_octets: u64,
}

impl Loader {
    /// Takes a value in: the head first, then the chunks and then the log, each in the order of the keys. `revision`: of the value's
    /// last change. Other keys are ignored. After a problem, values have no effect.
    pub fn add(&mut self, key: &str, octets: &[u8], revision: u64) {
        self.octets = self.octets.saturating_add(octets.len());
        if self.problem.is_none()
            && let Err(problem) = self.take(key, octets, revision)
        {
            self.problem = Some(problem);
        }
    }

    fn take(&mut self, key: &str, octets: &[u8], revision: u64) -> Result<(), LoadError> {
        if self.octets > MOST_OCTETS {
            return Err(LoadError::Size);
        }
        let wrong = |error| LoadError::Value(key.into(), error);
        match Key::parse(key) {
            None => Ok(()),
            Some(Key::Head) => {
                let head = Head::decode(octets).map_err(wrong)?;
                let (table, next) = (Table::without_chunks(head.seed), head.first);
                let versions = BTreeMap::new();
                let (head_revision, covered, log_octets) = (revision, 0, 0);
                self.begun = Some(Begun { head, head_revision, table, covered, versions, next, log_octets });
                Ok(())
            }
            Some(Key::Chunk(id)) => {
                let body = ChunkBody::decode(octets).map_err(wrong)?;
                if body.id != id {
                    return Err(wrong(DecodeError::Chunk(body.id)));
                }
                self.begun.as_mut().ok_or(LoadError::Empty)?.chunk(&body)
            }
            Some(Key::Entry(sequence)) => {
                let entry = Entry::decode(octets).map_err(wrong)?;
                let begun = self.begun.as_mut().ok_or(LoadError::Empty)?;
                begun.log_octets += octets.len() as u64;
                begun.entry(sequence, &entry)
            }
        }
    }

    /// Notes a value with a wrong tag.
    pub fn refuse(&mut self, key: &str) {
        self.problem.get_or_insert_with(|| LoadError::Tag(key.into()));
    }

    /// Returns the stream, after all values at `revision` have been taken in.
    ///
    /// # Errors
    /// [`LoadError`]: values are missing, or contradict each other.
    pub fn finish(self, revision: u64) -> Result<Loaded, LoadError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let begun = self.begun.ok_or(LoadError::Empty)?;
        begun.check_chunks()?;
        let Begun { head, head_revision, table, next, log_octets, .. } = begun;
        if next <= head.sequence {
            return Err(LoadError::Entry(next));
        }
        let expected: BTreeMap<_, _> = head.sums.iter().copied().collect();
        let sections = expected.keys().chain(table.sums().keys());
        let sum_of = |sums: &BTreeMap<_, _>, section| sums.get(section).copied().unwrap_or_default();
        let wrong = sections.into_iter().find(|id| sum_of(&expected, id) != sum_of(table.sums(), id));
        match wrong {
            Some(section) => Err(LoadError::Sum(*section)),
            None => Ok(Loaded { revision, head, head_revision, table, log_octets }),
        }
    }
}

impl Begun {
    fn chunk(&mut self, body: &ChunkBody) -> Result<(), LoadError> {
        if u64::from(body.id.start) != self.covered {
            return Err(LoadError::Chunks);
        }
        self.covered += body.id.size();
        self.table.add_chunk(body.id);
        self.versions.insert(body.id, body.sequence);
        let mut is_misplaced = false;
        for (section, routes) in &body.routes {
            self.table.apply(*section, routes, 0, |key, table| {
                let is_here = table.is_of_chunk(key, body.id);
                is_misplaced |= !is_here;
                is_here
            });
        }
        if is_misplaced { Err(LoadError::Chunks) } else { Ok(()) }
    }

    fn check_chunks(&self) -> Result<(), LoadError> {
        if self.covered == 1 << 32 { Ok(()) } else { Err(LoadError::Chunks) }
    }

    fn entry(&mut self, sequence: u64, entry: &Entry) -> Result<(), LoadError> {
        self.check_chunks()?;
        if sequence != self.next || entry.sequence != sequence {
            return Err(LoadError::Entry(self.next));
        }
        self.next += 1;
        for (section, routes) in &entry.changes {
            let versions = &self.versions;
            self.table.apply(*section, routes, sequence, |key, table| {
                versions.get(&table.chunk_of(key)).is_none_or(|version| sequence > *version)
            });
        }
        Ok(())
    }
}
