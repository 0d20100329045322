//! One table of one family: the wanted routes, the groups, and the standing in the engine.
//!
//! Every announced group of the RIB has an object of its own in the engine, so that a change of the group is one
//! message, whatever the number of its routes. Only a change between forwarding and rejecting, for which no object
//! exists, moves routes one by one, in the background.

mod group;
mod guests;
mod held;
mod placement;
mod refusal;
mod replay;
mod resync;

use crate::engine::{AuthorityRoutes, EngineOp, Scope};
use crate::event::Event;
use crate::members::Pool;
use crate::output::{Effect, Output};
use crate::routes::{Route, Routes, Standing, Walk};
use crate::slab::Slab;
use foldhash::fast::FixedState;
use group::{Content, Group};
use hashbrown::HashMap;
use held::{HeldDigest, HeldRoutes};
use sluice_base::{
    AnnouncedDigest, AnnouncedRoute, AnyPrefix, Digest, DigestKey, FibBatch, FibRoute, Forwarding, GroupId,
    IpKey, IpPrefix, Provenance, TableId,
};
use sluice_machine::{Budget, Outbox, Progress};
use sluice_stage::TableKey;
use smallvec::SmallVec;

pub(crate) use refusal::RefusedRoute;
pub(crate) use resync::Observation;

/// The meaning of the RIB's number for a group.
#[derive(Clone, Debug)]
enum Binding {
    /// Announced, without a route so far: the group may turn out to be a found one.
    Announced(Content),
    /// A group of the engine.
    Bound(u32),
}

/// The counts of routes by standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Wanted routes (or not yet swept).
    pub wanted: usize,
    /// The refused routes among them.
    pub refused: usize,
}

/// A table of one family.
#[derive(Clone, Debug)]
pub(crate) struct Fib<P: TableKey + IpKey> {
    table: TableId,
    routes: Routes<P>,
    groups: Slab<Group>,
    bindings: HashMap<GroupId, Binding, FixedState>,
    by_object: HashMap<crate::engine::NextHopId, u32, FixedState>,
    /// During a resync: the groups without an owner by active content.
    orphans: HashMap<Content, SmallVec<[u32; 1]>, FixedState>,
    /// True if routes move between groups.
    moving: bool,
    refused: usize,
    /// The walk over routes of due groups.
    revisit: Option<Walk<P>>,
    /// The walk over routes that were not announced again, with the numbers of kept and swept routes.
    sweep: Option<(Walk<P>, u64, u64)>,
    /// The walk over routes missing in a snapshot.
    unseen: Option<Walk<P>>,
    /// True if this walk writes every route again.
    is_rewriting: bool,
    /// The selection of routes for the authority.
    selection: AuthorityRoutes,
    /// The walk over routes in engines that may differ from the selection.
    placement: Option<Walk<P>>,
    /// The digests of the owner's announcements.
    announced: AnnouncedDigest,
    held: HeldDigest<P>,
}

impl<P: TableKey + IpKey> Fib<P> {
    pub(crate) fn new(table: TableId, seed: u64, selection: AuthorityRoutes) -> Self {
        let hasher = || FixedState::with_seed(seed);
        Fib {
            table,
            routes: Routes::new(),
            groups: Slab::default(),
            bindings: HashMap::with_hasher(hasher()),
            by_object: HashMap::with_hasher(hasher()),
            orphans: HashMap::with_hasher(hasher()),
            moving: false,
            refused: 0,
            revisit: None,
            sweep: None,
            unseen: None,
            is_rewriting: false,
            selection,
            placement: None,
            announced: AnnouncedDigest::new(DigestKey(seed)),
            held: HeldDigest::new(DigestKey(seed)),
        }
    }

    /// Takes in a batch of changes.
    pub(crate) fn update(&mut self, batch: FibBatch<P>, pool: &mut Pool, out: &mut Outbox<Output>) {
        let regrouped = !batch.groups.is_empty();
        for (id, forwarding) in batch.groups {
            self.announced.group(id, &forwarding);
            self.announce(id, &forwarding, pool, out);
        }
        for route in batch.routes {
            match route.group {
                Some(group) => self.set(route, group, pool, out),
                None => self.delete(route.prefix, route.provenance, pool, out),
            }
        }
        for id in batch.unused {
            if self.is_in_use(id) {
                self.announced.still_used(id);
            } else {
                self.announced.unused(id);
            }
            match self.bindings.remove(&id) {
                Some(Binding::Announced(content)) => group::release(&content, pool, out),
                Some(Binding::Bound(n)) => {
                    if let Some(group) = self.groups.get_mut(n) {
                        group.owner = None;
                    }
                    self.drop_if_unused(n, pool, out);
                }
                None => {}
            }
        }
        // Looking for groups that are due costs a look at every group: only where one can be.
        if regrouped {
            self.start_revisit();
        }
    }

    /// Returns true if routes use a group that the owner believes unused: changes were lost on the way. During a resync such routes may be
    /// not yet announced again.
    fn is_in_use(&self, id: GroupId) -> bool {
        let is_resynced = self.orphans.is_empty() && self.sweep.is_none();
        let group = match self.bindings.get(&id) {
            Some(Binding::Bound(n)) => self.groups.get(*n),
            _ => None,
        };
        is_resynced && group.is_some_and(|group| group.refs > 0)
    }

    fn announce(&mut self, id: GroupId, forwarding: &Forwarding, pool: &mut Pool, out: &mut Outbox<Output>) {
        let content = group::intern(forwarding, P::FAMILY, pool, out).unwrap_or_else(|| {
            out.push(Output::Effect(Effect::Event(Event::Unresolved(id))));
            // No member: a group that cannot forward, and whose routes are refused with a reason.
            Content::Members(SmallVec::new())
        });
        match self.bindings.get_mut(&id) {
            None => {
                self.bindings.insert(id, Binding::Announced(content));
            }
            Some(Binding::Announced(old)) => {
                let old = core::mem::replace(old, content);
                group::release(&old, pool, out);
            }
            Some(Binding::Bound(n)) => {
                let n = *n;
                self.change(n, id, content, pool, out);
            }
        }
    }

    /// The group forwards differently from now on.
    fn change(&mut self, n: u32, id: GroupId, content: Content, pool: &mut Pool, out: &mut Outbox<Output>) {
        let Some(group) = self.groups.get_mut(n) else { return };
        match (&group.content, &content) {
            (old, new) if old == new => group::release(&content, pool, out),
            (Content::Members(_), Content::Members(_)) => {
                let is_written = group.is_written_as(&content, pool);
                let old = core::mem::replace(&mut group.content, content);
                group.was_repointed = true;
                if !is_written && group.host.is_none() {
                    group.retried = false;
                    group.write(pool, out);
                }
                if group.guests > 0 || group.host.is_some() {
                    self.settle_guests(pool, out);
                }
                old.members().iter().for_each(|m| pool.release_later(m.number));
            }
            _ => {
                let new = self.create(content, Some(id), pool, out);
                self.bindings.insert(id, Binding::Bound(new));
                if let Some(group) = self.groups.get_mut(n) {
                    (group.owner, group.moved_to, group.due) = (None, Some(new), true);
                }
                // Routes that are still on their way here go there instead.
                self.redirect(n, Some(new));
                self.moving = true;
                self.drop_if_unused(n, pool, out);
            }
        }
    }

    /// Redirects the routes on the move to group `n` to `to` instead, or lets the routes stay.
    fn redirect(&mut self, n: u32, to: Option<u32>) {
        for other in 0..self.groups.end() {
            if let Some(group) = self.groups.get_mut(other).filter(|g| g.moved_to == Some(n)) {
                group.moved_to = to;
            }
        }
    }

    /// A new group in the engine.
    fn create(
        &mut self,
        content: Content,
        owner: Option<GroupId>,
        pool: &mut Pool,
        out: &mut Outbox<Output>,
    ) -> u32 {
        let object = matches!(content, Content::Members(_)).then(|| pool.new_id());
        let mut group = Group::new(content, object, owner);
        group.write(pool, out);
        let n = self.groups.insert(group);
        if let Some(object) = object {
            self.by_object.insert(object, n);
        }
        n
    }

    /// Removes a group without owner and routes.
    fn drop_if_unused(&mut self, n: u32, pool: &mut Pool, out: &mut Outbox<Output>) {
        if self.groups.get(n).is_none_or(|g| g.refs > 0 || g.owner.is_some()) {
            return;
        }
        if self.moving {
            self.redirect(n, None);
        }
        self.leave_object(n);
        let Some(group) = self.groups.remove(n) else { return };
        if let Some(id) = group.object {
            self.by_object.remove(&id);
            pool.free_id(id);
            if group.dead.is_none() {
                out.push(Output::Engine(EngineOp::DeleteNextHop { id }));
            }
        }
        group::release(&group.content, pool, out);
    }

    /// Returns the group of the RIB's number, for a route of group `hint` so far.
    fn bound(
        &mut self,
        id: GroupId,
        hint: Option<u32>,
        pool: &mut Pool,
        out: &mut Outbox<Output>,
    ) -> Option<u32> {
        let content = match self.bindings.get(&id)? {
            Binding::Bound(n) => return Some(*n),
            Binding::Announced(content) => content.clone(),
        };
        let n = match self.claimable(&content, hint, pool) {
            Some(n) => {
                if let Some(group) = self.groups.get_mut(n) {
                    group.owner = Some(id);
                    let found = core::mem::replace(&mut group.content, content);
                    group::release(&found, pool, out);
                }
                n
            }
            None => match hint.and_then(|hint| self.host_for(hint, &content, pool)) {
                Some(host) => self.create_guest(content, id, host),
                None => self.create(content, Some(id), pool, out),
            },
        };
        self.bindings.insert(id, Binding::Bound(n));
        Some(n)
    }

    fn set(&mut self, route: FibRoute<P>, id: GroupId, pool: &mut Pool, out: &mut Outbox<Output>) {
        let hint = match self.bindings.get(&id) {
            Some(Binding::Bound(_)) => None,
            _ => self.routes.get(route.prefix).map(|r| r.group()),
        };
        let Some(group) = self.bound(id, hint, pool, out) else {
            out.push(Output::Effect(Effect::Event(Event::UnknownGroup(route.prefix.into(), id))));
            out.push(self.rejected(route.prefix, route.provenance, "its next-hop group was never announced"));
            self.delete(route.prefix, route.provenance, pool, out);
            return;
        };
        let Some(old) = self.find_or_add(&route, group, out) else { return };
        let is_in_place = self.is_in_place(route.prefix, old);
        if old.group() == group && old.standing() == Standing::Installed && is_in_place {
            return;
        }
        self.use_group(group);
        if old.standing() == Standing::Installed && is_in_place && self.share_object(old.group(), group) {
            if let Some(entry) = self.routes.get_mut(route.prefix) {
                entry.set_group(group);
            }
            self.leave_group(old.group(), pool, out);
            return;
        }
        let replace = old.standing() != Standing::Refused;
        self.write(route.prefix, group, replace, route.provenance, out);
        self.leave_group(old.group(), pool, out);
    }

    /// Returns the present route of a prefix, marked as announced; writes a route of `group` if none exists.
    fn find_or_add(&mut self, route: &FibRoute<P>, group: u32, out: &mut Outbox<Output>) -> Option<Route> {
        let is_dead = self.groups.get(group).is_some_and(|g| g.dead.is_some());
        let standing = if is_dead { Standing::Refused } else { Standing::Installed };
        let mut is_new = false;
        let is_beside = self.belongs_beside(route.prefix, group, route.is_external);
        let announced = self.owner_of(group).map(|id| (id, route.is_external));
        let entry = self.routes.get_or_insert_with(route.prefix, || {
            is_new = true;
            Route::new(group, true, standing)
        });
        let before = *entry;
        entry.set_external(route.is_external);
        if !is_new {
            entry.set_announced(true);
            let entry = *entry;
            let before = self.announced_route(before);
            if before != announced {
                self.announced.route(AnyPrefix::of(route.prefix), before, announced);
            }
            return Some(entry);
        }
        entry.set_beside(is_beside);
        let scope = entry.scope();
        self.announced.route(AnyPrefix::of(route.prefix), None, announced);
        self.refused += usize::from(is_dead);
        self.use_group(group);
        self.note_held(route.prefix, None, group, standing);
        if let Some((_, output)) = self.written(route.prefix, group, false, scope, route.provenance) {
            out.push(output);
        }
        None
    }

    fn delete(&mut self, prefix: P, provenance: Provenance, pool: &mut Pool, out: &mut Outbox<Output>) {
        let Some(route) = self.routes.remove(prefix) else { return };
        self.announced.route(AnyPrefix::of(prefix), self.announced_route(route), None);
        self.held.note(prefix, self.held_hash(prefix, route), None);
        if route.standing() == Standing::Refused {
            self.refused -= 1;
        } else {
            out.push(self.delete_op(prefix, route.scope(), provenance));
        }
        self.leave_group(route.group(), pool, out);
    }

    /// Returns the owner's number for a group, or for the group to which the routes move.
    fn owner_of(&self, n: u32) -> Option<GroupId> {
        let group = self.groups.get(n)?;
        group.owner.or_else(|| self.groups.get(group.moved_to?)?.owner)
    }

    /// Returns the owner's announcement of a route since the last resync began.
    fn announced_route(&self, route: Route) -> Option<AnnouncedRoute> {
        let id = self.owner_of(route.group()).filter(|_| route.is_announced())?;
        Some((id, route.is_external()))
    }

    fn use_group(&mut self, n: u32) {
        if let Some(group) = self.groups.get_mut(n) {
            group.refs += 1;
        }
    }

    fn leave_group(&mut self, n: u32, pool: &mut Pool, out: &mut Outbox<Output>) {
        if let Some(group) = self.groups.get_mut(n) {
            group.refs -= 1;
            if group.refs == 0 && group.owner.is_none() {
                self.drop_if_unused(n, pool, out);
            }
        }
    }

    /// Writes a route of a group to the wanted engines, or refuses the route if the group is dead. Removes the route from the authority if
    /// not wanted there.
    fn write(
        &mut self,
        prefix: P,
        group: u32,
        replace: bool,
        provenance: Provenance,
        out: &mut Outbox<Output>,
    ) {
        let Some(route) = self.routes.get_mut(prefix) else { return };
        let (old, is_external) = (*route, route.is_external());
        let before = self.held_hash(prefix, old);
        let is_beside = self.belongs_beside(prefix, group, is_external);
        let scope = if is_beside { Scope::Beside } else { Scope::All };
        // Where the authority has no route of ours, a route that stands there is another program's.
        let replaced = replace && !old.is_beside();
        let Some((standing, output)) = self.written(prefix, group, replaced, scope, provenance) else {
            return;
        };
        if let Some(route) = self.routes.get_mut(prefix) {
            route.set_beside(is_beside);
        }
        self.stand(prefix, group, standing);
        self.note_held(prefix, before, group, standing);
        if standing == Standing::Refused {
            // A dead group took its own routes along, but not from all engines; a route that comes from another group is still there.
            if replaced {
                out.push(self.delete_op(prefix, Scope::All, provenance));
            } else if old.standing() != Standing::Refused {
                out.push(self.delete_op(prefix, Scope::Beside, provenance));
            }
        } else if is_beside && !old.is_beside() && old.standing() != Standing::Refused {
            out.push(self.delete_op(prefix, Scope::Authority, provenance));
        }
        out.push(output);
    }

    /// Returns the standing of a group's route at the writing, and reports refusals.
    fn written(
        &self,
        prefix: P,
        group: u32,
        replace: bool,
        scope: Scope,
        provenance: Provenance,
    ) -> Option<(Standing, Output)> {
        let group = self.root(group)?;
        if let Some(reason) = &group.dead {
            return Some((Standing::Refused, self.rejected(prefix, provenance, &reason.reason)));
        }
        let (table, target) = (self.table, group.target());
        let op = EngineOp::SetRoute { table, prefix: prefix.into(), target, replace, scope, provenance };
        Some((Standing::Installed, Output::Engine(op)))
    }

    /// Records the route's group and standing.
    fn stand(&mut self, prefix: P, group: u32, standing: Standing) {
        if let Some(route) = self.routes.get_mut(prefix) {
            self.refused += usize::from(standing == Standing::Refused);
            self.refused -= usize::from(route.standing() == Standing::Refused);
            route.set_group(group);
            route.set_standing(standing);
            route.set_seen(true);
        }
    }

    fn delete_op(&self, prefix: P, scope: Scope, provenance: Provenance) -> Output {
        Output::Engine(EngineOp::DeleteRoute { table: self.table, prefix: prefix.into(), scope, provenance })
    }

    fn rejected(&self, prefix: P, provenance: Provenance, reason: &str) -> Output {
        Output::Effect(Effect::Rejected {
            table: self.table,
            prefix: prefix.into(),
            provenance,
            reason: reason.into(),
        })
    }

    /// Begins (or goes round again with) the walk over the routes of due groups.
    fn start_revisit(&mut self) {
        if self.groups.iter().any(|(_, g)| g.due && g.refs > 0) {
            self.revisit = Some(self.revisit.map_or(Walk::new(), Walk::again));
        }
    }

    /// Visits a route of a due group.
    fn revisit_route(&mut self, prefix: P, route: Route, pool: &mut Pool, out: &mut Outbox<Output>) {
        let Some(group) = self.groups.get(route.group()) else { return };
        if !group.due {
            return;
        }
        let replace = route.standing() != Standing::Refused;
        if let Some(to) = group.moved_to {
            self.use_group(to);
            self.write(prefix, to, replace, Provenance::NONE, out);
            self.leave_group(route.group(), pool, out);
            return;
        }
        match (&group.dead, route.standing()) {
            (Some(_), Standing::Refused) => {}
            // The object's routes went with it: nothing is left to delete, but routes at a former host's object.
            (Some(_), _) => self.write(prefix, route.group(), group.has_strays, Provenance::NONE, out),
            (None, Standing::Installed) if !group.lost => {}
            (None, _) => self.write(prefix, route.group(), replace, Provenance::NONE, out),
        }
    }

    /// Returns the announced routes as a batch.
    pub(crate) fn export(&self, pool: &Pool) -> FibBatch<P> {
        let mut batch = FibBatch::default();
        for (id, binding) in &self.bindings {
            let content = match binding {
                Binding::Announced(content) => content,
                Binding::Bound(n) => match self.groups.get(*n) {
                    Some(group) => &group.content,
                    None => continue,
                },
            };
            batch.groups.extend(resync::forwarding(content, pool).map(|f| (*id, f)));
        }
        batch.groups.sort_unstable_by_key(|(id, _)| *id);
        for (prefix, route) in self.routes.iter() {
            let owner = self.groups.get(route.group()).and_then(|g| g.owner);
            if let (true, Some(id)) = (route.is_announced(), owner) {
                let (is_external, provenance) = (route.is_external(), Provenance::NONE);
                batch.routes.push(FibRoute { prefix, group: Some(id), is_external, provenance });
            }
        }
        batch
    }

    fn end_revisit(&mut self) {
        self.moving = false;
        // Routes changed with their groups, before the walk came to them.
        self.recount();
        for n in 0..self.groups.end() {
            if let Some(group) = self.groups.get_mut(n) {
                (group.due, group.lost, group.retried) = (false, group.dead.is_some(), false);
                group.has_strays = false;
            }
        }
    }
}

/// The operations on a table of any family.
pub(crate) trait Side:
    held::HeldRoutes + placement::Placement + refusal::Refusals + replay::Replay + resync::Resync
{
    /// Background work.
    fn run_slice(&mut self, budget: &mut Budget, pool: &mut Pool, out: &mut Outbox<Output>) -> Progress;

    /// Returns true without background work.
    fn is_idle(&self) -> bool;

    /// Returns the counts of routes by standing.
    fn summary(&self) -> Summary;

    /// The number of groups with an object in the engine.
    fn objects(&self) -> usize;

    /// Returns the digests of the announced routes and groups.
    fn announced(&self) -> [Digest; 2];

    /// Returns true if the owner announced a route of a prefix.
    fn is_announced(&self, prefix: IpPrefix) -> bool;
}

impl<P: TableKey + IpKey> Side for Fib<P> {
    fn run_slice(&mut self, budget: &mut Budget, pool: &mut Pool, out: &mut Outbox<Output>) -> Progress {
        while let Some(walk) = &mut self.revisit {
            let Some((prefix, route)) = walk.next(&self.routes) else {
                self.revisit = None;
                self.end_revisit();
                break;
            };
            self.revisit_route(prefix, route, pool, out);
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        if self.run_sweep(budget, pool, out) == Progress::More {
            return Progress::More;
        }
        if self.run_unseen(budget, out) == Progress::More {
            return Progress::More;
        }
        if self.run_placement(budget, out) == Progress::More {
            return Progress::More;
        }
        self.run_recount(budget)
    }

    fn is_idle(&self) -> bool {
        let is_settled = self.sweep.is_none() && self.unseen.is_none() && self.placement.is_none();
        self.revisit.is_none() && is_settled && self.held.is_idle()
    }

    fn summary(&self) -> Summary {
        Summary { wanted: self.routes.len(), refused: self.refused }
    }

    fn objects(&self) -> usize {
        self.by_object.len()
    }

    fn announced(&self) -> [Digest; 2] {
        self.announced.digests()
    }

    fn is_announced(&self, prefix: IpPrefix) -> bool {
        self.entry(prefix).is_some_and(|(_, route)| route.is_announced())
    }
}
