//! The configuration tree (fea.yang) in the core's form.

use serde::Deserialize;
use sluice_base::{Family, InterfaceAddress, IpPrefix};
use sluice_fea::socket::SocketPolicy;
use sluice_fea::{Configuration, LinkConfiguration};
use std::collections::BTreeMap;
use std::net::IpAddr;
use thiserror::Error;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tree {
    interface: Vec<Interface>,
    forwarding: Forwarding,
    /// Put there by the manager, from the components' files; not configurable.
    #[serde(rename = "socket-rights")]
    socket_rights: SocketPolicy,
    /// Put there by the manager likewise.
    #[serde(rename = "program-rights")]
    program_rights: BTreeMap<String, Vec<String>>,
    /// Put there by the manager likewise.
    #[serde(rename = "link-rights")]
    link_rights: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Forwarding {
    ipv4: Option<bool>,
    ipv6: Option<bool>,
    install_routes: Option<bool>,
    engine: Option<ForwardingEngine>,
    kernel_prefix: Vec<String>,
    preferred_source: Vec<IpAddr>,
}

/// The forwarding engines.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingEngine {
    /// The kernel alone.
    #[default]
    Kernel,
    /// The kernel, and XDP where XDP works.
    Both,
    /// XDP where XDP works, and the kernel without the routes of external origins.
    Xdp,
}

impl ForwardingEngine {
    /// Returns the word in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ForwardingEngine::Kernel => "kernel",
            ForwardingEngine::Both => "both",
            ForwardingEngine::Xdp => "xdp",
        }
    }
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    enabled: Option<bool>,
    mtu: Option<u32>,
    #[serde(default)]
    address: Vec<String>,
}

/// The reason why a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The tree does not match `fea.yang`.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// A text is no address of an interface.
    #[error("`{0}` is not an address with a prefix length")]
    Address(String),
    /// Two preferred sources are of one family.
    #[error(
        "preferred-source: {0} and {1} are of one family; expected one address of IPv4, one of IPv6, or both"
    )]
    TwoSources(IpAddr, IpAddr),
    /// A text is no prefix.
    #[error("`{0}` is not a prefix; write an address, a slash and a length, such as 192.0.2.0/24")]
    Prefix(String),
}

/// The contents of the configuration.
#[derive(Debug)]
pub struct Read {
    /// Interfaces, and whether the host forwards.
    pub configuration: Configuration,
    /// The rights to sockets.
    pub policy: SocketPolicy,
    /// The programs of components allowed in the path of packets, by the component's name.
    pub programs: BTreeMap<String, Vec<String>>,
    /// The kinds of virtual links allowed for components, by the component's name.
    pub links: BTreeMap<String, Vec<String>>,
    /// True if the RIB's routes go into the engine.
    pub installs_routes: bool,
    /// The engines that forward packets.
    pub engine: ForwardingEngine,
    /// External routes for the kernel also with the engine `xdp`: routes with these prefixes or inside.
    pub kernel_prefixes: Vec<IpPrefix>,
    /// The source addresses of the host's own packets, by family.
    pub sources: BTreeMap<Family, IpAddr>,
}

impl Read {
    /// Returns a sentence about each preferred source missing on the host and in the configuration of interfaces.
    pub fn remarks(&self, host_has: impl Fn(IpAddr) -> bool) -> Vec<String> {
        let is_configured = |addr: IpAddr| {
            let mut links = self.configuration.interfaces.values();
            links.any(|link| link.addresses.iter().any(|address| address.addr == addr))
        };
        let missing = self.sources.values().filter(|addr| !is_configured(**addr) && !host_has(**addr));
        missing
            .map(|addr| {
                format!("preferred-source {addr}: no interface has this address; routes have no source address until one has")
            })
            .collect()
    }
}

/// Reads the tree. A router forwards unless disabled by the configuration.
pub fn read(config: &serde_json::Value) -> Result<Read, ConfigurationError> {
    let tree = Tree::deserialize(config)?;
    let mut interfaces = BTreeMap::new();
    for interface in tree.interface {
        let addresses = interface.address.iter().map(|text| address(text)).collect::<Result<_, _>>()?;
        let link = LinkConfiguration { enabled: interface.enabled, mtu: interface.mtu, addresses };
        interfaces.insert(interface.name, link);
    }
    let forwarding = BTreeMap::from([
        (Family::Ipv4, tree.forwarding.ipv4.unwrap_or(true)),
        (Family::Ipv6, tree.forwarding.ipv6.unwrap_or(true)),
    ]);
    let mut sources = BTreeMap::new();
    for source in tree.forwarding.preferred_source {
        if let Some(other) = sources.insert(Family::of(&source), source) {
            return Err(ConfigurationError::TwoSources(other, source));
        }
    }
    let prefix = |text: &String| text.parse().map_err(|_| ConfigurationError::Prefix(text.clone()));
    let kernel_prefixes = tree.forwarding.kernel_prefix.iter().map(prefix).collect::<Result<_, _>>()?;
    Ok(Read {
        configuration: Configuration { interfaces, forwarding },
        policy: tree.socket_rights,
        programs: tree.program_rights,
        links: tree.link_rights,
        installs_routes: tree.forwarding.install_routes.unwrap_or(true),
        sources,
        engine: tree.forwarding.engine.unwrap_or_default(),
        kernel_prefixes,
    })
}

fn address(text: &str) -> Result<InterfaceAddress, ConfigurationError> {
    let wrong = || ConfigurationError::Address(text.into());
    let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
    let addr: std::net::IpAddr = addr.parse().map_err(|_| wrong())?;
    let prefix_len: u8 = len.parse().map_err(|_| wrong())?;
    let width = if addr.is_ipv4() { 32 } else { 128 };
    (prefix_len <= width).then_some(InterfaceAddress { addr, prefix_len, peer: None }).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_fea::socket::{Reception, SocketKind};

    #[test]
    fn reads_interfaces_and_forwarding() {
        let tree = serde_json::json!({
            "interface": [{"name": "eth0", "mtu": 1400, "address": ["10.0.0.1/24", "2001:db8::1/64"]}],
            "forwarding": {"ipv6": false},
            "socket-rights": {"bgp": {"tcp_listen": [179]}},
        });
        let Read { configuration, policy, installs_routes, engine, .. } = read(&tree).expect("valid");
        assert!(installs_routes, "a router does where nothing is said");
        assert_eq!(engine, ForwardingEngine::Kernel);
        assert!(policy.check("bgp", SocketKind::TcpListen(179), &Reception::default()).is_ok());
        assert_eq!(configuration.interfaces["eth0"].addresses.len(), 2);
        assert_eq!(
            (configuration.forwarding[&Family::Ipv4], configuration.forwarding[&Family::Ipv6]),
            (true, false)
        );
        let both = serde_json::json!({"forwarding": {"engine": "both"}});
        assert_eq!(super::read(&both).expect("valid").engine, ForwardingEngine::Both);
        let xdp = serde_json::json!({"forwarding": {"engine": "xdp", "kernel-prefix": ["192.0.2.0/24"]}});
        let Read { engine, kernel_prefixes, .. } = super::read(&xdp).expect("valid");
        assert_eq!((engine, kernel_prefixes), (ForwardingEngine::Xdp, vec!["192.0.2.0/24".parse().unwrap()]));
        let wrong = serde_json::json!({"forwarding": {"kernel-prefix": ["192.0.2.0"]}});
        assert!(super::read(&wrong).is_err_and(|error| error.to_string().contains("192.0.2.0")));
        let source = serde_json::json!({"forwarding": {"preferred-source": ["10.9.9.9", "2001:db8::9"]}});
        let read = super::read(&source).expect("valid");
        assert_eq!(read.sources.len(), 2);
        assert_eq!(read.remarks(|addr| addr.is_ipv4()).len(), 1);
        let two = serde_json::json!({"forwarding": {"preferred-source": ["10.9.9.9", "10.9.9.8"]}});
        assert!(super::read(&two).unwrap_err().to_string().contains("are of one family"));
        let reflector = serde_json::json!({"forwarding": {"install-routes": false}});
        assert!(!super::read(&reflector).expect("valid").installs_routes);
        assert!(address("10.0.0.1/33").is_err());
    }
}
