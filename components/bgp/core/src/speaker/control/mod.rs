//! The decisions of a router's BGP as a whole: sessions, networks, and questions to the RIB.
//!
//! Control is a single machine, with any number of threads for routes. Control never sees a received route, but sends the tables
//! [`Order`](crate::table::Order)s, gives each established session a [`Link`](super::Link) for the carrier of the session's
//! octets, and receives reports.

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
