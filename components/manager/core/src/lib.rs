//! The router manager: the pure core.
#![no_std]

extern crate alloc;
