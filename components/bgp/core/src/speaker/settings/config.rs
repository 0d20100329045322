//! The configuration that follows from the statements.

use super::inheritance::Neighbor;
use super::statements::{Settings, XidFamily};
use crate::family::{FamilyCode, FamilyCodes, FamilyIndex};
use crate::speaker::config::{Config, Identity, NeighborConfig};
use sluice_base::{Instant, RouterId};

impl Settings {
    /// Returns a neighbor's configuration, with the statements of the neighbor's group; `None` for a neighbor without an AS.
    pub(crate) fn joined(&self, neighbor: &Neighbor) -> Option<NeighborConfig> {
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

    /// Returns true if neighbors are notified of graceful restart (RFC 4724).
    pub const fn announces_restarts(&self) -> bool {
        self.graceful_restart.restart_time.is_some()
    }

    /// Returns true if neighbors are notified of a restart: the RIB has kept routes of the previous process.
    pub const fn is_restarted(&self, kept_routes: u32) -> bool {
        self.announces_restarts() && kept_routes > 0
    }

    /// Returns the families on the wire.
    pub fn codes(&self) -> FamilyCodes {
        let default = FamilyCodes::DEFAULT.of(FamilyIndex::XID);
        let XidFamily { afi, safi } = self.xid_family;
        let code = FamilyCode { afi: afi.unwrap_or(default.afi), safi: safi.unwrap_or(default.safi) };
        FamilyCodes::DEFAULT.with_xid(code)
    }

    /// Returns the identity of a process with the settings; the arguments are the process's own parts.
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
