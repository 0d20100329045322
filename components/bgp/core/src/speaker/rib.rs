//! Questions of control to the RIB, and routes of the RIB that BGP originates.

use crate::attributes::Origin;
use crate::shard::OwnRoute;
use alloc::string::String;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Distance, IpPrefix, Metric, Tags};
use sluice_clients::EXTERNAL_TAG;

/// The routes that count for a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum PresenceScope {
    /// The route that the RIB selects.
    All,
    /// Routes of origins other than BGP, so BGP's announcements do not depend on themselves.
    Others,
}

/// A question to the RIB: is there a route to exactly this prefix?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PresenceQuestion {
    /// The routes that count.
    pub scope: PresenceScope,
    /// The prefix.
    pub prefix: IpPrefix,
}

/// A change of the RIB's selected route of a prefix, as far as configured origins are concerned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redistributed {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The prefix's route now; `None`: no configured origin has the selected route.
    pub route: Option<RedistributedRoute>,
}

/// A route of an origin other than BGP, without the prefix.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RedistributedRoute {
    /// The origin's name at the RIB.
    pub origin: String,
    /// The name of the route's kind within its origin, such as `inter-area`.
    pub kind: Option<String>,
    /// The origin's cost.
    pub metric: Metric,
    /// The administrative distance.
    pub distance: Distance,
    /// Marks for policy.
    pub tags: Tags,
    /// The name of the first next hop's interface, if the origin named one.
    pub interface: Option<String>,
    /// The gateway of the first next hop.
    pub next_hop: Option<IpAddr>,
}

impl RedistributedRoute {
    /// Returns the route as BGP originates it.
    pub(crate) fn own(&self) -> OwnRoute {
        OwnRoute {
            origin: Origin::Incomplete,
            metric: Some(self.metric.0),
            tags: self.tags.as_slice().iter().map(|tag| tag.0).collect(),
            aggregate: None,
        }
    }

    /// Returns true unless the route came out of BGP, or another origin of external routes, before.
    pub(crate) fn may_be_originated(&self) -> bool {
        !self.tags.as_slice().contains(&EXTERNAL_TAG)
    }
}
