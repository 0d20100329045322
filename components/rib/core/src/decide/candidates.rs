//! The routes that may reach a gateway, in the order in which they are tried.

use super::candidate::Candidate;
use super::family::FamilyRib;
use crate::entry::routes::Shared;
use crate::entry::{Entry, Path};
use crate::policy::{Chain, Outcome};
use sluice_base::{AnyPrefix, Prefix};
use sluice_stage::TableKey;
use smallvec::SmallVec;

impl Shared {
    /// Returns true if next hops may be resolved through a path. An external origin's route that drops packets resolves none: it is the
    /// origin's own, such as an aggregate.
    fn may_resolve(&self, path: &Path) -> bool {
        let drops = self.sets.slot(path.set).set.forwarding.next_hops().is_empty();
        self.is_allowed(path) && !(drops && self.origin(path.origin).external)
    }

    /// Returns true if a policy lets a path resolve next hops. Policies decide on routes of IP only, and not on the subnets of interfaces.
    fn lets_resolve<P: Prefix>(&self, policy: &Chain, prefix: P, path: &Path) -> bool {
        let Some(prefix) = AnyPrefix::of(prefix).ip() else { return true };
        self.origin(path.origin).connected
            || !matches!(self.decide_policy(policy, path.origin, prefix, path.set), Outcome::Rejected(_))
    }
}

impl<P: TableKey> FamilyRib<P> {
    /// Returns the routes that may reach an address, the preferred one first. On the subnet of an interface no external origin has a say,
    /// however specific its routes: a neighbor must not be able to draw the traffic for other neighbors to itself.
    pub(crate) fn routes_to(
        &self,
        shared: &Shared,
        policy: Option<&Chain>,
        addr: P::Addr,
    ) -> SmallVec<[Candidate; 8]> {
        let covering: SmallVec<[(P, &Entry); 8]> = self.entries.covering(P::host(addr)).collect();
        let mut found: SmallVec<[Candidate; 8]> = SmallVec::new();
        for (prefix, entry) in covering.into_iter().rev() {
            let is_candidate = |path: &&Path| {
                shared.may_resolve(path)
                    && policy.is_none_or(|policy| shared.lets_resolve(policy, prefix, path))
            };
            let mut paths: SmallVec<[&Path; 4]> = entry.paths().iter().filter(is_candidate).collect();
            paths.sort_unstable_by_key(|path| shared.rank(path));
            let candidate =
                |path: &Path| Candidate { prefix: AnyPrefix::of(prefix), set: path.set, origin: path.origin };
            let is_subnet = paths.iter().any(|path| shared.origin(path.origin).connected);
            found.extend(paths.into_iter().map(candidate));
            if is_subnet {
                found.retain(|candidate| !shared.origin(candidate.origin).external);
            }
        }
        found
    }
}
