//! The shape of the IPv4 entries: the root and one level of nodes.

use super::layout::Area;
use super::lookup::IPV4_NODE;
use super::trie::Shape;
use super::words::Width;
use sluice_base::{Ipv4Prefix, Prefix};

/// IPv4: entries of 16 bits.
#[derive(Debug)]
pub(super) struct Ipv4;

impl Shape for Ipv4 {
    type Key = Ipv4Prefix;
    const ROOT: Area = Area::Ipv4Root;
    const NODES: Area = Area::Ipv4Nodes;
    const WIDTH: Width = Width::Bits16;
    const NODE: u32 = IPV4_NODE;

    fn bits(key: Ipv4Prefix) -> u128 {
        u128::from(key.addr().0.to_bits()) << 96
    }
}
