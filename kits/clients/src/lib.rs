//! The rules that every client of the RIB and of the FEA follows, as pure state machines.
//!
//! A protocol process announces routes to the RIB ([`Origin`]), asks the RIB how next hops are reached ([`Questions`]), and
//! follows the FEA's interfaces ([`InterfaceTable`], [`FirstSnapshot`]). The RIB's process owns the forwarding table of the FEA
//! ([`FibOwner`]). The sockets that the FEA opens for a process are those of its [`SocketRights`]. Either side of each relation can restart at any time; the machines here decide what is sent again, what is
//! dropped and when an earlier life's state is swept.
//!
//! The machines do no I/O and read no clock. A process (`platform/process`) and the simulator (`tools/sim`) drive the same code, so
//! that simulated campaigns test the rules that ship.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod fib_owner;
mod interfaces;
mod origin;
mod questions;
mod snapshot;
mod socket_rights;
mod window;

pub use fib_owner::{FibOwner, ResyncEnd};
pub use interfaces::InterfaceTable;
pub use origin::Origin;
pub use questions::{Question, Questions, Request};
pub use snapshot::FirstSnapshot;
pub use socket_rights::{GroupPattern, LinkGroup, LinkProtocol, PortRight, RightError, SocketRights};
pub use window::Window;
