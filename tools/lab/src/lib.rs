//! Labs: network namespaces with real routers.
//!
//! A [`Topology`] (nodes, links, addresses, which daemon each node runs) becomes a [`Lab`]: a network namespace a node,
//! a veth pair a link, and the daemons started there. Dropping the lab takes the lab down. The state needed for the
//! removal lies in the lab's folder from the first moment ([`state`]), so that the lab of a dead owner can be taken
//! down by any process; and a guardian process takes the lab down as soon as the owner dies.
//!
//! As root, a lab lives in the host's own user namespace and its nodes are `ip netns` names. Without root, a holder
//! process keeps a user, mount and network namespace open in which the nodes are; see [`scope`].
//!
//! ```no_run
//! # fn main() -> Result<(), sluice_lab::LabError> {
//! use sluice_lab::{Lab, LabOptions, Topology};
//! let topology: Topology = "
//!     [nodes.a]
//!     [nodes.b]
//!     [[links]]
//!     a = 'a:eth0'
//!     b = 'b:eth0'
//!     a_addresses = ['10.0.0.1/24']
//!     b_addresses = ['10.0.0.2/24']
//! ".parse()?;
//! let lab = Lab::up(&topology, LabOptions::unique("example"))?;
//! lab.exec("a", "ping", ["-c1", "10.0.0.2"])?;
//! # Ok(()) }
//! ```
//!
//! The user's guide is `docs/lab.md`.

#![warn(clippy::disallowed_macros)]

mod cli;
mod daemon;
mod error;
pub mod ethtool;
mod ffi;
mod guardian;
mod lab;
mod mounts;
mod neighbors;
mod network;
pub mod process;
pub mod scope;
pub mod state;
pub mod topology;
mod wait;

pub use cli::{LabCommand, run, run_in};
pub use error::LabError;
pub use lab::{Lab, LabOptions, available};
pub use topology::Topology;
pub use wait::until;
