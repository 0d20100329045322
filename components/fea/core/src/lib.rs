//! The forwarding engine abstraction: the pure core.
//!
//! The core holds the RIB's wanted routes ([`Fea`]) and keeps a forwarding engine in line: the Linux kernel,
//! or the simulated engine in [`sim`]. The interface to engines is [`engine`]. The core never waits for an engine: operations are
//! outputs, refusals and notices are inputs.
//!
//! * Every group of the RIB is an object of the engine, so a change is one operation for every route of the group (`fib`).
//! * Each refusal of the engine ends in an [`Effect::Rejected`] for each route concerned, with the engine's reason.
//! * Foreign changes are reverted, less and less often if repeated (`repair`).
//! * After a restart of the RIB or of the FEA, present routes are matched with announced routes: equal routes are not
//!   touched, and unannounced routes are removed at the end.
//! * An engine that joins beside the authority of a set gets the authority's objects, in slices (`replay`).
//! * Engines beside the authority are compared with the core by digests, and mended (`mending`).
//! * The rules of who may open which socket are in [`socket`].
//! * The tables that the XDP program forwards by are in [`xdp`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod drive;
pub mod engine;
pub mod event;
mod fib;
pub mod interface;
pub mod links;
mod machine;
mod members;
mod mending;
mod others;
mod output;
mod repair;
mod replay;
mod routes;
pub mod sim;
mod slab;
pub mod socket;
mod source;
mod table;
mod totals;
pub mod xdp;

pub use drive::Drive;
pub use engine::{
    AuthorityRoutes, Engine, EngineOp, EngineSet, Member, Members, NextHopId, Notice, Refusal, RefusalKind,
    Refused, RouteTarget,
};
pub use event::Event;
pub use fib::Summary;
pub use interface::{Configuration, LinkConfiguration};
pub use machine::{Fea, Input, State};
pub use output::{Effect, Output};
pub use totals::Totals;
