//! BGP's whole configuration, as `bgp.yang` says it.

use super::aggregation::AggregateConfig;
use super::config::{Config, Identity, NeighborConfig};
use super::inheritance::{Group, Neighbor};
use super::listen_range::RangeStatement;
use super::redistribution::Redistribute;
use crate::bmp::BmpSettings;
use crate::family::{FamilyCode, FamilyCodes, FamilyIndex};
use crate::mrt::MrtSettings;
use crate::policy::{BindError, DefaultPolicy, Policies};
use crate::shard::{DampingRules, DecisionRules};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Deserializer};
use sluice_base::{AnyPrefix, Asn, Instant, IpPrefix, PrefixError, RouterId};
use sluice_policy::program::NextHop;
use sluice_policy::{NameError, PolicyError};

/// The configuration of a BGP process. It is read from the configuration tree by field names; the schema has validated the values one
/// by one, [`Settings::check`] validates those that depend on each other.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    /// The router's AS.
    pub local_as: Asn,
    /// The router's BGP Identifier.
    #[serde(deserialize_with = "router_id")]
    pub router_id: RouterId,
    /// The number of threads that carry routes; `None` for as many as the machine has processors.
    pub threads: Option<u16>,
    /// The way in which tasks find their threads.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// True if all neighbors are notified that announced routes are about to be withdrawn (RFC 8326).
    #[serde(default)]
    graceful_shutdown: bool,
    /// The restart of this router.
    #[serde(default)]
    graceful_restart: RestartOfRouter,
    /// The rules of the decision.
    #[serde(flatten)]
    pub decision: DecisionRules,
    /// The cluster of this route reflector; `None` for the BGP Identifier.
    #[serde(default)]
    cluster_id: Option<Ipv4Addr>,
    /// True if routes of clients are reflected to clients.
    #[serde(default)]
    client_to_client_reflection: Option<bool>,
    /// The decision on routes on which no policy decides, for neighbors without one of their own.
    #[serde(default)]
    default_policy: Option<DefaultPolicy>,
    /// The numbers of the family of XIDs on the wire.
    #[serde(default)]
    xid_family: XidFamily,
    /// Prefixes that this router originates.
    #[serde(default, deserialize_with = "networks")]
    network: Vec<AnyPrefix>,
    /// Prefixes that this router originates as long as the RIB has a route of another origin than BGP.
    #[serde(default, deserialize_with = "subnets")]
    network_while_present: Vec<IpPrefix>,
    /// The names of the policies for the networks.
    #[serde(default)]
    network_policy: Vec<String>,
    /// The shared subtree `policy`.
    #[serde(default)]
    policy: Policies,
    /// Origins of routes at the RIB that this router originates in BGP.
    #[serde(default)]
    pub redistribute: Vec<Redistribute>,
    /// Aggregates that this router originates.
    #[serde(default)]
    aggregate: Vec<AggregateConfig>,
    /// The names of the policies for the aggregates.
    #[serde(default)]
    aggregate_policy: Vec<String>,
    /// Monitoring stations.
    #[serde(default)]
    pub bmp: BmpSettings,
    /// Traces in files.
    #[serde(default)]
    pub mrt: MrtSettings,
    /// The parameters of flap damping.
    #[serde(default)]
    damping: DampingRules,
    #[serde(default)]
    group: Vec<Group>,
    #[serde(default)]
    pub(super) neighbor: Vec<Neighbor>,
    /// The listen ranges.
    #[serde(default)]
    pub(super) listen_range: Vec<RangeStatement>,
}

/// The statement `graceful-restart` of the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct RestartOfRouter {
    /// The seconds for which neighbors keep this router's routes.
    restart_time: Option<u16>,
    /// The seconds for which neighbors keep them after that time.
    long_lived_time: u32,
}

/// The statement `xid-family`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
struct XidFamily {
    /// Address family identifier.
    afi: Option<u16>,
    /// Subsequent address family identifier.
    safi: Option<u8>,
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

/// Returns true if a neighbor is this router itself, as far as the configuration says it.
fn is_of_this_router(neighbor: &NeighborConfig) -> bool {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    loopback.contains(&neighbor.address) || neighbor.local_address == Some(neighbor.address)
}

/// The statement that has a neighbor's statements, or gives them to neighbors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A neighbor.
    Neighbor(IpAddr),
    /// A listen range.
    Range(IpPrefix),
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Neighbor(address) => write!(f, "neighbor {address}"),
            Owner::Range(prefix) => write!(f, "listen-range {prefix}"),
        }
    }
}

/// Two values of a configuration that contradict each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingsError {
    /// The BGP Identifier is 0.0.0.0 (RFC 6286, section 2.1).
    NoRouterId,
    /// The local address of a neighbor is of the other address family.
    LocalAddress(Owner),
    /// A neighbor is this router itself.
    Itself(Owner),
    /// An internal neighbor has a statement for external ones, or an external one a statement for internal ones: the statement, and
    /// true if it is for external ones.
    Side(Owner, &'static str, bool),
    /// The cluster is 0.0.0.0.
    NoCluster,
    /// A neighbor offers no address family.
    NoFamily(Owner),
    /// A neighbor exchanges XIDs, and no XID of this router is configured as the next hop.
    NoXidNextHop(Owner),
    /// The SendHoldTime of a neighbor is not above its hold time (RFC 9687, section 6), in seconds.
    SendHoldTime(Owner, u16),
    /// The AS that a neighbor knows this router by is the neighbor's own, or the router's.
    LocalAs(Owner, Asn),
    /// A neighbor has no AS, of its own or of its group.
    NoAs(Owner),
    /// A neighbor names a group that does not exist; the text names those that do.
    NoGroup(Owner, String),
    /// A prefix is to be originated in any case, and under a condition.
    TwoNetworks(IpPrefix),
    /// A neighbor or a group is to be sent a prefix list that does not exist; the text names those that do.
    NoList(String, String),
    /// Two listen ranges are of this prefix.
    TwoRanges(IpPrefix),
    /// A listen range allows this router's AS among other AS numbers.
    MixedAs(IpPrefix, Asn),
    /// A neighbor or a listen range has no password, and is inside a listen range that has one.
    NoPassword(Owner, IpPrefix),
    /// The reuse threshold of flap damping is not below the suppress threshold. The text is the statement with the parameters.
    ReuseThreshold(String, DampingRules),
    /// Penalties cannot exceed the suppress threshold of flap damping: their ceiling, which is given, is no higher. The text is the
    /// statement with the parameters.
    DampingCeiling(String, DampingRules, u32),
    /// Two aggregates are of this prefix.
    TwoAggregates(IpPrefix),
    /// The local address of a monitoring station is of the other address family.
    StationAddress(String),
    /// A policy is not valid.
    Policy(PolicyError),
    /// A statement names a policy that does not exist, or that only policies can use: the statement, and the reason.
    NoPolicy(String, NameError),
    /// A policy for routes from a neighbor makes this router the next hop: the statement, and the policy.
    OwnNextHop(String, String),
}

/// The direction of routes between this router and a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the neighbor.
    Import,
    /// To the neighbor.
    Export,
}

impl Direction {
    /// Returns the name of the statement with the policies.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Import => "import",
            Direction::Export => "export",
        }
    }
}

impl Display for SettingsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::NoRouterId => f.write_str("router-id: 0.0.0.0 identifies no router"),
            SettingsError::LocalAddress(owner) => {
                write!(f, "{owner}: local-address is of the other family")
            }
            SettingsError::Itself(owner) => {
                write!(f, "{owner}: expected the address of another router: this router has it itself")
            }
            SettingsError::Side(owner, statement, is_for_external) => {
                let side = if *is_for_external { "external" } else { "internal" };
                write!(f, "{owner}: {statement} is for {side} neighbors")
            }
            SettingsError::NoCluster => f.write_str("cluster-id: 0.0.0.0 identifies no cluster"),
            SettingsError::NoFamily(owner) => write!(f, "{owner}: no family is enabled"),
            SettingsError::NoXidNextHop(owner) => write!(
                f,
                "{owner}: xid is enabled without a next hop; set `xid next-hop XID` here or in the neighbor's group, an XID of this router"
            ),
            SettingsError::SendHoldTime(owner, hold_time) => {
                write!(f, "{owner}: send-hold-time must be more than hold-time ({hold_time})")
            }
            SettingsError::TwoNetworks(prefix) => write!(
                f,
                "network-while-present: `{prefix}` is in `network` too, which originates it in any case; delete one of the two"
            ),
            SettingsError::NoList(owner, reason) => write!(f, "{owner} prefix-filter-send: {reason}"),
            SettingsError::TwoRanges(prefix) => {
                write!(
                    f,
                    "listen-range {prefix}: two statements are about this prefix; delete one of the two"
                )
            }
            SettingsError::MixedAs(prefix, asn) => write!(
                f,
                "listen-range {prefix}: peer-as has this router's AS {asn} and others; internal neighbors need a range of their own, with `peer-as {asn}` alone"
            ),
            SettingsError::NoPassword(owner, range) => write!(
                f,
                "{owner}: expected `password` here or in the group, because the kernel asks for the password of the listen range {range}, which has the address too"
            ),
            SettingsError::ReuseThreshold(statement, DampingRules { reuse, suppress, .. }) => {
                write!(f, "{statement} reuse: {reuse} must be less than suppress ({suppress})")
            }
            SettingsError::DampingCeiling(statement, DampingRules { suppress, .. }, ceiling) => write!(
                f,
                "{statement} suppress: no penalty exceeds {ceiling}, so that none exceeds {suppress}; the ceiling follows from reuse, half-life and max-suppress-time"
            ),
            SettingsError::TwoAggregates(prefix) => {
                write!(f, "aggregate {prefix}: two statements are about this prefix; delete one of the two")
            }
            SettingsError::StationAddress(name) => {
                write!(f, "bmp station {name}: local-address is of the other family")
            }
            SettingsError::Policy(error) => error.fmt(f),
            SettingsError::LocalAs(owner, asn) => write!(
                f,
                "{owner}: local-as number {asn} must be neither this router's AS nor the neighbor's"
            ),
            SettingsError::NoAs(owner) => {
                write!(f, "{owner}: expected `peer-as` here or in the neighbor's group")
            }
            SettingsError::NoGroup(owner, reason) => write!(f, "{owner} group: {reason}"),
            SettingsError::NoPolicy(statement, reason) => write!(f, "{statement}: {reason}"),
            SettingsError::OwnNextHop(statement, policy) => write!(
                f,
                "{statement}: `{policy}` has the action `next-hop self`, which is for routes to a neighbor: no route leads from this router to itself; use `{policy}` in `export`, or `next-hop-self` of the neighbors that are told the routes"
            ),
        }
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// Checks values that depend on each other.
    ///
    /// # Errors
    /// Two values contradict each other.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.router_id.0 == 0 {
            return Err(SettingsError::NoRouterId);
        }
        if self.cluster_id.is_some_and(|id| id.is_unspecified()) {
            return Err(SettingsError::NoCluster);
        }
        let is_network = |prefix: &&IpPrefix| self.network.contains(&AnyPrefix::from(**prefix));
        if let Some(twice) = self.network_while_present.iter().find(is_network) {
            return Err(SettingsError::TwoNetworks(*twice));
        }
        let mut aggregates: Vec<IpPrefix> = self.aggregate.iter().map(|entry| entry.prefix).collect();
        aggregates.sort_unstable();
        if let Some([twice, _]) = aggregates.array_windows().find(|[one, other]| one == other) {
            return Err(SettingsError::TwoAggregates(*twice));
        }
        let is_mixed = |local: IpAddr, remote: IpAddr| local.is_ipv4() != remote.is_ipv4();
        let mut stations = self.bmp.station.iter();
        if let Some(station) = stations.find(|s| s.local_address.is_some_and(|l| is_mixed(l, s.address))) {
            return Err(SettingsError::StationAddress(station.name.clone()));
        }
        check_damping("damping", self.damping)?;
        for damping in &self.policy.source().damping {
            check_damping(&format!("policy damping {}", damping.name), DampingRules::by(damping))?;
        }
        self.check_policies()?;
        self.neighbor.iter().try_for_each(|neighbor| {
            let owner = Owner::Neighbor(neighbor.address);
            self.check_group(owner, neighbor.group.as_deref())?;
            let config = self.joined(neighbor).ok_or(SettingsError::NoAs(owner))?;
            if is_of_this_router(&config) {
                return Err(SettingsError::Itself(owner));
            }
            self.check_neighbor(owner, &config)
        })?;
        self.check_ranges()
    }

    /// Checks the names of policies in all statements.
    fn check_policies(&self) -> Result<(), SettingsError> {
        self.check_names("network-policy", &self.network_policy)?;
        self.check_names("aggregate-policy", &self.aggregate_policy)?;
        for entry in &self.aggregate {
            self.check_names(&format!("aggregate {} contributors", entry.prefix), &entry.contributors)?;
        }
        for entry in &self.redistribute {
            self.check_names(&format!("redistribute {} policy", entry.origin), &entry.policy)?;
        }
        let groups = self.group.iter().map(|group| (format!("group {}", group.name), &group.statements));
        let neighbors = self.neighbor.iter();
        let neighbors =
            neighbors.map(|neighbor| (format!("neighbor {}", neighbor.address), &neighbor.statements));
        for (owner, statements) in groups.chain(neighbors) {
            for direction in [Direction::Import, Direction::Export] {
                let statement = format!("{owner} {}", direction.name());
                let names = statements.policies(direction);
                self.check_names(&statement, names)?;
                if let Some(name) =
                    names.iter().find(|name| direction == Direction::Import && self.points_here(name))
                {
                    return Err(SettingsError::OwnNextHop(statement, name.clone()));
                }
            }
            if let Some(list) = statements.prefix_filter_send()
                && !self.policy.source().prefix_list.iter().any(|known| known.name == list)
            {
                let names = self.policy.source().prefix_list.iter().map(|known| &*known.name);
                return Err(SettingsError::NoList(owner, sluice_policy::unknown("prefix-list", list, names)));
            }
            self.check_names(&format!("{owner} add-path policy"), statements.add_path_policy())?;
            if let Some(originate) = statements.default_originate() {
                self.check_names(&format!("{owner} default-originate policy"), &originate.policy)?;
            }
        }
        Ok(())
    }

    /// Returns true if a policy has the action `next-hop self`.
    fn points_here(&self, name: &str) -> bool {
        let program = self.policy.program(name);
        program.is_some_and(|program| program.next_hops().any(|hop| hop == NextHop::Own))
    }

    fn check_names(&self, statement: &str, names: &[String]) -> Result<(), SettingsError> {
        names.iter().try_for_each(|name| {
            self.policy.check(name).map_err(|error| match error {
                BindError::Policy(error) => SettingsError::Policy(error),
                BindError::Name(reason) => SettingsError::NoPolicy(statement.into(), reason),
            })
        })
    }

    pub(super) fn check_group(&self, owner: Owner, name: Option<&str>) -> Result<(), SettingsError> {
        let Some(name) = name else { return Ok(()) };
        let names = self.group.iter().map(|group| &*group.name);
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        Err(SettingsError::NoGroup(owner, sluice_policy::unknown("group", name, names)))
    }

    /// Returns a neighbor's configuration, with the statements of the neighbor's group; `None` for a neighbor without an AS.
    pub(super) fn joined(&self, neighbor: &Neighbor) -> Option<NeighborConfig> {
        let mut statements = neighbor.statements.clone();
        let name = neighbor.group.as_ref();
        if let Some(group) = self.group.iter().find(|group| Some(&group.name) == name) {
            statements = statements.inherit(&group.statements);
        }
        let config = statements.config(neighbor.address, neighbor.group.clone())?;
        Some(NeighborConfig {
            graceful_shutdown: self.graceful_shutdown,
            restart_time: self.graceful_restart.restart_time,
            long_lived_time: self.graceful_restart.long_lived_time,
            // Sessions with external neighbors do not end when the cluster changes.
            cluster_id: self
                .cluster_id
                .map(|id| RouterId(id.to_bits()))
                .filter(|_| config.peer_as == self.local_as),
            client_to_client_reflection: self.client_to_client_reflection.unwrap_or(true),
            default_policy: config.default_policy.or(self.default_policy),
            ..config
        })
    }

    pub(super) fn check_neighbor(
        &self,
        owner: Owner,
        neighbor: &NeighborConfig,
    ) -> Result<(), SettingsError> {
        let is_ipv4 = neighbor.address.is_ipv4();
        if neighbor.local_address.is_some_and(|local| local.is_ipv4() != is_ipv4) {
            return Err(SettingsError::LocalAddress(owner));
        }
        let is_internal = neighbor.peer_as == self.local_as;
        let sides = [
            ("route-reflector-client", neighbor.route_reflector_client, false),
            ("transparent", neighbor.transparent, true),
            ("as-override", neighbor.as_override, true),
            ("damping", neighbor.damping, true),
            ("local-as", neighbor.local_as.is_some(), true),
            // RFC 9234, section 3.
            ("relationship", neighbor.relationship.is_some(), true),
            ("aspa-procedure", neighbor.aspa_procedure.is_some(), true),
        ];
        for (statement, is_set, is_for_external) in sides {
            if is_set && is_internal == is_for_external {
                return Err(SettingsError::Side(owner, statement, is_for_external));
            }
        }
        let other_as = neighbor.local_as.map(|other| other.number);
        if let Some(asn) = other_as.filter(|asn| [self.local_as, neighbor.peer_as].contains(asn)) {
            return Err(SettingsError::LocalAs(owner, asn));
        }
        if neighbor.families().is_empty() {
            return Err(SettingsError::NoFamily(owner));
        }
        if neighbor.families().has(FamilyIndex::XID) && neighbor.xid.next_hop.is_none() {
            return Err(SettingsError::NoXidNextHop(owner));
        }
        match neighbor.send_hold_time {
            Some(time) if time != 0 && time <= neighbor.hold_time => {
                Err(SettingsError::SendHoldTime(owner, neighbor.hold_time))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if neighbors are told that this router may restart.
    pub const fn announces_restarts(&self) -> bool {
        self.graceful_restart.restart_time.is_some()
    }

    /// Returns the families on the wire.
    pub fn codes(&self) -> FamilyCodes {
        let default = FamilyCodes::DEFAULT.of(FamilyIndex::XID);
        let XidFamily { afi, safi } = self.xid_family;
        let code = FamilyCode { afi: afi.unwrap_or(default.afi), safi: safi.unwrap_or(default.safi) };
        FamilyCodes::DEFAULT.with_xid(code)
    }

    /// Returns the identity of a process with these settings; the other parts are the process's own.
    pub fn identity(&self, seed: u64, tables: u16, source: u16) -> Identity {
        Identity {
            local_as: self.local_as,
            router_id: self.router_id,
            seed,
            tables,
            source,
            codes: self.codes(),
            decision: self.decision,
            started: Instant::ZERO,
            is_restarted: false,
        }
    }

    /// Returns the neighbors and networks.
    pub fn config(&self) -> Config {
        Config {
            neighbors: self.neighbor.iter().filter_map(|neighbor| self.joined(neighbor)).collect(),
            ranges: self.listen_range.iter().filter_map(|range| self.listen_range(range)).collect(),
            networks: self.network.clone(),
            networks_while_present: self.network_while_present.clone(),
            policies: self.policy.clone(),
            network_policy: self.network_policy.clone(),
            redistribute: self.redistribute.clone(),
            aggregates: self.aggregate.clone(),
            aggregate_policy: self.aggregate_policy.clone(),
            damping: self.damping,
        }
    }
}

fn router_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RouterId, D::Error> {
    Ok(RouterId(Ipv4Addr::deserialize(deserializer)?.to_bits()))
}

/// Checks parameters of flap damping; `statement` has them.
fn check_damping(statement: &str, rules: DampingRules) -> Result<(), SettingsError> {
    if rules.reuse >= rules.suppress {
        return Err(SettingsError::ReuseThreshold(statement.into(), rules));
    }
    let ceiling = rules.ceiling();
    if ceiling <= rules.suppress {
        return Err(SettingsError::DampingCeiling(statement.into(), rules, ceiling));
    }
    Ok(())
}

/// Reads prefixes of all families, and clears host bits of IP prefixes.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AnyPrefix>, D::Error> {
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
