//! Marks in the stream of UPDATEs to a peer.

use crate::family::{ByFamily, Families};

/// Marks behind the octets of a table's chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Families of which, for the first time, there is nothing more to send: End-of-RIB (RFC 4724).
    pub ended: Families,
    /// The numbers of beginning route refreshes; 0 without a refresh (RFC 7313).
    pub begun: ByFamily<u32>,
    /// The numbers of completed route refreshes; 0 without a refresh.
    pub refreshed: ByFamily<u32>,
}

impl Marks {
    /// Returns true without marks.
    pub fn is_empty(&self) -> bool {
        *self == Marks::default()
    }
}
