//! The forwarding engine abstraction: the pure core.
//!
//! The core holds what the RIB wants forwarded ([`Fea`]) and keeps a forwarding engine in line with it: the Linux kernel,
//! or the simulated one in [`sim`]. It speaks to engines in the words of [`engine`] and never waits for them: operations are
//! outputs, refusals and notices are inputs.
//!
//! * Every group of the RIB is one object of the engine, so that its change is one operation for all its routes (`fib`).
//! * Whatever the engine refuses ends in an [`Effect::Rejected`] for each route concerned, with the engine's reason.
//! * What others change is set again, less and less often if they insist (`repair`).
//! * After a restart of the RIB or of the FEA, what is there is matched with what is announced; what is equal is not
//!   touched, and what was not announced goes at the end.
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
