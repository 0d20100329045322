//! The sources of routes in policies.

/// The source of a route, in the order of [`ROUTE_TYPES`](super::vocabulary).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteType {
    /// A neighbor in a different AS.
    External,
    /// A neighbor in the router's AS.
    Internal,
    /// The router itself.
    Local,
}
