//! Whole networks of our own routers in one process: virtual time, one seed, faults to order.
//!
//! A [`world::World`] is a queue of events. Its routers ([`host::Host`]) are the cores of a real router with shells of a few lines;
//! their TCP connections ([`tcp`]) run over links ([`link`]) that are slow, lossy or cut; the messages between their processes travel as
//! events too, so that a process can die alone. Everything that is random comes from one seed, nothing walks a hash table, and
//! no clock is read: a seed has one history ([`history`]), on every machine.
//!
//! [`simulate`] runs a large network until it comes to rest. [`campaign`] runs many small ones with faults and checks them.

pub mod campaign;
pub mod check;
pub mod cli;
pub mod clock;
pub mod history;
pub mod host;
pub mod link;
pub mod network;
pub mod queue;
pub mod reference;
pub mod rewrite;
pub mod scenario;
pub mod shrink;
pub mod simulate;
pub mod tcp;
mod topology;
pub mod trace;
pub mod wire;
pub mod world;

pub use cli::SimulateArgs;
