//! The sources of routes that policies distinguish.

/// The source of a route, in the order of [`ROUTE_TYPES`](super::vocabulary).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteType {
    /// A neighbor in another AS.
    External,
    /// A neighbor in this router's AS.
    Internal,
    /// This router.
    Local,
}
