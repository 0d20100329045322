//! The router's answer for a row: the treatment of all packets that are routed by an equal row.

use serde::{Deserialize, Serialize};

/// The number of a neighbor: an interface and a link-layer address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NeighborId(pub u32);

/// The number of a tunnel's far end: an address and a UDP port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TunnelId(pub u32);

/// The number of a set of ports, neighbors and tunnels, of which each gets a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortSetId(pub u32);

/// The treatment of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Select the edge, and route again from the row to which the edge leads.
    Dig,
    /// Send the packet to a neighbor. The edge is not selected.
    Forward(NeighborId),
    /// Send the packet in a UDP datagram. The edge is not selected.
    Tunnel(TunnelId),
    /// Send a copy through each port of a set; with `local`, route one more copy from the row to which the edge leads, or deliver
    /// the copy if that row is a sink. The edge is selected in that copy only.
    Replicate {
        /// The ports.
        ports: PortSetId,
        /// True if a copy is for this host.
        local: bool,
    },
    /// Select the edge, and deliver the packet to a socket of this host.
    Deliver,
    /// Select the edge, and drop the packet: the XID is this host's, but does not work in this place.
    Unsupported,
    /// Drop the packet silently, as an XID asks for.
    Drop,
    /// Hand the packet to the principal, which decides on each packet by itself.
    PerPacket,
}

/// The decision on a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Answer {
    /// The edge that counts (0 to 3) and the treatment.
    Chosen {
        /// The edge's place in the row.
        edge: u8,
        /// The treatment.
        action: Action,
    },
    /// No edge leads anywhere: the destination is unreachable.
    Unreachable,
}
