//! Routes written into the tables, prefix by prefix.

use super::tables::Tables;
use sluice_bpf::layout::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Writes routes. Longer prefixes must come after the shorter ones that cover them.
pub struct Routes<'a> {
    tables: &'a Tables,
    ipv4_nodes: u16,
    ipv6_nodes: u32,
}

impl<'a> Routes<'a> {
    /// Begins with empty tables.
    pub fn new(tables: &'a Tables) -> Self {
        Routes { tables, ipv4_nodes: 0, ipv6_nodes: 0 }
    }

    /// Leads the addresses of a prefix to a group. The group must be complete, since a default route copies its word.
    pub fn add(&mut self, prefix: IpAddr, length: u8, group: u32) {
        if length == 0 {
            let default = if prefix.is_ipv4() { GROUP_IPV4_DEFAULT } else { GROUP_IPV6_DEFAULT };
            let word = self.tables.groups.load64(group as usize, 0).unwrap();
            assert!(self.tables.groups.store64(default as usize, 0, word));
            return;
        }
        match prefix {
            IpAddr::V4(prefix) => self.add_ipv4(prefix, length, group as u16),
            IpAddr::V6(prefix) => self.add_ipv6(prefix, length, group),
        }
    }

    fn add_ipv4(&mut self, prefix: Ipv4Addr, length: u8, group: u16) {
        let first = prefix.to_bits() >> 8;
        if length <= 24 {
            for prefix in first..first + (1 << (24 - length)) {
                self.tables.set_ipv4(prefix, group);
            }
            return;
        }
        let mut entry = self.tables.ipv4(first);
        if entry & IPV4_NODE == 0 {
            self.ipv4_nodes += 1;
            for octet in 0..=255 {
                self.tables.set_ipv4_node(self.ipv4_nodes, octet, entry);
            }
            entry = IPV4_NODE | self.ipv4_nodes;
            self.tables.set_ipv4(first, entry);
        }
        for octet in range(prefix.octets()[3], 32 - length) {
            self.tables.set_ipv4_node(entry & !IPV4_NODE, octet, group);
        }
    }

    fn add_ipv6(&mut self, prefix: Ipv6Addr, length: u8, group: u32) {
        let first = (prefix.to_bits() >> 104) as u32;
        if length <= 24 {
            for prefix in first..first + (1 << (24 - length)) {
                self.tables.set_ipv6(prefix, group);
            }
            return;
        }
        let octets = prefix.octets();
        let last = (usize::from(length) - 1) / 8;
        let entry = self.node(self.tables.ipv6(first));
        self.tables.set_ipv6(first, entry);
        let mut node = entry & !IPV6_NODE;
        for octet in &octets[3..last] {
            let below = self.tables.ipv6_nodes.load32(node as usize, (*octet).into()).unwrap();
            let entry = self.node(below);
            self.tables.set_ipv6_node(node, *octet, entry);
            node = entry & !IPV6_NODE;
        }
        for octet in range(octets[last], (last as u8 + 1) * 8 - length) {
            self.tables.set_ipv6_node(node, octet, group);
        }
    }

    /// Returns an entry that is a node: `entry` itself, or a new node that leads where `entry` led.
    fn node(&mut self, entry: u32) -> u32 {
        if entry & IPV6_NODE != 0 {
            return entry;
        }
        self.ipv6_nodes += 1;
        for octet in 0..=255 {
            self.tables.set_ipv6_node(self.ipv6_nodes, octet, entry);
        }
        IPV6_NODE | self.ipv6_nodes
    }
}

/// Returns the octets that `octet` covers if its last `free` bits may be any.
fn range(octet: u8, free: u8) -> std::ops::RangeInclusive<u8> {
    octet..=octet | ((1u16 << free) - 1) as u8
}
