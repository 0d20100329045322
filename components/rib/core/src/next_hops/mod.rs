//! Next-hop resolution: from an announced gateway down to an interface. Event driven: a change of a route re-resolves exactly the groups
//! that looked up a gateway inside the route's prefix.

pub mod answer;
pub(crate) mod reach;
pub mod share;

use self::reach::Walk;
use crate::decide::candidate::Candidate;
use crate::decide::table::Table;
use crate::entry::group::Group;
use crate::entry::looked_up::LookedUp;
use crate::entry::origin::OriginId;
use crate::interfaces::Interfaces;
use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use sluice_base::{Address, FamilyId, Forwarding, GroupId, NextHop, Provenance};
use smallvec::SmallVec;

impl Table {
    /// Returns the routes that may reach a gateway, the preferred one first: the most specific prefix, then the order of the decision.
    pub(crate) fn routes_to(&self, gateway: Address) -> SmallVec<[Candidate; 8]> {
        let resolving = self.policies.resolving();
        let family = self.any_family(gateway.family());
        family.map(|family| family.routes_to(&self.shared, resolving, gateway)).unwrap_or_default()
    }

    /// The next hops of a group without gateways that the origin declared unusable. If no next hop would be left,
    /// every next hop: the routes change when the origin changes them.
    pub(crate) fn usable<'h>(
        &self,
        owner: Option<OriginId>,
        hops: &'h [NextHop<Address>],
    ) -> Cow<'h, [NextHop<Address>]> {
        let Some(owner) = owner.filter(|_| !self.unusable.is_empty()) else { return Cow::Borrowed(hops) };
        let is_usable = |hop: &&NextHop<Address>| {
            hop.gateway.is_none_or(|gateway| !self.unusable.contains(&(owner, gateway)))
        };
        let usable: Vec<NextHop<Address>> = hops.iter().filter(is_usable).copied().collect();
        if usable.is_empty() { Cow::Borrowed(hops) } else { Cow::Owned(usable) }
    }

    fn resolve(
        &self,
        interfaces: &Interfaces,
        group: &Group,
    ) -> (Option<Forwarding<Address>>, Vec<LookedUp>) {
        match &group.announced {
            Forwarding::NextHops(hops) => {
                let hops = self.usable(group.owner, hops);
                Walk::new(self, interfaces, group.family).resolve(&hops)
            }
            // The engines of IP know the host's own addresses from the kernel.
            Forwarding::Local if group.family.ip().is_some() => (None, Vec::new()),
            ended => (Some(ended.clone()), Vec::new()),
        }
    }

    /// Resolves a group again.
    pub(crate) fn resolve_group(&mut self, interfaces: &Interfaces, id: GroupId) -> Resolved {
        let (resolved, depends) = self.resolve(interfaces, self.shared.groups.group(id));
        let is_resolved = resolved.is_some();
        self.gateways.note(id, &depends);
        let (before, before_depends) = self.shared.groups.set_resolution(id, resolved, depends);
        let group = self.shared.groups.group(id);
        let is_gone = |known: &&LookedUp| !group.depends.iter().any(|now| now.gateway == known.gateway);
        let gone: Vec<LookedUp> = before_depends.iter().filter(is_gone).copied().collect();
        let moved = |known: &&LookedUp| before_depends.iter().all(|before| before != *known);
        let result = Resolved {
            is_changed: before != group.resolved,
            flips: before.is_some() != is_resolved,
            moved: group.depends.iter().filter(moved).map(|known| known.gateway).collect(),
        };
        self.gateways.forget(id, &gone);
        result
    }

    /// Follows changes of routes: invalidated answers, groups with changed next hops, routes that must be decided again.
    pub(crate) fn settle(&mut self, interfaces: &Interfaces, provenance: Provenance) {
        let affected = self.take_affected();
        self.resolve_groups(interfaces, affected, provenance);
        let (families, shared) = self.families();
        families.for_each(|family| family.flush_selected(shared));
        self.forget_gone();
    }

    /// Forgets the gateways of removed groups, before their numbers can be reused.
    pub(crate) fn forget_gone(&mut self) {
        for (group, gateways) in core::mem::take(&mut self.shared.gone) {
            self.gateways.forget(group, &gateways);
        }
    }

    /// Resolves groups again, and decides their routes again.
    pub(crate) fn resolve_groups(
        &mut self,
        interfaces: &Interfaces,
        groups: impl IntoIterator<Item = GroupId>,
        provenance: Provenance,
    ) {
        let mut flipped: SmallVec<[FamilyId; 2]> = SmallVec::new();
        let mut moved: BTreeSet<Address> = BTreeSet::new();
        for id in groups {
            let result = self.resolve_group(interfaces, id);
            moved.extend(result.moved);
            if !result.is_changed {
                continue;
            }
            let of = self.shared.groups.group(id).family;
            if result.flips && !flipped.contains(&of) {
                flipped.push(of);
            }
            self.families().0.for_each(|family| family.forget_group_answers(id));
        }
        let (families, shared) = self.families();
        for family in families {
            if flipped.contains(&family.id()) {
                family.redecide_internal(shared, provenance);
                family.start_pass();
            }
            moved.iter().for_each(|gateway| family.redecide_covering(shared, *gateway, provenance));
        }
    }

    /// Resolves all groups again, and drops the answers about next hops: other routes may resolve next hops now.
    pub(crate) fn resolve_all(&mut self, interfaces: &Interfaces, provenance: Provenance) {
        self.families().0.for_each(|family| family.forget_next_hop_answers());
        let all: Vec<_> = self.shared.groups.iter().map(|(id, _)| id).collect();
        self.resolve_groups(interfaces, all, provenance);
    }

    /// Takes the changed routes; returns the groups that looked up gateways inside their prefixes.
    fn take_affected(&mut self) -> BTreeSet<GroupId> {
        self.forget_gone();
        let mut changed = Vec::new();
        self.families().0.for_each(|family| family.take_changed(&mut changed));
        self.families().0.for_each(|family| family.invalidate_tunnels(&changed));
        changed.into_iter().flat_map(|prefix| self.gateways.concerned(prefix)).collect()
    }
}

/// The outcome of a group's new resolution.
pub(crate) struct Resolved {
    /// True if the group's next hops changed.
    is_changed: bool,
    /// True if the group was or became unresolved.
    flips: bool,
    /// Gateways that another prefix reaches than before: routes to them may be allowed or forbidden now.
    moved: SmallVec<[Address; 1]>,
}
