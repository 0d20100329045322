//! Counting: reasons, outcomes, and the counters of a port and reason.

/// The number of ports with counters of their own. Port 0 counts for all interfaces without an entry in `ports`.
pub const PORTS: u32 = 256;

/// The number of counters of a port; more than there are reasons, so that a new reason does not change the map.
pub const REASONS: u32 = 32;

/// The end of a frame's way through the chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Sent out of an interface.
    Forwarded,
    /// Dropped.
    Dropped,
    /// Passed to the kernel.
    Passed,
}

/// The reason with which a frame's way through the chain ended. Each frame is counted once, by one reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Reason {
    /// IPv4 packets sent out of an interface.
    ForwardedIpv4 = 0,
    /// IPv6 packets sent out of an interface.
    ForwardedIpv6 = 1,
    /// XIP packets sent out of an interface.
    ForwardedXip = 2,
    /// Frames dropped by a program's decision.
    Dropped = 3,
    /// Packets dropped by a route.
    Blackhole = 4,
    /// Passed: an EtherType that no slot takes.
    OtherEthertype = 5,
    /// Passed: too short, a wrong length field or a wrong IPv4 header checksum (RFC 1812, section 5.2.2).
    Malformed = 6,
    /// Passed: the fast path is off for the interface or the address family.
    Off = 7,
    /// Passed: the destination MAC address is not the port's.
    Station = 8,
    /// Passed: the route leads to the kernel, or there is no route.
    Kernel = 9,
    /// Passed: the neighbor's MAC address is not known.
    Unresolved = 10,
    /// Passed: the TTL or hop limit is 1 or 0.
    Ttl = 11,
    /// Passed: IPv4 options or IPv6 hop-by-hop options.
    Options = 12,
    /// Passed: larger than the MTU of the outgoing interface, padding included.
    Size = 13,
    /// Passed: a source or destination address that is never forwarded (RFC 1812, section 5.3.7).
    Martian = 14,
    /// Passed: the outgoing interface is the incoming one; the kernel sends redirects.
    SameInterface = 15,
    /// Passed: no program of the chain took the frame.
    NoTaker = 16,
    /// Passed: a component decides on the packet.
    SlowPath = 17,
    /// Frames sent to an element of the cluster, or out of a port for an element.
    Balanced = 18,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Reason; 19] = [
        Reason::ForwardedIpv4,
        Reason::ForwardedIpv6,
        Reason::ForwardedXip,
        Reason::Dropped,
        Reason::Blackhole,
        Reason::OtherEthertype,
        Reason::Malformed,
        Reason::Off,
        Reason::Station,
        Reason::Kernel,
        Reason::Unresolved,
        Reason::Ttl,
        Reason::Options,
        Reason::Size,
        Reason::Martian,
        Reason::SameInterface,
        Reason::NoTaker,
        Reason::SlowPath,
        Reason::Balanced,
    ];

    /// Returns the reason's name.
    pub fn name(self) -> &'static str {
        match self {
            Reason::ForwardedIpv4 => "forwarded-ipv4",
            Reason::ForwardedIpv6 => "forwarded-ipv6",
            Reason::ForwardedXip => "forwarded-xip",
            Reason::Dropped => "dropped",
            Reason::Blackhole => "blackhole",
            Reason::OtherEthertype => "other-ethertype",
            Reason::Malformed => "malformed",
            Reason::Off => "off",
            Reason::Station => "station",
            Reason::Kernel => "kernel",
            Reason::Unresolved => "unresolved",
            Reason::Ttl => "ttl",
            Reason::Options => "options",
            Reason::Size => "size",
            Reason::Martian => "martian",
            Reason::SameInterface => "same-interface",
            Reason::NoTaker => "no-taker",
            Reason::SlowPath => "slow-path",
            Reason::Balanced => "balanced",
        }
    }

    /// Returns the end of the way of the frames of this reason.
    pub fn outcome(self) -> Outcome {
        match self {
            Reason::ForwardedIpv4 | Reason::ForwardedIpv6 | Reason::ForwardedXip | Reason::Balanced => {
                Outcome::Forwarded
            }
            Reason::Dropped | Reason::Blackhole => Outcome::Dropped,
            _ => Outcome::Passed,
        }
    }

    /// Returns the reason's index among the counters of a port.
    pub fn index(self) -> u32 {
        self as u32
    }
}

/// The frames and octets of a port and reason on one CPU (`struct count`), or a sum of such.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Count {
    /// Frames.
    pub packets: u64,
    /// Octets from the Ethernet header on, without the frame check sequence.
    pub octets: u64,
}

impl Count {
    /// Returns the sum of two counts. Counts wrap around at 2^64.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        Count {
            packets: self.packets.wrapping_add(other.packets),
            octets: self.octets.wrapping_add(other.octets),
        }
    }
}
