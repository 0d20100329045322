//! Events and effects of an element's machine.

use crate::balancer::words::{Mirror, Store};
use crate::elements::event::Event;
use crate::frames::neighbors::NeighborKey;
use crate::inventory::ElementId;
use crate::mac::Mac;
use crate::settings::{PortLink, Settings};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;
use sluice_base::InterfaceEvent;

/// The state of a neighbor of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum NeighborState {
    /// The neighbor has this MAC address.
    Known(Mac),
    /// The neighbor does not answer, or was forgotten.
    Gone,
    /// Packets wait for the neighbor's MAC address.
    Wanted,
}

/// An event for the machine.
#[derive(Debug, Serialize)]
pub enum Input {
    /// The configuration.
    Configure(Box<Settings>),
    /// An interface of this machine.
    Interface(InterfaceEvent),
    /// A payload with the cluster's EtherType.
    Frame(Vec<u8>),
    /// Neighbors of the kernel on the links of ports. `is_whole`: neighbors that are not named are gone.
    Neighbors {
        /// The neighbors.
        states: Vec<(NeighborKey, NeighborState)>,
        /// True for all neighbors there are.
        is_whole: bool,
    },
    /// The balancer's program runs, with these words in its maps; `None` if it does not run.
    Maps(Option<Mirror>),
    /// The store names this leader.
    Leader(ElementId),
}

/// A neighbor that the kernel of this machine is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedNeighbor {
    /// At this MAC address.
    At(Mac),
    /// The kernel is to find the address out.
    Resolved,
    /// The kernel is to forget the neighbor.
    Removed,
}

/// An effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a payload to all elements, on each interface of the interconnect.
    Send(Vec<u8>),
    /// Store a word in the balancer's maps.
    Store(Store),
    /// This machine is to have these links, by name, and no others.
    Links(BTreeMap<String, PortLink>),
    /// Set neighbors of the kernel.
    SetNeighbors(Vec<(NeighborKey, WantedNeighbor)>),
    /// All neighbors of the cluster are known from now on: others that the kernel has can go.
    NeighborsKnown,
    /// Report an event.
    Event(Event),
}

/// Frames that were ignored, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ignored {
    /// No key of the cluster gives the tag.
    pub forged: u64,
    /// Not later than the last frame of the sender.
    pub replayed: u64,
    /// The sender is not in the inventory.
    pub foreign: u64,
    /// Not well-formed, or of an unknown version or kind.
    pub malformed: u64,
    /// With this element's number.
    pub own_number: u64,
    /// From an element without the right to say so.
    pub unentitled: u64,
}
