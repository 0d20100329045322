//! Network interfaces in the view of components.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::num::NonZeroU32;
use serde::{Deserialize, Serialize};

/// An interface's number in the forwarding engine (the kernel's ifindex).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceIndex(pub NonZeroU32);

impl InterfaceIndex {
    /// The index `n`; `None` for 0, an index of no interface.
    pub const fn new(n: u32) -> Option<Self> {
        match NonZeroU32::new(n) {
            Some(n) => Some(InterfaceIndex(n)),
            None => None,
        }
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

impl core::fmt::Display for InterfaceIndex {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// An address on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// The router's own address.
    pub addr: IpAddr,
    /// The length of the subnet's prefix around `ip` (or around `peer`).
    pub prefix_len: u8,
    /// The far end's address, where the link is point-to-point.
    pub peer: Option<IpAddr>,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// The number.
    pub index: InterfaceIndex,
    /// The name.
    pub name: String,
    /// True if the operator wants the interface up (IFF_UP).
    pub admin_up: bool,
    /// True if the interface can carry packets now: admin up and carrier present.
    pub running: bool,
    /// True for the loopback.
    pub loopback: bool,
    /// True if the link has just two ends.
    pub point_to_point: bool,
    /// True if the interface takes multicast.
    pub multicast: bool,
    /// Largest packet in octets.
    pub mtu: u32,
    /// Link-layer address; empty if the interface has no such address.
    pub mac: Vec<u8>,
    /// The addresses, both families, sorted.
    pub addresses: Vec<InterfaceAddress>,
}

/// A change of the interfaces. An event has the whole state of an interface: no earlier event is needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum InterfaceEvent {
    /// The interface appeared or changed; this is the whole present state.
    Changed(Interface),
    /// The interface is gone.
    Removed(InterfaceIndex),
    /// The beginning of a snapshot: an interface not announced before [`InterfaceEvent::SnapshotEnd`] does not exist.
    SnapshotBegin,
    /// Every interface of the time of the subscription has been announced.
    SnapshotEnd,
}
