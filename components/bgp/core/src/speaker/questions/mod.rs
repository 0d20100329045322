//! Questions to the RIB: about next hops, and about the presence of routes.

pub(super) mod next_hops;
pub(super) mod presence;

pub(crate) use next_hops::{Questions, ask};
pub(crate) use presence::Presences;
