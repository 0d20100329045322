//! Routes of the kernel itself and of other programs. The kernel forwards by such a route where it precedes Sluice's route of
//! the same prefix; the fast path then passes the prefix's packets up.

use crate::engine::PREFERENCE;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{IpPrefix, TableId};
use smallvec::SmallVec;

/// A route that is not Sluice's, by its key in the kernel's tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ForeignRoute {
    /// The prefix.
    pub prefix: IpPrefix,
    /// The table.
    pub table: TableId,
    /// The preference among routes of one prefix and table; lower is better (`RTA_PRIORITY`).
    pub metric: u32,
}

/// The order of a prefix's foreign routes and Sluice's route in the kernel's look-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Precedence {
    /// A foreign route precedes Sluice's.
    Before,
    /// Sluice's route, if there is one, precedes the foreign ones.
    After,
}

impl ForeignRoute {
    /// Returns the precedence; `None` for a route in a table that the kernel does not consult without further rules.
    fn precedence(table: TableId, metric: u32) -> Option<Precedence> {
        match table {
            TableId::LOCAL => Some(Precedence::Before),
            TableId::MAIN if metric <= PREFERENCE => Some(Precedence::Before),
            TableId::MAIN | TableId::DEFAULT => Some(Precedence::After),
            _ => None,
        }
    }
}

/// The foreign routes of the tables that the kernel consults. Several routes may have one key: they differ by type of
/// service or, in IPv6, by next hop.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignRoutes(BTreeMap<IpPrefix, SmallVec<[(TableId, u32); 2]>>);

impl ForeignRoutes {
    /// Adds a route. Returns the prefix if its precedence changed. `replaces`: the route takes the place of one with the same key.
    pub(crate) fn add(&mut self, route: ForeignRoute, replaces: bool) -> Option<IpPrefix> {
        ForeignRoute::precedence(route.table, route.metric)?;
        let before = self.precedence(route.prefix);
        let keys = self.0.entry(route.prefix).or_default();
        let key = (route.table, route.metric);
        if !replaces || !keys.contains(&key) {
            keys.push(key);
        }
        (self.precedence(route.prefix) != before).then_some(route.prefix)
    }

    /// Removes one route with this key. Returns the prefix if its precedence changed.
    pub(crate) fn remove(&mut self, route: ForeignRoute) -> Option<IpPrefix> {
        let before = self.precedence(route.prefix);
        let keys = self.0.get_mut(&route.prefix)?;
        let place = keys.iter().position(|key| *key == (route.table, route.metric))?;
        keys.swap_remove(place);
        if keys.is_empty() {
            self.0.remove(&route.prefix);
        }
        (self.precedence(route.prefix) != before).then_some(route.prefix)
    }

    /// Replaces all routes, as after lost notices. Returns the prefixes whose precedence changed.
    pub(crate) fn replace_all(&mut self, routes: impl Iterator<Item = ForeignRoute>) -> Vec<IpPrefix> {
        let old = core::mem::take(self);
        for route in routes {
            self.add(route, false);
        }
        let prefixes = old.0.keys().chain(self.0.keys().filter(|prefix| !old.0.contains_key(*prefix)));
        prefixes.filter(|prefix| old.precedence(**prefix) != self.precedence(**prefix)).copied().collect()
    }

    /// Returns the precedence of a prefix's first foreign route; `None` without foreign routes.
    pub(crate) fn precedence(&self, prefix: IpPrefix) -> Option<Precedence> {
        let keys = self.0.get(&prefix)?;
        keys.iter().filter_map(|(table, metric)| ForeignRoute::precedence(*table, *metric)).min()
    }

    /// Returns true if a prefix is local: its addresses are the host's own, or broadcast addresses.
    pub(crate) fn is_local(&self, prefix: IpPrefix) -> bool {
        self.0.get(&prefix).is_some_and(|keys| keys.iter().any(|(table, _)| *table == TableId::LOCAL))
    }

    /// Iterates over the prefixes with foreign routes.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = IpPrefix> {
        self.0.keys().copied()
    }

    /// Returns the number of prefixes with foreign routes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn route(prefix: &str, table: TableId, metric: u32) -> ForeignRoute {
        ForeignRoute { prefix: prefix.parse().unwrap(), table, metric }
    }

    #[test]
    fn the_first_route_decides() {
        let mut routes = ForeignRoutes::default();
        let prefix = "10.0.0.0/24".parse().unwrap();
        let (late, early) =
            (route("10.0.0.0/24", TableId::MAIN, 256), route("10.0.0.0/24", TableId::MAIN, 0));
        assert_eq!(routes.add(late, false), Some(prefix));
        assert_eq!(routes.precedence(prefix), Some(Precedence::After));
        assert_eq!(routes.add(early, false), Some(prefix));
        assert_eq!(routes.precedence(prefix), Some(Precedence::Before));
        assert_eq!(routes.add(early, true), None, "a replacement is no second route");
        assert_eq!(routes.remove(early), Some(prefix));
        assert_eq!(routes.remove(early), None);
        assert_eq!(routes.remove(late), Some(prefix));
        assert_eq!((routes.precedence(prefix), routes.len()), (None, 0));
        assert_eq!(routes.add(route("10.0.0.0/24", TableId(100), 0), false), None);
        assert_eq!(routes.len(), 0);
    }

    #[test]
    fn two_routes_of_one_key_are_two() {
        let mut routes = ForeignRoutes::default();
        let multipath = route("2001:db8::/32", TableId::MAIN, 1);
        assert_eq!(routes.add(multipath, false), Some(multipath.prefix));
        assert_eq!(routes.add(multipath, false), None);
        assert_eq!(routes.remove(multipath), None);
        assert_eq!(routes.remove(multipath), Some(multipath.prefix));
    }

    #[test]
    fn a_snapshot_names_the_changes_only() {
        let mut routes = ForeignRoutes::default();
        let kept = route("10.0.0.0/24", TableId::MAIN, 0);
        let gone = route("10.0.1.0/24", TableId::MAIN, 0);
        let new = route("10.0.2.0/24", TableId::LOCAL, 0);
        routes.add(kept, false);
        routes.add(gone, false);
        assert_eq!(routes.replace_all([kept, new].into_iter()), vec![gone.prefix, new.prefix]);
        assert_eq!(routes.replace_all([kept, new].into_iter()), vec![]);
    }
}
