//! A neighbor: the session, and the state of the session's options.

pub(super) mod filters;
pub(super) mod limits;
pub(super) mod peer;
pub(super) mod refreshes;
pub(super) mod restart;

pub(crate) use filters::{FilterCounts, FilterState, Filters};
pub use limits::LimitStop;
pub(crate) use limits::{Limits, Standing};
pub(crate) use peer::{Carrier, ChangedPolicies, Injection, Peer};
pub(crate) use refreshes::Refreshes;
pub use restart::RoutesStay;
pub(crate) use restart::{Overdue, Restart};
