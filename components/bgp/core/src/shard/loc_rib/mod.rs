//! The Loc-RIB: the decision, several paths for one prefix, backups, aggregates, and the branch to the RIB.

pub(super) mod aggregates;
pub(super) mod backup;
pub(super) mod decision;
pub(super) mod multipath;
pub(super) mod multipath_rules;
pub(super) mod rib;
pub(super) mod selection;

pub use aggregates::Aggregate;
pub use decision::{DecisionRules, Elimination};
pub use multipath::{LeftOut, Multipath};
pub use multipath_rules::MultipathRules;
pub use rib::RIB_KINDS;
pub(crate) use rib::RibBranch;
pub(crate) use selection::LocRib;
