//! The routes accepted by the RIB from a component: `[routes]` of `rights.toml`.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, IpPrefix, TableId};

/// A component's right to announce routes, in the component's own table only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteRights {
    /// Names of origins for the component to register. Empty: the component's class.
    pub origins: Vec<String>,
    /// The lowest distance of the component's routes. A lower distance wins against further origins.
    pub lowest_distance: Distance,
    /// Ranges of IP prefixes: each route lies in a range. Empty: any key of any family.
    pub prefixes: Vec<IpPrefix>,
    /// The most routes of an origin, summed over the families.
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

/// A component's rights to routes, and the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantedRoutes {
    /// The table of the component's routing instance.
    pub table: TableId,
    /// The rights.
    pub rights: RouteRights,
}
