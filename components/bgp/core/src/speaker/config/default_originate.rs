//! The statement by which a neighbor is sent a default route.

use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::IpPrefix;

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

/// Reads a prefix of an operator, and clears the host bits.
fn subnet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpPrefix>, D::Error> {
    if !deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    let wrong = |text: &String, error| D::Error::custom(format_args!("`{text}` is not a prefix: {error}"));
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| IpPrefix::parse_subnet(&text).map_err(|error| wrong(&text, error))).transpose()
}
