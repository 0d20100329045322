//! Interest registration: the RIB's answers to questions about the routing of an address (XORP, section 5.2.1).

use crate::{Address, Distance, Forwarding, Metric};
use serde::{Deserialize, Serialize};

/// The route of an address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResolvingRoute<P> {
    /// The route's own prefix.
    pub prefix: P,
    /// The metric.
    pub metric: Metric,
    /// The administrative distance.
    pub distance: Distance,
    /// True if the address is on a connected subnet.
    pub connected: bool,
    /// The forwarding of packets, resolved down to interfaces.
    pub forwarding: Forwarding<Address>,
}

/// The RIB's answer for an address. The answer holds for every address inside `valid` until the RIB invalidates it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterestAnswer<P> {
    /// The largest prefix around the address inside which no more specific route exists (XORP, figure 8).
    /// Answers that hold at the same time do not overlap.
    pub valid: P,
    /// The route; `None` if the address cannot be reached.
    pub route: Option<ResolvingRoute<P>>,
}
