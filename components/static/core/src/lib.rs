//! Static routes: the pure core.
//!
//! The operator names an IP prefix or XIDs and their treatment: next hops (with weights), interfaces, discard, reject; for XIDs also
//! this host itself. A next hop
//! with an interface counts only while the interface runs; a next hop with only a gateway is resolved by the RIB. A
//! route without a usable next hop is withdrawn, and is announced again with the first usable next hop.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

use sluice_base::Duration;

/// The time for which the RIB keeps static routes of a dead process: the next life announces the same routes.
pub const GRACE: Duration = Duration::from_secs(60);

pub mod check;
pub mod machine;
pub mod route;

pub use check::NextHopError;
pub use machine::{Input, Output, Static};
pub use route::{RouteKind, StaticNextHop, StaticRoute};
