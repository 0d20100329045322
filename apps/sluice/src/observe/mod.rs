//! Commands to watch the router: events, routes, the profile, support bundles.

pub mod bundle;
pub mod monitor;
pub mod monitor_routes;
pub mod profile;
pub mod rtstat;
