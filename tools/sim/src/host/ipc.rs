//! What the processes of a router say to each other: the calls of their XRL interfaces, and their replies.

use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::{
    FibBatch, InterfaceEvent, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, RouteBatch, TableId,
};
use sluice_rib::OriginSettings;
use std::net::IpAddr;

/// A process of a router, in the order in which the manager starts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// The forwarding engine abstraction.
    Fea,
    /// The routing information base.
    Rib,
    /// Static routes.
    Static,
    /// BGP.
    Bgp,
}

impl Process {
    /// All of them.
    pub const ALL: [Process; 4] = [Process::Fea, Process::Rib, Process::Static, Process::Bgp];

    /// Its name, as an origin and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Process::Fea => "fea",
            Process::Rib => "rib",
            Process::Static => "static",
            Process::Bgp => "bgp",
        }
    }
}

/// A message on its way to one life of a process.
#[derive(Debug)]
pub struct Ipc {
    /// To whom.
    pub to: Process,
    /// In which life; in another one the message is lost.
    pub life: u32,
    /// What.
    pub message: Message,
}

/// What is said.
#[derive(Clone, Debug)]
pub enum Message {
    /// The Finder: a process lives.
    Born(Process, u32),
    /// The Finder: a process is dead.
    Died(Process, u32),

    /// To the RIB: an origin registers.
    RegisterOrigin(Process, u32, OriginSettings),
    /// From the RIB: it is registered.
    Registered,
    /// To the RIB: routes of an origin.
    RoutesIpv4(Process, RouteBatch<Ipv4Prefix>),
    /// To the RIB: routes of an origin.
    RoutesIpv6(Process, RouteBatch<Ipv6Prefix>),
    /// From the RIB: a batch is taken.
    RoutesTaken,
    /// To the RIB: everything was announced.
    EndOfRefresh(Process),
    /// To the RIB: questions about next hops.
    Ask {
        /// Who asks.
        from: Process,
        /// In which life.
        life: u32,
        /// Answers that are of no more use.
        deregister: Vec<IpPrefix>,
        /// Addresses.
        addrs: Vec<IpAddr>,
    },
    /// From the RIB: the answers.
    Answers(Vec<Answer>),
    /// From the RIB: answers that hold no longer.
    Invalid(Vec<IpPrefix>),

    /// To the FEA: this is the owner of the table from now on; begin a resync; tell it of interfaces.
    Own(Process, u32),
    /// From the FEA: that is done.
    Owned,
    /// To the FEA: tell of interfaces.
    Subscribe(Process, u32),
    /// From the FEA: interfaces.
    Interfaces(Vec<InterfaceEvent>),
    /// To the FEA: routes.
    FibIpv4(FibBatch<Ipv4Prefix>),
    /// To the FEA: routes.
    FibIpv6(FibBatch<Ipv6Prefix>),
    /// From the FEA: a batch is taken.
    FibTaken,
    /// To the FEA: all was announced.
    EndResync,
    /// From the FEA: the rest is swept.
    Resynced,
    /// From the FEA: routes that the kernel refused.
    FibRejected(TableId, Vec<(IpPrefix, Provenance, String)>),
}

/// The RIB's answer about an address of either family.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of IPv4.
    Ipv4(InterestAnswer<Ipv4Prefix>),
    /// Of IPv6.
    Ipv6(InterestAnswer<Ipv6Prefix>),
}
