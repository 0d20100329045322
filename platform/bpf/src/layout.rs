//! Layouts shared with the C programs: the twins of `bpf/include/layout.h`.
//!
//! `tests/layout.rs` compares sizes, offsets and numbers with the type information (BTF) of the compiled objects.

pub mod balance;
mod count;
mod tables;
pub mod xip;

pub use count::*;
pub use tables::*;

/// The version of the layouts of shared maps. Pins of another version are not taken up.
pub const LAYOUT_VERSION: u32 = 5;

/// The number of slots in the map `slots`; more than there are names, so that a new slot does not change the map.
pub const SLOTS: u32 = 8;

/// The first word of a generated packet's UDP payload.
pub const STAMP_MAGIC: u32 = 0x534c_5543;

/// A slot of the chain. The order is the order in which a frame visits the programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Slot {
    /// Filters and policers.
    Police = 0,
    /// Rules for flows.
    Flow = 1,
    /// Load balancing.
    Balance = 2,
    /// Forwarding of XIP.
    Xip = 3,
    /// Forwarding of IPv4 and IPv6.
    Ip = 4,
}

impl Slot {
    /// All slots, in order.
    pub const ALL: [Slot; 5] = [Slot::Police, Slot::Flow, Slot::Balance, Slot::Xip, Slot::Ip];

    /// Returns the slot's name.
    pub fn name(self) -> &'static str {
        match self {
            Slot::Police => "police",
            Slot::Flow => "flow",
            Slot::Balance => "balance",
            Slot::Xip => "xip",
            Slot::Ip => "ip",
        }
    }

    /// Returns the slot's index in the map `slots`.
    pub fn index(self) -> u32 {
        self as u32
    }
}

/// The packets of an IP protocol, and whether they are dropped (`struct protocol`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Protocol {
    /// Packets that the program saw.
    pub packets: u64,
    /// 1 if the program drops the packets.
    pub is_dropped: u64,
}

/// The first octets of a generated packet's UDP payload, in network order (`struct stamp`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Stamp {
    /// [`STAMP_MAGIC`].
    pub magic: u32,
    /// The generator's stream.
    pub stream: u32,
    /// The packet's number in the stream, from 0.
    pub sequence: u64,
}

/// The generator's position (`struct generator`). Times are nanoseconds since boot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Generator {
    /// Packets handed to the interface.
    pub sent: u64,
    /// Rounds in which no packet was due.
    pub idle: u64,
    /// Time of the first packet.
    pub first: u64,
    /// Time of the last packet.
    pub last: u64,
}

/// A destination of generated packets in network order (`struct destination`); IPv4 has the first 4 octets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Destination {
    /// The address's octets.
    pub address: [u8; 16],
}

/// A sink's knowledge of the sequence numbers (`struct tally`). Times are nanoseconds since boot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Tally {
    /// Packets of the sink's stream.
    pub received: u64,
    /// Octets of those packets' frames.
    pub octets: u64,
    /// Packets with a sequence number that the sink had counted before.
    pub duplicates: u64,
    /// First copies of packets with a sequence number below one that the sink had counted before.
    pub reordered: u64,
    /// Packets too old for the window.
    pub late: u64,
    /// The highest sequence number and 1.
    pub expected: u64,
    /// Time of the first packet.
    pub first: u64,
    /// Time of the last packet.
    pub last: u64,
}

/// One word of a sink's window (`struct window`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Window {
    /// The word's number and 1; 0 if unused.
    pub word: u64,
    /// The received ones of 64 sequence numbers.
    pub seen: u64,
}
