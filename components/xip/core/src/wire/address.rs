//! Addresses: graphs of at most nine XIDs, and the test of their validity.

use super::edge::EdgeByte;
use alloc::vec::Vec;
use core::fmt;
use serde::Serialize;
use sluice_base::{Xid, XidType};

/// A node of an address: a row of a header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Node {
    /// The node's XID.
    pub xid: Xid,
    /// The edges in order of priority; in the last node of an address, the edges of the entry node.
    pub edges: [EdgeByte; Node::EDGES],
}

impl Node {
    /// Edges of a node.
    pub const EDGES: usize = 4;
    /// Octets of a row: an XID and the edges.
    pub const LEN: usize = Xid::LEN + Node::EDGES;

    /// A node with edges to the rows `edges`; indices after the fourth are ignored.
    pub fn new(xid: Xid, edges: &[u8]) -> Self {
        let mut node = Node { xid, edges: [EdgeByte::EMPTY; Node::EDGES] };
        for (edge, index) in node.edges.iter_mut().zip(edges) {
            *edge = EdgeByte::to(*index);
        }
        node
    }

    /// Reads a row.
    pub fn from_octets(octets: &[u8; Node::LEN]) -> Self {
        let mut xid = [0; Xid::LEN];
        let mut edges = [0; Node::EDGES];
        let (head, tail) = octets.split_at(Xid::LEN);
        xid.copy_from_slice(head);
        edges.copy_from_slice(tail);
        Node { xid: Xid::from_octets(xid), edges: edges.map(EdgeByte) }
    }

    /// Returns the row's octets.
    pub fn octets(&self) -> [u8; Node::LEN] {
        let mut octets = [0; Node::LEN];
        let (head, tail) = octets.split_at_mut(Xid::LEN);
        head.copy_from_slice(&self.xid.octets());
        tail.copy_from_slice(&self.edges.map(|edge| edge.0));
        octets
    }

    /// Returns true if the first edge is empty: the node is a sink, unless it is the last node of an address.
    pub(crate) const fn has_no_edges(&self) -> bool {
        self.edges[0].is_empty()
    }
}

/// An address: 0 to 9 nodes, valid or not. The last node's edges are those of the entry node.
///
/// Holds no heap memory.
#[derive(Clone, Copy, Serialize)]
pub struct Dag {
    nodes: [Node; Dag::MOST_NODES],
    len: u8,
}

/// The place of an array that holds no node.
const UNUSED: Node =
    Node { xid: Xid { kind: XidType::NAT, id: [0; 20] }, edges: [EdgeByte::EMPTY; Node::EDGES] };

impl Dag {
    /// The most nodes of an address.
    pub const MOST_NODES: usize = 9;
    /// The address without nodes: a packet without source has it.
    pub const EMPTY: Dag = Dag { nodes: [UNUSED; Dag::MOST_NODES], len: 0 };

    /// An address of these nodes; `None` if there are more than nine.
    pub fn new(nodes: &[Node]) -> Option<Self> {
        let mut dag = Dag::EMPTY;
        dag.nodes.get_mut(..nodes.len())?.copy_from_slice(nodes);
        dag.len = nodes.len() as u8;
        Some(dag)
    }

    /// Reads rows; `None` if the octets are not whole rows or are more than nine rows.
    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let (rows, rest) = octets.as_chunks::<{ Node::LEN }>();
        if !rest.is_empty() || rows.len() > Self::MOST_NODES {
            return None;
        }
        let mut dag = Dag::EMPTY;
        dag.nodes.iter_mut().zip(rows).for_each(|(node, row)| *node = Node::from_octets(row));
        dag.len = rows.len() as u8;
        Some(dag)
    }

    /// Reads the nine rows of a socket address. The first row of type 0 ends the address.
    ///
    /// # Errors
    /// [`AddressError::NatMisplaced`] if a row of another type follows.
    pub fn from_slots(octets: &[u8; Node::LEN * Dag::MOST_NODES]) -> Result<Self, AddressError> {
        let mut dag = Dag::EMPTY;
        let (rows, _) = octets.as_chunks::<{ Node::LEN }>();
        dag.nodes.iter_mut().zip(rows).for_each(|(node, row)| *node = Node::from_octets(row));
        let is_nat = |node: &Node| node.xid.kind == XidType::NAT;
        let used = dag.nodes.iter().position(is_nat).unwrap_or(Self::MOST_NODES);
        if !dag.nodes.iter().skip(used).all(is_nat) {
            return Err(AddressError::NatMisplaced);
        }
        dag.nodes.iter_mut().skip(used).for_each(|node| *node = UNUSED);
        dag.len = used as u8;
        Ok(dag)
    }

    /// Appends the rows' octets.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.nodes().iter().for_each(|node| out.extend_from_slice(&node.octets()));
    }

    /// Adds a node after the others; false if nine nodes are present.
    pub fn push(&mut self, node: Node) -> bool {
        let Some(place) = self.nodes.get_mut(usize::from(self.len)) else { return false };
        *place = node;
        self.len += 1;
        true
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        self.nodes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The number of nodes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if the address has no nodes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the last node's XID, which is the final intent of an address with a single sink.
    pub fn intent(&self) -> Option<Xid> {
        self.nodes().last().map(|node| node.xid)
    }

    /// Returns the XIDs of the sinks: nodes without edges, and the last node.
    pub fn sinks(&self) -> impl Iterator<Item = Xid> {
        let last = self.len().wrapping_sub(1);
        let sinks =
            self.nodes().iter().enumerate().filter(move |(i, node)| *i == last || node.has_no_edges());
        sinks.map(|(_, node)| node.xid)
    }

    /// Returns the address without chosen marks: the reply address of a packet's source, for example.
    #[must_use]
    pub fn without_marks(mut self) -> Self {
        for node in self.nodes.iter_mut().take(usize::from(self.len)) {
            node.edges = node.edges.map(EdgeByte::unmarked);
        }
        self
    }

    /// Tests the validity, with the kernel's conditions in the kernel's order, and returns the number of nodes. The address
    /// without nodes is valid.
    ///
    /// # Errors
    /// The first condition that the address fails.
    pub fn validate(&self) -> Result<usize, AddressError> {
        let (nodes, len) = (self.nodes(), self.len());
        let mut pairs = nodes.iter().zip(nodes.iter().skip(1));
        if pairs.any(|(node, next)| node.xid.kind == XidType::NAT && next.xid.kind != XidType::NAT) {
            return Err(AddressError::NatMisplaced);
        }
        let mut reached = 0_u16;
        for (row, node) in nodes.iter().enumerate() {
            reached |= check_edges(&node.edges, row, len)?;
        }
        match nodes.last() {
            Some(last) if last.has_no_edges() => Err(AddressError::NoEntry),
            Some(_) if reached.count_ones() as usize != len => Err(AddressError::SeveralComponents),
            _ => Ok(len),
        }
    }
}

/// Tests the edges of row `row` of an address of `len` rows, edge by edge, and returns the set of the rows to which they lead.
///
/// # Errors
/// The first condition that an edge fails: chosen mark, order of empty edges, range, topological order.
pub(crate) fn check_edges(
    edges: &[EdgeByte; Node::EDGES],
    row: usize,
    len: usize,
) -> Result<u16, AddressError> {
    let (mut reached, mut ended) = (0_u16, false);
    for edge in edges {
        if edge.is_chosen() {
            return Err(AddressError::ChosenEdge);
        }
        if edge.is_empty() {
            ended = true;
            continue;
        }
        if ended {
            return Err(AddressError::EmptyEdgeMisplaced);
        }
        let index = usize::from(edge.index());
        if index >= len {
            return Err(AddressError::EdgeOutOfRange);
        }
        if row + 1 < len && index <= row {
            return Err(AddressError::NotTopological);
        }
        reached |= 1_u16.checked_shl(index as u32).unwrap_or(0);
    }
    Ok(reached)
}

impl PartialEq for Dag {
    fn eq(&self, other: &Self) -> bool {
        self.nodes() == other.nodes()
    }
}

impl Eq for Dag {}

impl fmt::Debug for Dag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why an address is invalid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AddressError {
    /// A row of type 0 precedes a row of a different type.
    NatMisplaced = 1,
    /// An edge has the chosen mark.
    ChosenEdge = 2,
    /// An edge follows an empty edge.
    EmptyEdgeMisplaced = 3,
    /// An edge leads to a row that does not exist.
    EdgeOutOfRange = 4,
    /// An edge leads to its own row or to an earlier row.
    NotTopological = 5,
    /// No edge leads to some row.
    SeveralComponents = 6,
    /// The entry node has no edge.
    NoEntry = 7,
}

impl AddressError {
    /// Returns the kernel's code, 1 to 7.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            AddressError::NatMisplaced => "nat-misplaced",
            AddressError::ChosenEdge => "chosen-edge",
            AddressError::EmptyEdgeMisplaced => "empty-edge-misplaced",
            AddressError::EdgeOutOfRange => "edge-out-of-range",
            AddressError::NotTopological => "not-topological",
            AddressError::SeveralComponents => "several-components",
            AddressError::NoEntry => "no-entry",
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::NatMisplaced => "a node of type 0 precedes another node",
            AddressError::ChosenEdge => "an edge has the chosen mark",
            AddressError::EmptyEdgeMisplaced => "an edge follows an empty edge",
            AddressError::EdgeOutOfRange => "an edge leads to a node that does not exist",
            AddressError::NotTopological => "an edge leads back",
            AddressError::SeveralComponents => "no edge leads to some node",
            AddressError::NoEntry => "the last node has no edges, which are those of the entry",
        })
    }
}

impl core::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn dag(rows: &[(char, [u8; 4])]) -> Dag {
        let nodes: Vec<Node> = rows
            .iter()
            .map(|(letter, edges)| {
                let (kind, octet) = match letter {
                    'a' => (XidType::AD, 0xa1),
                    'h' => (XidType::HID, 0x11),
                    'x' => (XidType::XDP, 0xd1),
                    'y' => (XidType::XDP, 0xd2),
                    _ => (XidType::NAT, 0),
                };
                Node { xid: Xid { kind, id: [octet; 20] }, edges: edges.map(EdgeByte) }
            })
            .collect();
        Dag::new(&nodes).unwrap()
    }

    #[test]
    fn validity_follows_the_kernels_table() {
        const E: u8 = 0x7f;
        let x = ('x', [0, E, E, E]);
        for (rows, result) in [
            (&[][..], 0),
            (&[x], 1),
            (&[('a', [1, E, E, E]), x], 2),
            (&[('a', [1, 1, E, E]), x], 2),
            (&[('y', [E, E, E, E]), ('x', [0, 1, E, E])], 2),
            (&[('x', [0x80, E, E, E])], -2),
            (&[('x', [0, 0xff, E, E])], -2),
            (&[('a', [E, 1, E, E]), ('x', [0, 1, E, E])], -3),
            (&[('a', [5, E, E, E]), x], -4),
            (&[('a', [0x7e, E, E, E]), x], -4),
            (&[('a', [0, E, E, E]), x], -5),
            (&[('a', [1, E, E, E]), ('h', [0, E, E, E]), x], -5),
            (&[('a', [2, E, E, E]), ('h', [2, E, E, E]), x], -6),
            (&[('a', [1, E, E, E]), ('x', [E, E, E, E])], -7),
            (&[('n', [E, E, E, E]), x], -1),
        ] {
            let found = match dag(rows).validate() {
                Ok(len) => len as i32,
                Err(error) => -i32::from(error.code()),
            };
            assert_eq!(found, result, "{rows:x?}");
        }
    }

    #[test]
    fn a_socket_address_ends_at_its_first_row_of_type_0() {
        let whole = dag(&[('a', [1, 0x7f, 0x7f, 0x7f]), ('x', [0, 0x7f, 0x7f, 0x7f])]);
        let mut slots = Vec::new();
        whole.put(&mut slots);
        slots.resize(Node::LEN * Dag::MOST_NODES, 0);
        let slots: &mut [u8; 252] = slots.as_mut_slice().try_into().unwrap();
        assert_eq!(Dag::from_slots(slots), Ok(whole));
        slots[251 - 24] = 0x10;
        assert_eq!(Dag::from_slots(slots), Err(AddressError::NatMisplaced));
    }
}
