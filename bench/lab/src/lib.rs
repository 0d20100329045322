//! Routers under test in a lab: starting, emptying, and the cost of their processes and their kernel's table.
//!
//! Everything is measured from outside and in the same way for every router: the kernel's own counters, `/proc` of the processes.

mod args;
mod device;
mod kernel;
mod processes;

pub use args::TableArgs;
pub use device::{CACHE_PORT, Device, LOCAL_AS, Neighbor, Setting};
pub use kernel::{TableWatch, octets_received, routes};
pub use processes::{Process, adopt_orphans, of_node, reap_orphans, within};
