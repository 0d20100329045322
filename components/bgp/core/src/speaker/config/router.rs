//! The configuration of a router's BGP as a whole.

use super::aggregate::AggregateConfig;
use super::listen_range::ListenRange;
use super::neighbor::NeighborConfig;
use super::redistribute::Redistribute;
use crate::policy::Policies;
use crate::shard::DampingRules;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, IpPrefix};

/// Neighbors, listen ranges, networks and policies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Config {
    /// The neighbors; each address once. An operator's configuration has no neighbors of listen ranges.
    pub neighbors: Vec<NeighborConfig>,
    /// The listen ranges; each prefix once.
    #[serde(default)]
    pub ranges: Vec<ListenRange>,
    /// Originated prefixes.
    pub networks: Vec<AnyPrefix>,
    /// Prefixes originated while the RIB has a route of an origin other than BGP.
    #[serde(default)]
    pub networks_while_present: Vec<IpPrefix>,
    /// Policies that neighbors name.
    #[serde(default)]
    pub policies: Policies,
    /// The names of the policies for the networks, in order.
    #[serde(default)]
    pub network_policy: Vec<String>,
    /// Redistributed origins of routes at the RIB.
    #[serde(default)]
    pub redistribute: Vec<Redistribute>,
    /// Aggregates, originated while a route contributes; each prefix once.
    #[serde(default)]
    pub aggregates: Vec<AggregateConfig>,
    /// The names of the policies for the aggregates, in order.
    #[serde(default)]
    pub aggregate_policy: Vec<String>,
    /// The parameters of flap damping.
    #[serde(default)]
    pub damping: DampingRules,
}
