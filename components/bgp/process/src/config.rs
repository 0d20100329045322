//! The configuration tree (bgp.yang), read for the process.

use crate::error::ConfigError;
use crate::executor::pool::Plan;
use sluice_bgp::speaker::Settings;

/// The most tables: more would scatter the routes of an UPDATE without gain.
pub const MOST_TABLES: u16 = 16;

/// The most threads by default.
const MOST_THREADS: usize = 8;

/// Reads a configuration tree.
///
/// # Errors
/// The tree is not as `bgp.yang` has it, or values contradict each other.
pub fn settings(tree: serde_json::Value) -> Result<Settings, ConfigError> {
    let settings: Settings = serde_json::from_value(tree)?;
    settings.check()?;
    Ok(settings)
}

/// Checks a configuration tree where BGP does not run. Returns the reason of a refusal, after the statement's path if known.
pub fn check(tree: serde_json::Value) -> Option<String> {
    settings(tree).err().map(|error| error.to_string())
}

/// Returns the plan of threads of a configuration: by default as many as the machine runs at once.
pub fn plan(settings: &Settings) -> Plan {
    let default_threads = || std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = settings.threads.map_or_else(default_threads, |n| usize::from(n).max(1));
    Plan { threads, scheduling: settings.scheduling }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::{AnyPrefix, Asn, RouterId};
    use sluice_bgp::family::{Families, FamilyIndex};
    use sluice_bgp::relationship::Relationship;

    #[test]
    fn reads_all_leaves() {
        let tree = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "network": ["192.0.2.7/24"],
            "graceful-shutdown": true,
            "neighbor": [
                {"address": "10.0.0.2", "peer-as": 65002, "hold-time": 9, "multihop": 3, "password": "x",
                 "relationship": "customer", "keep-rejected": false,
                 "ipv6-unicast": {"enabled": true}},
                {"address": "2001:db8::2", "peer-as": 65001, "next-hop-self": true, "enabled": false},
            ],
        });
        let settings = settings(tree).expect("valid");
        assert_eq!((settings.local_as, settings.router_id), (Asn(65001), RouterId(0x0a00_0001)));
        assert_eq!(settings.config().networks, ["192.0.2.0/24".parse::<AnyPrefix>().expect("a prefix")]);
        let config = settings.config();
        let [a, b] = &config.neighbors[..] else { panic!("two neighbors") };
        assert_eq!((a.hold_time, a.multihop, a.families()), (9, Some(3), ip()));
        assert!(a.graceful_shutdown && b.graceful_shutdown);
        assert_eq!((a.keep_rejected, b.keep_rejected), (false, true));
        assert_eq!((a.relationship, b.relationship), (Some(Relationship::Customer), None));
        assert_eq!((b.enabled, b.next_hop_self, b.families().has(FamilyIndex::IPV4)), (false, true, false));
    }

    #[test]
    fn the_schema_and_this_reader_agree() {
        let module = sluice_config::Module { name: "sluice-bgp", text: include_str!("../../bgp.yang") };
        let schema = sluice_config::Schema::of(&[module]).expect("bgp.yang is good");
        let text =
            "policy { policy-statement first { term t { then { accept; } } } policy-statement second { term t { then { accept; } } } }
            protocols { bgp { local-as 65001; router-id 10.0.0.1; network [ 192.0.2.0/24 2001:db8::/32 ];
            redistribute static { policy [ second first ]; } redistribute connected;
            neighbor 10.0.0.2 { peer-as 65002; hold-time 9; passive; relationship provider; ipv6-unicast { enabled; } }
            neighbor 2001:db8::2 { peer-as 65001; enabled false; description \"a note\"; } } }";
        let document = schema.read("test", text).expect("the text is good");
        let part = schema.part("bgp", &document).expect("it is configured");
        let settings = settings(part).expect("valid");
        let config = settings.config();
        let find = |ipv4| config.neighbors.iter().find(|n| n.address.is_ipv4() == ipv4);
        let (a, b) = (find(true).expect("the first"), find(false).expect("the second"));
        assert_eq!((a.hold_time, a.passive, a.enabled, a.families()), (9, true, true, ip()));
        assert_eq!(a.relationship, Some(Relationship::Provider));
        assert_eq!(
            (b.enabled, b.description.as_str(), b.families().has(FamilyIndex::IPV4)),
            (false, "a note", false)
        );
        assert_eq!((b.port, b.hold_time, settings.config().networks.len()), (179, 90, 2));
        let origins: Vec<_> =
            settings.redistribute.iter().map(|r| (&*r.origin, r.policy.join(" "))).collect();
        assert_eq!(origins, [("connected", String::new()), ("static", "second first".into())]);
        let own = "protocols { bgp { local-as 1; router-id 1.1.1.1; redistribute bgp; } }";
        let refused = schema.read("test", own).expect_err("it has its own routes").to_string();
        assert!(refused.contains("expected another origin, such as static"), "{refused}");
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

    /// The families of IP.
    fn ip() -> Families {
        Families::ALL.without(Families::only(FamilyIndex::XID))
    }

    #[test]
    fn xids_are_a_family_that_is_configured() {
        const AD: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
        const U4ID: &str = "u4id-0a00000135d50000000000000000000000000000";
        let module = sluice_config::Module { name: "sluice-bgp", text: include_str!("../../bgp.yang") };
        let schema = sluice_config::Schema::of(&[module]).expect("bgp.yang is good");
        let read = |statements: &str| {
            let text = format!("protocols {{ bgp {{ local-as 1; router-id 1.1.1.1; {statements} }} }}");
            let document = schema.read("test", &text).map_err(|error| error.to_string())?;
            let part = schema.part("bgp", &document).ok_or("it is not configured")?;
            settings(part).map_err(|error| error.to_string())
        };
        let neighbor = |xid: &str| format!("neighbor 10.0.0.2 {{ peer-as 2; group g; xid {{ {xid} }} }}");
        let group = format!("group g {{ xid {{ next-hop {U4ID}; }} }}");
        let all = format!(
            "network [ 192.0.2.1/24 {AD} ]; xid-family {{ afi 16400; }} {group} {}",
            neighbor("enabled true;")
        );
        let whole = read(&all).expect("valid");
        let config = whole.config();
        let networks = ["192.0.2.0/24", AD].map(|text| text.parse::<AnyPrefix>().expect("a prefix"));
        assert!(networks.iter().all(|network| config.networks.contains(network)), "{:?}", config.networks);
        let known = &config.neighbors[0];
        assert_eq!(known.xid.next_hop, Some(U4ID.parse().expect("an XID")));
        assert!(known.families().has(FamilyIndex::XID) && known.families().has(FamilyIndex::IPV4));
        assert_eq!(whole.codes().family(16_400, 241), Some(FamilyIndex::XID));
        assert_eq!(whole.codes().family(0xc0de, 241), None);
        let refused = |statements: &str, expected: &str| {
            let error = read(statements).expect_err(statements);
            assert!(error.contains(expected), "{statements}: {error}");
        };
        refused(&format!("group g {{ }} {}", neighbor("enabled true;")), "set `xid next-hop XID`");
        refused(&format!("{group} {}", neighbor("next-hop ad-1;")), "ad-1");
        refused("network ad-1;", "ad-1");
        refused("network lpm-0a01000000000000000000000000000000000000/8;", "lpm-");
        refused("xid-family { safi 1; }", "safi");
        // What is not configured is not exchanged.
        let without = read("neighbor 10.0.0.2 { peer-as 2; }").expect("valid").config();
        assert_eq!(without.neighbors[0].families(), Families::only(FamilyIndex::IPV4));
    }

    #[test]
    fn says_what_is_wrong() {
        let check = |tree: serde_json::Value, expected: &str| {
            assert!(settings(tree).is_err_and(|e| e.to_string().contains(expected)), "{expected}");
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
        let station =
            serde_json::json!({"name": "a", "address": "10.0.0.9", "port": 5000, "local-address": "::1"});
        check(
            serde_json::json!({"local-as": 1, "router-id": "1.1.1.1", "bmp": {"station": [station]}}),
            "bmp station a: local-address is of the other family",
        );
        check(neighbor(serde_json::json!({"send-hold-time": 90})), "more than hold-time (90)");
        check(neighbor(serde_json::json!({"peer-as": 1, "relationship": "peer"})), "for external neighbors");
        check(neighbor(serde_json::json!({"ipv4-unicast": {"enabled": false}})), "no family");
    }
}
