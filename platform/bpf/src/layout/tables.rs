//! The forwarding tables: ports, prefixes, groups, members.
//!
//! An address leads to an entry of the root, through nodes to a group, and by the group, and the flow hash if the group has
//! buckets, to a member. Any word in any map is safe: the program passes or drops the packet, or sends it to a member.

/// The number of entries of the map `ports`: the indices of interfaces below this number.
pub const INTERFACES: u32 = 1 << 16;

/// The number of entries of the map `ipv4_root`: words of 64 bits, each with the entries of four prefixes of 24 bits.
///
/// The entry of the prefix `a` (address >> 8) is at the bits 16 * (a & 3) of the word a >> 2.
pub const IPV4_ROOT_WORDS: u32 = 1 << 22;

/// The number of entries of the map `ipv4_nodes`.
pub const IPV4_NODES: u32 = 1 << 15;

/// The bit of an IPv4 entry whose low 15 bits are a node; without it the entry is a group.
pub const IPV4_NODE: u16 = 0x8000;

/// The number of entries of the map `ipv6_root`: words of 64 bits, each with the entries of two prefixes of 24 bits.
///
/// The entry of the prefix `a` (the first 24 bits) is at the bits 32 * (a & 1) of the word a >> 1.
pub const IPV6_ROOT_WORDS: u32 = 1 << 23;

/// The number of entries of the map `ipv6_nodes`.
pub const IPV6_NODES: u32 = 1 << 16;

/// The bit of an IPv6 entry whose low 31 bits are a node; without it the entry is a group.
pub const IPV6_NODE: u32 = 0x8000_0000;

/// The number of entries of the map `groups`: words of 64 bits. If the high 32 bits are 0, the low 32 bits are a member,
/// else a block of buckets.
pub const GROUPS: u32 = 1 << 15;

/// The group to which the IPv4 entry 0 leads: the default route.
pub const GROUP_IPV4_DEFAULT: u32 = 0;

/// The group to which the IPv6 entry 0 leads: the default route.
pub const GROUP_IPV6_DEFAULT: u32 = 1;

/// The group whose packets go to the kernel.
pub const GROUP_KERNEL: u32 = 2;

/// The number of entries of the map `ipv4_sources`: words of 64 bits, with a bit for each hash of a source whose packets go to the kernel.
///
/// The bit of a source is at [`ipv4_source_bit`] & 63 of the word [`ipv4_source_bit`] >> 6.
pub const IPV4_SOURCE_WORDS: u32 = 1 << 10;

/// Returns the number of the bit of an IPv4 source in the map `ipv4_sources`.
pub const fn ipv4_source_bit(address: u32) -> u32 {
    address.wrapping_mul(0x9e37_79b1) >> 16
}

/// The number of entries of the map `buckets`.
pub const BUCKET_BLOCKS: u32 = 1 << 12;

/// The number of members of a block of buckets.
pub const BUCKETS: u32 = 128;

/// The number of entries of the map `members`. Member 0 is all zeros: to the kernel.
pub const MEMBERS: u32 = 1 << 14;

/// The bit of a port's flags with which IPv4 is forwarded (`PORT_IPV4`).
pub const PORT_IPV4: u32 = 1;

/// The bit of a port's flags with which IPv6 is forwarded (`PORT_IPV6`).
pub const PORT_IPV6: u32 = 2;

/// The bit of a port's flags by which a later FEA knows that the interface is promiscuous for the router (`PORT_PROMISCUOUS`).
pub const PORT_PROMISCUOUS: u32 = 4;

/// An interface in the map `ports`, at its index (`struct port`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Port {
    /// The MAC address. Frames to other addresses go to the kernel.
    pub mac: [u8; 6],
    /// The port's number among the counters, 1 to 255; 0 for an interface that is no port of the router.
    pub number: u16,
    /// A set of [`PORT_IPV4`], [`PORT_IPV6`] and [`PORT_PROMISCUOUS`].
    pub flags: u32,
    /// The slots whose programs do not see the port's frames: bit `1 << slot`. The slot ip has the flags instead.
    pub skipped: u32,
}

/// The entries below a prefix of 24 bits, by the last octet (`struct ipv4_node`). Node 0 is never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Ipv4Node {
    /// The entries.
    pub entry: [u16; 256],
}

/// The entries below a prefix, by the next octet (`struct ipv6_node`). Node 0 is never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Ipv6Node {
    /// The entries.
    pub entry: [u32; 256],
}

/// The members of a group by the low bits of the flow hash (`struct bucket_block`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct BucketBlock {
    /// The members.
    pub member: [u32; BUCKETS as usize],
}

/// The treatment of the packets of a member (`enum member_action`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum MemberAction {
    /// To the kernel, as for each number without a meaning.
    Kernel = 0,
    /// Out of the member's interface.
    Forward = 1,
    /// Dropped.
    Drop = 2,
    /// To the kernel, which asks for the neighbor's MAC address.
    Unresolved = 3,
}

/// A neighbor, or another end of routes (`struct member`). A member never changes while an entry leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Member {
    /// The number of a [`MemberAction`].
    pub action: u32,
    /// The outgoing interface's index.
    pub interface: u32,
    /// The largest IP packet in octets.
    pub mtu: u32,
    /// The destination MAC address of the frames.
    pub destination: [u8; 6],
    /// The source MAC address of the frames.
    pub source: [u8; 6],
}
