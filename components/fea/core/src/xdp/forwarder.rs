//! The state of the fast path: members, groups and routes as the engine was sent, and the facts of the host that decide
//! whether the fast path may forward by a route.
//!
//! A route stands in the tables as its group. It stands as "to the kernel" while a foreign route of the prefix precedes it, if
//! its target is no group, and if its group was deleted. A member forwards while the interface is a port that runs and the
//! neighbor's link-layer address is known; otherwise the member's packets go to the kernel.

use super::digests::RouteDigests;
use super::foreign::{ForeignRoute, ForeignRoutes, Precedence};
use super::tables::GroupSlot;
use super::tables::MemberSlot;
use super::tables::Words;
use super::tables::{Action, Way};
use super::tables::{Tables, Target};
use crate::engine::{EngineOp, Member, Members, NextHopId, PREFERENCE, RouteTarget, Scope};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{InterfaceIndex, IpPrefix, Mac, TableId};
use smallvec::SmallVec;

/// A port: an interface on which the root program sees the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// The interface's own link-layer address.
    pub mac: Mac,
    /// The largest IP packet that the interface sends, in octets.
    pub mtu: u32,
    /// True while the interface can carry packets and nothing forbids that the fast path sends by it.
    pub sends: bool,
}

/// A change of the set of neighbors whose link-layer addresses the forwarder needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NeighborWish {
    /// The kernel is to keep the neighbor resolved.
    Watch(InterfaceIndex, IpAddr),
    /// No member needs the neighbor any more.
    Forget(InterfaceIndex, IpAddr),
}

/// A neighbor by its interface and address.
type NeighborKey = (InterfaceIndex, IpAddr);

#[derive(Clone, Debug)]
pub(super) struct HeldMember {
    pub(super) member: Member,
    slot: MemberSlot,
    groups: SmallVec<[NextHopId; 2]>,
}

#[derive(Clone, Debug)]
pub(super) struct HeldGroup {
    pub(super) members: Members,
    slot: GroupSlot,
}

/// The counts of objects, and of those that the kernel forwards for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ForwarderCounts {
    /// Routes of Sluice.
    pub routes: usize,
    /// Prefixes with foreign routes.
    pub foreign: usize,
    /// Groups.
    pub groups: usize,
    /// Members.
    pub members: usize,
    /// Members whose neighbor is not resolved.
    pub unresolved: usize,
    /// Objects for which the tables had no room.
    pub no_room: u64,
}

/// The forwarder.
#[derive(Debug)]
pub struct Forwarder<W> {
    pub(super) tables: Tables<W>,
    pub(super) members: BTreeMap<NextHopId, HeldMember>,
    pub(super) groups: BTreeMap<NextHopId, HeldGroup>,
    ports: BTreeMap<InterfaceIndex, Port>,
    /// The link-layer addresses of all neighbors: a new member may need one that the kernel knows already.
    neighbors: BTreeMap<NeighborKey, Mac>,
    /// The members that forward to each watched neighbor.
    watched: BTreeMap<NeighborKey, SmallVec<[NextHopId; 1]>>,
    wishes: Vec<NeighborWish>,
    pub(super) foreign: ForeignRoutes,
    /// Sluice's routes of the prefixes that have foreign routes. Other prefixes' routes are in the tables only.
    pub(super) shadowed: BTreeMap<IpPrefix, Target>,
    unresolved: MemberSlot,
    blackhole: MemberSlot,
    routes: usize,
    no_room: u64,
    is_complete: bool,
    pub(super) digests: RouteDigests,
}

impl<W: Words> Forwarder<W> {
    /// Makes a forwarder over tables whose words are all 0.
    pub fn new(words: W) -> Self {
        let mut tables = Tables::new(words);
        let mut constant =
            |action| tables.add_member(Way { action, ..Way::KERNEL }).unwrap_or(MemberSlot::KERNEL);
        let (unresolved, blackhole) = (constant(Action::Unresolved), constant(Action::Drop));
        Forwarder {
            tables,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            ports: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            watched: BTreeMap::new(),
            wishes: Vec::new(),
            foreign: ForeignRoutes::default(),
            shadowed: BTreeMap::new(),
            unresolved,
            blackhole,
            routes: 0,
            no_room: 0,
            is_complete: false,
            digests: RouteDigests::default(),
        }
    }

    /// Returns the tables.
    pub fn tables(&self) -> &Tables<W> {
        &self.tables
    }

    /// Returns the tables, for grace periods.
    pub fn tables_mut(&mut self) -> &mut Tables<W> {
        &mut self.tables
    }

    /// Returns true once the tables have had all routes of the authority.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes the changes of the set of watched neighbors since the last call.
    pub fn take_wishes(&mut self) -> Vec<NeighborWish> {
        core::mem::take(&mut self.wishes)
    }

    /// Returns the counts.
    pub fn counts(&self) -> ForwarderCounts {
        ForwarderCounts {
            routes: self.routes,
            foreign: self.foreign.len(),
            groups: self.groups.len(),
            members: self.members.len(),
            unresolved: self.members.values().filter(|held| held.slot == self.unresolved).count(),
            no_room: self.no_room,
        }
    }

    /// Returns the state of an interface as a port.
    pub fn port(&self, interface: InterfaceIndex) -> Option<Port> {
        self.ports.get(&interface).copied()
    }

    /// Sets the state of an interface. Without a port, or while the port does not send, packets out of the interface go to the kernel.
    pub fn set_port(&mut self, interface: InterfaceIndex, port: Option<Port>) {
        let before = self.ports.get(&interface).copied();
        match port {
            Some(port) => drop(self.ports.insert(interface, port)),
            None => drop(self.ports.remove(&interface)),
        }
        if before != port {
            let on = |held: &HeldMember| held.member.interface() == Some(interface);
            let concerned: Vec<_> =
                self.members.iter().filter(|(_, held)| on(held)).map(|(id, _)| *id).collect();
            concerned.into_iter().for_each(|id| self.resolve(id));
        }
    }

    /// Sets the link-layer address of a neighbor; `None` if the neighbor does not answer.
    pub fn set_neighbor(&mut self, interface: InterfaceIndex, address: IpAddr, mac: Option<Mac>) {
        let key = (interface, address);
        let before = match mac {
            Some(mac) => self.neighbors.insert(key, mac),
            None => self.neighbors.remove(&key),
        };
        if before != mac
            && let Some(members) = self.watched.get(&key)
        {
            members.clone().into_iter().for_each(|id| self.resolve(id));
        }
    }

    /// Replaces the addresses of all neighbors, as after lost notices. Neighbors that `neighbors` does not name do not answer.
    pub fn set_neighbors(&mut self, neighbors: &BTreeMap<(InterfaceIndex, IpAddr), Mac>) {
        let gone = self.neighbors.keys().filter(|key| !neighbors.contains_key(*key));
        let gone: Vec<_> = gone.copied().collect();
        gone.into_iter().for_each(|(interface, address)| self.set_neighbor(interface, address, None));
        neighbors.iter().for_each(|((interface, address), mac)| {
            self.set_neighbor(*interface, *address, Some(*mac));
        });
    }

    /// Returns the link-layer address of a neighbor.
    pub fn neighbor(&self, interface: InterfaceIndex, address: IpAddr) -> Option<Mac> {
        self.neighbors.get(&(interface, address)).copied()
    }

    /// Adds a foreign route; `replaces` if it takes the place of one with the same key.
    pub fn add_foreign(&mut self, route: ForeignRoute, replaces: bool) {
        self.foreign_changed(route.prefix, |foreign| foreign.add(route, replaces).into_iter().collect());
    }

    /// Removes a foreign route.
    pub fn remove_foreign(&mut self, route: ForeignRoute) {
        self.foreign_changed(route.prefix, |foreign| foreign.remove(route).into_iter().collect());
    }

    /// Replaces all foreign routes, as after lost notices.
    pub fn set_foreign(&mut self, routes: impl Iterator<Item = ForeignRoute>) {
        let before = self.foreign.clone();
        let changed = self.foreign.replace_all(routes);
        let local: Vec<_> = before.prefixes().chain(self.foreign.prefixes()).collect();
        local.into_iter().for_each(|prefix| self.note_own(prefix));
        for prefix in changed {
            let had = before.precedence(prefix).is_some();
            self.stand_again(prefix, had);
        }
    }

    fn foreign_changed(
        &mut self,
        prefix: IpPrefix,
        change: impl FnOnce(&mut ForeignRoutes) -> Vec<IpPrefix>,
    ) {
        let had = self.foreign.precedence(prefix).is_some();
        for prefix in change(&mut self.foreign) {
            self.stand_again(prefix, had);
        }
        self.note_own(prefix);
    }

    fn note_own(&mut self, prefix: IpPrefix) {
        let is_own = self.foreign.is_local(prefix);
        self.tables.set_own(prefix, is_own);
    }

    /// Writes a prefix whose foreign routes changed. `had`: the prefix had foreign routes before.
    fn stand_again(&mut self, prefix: IpPrefix, had: bool) {
        let ours = if had { self.shadowed.remove(&prefix) } else { self.tables.route(prefix) };
        let precedence = self.foreign.precedence(prefix);
        if let (Some(_), Some(target)) = (precedence, ours) {
            self.shadowed.insert(prefix, target);
        }
        self.write(prefix, precedence, ours);
    }

    /// Writes a prefix as its foreign routes and Sluice's route want.
    fn write(&mut self, prefix: IpPrefix, precedence: Option<Precedence>, ours: Option<Target>) {
        let target = match (precedence, ours) {
            (Some(Precedence::Before), _) | (Some(Precedence::After), None) => Some(Target::Kernel),
            (_, ours) => ours,
        };
        match target {
            Some(target) => self.no_room += u64::from(self.tables.set_route(prefix, target).is_err()),
            None => self.tables.remove_route(prefix),
        }
    }

    /// Returns Sluice's route of a prefix.
    pub(super) fn own_route(&self, prefix: IpPrefix, precedence: Option<Precedence>) -> Option<Target> {
        match precedence {
            Some(_) => self.shadowed.get(&prefix).copied(),
            None => self.tables.route(prefix),
        }
    }

    /// Carries an operation out. Operations that do not concern packets of the main table are ignored.
    pub fn apply(&mut self, op: &EngineOp) {
        match op {
            EngineOp::SetMember { id, member } => self.set_member(*id, *member),
            EngineOp::SetGroup { id, members, .. } => self.set_group(*id, members),
            EngineOp::DeleteNextHop { id } => self.delete_next_hop(*id),
            EngineOp::SetRoute { table: TableId::MAIN, prefix, target, scope, .. } => {
                if *scope != Scope::Beside {
                    // The kernel took Sluice's route: it replaced another program's of the same preference, if there was one.
                    let prefix = *prefix;
                    self.remove_foreign(ForeignRoute { prefix, table: TableId::MAIN, metric: PREFERENCE });
                }
                self.set_route(*prefix, Some(self.target(*target)));
            }
            EngineOp::DeleteRoute { table: TableId::MAIN, prefix, .. } => self.set_route(*prefix, None),
            _ => {}
        }
    }

    /// Notes that the authority's routes have all been written.
    pub fn replayed(&mut self) {
        self.is_complete = true;
    }

    pub(super) fn target(&self, target: RouteTarget) -> Target {
        let slot = match target {
            RouteTarget::Group(id) => self.groups.get(&id).map(|group| group.slot),
            RouteTarget::Unreachable | RouteTarget::Other => None,
        };
        slot.map_or(Target::Kernel, Target::Group)
    }

    pub(super) fn set_route(&mut self, prefix: IpPrefix, new: Option<Target>) {
        let precedence = self.foreign.precedence(prefix);
        let old = self.own_route(prefix, precedence);
        if old == new {
            return;
        }
        self.routes = self.routes + usize::from(new.is_some()) - usize::from(old.is_some());
        self.digests.note(prefix, old, new);
        if precedence.is_some() {
            match new {
                Some(target) => drop(self.shadowed.insert(prefix, target)),
                None => drop(self.shadowed.remove(&prefix)),
            }
        }
        self.write(prefix, precedence, new);
    }

    fn set_member(&mut self, id: NextHopId, member: Member) {
        if let Some(held) = self.members.get(&id) {
            if held.member == member {
                return;
            }
            self.leave_neighbor(id, held.member);
        }
        if let Member::Via { gateway, interface } = member {
            let members = self.watched.entry((interface, gateway)).or_default();
            if members.is_empty() {
                self.wishes.push(NeighborWish::Watch(interface, gateway));
            }
            members.push(id);
        }
        match self.members.get_mut(&id) {
            Some(held) => held.member = member,
            None => {
                let held = HeldMember { member, slot: MemberSlot::KERNEL, groups: SmallVec::new() };
                self.members.insert(id, held);
            }
        }
        self.resolve(id);
    }

    fn leave_neighbor(&mut self, id: NextHopId, member: Member) {
        let Member::Via { gateway, interface } = member else { return };
        let Some(members) = self.watched.get_mut(&(interface, gateway)) else { return };
        members.retain(|user| *user != id);
        if members.is_empty() {
            self.watched.remove(&(interface, gateway));
            self.wishes.push(NeighborWish::Forget(interface, gateway));
        }
    }

    /// Returns the slot of a member's way as the host's facts are now. The caller frees the slot.
    fn slot(&mut self, member: Member) -> MemberSlot {
        let (gateway, interface) = match member {
            Member::Via { gateway, interface } => (gateway, interface),
            Member::Direct { .. } => return MemberSlot::KERNEL,
            Member::Blackhole { .. } => return self.blackhole,
        };
        let Some(port) = self.ports.get(&interface).filter(|port| port.sends) else {
            return MemberSlot::KERNEL;
        };
        let Some(mac) = self.neighbor(interface, gateway) else {
            return self.unresolved;
        };
        let way = Way {
            action: Action::Forward,
            interface: Some(interface),
            mtu: port.mtu,
            destination: mac,
            source: port.mac,
        };
        self.tables.add_member(way).unwrap_or_else(|_| {
            self.no_room += 1;
            MemberSlot::KERNEL
        })
    }

    /// Gives a member a new slot for its way, and the groups of the member that slot.
    fn resolve(&mut self, id: NextHopId) {
        let Some(member) = self.members.get(&id).map(|held| held.member) else { return };
        let new = self.slot(member);
        let Some(held) = self.members.get_mut(&id) else { return };
        let old = core::mem::replace(&mut held.slot, new);
        if old == new {
            return;
        }
        for group in held.groups.clone() {
            self.write_group(group);
        }
        self.free_member(old);
    }

    fn free_member(&mut self, slot: MemberSlot) {
        if slot != MemberSlot::KERNEL && slot != self.unresolved && slot != self.blackhole {
            self.tables.remove_member(slot);
        }
    }

    fn set_group(&mut self, id: NextHopId, members: &Members) {
        if let Some(group) = self.groups.get_mut(&id) {
            let old = core::mem::replace(&mut group.members, members.clone());
            for (member, _) in old {
                self.leave_member(member, id);
            }
        } else {
            match self.tables.add_group(&[]) {
                Ok(slot) => {
                    self.digests.name(slot, id);
                    self.groups.insert(id, HeldGroup { members: members.clone(), slot });
                }
                // Routes of a group that is not held stand as "to the kernel".
                Err(_) => self.no_room += 1,
            }
        }
        for (member, _) in members {
            if let Some(held) = self.members.get_mut(member)
                && !held.groups.contains(&id)
            {
                held.groups.push(id);
            }
        }
        self.write_group(id);
    }

    fn leave_member(&mut self, member: NextHopId, group: NextHopId) {
        if let Some(held) = self.members.get_mut(&member) {
            held.groups.retain(|user| *user != group);
        }
    }

    fn write_group(&mut self, id: NextHopId) {
        let Some(group) = self.groups.get(&id) else { return };
        let slot_of =
            |member: &NextHopId| self.members.get(member).map_or(MemberSlot::KERNEL, |held| held.slot);
        let ways: SmallVec<[(MemberSlot, u8); 4]> =
            group.members.iter().map(|(member, weight)| (slot_of(member), *weight)).collect();
        let slot = group.slot;
        self.no_room += u64::from(self.tables.set_group(slot, &ways).is_err());
    }

    pub(super) fn delete_next_hop(&mut self, id: NextHopId) {
        if let Some(held) = self.members.remove(&id) {
            self.leave_neighbor(id, held.member);
            for id_of_group in held.groups {
                if let Some(group) = self.groups.get_mut(&id_of_group) {
                    group.members.retain(|(member, _)| *member != id);
                }
                self.write_group(id_of_group);
            }
            self.free_member(held.slot);
        } else if let Some(group) = self.groups.remove(&id) {
            for (member, _) in group.members {
                self.leave_member(member, id);
            }
            // Packets of routes that still lead to the group go to the kernel.
            self.tables.remove_group(group.slot);
        }
    }
}
