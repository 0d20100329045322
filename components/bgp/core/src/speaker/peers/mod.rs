//! The neighbors, and the orders to the tables that follow from sessions.

pub(super) mod dynamic;
mod filters;
pub(super) mod handover;
mod injection;
mod limits;
mod neighbors;
mod pace;
pub(super) mod ranges;
mod refresh;
pub(super) mod registry;
mod restart;
mod sessions;

pub use dynamic::OPENING;
pub(crate) use handover::PeerState;
pub use ranges::{RATE, RangeCounters, RangeView};
pub(crate) use registry::Peers;
