//! The routes that the RIB accepts from a component, as `rights.toml` names them in `[routes]`.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, IpPrefix, TableId};

/// The RIB accepts these routes from a component, in the component's own table only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteRights {
    /// Names of origins that the component may register. Empty: its class.
    pub origins: Vec<String>,
    /// The lowest distance of the component's routes. A lower distance wins against other origins.
    pub lowest_distance: Distance,
    /// Ranges of IP prefixes: each route lies in one of them. Empty: any key of any family.
    pub prefixes: Vec<IpPrefix>,
    /// The most routes of an origin, in all families together.
    pub most: u64,
}

impl Default for RouteRights {
    fn default() -> Self {
        RouteRights {
            origins: Vec::new(),
            lowest_distance: Distance(100),
            prefixes: Vec::new(),
            most: 10_000,
        }
    }
}

/// A component's rights to routes, and the table in which it has them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantedRoutes {
    /// The table of the component's routing instance.
    pub table: TableId,
    /// The rights.
    pub rights: RouteRights,
}
