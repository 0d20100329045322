//! Interned sets: the shared parts of routes in an announcement, and what policies make of them.
//!
//! A policy that changes or rejects a route gives the route a set that is derived from the announced set, which stays known: routes
//! without policy, and sets without derived sets, cost nothing.

use super::group::Groups;
use super::looked_up::LookedUp;
use super::origin::OriginId;
use crate::policy::Outcome;
use alloc::boxed::Box;
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sluice_base::{FamilyId, GroupId, RouteSet};

/// A set's number within its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetId(pub u32);

/// A set and its users.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The set as the protocol announced it, or as a policy changed it.
    pub set: RouteSet,
    /// The set's next hops, resolved.
    pub group: GroupId,
    family: FamilyId,
    owner: Option<OriginId>,
    users: u32,
    /// The announced set and the policy's outcome, for a derived set.
    derivation: Option<Box<Derivation>>,
}

/// The source of a derived set: an announced set, and a policy's outcome.
type Derivation = (SetId, Outcome);

impl Slot {
    /// Returns the reason of a policy that rejected the set's routes.
    pub fn rejection(&self) -> Option<&str> {
        match self.derivation.as_deref() {
            Some((_, Outcome::Rejected(reason))) => Some(reason),
            _ => None,
        }
    }
}

/// The sets of a table.
pub struct Sets {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    index: HashMap<(FamilyId, Option<OriginId>, RouteSet), SetId, FixedState>,
    derived: HashMap<Derivation, SetId, FixedState>,
}

impl Sets {
    /// No sets. `seed` makes the hash unpredictable for neighbors that choose next hops.
    pub fn new(seed: u64) -> Self {
        Sets {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::with_hasher(FixedState::with_seed(seed)),
            derived: HashMap::with_hasher(FixedState::with_seed(seed)),
        }
    }

    /// Returns a set in use.
    pub fn slot(&self, id: SetId) -> &Slot {
        self.slots[id.0 as usize].as_ref().expect("a set lives as long as a route uses it")
    }

    /// Returns the number of a set, with an additional user. The second value names its group if the group is new.
    /// Sets with an `owner` are shared only by the origin's routes.
    pub fn acquire(
        &mut self,
        groups: &mut Groups,
        family: FamilyId,
        owner: Option<OriginId>,
        set: RouteSet,
    ) -> (SetId, Option<GroupId>) {
        let key = (family, owner, set);
        if let Some(id) = self.index.get(&key) {
            let id = *id;
            self.retain(id);
            return (id, None);
        }
        let (group, new) = groups.acquire(family, owner, &key.2.forwarding);
        let slot = Slot { set: key.2.clone(), group, family, owner, users: 1, derivation: None };
        let id = self.add(slot);
        self.index.insert(key, id);
        (id, new.then_some(group))
    }

    fn add(&mut self, slot: Slot) -> SetId {
        match self.free.pop() {
            Some(free) => {
                self.slots[free as usize] = Some(slot);
                SetId(free)
            }
            None => {
                self.slots.push(Some(slot));
                SetId(u32::try_from(self.slots.len() - 1).expect("fewer sets than routes"))
            }
        }
    }

    /// Returns the number of the set that a policy made of the set `from`, with an additional user; `from` itself if the policy left it
    /// unchanged. `from` stays as long as the derived set.
    pub(crate) fn derive(&mut self, groups: &mut Groups, from: SetId, outcome: Outcome) -> SetId {
        let set = match &outcome {
            Outcome::Unchanged => {
                self.retain(from);
                return from;
            }
            Outcome::Changed(set) => Some(set.clone()),
            Outcome::Rejected(_) => None,
        };
        let derivation = (from, outcome);
        if let Some(id) = self.derived.get(&derivation) {
            let id = *id;
            self.retain(id);
            return id;
        }
        self.retain(from);
        let Slot { set: announced, family, owner, .. } = self.slot(from).clone();
        let set = set.unwrap_or(announced);
        // Policies change no next hops: the announced set has the group.
        let (group, _) = groups.acquire(family, owner, &set.forwarding);
        let kept = Some(Box::new(derivation.clone()));
        let id = self.add(Slot { set, group, family, owner, users: 1, derivation: kept });
        self.derived.insert(derivation, id);
        id
    }

    /// Returns the set that a set is derived from; the set itself if it is not derived.
    pub(crate) fn source(&self, id: SetId) -> SetId {
        self.slot(id).derivation.as_ref().map_or(id, |derivation| derivation.0)
    }

    /// Adds a user.
    pub fn retain(&mut self, id: SetId) {
        self.slots[id.0 as usize].as_mut().expect("a set lives as long as a route uses it").users += 1;
    }

    /// Removes a user. Returns the group and its gateways if the group was removed with the set.
    pub fn release(&mut self, groups: &mut Groups, id: SetId) -> Option<(GroupId, Vec<LookedUp>)> {
        let entry = &mut self.slots[id.0 as usize];
        let slot = entry.as_mut().expect("a set lives as long as a route uses it");
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = entry.take()?;
        self.free.push(id.0);
        let gone = groups.release(slot.group).map(|depends| (slot.group, depends));
        match slot.derivation {
            None => {
                self.index.remove(&(slot.family, slot.owner, slot.set));
                gone
            }
            Some(derivation) => {
                self.derived.remove(&*derivation);
                gone.or(self.release(groups, derivation.0))
            }
        }
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if there are no sets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
