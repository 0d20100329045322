//! Static routes: the pure core.
#![no_std]

extern crate alloc;
