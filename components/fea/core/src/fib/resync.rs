//! Mark and sweep: after a restart of the RIB, after a restart of the FEA, and after lost notices.
//!
//! When the RIB begins a resync, the RIB's numbers of groups lose their meaning; the groups stay unchanged, without an
//! owner. A newly announced group is matched with a group of the same forwarding, preferably with the present group of the first route: if
//! the RIB groups routes as before, nothing is written at all. Routes not announced are swept at the end. Routes found in the engine at the
//! FEA's start are adopted as routes not announced yet.

use super::group::{Content, Group, GroupMember};
use super::{Binding, Fib, group};
use crate::engine::{Member, Members, NextHopId, RouteTarget};
use crate::event::Event;
use crate::members::Pool;
use crate::output::{Effect, Output};
use crate::routes::{Route, Standing, Walk};
use alloc::vec::Vec;
use sluice_base::{Forwarding, IpKey, IpPrefix, NextHop, Provenance, TableId};
use sluice_machine::{Budget, Outbox, Progress};
use sluice_stage::TableKey;
use smallvec::SmallVec;

/// The relation of an engine's route to the wanted routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observation {
    /// The route is as wanted, or foreign.
    Fine,
    /// The route differs from the wanted route.
    Damaged,
    /// The route has our mark and is not wanted.
    Unwanted,
    /// The route has our mark and is wanted beside the authority only.
    Misplaced,
}

/// The resynchronization of a table with the engine and the owner.
pub(crate) trait Resync {
    /// Begins a resync: the owner announces every route anew.
    fn begin_resync(&mut self, pool: &mut Pool, out: &mut Outbox<Output>);

    /// Ends a resync: unannounced routes are swept in the background.
    fn end_resync(&mut self);

    /// Clears the marks of seen routes: a snapshot begins.
    fn clear_seen(&mut self);

    /// Handles a route with Sluice's mark in a snapshot or notice.
    fn see_route(&mut self, prefix: IpPrefix, target: RouteTarget) -> Observation;

    /// Adopts a route found at the start; `members` are the members of the route's group, if the target is a group.
    fn adopt_route(
        &mut self,
        prefix: IpPrefix,
        target: RouteTarget,
        members: Option<&Members>,
        pool: &mut Pool,
    );

    /// Handles a group in a snapshot or notice; returns true if the group is as wanted, `None` if not of this table.
    fn see_group(&mut self, id: NextHopId, members: &Members, pool: &Pool) -> Option<bool>;

    /// Looks for objects missing in a snapshot.
    fn end_snapshot(&mut self, pool: &mut Pool, out: &mut Outbox<Output>);

    /// Writes every route again in the background, with a new source address.
    fn rewrite(&mut self);

    /// Handles a removed or overwritten route; returns true if the route must be written again.
    fn route_gone(&mut self, prefix: IpPrefix) -> bool;

    /// Writes a damaged route again.
    fn repair(&mut self, prefix: IpPrefix, out: &mut Outbox<Output>);
}

impl<P: TableKey + IpKey> Resync for Fib<P> {
    fn begin_resync(&mut self, pool: &mut Pool, out: &mut Outbox<Output>) {
        if let Some((_, kept, swept)) = self.sweep.take() {
            out.push(Self::resynced(self.table, kept, swept));
        }
        self.routes.values_mut().for_each(|r| r.set_announced(false));
        let bindings: Vec<Binding> = self.bindings.drain().map(|(_, b)| b).collect();
        for binding in bindings {
            match binding {
                Binding::Announced(content) => group::release(&content, pool, out),
                Binding::Bound(n) => {
                    if let Some(group) = self.groups.get_mut(n) {
                        group.owner = None;
                    }
                    self.drop_if_unused(n, pool, out);
                }
            }
        }
        self.announced.reset(self.announced.key());
        self.orphans.clear();
        for (n, group) in self.groups.iter() {
            self.orphans.entry(group.content.active(pool)).or_default().push(n);
        }
        // The group with most routes is the best guess where a route gives no hint.
        let groups = &self.groups;
        for candidates in self.orphans.values_mut() {
            candidates.sort_by_key(|n| groups.get(*n).map_or(0, |g| g.refs));
        }
    }

    fn end_resync(&mut self) {
        self.orphans.clear();
        self.sweep = Some((Walk::new(), 0, 0));
    }

    fn clear_seen(&mut self) {
        self.routes.values_mut().for_each(|r| r.set_seen(false));
        for n in 0..self.groups.end() {
            if let Some(group) = self.groups.get_mut(n) {
                group.seen = false;
            }
        }
    }

    fn see_route(&mut self, prefix: IpPrefix, target: RouteTarget) -> Observation {
        let Ok(prefix) = P::try_from(prefix) else { return Observation::Unwanted };
        let Some(route) = self.routes.get_mut(prefix) else { return Observation::Unwanted };
        route.set_seen(true);
        if route.is_beside() {
            return Observation::Misplaced;
        }
        let number = route.group();
        let wanted = self.root(number).map(Group::target);
        let Some(route) = self.routes.get_mut(prefix) else { return Observation::Unwanted };
        match route.standing() {
            Standing::Installed if wanted == Some(target) => Observation::Fine,
            Standing::Installed => {
                route.set_standing(Standing::Due);
                Observation::Damaged
            }
            Standing::Due => Observation::Damaged,
            Standing::Refused => Observation::Unwanted,
        }
    }

    fn adopt_route(
        &mut self,
        prefix: IpPrefix,
        target: RouteTarget,
        members: Option<&Members>,
        pool: &mut Pool,
    ) {
        let Ok(prefix) = P::try_from(prefix) else { return };
        let group = match target {
            RouteTarget::Group(id) => match self.by_object.get(&id) {
                Some(n) => *n,
                None => self.adopt_group(id, members, pool),
            },
            RouteTarget::Unreachable => self.adopt_content(Content::Unreachable),
            RouteTarget::Other => self.adopt_content(Content::Other),
        };
        self.routes.insert(prefix, Route::new(group, false, Standing::Installed));
        self.use_group(group);
    }

    fn see_group(&mut self, id: NextHopId, members: &Members, pool: &Pool) -> Option<bool> {
        let group = self.groups.get_mut(*self.by_object.get(&id)?)?;
        group.seen = true;
        if !matches!(group.content, Content::Members(_)) {
            return Some(false);
        }
        let mut live = group.content.live(pool);
        let mut shown = members.clone();
        live.sort_unstable();
        shown.sort_unstable();
        Some(live == shown)
    }

    fn end_snapshot(&mut self, pool: &mut Pool, out: &mut Outbox<Output>) {
        for n in 0..self.groups.end() {
            if let Some(group) = self.groups.get_mut(n)
                && !group.seen
                && group.dead.is_none()
                && group.object.is_some()
            {
                group.gone = true;
                group.write(pool, out);
            }
        }
        self.settle_guests(pool, out);
        self.start_revisit();
        self.unseen = Some(Walk::new());
    }

    fn rewrite(&mut self) {
        // A route that was found and that the core would never write waits for its owner.
        let is_other =
            |group: u32| self.groups.get(group).is_some_and(|group| group.content == Content::Other);
        let routes = self.routes.values_mut().filter(|route| !is_other(route.group()));
        routes.for_each(|route| route.set_seen(false));
        (self.unseen, self.is_rewriting) = (Some(Walk::new()), true);
    }

    fn route_gone(&mut self, prefix: IpPrefix) -> bool {
        let Ok(prefix) = P::try_from(prefix) else { return false };
        let Some(route) = self.routes.get_mut(prefix).filter(|route| !route.is_beside()) else {
            return false;
        };
        if route.standing() == Standing::Installed {
            route.set_standing(Standing::Due);
        }
        self.groups.get(route.group()).is_some_and(|g| g.dead.is_none())
    }

    fn repair(&mut self, prefix: IpPrefix, out: &mut Outbox<Output>) {
        let Some((prefix, route)) = self.entry(prefix).filter(|(_, route)| !route.is_beside()) else {
            return;
        };
        match route.standing() {
            Standing::Due => self.write(prefix, route.group(), true, Provenance::NONE, out),
            Standing::Refused => self.write(prefix, route.group(), false, Provenance::NONE, out),
            // Written for another reason meanwhile.
            Standing::Installed => {}
        }
    }
}

impl<P: TableKey + IpKey> Fib<P> {
    fn adopt_group(&mut self, id: NextHopId, members: Option<&Members>, pool: &mut Pool) -> u32 {
        let known = |(id, weight): &(NextHopId, u8)| {
            let number = pool.find(*id)?;
            Some(GroupMember { is_backup: false, number, weight: *weight })
        };
        let content: Option<SmallVec<[GroupMember; 1]>> =
            members.and_then(|m| m.iter().map(known).collect::<Option<_>>());
        let Some(mut content) = content else { return self.adopt_content(Content::Other) };
        content.sort_unstable();
        content.iter().for_each(|m| pool.share(m.number));
        pool.take_id(id);
        let found = Group { written: true, ..Group::new(Content::Members(content), Some(id), None) };
        let n = self.groups.insert(found);
        self.by_object.insert(id, n);
        n
    }

    /// Returns the found group without an object with this content; at most one exists.
    fn adopt_content(&mut self, content: Content) -> u32 {
        let same = |g: &Group| g.content == content && g.owner.is_none() && g.moved_to.is_none();
        let found = self.groups.iter().find(|(_, g)| same(g)).map(|(n, _)| n);
        found.unwrap_or_else(|| self.groups.insert(Group::new(content, None, None)))
    }

    /// Returns a group without an owner that forwards like `content` at present: `hint` if possible, or a group that waits for an
    /// owner. Unused backups make no difference, because the engine does not show them.
    pub(super) fn claimable(&mut self, content: &Content, hint: Option<u32>, pool: &Pool) -> Option<u32> {
        let groups = &self.groups;
        let active = content.active(pool);
        let fits = |n: &u32| {
            groups.get(*n).is_some_and(|g| {
                let is_free = g.owner.is_none() && g.moved_to.is_none() && g.dead.is_none();
                is_free && g.content.active(pool) == active
            })
        };
        if let Some(n) = hint.filter(|n| fits(n)) {
            return Some(n);
        }
        let candidates = self.orphans.get_mut(&active)?;
        core::iter::from_fn(|| candidates.pop()).find(|n| fits(n))
    }

    fn resynced(table: TableId, kept: u64, swept: u64) -> Output {
        Output::Effect(Effect::Resynced { table, family: P::FAMILY, kept, swept })
    }

    pub(super) fn run_sweep(
        &mut self,
        budget: &mut Budget,
        pool: &mut Pool,
        out: &mut Outbox<Output>,
    ) -> Progress {
        while let Some((walk, kept, swept)) = &mut self.sweep {
            match walk.next(&self.routes) {
                Some((_, route)) if route.is_announced() => *kept += 1,
                Some((prefix, _)) => {
                    *swept += 1;
                    self.delete(prefix, Provenance::NONE, pool, out);
                }
                None => {
                    out.push(Self::resynced(self.table, *kept, *swept));
                    self.sweep = None;
                    break;
                }
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        Progress::Done
    }

    pub(super) fn run_unseen(&mut self, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        while let Some(walk) = &mut self.unseen {
            let Some((prefix, route)) = walk.next(&self.routes) else {
                (self.unseen, self.is_rewriting) = (None, false);
                break;
            };
            if !route.is_seen() && !route.is_beside() && route.standing() == Standing::Installed {
                if !self.is_rewriting {
                    out.push(Output::Effect(Effect::Event(Event::RouteRepaired(self.table, prefix.into()))));
                }
                self.write(prefix, route.group(), true, Provenance::NONE, out);
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        Progress::Done
    }

    pub(crate) fn has_object(&self, id: NextHopId) -> bool {
        self.by_object.contains_key(&id)
    }
}

/// Returns the forwarding of `content` in the RIB's vocabulary.
pub(super) fn forwarding(content: &Content, pool: &Pool) -> Option<Forwarding> {
    let members = match content {
        Content::Unreachable => return Some(Forwarding::Reject),
        Content::Other => return None,
        Content::Members(members) => members,
    };
    let mut hops = Vec::new();
    for GroupMember { is_backup, number, weight } in members.iter().copied() {
        let hop = match pool.get(number)?.member {
            Member::Blackhole { .. } => return Some(Forwarding::Discard),
            Member::Via { gateway, interface } => NextHop::via_on(gateway, interface),
            Member::Direct { interface, .. } => NextHop::on(interface),
        };
        hops.push(NextHop { weight, is_backup, ..hop });
    }
    Forwarding::many(hops)
}
