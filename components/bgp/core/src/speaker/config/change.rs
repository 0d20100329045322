//! The consequences of a changed configuration: ended sessions, and routes decided on again.

use super::bindings::Bindings;
use super::listen_range::ListenRange;
use super::neighbor::NeighborConfig;
use super::router::Config;
use crate::family::ByFamily;
use crate::policy::Policies;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::Asn;
use sluice_policy::program::Fact;

/// Whom a change of configuration touches, by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Sessions that end, and come up again if still wanted.
    pub reset: Vec<IpAddr>,
    /// Neighbors with routes to advertise anew.
    pub refiltered: Vec<IpAddr>,
    /// Neighbors to ask for a route refresh (RFC 2918), because rejected routes are needed and not stored.
    pub refreshed: Vec<IpAddr>,
    /// Neighbors that come.
    pub started: Vec<IpAddr>,
    /// Neighbors that go.
    pub stopped: Vec<IpAddr>,
}

/// The effect of a change on the session of a neighbor that stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reconfigured {
    /// No effect.
    Kept,
    /// The session ends, and a new one begins.
    Reset,
    /// The session stays, and the neighbor is sent its routes anew.
    Refiltered,
    /// The session ends, no longer wanted.
    Stopped,
    /// The session becomes wanted.
    Started,
}

impl NeighborConfig {
    /// Returns true if a router of `local_as` advertises different routes to a neighbor by `new` than by `self`. An external
    /// neighbor not on a link of the router always receives the router as the next hop.
    fn tells_otherwise(&self, new: &NeighborConfig, local_as: Asn) -> bool {
        let has_choice = new.peer_as == local_as || new.multihop.is_none();
        let is_internal = new.peer_as == local_as;
        let by_kind = |config: &NeighborConfig| match is_internal {
            true => (config.client_to_client_reflection, false),
            false => (config.transparent, config.as_override),
        };
        self.graceful_shutdown != new.graceful_shutdown
            || by_kind(self) != by_kind(new)
            || self.send_community != new.send_community
            || (has_choice && self.next_hop_self != new.next_hop_self)
    }

    /// Returns the effect of a change from `self` to `new` on the session of a router of `local_as`.
    pub(crate) fn reconfigured(&self, new: &NeighborConfig, local_as: Asn) -> Reconfigured {
        match (self.enabled, new.enabled) {
            (true, true) if self.needs_reset(new) => Reconfigured::Reset,
            (true, true) if self.tells_otherwise(new, local_as) => Reconfigured::Refiltered,
            (true, false) => Reconfigured::Stopped,
            (false, true) => Reconfigured::Started,
            _ => Reconfigured::Kept,
        }
    }
}

impl Config {
    fn by_address(&self) -> BTreeMap<IpAddr, NeighborConfig> {
        self.neighbors.iter().map(|n| (n.address, n.clone())).collect()
    }

    /// Returns the neighbors of `new`, with the dynamic neighbors of `self` that the ranges of `new` still take.
    pub(crate) fn followed_by(&self, new: &Config) -> BTreeMap<IpAddr, NeighborConfig> {
        let mut after = new.by_address();
        for known in self.neighbors.iter().filter(|known| known.range.is_some()) {
            let range = ListenRange::longest(&new.ranges, known.address);
            if let Some(config) = range.and_then(|range| range.adopt(known)) {
                after.entry(known.address).or_insert(config);
            }
        }
        after
    }

    /// Whom going from `self` to `new` touches, in a router of `local_as`.
    pub fn touched(&self, new: &Config, local_as: Asn) -> Touched {
        let (before, after) = (self.by_address(), self.followed_by(new));
        let mut touched = Touched::default();
        for (address, neighbor) in &after {
            let change = before.get(address).map_or(PolicyChange::default(), |old| {
                PolicyChange::between((old, &self.policies), (neighbor, &new.policies), local_as)
            });
            let reconfigured = before.get(address).map(|old| match old.reconfigured(neighbor, local_as) {
                Reconfigured::Kept if neighbor.enabled && change.is_any() => Reconfigured::Refiltered,
                reconfigured => reconfigured,
            });
            let stays = matches!(reconfigured, Some(Reconfigured::Kept | Reconfigured::Refiltered));
            let needs_refresh =
                |old: &&NeighborConfig| !old.keep_rejected && (change.import || neighbor.keep_rejected);
            if stays && neighbor.enabled && before.get(address).filter(needs_refresh).is_some() {
                touched.refreshed.push(*address);
            }
            match reconfigured {
                None if !neighbor.enabled => {}
                None | Some(Reconfigured::Started) => touched.started.push(*address),
                Some(Reconfigured::Reset | Reconfigured::Stopped) => touched.reset.push(*address),
                Some(Reconfigured::Refiltered) => touched.refiltered.push(*address),
                Some(Reconfigured::Kept) => {}
            }
        }
        touched.stopped.extend(before.keys().filter(|address| !after.contains_key(address)));
        touched
    }
}

impl NeighborConfig {
    /// Returns true if the session must end for the change from `self` to `other`. Descriptions, properties of the next
    /// connection, properties of sent routes, and the wish for a session do not need the end.
    fn needs_reset(&self, other: &NeighborConfig) -> bool {
        let alike = NeighborConfig {
            range: other.range,
            enabled: other.enabled,
            passive: other.passive,
            send_hold_time: other.send_hold_time,
            keepalive_time: other.keepalive_time,
            connect_retry_time: other.connect_retry_time,
            delay_open_time: other.delay_open_time,
            description: other.description.clone(),
            next_hop_self: other.next_hop_self,
            client_to_client_reflection: other.client_to_client_reflection,
            transparent: other.transparent,
            as_override: other.as_override,
            graceful_shutdown: other.graceful_shutdown,
            group: other.group.clone(),
            send_community: other.send_community,
            import: other.import.clone(),
            export: other.export.clone(),
            default_originate: other.default_originate.clone(),
            keep_rejected: other.keep_rejected,
            add_path: self.add_path.with_choice_of(&other.add_path),
            advertisement_interval: other.advertisement_interval,
            // Another list is sent in the same session, a first one only in the next.
            prefix_filter_send: match &self.prefix_filter_send {
                Some(_) if other.prefix_filter_send.is_some() => other.prefix_filter_send.clone(),
                own => own.clone(),
            },
            damping: other.damping,
            graceful_restart: other.graceful_restart,
            restart_time: other.restart_time,
            long_lived_time: other.long_lived_time,
            default_policy: other.default_policy,
            ipv4_unicast: self.ipv4_unicast.with_bounds_of(other.ipv4_unicast),
            ipv6_unicast: self.ipv6_unicast.with_bounds_of(other.ipv6_unicast),
            xid: self.xid.with_bounds_of(other.xid),
            ..self.clone()
        };
        alike != *other
    }
}

/// The directions in which policies of a neighbor decide otherwise after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PolicyChange {
    /// On the neighbor's routes.
    pub import: bool,
    /// On routes to the neighbor.
    pub export: bool,
}

impl PolicyChange {
    /// Compares the policies of a neighbor under `old` and under `new`.
    pub fn between(
        (old, old_policies): (&NeighborConfig, &Policies),
        (new, new_policies): (&NeighborConfig, &Policies),
        local_as: Asn,
    ) -> Self {
        let has_none = |config: &NeighborConfig| {
            config.policy_names().all(Vec::is_empty) && config.default_originate.is_none()
        };
        let default = |config: &NeighborConfig| config.default_policy(local_as);
        if has_none(old) && has_none(new) {
            let is_other = default(old) != default(new);
            let is_server = old.transparent != new.transparent && new.peer_as != local_as;
            return PolicyChange { import: is_other || is_server, export: is_other };
        }
        // Facts are not known here: policies differ if they do where no fact holds, or where all do.
        let names = [(old, old_policies), (new, new_policies)];
        let all = names.into_iter().flat_map(|(config, policies)| {
            config.policy_names().flat_map(|names| policies.facts(names).cloned())
        });
        let all: BTreeSet<Fact> = all.collect();
        let bind = |config: &NeighborConfig, policies: &Policies, facts: &BTreeSet<Fact>| {
            let mut bindings = Bindings::new(policies.clone(), facts.clone());
            let import = bindings.import(config, local_as, None).policies;
            let export = ByFamily::from_fn(|family| {
                let (export, default) =
                    (bindings.export(config, local_as, family), bindings.default_route(config, family));
                (export, default, bindings.further(config, family))
            });
            (import, export)
        };
        let between = |facts: &BTreeSet<Fact>| {
            let (old, new) = (bind(old, old_policies, facts), bind(new, new_policies, facts));
            PolicyChange { import: old.0 != new.0, export: old.1 != new.1 }
        };
        let without = between(&BTreeSet::new());
        if all.is_empty() {
            return without;
        }
        let with = between(&all);
        PolicyChange { import: without.import || with.import, export: without.export || with.export }
    }

    /// Returns true if a direction changes.
    pub const fn is_any(self) -> bool {
        self.import || self.export
    }
}
