//! The checks of statements that the schema cannot make.

use super::error::{Direction, Owner, SettingsError};
use super::statements::Settings;
use crate::family::FamilyIndex;
use crate::policy::BindError;
use crate::shard::DampingRules;
use crate::speaker::config::NeighborConfig;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{AnyPrefix, IpPrefix};
use sluice_policy::program::NextHop;

/// Returns true if a neighbor is the router itself, as far as visible in the configuration.
fn is_of_this_router(neighbor: &NeighborConfig) -> bool {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    loopback.contains(&neighbor.address) || neighbor.local_address == Some(neighbor.address)
}

impl Settings {
    /// Checks dependent values.
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

    pub(crate) fn check_group(&self, owner: Owner, name: Option<&str>) -> Result<(), SettingsError> {
        let Some(name) = name else { return Ok(()) };
        let names = self.group.iter().map(|group| &*group.name);
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        Err(SettingsError::NoGroup(owner, sluice_policy::unknown("group", name, names)))
    }

    pub(crate) fn check_neighbor(
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
