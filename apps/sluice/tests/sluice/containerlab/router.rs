//! The statements of a router's configuration that must agree with the configurations of its neighbors.

use sluice_config::text::{Statement, parse};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// An address of an interface with its prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    pub address: IpAddr,
    pub length: u32,
}

/// The statements.
#[derive(Default)]
pub struct Router {
    pub file: PathBuf,
    pub local_as: u32,
    pub router_id: String,
    /// Addresses by interface, without the loopback interface.
    pub interfaces: BTreeMap<String, Vec<InterfaceAddress>>,
    /// The neighbors' ASes by address.
    pub neighbors: BTreeMap<IpAddr, u32>,
}

impl Router {
    /// Reads a configuration file.
    pub fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut router = Router { file: file.into(), ..Router::default() };
        router.read_block(&parse(&file.display().to_string(), &text).unwrap(), &mut Vec::new());
        router
    }

    fn read_block<'a>(&mut self, block: &'a [Statement], path: &mut Vec<&'a str>) {
        for statement in block {
            let depth = path.len();
            path.extend(statement.words.iter().map(|word| word.text.as_str()));
            match &statement.block {
                Some(block) => self.read_block(block, path),
                None => self.read_leaf(path),
            }
            path.truncate(depth);
        }
    }

    fn read_leaf(&mut self, path: &[&str]) {
        match path {
            ["protocols", "bgp", "local-as", number] => self.local_as = number.parse().unwrap(),
            ["protocols", "bgp", "router-id", id] => self.router_id = (*id).to_owned(),
            ["protocols", "bgp", "neighbor", address, "peer-as", number] => {
                self.neighbors.insert(address.parse().unwrap(), number.parse().unwrap());
            }
            ["interfaces", "interface", name, "address", addresses @ ..] if *name != "lo" => {
                self.interfaces
                    .insert((*name).to_owned(), addresses.iter().map(|a| a.parse().unwrap()).collect());
            }
            _ => {}
        }
    }
}

impl InterfaceAddress {
    /// Returns true if another host of the same subnet may have `address`.
    pub fn reaches(self, address: IpAddr) -> bool {
        let bits = |address| match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let ((own, width), (others, others_width)) = (bits(self.address), bits(address));
        let host = width - self.length;
        width == others_width && own != others && own >> host == others >> host
    }
}

impl std::str::FromStr for InterfaceAddress {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = text.split_once('/').unwrap_or((text, "0"));
        Ok(InterfaceAddress { address: address.parse()?, length: length.parse().unwrap_or(0) })
    }
}
