//! The statement of an aggregate.

use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::IpPrefix;

/// The statement `aggregate`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AggregateConfig {
    /// The prefix.
    #[serde(deserialize_with = "subnet")]
    pub prefix: IpPrefix,
    /// True if contributors are not announced.
    #[serde(default)]
    pub summary_only: bool,
    /// True if the AS_PATH has the ASes of the contributors, in an AS_SET where their paths differ.
    #[serde(default)]
    pub as_set: bool,
    /// The names of the policies that select contributors, in order.
    #[serde(default)]
    pub contributors: Vec<String>,
}

/// Reads a prefix of an operator, and clears the host bits.
pub(crate) fn subnet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpPrefix, D::Error> {
    if !deserializer.is_human_readable() {
        return IpPrefix::deserialize(deserializer);
    }
    let text = String::deserialize(deserializer)?;
    IpPrefix::parse_subnet(&text)
        .map_err(|error| D::Error::custom(format_args!("`{text}` is not a prefix: {error}")))
}
