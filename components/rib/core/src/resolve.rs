//! Next-hop resolution: from an announced gateway down to an interface, through internal routes (the ext-int stage's other
//! half). Event driven: a change of an internal route re-resolves exactly the groups that looked at a gateway inside it.

use crate::interfaces::Interfaces;
use crate::origin::OriginId;
use crate::set::SetId;
use crate::table::Table;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use sluice_base::{Address, AnyPrefix, FamilyId, Forwarding, GroupId, NextHop, Provenance};
use smallvec::SmallVec;

/// How many routes may lead through each other before they count as a loop.
const MAX_DEPTH: usize = 8;
/// How often one event may change the resolution before the table is called unstable.
const MAX_ROUNDS: usize = 64;

/// Which groups looked at which gateway.
#[derive(Default)]
pub struct Gateways {
    users: BTreeMap<Address, BTreeSet<GroupId>>,
}

impl Gateways {
    fn note(&mut self, group: GroupId, gateways: &[Address]) {
        for gateway in gateways {
            self.users.entry(*gateway).or_default().insert(group);
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId, gateways: &[Address]) {
        for gateway in gateways {
            if let Some(users) = self.users.get_mut(gateway) {
                users.remove(&group);
                if users.is_empty() {
                    self.users.remove(gateway);
                }
            }
        }
    }

    fn inside(&self, prefix: AnyPrefix) -> impl Iterator<Item = GroupId> {
        self.users.range(prefix.addr()..=prefix.last_addr()).flat_map(|(_, groups)| groups.iter().copied())
    }
}

/// A walk from one group's next hops down to interfaces.
struct Walk<'a> {
    table: &'a Table,
    interfaces: &'a Interfaces,
    /// The family of the group's routes.
    family: FamilyId,
    found: SmallVec<[NextHop<Address>; 4]>,
    /// Gateways on the way to where the walk is now: a route that leads back to one of them resolves nothing.
    path: SmallVec<[Address; MAX_DEPTH]>,
    depends: Vec<Address>,
}

impl Walk<'_> {
    fn hop(&mut self, hop: &NextHop<Address>) {
        if let Some(interface) = hop.interface {
            if self.interfaces.is_running(interface) {
                self.found.push(*hop);
            }
            return;
        }
        let Some(gateway) = hop.gateway else { return };
        if !self.depends.contains(&gateway) {
            self.depends.push(gateway);
        }
        if self.path.len() == MAX_DEPTH || self.table.is_no_gateway(gateway) {
            return;
        }
        // The forwarding engine of IP knows no other gateways.
        let is_identifier = matches!(gateway, Address::Identifier(_));
        if is_identifier && self.family.ip().is_some() {
            return;
        }
        let before = self.found.len();
        self.path.push(gateway);
        for (set, origin) in self.table.internal_routes_to(gateway) {
            let forwarding = &self.table.shared.sets.slot(set).set.forwarding;
            if forwarding.next_hops().iter().any(|h| h.gateway.is_some_and(|g| self.path.contains(&g))) {
                continue; // this route needs the gateway itself; a less specific one may not
            }
            let connected = self.table.shared.origin(origin).connected;
            for through in forwarding.next_hops() {
                match through.interface {
                    Some(interface) if connected || through.gateway.is_none() => {
                        if self.interfaces.is_running(interface) {
                            let (gateway, interface) = (Some(gateway), Some(interface));
                            self.found.push(NextHop { gateway, interface, ..*hop });
                        }
                    }
                    _ => self.through(hop, through),
                }
            }
            break;
        }
        self.path.pop();
        // How an identifier is reached is found packet by packet; here it only counts that it can be reached.
        if is_identifier && self.found.len() > before {
            self.found.truncate(before);
            self.found.push(*hop);
        }
    }

    /// Follows a next hop of the route by which `hop` is reached. A backup stays one, whatever it leads through.
    fn through(&mut self, hop: &NextHop<Address>, through: &NextHop<Address>) {
        // The outer header goes around what `through` sends; one header is all that a next hop has room for.
        let encapsulation = match (hop.encapsulation, through.encapsulation) {
            (Some(_), Some(_)) => return,
            (outer, inner) => outer.or(inner),
        };
        let is_backup = hop.is_backup || through.is_backup;
        self.hop(&NextHop { is_backup, encapsulation, weight: hop.weight, ..*through });
    }
}

impl Table {
    /// The internal routes that cover an address, the most specific first.
    fn internal_routes_to(&self, addr: Address) -> SmallVec<[(SetId, OriginId); 4]> {
        self.any_family(addr.family()).map(|family| family.internal_routes_to(addr)).unwrap_or_default()
    }

    fn resolve(
        &self,
        interfaces: &Interfaces,
        family: FamilyId,
        announced: &Forwarding<Address>,
    ) -> (Option<Forwarding<Address>>, Vec<Address>) {
        let mut walk = Walk {
            table: self,
            interfaces,
            family,
            found: SmallVec::new(),
            path: SmallVec::new(),
            depends: Vec::new(),
        };
        match announced {
            Forwarding::NextHops(hops) => {
                for hop in hops {
                    walk.hop(hop);
                }
                // Where no primary next hop is usable, the backups are used.
                if walk.found.iter().all(|hop| hop.is_backup) {
                    walk.found.iter_mut().for_each(|hop| hop.is_backup = false);
                }
                (Forwarding::many(walk.found), walk.depends)
            }
            dropped => (Some(dropped.clone()), Vec::new()),
        }
    }

    /// Resolves a group anew. `Some(true)`: it was or became unresolved, so that routes must be decided anew; `Some(false)`: it
    /// leads elsewhere; `None`: as before.
    pub(crate) fn resolve_group(&mut self, interfaces: &Interfaces, id: GroupId) -> Option<bool> {
        let group = self.shared.groups.group(id);
        let (resolved, depends) = self.resolve(interfaces, group.family, &group.announced);
        let before_depends = self.shared.groups.group(id).depends.clone();
        self.gateways.forget(id, &before_depends);
        self.gateways.note(id, &depends);
        let is_now = resolved.is_some();
        let before = self.shared.groups.set_resolution(id, resolved, depends);
        if before == self.shared.groups.group(id).resolved {
            return None;
        }
        Some(before.is_some() != is_now)
    }

    /// Follows changes of internal routes until nothing changes any more: answers that no longer hold, groups that lead
    /// elsewhere, routes that must be decided anew. Returns a gateway if that never ends.
    pub(crate) fn settle(&mut self, interfaces: &Interfaces, provenance: Provenance) -> Option<Address> {
        let mut unstable = None;
        for round in 0.. {
            let affected = self.take_affected();
            if affected.is_empty() {
                break;
            }
            if round == MAX_ROUNDS {
                unstable = self.shared.groups.group(*affected.iter().next()?).depends.first().copied();
                break;
            }
            self.resolve_groups(interfaces, affected, provenance);
        }
        let (families, shared) = self.families();
        families.for_each(|family| family.flush_selected(shared));
        self.forget_gone();
        unstable
    }

    /// Forgets what groups that are gone looked at; before their numbers can be given to others.
    pub(crate) fn forget_gone(&mut self) {
        for (group, gateways) in core::mem::take(&mut self.shared.gone) {
            self.gateways.forget(group, &gateways);
        }
    }

    /// Resolves groups anew and decides anew what depends on them.
    pub(crate) fn resolve_groups(
        &mut self,
        interfaces: &Interfaces,
        groups: impl IntoIterator<Item = GroupId>,
        provenance: Provenance,
    ) {
        let mut flipped: SmallVec<[FamilyId; 2]> = SmallVec::new();
        for id in groups {
            let Some(flip) = self.resolve_group(interfaces, id) else { continue };
            let of = self.shared.groups.group(id).family;
            if flip && !flipped.contains(&of) {
                flipped.push(of);
            }
            self.families().0.for_each(|family| family.forget_group_answers(id));
        }
        flipped.sort_unstable();
        let (families, shared) = self.families();
        for family in families.filter(|family| flipped.contains(&family.id())) {
            family.redecide_internal(shared, provenance);
            family.start_pass();
        }
    }

    /// Takes the changes of internal routes; returns the groups that looked at gateways inside them.
    fn take_affected(&mut self) -> BTreeSet<GroupId> {
        self.forget_gone();
        let mut changed = Vec::new();
        self.families().0.for_each(|family| family.take_internal_changed(&mut changed));
        changed.into_iter().flat_map(|prefix| self.gateways.inside(prefix)).collect()
    }
}
