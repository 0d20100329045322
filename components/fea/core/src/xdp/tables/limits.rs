//! Limits of the tables, and the error at a limit.

use super::layout::{Area, FIRST_GROUP};
use core::fmt;

/// The first number of an area that is given out.
pub(super) const fn first_number(area: Area) -> u32 {
    match area {
        Area::Ipv4Nodes | Area::Ipv6Nodes | Area::Members => 1,
        Area::Groups => FIRST_GROUP,
        Area::Ipv4Root | Area::Ipv6Root | Area::Buckets | Area::Sources => 0,
    }
}

/// The largest numbers of objects, reserved numbers included. Values above an area's size count as the area's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// IPv4 nodes: /24s with longer prefixes.
    pub ipv4_nodes: usize,
    /// IPv6 nodes: one for each /24, /32, /40 ... with longer prefixes.
    pub ipv6_nodes: usize,
    /// Groups.
    pub groups: usize,
    /// Groups of several members.
    pub blocks: usize,
    /// Members.
    pub members: usize,
}

impl Default for Limits {
    /// The areas' sizes.
    fn default() -> Self {
        Limits {
            ipv4_nodes: Area::Ipv4Nodes.objects(),
            ipv6_nodes: Area::Ipv6Nodes.objects(),
            groups: Area::Groups.objects(),
            blocks: Area::Buckets.objects(),
            members: Area::Members.objects(),
        }
    }
}

impl Limits {
    /// Returns the number after the last one of an area.
    pub(super) fn end(&self, area: Area) -> u32 {
        let limit = match area {
            Area::Ipv4Nodes => self.ipv4_nodes,
            Area::Ipv6Nodes => self.ipv6_nodes,
            Area::Groups => self.groups,
            Area::Buckets => self.blocks,
            Area::Members => self.members,
            Area::Ipv4Root | Area::Ipv6Root | Area::Sources => area.objects(),
        };
        limit.min(area.objects()) as u32
    }
}

/// No object of an area is free. Packets that need the object go to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full(pub Area);

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no room: all {} {} of the XDP tables are in use; the kernel forwards these packets until fewer are needed",
            self.0.objects(),
            self.0
        )
    }
}

impl core::error::Error for Full {}
