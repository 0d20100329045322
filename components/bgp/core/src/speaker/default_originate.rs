//! The default route that a neighbor is told whether or not the router has one.
//!
//! The route is a path of a source of the router's own, and shared by all neighbors. It takes no part in the decision, so that neither the
//! RIB nor other neighbors hear of it; the export views of neighbors with `default-originate` prefer it to the best path.

use super::control::{Control, Output};
use crate::shard::{OwnRoute, PeerIndex};
use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_machine::Outbox;

/// The statement `default-originate` of a neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DefaultOriginate {
    /// The prefix to which the RIB must have a route; `None` if the default route is announced always.
    #[serde(deserialize_with = "subnet")]
    pub while_present: Option<IpPrefix>,
    /// The names of the policies for the route, in order. Export policy does not see the route.
    pub policy: Vec<String>,
}

/// Reads a prefix; clears the host bits of one that the operator wrote.
fn subnet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpPrefix>, D::Error> {
    if !deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    let wrong = |text: &String, error| D::Error::custom(format_args!("`{text}` is not a prefix: {error}"));
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| IpPrefix::parse_subnet(&text).map_err(|error| wrong(&text, error))).transpose()
}

impl Control {
    /// Originates the default routes if a neighbor is to be told one, and else ends that.
    pub(super) fn originate_defaults(&mut self, out: &mut Outbox<Output>) {
        let is_wanted = self.peers.configured().any(|peer| peer.config.default_originate.is_some());
        if self.originates_defaults == is_wanted {
            return;
        }
        self.originates_defaults = is_wanted;
        for prefix in [IpPrefix::V4(Ipv4Prefix::default_route()), IpPrefix::V6(Ipv6Prefix::default_route())] {
            self.originate(PeerIndex::DEFAULT, prefix.into(), is_wanted.then_some(OwnRoute::NETWORK), out);
        }
    }
}
