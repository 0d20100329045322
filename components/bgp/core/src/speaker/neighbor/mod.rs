//! One neighbor: its session, and the state of that session's options.

pub(super) mod filters;
pub(super) mod limits;
pub(super) mod peer;
pub(super) mod refreshes;
pub(super) mod restart;
