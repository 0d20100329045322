//! The RIB's part of the configuration: nobody writes it, the manager makes it of what the components ship.

use serde::Deserialize;
use serde_json::Value;
use sluice_rib::rights::RoutePolicy;
use thiserror::Error;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tree {
    #[serde(rename = "route-rights")]
    route_rights: RoutePolicy,
}

/// The reason why a configuration is refused.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ConfigurationError(#[from] serde_json::Error);

/// Reads the rights to routes.
pub fn read(part: &Value) -> Result<RoutePolicy, ConfigurationError> {
    Ok(Tree::deserialize(part)?.route_rights)
}
