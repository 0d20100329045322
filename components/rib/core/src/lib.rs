//! The routing information base: the pure core.
#![no_std]

extern crate alloc;
