//! Groups with equal content share one object of the engine after a failover: the *host* has the object, the *guests* have none.
//!
//! When a neighbor is lost, the RIB repoints the neighbor's group in one message; then each route moves, one by one, from this group to the
//! group of the remaining path. Both forward in the same way by then, so the new group becomes a guest of the old group, and no move is
//! written to the engine. When the last route has moved, the guest inherits the object. A guest gets an object of its own if the host's
//! forwarding changes meanwhile, and only then are the guest's routes written.
//!
//! Groups not repointed by the RIB never have guests: each can be repointed by one message.

use super::group::Content;
use super::{Fib, Group};
use crate::members::Pool;
use crate::output::Output;
use sluice_base::{GroupId, IpKey};
use sluice_machine::Outbox;
use sluice_stage::TableKey;

impl<P: TableKey + IpKey> Fib<P> {
    /// Returns the group whose object the routes of group `n` use: the host, or the group itself.
    pub(super) fn root(&self, n: u32) -> Option<&Group> {
        self.groups.get(self.root_number(n))
    }

    fn root_number(&self, n: u32) -> u32 {
        self.groups.get(n).and_then(|group| group.host).unwrap_or(n)
    }

    /// Returns the host for a new group of this content whose first route uses group `hint` so far; `None` if the route's object forwards
    /// differently, or was not repointed.
    pub(super) fn host_for(&self, hint: u32, content: &Content, pool: &Pool) -> Option<u32> {
        let number = self.root_number(hint);
        let host = self.groups.get(number)?;
        let is_host = host.object.is_some() && host.was_repointed && host.moved_to.is_none();
        let is_alike = host.content == *content && host.is_written_as(content, pool);
        (is_host && is_alike).then_some(number)
    }

    /// Makes a guest.
    pub(super) fn create_guest(&mut self, content: Content, id: GroupId, host: u32) -> u32 {
        if let Some(group) = self.groups.get_mut(host) {
            group.guests += 1;
        }
        self.groups.insert(Group { host: Some(host), ..Group::new(content, None, Some(id)) })
    }

    /// Returns true if the routes of two groups use one object, and the engine has every route as wanted.
    pub(super) fn share_object(&self, old: u32, new: u32) -> bool {
        let is_settled = |n: u32| self.groups.get(n).is_some_and(|g| !g.due && g.moved_to.is_none());
        let number = self.root_number(old);
        let host = self.groups.get(number);
        let is_healthy = host.is_some_and(|g| g.object.is_some() && g.written && !g.gone && g.dead.is_none());
        number == self.root_number(new) && is_healthy && [number, old, new].into_iter().all(is_settled)
    }

    /// Takes group `n`, which is about to be removed, out of the relation: a guest leaves the host, a host leaves the object to a guest.
    pub(super) fn leave_object(&mut self, n: u32) {
        let Some(group) = self.groups.get_mut(n) else { return };
        if let Some(host) = group.host.take() {
            if let Some(host) = self.groups.get_mut(host) {
                host.guests -= 1;
            }
            return;
        }
        if group.guests == 0 {
            return;
        }
        let (object, guests, seen, flags) = (
            group.object.take(),
            core::mem::take(&mut group.guests),
            group.seen,
            (group.due, group.lost, group.retried, group.rewritten),
        );
        let is_guest = |(_, other): &(u32, &Group)| other.host == Some(n);
        let Some(heir) = self.groups.iter().find(is_guest).map(|(heir, _)| heir) else { return };
        for other in 0..self.groups.end() {
            if let Some(guest) = self.groups.get_mut(other).filter(|g| g.host == Some(n)) {
                guest.host = (other != heir).then_some(heir);
            }
        }
        if let Some(group) = self.groups.get_mut(heir) {
            (group.object, group.guests, group.written, group.seen) = (object, guests - 1, true, seen);
            group.due |= flags.0;
            group.lost |= flags.1;
            (group.retried, group.rewritten) = (flags.2, flags.3);
        }
        if let Some(object) = object {
            self.by_object.insert(object, heir);
        }
    }

    /// Looks at all guests after a change of groups or members: a guest whose host now forwards differently gets an object of its own;
    /// routes of remaining guests were lost together with the host's, if at all.
    pub(super) fn settle_guests(&mut self, pool: &mut Pool, out: &mut Outbox<Output>) {
        for n in 0..self.groups.end() {
            let Some(guest) = self.groups.get(n) else { continue };
            let Some(host) = guest.host else { continue };
            let Some(found) = self.groups.get(host) else { continue };
            let is_fine = found.is_written_as(&guest.content, pool);
            let (is_due, is_lost) = (found.due, found.lost);
            if is_fine {
                if let Some(guest) = self.groups.get_mut(n) {
                    guest.due |= is_due;
                    guest.lost |= is_lost;
                }
                continue;
            }
            if let Some(host) = self.groups.get_mut(host) {
                host.guests -= 1;
            }
            let object = pool.new_id();
            self.by_object.insert(object, n);
            if let Some(guest) = self.groups.get_mut(n) {
                (guest.host, guest.object, guest.has_strays) = (None, Some(object), true);
                guest.write(pool, out);
                (guest.due, guest.lost) = (true, true);
            }
        }
    }
}
