//! The reaction to a refusal or a loss in the engine: the group does without a member, a route is refused to the
//! owner, a vanished object is written again.

use super::Fib;
use crate::engine::{NextHopId, Refusal, RefusalKind, RouteTarget, Scope};
use crate::members::Pool;
use crate::output::Output;
use crate::routes::{Route, Standing};
use sluice_base::{IpKey, IpPrefix, Provenance};
use sluice_machine::Outbox;
use sluice_stage::TableKey;

/// A route refused by the engine.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRoute {
    pub(crate) prefix: IpPrefix,
    pub(crate) target: RouteTarget,
    pub(crate) replace: bool,
    pub(crate) provenance: Provenance,
    pub(crate) refusal: Refusal,
}

/// The handling of refusals and losses by a table.
pub(crate) trait Refusals {
    /// A member died or came back: the groups are written with the living members. `round` counts rounds of refusals.
    fn member_changed(&mut self, member: u32, round: u64, pool: &mut Pool, out: &mut Outbox<Output>);

    /// A group was refused.
    fn group_refused(
        &mut self,
        id: NextHopId,
        refusal: &Refusal,
        round: u64,
        pool: &mut Pool,
        out: &mut Outbox<Output>,
    );

    /// A route was refused.
    fn route_refused(&mut self, refused: RefusedRoute, round: u64, out: &mut Outbox<Output>);

    /// The engine lost the group and the group's routes.
    fn group_lost(&mut self, id: NextHopId);

    /// Writes a damaged group again. Returns true for a group of this table.
    fn rewrite_group(&mut self, id: NextHopId, pool: &mut Pool, out: &mut Outbox<Output>) -> bool;
}

impl<P: TableKey + IpKey> Refusals for Fib<P> {
    fn member_changed(&mut self, member: u32, round: u64, pool: &mut Pool, out: &mut Outbox<Output>) {
        let mut any = false;
        for n in 0..self.groups.end() {
            if let Some(group) =
                self.groups.get_mut(n).filter(|g| g.host.is_none() && g.depends_on(member, pool))
            {
                group.rewritten = round;
                // The engine drops a group with its last member, and its routes with it: the backups make a new one.
                group.gone |= group.lost_last_primary(member, pool);
                group.write(pool, out);
                any = true;
            }
        }
        if any {
            self.settle_guests(pool, out);
            self.start_revisit();
        }
    }

    fn group_refused(
        &mut self,
        id: NextHopId,
        refusal: &Refusal,
        round: u64,
        pool: &mut Pool,
        out: &mut Outbox<Output>,
    ) {
        let Some(group) = self.by_object.get(&id).and_then(|n| self.groups.get_mut(*n)) else { return };
        if group.rewritten == round {
            return;
        }
        if group.retried {
            group.mark_unusable(refusal.clone(), out);
            self.settle_guests(pool, out);
            self.start_revisit();
            return;
        }
        (group.retried, group.rewritten) = (true, round);
        // A member may have gone unnoticed, and the group and its routes with it.
        group.gone = true;
        group.content.members().iter().for_each(|m| pool.rewrite(m.number, out));
        group.write(pool, out);
        self.settle_guests(pool, out);
        self.start_revisit();
    }

    fn route_refused(&mut self, refused: RefusedRoute, round: u64, out: &mut Outbox<Output>) {
        let Some((prefix, route)) = self.entry(refused.prefix) else { return };
        let Some(group) = self.root(route.group()).filter(|g| g.target() == refused.target) else {
            return;
        };
        if group.rewritten == round || group.dead.is_some() {
            // It met an object that was not there; it is tried with the new one, or refused for the group's reason.
            self.write(prefix, route.group(), refused.replace, refused.provenance, out);
            return;
        }
        let before = self.held_hash(prefix, route);
        self.stand(prefix, route.group(), Standing::Refused);
        self.note_held(prefix, before, route.group(), Standing::Refused);
        // What is refused is not there: the route that it was to replace goes too. Engines beside the authority may have the route
        // although the authority had none: it has begun to take the route.
        let is_replaced = refused.replace && refused.refusal.kind != RefusalKind::Exists;
        let scope = if is_replaced { Scope::All } else { Scope::Beside };
        out.push(self.delete_op(prefix, scope, refused.provenance));
        out.push(self.rejected(prefix, refused.provenance, &refused.refusal.reason));
    }

    fn group_lost(&mut self, id: NextHopId) {
        if let Some(group) = self.by_object.get(&id).and_then(|n| self.groups.get_mut(*n)) {
            group.gone = true;
        }
    }

    fn rewrite_group(&mut self, id: NextHopId, pool: &mut Pool, out: &mut Outbox<Output>) -> bool {
        let Some(group) = self.by_object.get(&id).and_then(|n| self.groups.get_mut(*n)) else { return false };
        if group.dead.is_none() {
            group.content.members().iter().for_each(|m| pool.rewrite_living(m.number, out));
            group.write(pool, out);
            self.settle_guests(pool, out);
            self.start_revisit();
        }
        true
    }
}

impl<P: TableKey + IpKey> Fib<P> {
    /// The route for a prefix of either family.
    pub(super) fn entry(&self, prefix: IpPrefix) -> Option<(P, Route)> {
        let prefix = P::try_from(prefix).ok()?;
        self.routes.get(prefix).map(|route| (prefix, *route))
    }
}
