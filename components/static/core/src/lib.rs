//! Static routes: the pure core.
//!
//! The operator names a prefix and what is done with it: next hops (with weights), interfaces, discard, reject. A next hop that
//! names an interface counts only while that interface runs; one that names just a gateway is resolved by the RIB. A route
//! all of whose next hops are gone is withdrawn and comes back with the first of them.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

use sluice_base::Duration;

/// The time for which the RIB keeps static routes of a process that died: its next life announces the same ones.
pub const GRACE: Duration = Duration::from_secs(60);

pub mod machine;
pub mod route;

pub use machine::{Input, Output, Static};
pub use route::{RouteKind, StaticNextHop, StaticRoute};
