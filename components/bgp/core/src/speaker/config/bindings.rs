//! The policies of neighbors, bound and interned: neighbors with equal policies share one value.

use super::neighbor::NeighborConfig;
use crate::family::{ByFamily, FamilyIndex};
use crate::policy::{BoundPolicy, DefaultPolicy, Ingress, Neighbor, Policies};
use crate::shard::{DefaultRoute, ExportView};
use crate::table::{ImportPolicies, PeerImport};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use sluice_base::Asn;
use sluice_policy::program::Fact;

/// Values in use, with equal values stored once.
#[derive(Debug)]
struct Interned<T>(Vec<Weak<T>>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned(Vec::new())
    }
}

impl<T: PartialEq> Interned<T> {
    /// Returns the known value that is equal to `value`, or else `value`.
    fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        let known = self.0.iter().filter_map(Weak::upgrade).find(|known| *known == value);
        known.unwrap_or_else(|| {
            self.0.retain(|known| known.strong_count() > 0);
            self.0.push(Arc::downgrade(&value));
            value
        })
    }
}

/// The configured policies, the facts for their conditions, and the bound policies.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    pub policies: Policies,
    pub facts: BTreeSet<Fact>,
    bound: Interned<BoundPolicy>,
    views: Interned<ExportView>,
}

impl Bindings {
    /// Binds policies under facts.
    pub fn new(policies: Policies, facts: BTreeSet<Fact>) -> Self {
        Bindings { policies, facts, ..Bindings::default() }
    }

    /// Returns the import of routes of a neighbor of a router of `local_as`. `prepended_as` is put before the AS paths of an external one.
    pub fn import(
        &mut self,
        config: &NeighborConfig,
        local_as: Asn,
        prepended_as: Option<Asn>,
    ) -> PeerImport {
        let default = config.default_policy(local_as);
        let is_external = config.peer_as != local_as;
        let role = config.relationship;
        let ingress =
            is_external.then(|| Ingress::new(config.peer_as, role, prepended_as, config.transparent));
        let policies: ImportPolicies =
            ByFamily::from_fn(|family| self.bind(config, &config.import, default, family, ingress));
        // Rejected routes of another epoch of payloads may be accepted in the next one, and the neighbor is not asked for them each time.
        let is_validated = policies
            .iter()
            .any(|(_, policy)| policy.as_ref().is_some_and(|policy| policy.asks_for_validation()));
        let is_damped = config.damping && config.peer_as != local_as;
        PeerImport { policies, keeps_rejected: config.keep_rejected || is_validated, is_damped }
    }

    /// Returns the policy for routes to a neighbor of a router of `local_as`.
    pub fn export(
        &mut self,
        config: &NeighborConfig,
        local_as: Asn,
        family: FamilyIndex,
    ) -> Option<Arc<BoundPolicy>> {
        self.bind(config, &config.export, config.default_policy(local_as), family, None)
    }

    /// Returns the policies for routes of a source of the router's own: a route on which none decides is accepted.
    pub fn source(&mut self, names: &[String], local_as: Asn) -> ImportPolicies {
        ByFamily::from_fn(|family| {
            let neighbor = Neighbor {
                address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                asn: local_as,
                group: None,
                family: usize::from(family) as u32,
                facts: &self.facts,
            };
            let bound = BoundPolicy::bind(&self.policies, names, DefaultPolicy::Accept, &neighbor, None)?;
            Some(self.bound.intern(bound))
        })
    }

    /// Returns the router's own default route for a neighbor; `None` if the neighbor receives the best path's default route, like
    /// any route.
    pub fn default_route(&mut self, config: &NeighborConfig, family: FamilyIndex) -> Option<DefaultRoute> {
        let originate = config.default_originate.as_ref()?;
        let condition = originate.while_present.map(Fact::RoutePresent);
        if condition.is_some_and(|fact| !self.facts.contains(&fact)) {
            return None;
        }
        let policy = self.bind(config, &originate.policy, DefaultPolicy::Accept, family, None);
        Some(DefaultRoute { policy })
    }

    /// Returns the policy for the choice of further paths for a neighbor (ADD-PATH); `None` if every path is chosen.
    pub fn further(&mut self, config: &NeighborConfig, family: FamilyIndex) -> Option<Arc<BoundPolicy>> {
        let names = &config.add_path.policy;
        if names.is_empty() { None } else { self.bind(config, names, DefaultPolicy::Reject, family, None) }
    }

    /// Returns the view that is equal to `view`.
    pub fn view(&mut self, view: ExportView) -> Arc<ExportView> {
        self.views.intern(Arc::new(view))
    }

    fn bind(
        &mut self,
        config: &NeighborConfig,
        names: &[String],
        default: DefaultPolicy,
        family: FamilyIndex,
        ingress: Option<Ingress>,
    ) -> Option<Arc<BoundPolicy>> {
        let neighbor = Neighbor {
            address: config.address,
            asn: config.peer_as,
            group: config.group.as_deref(),
            family: usize::from(family) as u32,
            facts: &self.facts,
        };
        let bound = BoundPolicy::bind(&self.policies, names, default, &neighbor, ingress)?;
        Some(self.bound.intern(bound))
    }
}
