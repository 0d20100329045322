//! Answers to operators: routes with their fate, verdicts on exports, hits of policies.

pub(super) mod hits;
pub(super) mod verdict;
pub(super) mod view;

pub use hits::{PolicyHits, PolicyUse, UseHits};
pub use verdict::{ExportVerdict, NotSent};
pub use view::{GroupView, PathView, ReceivedView, RouteView, ShardView};
