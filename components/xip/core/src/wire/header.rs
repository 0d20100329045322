//! The header of XIP, as a checked view over a packet's octets.

use super::address::{AddressError, Dag, Node, check_edges};
use super::edge::EdgeByte;
use crate::row::{Edge, Row};
use core::fmt;
use serde::Serialize;
use smallvec::SmallVec;

/// The version of XIP.
pub const VERSION: u8 = 1;
/// Octets of the header before the rows.
pub(crate) const FIXED_LEN: usize = 8;
/// Octets of the largest header: nine destination rows and nine source rows.
pub const MOST_LEN: usize = FIXED_LEN + 2 * Dag::MOST_NODES * Node::LEN;

/// Places of fixed fields that are read or written alone.
pub(super) mod place {
    pub(crate) const NEXT_HEADER: usize = 1;
    pub const HOP_LIMIT: usize = 4;
    pub(crate) const NUM_DST: usize = 5;
    pub(crate) const NUM_SRC: usize = 6;
    pub(crate) const LAST_NODE: usize = 7;
}

/// Values of the field next_hdr.
pub mod next_header {
    /// The payload is for the sink's principal.
    pub const PRINCIPAL: u8 = 0;
    /// XCMP.
    pub const XCMP: u8 = 61;
}

/// The last node that the packet has reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LastNode {
    /// The entry node, whose edges are in the last row.
    Entry,
    /// A row.
    Row(u8),
}

impl LastNode {
    /// Returns the field's value.
    pub const fn octet(self) -> u8 {
        match self {
            LastNode::Entry => EdgeByte::ENTRY,
            LastNode::Row(row) => row,
        }
    }

    const fn of(octet: u8) -> Self {
        if octet == EdgeByte::ENTRY { LastNode::Entry } else { LastNode::Row(octet) }
    }
}

/// The link-layer destination of a frame, as the link layer reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum LinkDestination {
    /// An address of this host.
    ThisHost,
    /// A group of hosts or all hosts. Such packets are received, but never forwarded.
    Group,
    /// An address of a different host: the interface captures all frames.
    OtherHost,
}

/// The reason why a packet is dropped at reception.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HeaderError {
    /// The frame was for a different host.
    OtherHost,
    /// The packet has fewer than 8 octets.
    ShortFixedHeader,
    /// The version is not 1.
    Version(u8),
    /// The number of destination rows is not 1 to 9.
    DestinationRows(u8),
    /// The number of source rows is above 9.
    SourceRows(u8),
    /// last_node is neither the entry node nor a destination row.
    LastNode(u8),
    /// The packet ends within its rows.
    ShortRows,
    /// The packet ends within its payload.
    ShortPayload,
}

impl HeaderError {
    /// The names of all reasons, in the order of the checks.
    pub const NAMES: [&'static str; 8] = [
        "other-host",
        "short-fixed-header",
        "version",
        "destination-rows",
        "source-rows",
        "last-node",
        "short-rows",
        "short-payload",
    ];

    /// The reason's place in [`HeaderError::NAMES`].
    pub const fn index(self) -> usize {
        match self {
            HeaderError::OtherHost => 0,
            HeaderError::ShortFixedHeader => 1,
            HeaderError::Version(_) => 2,
            HeaderError::DestinationRows(_) => 3,
            HeaderError::SourceRows(_) => 4,
            HeaderError::LastNode(_) => 5,
            HeaderError::ShortRows => 6,
            HeaderError::ShortPayload => 7,
        }
    }

    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::OtherHost => f.write_str("the frame is for a different host"),
            HeaderError::ShortFixedHeader => f.write_str("the packet is shorter than 8 octets"),
            HeaderError::Version(version) => write!(f, "version {version}, expected 1"),
            HeaderError::DestinationRows(rows) => write!(f, "{rows} destination rows, expected 1 to 9"),
            HeaderError::SourceRows(rows) => write!(f, "{rows} source rows, expected at most 9"),
            HeaderError::LastNode(row) => write!(f, "the last node {row:#x} is no destination row"),
            HeaderError::ShortRows => f.write_str("the packet ends within its rows"),
            HeaderError::ShortPayload => f.write_str("the packet ends within its payload"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// The reason why a packet cannot be routed by the row that last_node designates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowError {
    /// The row is a sink: the packet has arrived already.
    AtSink,
    /// The row's edges fail a condition of [`Dag::validate`].
    Edges(AddressError),
}

impl RowError {
    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            RowError::AtSink => "at-sink",
            RowError::Edges(error) => error.name(),
        }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::AtSink => f.write_str("the packet is at a sink already"),
            RowError::Edges(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RowError {}

/// A packet that passed the checks at reception, without padding.
///
/// Rows are not validated: forwarders validate the row that last_node designates only ([`Packet::row`]), end hosts the
/// addresses ([`Dag::validate`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    fixed: &'a [u8; FIXED_LEN],
    rows: &'a [[u8; Node::LEN]],
    payload: &'a [u8],
    octets: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks a packet from a device.
    ///
    /// # Errors
    /// The first failed check: the frame's destination, then those of [`Packet::parse`].
    pub fn receive(link: LinkDestination, octets: &'a [u8]) -> Result<Self, HeaderError> {
        if link == LinkDestination::OtherHost {
            return Err(HeaderError::OtherHost);
        }
        Self::parse(octets)
    }

    /// Checks a packet: fixed header, version, numbers of rows, last_node, length of rows and payload, in this order. Octets
    /// after the payload are padding of the link layer and are left out.
    ///
    /// # Errors
    /// The first failed check.
    pub fn parse(octets: &'a [u8]) -> Result<Self, HeaderError> {
        let (fixed, rest) = octets.split_first_chunk::<FIXED_LEN>().ok_or(HeaderError::ShortFixedHeader)?;
        let [version, _, high, low, _, num_dst, num_src, last_node] = *fixed;
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        if !(1..=Dag::MOST_NODES as u8).contains(&num_dst) {
            return Err(HeaderError::DestinationRows(num_dst));
        }
        if num_src > Dag::MOST_NODES as u8 {
            return Err(HeaderError::SourceRows(num_src));
        }
        if last_node >= num_dst && last_node != EdgeByte::ENTRY {
            return Err(HeaderError::LastNode(last_node));
        }
        let rows = Node::LEN * usize::from(num_dst + num_src);
        let (rows, rest) = rest.split_at_checked(rows).ok_or(HeaderError::ShortRows)?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let payload = rest.get(..len).ok_or(HeaderError::ShortPayload)?;
        let octets = octets.get(..FIXED_LEN + rows.len() + len).ok_or(HeaderError::ShortPayload)?;
        Ok(Packet { fixed, rows: rows.as_chunks().0, payload, octets })
    }

    /// The packet's octets without padding.
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Octets of the header with its rows, 36 to 512.
    pub const fn header_len(&self) -> usize {
        FIXED_LEN + self.rows.len() * Node::LEN
    }

    /// The payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The field next_hdr ([`next_header`]).
    pub const fn next_header(&self) -> u8 {
        self.fixed[place::NEXT_HEADER]
    }

    /// The field hop_limit.
    pub const fn hop_limit(&self) -> u8 {
        self.fixed[place::HOP_LIMIT]
    }

    /// The number of destination rows, 1 to 9.
    pub const fn num_dst(&self) -> usize {
        self.fixed[place::NUM_DST] as usize
    }

    /// The number of source rows, 0 to 9.
    pub const fn num_src(&self) -> usize {
        self.fixed[place::NUM_SRC] as usize
    }

    /// The last node that the packet has reached.
    pub const fn last_node(&self) -> LastNode {
        LastNode::of(self.fixed[place::LAST_NODE])
    }

    /// Returns the destination, which is not validated.
    pub fn destination(&self) -> Dag {
        Self::dag(self.rows.get(..self.num_dst()).unwrap_or_default())
    }

    /// Returns the source, which is not validated and is empty in packets without source.
    pub fn source(&self) -> Dag {
        Self::dag(self.rows.get(self.num_dst()..).unwrap_or_default())
    }

    fn dag(rows: &[[u8; Node::LEN]]) -> Dag {
        Dag::from_octets(rows.as_flattened()).unwrap_or(Dag::EMPTY)
    }

    /// Returns destination row `index`; `None` if there is none.
    pub(crate) fn destination_row(&self, index: usize) -> Option<Node> {
        self.rows.get(..self.num_dst())?.get(index).map(Node::from_octets)
    }

    /// Returns the destination row whose edges are those of the last node: the last row for the entry node.
    pub(crate) const fn edges_row(&self) -> usize {
        match self.last_node() {
            LastNode::Entry => self.num_dst() - 1,
            LastNode::Row(row) => row as usize,
        }
    }

    /// Validates the row that last_node designates and returns the edges as the key of the decision. `is_input` is true for
    /// packets from a device or a tunnel.
    ///
    /// # Errors
    /// [`RowError`].
    pub fn row(&self, is_input: bool) -> Result<Row, RowError> {
        let (index, len) = (self.edges_row(), self.num_dst());
        let row = self.destination_row(index).ok_or(RowError::AtSink)?;
        let is_entry = self.last_node() == LastNode::Entry;
        if !is_entry && (index + 1 == len || row.has_no_edges()) {
            return Err(RowError::AtSink);
        }
        check_edges(&row.edges, index, len).map_err(RowError::Edges)?;
        if row.has_no_edges() {
            return Err(RowError::Edges(AddressError::NoEntry));
        }
        let mut edges = SmallVec::new();
        for edge in row.edges.iter().filter(|edge| !edge.is_empty()) {
            let target = usize::from(edge.index());
            let node = self.destination_row(target).ok_or(RowError::Edges(AddressError::EdgeOutOfRange))?;
            edges.push(Edge { xid: node.xid, is_sink: target + 1 == len || node.has_no_edges() });
        }
        Ok(Row { edges, is_input })
    }

    /// Returns true if the packet has reached a sink: the last row, or a row without edges.
    pub fn is_at_sink(&self) -> bool {
        match self.last_node() {
            LastNode::Entry => false,
            LastNode::Row(row) => {
                let row = usize::from(row);
                row + 1 == self.num_dst() || self.destination_row(row).is_some_and(|node| node.has_no_edges())
            }
        }
    }
}
