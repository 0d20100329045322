//! Next-hop resolution: from an announced gateway down to an interface, through internal routes (the ext-int stage's other
//! half). Event driven: a change of an internal route re-resolves exactly the groups that looked at a gateway inside it.

use crate::interfaces::Interfaces;
use crate::origin::OriginId;
use crate::set::SetId;
use crate::table::Table;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{Family, Forwarding, GroupId, IpPrefix, NextHop, Prefix, Provenance};
use smallvec::SmallVec;

/// How many routes may lead through each other before they count as a loop.
const MAX_DEPTH: usize = 8;
/// How often one event may change the resolution before the table is called unstable.
const MAX_ROUNDS: usize = 64;

/// Which groups looked at which gateway.
#[derive(Default)]
pub struct Gateways {
    users: BTreeMap<IpAddr, BTreeSet<GroupId>>,
}

impl Gateways {
    fn note(&mut self, group: GroupId, gateways: &[IpAddr]) {
        for gateway in gateways {
            self.users.entry(*gateway).or_default().insert(group);
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId, gateways: &[IpAddr]) {
        for gateway in gateways {
            if let Some(users) = self.users.get_mut(gateway) {
                users.remove(&group);
                if users.is_empty() {
                    self.users.remove(gateway);
                }
            }
        }
    }

    fn inside(&self, prefix: IpPrefix) -> impl Iterator<Item = GroupId> {
        let (first, last) = bounds(prefix);
        self.users.range(first..=last).flat_map(|(_, groups)| groups.iter().copied())
    }
}

/// Returns the first and the last address of a prefix.
pub(crate) fn bounds(prefix: IpPrefix) -> (IpAddr, IpAddr) {
    match prefix {
        IpPrefix::V4(p) => {
            let (bits, len) = p.to_parts();
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            (Ipv4Addr::from_bits(bits).into(), Ipv4Addr::from_bits(bits | host).into())
        }
        IpPrefix::V6(p) => {
            let (bits, len) = p.to_parts();
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            (Ipv6Addr::from_bits(bits).into(), Ipv6Addr::from_bits(bits | host).into())
        }
    }
}

/// A walk from one group's next hops down to interfaces.
struct Walk<'a> {
    table: &'a Table,
    interfaces: &'a Interfaces,
    found: SmallVec<[NextHop; 4]>,
    /// Gateways on the way to where the walk is now: a route that leads back to one of them resolves nothing.
    path: SmallVec<[IpAddr; MAX_DEPTH]>,
    depends: Vec<IpAddr>,
}

impl Walk<'_> {
    fn hop(&mut self, hop: &NextHop) {
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
                            self.found.push(NextHop {
                                gateway: Some(gateway),
                                interface: Some(interface),
                                weight: hop.weight,
                            });
                        }
                    }
                    _ => self.hop(&NextHop { weight: hop.weight, ..*through }),
                }
            }
            break;
        }
        self.path.pop();
    }
}

impl Table {
    /// The internal routes that cover an address, the most specific first.
    fn internal_routes_to(&self, addr: IpAddr) -> SmallVec<[(SetId, OriginId); 4]> {
        match addr {
            IpAddr::V4(a) => {
                self.v4.internal_covering(V4Addr(a)).into_iter().map(|(_, p)| (p.set, p.origin)).collect()
            }
            IpAddr::V6(a) => {
                self.v6.internal_covering(V6Addr(a)).into_iter().map(|(_, p)| (p.set, p.origin)).collect()
            }
        }
    }

    fn resolve(&self, interfaces: &Interfaces, announced: &Forwarding) -> (Option<Forwarding>, Vec<IpAddr>) {
        let mut walk = Walk {
            table: self,
            interfaces,
            found: SmallVec::new(),
            path: SmallVec::new(),
            depends: Vec::new(),
        };
        match announced {
            Forwarding::NextHops(hops) => {
                for hop in hops {
                    walk.hop(hop);
                }
                (Forwarding::many(walk.found), walk.depends)
            }
            dropped => (Some(dropped.clone()), Vec::new()),
        }
    }

    /// Resolves a group anew. `Some(true)`: it was or became unresolved, so that routes must be decided anew; `Some(false)`: it
    /// leads elsewhere; `None`: as before.
    pub(crate) fn resolve_group(&mut self, interfaces: &Interfaces, id: GroupId) -> Option<bool> {
        let (resolved, depends) = self.resolve(interfaces, &self.shared.groups.group(id).announced);
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
    pub(crate) fn settle(&mut self, interfaces: &Interfaces, provenance: Provenance) -> Option<IpAddr> {
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
        self.v4.flush_trunk(&mut self.shared);
        self.v6.flush_trunk(&mut self.shared);
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
        let mut flipped = [false; 2];
        for id in groups {
            let Some(flip) = self.resolve_group(interfaces, id) else { continue };
            let family = self.shared.groups.group(id).family;
            flipped[usize::from(family == Family::Ipv6)] |= flip;
            self.v4.forget_group_answers(id);
            self.v6.forget_group_answers(id);
        }
        if flipped[0] {
            self.v4.redecide_internal(&mut self.shared, provenance);
            self.v4.start_pass();
        }
        if flipped[1] {
            self.v6.redecide_internal(&mut self.shared, provenance);
            self.v6.start_pass();
        }
    }

    /// Takes the changes of internal routes; returns the groups that looked at gateways inside them.
    fn take_affected(&mut self) -> BTreeSet<GroupId> {
        let mut affected = BTreeSet::new();
        self.forget_gone();
        for prefix in self.v4.downstream.internal_changed.drain(..) {
            self.v4.interests_internal.invalidate(prefix, &mut self.v4.told);
            affected.extend(self.gateways.inside(prefix.into()));
        }
        for prefix in self.v6.downstream.internal_changed.drain(..) {
            self.v6.interests_internal.invalidate(prefix, &mut self.v6.told);
            affected.extend(self.gateways.inside(prefix.into()));
        }
        affected
    }
}
