//! Principals behind one trait: the kinds of destinations, each with routing rules of its own.
//!
//! A principal decides on an XID, and names everything that the decision rests on. It knows no cache and no other principal:
//! it may redirect the router to an XID of any type, and the types it redirects to are given to it. Each file of this folder
//! is a principal, or a table that several of them share; `catalog.rs` has a row for each.

pub mod ad;
pub mod catalog;
pub mod ether;
pub mod hid;
pub mod lpm;
pub mod table;
pub mod tunnels;
pub mod u4id;
pub mod u6id;
pub mod uni4id;
pub mod xdp;
pub mod zf;

mod entries;

use crate::anchor::{Deps, Touched};
use crate::answer::NeighborId;
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Xid, XidPrefix, XidType};
use smallvec::SmallVec;

/// The treatment of a packet, as principals say it. The router makes an [`Action`](crate::Action) of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Select the edge, and route again. Illegal for a sink.
    Dig,
    /// Send the packet to a neighbor.
    Forward(NeighborId),
    /// Send the packet in a UDP datagram to the address and port that this XID has.
    Tunnel(Xid),
    /// Select the edge, and deliver the packet to a socket of this host.
    Deliver,
    /// Select the edge, and drop the packet: the XID does not work in this place.
    Unsupported,
    /// Drop the packet silently.
    Drop,
    /// Ask the principal about each packet ([`Principal::treat`]).
    PerPacket,
}

/// The treatments for the two places that an XID may have in an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actions {
    /// The treatment if the row of the XID has edges.
    pub passthrough: Treatment,
    /// The treatment if the row of the XID is a sink.
    pub sink: Treatment,
}

impl Actions {
    /// Returns the same treatment for both places.
    pub const fn both(treatment: Treatment) -> Self {
        Actions { passthrough: treatment, sink: treatment }
    }
}

/// Copies of a packet: each is routed as if the XID were another one. The copies keep the XID.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Copies {
    /// The XIDs that are looked up in place of the XID, without repetitions.
    pub gateways: SmallVec<[Xid; 4]>,
    /// True if one more copy is for this host, and goes on at the row of the XID.
    pub local: bool,
}

/// A principal's decision on an XID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Consult {
    /// The XID is routed.
    Forward(Actions),
    /// The XID is routed by copies.
    Replicate(Copies),
    /// The principal cannot help with this XID now.
    NextEdge,
    /// Another XID of another type is looked up in place of this one.
    Redirect(Xid),
    /// The answer has to come from outside, and the question must be asked.
    Pending,
    /// The principal cannot decide, for lack of resources or the like. Nothing is cached, and the packet is dropped.
    Failure,
}

/// A kind of destination, with routing rules of its own.
pub trait Principal: Send {
    /// Returns the type under which the principal is registered.
    fn kind(&self) -> XidType;

    /// Decides on an XID of the principal's type, and adds to `deps` every entry and every missing entry that the decision rests on.
    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult;

    /// Adds, replaces (`Some`) or removes (`None`) a route, and returns the anchors whose dependents must be decided anew: none if
    /// nothing has changed.
    ///
    /// # Errors
    /// The principal does not take such a route; nothing has changed.
    fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError>;

    /// Decides on one packet, for XIDs that are answered with [`Treatment::PerPacket`]. `packet` begins with the XIP header.
    fn treat(&self, _xid: Xid, _packet: &[u8]) -> Treatment {
        Treatment::Drop
    }

    /// Returns up to `most` entries in the order of their keys, beginning after the key `after`.
    fn view(&self, after: Option<XidPrefix>, most: usize) -> Vec<Entry>;

    /// Returns the number of entries.
    fn entry_count(&self) -> usize;
}
