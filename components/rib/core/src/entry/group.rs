//! Next-hop groups: the next hops of a route, resolved down to interfaces, once for the routes that share them.

use super::looked_up::LookedUp;
use super::origin::OriginId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{Address, AnyPrefix, FamilyId, Forwarding, GroupId, Prefix};

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The family of the group's routes: the engine receives a group with the routes of a single family.
    pub family: FamilyId,
    /// The only origin with routes of the group, if that origin can declare gateways unusable.
    pub owner: Option<OriginId>,
    /// The next hops as announced.
    pub announced: Forwarding<Address>,
    /// The next hops resolved to interfaces; `None` while the group is unresolved.
    pub resolved: Option<Forwarding<Address>>,
    /// Every gateway that the resolution looked up.
    pub depends: Vec<LookedUp>,
    /// Number of sets with the group.
    sets: u32,
    /// Number of routes in the forwarding engine with the group.
    fib_routes: u32,
    /// True if the engine has the group's latest resolution.
    is_sent: bool,
    /// True if the engine has the group.
    known: bool,
}

impl Group {
    /// Returns true if an external origin's route of `prefix` with these next hops would be the most specific route to one of its own
    /// gateways (RFC 4271, section 9.1.2.1).
    pub(crate) fn leads_to_itself<P: Prefix>(&self, prefix: P) -> bool {
        let is_captured = |gateway: Address| {
            P::Addr::try_from(gateway).is_ok_and(|addr| prefix.contains(addr))
                && self
                    .depends
                    .iter()
                    .any(|known| known.gateway == gateway && known.is_captured_by(AnyPrefix::of(prefix)))
        };
        let mut hops = self.announced.next_hops().iter().filter(|hop| hop.interface.is_none());
        self.owner.is_some() && hops.any(|hop| hop.gateway.is_some_and(is_captured))
    }
}

/// The key of a group: the family of the routes, their origin if they have a single one, and their next hops as
/// announced.
type Key = (FamilyId, Option<OriginId>, Forwarding<Address>);

/// The groups of a table, by number.
#[derive(Default)]
pub struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<u32>,
    index: BTreeMap<Key, GroupId>,
    /// Groups that the engine has in an older form, or must remove.
    changed: BTreeMap<FamilyId, Vec<GroupId>>,
}

impl Groups {
    /// Returns the group of a number in use.
    pub fn group(&self, id: GroupId) -> &Group {
        self.slots[id.0 as usize].as_ref().expect("a group lives as long as a set or an engine route uses it")
    }

    fn group_mut(&mut self, id: GroupId) -> &mut Group {
        self.slots[id.0 as usize].as_mut().expect("a group lives as long as a set or an engine route uses it")
    }

    /// Returns true if a group is resolved.
    pub fn is_resolved(&self, id: GroupId) -> bool {
        self.group(id).resolved.is_some()
    }

    /// Returns the group for announced next hops, with an additional set. `true` if the group is new and must be
    /// resolved.
    pub fn acquire(
        &mut self,
        family: FamilyId,
        owner: Option<OriginId>,
        announced: &Forwarding<Address>,
    ) -> (GroupId, bool) {
        let key = (family, owner, announced.clone());
        if let Some(id) = self.index.get(&key) {
            let id = *id;
            self.group_mut(id).sets += 1;
            return (id, false);
        }
        let group = Group {
            family,
            owner,
            announced: announced.clone(),
            resolved: None,
            depends: Vec::new(),
            sets: 1,
            fib_routes: 0,
            is_sent: false,
            known: false,
        };
        let id = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(group);
                GroupId(slot)
            }
            None => {
                self.slots.push(Some(group));
                GroupId(u32::try_from(self.slots.len() - 1).expect("fewer groups than routes"))
            }
        };
        self.index.insert(key, id);
        (id, true)
    }

    /// Removes a set from the group's users. Returns the gateways that the group depended on if the group was removed.
    pub fn release(&mut self, id: GroupId) -> Option<Vec<LookedUp>> {
        let group = self.group_mut(id);
        group.sets -= 1;
        self.collect(id)
    }

    /// Sets a group's resolution; returns the old resolution, and the gateways of the old one.
    pub(crate) fn set_resolution(
        &mut self,
        id: GroupId,
        resolved: Option<Forwarding<Address>>,
        depends: Vec<LookedUp>,
    ) -> (Option<Forwarding<Address>>, Vec<LookedUp>) {
        let group = self.group_mut(id);
        let before_depends = core::mem::replace(&mut group.depends, depends);
        let changed = group.resolved != resolved;
        let before = core::mem::replace(&mut group.resolved, resolved);
        // The engine keeps the old form while there is no new one: the routes are being taken away.
        if changed && group.resolved.is_some() && group.is_sent {
            group.is_sent = false;
            let family = group.family;
            self.changed.entry(family).or_default().push(id);
        }
        (before, before_depends)
    }

    /// Adds a route in the engine to the group's users. Returns true if the engine must be sent the group first.
    pub(crate) fn use_in_fib(&mut self, id: GroupId) -> bool {
        let group = self.group_mut(id);
        group.fib_routes += 1;
        let is_new = !group.is_sent;
        group.is_sent = true;
        group.known = true;
        is_new
    }

    /// Removes a route in the engine from the group's users.
    pub(crate) fn unuse_in_fib(&mut self, id: GroupId) {
        let group = self.group_mut(id);
        group.fib_routes -= 1;
        if group.fib_routes == 0 {
            let family = group.family;
            self.changed.entry(family).or_default().push(id);
        }
    }

    /// Returns true if groups must be sent to the engine although no route changes.
    pub(crate) fn has_changes(&self, family: FamilyId) -> bool {
        self.changed.get(&family).is_some_and(|changed| !changed.is_empty())
    }

    /// Takes the groups of a family that the engine must receive again, and the groups that it may remove.
    pub(crate) fn take_changes(
        &mut self,
        family: FamilyId,
        set: &mut Vec<(GroupId, Forwarding<Address>)>,
        unused: &mut Vec<GroupId>,
        gone: &mut Vec<(GroupId, Vec<LookedUp>)>,
    ) {
        for id in self.changed.get_mut(&family).map(core::mem::take).unwrap_or_default() {
            let Some(Some(group)) = self.slots.get_mut(id.0 as usize) else { continue };
            if group.fib_routes == 0 {
                if core::mem::take(&mut group.known) {
                    unused.push(id);
                }
                group.is_sent = false;
                if let Some(depends) = self.collect(id) {
                    gone.push((id, depends));
                }
            } else if !group.is_sent
                && let Some(resolved) = &group.resolved
            {
                set.push((id, resolved.clone()));
                group.is_sent = true;
            }
        }
    }

    /// Forgets what the engine has of a family, or of all families.
    pub(crate) fn forget_engine(&mut self, family: Option<FamilyId>) -> Vec<(GroupId, Vec<LookedUp>)> {
        let is_concerned = |of: FamilyId| family.is_none_or(|family| family == of);
        self.changed.retain(|of, _| !is_concerned(*of));
        let mut gone = Vec::new();
        for index in 0..self.slots.len() {
            if let Some(group) = self.slots[index].as_mut().filter(|group| is_concerned(group.family)) {
                group.fib_routes = 0;
                group.is_sent = false;
                group.known = false;
                let id = GroupId(index as u32);
                gone.extend(self.collect(id).map(|depends| (id, depends)));
            }
        }
        gone
    }

    fn collect(&mut self, id: GroupId) -> Option<Vec<LookedUp>> {
        let slot = &mut self.slots[id.0 as usize];
        match slot {
            // A group that the engine still knows stays until the engine was asked to remove it, so that its number is not
            // given to another meanwhile.
            Some(group) if group.sets == 0 && group.fib_routes == 0 && !group.known => {
                let group = slot.take()?;
                self.index.remove(&(group.family, group.owner, group.announced));
                self.free.push(id.0);
                Some(group.depends)
            }
            _ => None,
        }
    }

    /// Iterates over the groups.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.slots.iter().enumerate().filter_map(|(i, g)| Some((GroupId(i as u32), g.as_ref()?)))
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
