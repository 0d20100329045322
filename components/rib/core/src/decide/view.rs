//! The operator's view: routes in pages, a look-up, a summary.

use super::family::FamilyRib;
use crate::entry::routes::Shared;
use crate::entry::{Entry, Path};
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Address, AnyPrefix, Distance, FamilyId, Forwarding, Metric, Prefix, Provenance, TableId, Tags,
};
use sluice_stage::{Cursor, TableKey};

/// An interest answer for an address of any family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnyInterest {
    /// The range of the answer.
    pub valid: AnyPrefix,
    /// The route; `None` if the address cannot be reached.
    pub route: Option<ResolvingRoute<AnyPrefix>>,
}

impl<P: Prefix> From<InterestAnswer<P>> for AnyInterest {
    fn from(a: InterestAnswer<P>) -> Self {
        AnyInterest {
            valid: AnyPrefix::of(a.valid),
            route: a.route.map(|r| ResolvingRoute {
                prefix: AnyPrefix::of(r.prefix),
                metric: r.metric,
                distance: r.distance,
                connected: r.connected,
                forwarding: r.forwarding,
            }),
        }
    }
}

/// A route for display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteView {
    /// The route's prefix.
    pub prefix: AnyPrefix,
    /// The origin's name.
    pub origin: String,
    /// The administrative distance.
    pub distance: Distance,
    /// The protocol's cost.
    pub metric: Metric,
    /// The name of the route's kind within its origin.
    pub kind: Option<String>,
    /// For policy.
    pub tags: Tags,
    /// True if the route is used for its prefix.
    pub selected: bool,
    /// True if the route belongs to an earlier life of its origin.
    pub stale: bool,
    /// The event that created the route.
    pub provenance: Provenance,
    /// As announced.
    pub announced: Forwarding<Address>,
    /// The next hops resolved to interfaces; `None`: unresolved.
    pub resolved: Option<Forwarding<Address>>,
    /// The engine's reason for refusing the route.
    pub rejected: Option<String>,
    /// The reason of a policy that rejected the route.
    pub rejected_by_policy: Option<String>,
}

/// Which routes a page shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageQuery {
    /// Limits the routes to those inside a prefix.
    pub within: Option<AnyPrefix>,
    /// Limits the routes to a single prefix.
    pub exact: Option<AnyPrefix>,
    /// Limits the routes to an origin.
    pub origin: Option<String>,
    /// Limits the routes to those after a prefix.
    pub after: Option<AnyPrefix>,
    /// The largest number of prefixes.
    pub limit: usize,
}

/// Counts of a table's family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The table.
    pub table: TableId,
    /// The family.
    pub family: FamilyId,
    /// Prefixes with any route.
    pub prefixes: u64,
    /// Prefixes with a selected route.
    pub selected: u64,
    /// Next-hop groups of the families together.
    pub groups: u64,
    /// Valid interest answers.
    pub interests: u64,
    /// Origins: name, distance, routes of the family, stale routes of every family.
    pub origins: Vec<(String, Distance, u64, u64)>,
}

/// Shows a route of a prefix.
pub(crate) fn show<P: TableKey>(
    family: &FamilyRib<P>,
    shared: &Shared,
    prefix: P,
    entry: &Entry,
    path: &Path,
) -> RouteView {
    let slot = shared.sets.slot(path.set);
    let origin = shared.origin(path.origin);
    let selected = entry.selected().is_some_and(|s| s.origin == path.origin);
    RouteView {
        prefix: AnyPrefix::of(prefix),
        origin: origin.name.clone(),
        distance: shared.distance(path),
        metric: slot.set.metric,
        kind: slot.set.kind.name(&origin.kinds).map(Into::into),
        tags: slot.set.tags.clone(),
        selected,
        stale: path.generation != origin.generation,
        provenance: path.provenance,
        announced: slot.set.forwarding.clone(),
        resolved: shared.groups.group(slot.group).resolved.clone(),
        rejected: if selected { family.rejection(prefix).map(Into::into) } else { None },
        rejected_by_policy: slot.rejection().map(Into::into),
    }
}

/// Shows a page of a family's routes, and whether more follow.
pub(crate) fn page<P: TableKey>(
    family: &FamilyRib<P>,
    shared: &Shared,
    query: &PageQuery,
) -> (Vec<RouteView>, bool) {
    let entries = family.entries();
    let narrow = |p: Option<AnyPrefix>| p.and_then(AnyPrefix::to::<P>);
    let within = narrow(query.exact.or(query.within)).unwrap_or(P::default_route());
    let mut routes = Vec::new();
    let mut prefixes = 0;
    let start = match narrow(query.after) {
        Some(after) => Cursor::After(after),
        None => Cursor::Start,
    };
    // A page inside a prefix begins at the prefix, wherever the table begins.
    let inside = entries.covered(within).skip_while(|(p, _)| match start {
        Cursor::After(after) => *p <= after,
        Cursor::Start => false,
    });
    let whole = entries.iter_after(start);
    let mut walk = |(prefix, entry): (P, &Entry)| -> bool {
        if query.exact.is_some() && prefix != within {
            return true;
        }
        let first = routes.len();
        let shown = entry.paths().iter().map(|path| show(family, shared, prefix, entry, path));
        routes.extend(shown.filter(|view| query.origin.as_ref().is_none_or(|o| *o == view.origin)));
        if routes.len() == first {
            return true;
        }
        if prefixes == query.limit {
            routes.truncate(first);
            return false;
        }
        // In the order of preference, whichever came first.
        let preference = |v: &RouteView| (!v.selected, v.distance, v.metric, v.origin.clone());
        routes[first..].sort_by_cached_key(preference);
        prefixes += 1;
        true
    };
    let complete = match query.exact.is_some() || query.within.is_some() {
        true => inside.into_iter().all(&mut walk),
        false => whole.into_iter().all(&mut walk),
    };
    (routes, !complete)
}
