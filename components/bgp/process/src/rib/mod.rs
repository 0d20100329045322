//! BGP at the RIB: routes to the RIB, questions about next hops and about the presence of routes, redistributed routes.

pub mod client;
pub mod presence;
mod redistribution;
