//! The program's way through the tables, for audits, `show` commands and tests.
//!
//! Any content of the words is safe: numbers beyond an area lead to the kernel.

use super::layout::{
    Area, BLOCK_WORDS, BUCKETS, GroupWord, IPV4_DEFAULT, IPV6_DEFAULT, KERNEL_GROUP, KERNEL_MEMBER,
    MEMBER_WORDS, NODE_BITS, NODE_ENTRIES, ROOT_BITS, Way,
};
use super::words::{Width, Words};
use core::net::{Ipv4Addr, Ipv6Addr};

/// The mark of an IPv4 entry that leads to a node.
pub(super) const IPV4_NODE: u32 = 1 << 15;

/// The mark of an IPv6 entry that leads to a node.
pub(super) const IPV6_NODE: u32 = 1 << 31;

/// Returns the number of the group that the entries lead `address` to.
pub fn ipv4_group(words: &impl Words, address: Ipv4Addr) -> u32 {
    let bits = address.to_bits() as usize;
    let mut entry = Width::Bits16.load(words, Area::Ipv4Root, bits >> NODE_BITS);
    if entry & IPV4_NODE != 0 {
        let node = (entry & !IPV4_NODE) as usize;
        entry = Width::Bits16.load(words, Area::Ipv4Nodes, node * NODE_ENTRIES + bits % NODE_ENTRIES);
    }
    match entry {
        0 => IPV4_DEFAULT,
        entry if entry & IPV4_NODE != 0 => KERNEL_GROUP,
        entry => entry,
    }
}

/// Returns the number of the group that the entries lead `address` to.
pub fn ipv6_group(words: &impl Words, address: Ipv6Addr) -> u32 {
    let bits = address.to_bits();
    let mut end = u32::from(ROOT_BITS);
    let mut entry = Width::Bits32.load(words, Area::Ipv6Root, (bits >> (128 - end)) as usize);
    while entry & IPV6_NODE != 0 {
        let node = (entry & !IPV6_NODE) as usize;
        if node >= Area::Ipv6Nodes.objects() || end == 128 {
            return KERNEL_GROUP;
        }
        end += u32::from(NODE_BITS);
        let octet = (bits >> (128 - end)) as usize % NODE_ENTRIES;
        entry = Width::Bits32.load(words, Area::Ipv6Nodes, node * NODE_ENTRIES + octet);
    }
    if entry == 0 { IPV6_DEFAULT } else { entry }
}

/// Returns the number of the member to which a group leads packets of a flow.
pub fn group_member(words: &impl Words, group: u32, flow: u32) -> u32 {
    let group = group as usize;
    let member = match (group < Area::Groups.objects()).then(|| words.load(Area::Groups, group)) {
        None => KERNEL_MEMBER,
        Some(word) => match GroupWord::from_word(word) {
            GroupWord::Member(member) => member,
            GroupWord::Block(block) if (block as usize) < Area::Buckets.objects() => {
                bucket(words, block, flow as usize % BUCKETS)
            }
            GroupWord::Block(_) => KERNEL_MEMBER,
        },
    };
    if (member as usize) < Area::Members.objects() { member } else { KERNEL_MEMBER }
}

/// Reads a bucket of a block.
pub(super) fn bucket(words: &impl Words, block: u32, bucket: usize) -> u32 {
    Width::Bits32.load(words, Area::Buckets, block as usize * BLOCK_WORDS * 2 + bucket)
}

/// Reads the content of a member. A number beyond the area is [`Way::KERNEL`].
pub fn member_way(words: &impl Words, member: u32) -> Way {
    let member = member as usize;
    if member >= Area::Members.objects() {
        return Way::KERNEL;
    }
    Way::from_words([0, 1, 2].map(|word| words.load(Area::Members, member * MEMBER_WORDS + word)))
}
