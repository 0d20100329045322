//! BGP-4: the pure core.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod event;
pub mod session;
pub mod wire;
