//! The shape of the IPv6 entries: the root and up to 13 levels of nodes.

use super::layout::Area;
use super::lookup::IPV6_NODE;
use super::trie::Shape;
use super::words::Width;
use sluice_base::{Ipv6Prefix, Prefix};

/// IPv6: entries of 32 bits.
#[derive(Debug)]
pub(super) struct Ipv6;

impl Shape for Ipv6 {
    type Key = Ipv6Prefix;
    const ROOT: Area = Area::Ipv6Root;
    const NODES: Area = Area::Ipv6Nodes;
    const WIDTH: Width = Width::Bits32;
    const NODE: u32 = IPV6_NODE;

    fn bits(key: Ipv6Prefix) -> u128 {
        key.addr().0.to_bits()
    }
}
