//! A neighbor that a test plays.

use crate::{LOCAL_AS, Route, TestPolicy};
use sluice_bgp::relationship::Relationship;
use sluice_bgp::session::ConnectionId;
use sluice_bgp::wire::MessageType;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A neighbor that a test plays: a peer of octets that keeps the received routes.
pub struct ScriptedPeer<P> {
    /// The peer's address.
    pub address: IpAddr,
    /// The peer's AS.
    pub asn: u32,
    /// The peer's BGP Identifier.
    pub router_id: u32,
    /// True if the peer is on the router's subnet ([`crate::Net::subnet`]).
    pub on_subnet: bool,
    /// True for a speaker of RFC 6793.
    pub four_octet_as: bool,
    /// True if the router sends its own address as the next hop of every route.
    pub next_hop_self: bool,
    /// True for a client of the router as a route reflector.
    pub client: bool,
    /// The relationship that the router is configured with.
    pub relationship: Option<Relationship>,
    /// The router's import policy for the peer.
    pub import: TestPolicy,
    /// The router's export policy for the peer.
    pub export: TestPolicy,
    /// True if the router stores routes of the peer that import policy rejects.
    pub keep_rejected: bool,
    /// Number of unanswered route refresh requests of the router.
    pub asked: usize,
    /// The open connection.
    pub connection: Option<ConnectionId>,
    /// True if the router sends all paths of a prefix, and the peer may send two (RFC 7911).
    pub several: bool,
    /// True if the peer is the next hop of routes of others: a route that points to the peer is withdrawn from the peer, whether the peer
    /// had a route before or not.
    pub is_next_hop: bool,
    /// Routes that the peer has announced in this session and not withdrawn.
    pub announced: BTreeMap<P, Route>,
    /// Second paths that the peer has announced in this session and not withdrawn.
    pub further: BTreeMap<P, Route>,
    /// Routes that the router has announced and not withdrawn.
    pub received: BTreeMap<P, Route>,
    /// Paths that the router has announced and not withdrawn, by path identifier, with ADD-PATH.
    pub received_paths: BTreeMap<(P, u32), Route>,
    /// True if an End-of-RIB marker has been received on this connection.
    pub end_of_rib: bool,
    /// Families whose End-of-RIB marker has been received.
    pub ended: [bool; 2],
    /// Types of other received messages.
    pub messages: Vec<MessageType>,
    /// All received messages, as on the wire.
    pub wire: Vec<Vec<u8>>,
    /// Number of UPDATEs received.
    pub updates: usize,
    pub(crate) transmit: bool,
}

impl<P> ScriptedPeer<P> {
    /// Returns true if the peer has the AS of the router under test.
    pub fn internal(&self) -> bool {
        self.asn == LOCAL_AS
    }

    /// Returns the path identifier of the first or second path of a prefix.
    pub fn path_id(&self, is_further: bool) -> Option<u32> {
        self.several.then_some(if is_further { u32::MAX } else { 7 })
    }
}
