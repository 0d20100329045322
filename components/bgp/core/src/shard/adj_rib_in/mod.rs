//! The Adj-RIB-In: paths of neighbors and of the router itself, import policy, and the walks that decide on stored routes again.

pub(super) mod attributes;
pub(super) mod batch;
pub(super) mod deletion;
pub(super) mod dropped;
pub(super) mod import;
pub(super) mod own;
pub(super) mod path_ids;
pub(super) mod paths;
pub(super) mod refilter;
pub(super) mod revalidate;
pub(super) mod stale;

pub(in crate::shard) use deletion::Deletion;
pub(crate) use dropped::Dropped;
pub(crate) use import::{ImportParts, Imports};
pub use own::OwnRoute;
pub(crate) use refilter::Refilter;
pub use refilter::RefilterProgress;
pub(crate) use revalidate::Revalidation;
pub use revalidate::RevalidationProgress;
