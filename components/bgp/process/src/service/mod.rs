//! The interface that BGP serves: the core's views as messages.

mod aggregates;
mod capabilities;
mod damping;
mod dump;
mod explain;
mod filter;
mod hits;
mod interface;
pub mod listing;
mod neighbor;
pub(crate) mod paths;
mod plumbing;
mod ranges;
