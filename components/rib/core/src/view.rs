//! What an operator sees: routes in pages, a look-up, a summary.

use crate::entry::{Entry, Path};
use crate::machine::Rib;
use crate::table::{RibKey, Table};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{
    Distance, Family, Forwarding, IpPrefix, Ipv4Prefix, Ipv6Prefix, Metric, Prefix, Provenance, TableId, Tag,
};
use sluice_stage::Cursor;

/// An interest answer for an address of either family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpInterest {
    /// The range for which it holds.
    pub valid: IpPrefix,
    /// The route; `None` if the address cannot be reached.
    pub route: Option<ResolvingRoute<IpPrefix>>,
}

impl<P: Prefix> From<InterestAnswer<P>> for IpInterest {
    fn from(a: InterestAnswer<P>) -> Self {
        IpInterest {
            valid: a.valid.into(),
            route: a.route.map(|r| ResolvingRoute {
                prefix: r.prefix.into(),
                metric: r.metric,
                distance: r.distance,
                connected: r.connected,
                forwarding: r.forwarding,
            }),
        }
    }
}

/// A route as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteView {
    /// Its prefix.
    pub prefix: IpPrefix,
    /// Its origin's name.
    pub origin: String,
    /// How much it is trusted.
    pub distance: Distance,
    /// Its protocol's cost.
    pub metric: Metric,
    /// For policy.
    pub tag: Tag,
    /// Whether it is used for its prefix.
    pub selected: bool,
    /// Whether it belongs to an earlier life of its origin.
    pub stale: bool,
    /// The event that brought it.
    pub provenance: Provenance,
    /// As announced.
    pub announced: Forwarding,
    /// Where it leads; `None`: nowhere.
    pub resolved: Option<Forwarding>,
    /// Why the engine refused it.
    pub rejected: Option<String>,
}

/// Which routes a page shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageQuery {
    /// Only inside this prefix.
    pub within: Option<IpPrefix>,
    /// Only this prefix.
    pub exact: Option<IpPrefix>,
    /// Only of this origin.
    pub origin: Option<String>,
    /// After this prefix.
    pub after: Option<IpPrefix>,
    /// At most this many prefixes.
    pub limit: usize,
}

/// Counts of a table's family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The table.
    pub table: TableId,
    /// The family.
    pub family: Family,
    /// Prefixes with any route.
    pub prefixes: u64,
    /// Prefixes with a selected route.
    pub selected: u64,
    /// Next-hop groups of both families.
    pub groups: u64,
    /// Interest answers that hold.
    pub interests: u64,
    /// Origins: name, distance, routes of this family, stale ones of both.
    pub origins: Vec<(String, Distance, u64, u64)>,
}

fn show<P: RibKey>(table: &Table, prefix: P, entry: &Entry, path: &Path) -> RouteView {
    let slot = table.shared.sets.slot(path.set);
    let origin = table.shared.origin(path.origin);
    let selected = entry.selected().is_some_and(|s| s.origin == path.origin);
    RouteView {
        prefix: prefix.into(),
        origin: origin.name.clone(),
        distance: table.shared.distance(path),
        metric: slot.set.metric,
        tag: slot.set.tag,
        selected,
        stale: path.generation != origin.generation,
        provenance: path.provenance,
        announced: slot.set.forwarding.clone(),
        resolved: table.shared.groups.group(slot.group).resolved.clone(),
        rejected: if selected { P::family(table).rejection(prefix).map(Into::into) } else { None },
    }
}

fn page<P: RibKey + TryFrom<IpPrefix>>(table: &Table, query: &PageQuery) -> (Vec<RouteView>, bool) {
    let entries = P::family(table).entries();
    let narrow = |p: Option<IpPrefix>| p.and_then(|p| P::try_from(p).ok());
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
        let shown = entry.paths().iter().map(|path| show(table, prefix, entry, path));
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

impl Rib {
    /// A page of routes, and whether more follow.
    pub fn routes(&self, table: TableId, family: Family, query: &PageQuery) -> (Vec<RouteView>, bool) {
        match (self.table(table), family) {
            (Some(t), Family::Ipv4) => page::<Ipv4Prefix>(t, query),
            (Some(t), Family::Ipv6) => page::<Ipv6Prefix>(t, query),
            (None, _) => (Vec::new(), false),
        }
    }

    /// The route that an address is forwarded by.
    pub fn lookup(&self, table: TableId, addr: IpAddr) -> Option<RouteView> {
        fn best<P: RibKey>(table: &Table, addr: P::Addr) -> Option<RouteView> {
            let mut best = None;
            for (prefix, entry) in P::family(table).entries().covering(P::host(addr)) {
                if let Some(path) = entry.selected() {
                    best = Some(show(table, prefix, entry, path));
                }
            }
            best
        }
        let table = self.table(table)?;
        match addr {
            IpAddr::V4(a) => best::<Ipv4Prefix>(table, V4Addr(a)),
            IpAddr::V6(a) => best::<Ipv6Prefix>(table, V6Addr(a)),
        }
    }

    /// Counts of all tables and families.
    pub fn summary(&self) -> Vec<Summary> {
        fn of<P: RibKey>(table: &Table) -> Summary {
            let family = P::family(table);
            let origins = table.shared.origins.iter().enumerate().map(|(number, o)| {
                let routes = family.route_count(crate::OriginId(number as u16));
                (o.name.clone(), o.distance, routes, o.stale)
            });
            Summary {
                table: table.id,
                family: P::FAMILY,
                prefixes: family.entries().len() as u64,
                selected: family.selected_count(),
                groups: table.shared.groups.len() as u64,
                interests: (family.interests_internal.len() + family.interests_all.len()) as u64,
                origins: origins.collect(),
            }
        }
        self.tables().flat_map(|t| [of::<Ipv4Prefix>(t), of::<Ipv6Prefix>(t)]).collect()
    }
}
