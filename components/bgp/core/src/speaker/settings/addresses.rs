//! The router's addresses and the configuration: neighbors with an address of the router, which are refused, and local addresses
//! that the router lacks at present, which are remarked.

use super::error::{Owner, SettingsError};
use super::statements::Settings;
use crate::bmp::StationSettings;
use crate::speaker::config::Config;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_clients::InterfaceTable;

/// Returns the addresses of this router.
fn own(interfaces: &InterfaceTable) -> BTreeSet<IpAddr> {
    interfaces.iter().flat_map(|interface| &interface.addresses).map(|address| address.addr).collect()
}

impl Settings {
    /// Returns the refusal of a neighbor with the address of one of the router's interfaces; `None` without such a neighbor.
    /// Neighbors of `before` are accepted: an interface may have got the address later.
    pub fn itself(&self, before: &Config, interfaces: &InterfaceTable) -> Option<SettingsError> {
        let own = own(interfaces);
        let known: BTreeSet<IpAddr> = before.neighbors.iter().map(|neighbor| neighbor.address).collect();
        let new =
            self.neighbor.iter().map(|neighbor| neighbor.address).filter(|address| !known.contains(address));
        let itself = new.into_iter().find(|address| own.contains(address))?;
        Some(SettingsError::Itself(Owner::Neighbor(itself)))
    }
}

impl Config {
    /// Returns remarks on local addresses missing on the router's interfaces, including those of monitoring stations; empty
    /// without known interfaces.
    pub fn address_remarks(&self, stations: &[StationSettings], interfaces: &InterfaceTable) -> Vec<String> {
        let own = own(interfaces);
        if own.is_empty() {
            return Vec::new();
        }
        let neighbors =
            self.neighbors.iter().map(|neighbor| (Owner::Neighbor(neighbor.address), neighbor.local_address));
        let ranges =
            self.ranges.iter().map(|range| (Owner::Range(range.prefix), range.template.local_address));
        let owners = neighbors.chain(ranges).map(|(owner, address)| (owner.to_string(), address));
        let stations = stations.iter().map(|s| (format!("bmp station {}", s.name), s.local_address));
        let mut all: BTreeMap<IpAddr, (String, usize)> = BTreeMap::new();
        for (owner, address) in owners.chain(stations) {
            if let Some(address) = address.filter(|address| !own.contains(address)) {
                all.entry(address).and_modify(|(_, others)| *others += 1).or_insert((owner, 0));
            }
        }
        let text = |(address, (first, others)): (IpAddr, (String, usize))| {
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            format!("{first}{others}: no interface has local-address {address} at present")
        };
        all.into_iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use serde_json::{Value, json};
    use sluice_base::{Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex};

    fn settings(extra: Value) -> Settings {
        let mut tree = json!({"local-as": 1, "router-id": "10.0.0.1"});
        if let (Some(tree), Some(extra)) = (tree.as_object_mut(), extra.as_object()) {
            tree.extend(extra.clone());
        }
        serde_json::from_value(tree).expect("settings")
    }

    fn neighbor(address: &str, local_address: Option<&str>) -> Value {
        json!({"address": address, "peer-as": 2, "local-address": local_address})
    }

    /// An interface with 10.0.0.1/24.
    fn interfaces() -> InterfaceTable {
        let address = InterfaceAddress { addr: [10, 0, 0, 1].into(), prefix_len: 24, peer: None };
        let mut table = InterfaceTable::default();
        table.apply(InterfaceEvent::Changed(Interface {
            index: InterfaceIndex::new(1).expect("an index"),
            name: "eth0".into(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![],
            addresses: vec![address],
        }));
        table
    }

    #[test]
    fn a_neighbor_that_is_this_router_is_refused() {
        let check = |address: &str, local: Option<&str>, expected: bool| {
            let error = settings(json!({"neighbor": [neighbor(address, local)]})).check().err();
            assert_eq!(error.is_some(), expected, "{address}: {error:?}");
        };
        check("127.0.0.1", None, true);
        check("::1", None, true);
        check("127.0.0.2", None, false);
        check("10.0.0.2", Some("10.0.0.2"), true);
        check("10.0.0.2", Some("10.0.0.1"), false);
        let own = settings(json!({"neighbor": [neighbor("10.0.0.2", None), neighbor("10.0.0.1", None)]}));
        let refused = own.itself(&Config::default(), &interfaces()).map(|error| error.to_string());
        let text = "neighbor 10.0.0.1: expected the address of another router: this router has it itself";
        assert_eq!(refused.as_deref(), Some(text));
        assert_eq!(own.itself(&Config::default(), &InterfaceTable::default()), None);
        assert_eq!(own.itself(&own.config(), &interfaces()), None, "the address came later");
    }

    #[test]
    fn a_local_address_that_no_interface_has_is_remarked() {
        let station = json!({"name": "s", "address": "10.0.0.9", "port": 5000, "local-address": "10.0.0.8"});
        let all = settings(json!({
            "neighbor": [
                neighbor("10.0.0.2", Some("10.0.0.1")),
                neighbor("10.0.0.3", Some("10.9.0.1")),
                neighbor("10.0.0.4", Some("10.9.0.1")),
                neighbor("10.0.0.5", None),
            ],
            "bmp": {"station": [station]},
        }));
        assert_eq!(
            all.config().address_remarks(&all.bmp.station, &interfaces()),
            [
                "bmp station s: no interface has local-address 10.0.0.8 at present",
                "neighbor 10.0.0.3 and 1 more: no interface has local-address 10.9.0.1 at present",
            ]
        );
        assert_eq!(all.config().address_remarks(&[], &InterfaceTable::default()), [""; 0]);
    }
}
