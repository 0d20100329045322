//! BGP-4: the pure core.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod attributes;
pub mod batch;
pub mod event;
pub mod hash;
mod index;
pub mod reader;
pub mod session;
pub mod shard;
pub mod shards;
mod slab;
pub mod speaker;
pub mod wire;
pub mod writer;
