//! The configuration tree (xip.yang) as the core's settings.

use crate::maps::ProgramSettings;
use serde::Deserialize;
use serde_json::Value;
use sluice_base::XidType;
use sluice_xip::io;
use sluice_xip::principals::catalog;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The tree is not as `xip.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// No principal has this name.
    #[error("there is no principal `{0}`")]
    Principal(String),
}

/// A configuration, ready to be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The core's settings.
    pub core: io::Settings,
    /// The settings of the program.
    pub program: ProgramSettings,
    /// Bits of the number of lines of the cache.
    pub line_bits: u32,
    /// The types that components may decide for, by component.
    pub principal_rights: BTreeMap<String, Vec<XidType>>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Tree {
    interface: Vec<Interface>,
    principal: Vec<String>,
    tunnel: Tunnel,
    consultations: u8,
    neighbors: Neighbors,
    cache: Cache,
    budget: Budget,
    xcmp: bool,
    /// The types that components may decide for, by component: from the manager, not from the operator.
    principal_rights: BTreeMap<String, Vec<String>>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            interface: Vec::new(),
            principal: Vec::new(),
            tunnel: Tunnel::default(),
            consultations: 2,
            neighbors: Neighbors::default(),
            cache: Cache::default(),
            budget: Budget::default(),
            xcmp: false,
            principal_rights: BTreeMap::new(),
        }
    }
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    #[serde(default = "yes")]
    neighbors: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(default)]
struct Tunnel {
    local: Option<IpAddr>,
    port: u16,
    checksum: bool,
}

impl Default for Tunnel {
    fn default() -> Self {
        Tunnel { local: None, port: sluice_xip::wire::udp::UNI4ID_PORT, checksum: true }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Neighbors {
    monitor: bool,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cache {
    lines: u32,
    shadow_interval: u32,
}

impl Default for Cache {
    fn default() -> Self {
        Cache { lines: 65_536, shadow_interval: 0 }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct Budget {
    rate: u32,
    burst: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { rate: 50_000, burst: 1_000 }
    }
}

/// The types of second versions of principals, with the principal in the catalog.
const VERSIONS: [(&str, XidType, &str); 1] = [("hidv2", XidType(0x53), "hid")];

/// Returns the number and the catalog's name of a principal.
fn principal(name: &str) -> Option<(XidType, &'static str)> {
    let version = VERSIONS.iter().find(|(known, _, _)| *known == name);
    version
        .map(|(_, number, of)| (*number, *of))
        .or_else(|| catalog::row(name).map(|row| (row.number, row.name)))
}

/// Returns true if XIP has a principal of its own for a type, configured or not.
pub(crate) fn is_built_in(kind: XidType) -> bool {
    VERSIONS.iter().any(|(_, number, _)| *number == kind)
        || catalog::CATALOG.iter().any(|row| row.number == kind)
}

/// Reads a whole part.
///
/// # Errors
/// The part is not as the schema has it, or names a principal that does not exist.
pub fn settings(part: Value) -> Result<Settings, ConfigError> {
    let tree: Tree = serde_json::from_value(part)?;
    let principals = tree.principal.into_iter();
    let principals: BTreeMap<XidType, &'static str> = principals
        .map(|name| principal(&name).ok_or(ConfigError::Principal(name)))
        .collect::<Result<_, _>>()?;
    let tunnel = tree.tunnel;
    let local = tunnel.local.map(|local| SocketAddr::new(local, tunnel.port));
    let core = io::Settings {
        interfaces: tree.interface.into_iter().map(|link| (link.name, link.neighbors)).collect(),
        principals,
        consultations: tree.consultations,
        tunnel: local.map(|local| io::Tunnel { local, no_check: !tunnel.checksum }),
        is_monitored: tree.neighbors.monitor,
        has_xcmp: tree.xcmp,
    };
    let program = ProgramSettings {
        shadow_interval: tree.cache.shadow_interval,
        punts_per_second: tree.budget.rate,
        punt_burst: tree.budget.burst,
        has_reports: tree.xcmp,
    };
    let types = |names: Vec<String>| names.iter().filter_map(|name| name.parse().ok()).collect();
    Ok(Settings {
        core,
        program,
        line_bits: tree.cache.lines.max(2).next_power_of_two().ilog2(),
        principal_rights: tree.principal_rights.into_iter().map(|(who, names)| (who, types(names))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_all_that_the_schema_has() {
        let part = json!({
            "interface": [{"name": "eth0"}, {"name": "eth1", "neighbors": false}],
            "principal": ["ad", "hid", "hidv2"],
            "tunnel": {"local": "10.0.0.1", "checksum": false},
            "consultations": 3,
            "cache": {"lines": 1000, "shadow-interval": 7},
            "budget": {"rate": 10, "burst": 20},
            "xcmp": true,
        });
        let settings = settings(part).expect("valid");
        assert_eq!(settings.core.interfaces.get("eth1"), Some(&false));
        assert_eq!(settings.core.principals.get(&XidType(0x53)), Some(&"hid"));
        let tunnel = settings.core.tunnel.expect("a tunnel");
        assert_eq!((tunnel.local.to_string().as_str(), tunnel.no_check), ("10.0.0.1:13781", true));
        assert_eq!((settings.line_bits, settings.program.shadow_interval), (10, 7));
        assert_eq!((settings.core.consultations, settings.core.has_xcmp), (3, true));
    }

    #[test]
    fn an_empty_part_runs_no_principal() {
        let settings = settings(json!({})).expect("valid");
        assert!(settings.core.principals.is_empty() && settings.core.tunnel.is_none());
        assert_eq!(settings.line_bits, 16);
    }
}
