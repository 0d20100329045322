//! The decisions of a router's BGP as a whole: its sessions, its networks, and its questions to the RIB.
//!
//! Control is one machine however many threads carry routes. It never sees a route: it sends the tables [`Order`](crate::table::Order)s,
//! gives each session that comes up a [`Link`](super::Link) for the carrier of its octets, and receives reports.

mod damping;
pub(super) mod handover;
mod machine;
mod monitor;
pub(super) mod overruns;
mod router;
#[cfg(test)]
mod tests;
pub(super) mod view;
mod wait;

pub use super::messages::{Input, Output};
pub use router::{Control, GRACE, RefreshRefusal};
