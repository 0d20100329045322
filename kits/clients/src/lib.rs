//! The rules that every client of the RIB and of the FEA follows, as pure state machines.
//!
//! A protocol process announces routes to the RIB ([`Origin`]), asks the RIB how next hops are reached ([`Questions`]),
//! subscribes to routes ([`Subscription`]), and follows the FEA's interfaces ([`InterfaceTable`], [`FirstSnapshot`]). The
//! RIB's process owns the forwarding table of the FEA ([`FibOwner`]). The RIB accepts the routes of [`RouteRights`] from a
//! process, and the FEA opens the sockets of [`SocketRights`] for it. Either side of each relation can restart at any time;
//! the machines here decide what is sent again, what is dropped and when an earlier life's state is swept.
//!
//! The machines do no I/O and read no clock. A process (`platform/process`) and the simulator (`tools/sim`) drive the same code, so
//! that simulated campaigns test the rules that ship.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod fib_owner;
mod interfaces;
mod limits;
mod origin;
mod questions;
mod route_rights;
mod snapshot;
mod socket_rights;
mod subscription;
mod window;

pub use fib_owner::{FibOwner, ResyncEnd};
pub use interfaces::InterfaceTable;
pub use limits::{Limit, Permitted, Plain, Rate, RateError};
pub use origin::Origin;
pub use questions::{Question, Questions, Request};
pub use route_rights::{GrantedRoutes, RouteRights};
pub use snapshot::FirstSnapshot;
pub use socket_rights::{
    GroupPattern, LinkGroup, LinkProtocol, PacketRight, PortRight, RightError, SocketPath, SocketRights,
};
pub use subscription::{EXTERNAL_TAG, SubscribedBatch, Subscription};
pub use window::Window;
