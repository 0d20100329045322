//! The row of an address that a packet is routed by, as far as the decision depends on the row.

use sluice_base::Xid;
use smallvec::SmallVec;

/// An edge of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Edge {
    /// The XID of the row to which the edge leads.
    pub xid: Xid,
    /// True if that row is a sink: it has no edges, or is the last row of the address.
    pub is_sink: bool,
}

/// The edges of a row in order of priority, at least one and at most [`Row::MOST_EDGES`]: the key of a decision.
///
/// Two packets with equal rows from the same side (from a device, or made on this host) are treated alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Row {
    /// The edges.
    pub edges: SmallVec<[Edge; Row::MOST_EDGES]>,
    /// True if the packet came from a device or a tunnel, false if this host made the packet.
    pub is_input: bool,
}

impl Row {
    /// The most edges of a row (`docs/xia/wire.md`).
    pub(crate) const MOST_EDGES: usize = 4;
}
