//! Marks in the stream of UPDATEs to a peer.

use crate::family::{ByFamily, Families};

/// Marks that come behind the octets that a table filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Families of which, for the first time, there is nothing more to send: End-of-RIB (RFC 4724).
    pub ended: Families,
    /// The numbers of route refreshes that begin; 0 for none (RFC 7313).
    pub begun: ByFamily<u32>,
    /// The numbers of route refreshes of which there is nothing more to send; 0 for none.
    pub refreshed: ByFamily<u32>,
}

impl Marks {
    /// Returns true without marks.
    pub fn is_empty(&self) -> bool {
        *self == Marks::default()
    }
}
