//! The statements of BGP's configuration, without defaults of neighbors.

use super::inheritance::{Group, Neighbor};
use crate::bmp::BmpSettings;
use crate::mrt::MrtSettings;
use crate::policy::{DefaultPolicy, Policies};
use crate::shard::{DampingRules, DecisionRules};
use crate::speaker::config::{AggregateConfig, AsSpan, Redistribute};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use serde::{Deserialize, Deserializer};
use sluice_base::{AnyPrefix, Asn, IpPrefix, PrefixError, RouterId};

/// The configuration of a BGP process. The settings are read from the configuration tree by field names. The schema has validated
/// each value; [`Settings::check`] validates dependent values.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    /// The router's AS.
    pub local_as: Asn,
    /// The router's BGP Identifier.
    #[serde(deserialize_with = "router_id")]
    pub router_id: RouterId,
    /// The number of threads for routes; `None` for as many as the machine has processors.
    pub threads: Option<u16>,
    /// The way in which tasks find their threads.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// True if neighbors are notified of the coming withdrawal of announced routes (RFC 8326).
    #[serde(default)]
    pub(super) graceful_shutdown: bool,
    /// The restart of this router.
    #[serde(default)]
    pub(super) graceful_restart: RestartOfRouter,
    /// The rules of the decision.
    #[serde(flatten)]
    pub decision: DecisionRules,
    /// The cluster of this route reflector; `None` for the BGP Identifier.
    #[serde(default)]
    pub(super) cluster_id: Option<Ipv4Addr>,
    /// True if routes of clients are reflected to clients.
    #[serde(default)]
    pub(super) client_to_client_reflection: Option<bool>,
    /// The decision on routes without a deciding policy, for neighbors without their own default policy.
    #[serde(default)]
    pub(super) default_policy: Option<DefaultPolicy>,
    /// The numbers of the family of XIDs on the wire.
    #[serde(default)]
    pub(super) xid_family: XidFamily,
    /// Originated prefixes.
    #[serde(default, deserialize_with = "networks")]
    pub(super) network: Vec<AnyPrefix>,
    /// Prefixes originated while the RIB has a route of an origin other than BGP.
    #[serde(default, deserialize_with = "subnets")]
    pub(super) network_while_present: Vec<IpPrefix>,
    /// The names of the policies for the networks.
    #[serde(default)]
    pub(super) network_policy: Vec<String>,
    /// The shared subtree `policy`.
    #[serde(default)]
    pub(super) policy: Policies,
    /// Redistributed origins of routes at the RIB.
    #[serde(default)]
    pub redistribute: Vec<Redistribute>,
    /// Originated aggregates.
    #[serde(default)]
    pub(super) aggregate: Vec<AggregateConfig>,
    /// The names of the policies for the aggregates.
    #[serde(default)]
    pub(super) aggregate_policy: Vec<String>,
    /// Monitoring stations.
    #[serde(default)]
    pub bmp: BmpSettings,
    /// Traces in files.
    #[serde(default)]
    pub mrt: MrtSettings,
    /// The parameters of flap damping.
    #[serde(default)]
    pub(super) damping: DampingRules,
    #[serde(default)]
    pub(super) group: Vec<Group>,
    #[serde(default)]
    pub(super) neighbor: Vec<Neighbor>,
    /// The listen ranges.
    #[serde(default)]
    pub(super) listen_range: Vec<RangeStatement>,
}

/// The statement `graceful-restart` of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct RestartOfRouter {
    /// The seconds for which neighbors keep this router's routes.
    pub restart_time: Option<u16>,
    /// The seconds for which neighbors keep them after that time.
    pub long_lived_time: u32,
}

/// The statement `xid-family`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct XidFamily {
    /// Address family identifier.
    pub afi: Option<u16>,
    /// Subsequent address family identifier.
    pub safi: Option<u8>,
}

/// The way in which tasks find their threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Each task stays on its thread.
    Peer,
    /// An idle thread takes tasks that are ready.
    #[default]
    Dynamic,
}

pub(super) fn router_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RouterId, D::Error> {
    Ok(RouterId(Ipv4Addr::deserialize(deserializer)?.to_bits()))
}

/// Reads prefixes of all families, and clears host bits of IP prefixes.
pub(super) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AnyPrefix>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let read = |text: &String| match IpPrefix::parse_subnet(text) {
        Ok(prefix) => Ok(prefix.into()),
        Err(_) => text.parse().map_err(|error| wrong(text, error)),
    };
    texts.iter().map(read).collect()
}

fn wrong<E: serde::de::Error>(text: &str, error: PrefixError) -> E {
    E::custom(format_args!("`{text}` is not a prefix: {error}"))
}

/// Reads IP prefixes and clears their host bits.
fn subnets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpPrefix>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| IpPrefix::parse_subnet(text).map_err(|error| wrong(text, error))).collect()
}

/// The neighbors of a range if nothing is configured.
const DEFAULT_LIMIT: u16 = 100;

/// The statement `listen-range` of `bgp.yang`, as written.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RangeStatement {
    /// The addresses; host bits are clear.
    #[serde(deserialize_with = "crate::speaker::config::aggregate::subnet")]
    pub prefix: IpPrefix,
    /// The name of the group that is the template.
    pub group: String,
    /// The allowed AS numbers; empty for the group's AS.
    #[serde(default)]
    pub peer_as: Vec<AsSpan>,
    /// The most neighbors.
    #[serde(default = "default_limit")]
    pub limit: u16,
    /// The seconds for which a neighbor without a connection stays.
    #[serde(default)]
    pub idle_time: u16,
}

const fn default_limit() -> u16 {
    DEFAULT_LIMIT
}
