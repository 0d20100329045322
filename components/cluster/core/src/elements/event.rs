//! Every text that the core reports.

use crate::inventory::{ElementId, PortNumber};
use crate::mac::Mac;
use crate::stream::follower::Mended;
use core::fmt;
use core::net::IpAddr;

/// Something that an operator may want to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An element is present: for the first time, after a start, or again.
    ElementUp(ElementId),
    /// An element's announcements do not come any more.
    ElementLost(ElementId),
    /// An element's roles or ports are others than those configured here.
    ElementDiffers(ElementId),
    /// Another machine has the number of this element.
    ElementTwice(ElementId),
    /// The table of neighbors has no room for a neighbor.
    NoRoomForNeighbor(PortNumber, IpAddr),
    /// The balancer's table has no room for a neighbor's MAC address.
    NoRoomForMac(Mac),
    /// The balancer's table has no room for an own address of the router.
    NoRoomForAddress(IpAddr),
    /// An element is the control plane, by the store's choice.
    Leader(ElementId),
    /// The copy of the routes had another checksum than the leader's, and was read anew.
    StreamMended(Mended),
}

impl Event {
    /// Returns the stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self {
            Event::ElementUp(_) => "cluster.element.up",
            Event::ElementLost(_) => "cluster.element.lost",
            Event::ElementDiffers(_) => "cluster.element.differs",
            Event::ElementTwice(_) => "cluster.element.twice",
            Event::NoRoomForNeighbor(..) | Event::NoRoomForMac(_) => "cluster.neighbor.full",
            Event::NoRoomForAddress(_) => "cluster.address.full",
            Event::Leader(_) => "cluster.leader",
            Event::StreamMended(_) => "cluster.stream.mended",
        }
    }

    /// Returns true for events after which the cluster does less than it is configured to do.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Event::ElementUp(_) | Event::Leader(_))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::ElementUp(id) => write!(f, "element {id} is present"),
            Event::ElementLost(id) => write!(f, "element {id} does not announce itself any more"),
            Event::ElementDiffers(id) => {
                write!(f, "element {id} has other roles or ports in its own configuration than here")
            }
            Event::ElementTwice(id) => write!(f, "another machine is element {id} too"),
            Event::NoRoomForNeighbor(port, address) => {
                write!(f, "no room for the neighbor {address} on port {}", port.number())
            }
            Event::NoRoomForMac(mac) => write!(f, "the balancer has no room for the neighbor {mac}"),
            Event::NoRoomForAddress(address) => {
                write!(f, "the balancer has no room for the address {address}")
            }
            Event::Leader(id) => write!(f, "element {id} is the control plane"),
            Event::StreamMended(Mended { first, chunks }) => {
                write!(
                    f,
                    "the routes differed from the leader's in {chunks} chunks from {first} on; they were read anew"
                )
            }
        }
    }
}
