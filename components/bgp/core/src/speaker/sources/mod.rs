//! Routes that this router originates: networks, redistributed routes, aggregates, default routes of neighbors.

pub(super) mod aggregation;
pub(super) mod default_routes;
pub(super) mod networks;
pub(super) mod originator;
pub(super) mod redistribution;
