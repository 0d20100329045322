//! XIP, NWP and XCMP in octets and in text (`docs/xia/wire.md`).
//!
//! A decoder borrows the octets, checks them in the order of the protocol's reception rules and returns a typed error.
//! Each error has a name, which counters use.

pub mod address;
pub mod build;
pub mod edge;
pub mod header;
pub mod hid;
pub mod ip;
pub mod nwp;
pub mod re;
pub mod rewrite;
pub mod shapes;
pub mod text;
pub mod udp;
pub mod xcmp;

pub use address::{AddressError, Dag, Node};
pub use build::{BuildError, PacketHead};
pub use edge::EdgeByte;
pub use header::{HeaderError, LastNode, LinkDestination, Packet, RowError};
pub use hid::Hid;
pub use rewrite::PacketMut;
pub use sluice_base::Mac;
pub use text::{Marks, TextError};

/// The EtherType of XIP.
pub const ETHERTYPE_XIP: u16 = 0xc0de;
/// The EtherType of NWP.
pub const ETHERTYPE_NWP: u16 = 0xc0df;
