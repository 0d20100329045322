//! The configuration tree (xip.yang) as the core's settings.

use crate::ip_routes::IpRouteSettings;
use crate::keys::{HostKey, KeyError};
use crate::maps::{ProgramSettings, TunnelEnd};
use serde::Deserialize;
use serde_json::Value;
use sluice_base::{Xid, XidType};
use sluice_xip::io;
use sluice_xip::neighbors::LinkProof;
use sluice_xip::principals::catalog;
use sluice_xip::wire::{ETHERTYPE_NWP, ETHERTYPE_XIP};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The tree is not as `xip.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// Routes would be made for a principal that does not run.
    #[error("lpm from-ip-routes: the principal `lpm` does not run; set xip principal lpm")]
    NoLpm,
    /// A neighbor's XID is of a type that routes of LPM prefixes do not lead to.
    #[error("lpm from-ip-routes neighbor {0}: `{1}` is no HID")]
    NoHid(Ipv4Addr, Xid),
    /// A text is no XID.
    #[error("`{0}` is no XID")]
    Xid(String),
    /// No principal has this name.
    #[error("there is no principal `{0}`")]
    Principal(String),
    /// A number is that of another principal.
    #[error("principal-number {1}: {0:#x} is the number of {2}; choose one that no other principal has")]
    TakenNumber(u32, String, &'static str),
    /// An EtherType is that of another protocol.
    #[error(
        "ethertype {0}: {0:#06x} is the EtherType of {1}; choose one that no other protocol has, such as {2}"
    )]
    TakenEtherType(u16, &'static str, u16),
    /// Packets and NWP cannot be distinguished.
    #[error("ethertype packets and ethertype neighbors are both {0}; set xip ethertype neighbors {1}")]
    SameEtherType(u16, u16),
    /// A key cannot be used.
    #[error("host `{0}`: {1}")]
    Key(String, KeyError),
}

/// A configuration, ready to be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The core's settings.
    pub core: io::Settings,
    /// The settings of the program.
    pub program: ProgramSettings,
    /// The EtherTypes.
    pub ether_types: EtherTypes,
    /// The way by which packets come up to the process.
    pub punt_path: PuntPath,
    /// Bits of the number of lines of the cache.
    pub line_bits: u32,
    /// The keys of the router's own HIDs.
    pub keys: Vec<HostKey>,
    /// The IPv4 routes that are routes of the principal LPM too.
    pub ip_routes: Option<IpRouteSettings>,
    /// The types that components may decide for, by component.
    pub principal_rights: BTreeMap<String, Vec<XidType>>,
}

/// The way by which packets come up to the process where the program runs.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum PuntPath {
    /// By AF_XDP sockets on each interface that permits AF_XDP, and by the packet socket elsewhere.
    #[default]
    Automatic,
    /// By the packet socket.
    PacketSocket,
}

/// The EtherTypes of XIP on all interfaces.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(default)]
pub struct EtherTypes {
    /// The EtherType of packets.
    pub packets: u16,
    /// The EtherType of NWP.
    pub neighbors: u16,
}

impl Default for EtherTypes {
    fn default() -> Self {
        EtherTypes { packets: ETHERTYPE_XIP, neighbors: ETHERTYPE_NWP }
    }
}

/// EtherTypes of protocols that a router needs.
const TAKEN: [(u16, &str); 10] = [
    (0x0800, "IPv4"),
    (0x0806, "ARP"),
    (0x8035, "RARP"),
    (0x8100, "VLANs"),
    (0x86dd, "IPv6"),
    (0x8808, "Ethernet's flow control"),
    (0x8847, "MPLS"),
    (0x8848, "MPLS multicast"),
    (0x88a8, "VLANs of providers"),
    (0x88cc, "LLDP"),
];

impl EtherTypes {
    fn check(self) -> Result<Self, ConfigError> {
        for (number, otherwise) in [(self.packets, ETHERTYPE_XIP), (self.neighbors, ETHERTYPE_NWP)] {
            if let Some((_, protocol)) = TAKEN.iter().find(|(taken, _)| *taken == number) {
                return Err(ConfigError::TakenEtherType(number, protocol, otherwise));
            }
        }
        let other = if self.packets == ETHERTYPE_NWP { ETHERTYPE_XIP } else { ETHERTYPE_NWP };
        if self.packets == self.neighbors {
            return Err(ConfigError::SameEtherType(self.packets, other));
        }
        Ok(self)
    }
}

#[derive(Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Tree {
    ethertype: EtherTypes,
    interface: Vec<Interface>,
    host: Vec<Host>,
    principal: Vec<String>,
    principal_number: Vec<PrincipalNumber>,
    tunnel: Tunnel,
    consultations: u8,
    neighbors: Neighbors,
    cache: Cache,
    budget: Budget,
    punt_path: PuntPath,
    lpm: Lpm,
    xcmp: bool,
    /// The types that components may decide for, by component: from the manager, not from the operator.
    principal_rights: BTreeMap<String, Vec<String>>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            ethertype: EtherTypes::default(),
            interface: Vec::new(),
            host: Vec::new(),
            principal: Vec::new(),
            principal_number: Vec::new(),
            tunnel: Tunnel::default(),
            consultations: 2,
            neighbors: Neighbors::default(),
            cache: Cache::default(),
            budget: Budget::default(),
            punt_path: PuntPath::default(),
            lpm: Lpm::default(),
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

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Host {
    name: String,
    private_key: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Lpm {
    from_ip_routes: Option<FromIpRoutes>,
}

#[derive(Deserialize)]
struct FromIpRoutes {
    #[serde(default)]
    origin: Vec<String>,
    #[serde(default)]
    neighbor: Vec<IpNeighbor>,
    #[serde(default)]
    u4id: bool,
}

#[derive(Deserialize)]
struct IpNeighbor {
    address: Ipv4Addr,
    hid: String,
}

impl FromIpRoutes {
    fn settings(self, port: u16) -> Result<IpRouteSettings, ConfigError> {
        let hid = |neighbor: IpNeighbor| {
            let xid: Xid = neighbor.hid.parse().map_err(|_| ConfigError::Xid(neighbor.hid))?;
            let is_hid = principal_of(xid.kind) == Some("hid");
            if is_hid { Ok((neighbor.address, xid)) } else { Err(ConfigError::NoHid(neighbor.address, xid)) }
        };
        Ok(IpRouteSettings {
            origins: self.origin,
            neighbors: self.neighbor.into_iter().map(hid).collect::<Result<_, _>>()?,
            tunnel_port: self.u4id.then_some(port),
        })
    }
}

/// Returns the catalog's name of the principal of a type.
fn principal_of(kind: XidType) -> Option<&'static str> {
    let version = VERSIONS.iter().find(|(_, number, _)| *number == kind).map(|(_, _, of)| *of);
    version.or_else(|| catalog::CATALOG.iter().find(|row| row.number == kind).map(|row| row.name))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Neighbors {
    monitor: bool,
    proof: Proof,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
enum Proof {
    #[default]
    Off,
    Optional,
    Required,
}

impl From<Proof> for LinkProof {
    fn from(proof: Proof) -> Self {
        match proof {
            Proof::Off => LinkProof::Off,
            Proof::Optional => LinkProof::Optional,
            Proof::Required => LinkProof::Required,
        }
    }
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

#[derive(Deserialize)]
struct PrincipalNumber {
    principal: String,
    number: u32,
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

/// Gives principals that run the configured numbers.
fn renumber(
    principals: &mut BTreeMap<XidType, &'static str>,
    numbers: Vec<PrincipalNumber>,
) -> Result<(), ConfigError> {
    for PrincipalNumber { principal: name, number } in numbers {
        let Some((usual, row)) = principal(&name) else { return Err(ConfigError::Principal(name)) };
        let wanted = XidType(number);
        let other = principals.get(&wanted).copied().or_else(|| principal_of(wanted));
        if let Some(other) = other.filter(|other| *other != row) {
            return Err(ConfigError::TakenNumber(number, name, other));
        }
        if principals.remove(&usual).is_some() {
            principals.insert(wanted, row);
        }
    }
    Ok(())
}

/// Returns true if XIP has a principal of its own for a type, configured or not.
pub(crate) fn is_built_in(kind: XidType) -> bool {
    principal_of(kind).is_some()
}

/// Reads a whole part.
///
/// # Errors
/// The part is not as the schema has it, or names a principal that does not exist.
pub fn settings(part: Value) -> Result<Settings, ConfigError> {
    let tree: Tree = serde_json::from_value(part)?;
    let ether_types = tree.ethertype.check()?;
    let principals = tree.principal.into_iter();
    let mut principals: BTreeMap<XidType, &'static str> = principals
        .map(|name| principal(&name).ok_or(ConfigError::Principal(name)))
        .collect::<Result<_, _>>()?;
    renumber(&mut principals, tree.principal_number)?;
    let tunnel = tree.tunnel;
    let ip_routes = tree.lpm.from_ip_routes.map(|routes| routes.settings(tunnel.port)).transpose()?;
    if ip_routes.is_some() && !principals.contains_key(&XidType::LPM) {
        return Err(ConfigError::NoLpm);
    }
    let local = tunnel.local.map(|local| SocketAddr::new(local, tunnel.port));
    let core = io::Settings {
        interfaces: tree.interface.into_iter().map(|link| (link.name, link.neighbors)).collect(),
        principals,
        consultations: tree.consultations,
        tunnel: local.map(|local| io::Tunnel { local, no_check: !tunnel.checksum }),
        is_monitored: tree.neighbors.monitor,
        proof: tree.neighbors.proof.into(),
        has_xcmp: tree.xcmp,
    };
    let key =
        |host: Host| HostKey::parse(&host.private_key).map_err(|error| ConfigError::Key(host.name, error));
    let keys = tree.host.into_iter().map(key).collect::<Result<_, _>>()?;
    let program = ProgramSettings {
        shadow_interval: tree.cache.shadow_interval,
        punts_per_second: tree.budget.rate,
        punt_burst: tree.budget.burst,
        has_reports: tree.xcmp,
        ether_type: ether_types.packets,
        tunnel: local.and_then(|local| match local {
            SocketAddr::V4(local) => Some(TunnelEnd { local, has_checksum: tunnel.checksum }),
            SocketAddr::V6(_) => None,
        }),
    };
    let line_bits = tree.cache.lines.max(2).next_power_of_two().ilog2();
    let types = |names: Vec<String>| names.iter().filter_map(|name| name.parse().ok()).collect();
    Ok(Settings {
        core,
        program,
        ether_types,
        punt_path: tree.punt_path,
        ip_routes,
        line_bits,
        keys,
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
            "punt-path": "packet-socket",
            "xcmp": true,
        });
        let settings = settings(part).expect("valid");
        assert_eq!(settings.core.interfaces.get("eth1"), Some(&false));
        assert_eq!(settings.core.principals.get(&XidType(0x53)), Some(&"hid"));
        let tunnel = settings.core.tunnel.expect("a tunnel");
        assert_eq!((tunnel.local.to_string().as_str(), tunnel.no_check), ("10.0.0.1:13781", true));
        assert_eq!((settings.line_bits, settings.program.shadow_interval), (10, 7));
        assert_eq!(settings.punt_path, PuntPath::PacketSocket);
        assert_eq!((settings.core.consultations, settings.core.has_xcmp), (3, true));
    }

    #[test]
    fn principals_have_the_numbers_that_are_configured() {
        let of = |principals: &[&str], number: u32| {
            let numbers = json!([{"principal": "ether", "number": number}]);
            settings(json!({"principal": principals, "principal-number": numbers}))
                .map(|settings| settings.core.principals)
        };
        let principals = of(&["ether", "ad"], 0x12).expect("valid");
        assert_eq!(principals, [(XidType(0x12), "ether"), (XidType::AD, "ad")].into());
        assert!(of(&["ad"], 0x12).expect("valid").len() == 1, "a number starts no principal");
        let error = of(&["ether"], 0x10).expect_err("taken").to_string();
        assert!(error.contains("0x10 is the number of ad"), "{error}");
    }

    #[test]
    fn ip_routes_lead_to_hids_and_need_the_principal() {
        let part = |principal: &str, xid: &str| {
            let neighbor = json!([{"address": "10.0.0.2", "hid": xid}]);
            let routes = json!({"origin": ["static"], "neighbor": neighbor, "u4id": true});
            settings(json!({"principal": [principal], "lpm": {"from-ip-routes": routes}}))
        };
        let hid = "hid-1111111111111111111111111111111111111111";
        let routes = part("lpm", hid).expect("valid").ip_routes.expect("configured");
        assert_eq!((routes.origins.len(), routes.tunnel_port), (1, Some(13781)));
        assert_eq!(routes.neighbors[&"10.0.0.2".parse().expect("an address")].to_string(), hid);
        let error = part("hid", hid).expect_err("no principal").to_string();
        assert!(error.contains("set xip principal lpm"), "{error}");
        let error = part("lpm", &hid.replace("hid", "ad")).expect_err("no HID").to_string();
        assert!(error.contains("10.0.0.2: `ad-11"), "{error}");
    }

    #[test]
    fn ether_types_differ_from_each_other_and_from_those_of_other_protocols() {
        let of = |part: Value| settings(json!({ "ethertype": part })).map(|settings| settings.ether_types);
        assert_eq!(of(json!({})).expect("valid"), EtherTypes { packets: 0xc0de, neighbors: 0xc0df });
        let own = of(json!({"packets": 0x88b5, "neighbors": 0x88b6})).expect("valid");
        assert_eq!((own.packets, own.neighbors), (0x88b5, 0x88b6));
        let error = of(json!({"packets": 0x0800})).expect_err("IPv4's").to_string();
        assert!(error.contains("0x0800 is the EtherType of IPv4") && error.contains("49374"), "{error}");
        let error = of(json!({"packets": 0xc0df})).expect_err("equal").to_string();
        assert!(error.contains("set xip ethertype neighbors 49374"), "{error}");
        let error = of(json!({"neighbors": 0xc0de})).expect_err("equal").to_string();
        assert!(error.contains("set xip ethertype neighbors 49375"), "{error}");
    }

    #[test]
    fn an_empty_part_runs_no_principal() {
        let settings = settings(json!({})).expect("valid");
        assert!(settings.core.principals.is_empty() && settings.core.tunnel.is_none());
        assert_eq!(settings.line_bits, 16);
    }
}
