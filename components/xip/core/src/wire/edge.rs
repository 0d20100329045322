//! The octet of an edge.

use serde::Serialize;

/// An edge as an octet of a row: an index in the low seven bits, the chosen mark in the highest bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct EdgeByte(pub u8);

impl EdgeByte {
    /// The bit of the chosen mark: routing has followed the edge.
    pub(crate) const CHOSEN: u8 = 0x80;
    /// The unused edge.
    pub const EMPTY: EdgeByte = EdgeByte(0x7f);
    /// The index of the entry node, which no edge may have.
    pub const ENTRY: u8 = 0x7e;

    /// An edge to row `index`, without mark. Indices above 127 lose their highest bit.
    pub const fn to(index: u8) -> Self {
        EdgeByte(index & !Self::CHOSEN)
    }

    /// Returns the low seven bits: the row's index, or 127 for the empty edge.
    pub const fn index(self) -> u8 {
        self.0 & !Self::CHOSEN
    }

    /// Returns true if the edge is unused. The chosen mark is ignored.
    pub const fn is_empty(self) -> bool {
        self.index() == Self::EMPTY.0
    }

    /// Returns true if the edge has the chosen mark.
    pub const fn is_chosen(self) -> bool {
        self.0 & Self::CHOSEN != 0
    }

    /// Returns the edge with the chosen mark.
    pub const fn chosen(self) -> Self {
        EdgeByte(self.0 | Self::CHOSEN)
    }

    /// Returns the edge without the chosen mark.
    pub const fn unmarked(self) -> Self {
        EdgeByte(self.index())
    }
}
