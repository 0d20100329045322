//! The groups of one table and family, with the engine's objects and the forwarding.

use crate::engine::{EngineOp, Member, Members, NextHopId, Refusal, RefusalKind, RouteTarget};
use crate::members::Pool;
use crate::output::Output;
use alloc::string::String;
use sluice_base::{Family, Forwarding, GroupId, NextHop};
use sluice_machine::Outbox;
use smallvec::SmallVec;

/// A next hop of a group. The order puts backups last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct GroupMember {
    /// True if packets take the member only while no primary member is usable.
    pub(crate) is_backup: bool,
    /// The member's number in the pool.
    pub(crate) number: u32,
    pub(crate) weight: u8,
}

/// The contents of a group; members sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Content {
    /// The members and the weights.
    Members(SmallVec<[GroupMember; 1]>),
    /// No object: the routes themselves are of type "unreachable".
    Unreachable,
    /// Found contents that cannot be requested.
    Other,
}

impl Content {
    /// The members; empty if the contents need no object.
    pub(crate) fn members(&self) -> &[GroupMember] {
        match self {
            Content::Members(members) => members,
            Content::Unreachable | Content::Other => &[],
        }
    }

    /// Returns the contents for the engine at present: the living primary members or, without any, the living
    /// backups.
    pub(crate) fn active(&self, pool: &Pool) -> Content {
        let Content::Members(members) = self else { return self.clone() };
        let live = || members.iter().filter(|m| is_live(m, pool));
        let is_backup = live().all(|m| m.is_backup);
        let active = live().filter(|m| m.is_backup == is_backup);
        Content::Members(active.map(|m| GroupMember { is_backup: false, ..*m }).collect())
    }

    /// Returns the members of the engine's object as things are.
    pub(crate) fn live(&self, pool: &Pool) -> Members {
        let active = self.active(pool);
        active.members().iter().filter_map(|m| Some((pool.get(m.number)?.id, m.weight))).collect()
    }
}

fn is_live(member: &GroupMember, pool: &Pool) -> bool {
    pool.get(member.number).is_some_and(|m| m.dead.is_none())
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) content: Content,
    /// The engine's object; `None` if the content needs no object.
    pub(crate) object: Option<NextHopId>,
    /// The owner's number; `None` for a found or left-over group.
    pub(crate) owner: Option<GroupId>,
    /// The number of routes.
    pub(crate) refs: u32,
    /// The reason why the group cannot forward, if so.
    pub(crate) dead: Option<Refusal>,
    /// True if the engine should have the object.
    pub(crate) written: bool,
    /// The routes must be visited again.
    pub(crate) due: bool,
    /// The engine dropped the routes together with the object.
    pub(crate) lost: bool,
    /// The engine dropped the object; with the next writing the routes are lost and due.
    pub(crate) gone: bool,
    /// True if the group was written a second time; a third time would be no better.
    pub(crate) retried: bool,
    /// The round of refusals in which the group was written again: routes refused in the same round may have met the old object.
    pub(crate) rewritten: u64,
    /// The group to which the routes move.
    pub(crate) moved_to: Option<u32>,
    /// True if the RIB has changed the content since the group was bound: the routes are expected to follow into another group.
    pub(crate) was_repointed: bool,
    /// The host: the group whose object this group's routes use, while both forward in the same way. Routes that move between the
    /// two are not written.
    pub(crate) host: Option<u32>,
    /// The number of groups whose routes use this group's object.
    pub(crate) guests: u32,
    /// True if routes may still point to the object of a former host.
    pub(crate) has_strays: bool,
    /// True if the running snapshot showed the group.
    pub(crate) seen: bool,
}

impl Group {
    pub(crate) fn new(content: Content, object: Option<NextHopId>, owner: Option<GroupId>) -> Self {
        Group {
            content,
            object,
            owner,
            refs: 0,
            dead: None,
            written: false,
            due: false,
            lost: false,
            gone: false,
            retried: false,
            rewritten: 0,
            moved_to: None,
            was_repointed: false,
            host: None,
            guests: 0,
            has_strays: false,
            seen: true,
        }
    }

    /// Returns the target of the routes.
    pub(crate) fn target(&self) -> RouteTarget {
        match (&self.content, self.object) {
            (Content::Unreachable, _) => RouteTarget::Unreachable,
            (Content::Members(_), Some(id)) => RouteTarget::Group(id),
            _ => RouteTarget::Other,
        }
    }

    /// Returns true if the group must be written when `member` dies or revives: not if the member is a backup and a primary member
    /// lives.
    pub(crate) fn depends_on(&self, member: u32, pool: &Pool) -> bool {
        let members = self.content.members();
        let Some(used) = members.iter().find(|m| m.number == member) else { return false };
        !used.is_backup || !members.iter().any(|m| !m.is_backup && is_live(m, pool))
    }

    /// Returns true if `member` is a dead primary member and no primary member lives.
    pub(crate) fn lost_last_primary(&self, member: u32, pool: &Pool) -> bool {
        let mut primary = self.content.members().iter().filter(|m| !m.is_backup);
        primary.clone().any(|m| m.number == member) && !primary.any(|m| is_live(m, pool))
    }

    /// Returns true if the engine's object has `content` already, and need not be written.
    pub(crate) fn is_written_as(&self, content: &Content, pool: &Pool) -> bool {
        self.written && !self.gone && self.dead.is_none() && self.content.active(pool) == content.active(pool)
    }

    /// Writes the object with the living primary members or, without any, with the living backups. Without either, removes the object
    /// and the routes.
    pub(crate) fn write(&mut self, pool: &Pool, out: &mut Outbox<Output>) {
        let (Content::Members(members), Some(id)) = (&self.content, self.object) else { return };
        let live = self.content.live(pool);
        if live.is_empty() {
            let reason = members.iter().find_map(|m| pool.get(m.number)?.dead.clone());
            self.mark_unusable(reason.unwrap_or_else(|| invalid("no next hop is usable")), out);
            return;
        }
        self.seen = true;
        let create = self.gone || !self.written;
        self.written = true;
        let gone = core::mem::take(&mut self.gone);
        self.lost |= gone;
        self.due |= gone | self.dead.take().is_some();
        out.push(Output::Engine(EngineOp::SetGroup { id, members: live, create }));
    }

    /// Notes that the group cannot forward.
    pub(crate) fn mark_unusable(&mut self, reason: Refusal, out: &mut Outbox<Output>) {
        if let (Some(id), None) = (self.object, &self.dead) {
            out.push(Output::Engine(EngineOp::DeleteNextHop { id }));
        }
        self.dead = Some(reason);
        self.written = false;
        self.lost = true;
        self.due = true;
    }
}

/// A refusal of our own.
pub(crate) fn invalid(reason: &str) -> Refusal {
    Refusal { kind: RefusalKind::Invalid, reason: String::from(reason) }
}

/// Returns the members of a route's `forwarding`; each gets one more user. `None` if a primary next hop has no interface, or
/// an encapsulation (not supported by any engine), and for a route to this host (made by the kernel). Such backups, and backups that are
/// primary next hops too, are left out.
pub(crate) fn intern(
    forwarding: &Forwarding,
    family: Family,
    pool: &mut Pool,
    out: &mut Outbox<Output>,
) -> Option<Content> {
    let hops = match forwarding {
        Forwarding::Reject => return Some(Content::Unreachable),
        Forwarding::Discard => {
            let number = pool.acquire(Member::Blackhole { family }, out);
            let member = GroupMember { is_backup: false, number, weight: 1 };
            return Some(Content::Members(SmallVec::from_slice(&[member])));
        }
        Forwarding::Local => return None,
        Forwarding::NextHops(hops) => hops,
    };
    let primary = || hops.iter().filter(|hop| !hop.is_backup);
    let is_known = |hop: &NextHop| hop.interface.is_some() && hop.encapsulation.is_none();
    if primary().next().is_none() || !primary().all(is_known) {
        return None;
    }
    let way = |hop: &NextHop| (hop.gateway, hop.interface);
    let is_used = |hop: &NextHop| !hop.is_backup || is_known(hop) && primary().all(|p| way(p) != way(hop));
    let member = |hop: &NextHop| {
        let interface = hop.interface?;
        let member = match hop.gateway {
            Some(gateway) => Member::Via { gateway, interface },
            None => Member::Direct { family, interface },
        };
        let number = pool.acquire(member, out);
        Some(GroupMember { is_backup: hop.is_backup, number, weight: hop.weight.max(1) })
    };
    let mut members: SmallVec<[GroupMember; 1]> =
        hops.iter().filter(|hop| is_used(hop)).filter_map(member).collect();
    members.sort_unstable();
    Some(Content::Members(members))
}

/// Gives the members of `content` back.
pub(crate) fn release(content: &Content, pool: &mut Pool, out: &mut Outbox<Output>) {
    content.members().iter().for_each(|m| pool.release(m.number, out));
}
