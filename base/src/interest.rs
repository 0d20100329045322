//! Interest registration: what the RIB answers to who asks how an address is routed (XORP, section 5.2.1).

use crate::{Address, Distance, Forwarding, Metric};
use serde::{Deserialize, Serialize};

/// The route that an address is forwarded by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResolvingRoute<P> {
    /// The route's own prefix.
    pub prefix: P,
    /// Its metric.
    pub metric: Metric,
    /// Its administrative distance.
    pub distance: Distance,
    /// True if the address is on a connected subnet.
    pub connected: bool,
    /// The forwarding of its packets, resolved down to interfaces.
    pub forwarding: Forwarding<Address>,
}

/// The RIB's answer for an address. It holds for every address inside `valid` until the RIB invalidates it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterestAnswer<P> {
    /// The largest prefix around the address inside which no more specific route exists (XORP, figure 8).
    /// No two answers that hold at the same time overlap.
    pub valid: P,
    /// The route; `None` if the address cannot be reached.
    pub route: Option<ResolvingRoute<P>>,
}
