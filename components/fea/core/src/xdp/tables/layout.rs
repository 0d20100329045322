//! Layout of the maps that the XDP program reads: areas, entries, group words and members.
//!
//! The program's own description is `bpf/include/layout.h`. All words are 64 bits, little endian.

use core::fmt;
use sluice_base::{InterfaceIndex, Mac};

/// An area of words: a map that the program reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Area {
    /// IPv4 entries of 16 bits by the first 24 bits of an address, four to a word.
    Ipv4Root,
    /// IPv4 nodes: 256 entries of 16 bits by the last octet. Node 0 is never used.
    Ipv4Nodes,
    /// IPv6 entries of 32 bits by the first 24 bits of an address, two to a word.
    Ipv6Root,
    /// IPv6 nodes: 256 entries of 32 bits by the next octet. Node 0 is never used.
    Ipv6Nodes,
    /// Group words, see [`GroupWord`].
    Groups,
    /// Blocks of [`BUCKETS`] members of 32 bits, two to a word.
    Buckets,
    /// Members of three words. Member 0 is zero for ever.
    Members,
    /// Bits of IPv4 sources whose packets go to the kernel, by a hash of the address.
    Sources,
}

/// Bits of an address that select the root's entry.
pub(crate) const ROOT_BITS: u8 = 24;

/// Bits of an address that a node's entry consumes.
pub(crate) const NODE_BITS: u8 = 8;

/// Entries of a node.
pub const NODE_ENTRIES: usize = 1 << NODE_BITS;

/// Buckets of a block: the low seven bits of a flow's hash select a bucket.
pub const BUCKETS: usize = 128;

/// Words of a block of buckets.
pub const BLOCK_WORDS: usize = BUCKETS / 2;

/// Words of a member.
pub const MEMBER_WORDS: usize = 3;

/// The group of IPv4 addresses that no prefix covers: a copy of the default route's word, or 0.
pub const IPV4_DEFAULT: u32 = 0;

/// The group of IPv6 addresses that no prefix covers. An IPv6 entry of 0 leads here.
pub const IPV6_DEFAULT: u32 = 1;

/// The group "to the kernel", whose word is 0 for ever.
pub const KERNEL_GROUP: u32 = 2;

/// The first group with a free number.
pub const FIRST_GROUP: u32 = 3;

/// The member "to the kernel".
pub const KERNEL_MEMBER: u32 = 0;

impl Area {
    /// The areas, in the order of declaration.
    pub const ALL: [Area; 8] = [
        Area::Ipv4Root,
        Area::Ipv4Nodes,
        Area::Ipv6Root,
        Area::Ipv6Nodes,
        Area::Groups,
        Area::Buckets,
        Area::Members,
        Area::Sources,
    ];

    /// Returns the number of objects in the area: root entries, nodes, groups, blocks, members or bits.
    pub const fn objects(self) -> usize {
        match self {
            Area::Ipv4Root | Area::Ipv6Root => 1 << ROOT_BITS,
            Area::Ipv4Nodes | Area::Groups => 1 << 15,
            Area::Ipv6Nodes | Area::Sources => 1 << 16,
            Area::Buckets => 1 << 12,
            Area::Members => 1 << 14,
        }
    }

    /// Returns the number of words in the area.
    pub const fn words(self) -> usize {
        match self {
            Area::Ipv4Root => self.objects() / 4,
            Area::Ipv4Nodes => self.objects() * NODE_ENTRIES / 4,
            Area::Ipv6Root => self.objects() / 2,
            Area::Ipv6Nodes => self.objects() * NODE_ENTRIES / 2,
            Area::Groups => self.objects(),
            Area::Buckets => self.objects() * BLOCK_WORDS,
            Area::Members => self.objects() * MEMBER_WORDS,
            Area::Sources => self.objects() / 64,
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Area::Ipv4Root => "IPv4 root entries",
            Area::Ipv4Nodes => "IPv4 nodes",
            Area::Ipv6Root => "IPv6 root entries",
            Area::Ipv6Nodes => "IPv6 nodes",
            Area::Groups => "groups",
            Area::Buckets => "blocks of buckets",
            Area::Members => "members",
            Area::Sources => "bits of own sources",
        })
    }
}

/// A group's word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupWord {
    /// A single member: the high 32 bits are 0.
    Member(u32),
    /// A block of buckets: the high 32 bits are not 0.
    Block(u32),
}

impl GroupWord {
    /// Returns the group's word as stored.
    pub(crate) const fn to_word(self) -> u64 {
        match self {
            GroupWord::Member(member) => member as u64,
            GroupWord::Block(block) => 1 << 32 | block as u64,
        }
    }

    /// Reads a stored word.
    pub const fn from_word(word: u64) -> Self {
        if word >> 32 == 0 { GroupWord::Member(word as u32) } else { GroupWord::Block(word as u32) }
    }
}

/// The treatment of packets by a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Action {
    /// The kernel gets the packet.
    Kernel = 0,
    /// The packet leaves by the member's interface with the member's link-layer addresses.
    Forward = 1,
    /// The packet is dropped.
    Drop = 2,
    /// The kernel gets the packet, and resolves the neighbor.
    Unresolved = 3,
}

impl Action {
    /// Reads a stored action. A number without a meaning is [`Action::Kernel`], as for the program.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Action::Forward,
            2 => Action::Drop,
            3 => Action::Unresolved,
            _ => Action::Kernel,
        }
    }
}

/// The content of a member: a way to forward.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Way {
    /// The treatment of packets.
    pub action: Action,
    /// The interface of [`Action::Forward`].
    pub interface: Option<InterfaceIndex>,
    /// The largest IP packet in octets; larger packets go to the kernel.
    pub mtu: u32,
    /// The destination address of frames.
    pub destination: Mac,
    /// The source address of frames.
    pub source: Mac,
}

impl Way {
    /// The way "to the kernel": all words are 0.
    pub const KERNEL: Way = Way {
        action: Action::Kernel,
        interface: None,
        mtu: 0,
        destination: Mac([0; 6]),
        source: Mac([0; 6]),
    };

    /// Returns the words of the member as stored: action and interface, MTU and destination, destination and source.
    pub fn to_words(&self) -> [u64; MEMBER_WORDS] {
        let interface = self.interface.map_or(0, InterfaceIndex::number);
        let mut addresses = [0; 16];
        addresses[4..10].copy_from_slice(&self.destination.0);
        addresses[10..].copy_from_slice(&self.source.0);
        let addresses = u128::from_le_bytes(addresses);
        [
            u64::from(self.action as u32) | u64::from(interface) << 32,
            u64::from(self.mtu) | addresses as u64,
            (addresses >> 64) as u64,
        ]
    }

    /// Reads a stored member.
    pub fn from_words([first, second, third]: [u64; MEMBER_WORDS]) -> Self {
        let octets = (u128::from(second) | u128::from(third) << 64).to_le_bytes();
        Way {
            action: Action::from_number(first as u32),
            interface: InterfaceIndex::new((first >> 32) as u32),
            mtu: second as u32,
            destination: Mac([4, 5, 6, 7, 8, 9].map(|at| octets[at])),
            source: Mac([10, 11, 12, 13, 14, 15].map(|at| octets[at])),
        }
    }
}
