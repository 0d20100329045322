//! A routing table as a feed announces it: prefixes with AS paths.

use sluice_base::{Asn, IpPrefix, Rng};
use std::collections::BTreeMap;

/// A prefix and the AS path behind the feed's own AS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The prefix.
    pub prefix: IpPrefix,
    /// AS numbers, nearest first, origin last.
    pub path: Vec<Asn>,
}

/// A whole table.
#[derive(Clone, Debug, Default)]
pub struct RoutingTable {
    /// IPv4, in the order of the prefixes.
    pub v4: Vec<Announcement>,
    /// IPv6, likewise.
    pub v6: Vec<Announcement>,
}

/// Real tables share one set of attributes among about three prefixes.
const PREFIXES_PER_PATH: usize = 3;

impl RoutingTable {
    /// A table from prefixes with known paths (the first path of a prefix stands).
    pub fn new(announcements: impl IntoIterator<Item = Announcement>) -> Self {
        let mut all = BTreeMap::new();
        for a in announcements {
            all.entry(a.prefix).or_insert(a.path);
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (prefix, path) in all {
            match prefix {
                IpPrefix::V4(_) => v4.push(Announcement { prefix, path }),
                IpPrefix::V6(_) => v6.push(Announcement { prefix, path }),
            }
        }
        RoutingTable { v4, v6 }
    }

    /// A table from bare prefixes; paths are made up, the same for the same prefixes.
    pub fn with_made_up_paths(prefixes: impl IntoIterator<Item = (IpPrefix, Option<Asn>)>) -> Self {
        let known: BTreeMap<IpPrefix, Option<Asn>> = prefixes.into_iter().collect();
        let announcements = known.into_iter().enumerate().map(|(index, (prefix, origin))| {
            let mut rng = Rng::from_seed((index / PREFIXES_PER_PATH) as u64);
            let length = 1 + rng.below(4);
            let mut path: Vec<Asn> =
                (0..length).map(|_| Asn(1000 + rng.below(60_000) as u32 / 8 * 8)).collect();
            path.push(origin.unwrap_or(Asn(1000 + rng.below(60_000) as u32)));
            path.dedup();
            Announcement { prefix, path }
        });
        RoutingTable::new(announcements)
    }

    /// The number of prefixes of both families.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table without some prefixes.
    #[must_use]
    pub fn without(&self, left_out: impl Fn(IpPrefix) -> bool) -> Self {
        let rest = |all: &[Announcement]| all.iter().filter(|a| !left_out(a.prefix)).cloned().collect();
        RoutingTable { v4: rest(&self.v4), v6: rest(&self.v6) }
    }

    /// Returns the same prefixes with different paths: the announcements of a second neighbor.
    #[must_use]
    pub fn with_other_paths(&self, seed: u32) -> Self {
        let other = |all: &[Announcement]| {
            let change = |(index, a): (usize, &Announcement)| {
                let mut path = a.path.clone();
                // Some shorter, some longer than the first feed's, so that either is best somewhere.
                match index % 3 {
                    0 => path.insert(0, Asn(2000 + (index as u32 + seed) % 997)),
                    1 if path.len() > 1 => drop(path.remove(0)),
                    _ => path[0] = Asn(3000 + (index as u32 / 3 + seed) % 991),
                }
                Announcement { prefix: a.prefix, path }
            };
            all.iter().enumerate().map(change).collect()
        };
        RoutingTable { v4: other(&self.v4), v6: other(&self.v6) }
    }

    /// At most `v4` and `v6` prefixes, taken evenly over the table.
    #[must_use]
    pub fn thinned(&self, v4: usize, v6: usize) -> Self {
        let take = |all: &[Announcement], n: usize| -> Vec<Announcement> {
            if n >= all.len() {
                return all.to_vec();
            }
            (0..n).map(|i| all[i * all.len() / n].clone()).collect()
        };
        RoutingTable { v4: take(&self.v4, v4), v6: take(&self.v6, v6) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_paths_repeat_and_differ() {
        let prefixes = || (0..30u32).map(|i| (format!("10.{i}.0.0/16").parse().expect("a prefix"), None));
        let (a, b) =
            (RoutingTable::with_made_up_paths(prefixes()), RoutingTable::with_made_up_paths(prefixes()));
        assert_eq!(a.v4, b.v4);
        let other = a.with_other_paths(7);
        assert!(a.v4.iter().zip(&other.v4).all(|(x, y)| x.prefix == y.prefix && x.path != y.path));
        assert_eq!(a.thinned(10, 5).v4.len(), 10);
    }
}
