//! Peer groups: a statement of a group holds for the group's neighbors without the statement.
//!
//! The configuration has statements as written, without defaults ([`Statements`]). Inheritance joins a neighbor's statements with
//! the group's, and [`Statements::config`] fills in the defaults at last.

use super::error::Direction;
use crate::local_as::LocalAs;
use crate::policy::{AspaProcedure, DefaultPolicy};
use crate::relationship::Relationship;
use crate::shard::SentCommunities;
use crate::speaker::config::{
    AddPathStatements, DefaultOriginate, FamilyConfig, GracefulRestart, NeighborConfig,
};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::Deserialize;
use sluice_base::Asn;

/// A group, as in `group` of `bgp.yang`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Group {
    /// The name.
    pub name: String,
    #[serde(flatten)]
    pub statements: Statements,
}

/// A neighbor, as in `neighbor` of `bgp.yang`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Neighbor {
    /// The neighbor's address.
    pub address: IpAddr,
    /// The name of the neighbor's group.
    #[serde(default)]
    pub group: Option<String>,
    #[serde(flatten)]
    pub statements: Statements,
}

/// Declares the statements of a neighbor: each is a field of [`NeighborConfig`], and absent if not written.
macro_rules! statements {
    ($($field:ident: $type:ty,)*) => {
        /// The statements of a neighbor or of a group, as written.
        #[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
        #[serde(rename_all = "kebab-case", default)]
        pub(crate) struct Statements {
            /// The neighbor's AS.
            pub peer_as: Option<Asn>,
            $($field: Option<$type>,)*
            ipv4_unicast: FamilyConfig,
            ipv6_unicast: FamilyConfig,
            xid: FamilyConfig,
            send_community: SendCommunity,
            add_path: AddPathStatements,
            graceful_restart: RestartStatements,
        }

        impl Statements {
            /// Returns the statements, with absent statements from `from`.
            pub fn inherit(self, from: &Statements) -> Statements {
                Statements {
                    peer_as: self.peer_as.or(from.peer_as),
                    $($field: self.$field.or_else(|| from.$field.clone()),)*
                    ipv4_unicast: self.ipv4_unicast.inherit(from.ipv4_unicast),
                    ipv6_unicast: self.ipv6_unicast.inherit(from.ipv6_unicast),
                    xid: self.xid.inherit(from.xid),
                    send_community: self.send_community.inherit(from.send_community),
                    add_path: self.add_path.inherit(&from.add_path),
                    graceful_restart: self.graceful_restart.inherit(from.graceful_restart),
                }
            }

            /// Returns the configuration of a neighbor, with defaults where no statement is; `None` without an AS.
            pub fn config(self, address: IpAddr, group: Option<String>) -> Option<NeighborConfig> {
                let mut config = NeighborConfig::new(address, self.peer_as?);
                $(if let Some(value) = self.$field {
                    config.$field = value.into();
                })*
                config.group = group;
                config.ipv4_unicast = self.ipv4_unicast;
                config.ipv6_unicast = self.ipv6_unicast;
                config.xid = self.xid;
                config.send_community = self.send_community.or_all();
                config.add_path = self.add_path.or_default();
                config.graceful_restart = self.graceful_restart.or_default();
                Some(config)
            }
        }
    };
}

statements! {
    local_as: LocalAs,
    enabled: bool,
    local_address: IpAddr,
    port: u16,
    passive: bool,
    hold_time: u16,
    send_hold_time: u16,
    keepalive_time: u16,
    connect_retry_time: u16,
    delay_open_time: u16,
    description: String,
    password: String,
    multihop: u8,
    ttl_security: bool,
    extended_messages: bool,
    advertisement_interval: u16,
    prefix_filter_receive: bool,
    prefix_filter_send: String,
    next_hop_self: bool,
    route_reflector_client: bool,
    transparent: bool,
    as_override: bool,
    allow_as_in: u8,
    enforce_first_as: bool,
    relationship: Relationship,
    aspa_procedure: AspaProcedure,
    import: Vec<String>,
    export: Vec<String>,
    default_originate: DefaultOriginate,
    keep_rejected: bool,
    damping: bool,
    default_policy: DefaultPolicy,
}

impl Statements {
    /// Returns no statement but the AS.
    pub fn of_as(peer_as: Option<Asn>) -> Statements {
        Statements { peer_as, ..Statements::default() }
    }

    /// Returns the names of the policies in a direction.
    pub fn policies(&self, direction: Direction) -> &[String] {
        let names = match direction {
            Direction::Import => &self.import,
            Direction::Export => &self.export,
        };
        names.as_deref().unwrap_or_default()
    }

    /// Returns the name of the prefix list that the neighbor is sent.
    pub fn prefix_filter_send(&self) -> Option<&str> {
        self.prefix_filter_send.as_deref()
    }

    /// Returns the names of the policies that choose further paths (ADD-PATH).
    pub fn add_path_policy(&self) -> &[String] {
        self.add_path.policy.as_deref().unwrap_or_default()
    }

    /// Returns the default route for the neighbor.
    pub const fn default_originate(&self) -> Option<&DefaultOriginate> {
        self.default_originate.as_ref()
    }
}

impl FamilyConfig {
    fn inherit(self, from: FamilyConfig) -> FamilyConfig {
        FamilyConfig {
            enabled: self.enabled.or(from.enabled),
            maximum_prefixes: self.maximum_prefixes.inherit(from.maximum_prefixes),
            next_hop: self.next_hop.or(from.next_hop),
        }
    }
}

/// The kinds of communities that a neighbor is sent, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
struct SendCommunity {
    standard: Option<bool>,
    extended: Option<bool>,
    large: Option<bool>,
}

impl SendCommunity {
    fn inherit(self, from: SendCommunity) -> SendCommunity {
        SendCommunity {
            standard: self.standard.or(from.standard),
            extended: self.extended.or(from.extended),
            large: self.large.or(from.large),
        }
    }

    fn or_all(self) -> SentCommunities {
        let all = SentCommunities::ALL;
        SentCommunities {
            standard: self.standard.unwrap_or(all.standard),
            extended: self.extended.unwrap_or(all.extended),
            large: self.large.unwrap_or(all.large),
        }
    }
}

/// The treatment of a neighbor that restarts, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct RestartStatements {
    helper: Option<bool>,
    notifications: Option<bool>,
    stale_time: Option<u16>,
    long_lived_time: Option<u32>,
}

impl RestartStatements {
    fn inherit(self, from: RestartStatements) -> RestartStatements {
        RestartStatements {
            helper: self.helper.or(from.helper),
            notifications: self.notifications.or(from.notifications),
            stale_time: self.stale_time.or(from.stale_time),
            long_lived_time: self.long_lived_time.or(from.long_lived_time),
        }
    }

    fn or_default(self) -> GracefulRestart {
        let default = GracefulRestart::DEFAULT;
        GracefulRestart {
            helper: self.helper.unwrap_or(default.helper),
            notifications: self.notifications.unwrap_or(default.notifications),
            stale_time: self.stale_time.unwrap_or(default.stale_time),
            long_lived_time: self.long_lived_time.unwrap_or(default.long_lived_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::DefaultPolicy;
    use crate::speaker::config::{Config, NeighborConfig};
    use crate::speaker::settings::statements::Settings;
    use alloc::string::{String, ToString};
    use serde_json::{Value, json};
    use sluice_base::Asn;
    use std::format;

    fn settings(group: Value, neighbors: &[Value]) -> Settings {
        let statements = json!({"policy-statement": [{"name": "a"}, {"name": "b"}]});
        let text = json!({"local-as": 1, "router-id": "10.0.0.1", "group": group, "neighbor": neighbors, "policy": statements});
        serde_json::from_value(text).expect("settings")
    }

    fn config(group: Value, neighbor: Value) -> NeighborConfig {
        let settings = settings(group, &[neighbor]);
        settings.check().expect("valid");
        settings.config().neighbors.remove(0)
    }

    #[test]
    fn neighbors_inherit_what_they_do_not_say() {
        let group = json!([
            {"name": "x", "peer-as": 2, "hold-time": 9, "passive": true, "password": "p", "import": ["a"], "export": ["a", "b"],
             "ipv4-unicast": {"enabled": false}, "ipv6-unicast": {"enabled": true}, "send-community": {"large": false},
             "default-policy": "accept", "keep-rejected": false, "multihop": 3, "description": "of the group"},
            {"name": "y", "peer-as": 3},
        ]);
        let of = |neighbor| config(group.clone(), neighbor);
        let all = of(json!({"address": "10.0.0.2", "group": "x"}));
        assert_eq!((all.peer_as, all.hold_time, all.passive, all.multihop), (Asn(2), 9, true, Some(3)));
        assert_eq!((all.password.as_deref(), all.group.as_deref()), (Some("p"), Some("x")));
        assert_eq!((all.import.join(" "), all.export.join(" ")), ("a".to_string(), "a b".to_string()));
        assert_eq!((all.ipv4_unicast.enabled, all.ipv6_unicast.enabled), (Some(false), Some(true)));
        assert!(all.send_community.standard && !all.send_community.large);
        assert!(!all.keep_rejected);
        assert_eq!((all.default_policy, all.connect_retry_time), (Some(DefaultPolicy::Accept), 30));
        let own = of(
            json!({"address": "10.0.0.2", "group": "x", "peer-as": 7, "hold-time": 90, "passive": false, "import": ["b"],
            "ipv4-unicast": {"enabled": true}, "send-community": {"large": true}, "description": "its own"}),
        );
        assert_eq!((own.peer_as, own.hold_time, own.passive, own.multihop), (Asn(7), 90, false, Some(3)));
        assert_eq!((own.import.join(" "), own.description.as_str()), ("b".to_string(), "its own"));
        assert_eq!((own.ipv4_unicast.enabled, own.ipv6_unicast.enabled), (Some(true), Some(true)));
        assert!(own.send_community.large);
        let plain = of(json!({"address": "10.0.0.2", "group": "y"}));
        let expected = NeighborConfig {
            group: Some("y".into()),
            ..NeighborConfig::new("10.0.0.2".parse().expect("an address"), Asn(3))
        };
        assert_eq!(plain, expected);
        let alone = of(json!({"address": "10.0.0.2", "peer-as": 3}));
        assert_eq!(alone, NeighborConfig { group: None, ..expected });
    }

    #[test]
    fn a_change_of_a_group_touches_the_neighbors_that_differ_after_it() {
        let neighbors = [
            json!({"address": "10.0.0.2", "group": "x"}),
            json!({"address": "10.0.0.3", "group": "x", "hold-time": 30}),
            json!({"address": "10.0.0.4", "group": "y"}),
            json!({"address": "10.0.0.5", "peer-as": 2}),
        ];
        let config =
            |x: Value| -> Config { settings(json!([x, {"name": "y", "peer-as": 2}]), &neighbors).config() };
        let check = |x: Value, expected: &str| {
            let touched = config(json!({"name": "x", "peer-as": 2})).touched(&config(x), Asn(1));
            let names = |all: &[core::net::IpAddr]| all.iter().map(|a| format!(" {a}")).collect::<String>();
            let found = format!("reset{} refiltered{}", names(&touched.reset), names(&touched.refiltered));
            assert_eq!(found, expected);
        };
        check(json!({"name": "x", "peer-as": 2}), "reset refiltered");
        check(json!({"name": "x", "peer-as": 2, "hold-time": 90}), "reset refiltered");
        check(json!({"name": "x", "peer-as": 2, "hold-time": 9}), "reset 10.0.0.2 refiltered");
        check(json!({"name": "x", "peer-as": 2, "hold-time": 30}), "reset 10.0.0.2 refiltered");
        check(json!({"name": "x", "peer-as": 7}), "reset 10.0.0.2 10.0.0.3 refiltered");
        check(
            json!({"name": "x", "peer-as": 2, "next-hop-self": true}),
            "reset refiltered 10.0.0.2 10.0.0.3",
        );
        check(json!({"name": "x", "peer-as": 2, "description": "x"}), "reset refiltered");
    }

    #[test]
    fn errors_name_the_owner_and_the_remedy() {
        let check = |group: Value, neighbor: Value, expected: &str| {
            let error = settings(group, &[neighbor]).check().expect_err(expected).to_string();
            assert_eq!(error, expected);
        };
        let x = json!([{"name": "transit"}]);
        check(
            x.clone(),
            json!({"address": "10.0.0.2", "group": "transti"}),
            "neighbor 10.0.0.2 group: there is no group `transti`; did you mean `transit`?",
        );
        check(
            x,
            json!({"address": "10.0.0.2", "group": "transit"}),
            "neighbor 10.0.0.2: expected `peer-as` here or in the neighbor's group",
        );
        check(
            json!([{"name": "x", "export": ["a", "c"]}]),
            json!({"address": "10.0.0.2", "peer-as": 2}),
            "group x export: there is no policy-statement `c`; there are: a, b",
        );
        // Inherited values are checked with the neighbor's own.
        check(
            json!([{"name": "x", "peer-as": 1}]),
            json!({"address": "10.0.0.2", "group": "x", "relationship": "peer"}),
            "neighbor 10.0.0.2: relationship is for external neighbors",
        );
    }
}
