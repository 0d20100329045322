//! The Loc-RIB: the decision, several paths for one prefix, backups, aggregates, and the branch to the RIB.

pub(super) mod aggregates;
pub(super) mod backup;
pub(super) mod decision;
pub(super) mod multipath;
pub(super) mod multipath_rules;
pub(super) mod rib;
