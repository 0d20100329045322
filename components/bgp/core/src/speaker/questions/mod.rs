//! Questions to the RIB: about next hops, and about the presence of routes.

pub(super) mod next_hops;
pub(super) mod presence;
