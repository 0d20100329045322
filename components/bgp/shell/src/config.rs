//! The configuration tree (bgp.yang) as the core takes it.

use crate::pool::{Plan, Scheduling};
use serde::Deserialize;
use sluice_base::{Asn, Duration, IpPrefix, RouterId};
use sluice_bgp::relationship::Relationship;
use sluice_bgp::session::Families;
use sluice_bgp::speaker::{Config, NeighborConfig};
use std::net::IpAddr;

/// The most threads if nothing is configured.
const MOST_THREADS: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tree {
    local_as: u32,
    router_id: String,
    threads: Option<u16>,
    scheduling: Option<String>,
    #[serde(default)]
    graceful_shutdown: bool,
    #[serde(default)]
    network: Vec<String>,
    #[serde(default)]
    neighbor: Vec<Neighbor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Neighbor {
    address: String,
    peer_as: u32,
    #[serde(default)]
    description: String,
    enabled: Option<bool>,
    local_address: Option<String>,
    port: Option<u16>,
    #[serde(default)]
    passive: bool,
    hold_time: Option<u16>,
    send_hold_time: Option<u16>,
    connect_retry_time: Option<u64>,
    delay_open_time: Option<u64>,
    password: Option<String>,
    multihop: Option<u8>,
    #[serde(default)]
    ttl_security: bool,
    #[serde(default)]
    next_hop_self: bool,
    enforce_first_as: Option<bool>,
    relationship: Option<Relationship>,
    #[serde(default)]
    ipv4_unicast: Unicast,
    #[serde(default)]
    ipv6_unicast: Unicast,
}

#[derive(Deserialize, Default)]
struct Unicast {
    enabled: Option<bool>,
}

/// What a tree says: who the router is, and the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// This router's AS.
    pub local_as: Asn,
    /// This router's BGP Identifier.
    pub router_id: RouterId,
    /// The threads that carry routes.
    pub plan: Plan,
    /// Neighbours and networks.
    pub config: Config,
}

/// Reads a configuration tree. The error says what is wrong in it.
pub fn settings(tree: serde_json::Value) -> Result<Settings, String> {
    let tree: Tree = serde_json::from_value(tree).map_err(|e| e.to_string())?;
    let router_id: RouterId =
        tree.router_id.parse().map_err(|_| format!("router-id: `{}` is not four numbers", tree.router_id))?;
    if router_id.0 == 0 {
        return Err("router-id: 0.0.0.0 identifies nobody".into());
    }
    let neighbors =
        tree.neighbor.into_iter().map(|n| neighbor(tree.local_as, n)).collect::<Result<Vec<_>, String>>()?;
    let neighbors = neighbors
        .into_iter()
        .map(|n| NeighborConfig { graceful_shutdown: tree.graceful_shutdown, ..n })
        .collect();
    let networks = tree.network.iter().map(|text| network(text)).collect::<Result<Vec<_>, String>>()?;
    let plan = Plan {
        threads: tree.threads.map_or_else(default_threads, |n| usize::from(n).max(1)),
        scheduling: match tree.scheduling.as_deref() {
            Some("peer") => Scheduling::Peer,
            _ => Scheduling::Dynamic,
        },
    };
    Ok(Settings { local_as: Asn(tree.local_as), router_id, plan, config: Config { neighbors, networks } })
}

/// As many as the machine runs at once.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address"))
}

fn neighbor(local_as: u32, n: Neighbor) -> Result<NeighborConfig, String> {
    let address_of = address(&n.address)?;
    let default = NeighborConfig::new(address_of, Asn(n.peer_as));
    let local_address = n.local_address.as_deref().map(address).transpose()?;
    if local_address.is_some_and(|local| local.is_ipv4() != address_of.is_ipv4()) {
        return Err(format!("neighbor {address_of}: local-address is of the other family"));
    }
    let families = Families {
        ipv4: n.ipv4_unicast.enabled.unwrap_or(address_of.is_ipv4()),
        ipv6: n.ipv6_unicast.enabled.unwrap_or(address_of.is_ipv6()),
    };
    if n.relationship.is_some() && n.peer_as == local_as {
        return Err(format!("neighbor {address_of}: relationship is for external neighbors"));
    }
    if families.is_empty() {
        return Err(format!("neighbor {address_of}: no family is enabled"));
    }
    let hold_time = n.hold_time.unwrap_or(default.hold_time);
    if n.send_hold_time.is_some_and(|time| time != 0 && time <= hold_time) {
        return Err(format!(
            "neighbor {address_of}: send-hold-time must be more than hold-time ({hold_time})"
        ));
    }
    Ok(NeighborConfig {
        enabled: n.enabled.unwrap_or(true),
        local_address,
        port: n.port.unwrap_or(default.port),
        passive: n.passive,
        hold_time,
        send_hold_time: n.send_hold_time,
        connect_retry: n.connect_retry_time.map_or(default.connect_retry, Duration::from_secs),
        delay_open: n.delay_open_time.map(Duration::from_secs),
        description: n.description,
        password: n.password,
        multihop: n.multihop,
        ttl_security: n.ttl_security,
        families,
        next_hop_self: n.next_hop_self,
        enforce_first_as: n.enforce_first_as.unwrap_or(true),
        relationship: n.relationship,
        ..default
    })
}

/// A prefix, its host bits cleared: libyang has accepted the text.
fn network(text: &str) -> Result<IpPrefix, String> {
    let wrong = || format!("`{text}` is not a prefix");
    let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
    IpPrefix::new(addr.parse().map_err(|_| wrong())?, len.parse().map_err(|_| wrong())?).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_leaves() {
        let tree = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "network": ["192.0.2.7/24"],
            "graceful-shutdown": true,
            "neighbor": [
                {"address": "10.0.0.2", "peer-as": 65002, "hold-time": 9, "multihop": 3, "password": "x",
                 "relationship": "customer",
                 "ipv6-unicast": {"enabled": true}},
                {"address": "2001:db8::2", "peer-as": 65001, "next-hop-self": true, "enabled": false},
            ],
        });
        let settings = settings(tree).expect("valid");
        assert_eq!((settings.local_as, settings.router_id), (Asn(65001), RouterId(0x0a00_0001)));
        assert_eq!(settings.config.networks, ["192.0.2.0/24".parse().expect("a prefix")]);
        let [a, b] = &settings.config.neighbors[..] else { panic!("two neighbors") };
        assert_eq!((a.hold_time, a.multihop, a.families), (9, Some(3), Families::BOTH));
        assert!(a.graceful_shutdown && b.graceful_shutdown);
        assert_eq!((a.relationship, b.relationship), (Some(Relationship::Customer), None));
        assert_eq!((b.enabled, b.next_hop_self, b.families.ipv4), (false, true, false));
    }

    #[test]
    fn the_schema_and_this_reader_agree() {
        let module = sluice_config::Module { name: "sluice-bgp", text: include_str!("../../bgp.yang") };
        let schema = sluice_config::Schema::of(&[module]).expect("bgp.yang is good");
        let text =
            "protocols { bgp { local-as 65001; router-id 10.0.0.1; network [ 192.0.2.0/24 2001:db8::/32 ];
            neighbor 10.0.0.2 { peer-as 65002; hold-time 9; passive; relationship provider; ipv6-unicast { enabled; } }
            neighbor 2001:db8::2 { peer-as 65001; enabled false; description \"a note\"; } } }";
        let document = schema.read("test", text).expect("the text is good");
        let part = schema.part("bgp", &document).expect("it is configured");
        let settings = settings(part).expect("valid");
        let find = |ipv4| settings.config.neighbors.iter().find(|n| n.address.is_ipv4() == ipv4);
        let (a, b) = (find(true).expect("the first"), find(false).expect("the second"));
        assert_eq!((a.hold_time, a.passive, a.enabled, a.families), (9, true, true, Families::BOTH));
        assert_eq!(a.relationship, Some(Relationship::Provider));
        assert_eq!((b.enabled, b.description.as_str(), b.families.ipv4), (false, "a note", false));
        assert_eq!((b.port, b.hold_time, settings.config.networks.len()), (179, 90, 2));
        let impact = |leaf: &str| schema.impact(&format!("protocols/bgp/{leaf}"));
        assert_eq!(impact("local-as"), Some(sluice_config::Impact::Restart));
        assert_eq!(impact("graceful-shutdown"), Some(sluice_config::Impact::Refilter));
        assert_eq!(impact("neighbor/next-hop-self"), Some(sluice_config::Impact::Refilter));
        for bad in ["hold-time 2;", "port 0;", "port 22;", "port 1023;", "relationship friend;", "peer-as 0;"]
        {
            let text = format!(
                "protocols {{ bgp {{ local-as 1; router-id 1.1.1.1; neighbor 10.0.0.2 {{ peer-as 2; {bad} }} }} }}"
            );
            assert!(schema.read("test", &text).is_err(), "{bad}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let check = |tree: serde_json::Value, expected: &str| {
            assert!(settings(tree).is_err_and(|e| e.contains(expected)), "{expected}");
        };
        check(serde_json::json!({"local-as": 1, "router-id": "0.0.0.0"}), "router-id");
        let neighbor = |extra: serde_json::Value| {
            let mut neighbor = serde_json::json!({"address": "10.0.0.2", "peer-as": 2});
            neighbor
                .as_object_mut()
                .expect("an object")
                .extend(extra.as_object().expect("an object").clone());
            serde_json::json!({"local-as": 1, "router-id": "1.1.1.1", "neighbor": [neighbor]})
        };
        check(neighbor(serde_json::json!({"local-address": "::1"})), "other family");
        check(neighbor(serde_json::json!({"send-hold-time": 90})), "more than hold-time (90)");
        check(neighbor(serde_json::json!({"peer-as": 1, "relationship": "peer"})), "for external neighbors");
        check(neighbor(serde_json::json!({"ipv4-unicast": {"enabled": false}})), "no family");
    }
}
