//! The default routes for neighbors, sent even if the router has no default route.
//!
//! A default route is a path of a source of the router's own, shared by neighbors. The path has no part in the decision, so
//! neither the RIB nor further neighbors receive the path; the export views of neighbors with `default-originate` prefer the path
//! to the best path.

use super::originator::Parts;
use crate::shard::{OwnRoute, PeerIndex};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};

/// The state of the default routes.
#[derive(Debug, Default)]
pub(crate) struct DefaultRoutes {
    /// True if the tables have the routes.
    are_originated: bool,
}

impl DefaultRoutes {
    /// Originates the default routes as long as a neighbor needs them.
    pub fn originate(&mut self, are_wanted: bool, parts: &mut Parts<'_>) {
        if self.are_originated == are_wanted {
            return;
        }
        self.are_originated = are_wanted;
        for prefix in [IpPrefix::V4(Ipv4Prefix::default_route()), IpPrefix::V6(Ipv6Prefix::default_route())] {
            parts.originate(PeerIndex::DEFAULT, prefix.into(), are_wanted.then_some(OwnRoute::NETWORK));
        }
    }
}
