//! Whole networks of real Sluice routers in a single process: virtual time, one seed, faults on request.
//!
//! A [`world::World`] is a queue of events. Its routers ([`host::Host`]) are the cores of a real router with small
//! shells. Their TCP connections ([`tcp`]) run over links ([`link`]) that are slow, lossy or cut. The messages between
//! their processes are events too, so that a process can die alone. Every random choice comes from a single seed, no
//! code walks a hash table, and no code reads a clock. Therefore a seed has one history ([`history`]), on every
//! machine.
//!
//! [`simulate`] runs a large network until the network is at rest. [`campaign`] runs and checks many small networks
//! with faults.

#![warn(clippy::disallowed_macros)]

pub mod campaign;
pub mod check;
pub mod cli;
pub mod clock;
mod effects;
mod fabric;
pub mod host;
pub mod network;
pub mod policy;
pub mod reference;
mod rewrite;
pub mod scenario;
pub mod shrink;
pub mod simulate;
mod topology;
pub mod trace;
pub mod wire;
pub mod world;

pub use cli::SimulateArgs;
