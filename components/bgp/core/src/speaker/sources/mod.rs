//! Originated routes: networks, redistributed routes, aggregates, default routes for neighbors.

pub(super) mod aggregation;
pub(super) mod default_routes;
pub(super) mod networks;
pub(super) mod originator;
pub(super) mod redistribution;

pub use aggregation::AggregateView;
pub(crate) use aggregation::Aggregation;
pub(crate) use default_routes::DefaultRoutes;
pub(crate) use networks::Networks;
pub(crate) use originator::{Originator, Parts};
pub(crate) use redistribution::RedistributedRoutes;
