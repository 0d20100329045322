//! BGP-4: the pure core.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aggregate;
pub mod attributes;
pub mod batch;
pub mod bmp;
pub mod endpoints;
pub mod event;
pub mod family;
mod framer;
pub mod graceful_shutdown;
pub mod gtsm;
pub mod hash;
mod index;
pub mod injection;
pub mod intake;
#[cfg(test)]
mod labels;
pub mod local_as;
mod long_lived;
pub mod mrt;
mod octets;
pub mod orf;
pub mod policy;
pub mod reader;
pub mod relationship;
pub mod session;
pub mod session_note;
pub mod shard;
mod slab;
pub mod speaker;
pub mod state;
pub mod table;
pub mod wire;
pub mod writer;
