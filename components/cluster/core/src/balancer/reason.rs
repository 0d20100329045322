//! The reasons by which the program `balance` counts frames.

/// A reason; twin of `enum balance_reason`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
pub enum Reason {
    /// Sent to a router.
    Balanced = 0,
    /// Sent to the control plane.
    Control = 1,
    /// Sent out of a port, from a router.
    Returned = 2,
    /// Sent out of a port, from the control plane.
    FromControl = 3,
    /// An authentic hello frame.
    Hello = 4,
    /// Another frame of the cluster, for user space.
    Announced = 5,
    /// Dropped: a hello frame with a wrong tag.
    Forged = 6,
    /// Dropped: a hello frame that is not later than the last.
    Replayed = 7,
    /// Besides another reason: the first choice was silent.
    PassedOver = 8,
    /// Besides another reason: all choices were silent, and the first got the packet.
    AllSilent = 9,
    /// Dropped: headers that end early.
    Short = 10,
    /// Dropped: from a neighbor with a MAC address of an element or of the port, or with an EtherType of the cluster.
    Spoofed = 11,
    /// Dropped: the class has no element.
    NoRouter = 12,
    /// Dropped: the cluster has no control plane.
    NoControl = 13,
    /// Dropped: no inner interface.
    NoInner = 14,
    /// Dropped: the destination is no neighbor.
    NoNeighbor = 15,
    /// Dropped: the port is another balancer's.
    NoPort = 16,
    /// Dropped: only the control plane may send such a frame.
    NotControl = 17,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Reason; 18] = [
        Reason::Balanced,
        Reason::Control,
        Reason::Returned,
        Reason::FromControl,
        Reason::Hello,
        Reason::Announced,
        Reason::Forged,
        Reason::Replayed,
        Reason::PassedOver,
        Reason::AllSilent,
        Reason::Short,
        Reason::Spoofed,
        Reason::NoRouter,
        Reason::NoControl,
        Reason::NoInner,
        Reason::NoNeighbor,
        Reason::NoPort,
        Reason::NotControl,
    ];
}
