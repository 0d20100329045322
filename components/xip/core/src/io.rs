//! Inputs and outputs of the machine.

use crate::answer::NeighborId;
use crate::links::{Member, Station};
use crate::neighbors::{self, LinkProof, ProofAnswer, ProofRequest};
use crate::outsiders::Registration;
use crate::wire::{Dag, LinkDestination};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use serde::Serialize;
use sluice_base::{InterfaceEvent, InterfaceIndex, Xid, XidPrefix, XidType};

/// The settings of XIP.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Settings {
    /// The interfaces by name; true if NWP runs there.
    pub interfaces: BTreeMap<String, bool>,
    /// The principals that run: name in the catalog and number.
    pub principals: BTreeMap<XidType, &'static str>,
    /// The most principals asked for an edge, at least 1.
    pub consultations: u8,
    /// The socket that tunnels send from.
    pub tunnel: Option<Tunnel>,
    /// True if NWP runs in its second form.
    pub is_monitored: bool,
    /// The proof that neighbors have to give.
    pub proof: LinkProof,
    /// True if XCMP messages are sent and answered.
    pub has_xcmp: bool,
}

/// The socket of tunnels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Tunnel {
    /// The socket's address and port.
    pub local: SocketAddr,
    /// True if the UDP checksum is left 0.
    pub no_check: bool,
}

/// A gateway of a route as the RIB has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Gateway {
    /// The XID to look up in place of the route's; of type ETHER for a neighbor, with the link-layer address in its first octets.
    pub xid: Xid,
    /// The interface of a neighbor.
    pub interface: Option<InterfaceIndex>,
    /// The share of the traffic.
    pub weight: u32,
}

/// A route as the RIB has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum RibRoute {
    /// This host is the destination, or belongs to it.
    Local,
    /// The packets are dropped.
    Discard,
    /// The gateways. The one with the largest weight is used.
    Gateways(Vec<Gateway>),
}

/// An input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum Input {
    /// New settings.
    Configure(Settings),
    /// A change of the interfaces.
    Interface(InterfaceEvent),
    /// Changes of routes.
    Routes(Vec<(XidPrefix, Option<RibRoute>)>),
    /// A packet from an interface.
    Packet {
        /// The sender's address, and the interface.
        from: Station,
        /// The destination in the link layer.
        link: LinkDestination,
        /// The packet, which begins with the XIP header.
        octets: Vec<u8>,
    },
    /// A frame of NWP from an interface.
    Nwp {
        /// The sender's address, and the interface.
        from: Station,
        /// The frame without the header of the link layer.
        octets: Vec<u8>,
    },
    /// An answer to [`Output::Proof`].
    Proof(ProofAnswer),
    /// A packet from a tunnel.
    Datagram(Vec<u8>),
    /// Take all rows out of the cache.
    ClearCache,
    /// Send an XCMP echo request.
    Ping(Ping),
}

/// An echo request to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Ping {
    /// The destination.
    pub destination: Dag,
    /// The hop limit; packets made here do not lose one.
    pub hop_limit: u8,
    /// The number of the sender.
    pub identifier: u16,
    /// The number of the request.
    pub sequence: u16,
    /// Octets of data.
    pub octets: u16,
}

/// An answer to a ping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pong {
    /// The number of the sender, as in the request.
    pub identifier: u16,
    /// The number of the request.
    pub sequence: u16,
    /// The host that answers.
    pub from: Dag,
    /// The kind of the answer.
    pub kind: PongKind,
    /// The request's address as it arrived there, with the marks of the chosen edges; empty in an echo reply.
    pub arrived: Dag,
}

/// The kind of an answer to a ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PongKind {
    /// The destination answers.
    Reply,
    /// A router cannot reach the destination.
    Unreachable,
    /// The hop limit was used up.
    TimeExceeded,
}

/// An output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a frame.
    Send {
        /// The receiver's address, and the interface.
        to: Station,
        /// The EtherType.
        ether_type: u16,
        /// The frame without the header of the link layer.
        octets: Vec<u8>,
    },
    /// Send a UDP datagram from the tunnel's socket.
    Datagram {
        /// The far end.
        to: SocketAddr,
        /// The packet.
        octets: Vec<u8>,
    },
    /// A packet for a socket of this host.
    Deliver {
        /// The XID of the socket.
        xid: Xid,
        /// The packet, at its sink.
        octets: Vec<u8>,
    },
    /// The program sends to a neighbor like this from now on; `None`: the program drops the neighbor's packets.
    Member(NeighborId, Option<Member>),
    /// Two rows have equal tags: draw a key, and give a new cache.
    NeedsKey,
    /// A neighbor's HID and its station, learned by NWP (true) or lost.
    Neighbor(Xid, Station, bool),
    /// A neighbor's proof needs a key, or chance.
    Proof(ProofRequest),
    /// A neighbor has proven its HID, or failed to.
    NeighborEvent(neighbors::Event),
    /// XIP does not take a route, for this reason; `None`: it takes the route now.
    Refused(XidPrefix, Option<String>),
    /// An answer to a ping.
    Pong(Box<Pong>),
    /// Ask the process of a registration about XIDs of its type. [`BatchDone`](crate::requests::BatchDone) asks for the next batch.
    Ask {
        /// The type.
        kind: XidType,
        /// The registration of the process.
        registration: Registration,
        /// The XIDs, at most [`BATCH`](crate::requests::BATCH).
        xids: Vec<Xid>,
    },
}
