//! The store from the stream's view: keys, transactions and their outcomes. The store is linearizable, has a revision that grows with each
//! transaction, and is read at a revision.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The most operations of a transaction.
pub(crate) const MOST_OPERATIONS: usize = 128;
/// The most octets of a transaction's values together.
pub const MOST_OCTETS: usize = 1_400_000;

/// A chunk: the hashes with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ChunkId {
    /// The smallest hash.
    pub start: u32,
    /// The number of shared leading bits, 0 to 32.
    pub bits: u8,
}

impl ChunkId {
    /// The chunk of all hashes.
    pub const ALL: ChunkId = ChunkId { start: 0, bits: 0 };

    /// Returns true if the bits behind the shared ones are zero.
    pub fn is_valid(self) -> bool {
        self.bits <= 32 && self.start.checked_shl(self.bits.into()).unwrap_or(0) == 0
    }

    /// Returns the number of hashes.
    pub fn size(self) -> u64 {
        1 << (32 - u32::from(self.bits.min(32)))
    }

    /// Returns true if a hash is one of the chunk's.
    pub fn contains(self, hash: u32) -> bool {
        u64::from(hash.wrapping_sub(self.start)) < self.size()
    }

    /// Returns the halves; `None` for a single hash.
    pub fn halves(self) -> Option<[ChunkId; 2]> {
        let bits = self.bits.checked_add(1).filter(|bits| *bits <= 32)?;
        let lower = ChunkId { start: self.start, bits };
        Some([lower, ChunkId { start: self.start | (1 << (32 - bits)), bits }])
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}/{}", self.start, self.bits)
    }
}

/// A key of the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// The head.
    Head,
    /// An entry of the log.
    Entry(u64),
    /// A chunk.
    Chunk(ChunkId),
}

/// The beginning of the keys of entries.
pub const ENTRIES: &str = "log/";
/// The beginning of the keys of chunks.
pub const CHUNKS: &str = "chunk/";
/// The key of the head.
pub const HEAD: &str = "head";

impl Key {
    /// Returns the key's text. Texts sort as the keys of their kind.
    pub fn text(self) -> String {
        match self {
            Key::Head => HEAD.into(),
            Key::Entry(sequence) => format!("{ENTRIES}{sequence:020}"),
            Key::Chunk(id) => format!("{CHUNKS}{:08x}-{:02}", id.start, id.bits),
        }
    }

    /// Reads a key's text; `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        if text == HEAD {
            return Some(Key::Head);
        }
        let key = match (text.strip_prefix(ENTRIES), text.strip_prefix(CHUNKS)) {
            (Some(sequence), _) => Key::Entry(sequence.parse().ok()?),
            (_, Some(chunk)) => {
                let (start, bits) = chunk.split_once('-')?;
                Key::Chunk(ChunkId { start: u32::from_str_radix(start, 16).ok()?, bits: bits.parse().ok()? })
            }
            _ => return None,
        };
        (key.text() == text).then_some(key)
    }
}

/// An atomic change of the store. Holds only if the writer's epoch is the leader's, and the head was last changed
/// at `head_revision`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The epoch: the revision at which the leader's key was created.
    pub epoch: u64,
    /// The revision of the head's last change; 0: there is no head.
    pub head_revision: u64,
    /// The number of the transaction, and of the head after the transaction.
    pub number: u64,
    /// True if all keys of the stream are removed before.
    pub clears: bool,
    /// The values to set.
    pub puts: Vec<(Key, Vec<u8>)>,
    /// The chunks to remove.
    pub removed_chunks: Vec<ChunkId>,
    /// The entries to remove: from the first up to but without the second.
    pub removed_entries: Option<(u64, u64)>,
}

/// The outcome of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done, at this revision of the store.
    Done(u64),
    /// A condition did not hold.
    Refused {
        /// True if the writer's epoch is the leader's.
        is_leader: bool,
        /// The head, and the revision of its last change.
        head: Option<(Vec<u8>, u64)>,
    },
    /// Without an answer of the store, the transaction may be done or not.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_texts_and_chunks_halve() {
        let half = ChunkId::ALL.halves().unwrap()[1];
        assert_eq!((half, half.size()), (ChunkId { start: 1 << 31, bits: 1 }, 1 << 31));
        assert!(half.contains(u32::MAX) && !half.contains(7) && half.is_valid() && ChunkId::ALL.contains(7));
        let last = ChunkId { start: u32::MAX, bits: 32 };
        assert!(last.is_valid() && last.halves().is_none() && last.size() == 1 && last.contains(u32::MAX));
        assert!(!ChunkId { start: 1, bits: 31 }.is_valid() && !ChunkId { start: 0, bits: 33 }.is_valid());
        for key in [Key::Head, Key::Entry(12), Key::Chunk(half), Key::Chunk(last)] {
            assert_eq!(Key::parse(&key.text()), Some(key));
        }
        for text in ["", "leader", "log/12", "chunk/80000000-1", "chunk/x-01"] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }
}
