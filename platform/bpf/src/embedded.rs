//! The compiled programs, as the build script left them.

#[cfg(feature = "xdp")]
macro_rules! object {
    ($name:literal) => {{
        // ELF readers want the alignment of a 64-bit word.
        #[repr(C, align(8))]
        struct Aligned<T: ?Sized>(T);
        static OBJECT: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")));
        Some(&OBJECT.0)
    }};
}

#[cfg(not(feature = "xdp"))]
macro_rules! object {
    ($name:literal) => {
        None
    };
}

/// A program of the folder `bpf/`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Embedded {
    /// Checks the headers of frames and begins the chain.
    Root,
    /// Fills a slot of the chain and continues, for tests and benchmarks.
    Empty,
    /// Drops and counts every frame.
    Drop,
    /// Forwards IPv4 and IPv6 by the tables.
    Ip,
    /// Forwards XIP packets by the cache of answers.
    Xip,
    /// Sends copies of XIP packets.
    Copy,
    /// Leads frames of neighbors to the elements of a cluster, and back.
    Balance,
    /// Counts packets by IP protocol and drops marked protocols.
    Protocols,
    /// Counts the generator's packets by sequence number and drops them.
    Sink,
    /// Generates packets from live frames.
    Pktgen,
    /// Drops the frames beyond the budget of an element of a laboratory.
    Budget,
}

impl Embedded {
    /// All programs.
    pub const ALL: [Embedded; 11] = [
        Embedded::Root,
        Embedded::Empty,
        Embedded::Drop,
        Embedded::Ip,
        Embedded::Xip,
        Embedded::Copy,
        Embedded::Balance,
        Embedded::Sink,
        Embedded::Pktgen,
        Embedded::Protocols,
        Embedded::Budget,
    ];

    /// Returns the name of the program's file, and of its pin.
    pub fn name(self) -> &'static str {
        match self {
            Embedded::Root => "root",
            Embedded::Empty => "empty",
            Embedded::Drop => "drop",
            Embedded::Ip => "ip",
            Embedded::Xip => "xip",
            Embedded::Copy => "copy",
            Embedded::Balance => "balance",
            Embedded::Protocols => "protocols",
            Embedded::Sink => "sink",
            Embedded::Pktgen => "pktgen",
            Embedded::Budget => "budget",
        }
    }

    /// Returns the object, or `None` in a build without the feature `xdp`.
    pub fn object(self) -> Option<&'static [u8]> {
        match self {
            Embedded::Root => object!("root"),
            Embedded::Empty => object!("empty"),
            Embedded::Drop => object!("drop"),
            Embedded::Ip => object!("ip"),
            Embedded::Xip => object!("xip"),
            Embedded::Copy => object!("copy"),
            Embedded::Balance => object!("balance"),
            Embedded::Protocols => object!("protocols"),
            Embedded::Sink => object!("sink"),
            Embedded::Pktgen => object!("pktgen"),
            Embedded::Budget => object!("budget"),
        }
    }
}
