//! The fast path by XDP: an engine beside the kernel ([`XdpEngine`]), and the forwarding tables of its program, as pure code
//! over a store of words ([`Words`]).
//!
//! * The state of the engine and the facts of the host (`forwarder`, `foreign`) decide on the tables' content.
//! * An address leads through the entries of its family (`trie`) to a group, by the flow's bucket (`groups`, `shares`)
//!   to a member (`members`), which determines what happens to the packet ([`Way`]).
//! * Prefixes lead to groups and groups to members by number, so that one store moves any number of prefixes.
//! * The program may run between any two stores: a packet is treated by its old or by its new route.
//! * Retired numbers are quarantined (`numbers`) until no program run can know them.
//! * The words are written and never believed: an audit (`audit`) compares each with the prefixes, groups and members, and
//!   mends what differs.
//! * The objects are compared with the core's by digests, and what differs is mended (`mending`).
//! * At a limit ([`Limits`]) packets go to the kernel, which has all routes.
//!
//! The maps' layout is in [`layout`], the program's reading of them in [`lookup`].

mod digests;
mod engine;
mod foreign;
mod forwarder;
mod mending;
pub mod obstacles;
pub mod programs;
mod promiscuity;
mod tables;

pub use engine::XdpEngine;
pub use foreign::ForeignRoute;
pub use forwarder::{Forwarder, ForwarderCounts, NeighborWish, Port};
pub use promiscuity::{Promiscuity, PromiscuityStep};
pub use tables::{
    Action, Area, Auditor, Full, Grace, GroupSlot, Limits, MemberSlot, Memory, Mend, Tables, Target, Usage,
    Use, Way, Words, layout, lookup,
};
