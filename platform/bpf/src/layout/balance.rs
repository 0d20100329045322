//! The maps of the program `balance`: interfaces, ports, elements, classes, tables, neighbors, addresses, settings, counters.

/// The outer ports of a cluster, by number.
pub const PORTS: u32 = 1 << 16;
/// The elements of a cluster, by number. Element 0 does not exist.
pub const ELEMENTS: u32 = 1 << 16;
/// The classes of packets.
pub const CLASSES: usize = 8;
/// The members of a class.
pub const MEMBERS: usize = 256;
/// The rows of a class's table, a prime number.
pub const ROWS: u32 = 16381;
/// The rows of a block of a table.
pub const BLOCK: usize = 128;
/// The blocks of all tables.
pub const BLOCKS: u32 = CLASSES as u32 * 128;
/// The lines of the table of neighbors.
pub const NEIGHBOR_LINES: u32 = 1 << 11;
/// The neighbors of a line.
pub const NEIGHBORS_PER_LINE: usize = 8;
/// The lines of the table of the router's own addresses.
pub const ADDRESS_LINES: u32 = 1 << 10;
/// The addresses of a line.
pub const ADDRESSES_PER_LINE: usize = 4;
/// The port of a MAC address that is behind several ports.
pub const SEVERAL: u16 = 0xffff;
/// The inner interfaces.
pub const INNERS: usize = 8;
/// The keys of hello frames.
pub const KEYS: usize = 2;
/// The reasons for which each CPU has counters.
pub const REASONS: u32 = 32;
/// The CPUs with counters of their own.
pub const CPUS: u32 = 256;

/// The side of an interface (`enum balance_side`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Side {
    /// The interface is not the balancer's.
    None = 0,
    /// Neighbors are behind the interface.
    Outer = 1,
    /// The interconnect is behind the interface.
    Inner = 2,
}

/// The choice of an element (`enum balance_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Mode {
    /// Packets of the class are treated as those of class 0.
    Off = 0,
    /// The members in turn.
    RoundRobin = 1,
    /// By the flow hash and the table.
    Flow = 2,
}

/// An interface of this host (`struct balance_interface`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Interface {
    /// The port's virtual MAC address; unused for an inner interface.
    pub mac: [u8; 6],
    /// The port's number; unused for an inner interface.
    pub port: u16,
    /// The number of a [`Side`].
    pub side: u32,
    /// 0.
    pub reserved: u32,
}

/// An outer port (`struct balance_port`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Port {
    /// The virtual MAC address.
    pub mac: [u8; 6],
    /// 0.
    pub reserved: u16,
    /// The interface's index; 0 if the port is another balancer's.
    pub interface: u32,
    /// 0.
    pub reserved_after: u32,
}

/// The last authentic hello frame of an element (`struct balance_heard`). Only the program writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct LastHello {
    /// The time in nanoseconds since boot; 0 if no hello frame came.
    pub time: u64,
    /// The frame's epoch.
    pub epoch: u64,
    /// The frame's counter.
    pub counter: u64,
}

/// A class of packets (`struct balance_class`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Class {
    /// The number of a [`Mode`].
    pub mode: u32,
    /// The number of members.
    pub count: u32,
    /// The members, by the numbers of elements.
    pub member: [u16; MEMBERS],
}

/// A block of rows of a class's table (`struct balance_block`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Block {
    /// The elements of the rows; 0 for none.
    pub element: [u16; BLOCK],
}

/// A line of the table of neighbors (`struct balance_neighbors`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Neighbors {
    /// A MAC address in the low 48 bits, its first octet lowest, and the port in the high 16; 0 for none.
    pub entry: [u64; NEIGHBORS_PER_LINE],
}

/// A line of the table of the router's own addresses (`struct balance_addresses`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Addresses {
    /// IPv6 addresses, and IPv4 addresses mapped into IPv6, as two words in this machine's order; zeros for none.
    pub entry: [[u64; 2]; ADDRESSES_PER_LINE],
}

/// Settings of the program (`struct balance_settings`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Settings {
    /// The seed of all hashes.
    pub seed: u64,
    /// Nanoseconds without a hello frame after which an element is passed over; 0 if elements send none.
    pub silence: u64,
    /// The keys of hello frames; zeros for none.
    pub key: [[u64; 2]; KEYS],
    /// The EtherTypes of the cluster's frames in network order; 0 for none.
    pub ether_type: [u16; 2],
    /// The element that is the control plane; 0 for none.
    pub control: u16,
    /// The number of inner interfaces.
    pub inners: u16,
    /// The indices of the inner interfaces.
    pub inner: [u32; INNERS],
    /// The class of a packet by its DSCP.
    pub class: [u8; 64],
}

/// A counter (`struct balance_count`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ReasonCount {
    /// Frames on one CPU.
    pub packets: u64,
}

/// The frames of a class that were led to elements (`struct balance_led`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Led {
    /// Frames on one CPU.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

/// The reasons by which frames are counted (`enum balance_reason`), with their names.
pub const REASON_NAMES: [(u32, &str); 18] = [
    (0, "balanced"),
    (1, "control"),
    (2, "returned"),
    (3, "from-control"),
    (4, "hello"),
    (5, "announced"),
    (6, "forged"),
    (7, "replayed"),
    (8, "passed-over"),
    (9, "all-silent"),
    (10, "short"),
    (11, "spoofed"),
    (12, "no-router"),
    (13, "no-control"),
    (14, "no-inner"),
    (15, "no-neighbor"),
    (16, "no-port"),
    (17, "not-control"),
];
