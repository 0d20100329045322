//! Routes of the kernel itself and of foreign programs with precedence over Sluice's route of the same prefix.

use crate::engine::OtherRoute;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{InterfaceIndex, IpPrefix, TableId};
use smallvec::SmallVec;

/// The most foreign routes compared with Sluice's at a time.
const MOST_SEARCHED: usize = 100_000;

/// The most overriding routes counted in a sentence.
pub(crate) const MOST_COUNTED: usize = 100;

/// Routes; routes of one prefix have distinct metrics.
type Routes = BTreeMap<(TableId, IpPrefix), SmallVec<[OtherRoute; 1]>>;

/// The routes, as many as the kernel has.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherRoutes {
    routes: Routes,
    /// The routes of the running snapshot.
    snapshot: Option<Routes>,
}

impl OtherRoutes {
    /// Adds a route, or replaces the route with the same key.
    pub(crate) fn add(&mut self, route: OtherRoute) {
        for routes in self.each() {
            let all = routes.entry((route.table, route.prefix)).or_default();
            all.retain(|known| known.metric != route.metric);
            all.push(route);
        }
    }

    /// Removes a route, or a part of the next hops.
    pub(crate) fn remove(&mut self, route: OtherRoute) {
        let key = (route.table, route.prefix);
        for routes in self.each() {
            let Some(all) = routes.get_mut(&key) else { continue };
            for known in all.iter_mut().filter(|known| known.metric == route.metric) {
                known.next_hops = known.next_hops.saturating_sub(route.next_hops);
            }
            all.retain(|known| known.next_hops > 0);
            if all.is_empty() {
                routes.remove(&key);
            }
        }
    }

    /// Removes the routes of an interface that disappeared or was switched off: the kernel drops IPv4 routes there without a notice.
    pub(crate) fn remove_on(&mut self, interface: InterfaceIndex) {
        for routes in self.each() {
            routes.retain(|_, all| {
                all.retain(|known| known.interface != Some(interface));
                !all.is_empty()
            });
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Routes> {
        core::iter::once(&mut self.routes).chain(&mut self.snapshot)
    }

    /// A snapshot begins.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshot = Some(BTreeMap::new());
    }

    /// Ends a snapshot: routes not shown are gone.
    pub(crate) fn end_snapshot(&mut self) {
        if let Some(routes) = self.snapshot.take() {
            self.routes = routes;
        }
    }

    /// Returns the first route of each prefix for which `is_ours` is true, and at most `most` of them.
    pub(crate) fn overriding(
        &self,
        is_ours: impl Fn(TableId, IpPrefix) -> bool,
        most: usize,
    ) -> Vec<OtherRoute> {
        let searched = self.routes.iter().take(MOST_SEARCHED);
        let ours = searched.filter(|((table, prefix), _)| is_ours(*table, *prefix));
        ours.filter_map(|(_, all)| all.iter().min_by_key(|route| route.metric).copied()).take(most).collect()
    }
}

/// Returns a sentence about overriding routes, possibly more than [`MOST_COUNTED`]; `None` without such routes.
pub(crate) fn in_words(all: &[OtherRoute]) -> Option<String> {
    let OtherRoute { prefix, protocol, .. } = all.first()?;
    let count = match all.len() {
        1 => "the route".into(),
        count @ ..=MOST_COUNTED => format!("{count} routes, such as that"),
        _ => format!("more than {MOST_COUNTED} routes, such as that"),
    };
    Some(format!(
        "the kernel does not use {count} to {prefix}: a route of another program (protocol {protocol}) precedes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(prefix: &str, metric: u32, next_hops: u32) -> OtherRoute {
        let prefix = prefix.parse().unwrap();
        let interface = InterfaceIndex::new(1 + metric);
        OtherRoute { table: TableId::MAIN, prefix, metric, protocol: 16, interface, next_hops }
    }

    #[test]
    fn the_first_route_of_a_prefix_counts() {
        let mut others = OtherRoutes::default();
        let all = |others: &OtherRoutes| others.overriding(|_, _| true, 10);
        others.add(route("0.0.0.0/0", 10, 1));
        others.add(route("0.0.0.0/0", 0, 1));
        assert_eq!(all(&others), [route("0.0.0.0/0", 0, 1)]);
        others.remove(route("0.0.0.0/0", 0, 1));
        assert_eq!(all(&others), [route("0.0.0.0/0", 10, 1)]);
        others.add(route("2001:db8::/32", 1, 2));
        others.remove(route("2001:db8::/32", 1, 1));
        assert_eq!(all(&others).len(), 2, "a next hop is left");
        assert_eq!(others.overriding(|_, prefix| prefix.len() > 0, 10).len(), 1);
        assert_eq!(others.overriding(|_, _| true, 1).len(), 1);
        others.remove(route("2001:db8::/32", 1, 1));
        // What a snapshot does not show is gone; what comes meanwhile counts.
        others.begin_snapshot();
        others.add(route("10.0.0.0/8", 0, 1));
        assert_eq!(all(&others).len(), 2);
        others.end_snapshot();
        others.add(route("10.0.0.0/8", 1, 1));
        others.remove_on(InterfaceIndex::new(1).unwrap());
        assert_eq!(all(&others), [route("10.0.0.0/8", 1, 1)]);
    }
}
