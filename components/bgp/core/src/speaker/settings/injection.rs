//! The configuration of a peer whose routes come from a trace.

use super::error::{Owner, SettingsError};
use super::inheritance::{Neighbor, Statements};
use super::statements::Settings;
use crate::policy::DefaultPolicy;
use crate::speaker::config::NeighborConfig;
use alloc::string::String;
use core::net::IpAddr;
use sluice_base::Asn;

impl Settings {
    /// Returns the source of injected routes with this address, by the statements of a group. The AS is `peer_as`, or else the
    /// group's. Without a group, every route is accepted unchanged, and the AS path need not begin with the AS.
    ///
    /// # Errors
    /// There is no such group, or no AS, or statements of the group contradict each other.
    pub fn injection(
        &self,
        address: IpAddr,
        peer_as: Option<Asn>,
        group: Option<&str>,
    ) -> Result<NeighborConfig, SettingsError> {
        let owner = Owner::Neighbor(address);
        self.check_group(owner, group)?;
        let mut statements = Statements::default();
        statements.peer_as = peer_as;
        let neighbor = Neighbor { address, group: group.map(String::from), statements };
        let mut config = self.joined(&neighbor).ok_or(SettingsError::NoAs(owner))?;
        self.check_neighbor(owner, &config)?;
        if group.is_none() {
            config.default_policy = Some(DefaultPolicy::Accept);
            config.enforce_first_as = false;
        }
        // A trace has routes of both families, whatever the address of the peer.
        for family in [&mut config.ipv4_unicast, &mut config.ipv6_unicast] {
            family.enabled.get_or_insert(true);
        }
        // Nobody can be asked for routes that were not stored.
        Ok(NeighborConfig { enabled: false, keep_rejected: true, multihop: Some(u8::MAX), ..config })
    }
}
