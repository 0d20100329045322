//! The terms of subscriptions, whichever routes they are to: numbers, batches, the first dump.

use crate::entry::origin::Origin;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, Duration, RouteBatch};

/// A subscription's number, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SubscriptionId(pub u64);

/// Changes for a subscriber: routes, and their origins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedBatch<P> {
    /// The origins of the batch's routes.
    pub origins: Vec<SubscribedOrigin>,
    /// The origin of each set of `routes`, as an index into `origins`.
    pub set_origins: Vec<u32>,
    /// The changes.
    pub routes: RouteBatch<P>,
}

/// An origin from its subscribers' view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedOrigin {
    /// The origin's name.
    pub name: String,
    /// The names of the kinds of the origin's routes: the first name is of kind 1.
    pub kinds: Vec<String>,
    /// The distance of routes without a distance of their own.
    pub distance: Distance,
    /// True for routes learned from other networks, such as BGP's.
    pub external: bool,
    /// The time for which the origin's routes outlive its process.
    pub grace: Duration,
}

impl SubscribedOrigin {
    pub(crate) fn of(origin: &Origin) -> Self {
        SubscribedOrigin {
            name: origin.name.clone(),
            kinds: origin.kinds.clone(),
            distance: origin.distance,
            external: origin.external,
            grace: origin.grace,
        }
    }
}

/// The state of a subscriber's first dump.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dump {
    /// The walk over the table goes on.
    Running,
    /// All existing routes wait for the subscriber, which does not know yet that they are all.
    Ended,
    /// The subscriber was notified of that.
    Sent,
}

/// The number of waiting prefixes at which a subscriber's dump pauses.
pub(crate) const DUMP_PAUSE: usize = 65_536;
