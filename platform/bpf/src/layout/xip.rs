//! The maps of the program `xip`: the cache of answers, members, tunnels, settings and counters.

/// The lines of the cache.
pub const LINES: u32 = 1 << 19;
/// The slots of a line.
pub const SLOTS_PER_LINE: usize = 4;
/// The bit of a tag that the program sets at a hit.
pub const TAG_USED: u64 = 1;
/// The members.
pub const MEMBERS: u32 = 1 << 14;
/// The tunnels.
pub const TUNNELS: u32 = 1 << 12;
/// The sets of members.
pub const SETS: u32 = 1 << 11;
/// The members of a set.
pub const SET_MEMBERS: usize = 63;
/// Words of the hashes' key.
pub const KEY_WORDS: usize = 30;
/// The budgets of sources.
pub const SOURCES: u32 = 1 << 12;
/// The reasons for which each CPU has counters.
pub const REASONS: u32 = 32;
/// The CPUs with counters of their own.
pub const CPUS: u32 = 256;

/// A slot of the cache (`struct xip_slot`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct CacheSlot {
    /// A hash of the row, and [`TAG_USED`]; 0 if the slot is empty.
    pub tag: u64,
    /// The action in bits 0 to 7, the edge in bits 8 to 15, the index in bits 32 to 63.
    pub answer: u64,
}

/// A line of the cache (`struct xip_line`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct CacheLine {
    /// The slots.
    pub slot: [CacheSlot; SLOTS_PER_LINE],
}

/// The treatment of a packet (`enum xip_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum CacheAction {
    /// User space treats each packet.
    Up = 0,
    /// Select the edge and go on.
    Dig = 1,
    /// Send to a member.
    Forward = 2,
    /// Drop, as an entry asks for.
    Drop = 3,
    /// Drop: no edge leads anywhere.
    Unreachable = 4,
    /// Drop: the XID does not work in this place.
    Unsupported = 5,
    /// Send in a UDP datagram to a tunnel.
    Tunnel = 6,
    /// Send a copy to each member of a set.
    Copy = 7,
}

/// The far end of a tunnel in network order, written as one word (`struct xip_tunnel`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Tunnel {
    /// The far end's IPv4 address.
    pub address: u32,
    /// The far end's UDP port; 0 in an entry without a far end.
    pub port: u16,
    /// Always 0.
    pub reserved: u16,
}

/// A member of a set (`struct xip_copy`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct SetMember {
    /// The interface's index.
    pub interface: u32,
    /// The member's number.
    pub member: u32,
}

/// Members that get a copy each (`struct xip_set`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Set {
    /// 0 while the set changes; otherwise another number than that of the former content.
    pub version: u32,
    /// The members in use.
    pub count: u32,
    /// The members, each on another interface.
    pub copy: [SetMember; SET_MEMBERS],
}

/// Settings of the program (`struct xip_settings`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Settings {
    /// The key of both hashes.
    pub key: [u32; KEY_WORDS],
    /// 64 less the number of bits of a line's index.
    pub line_shift: u32,
    /// The number of hits of which one goes to user space; 0 for none.
    pub shadow_interval: u32,
    /// The odd multiplier of the hash that chooses the line.
    pub multiplier: u64,
    /// Nanoseconds between two packets of one source to user space.
    pub punt_interval: u64,
    /// The burst of one source to user space, in nanoseconds.
    pub punt_burst: u64,
    /// 1 if undeliverable packets go to user space.
    pub has_reports: u64,
    /// The IPv4 address of this host's end of all tunnels, in network order; 0 for none.
    pub tunnel_address: u32,
    /// The UDP port of this host's end, in network order.
    pub tunnel_port: u16,
    /// 1 if datagrams have a UDP checksum.
    pub has_checksum: u16,
    /// The EtherType of XIP packets, in network order.
    pub ether_type: u16,
    /// Always 0.
    pub reserved: [u16; 3],
}

/// The budget of a source (`struct xip_source`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Source {
    /// The time, in nanoseconds since boot, at which the source has used up all that it was allowed.
    pub time: u64,
}

/// A counter (`struct xip_count`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ReasonCount {
    /// Packets on one CPU.
    pub packets: u64,
}

/// The reasons by which XIP packets are counted (`enum xip_reason`), with their names.
pub const REASON_NAMES: [(u32, &str); 28] = [
    (0, "hit"),
    (1, "miss"),
    (2, "shadowed"),
    (3, "over-budget"),
    (4, "to-user"),
    (5, "short-fixed-header"),
    (6, "version"),
    (7, "bad-row"),
    (8, "at-sink"),
    (9, "hop-limit"),
    (10, "too-big"),
    (11, "no-member"),
    (12, "no-route"),
    (13, "sent"),
    (14, "tunneled"),
    (15, "dropped"),
    (16, "not-reached"),
    (17, "not-supported"),
    (18, "dug"),
    (19, "from-tunnel"),
    (20, "no-way"),
    (21, "replicated"),
    (22, "copied"),
    (23, "destination-rows"),
    (24, "source-rows"),
    (25, "last-node"),
    (26, "short-rows"),
    (27, "short-payload"),
];
