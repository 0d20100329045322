//! The routes of one table and family: four octets each, beside the prefix.

use sluice_base::IpKey;
use sluice_stage::{Cursor, PrefixTable, TableKey};

/// A route: its group's number, and its standing in the bits above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route(u32);

/// The known standing of a route in the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The engine has the route as wanted.
    Installed,
    /// The route must be written; an older route may stand in its place.
    Due,
    /// The engine refused the route, and the owner was notified.
    Refused,
}

/// The number above the highest number of a group. A group has an object in the engine, which needs more octets than there are bits left.
pub(crate) const GROUPS: u32 = 1 << 26;
const EXTERNAL: u32 = 1 << 26;
const BESIDE: u32 = 1 << 27;
const ANNOUNCED: u32 = 1 << 28;
const SEEN: u32 = 1 << 29;
const DUE: u32 = 1 << 30;
const REFUSED: u32 = 1 << 31;

impl Route {
    /// Makes a route that was seen or is about to be written.
    pub(crate) fn new(group: u32, announced: bool, standing: Standing) -> Self {
        let mut route = Route(SEEN);
        route.set_group(group);
        route.set_announced(announced);
        route.set_standing(standing);
        route
    }

    /// Returns the group.
    pub(crate) const fn group(self) -> u32 {
        self.0 & (GROUPS - 1)
    }

    pub(crate) fn set_group(&mut self, group: u32) {
        debug_assert!(group < GROUPS, "memory ends before the numbers of groups do");
        self.0 = (self.0 & !(GROUPS - 1)) | (group & (GROUPS - 1));
    }

    /// Returns true for an external origin. A route found in the engine counts as internal until announced.
    pub(crate) const fn is_external(self) -> bool {
        self.0 & EXTERNAL != 0
    }

    pub(crate) fn set_external(&mut self, is_external: bool) {
        self.set(EXTERNAL, is_external);
    }

    /// Returns true if the route is neither present nor wanted in the authority.
    pub(crate) const fn is_beside(self) -> bool {
        self.0 & BESIDE != 0
    }

    pub(crate) fn set_beside(&mut self, is_beside: bool) {
        self.set(BESIDE, is_beside);
    }

    /// Returns true if announced since the last resync began.
    pub(crate) const fn is_announced(self) -> bool {
        self.0 & ANNOUNCED != 0
    }

    pub(crate) fn set_announced(&mut self, announced: bool) {
        self.set(ANNOUNCED, announced);
    }

    /// Returns true if seen or written since the last snapshot began.
    pub(crate) const fn is_seen(self) -> bool {
        self.0 & SEEN != 0
    }

    pub(crate) fn set_seen(&mut self, seen: bool) {
        self.set(SEEN, seen);
    }

    /// Returns the standing in the engine.
    pub(crate) const fn standing(self) -> Standing {
        match self.0 & (DUE | REFUSED) {
            0 => Standing::Installed,
            DUE => Standing::Due,
            _ => Standing::Refused,
        }
    }

    pub(crate) fn set_standing(&mut self, standing: Standing) {
        self.set(DUE, standing == Standing::Due);
        self.set(REFUSED, standing == Standing::Refused);
    }

    fn set(&mut self, bit: u32, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

/// The table.
pub(crate) type Routes<P> = PrefixTable<P, Route>;

/// A walk over a table's routes, in slices. Routes may come and go meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<P> {
    at: Cursor<P>,
    /// The end of the walk; `None`: the last route.
    end: Option<P>,
    /// The end of the walk after it has started again from the first route, if wanted.
    then: Option<P>,
}

impl<P: TableKey + IpKey> Walk<P> {
    /// From the first route to the last.
    pub(crate) const fn new() -> Self {
        Walk { at: Cursor::Start, end: None, then: None }
    }

    /// Restarts at the present position, for a full round.
    pub(crate) const fn again(self) -> Self {
        let then = match self.at {
            Cursor::Start => None,
            Cursor::After(prefix) => Some(prefix),
        };
        Walk { at: self.at, end: None, then }
    }

    /// Returns true for a prefix in the visited part of the table.
    pub(crate) fn has_passed(&self, prefix: P) -> bool {
        matches!(self.at, Cursor::After(last) if prefix <= last)
    }

    /// The next route; `None` at the end.
    pub(crate) fn next(&mut self, routes: &Routes<P>) -> Option<(P, Route)> {
        loop {
            let mut at = self.at;
            match routes.advance(&mut at) {
                Some((prefix, route)) if self.end.is_none_or(|end| prefix <= end) => {
                    self.at = at;
                    return Some((prefix, *route));
                }
                _ => {
                    self.end = Some(self.then.take()?);
                    self.at = Cursor::Start;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Ipv4Prefix;
    use std::vec::Vec;

    #[test]
    fn a_route_keeps_group_and_flags_apart() {
        let mut route = Route::new(GROUPS - 1, true, Standing::Refused);
        assert_eq!((route.group(), route.standing()), (GROUPS - 1, Standing::Refused));
        route.set_group(5);
        route.set_standing(Standing::Due);
        route.set_seen(false);
        assert_eq!((route.group(), route.standing()), (5, Standing::Due));
        route.set_external(true);
        assert_eq!((route.group(), route.is_external(), route.is_beside()), (5, true, false));
        route.set_beside(true);
        route.set_external(false);
        assert_eq!((route.group(), route.is_external(), route.is_beside()), (5, false, true));
        route.set_beside(false);
        assert_eq!((route.is_announced(), route.is_seen()), (true, false));
        route.set_announced(false);
        route.set_standing(Standing::Installed);
        assert_eq!(route, {
            let mut bare = Route::new(5, false, Standing::Installed);
            bare.set_seen(false);
            bare
        });
    }

    #[test]
    fn a_walk_goes_once_round() {
        let prefixes: Vec<Ipv4Prefix> =
            (0..4u32).filter_map(|n| sluice_base::Prefix::from_parts(n << 8, 24)).collect();
        let mut routes = Routes::new();
        for prefix in &prefixes {
            routes.insert(*prefix, Route::new(0, true, Standing::Installed));
        }
        let mut walk = Walk::new();
        let next = |walk: &mut Walk<Ipv4Prefix>| walk.next(&routes).map(|(p, _)| p);
        assert_eq!([next(&mut walk), next(&mut walk)], [Some(prefixes[0]), Some(prefixes[1])]);
        walk = walk.again();
        let round: Vec<_> = core::iter::from_fn(|| next(&mut walk)).collect();
        assert_eq!(round, [prefixes[2], prefixes[3], prefixes[0], prefixes[1]]);
        assert_eq!(next(&mut walk), None);
    }
}
