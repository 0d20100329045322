//! What a component may do: read from the `rights.toml` that it ships, handed to the Finder and the FEA. What is not named is
//! refused.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A component's rights.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// The component's class: the name by which it may register.
    pub class: String,
    /// Classes that must be ready before it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Target (`*`: any) to methods (`interface/method`, `*` at the end stands for anything) that it may call.
    #[serde(default)]
    pub calls: BTreeMap<String, Vec<String>>,
    /// The sockets that the FEA may open for the component.
    #[serde(default)]
    pub sockets: SocketRights,
    /// True if the process keeps the right to configure the network; only the FEA has that.
    #[serde(default)]
    pub network_admin: bool,
}

/// The sockets that the FEA may open for a component.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketRights {
    /// TCP ports to listen on.
    #[serde(default)]
    pub tcp_listen: Vec<u16>,
    /// TCP ports to connect to.
    #[serde(default)]
    pub tcp_connect: Vec<u16>,
    /// The first of further TCP ports to connect to, up to the last.
    #[serde(default)]
    pub tcp_connect_from: Option<u16>,
    /// UDP ports to bind.
    #[serde(default)]
    pub udp: Vec<u16>,
    /// IP protocol numbers for raw sockets.
    #[serde(default)]
    pub raw: Vec<u8>,
    /// Multicast groups to join.
    #[serde(default)]
    pub multicast: Vec<std::net::IpAddr>,
}

impl Rights {
    /// Reads a `rights.toml`.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The patterns `target/interface/method` that the Finder lets it resolve.
    pub fn call_patterns(&self) -> Vec<String> {
        self.calls
            .iter()
            .flat_map(|(target, methods)| methods.iter().map(move |method| format!("{target}/{method}")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_components_ship() {
        let text = "class = \"bgp\"\nneeds = [\"rib\"]\n[calls]\nrib = [\"rib.v1.Rib/*\"]\n[sockets]\ntcp_listen = [179]\n";
        let rights = Rights::parse(text).expect("valid");
        assert_eq!(rights.call_patterns(), ["rib/rib.v1.Rib/*"]);
        assert_eq!(rights.sockets.tcp_listen, [179]);
        assert!(Rights::parse("class = \"x\"\nevil = true\n").is_err());
    }
}
