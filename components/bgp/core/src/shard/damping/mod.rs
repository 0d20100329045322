//! Flap damping (RFC 2439): histories of routes, and their effect on paths.

pub(super) mod decay;
pub(super) mod histories;
pub(super) mod history;
pub(super) mod profiles;
pub(super) mod routes;
pub(super) mod rules;

pub use history::{DampedView, DampingCounts, HistoryState};
pub(crate) use routes::Damping;
pub use rules::{ATTRIBUTE_CHANGE, DampingRules, WITHDRAWAL};
