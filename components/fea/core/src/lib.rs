//! The forwarding engine abstraction: the pure core.
#![no_std]

extern crate alloc;
