//! The groups and routes of the authority, and the routes beside the authority only, for an engine that joins beside the authority.

use super::{Fib, Group};
use crate::engine::{EngineOp, RouteTarget};
use crate::members::Pool;
use crate::output::Apply;
use crate::routes::{Route, Standing};
use core::ops::ControlFlow;
use sluice_base::{IpKey, IpPrefix, Provenance};
use sluice_machine::Budget;
use sluice_stage::{Cursor, TableKey};

/// The replay of a table to an engine.
pub(crate) trait Replay {
    /// Replays the groups from number `from` on. Breaks with the number to go on from.
    fn replay_groups(
        &self,
        from: u32,
        pool: &Pool,
        budget: &mut Budget,
        apply: Apply<'_>,
    ) -> ControlFlow<u32>;

    /// Replays the routes after `after`. Breaks with the prefix to go on after.
    fn replay_routes(
        &self,
        after: Option<IpPrefix>,
        budget: &mut Budget,
        apply: Apply<'_>,
    ) -> ControlFlow<IpPrefix>;
}

impl<P: TableKey + IpKey> Replay for Fib<P> {
    fn replay_groups(
        &self,
        from: u32,
        pool: &Pool,
        budget: &mut Budget,
        apply: Apply<'_>,
    ) -> ControlFlow<u32> {
        for n in from..self.groups.end() {
            if let Some(group) = self.groups.get(n).filter(|g| g.is_held())
                && let Some(id) = group.object
            {
                apply(EngineOp::SetGroup { id, members: group.content.live(pool), create: true });
            }
            if !budget.spend(1) {
                return ControlFlow::Break(n + 1);
            }
        }
        ControlFlow::Continue(())
    }

    fn replay_routes(
        &self,
        after: Option<IpPrefix>,
        budget: &mut Budget,
        apply: Apply<'_>,
    ) -> ControlFlow<IpPrefix> {
        let cursor = after.and_then(|prefix| P::try_from(prefix).ok()).map_or(Cursor::Start, Cursor::After);
        for (prefix, route) in self.routes.iter_after(cursor) {
            if let Some(target) = self.held_target(*route) {
                let (table, prefix, provenance) = (self.table, prefix.into(), Provenance::NONE);
                let scope = route.scope();
                apply(EngineOp::SetRoute { table, prefix, target, replace: true, scope, provenance });
            }
            if !budget.spend(1) {
                return ControlFlow::Break(prefix.into());
            }
        }
        ControlFlow::Continue(())
    }
}

impl<P: TableKey + IpKey> Fib<P> {
    /// Returns the target of a route in the authority, or in the engines beside; `None` for an absent route, and for a route found in
    /// the authority with a target that cannot be requested. An operation on such a route follows when the route is repaired or announced.
    /// Requires that no walk over due routes is under way.
    fn held_target(&self, route: Route) -> Option<RouteTarget> {
        let group = self.root(route.group()).filter(|_| route.standing() == Standing::Installed)?;
        match group.target() {
            RouteTarget::Group(id) => group.is_held().then_some(RouteTarget::Group(id)),
            RouteTarget::Unreachable => Some(RouteTarget::Unreachable),
            RouteTarget::Other => None,
        }
    }
}

impl Group {
    /// Returns true if the authority holds the group's object.
    fn is_held(&self) -> bool {
        self.object.is_some() && self.written && !self.gone && self.dead.is_none()
    }
}
