//! The authority's routes: all, or the internal routes and a list. Further routes are *beside*: in the engines beside the authority only.
//!
//! A route records where it is. A write puts the route into the selected engines; after a change of the selection, a walk
//! writes the misplaced routes. The groups are in every engine. The authority has each route answered as unreachable: the engines beside
//! leave the answers to the authority.

use super::Fib;
use super::group::Content;
use crate::engine::{AuthorityRoutes, Scope};
use crate::output::Output;
use crate::routes::{Route, Standing, Walk};
use sluice_base::{IpKey, Provenance};
use sluice_machine::{Budget, Outbox, Progress};
use sluice_stage::TableKey;

/// The selection of the authority's routes.
pub(crate) trait Placement {
    /// Changes the selection. The routes follow in the background.
    fn select_routes(&mut self, selection: &AuthorityRoutes);
}

impl<P: TableKey + IpKey> Placement for Fib<P> {
    fn select_routes(&mut self, selection: &AuthorityRoutes) {
        if self.selection != *selection {
            self.selection = selection.clone();
            self.placement = Some(Walk::new());
        }
    }
}

impl<P: TableKey + IpKey> Fib<P> {
    /// Returns true if only the engines beside the authority are to have a route of `group`.
    pub(super) fn belongs_beside(&self, prefix: P, group: u32, is_external: bool) -> bool {
        !self.selection.takes(prefix, is_external)
            && self.root(group).is_some_and(|group| group.content != Content::Unreachable)
    }

    /// Returns true if the route is placed by the selection.
    pub(super) fn is_in_place(&self, prefix: P, route: Route) -> bool {
        self.belongs_beside(prefix, route.group(), route.is_external()) == route.is_beside()
    }

    /// Moves routes by the selection.
    pub(super) fn run_placement(&mut self, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        while let Some(walk) = &mut self.placement {
            let Some((prefix, route)) = walk.next(&self.routes) else {
                self.placement = None;
                break;
            };
            if !self.is_in_place(prefix, route) {
                self.place(prefix, route, out);
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        Progress::Done
    }

    fn place(&mut self, prefix: P, route: Route, out: &mut Outbox<Output>) {
        let is_dead = self.root(route.group()).is_none_or(|group| group.dead.is_some());
        if is_dead && route.standing() == Standing::Refused {
            // No engine has the route, and its owner knows.
            let is_beside = !route.is_beside();
            if let Some(route) = self.routes.get_mut(prefix) {
                route.set_beside(is_beside);
            }
            return;
        }
        let replace = route.standing() != Standing::Refused;
        self.write(prefix, route.group(), replace, Provenance::NONE, out);
    }
}

impl Route {
    /// Returns the present or wanted engines of the route.
    pub(super) const fn scope(self) -> Scope {
        if self.is_beside() { Scope::Beside } else { Scope::All }
    }
}
