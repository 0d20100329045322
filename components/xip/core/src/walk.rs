//! A packet's way through its address: rows are decided on and selected until something else than digging is to be done.

use crate::answer::{Action, Answer, PortSetId};
use crate::ports::Port;
use crate::row::Row;

/// The destination address of a packet, as far as routing goes.
pub trait Rows {
    /// Returns the row that the packet reached last.
    ///
    /// # Errors
    /// The packet has arrived at a sink, or the row is malformed.
    fn row(&self, is_input: bool) -> Result<Row, RowError>;

    /// Marks an edge of that row as chosen, and goes to the row to which the edge leads.
    fn select(&mut self, edge: u8);

    /// Returns the number of rows of the address.
    fn row_count(&self) -> usize;
}

/// The reason why a packet has no row to be routed by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowError {
    /// The packet is at a sink: routing it again is refused.
    AtSink,
    /// The row is malformed.
    Malformed,
}

/// The properties of a packet that matter to routing besides its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketFacts {
    /// True if the packet came from a device or a tunnel; false if this host made the packet.
    pub is_input: bool,
    /// The hop limit in the header.
    pub hop_limit: u8,
    /// Octets of the packet, beginning with the XIP header.
    pub octets: usize,
}

/// The reason why a packet is dropped on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// The packet has no row to be routed by.
    Row(RowError),
    /// No edge leads anywhere.
    Unreachable,
    /// The hop limit does not allow another hop.
    HopLimit,
    /// The packet is larger than the port's MTU.
    TooBig,
    /// An XID of this host does not work in its place.
    Unsupported,
    /// A principal or a wrong configuration drops the packet.
    Asked,
    /// More digging than the address has rows.
    TooManyRows,
}

/// The end of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routed {
    /// The packet leaves through a port. No edge of the last row is selected.
    Send {
        /// The port.
        port: Port,
        /// The hop limit to write into the header.
        hop_limit: u8,
    },
    /// A copy leaves through each port; the MTU of each port is to be compared then.
    Replicate {
        /// The ports.
        ports: PortSetId,
        /// The hop limit to write into all copies.
        hop_limit: u8,
        /// The edge to select in one more copy, which is routed on as if made here, or delivered if the edge leads to a sink.
        local: Option<u8>,
    },
    /// The packet is at its sink, the row to which this edge of the row before led. The edge is selected.
    Deliver(u8),
    /// The principal of this edge decides on the packet. The edge is not selected.
    PerPacket(u8),
    /// The packet is dropped.
    Drop(DropReason),
    /// The answer about a row is awaited or failed.
    Unanswered,
}

/// Follows a packet's way. `answer` decides on a row, from a cache or by [`Router::decide`](crate::router::Router::decide), and returns
/// `None` if the decision is pending or failed; `mtu` returns a port's MTU in octets, beginning with the XIP header.
///
/// A packet from a device loses one hop when it leaves, and is dropped if it has none; packets made here keep their hop limit.
/// Digging takes no hop.
pub fn follow(
    rows: &mut impl Rows,
    facts: PacketFacts,
    mut answer: impl FnMut(&Row) -> Option<Answer>,
    mtu: impl Fn(Port) -> usize,
) -> Routed {
    for _ in 0..rows.row_count() {
        let row = match rows.row(facts.is_input) {
            Ok(row) => row,
            Err(error) => return Routed::Drop(DropReason::Row(error)),
        };
        let (edge, action) = match answer(&row) {
            None => return Routed::Unanswered,
            Some(Answer::Unreachable) => return Routed::Drop(DropReason::Unreachable),
            Some(Answer::Chosen { edge, action }) => (edge, action),
        };
        match action {
            Action::Dig => rows.select(edge),
            Action::Forward(neighbor) => return leave(Port::Neighbor(neighbor), facts, mtu),
            Action::Tunnel(tunnel) => return leave(Port::Tunnel(tunnel), facts, mtu),
            Action::Replicate { ports, local } => {
                let Some(hop_limit) = next_hop_limit(facts) else {
                    return Routed::Drop(DropReason::HopLimit);
                };
                return Routed::Replicate { ports, hop_limit, local: local.then_some(edge) };
            }
            Action::Deliver => {
                rows.select(edge);
                return Routed::Deliver(edge);
            }
            Action::Unsupported => {
                rows.select(edge);
                return Routed::Drop(DropReason::Unsupported);
            }
            Action::Drop => return Routed::Drop(DropReason::Asked),
            Action::PerPacket => return Routed::PerPacket(edge),
        }
    }
    Routed::Drop(DropReason::TooManyRows)
}

/// Returns the hop limit of a packet that leaves; `None` if the packet must not.
const fn next_hop_limit(facts: PacketFacts) -> Option<u8> {
    if facts.is_input { facts.hop_limit.checked_sub(1) } else { Some(facts.hop_limit) }
}

fn leave(port: Port, facts: PacketFacts, mtu: impl Fn(Port) -> usize) -> Routed {
    let Some(hop_limit) = next_hop_limit(facts) else { return Routed::Drop(DropReason::HopLimit) };
    if facts.octets > mtu(port) {
        return Routed::Drop(DropReason::TooBig);
    }
    Routed::Send { port, hop_limit }
}
