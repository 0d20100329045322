//! The digest of the wanted routes of the engines beside the authority.
//!
//! Each write and removal of a route changes the digest. An event of a group (a lost next hop, a host that leaves) changes the state of
//! routes before the writing, and may leave the digest wrong. The digest is therefore counted again by a walk over the routes after each
//! such change, and once more before a different engine is suspected.

use super::Fib;
use crate::engine::{RoutePart, RouteTarget, of_route};
use crate::routes::{Route, Standing, Walk};
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, Digest, DigestKey, IpKey, IpPrefix};
use sluice_machine::{Budget, Progress};
use sluice_stage::{Cursor, TableKey};

/// The digest, and the walk of the recount.
#[derive(Clone, Debug)]
pub(super) struct HeldDigest<P> {
    key: DigestKey,
    digest: Digest,
    recount: Option<(Walk<P>, Digest)>,
}

impl<P: TableKey + IpKey> HeldDigest<P> {
    /// The digest of an empty table.
    pub(super) fn new(key: DigestKey) -> Self {
        HeldDigest { key, digest: Digest::default(), recount: None }
    }

    /// Notes a changed route by the hashes before and after.
    pub(super) fn note(&mut self, prefix: P, before: Option<u64>, after: Option<u64>) {
        self.digest.replace(before, after);
        if let Some((walk, digest)) = &mut self.recount
            && walk.has_passed(prefix)
        {
            digest.replace(before, after);
        }
    }

    /// Returns true if no recount is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.recount.is_none()
    }
}

/// The comparison of a table with an engine beside the authority.
pub(crate) trait HeldRoutes {
    /// Returns the digest of the wanted routes of engines beside the authority.
    fn held(&self) -> Digest;

    /// Counts the digest again, in the background.
    fn recount(&mut self);

    /// Returns the wanted routes of engines beside the authority after `after`, at most `limit`.
    fn held_part(&self, after: Option<IpPrefix>, limit: usize) -> RoutePart;
}

impl<P: TableKey + IpKey> HeldRoutes for Fib<P> {
    fn held(&self) -> Digest {
        self.held.digest
    }

    fn recount(&mut self) {
        self.held.recount = Some((Walk::new(), Digest::default()));
    }

    fn held_part(&self, after: Option<IpPrefix>, limit: usize) -> RoutePart {
        let cursor = after.and_then(|prefix| P::try_from(prefix).ok()).map_or(Cursor::Start, Cursor::After);
        let (mut routes, mut until) = (Vec::new(), None);
        for (visited, (prefix, route)) in self.routes.iter_after(cursor).enumerate() {
            if visited == limit {
                return RoutePart { table: self.table, family: P::FAMILY, after, until, routes };
            }
            until = Some(prefix.into());
            if let Some(target) = self.wanted_target(*route) {
                routes.push((prefix.into(), target));
            }
        }
        RoutePart { table: self.table, family: P::FAMILY, after, until: None, routes }
    }
}

impl<P: TableKey + IpKey> Fib<P> {
    /// Returns the hash of a route in engines beside the authority; `None` if absent there. A route lost by the authority and due
    /// again is still in these engines.
    pub(super) fn held_hash(&self, prefix: P, route: Route) -> Option<u64> {
        let target = self.wanted_target(route)?;
        of_route(self.held.key, AnyPrefix::of(prefix), target)
    }

    fn wanted_target(&self, route: Route) -> Option<RouteTarget> {
        let group = self.root(route.group()).filter(|group| group.dead.is_none())?;
        let is_held = route.standing() != Standing::Refused;
        Some(group.target()).filter(|target| is_held && *target != RouteTarget::Other)
    }

    /// Records the new `group` of a prefix's route, whose former hash was `before`.
    pub(super) fn note_held(&mut self, prefix: P, before: Option<u64>, group: u32, standing: Standing) {
        let after = self.held_hash(prefix, Route::new(group, true, standing));
        if before != after {
            self.held.note(prefix, before, after);
        }
    }

    /// Goes on with a recount.
    pub(super) fn run_recount(&mut self, budget: &mut Budget) -> Progress {
        while let Some((walk, _)) = &mut self.held.recount {
            let Some((prefix, route)) = walk.next(&self.routes) else {
                if let Some((_, digest)) = self.held.recount.take() {
                    self.held.digest = digest;
                }
                break;
            };
            let hash = self.held_hash(prefix, route);
            if let Some((_, digest)) = &mut self.held.recount {
                digest.replace(None, hash);
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        Progress::Done
    }
}
