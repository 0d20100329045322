//! The Loc-RIB: the decision, several paths for one prefix, backups, aggregates, and the branch to the RIB.

pub(super) mod aggregates;
pub(super) mod backup;
pub(super) mod decision;
pub(super) mod multipath;
pub(super) mod multipath_rules;
pub(super) mod rib;

pub use aggregates::Aggregate;
pub(crate) use aggregates::Aggregates;
pub(crate) use backup::Backups;
pub(crate) use decision::Tables;
pub use decision::{DecisionRules, Elimination};
pub use multipath::{LeftOut, Multipath};
pub use multipath_rules::MultipathRules;
pub use rib::RIB_KINDS;
pub(crate) use rib::RibBranch;
