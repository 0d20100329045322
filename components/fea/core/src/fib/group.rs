//! The groups of one table and family: which object of the engine each is, and what it forwards by.

use crate::engine::{EngineOp, Member, Members, NextHopId, Refusal, RefusalKind, RouteTarget};
use crate::machine::Output;
use crate::members::Pool;
use alloc::string::String;
use sluice_base::{Family, Forwarding, GroupId, NextHop};
use sluice_machine::Outbox;
use smallvec::SmallVec;

/// The contents of a group; members by their number in the pool, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Content {
    /// Its members and their weights.
    Members(SmallVec<[(u32, u8); 1]>),
    /// No object: its routes say "unreachable" themselves.
    Unreachable,
    /// Contents that were found and cannot be requested.
    Other,
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) content: Content,
    /// The engine's object; `None` where the content needs none.
    pub(crate) object: Option<NextHopId>,
    /// Whose it is now; `None` for one that was found or left over.
    pub(crate) owner: Option<GroupId>,
    /// Routes that use it.
    pub(crate) refs: u32,
    /// The reason why no packet can be forwarded by it, if so.
    pub(crate) dead: Option<Refusal>,
    /// True if the engine should have it.
    pub(crate) written: bool,
    /// Its routes are to be looked at again.
    pub(crate) due: bool,
    /// The engine dropped its routes together with the object.
    pub(crate) lost: bool,
    /// The engine dropped the object; with the next writing its routes are lost and due.
    pub(crate) gone: bool,
    /// True if the group was written a second time; a third time would be no better.
    pub(crate) retried: bool,
    /// The round of refusals in which it was written again: routes refused in the same round may have met the old object.
    pub(crate) rewritten: u64,
    /// Its routes are to move to this group.
    pub(crate) moved_to: Option<u32>,
    /// True if the running snapshot showed it.
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
            seen: true,
        }
    }

    /// Returns the target of its routes.
    pub(crate) fn target(&self) -> RouteTarget {
        match (&self.content, self.object) {
            (Content::Unreachable, _) => RouteTarget::Unreachable,
            (Content::Members(_), Some(id)) => RouteTarget::Group(id),
            _ => RouteTarget::Other,
        }
    }

    pub(crate) fn uses(&self, member: u32) -> bool {
        matches!(&self.content, Content::Members(m) if m.iter().any(|(n, _)| *n == member))
    }

    /// Writes the object with the members that live. Without any, the object goes, and its routes with it.
    pub(crate) fn write(&mut self, pool: &Pool, out: &mut Outbox<Output>) {
        let (Content::Members(members), Some(id)) = (&self.content, self.object) else { return };
        let live: Members = members
            .iter()
            .filter_map(|(n, weight)| pool.get(*n).filter(|m| m.dead.is_none()).map(|m| (m.id, *weight)))
            .collect();
        if live.is_empty() {
            let reason = members.iter().find_map(|(n, _)| pool.get(*n)?.dead.clone());
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

    /// Notes that it cannot forward.
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

/// Returns the members of a route's `forwarding`; each gets one more user. Backups are no members: the RIB announces the group without its
/// primary next hops when none of them is usable. `None` if a next hop has no interface, or an encapsulation: no engine knows one yet.
pub(crate) fn intern(
    forwarding: &Forwarding,
    family: Family,
    pool: &mut Pool,
    out: &mut Outbox<Output>,
) -> Option<Content> {
    let hops = match forwarding {
        Forwarding::Reject => return Some(Content::Unreachable),
        Forwarding::Discard => {
            return Some(Content::Members(SmallVec::from_slice(&[(
                pool.acquire(Member::Blackhole { family }, out),
                1,
            )])));
        }
        Forwarding::NextHops(hops) => hops,
    };
    let used = || hops.iter().filter(|hop| !hop.is_backup);
    if used().next().is_none() || used().any(|hop| hop.interface.is_none() || hop.encapsulation.is_some()) {
        return None;
    }
    let member = |hop: &NextHop| {
        let interface = hop.interface?;
        let member = match hop.gateway {
            Some(gateway) => Member::Via { gateway, interface },
            None => Member::Direct { family, interface },
        };
        Some((pool.acquire(member, out), hop.weight.max(1)))
    };
    let mut members: SmallVec<[(u32, u8); 1]> = used().filter_map(member).collect();
    members.sort_unstable();
    Some(Content::Members(members))
}

/// Gives the members of `content` back.
pub(crate) fn release(content: &Content, pool: &mut Pool, out: &mut Outbox<Output>) {
    if let Content::Members(members) = content {
        for (n, _) in members {
            pool.release(*n, out);
        }
    }
}
