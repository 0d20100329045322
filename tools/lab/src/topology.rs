//! The topology file: the nodes, their daemons and their links.

use crate::LabError;
use crate::error::at;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A whole lab.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// The lab's name, where the caller gives none.
    pub name: Option<String>,
    /// The nodes by name.
    pub nodes: BTreeMap<String, NodeSpec>,
    /// The links between them.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// The base of relative paths: the folder of the topology's file.
    #[serde(skip)]
    pub base: PathBuf,
    /// The topology file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// The daemon of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Daemon {
    /// An end system without a daemon.
    #[default]
    Host,
    /// A bridge over the node's interfaces, so that more than two nodes share a link.
    Switch,
    /// Sluice.
    Sluice,
    /// BIRD 2.
    Bird,
    /// FRRouting.
    Frr,
    /// OpenBGPD.
    Openbgpd,
    /// GoBGP.
    Gobgp,
    /// ExaBGP.
    Exabgp,
}

impl Daemon {
    /// Returns true if a node with the daemon forwards packets, unless the topology changes that.
    pub const fn forwards(self) -> bool {
        !matches!(self, Daemon::Host | Daemon::Switch | Daemon::Exabgp)
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// The daemon of the node.
    #[serde(default)]
    pub daemon: Daemon,
    /// The daemon's configuration as text. `@DIR@` in it becomes the node's folder.
    pub config: Option<String>,
    /// A file with the daemon's configuration, instead of `config`.
    pub config_file: Option<PathBuf>,
    /// FRR only: the daemons to start beside zebra, each with further arguments as in `bgpd -M rpki`; bgpd and staticd if there is no
    /// list.
    pub daemons: Option<Vec<String>>,
    /// More files for the node's folder, by name. `@DIR@` in a text becomes the folder.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Addresses with prefix length for the loopback interface.
    #[serde(default)]
    pub loopback: Vec<String>,
    /// True if the kernel forwards packets; absent: the daemon's default.
    pub forwarding: Option<bool>,
    /// Kernel settings by name (`net.ipv4.nexthop_compat_mode`).
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// Routes for the kernel, each what follows `ip route add`.
    #[serde(default)]
    pub routes: Vec<String>,
}

/// An end of a link: `node:interface`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct End {
    /// The node's name.
    pub node: String,
    /// The interface's name there, up to 15 octets.
    pub interface: String,
}

impl FromStr for End {
    type Err = LabError;

    fn from_str(s: &str) -> Result<Self, LabError> {
        let bad = || LabError::Topology(format!("{s:?} is not NODE:INTERFACE"));
        let (node, interface) = s.split_once(':').ok_or_else(bad)?;
        if node.is_empty() || interface.is_empty() || interface.len() > 15 || interface.contains(['/', ' ']) {
            return Err(bad());
        }
        Ok(End { node: node.into(), interface: interface.into() })
    }
}

impl TryFrom<String> for End {
    type Error = LabError;

    fn try_from(s: String) -> Result<Self, LabError> {
        s.parse()
    }
}

impl From<End> for String {
    fn from(e: End) -> String {
        e.to_string()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.interface)
    }
}

/// A link: a veth pair between two nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The first end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Addresses with prefix length at `a`.
    #[serde(default)]
    pub a_addresses: Vec<String>,
    /// Addresses with prefix length at `b`.
    #[serde(default)]
    pub b_addresses: Vec<String>,
    /// Largest packet in octets; the kernel's 1500 if absent.
    pub mtu: Option<u32>,
    /// True if XDP programs forward frames over the link: both ends then receive such frames, and send packets with
    /// finished checksums.
    #[serde(default)]
    pub xdp: bool,
}

impl Topology {
    /// Reads a topology file. Relative paths inside are relative to the file's folder.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path).map_err(at(path))?;
        let mut topology: Topology =
            toml::from_str(&text).map_err(|e| LabError::Syntax { path: path.into(), source: Box::new(e) })?;
        topology.file = Some(path.to_owned());
        topology.base = path.parent().map(Path::to_owned).unwrap_or_default();
        if topology.name.is_none() {
            topology.name = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        }
        topology.check()?;
        Ok(topology)
    }

    /// Checks the topology: valid names, links between nodes that exist, no interface twice.
    pub fn check(&self) -> Result<(), LabError> {
        let bad = |why: String| Err(LabError::Topology(why));
        for (name, node) in &self.nodes {
            if !is_name(name) {
                return bad(format!(
                    "{name:?} cannot be a node's name: letters, digits, '-', '_' and '.' only"
                ));
            }
            if node.config.is_some() && node.config_file.is_some() {
                return bad(format!("{name} has both config and config_file"));
            }
            if let Some(file) = node.files.keys().find(|f| !is_name(f)) {
                return bad(format!("{name}: {file:?} cannot be a file's name"));
            }
        }
        let mut ends = BTreeSet::new();
        for link in &self.links {
            for end in [&link.a, &link.b] {
                if !self.nodes.contains_key(&end.node) {
                    return bad(format!("link {} - {}: there is no node {}", link.a, link.b, end.node));
                }
                if !ends.insert(end) {
                    return bad(format!("two links end at {end}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the text of a node's configuration, with nothing replaced yet; `None` for a node without a
    /// configuration.
    pub fn config_text(&self, node: &NodeSpec) -> Result<Option<String>, LabError> {
        match (&node.config, &node.config_file) {
            (Some(text), _) => Ok(Some(text.clone())),
            (None, Some(file)) => {
                let path = self.base.join(file);
                std::fs::read_to_string(&path).map(Some).map_err(at(&path))
            }
            (None, None) => Ok(None),
        }
    }
}

impl FromStr for Topology {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let topology: Topology = toml::from_str(text)
            .map_err(|e| LabError::Syntax { path: "topology".into(), source: Box::new(e) })?;
        topology.check()?;
        Ok(topology)
    }
}

/// Returns true if `s` may name a lab, a node or a file in a node's folder.
pub(crate) fn is_name(s: &str) -> bool {
    !s.is_empty()
        && s.len() <= 64
        && !s.starts_with(['.', '-'])
        && s.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<usize, &str>) {
        let got = text.parse::<Topology>().map(|t| t.links.len()).map_err(|e| e.to_string());
        match (got, expected) {
            (Ok(links), Ok(n)) => assert_eq!(links, n),
            (Err(e), Err(part)) => assert!(e.contains(part), "{e}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn topologies() {
        check("[nodes.a]\n[nodes.b]\ndaemon='bird'\n[[links]]\na='a:x'\nb='b:x'", Ok(1));
        check("[nodes.a]\n[[links]]\na='a:x'\nb='b:x'", Err("there is no node b"));
        check("[nodes.a]\n[[links]]\na='a:x'\nb='a:x'", Err("two links end at a:x"));
        check("[nodes.a]\n[[links]]\na='a'\nb='a:y'", Err("NODE:INTERFACE"));
        check("[nodes.'a/b']", Err("cannot be a node's name"));
        check("[nodes.a]\ndaemon='xorp'", Err("unknown variant"));
        check("[nodes.a]\nconfig=''\nconfig_file='x'", Err("both"));
        check("[nodes.a]\nfiles={'../x'=''}", Err("cannot be a file's name"));
    }
}
