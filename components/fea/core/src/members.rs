//! The members in use: each way to forward once, for every user.

use crate::engine::{EngineOp, Member, NextHopId, Refusal};
use crate::output::{Apply, Output};
use crate::slab::Slab;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use sluice_base::InterfaceIndex;
use sluice_machine::{Budget, Outbox};

/// A member in use.
#[derive(Clone, Debug)]
pub(crate) struct PoolMember {
    pub(crate) id: NextHopId,
    pub(crate) member: Member,
    /// Groups that use the member (announced groups without routes too).
    refs: u32,
    /// The reason of the engine's refusal, if any.
    pub(crate) dead: Option<Refusal>,
    /// True if shown by the running snapshot, or written since the snapshot began.
    pub(crate) seen: bool,
}

/// The members and the numbers in use.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    members: Slab<PoolMember>,
    by_member: HashMap<Member, u32, FixedState>,
    by_id: HashMap<NextHopId, u32, FixedState>,
    used: HashSet<NextHopId, FixedState>,
    next: u32,
    /// Dead members, written again for a new user.
    revived: Vec<u32>,
    /// Users to remove once the groups were certainly written without the members.
    leaving: Vec<u32>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Pool {
            members: Slab::default(),
            by_member: HashMap::with_hasher(FixedState::default()),
            by_id: HashMap::with_hasher(FixedState::default()),
            used: HashSet::with_hasher(FixedState::default()),
            next: NextHopId::FIRST,
            revived: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Returns a free number.
    pub(crate) fn new_id(&mut self) -> NextHopId {
        loop {
            let id = NextHopId(self.next);
            self.next = if self.next + 1 == NextHopId::END { NextHopId::FIRST } else { self.next + 1 };
            if self.used.insert(id) {
                return id;
            }
        }
    }

    /// Reserves a number found in the engine.
    pub(crate) fn take_id(&mut self, id: NextHopId) {
        self.used.insert(id);
    }

    /// Gives a number back.
    pub(crate) fn free_id(&mut self, id: NextHopId) {
        self.used.remove(&id);
    }

    /// Returns the member's number in the pool, with one more user. An absent or refused member is written.
    pub(crate) fn acquire(&mut self, member: Member, out: &mut Outbox<Output>) -> u32 {
        if let Some(n) = self.by_member.get(&member).copied() {
            if let Some(entry) = self.members.get_mut(n) {
                entry.refs += 1;
                if entry.dead.take().is_some() {
                    entry.seen = true;
                    out.push(Output::Engine(EngineOp::SetMember { id: entry.id, member }));
                    self.revived.push(n);
                }
            }
            return n;
        }
        let id = self.new_id();
        out.push(Output::Engine(EngineOp::SetMember { id, member }));
        self.insert(id, member, 1)
    }

    /// Adopts a member found in the engine, without users so far.
    pub(crate) fn adopt(&mut self, id: NextHopId, member: Member, out: &mut Outbox<Output>) {
        self.take_id(id);
        if self.by_member.contains_key(&member) {
            self.free_id(id);
            out.push(Output::Engine(EngineOp::DeleteNextHop { id }));
            return;
        }
        self.insert(id, member, 0);
    }

    fn insert(&mut self, id: NextHopId, member: Member, refs: u32) -> u32 {
        let n = self.members.insert(PoolMember { id, member, refs, dead: None, seen: true });
        self.by_member.insert(member, n);
        self.by_id.insert(id, n);
        n
    }

    /// Adds a user.
    pub(crate) fn share(&mut self, n: u32) {
        if let Some(entry) = self.members.get_mut(n) {
            entry.refs += 1;
        }
    }

    /// Removes a user; without users the member is deleted.
    pub(crate) fn release(&mut self, n: u32, out: &mut Outbox<Output>) {
        if let Some(entry) = self.members.get_mut(n) {
            entry.refs = entry.refs.saturating_sub(1);
            if entry.refs == 0 {
                self.remove(n, out);
            }
        }
    }

    /// Removes a user once the group was certainly written without the member. Earlier, the end of the member could end the
    /// group.
    pub(crate) fn release_later(&mut self, n: u32) {
        self.leaving.push(n);
    }

    /// Records that the pending operations were carried out.
    pub(crate) fn settle(&mut self, out: &mut Outbox<Output>) {
        for n in core::mem::take(&mut self.leaving) {
            self.release(n, out);
        }
    }

    /// Removes found members without users.
    pub(crate) fn remove_unused(&mut self, out: &mut Outbox<Output>) {
        let unused: Vec<u32> = self.members.iter().filter(|(_, m)| m.refs == 0).map(|(n, _)| n).collect();
        for n in unused {
            self.remove(n, out);
        }
    }

    fn remove(&mut self, n: u32, out: &mut Outbox<Output>) {
        if let Some(entry) = self.members.remove(n) {
            self.by_member.remove(&entry.member);
            self.by_id.remove(&entry.id);
            self.free_id(entry.id);
            if entry.dead.is_none() {
                out.push(Output::Engine(EngineOp::DeleteNextHop { id: entry.id }));
            }
        }
    }

    pub(crate) fn get(&self, n: u32) -> Option<&PoolMember> {
        self.members.get(n)
    }

    pub(crate) fn find(&self, id: NextHopId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Records that the engine refused the member; returns the number in the pool.
    pub(crate) fn mark_unusable(&mut self, id: NextHopId, refusal: Refusal) -> Option<u32> {
        let n = self.find(id)?;
        self.members.get_mut(n)?.dead = Some(refusal);
        Some(n)
    }

    /// Writes the member again.
    pub(crate) fn rewrite(&mut self, n: u32, out: &mut Outbox<Output>) {
        if let Some(entry) = self.members.get_mut(n) {
            entry.dead = None;
            entry.seen = true;
            out.push(Output::Engine(EngineOp::SetMember { id: entry.id, member: entry.member }));
        }
    }

    /// Writes the member again unless refused.
    pub(crate) fn rewrite_living(&mut self, n: u32, out: &mut Outbox<Output>) {
        if self.get(n).is_some_and(|m| m.dead.is_none()) {
            self.rewrite(n, out);
        }
    }

    /// Takes the members written again for a new user, for the groups that lacked the members.
    pub(crate) fn take_revived(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.revived)
    }

    /// The refused members for which `which` holds.
    pub(crate) fn dead(&self, which: impl Fn(&Member) -> bool) -> Vec<u32> {
        let dead = self.members.iter().filter(|(_, m)| m.dead.is_some() && which(&m.member));
        dead.map(|(n, _)| n).collect()
    }

    /// Returns the members on `interface` that were not refused.
    pub(crate) fn living_on(&self, interface: InterfaceIndex) -> Vec<NextHopId> {
        let living = self.members.iter().filter(|(_, m)| m.dead.is_none());
        living.filter(|(_, m)| m.member.interface() == Some(interface)).map(|(_, m)| m.id).collect()
    }

    /// Clears the marks of seen members: a snapshot begins.
    pub(crate) fn clear_seen(&mut self) {
        for n in 0..self.members.end() {
            if let Some(m) = self.members.get_mut(n) {
                m.seen = false;
            }
        }
    }

    /// Marks the member as shown by a snapshot; returns true if the member is as wanted.
    pub(crate) fn see(&mut self, n: u32, member: Member) -> bool {
        self.members.get_mut(n).is_some_and(|m| {
            m.seen = true;
            m.member == member
        })
    }

    /// Returns the wanted members missing in the snapshot.
    pub(crate) fn unseen(&self) -> Vec<u32> {
        self.members.iter().filter(|(_, m)| !m.seen && m.dead.is_none()).map(|(n, _)| n).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Replays the authority's members from number `from` on. Breaks with the next number.
    pub(crate) fn replay(&self, from: u32, budget: &mut Budget, apply: Apply<'_>) -> ControlFlow<u32> {
        for n in from..self.members.end() {
            if let Some(entry) = self.members.get(n).filter(|m| m.dead.is_none()) {
                apply(EngineOp::SetMember { id: entry.id, member: entry.member });
            }
            if !budget.spend(1) {
                return ControlFlow::Break(n + 1);
            }
        }
        ControlFlow::Continue(())
    }
}
