//! The table that peers announce: routes in groups with the same attributes; made up, or real.

use crate::message::Attributes;
use crate::wire::attribute::{code, put_header};
use anyhow::{Result, ensure};
use sluice_base::ip::V6Addr;
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, Rng};
use sluice_load::{Announcement, RoutingTable};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Number of routes of each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// IPv4 routes.
    pub v4: usize,
    /// IPv6 routes.
    pub v6: usize,
}

/// Prefixes of a single family with the same attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The prefixes' attributes, as the peer's neighbors announce them.
    pub attributes: Attributes,
    /// The prefixes, each once in a table.
    pub prefixes: Vec<IpPrefix>,
}

/// Routes; no prefix comes twice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// The groups, in the order of announcement.
    pub groups: Vec<Group>,
}

/// Shares of prefix lengths, in percent: approximately the Internet's.
const LENGTHS_V4: [(u8, u64); 9] =
    [(24, 60), (23, 10), (22, 11), (21, 5), (20, 5), (19, 3), (18, 2), (17, 1), (16, 3)];
const LENGTHS_V6: [(u8, u64); 6] = [(48, 50), (32, 13), (44, 13), (40, 12), (36, 7), (47, 5)];

/// More distinct prefixes are hard to find among the lengths above.
const MOST: usize = 8_000_000;

impl Table {
    /// Made-up routes, the same for the same arguments; `sharing` prefixes have the same attributes.
    pub fn synthetic(size: Size, sharing: usize, seed: u64) -> Result<Self> {
        ensure!(size.v4 <= MOST && size.v6 <= MOST, "at most {MOST} routes of a family can be made up");
        let mut rng = Rng::from_seed(seed);
        let v4 = distinct(size.v4, || {
            let first = 1 + rng.below(222) as u32;
            // Where special-purpose addresses lie (RFC 6890).
            let is_special = matches!(first, 10 | 100 | 127 | 169 | 172 | 192 | 198 | 203);
            let bits = first << 24 | (rng.next_u64() as u32 & 0x00ff_ffff);
            let prefix = Ipv4Prefix::from_parts(bits, draw(&mut rng, &LENGTHS_V4))?;
            (!is_special).then_some(prefix)
        });
        let v6 = distinct(size.v6, || {
            let bits = 0x2000u128 << 112 | u128::from(rng.next_u64() >> 3) << 64;
            let prefix = Ipv6Prefix::new(V6Addr(Ipv6Addr::from_bits(bits)), draw(&mut rng, &LENGTHS_V6))?;
            // 2001::/16 has the special-purpose prefixes.
            (prefix.addr().0.segments()[0] != 0x2001).then_some(prefix)
        });
        let v4: Vec<IpPrefix> = v4.into_iter().map(IpPrefix::V4).collect();
        let v6: Vec<IpPrefix> = v6.into_iter().map(IpPrefix::V6).collect();
        let groups = v4.chunks(sharing.max(1)).chain(v6.chunks(sharing.max(1)));
        let groups = groups.map(|p| Group { attributes: attributes(&mut rng), prefixes: p.to_vec() });
        Ok(Table { groups: groups.collect() })
    }

    /// The routes of a table; adjacent prefixes with the same path share their attributes.
    pub fn real(table: &RoutingTable) -> Self {
        let families = [&table.v4, &table.v6].into_iter();
        let groups =
            families.flat_map(|f| f.chunk_by(|a, b| a.path == b.path)).map(|group: &[Announcement]| Group {
                attributes: Attributes::of_path(&group[0].path),
                prefixes: group.iter().map(|a| a.prefix).collect(),
            });
        Table { groups: groups.collect() }
    }

    /// At most `size` routes, taken evenly over the table, whole groups as far as possible: as many prefixes share their attributes
    /// as before.
    #[must_use]
    pub fn thinned(self, size: Size) -> Self {
        let is_v4 = |g: &Group| matches!(g.prefixes.first(), Some(IpPrefix::V4(_)));
        let (v4, v6): (Vec<Group>, Vec<Group>) = self.groups.into_iter().partition(is_v4);
        Table { groups: thinned(v4, size.v4).chain(thinned(v6, size.v6)).collect() }
    }

    /// Iterates over the prefixes of the table.
    pub fn prefixes(&self) -> impl Iterator<Item = IpPrefix> {
        self.groups.iter().flat_map(|g| g.prefixes.iter().copied())
    }
}

fn thinned(groups: Vec<Group>, wanted: usize) -> impl Iterator<Item = Group> {
    let all: usize = groups.iter().map(|g| g.prefixes.len()).sum();
    let (mut seen, mut taken) = (0, 0);
    groups.into_iter().filter_map(move |mut group| {
        seen += group.prefixes.len();
        let due = (seen as u128 * wanted.min(all) as u128 / all as u128) as usize;
        if due <= taken {
            return None;
        }
        group.prefixes.truncate(wanted - taken);
        taken += group.prefixes.len();
        Some(group)
    })
}

fn distinct<P: Prefix>(size: usize, mut draw: impl FnMut() -> Option<P>) -> BTreeSet<P> {
    let mut all = BTreeSet::new();
    while all.len() < size {
        all.extend(draw());
    }
    all
}

fn draw(rng: &mut Rng, shares: &[(u8, u64)]) -> u8 {
    let mut left = rng.below(shares.iter().map(|(_, share)| share).sum());
    let drawn = shares.iter().find(|(_, share)| {
        let here = left < *share;
        left = left.saturating_sub(*share);
        here
    });
    drawn.map_or(24, |(len, _)| *len)
}

/// A path of three to seven ASes, and communities with half of them.
fn attributes(rng: &mut Rng) -> Attributes {
    // Paths of three at least, so that one can be shortened.
    let path: Vec<Asn> = (0..3 + rng.below(5)).map(|_| Asn(1000 + rng.below(60_000) as u32)).collect();
    let mut attributes = Attributes::of_path(&path);
    let communities = rng.below(6).saturating_sub(2) as usize;
    if communities > 0 {
        put_header(&mut attributes.rest, 0xc0, code::COMMUNITIES, 4 * communities);
        for _ in 0..communities {
            let community = (path[0].0 & 0xffff) << 16 | rng.below(1000) as u32;
            attributes.rest.extend_from_slice(&community.to_be_bytes());
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_tables() {
        let size = Size { v4: 5000, v6: 700 };
        for sharing in [1, 3, 500] {
            let table = Table::synthetic(size, sharing, 7).unwrap();
            assert_eq!(table, Table::synthetic(size, sharing, 7).unwrap());
            let all: BTreeSet<IpPrefix> = table.prefixes().collect();
            assert_eq!((all.len(), table.prefixes().count()), (5700, 5700));
            assert_eq!(all.iter().filter(|p| matches!(p, IpPrefix::V4(_))).count(), 5000);
            assert!(table.groups.iter().all(|g| (1..=sharing).contains(&g.prefixes.len())));
            assert_eq!(table.groups.len(), 5000usize.div_ceil(sharing) + 700usize.div_ceil(sharing));
        }
        assert!(Table::synthetic(Size { v4: MOST + 1, v6: 0 }, 3, 7).is_err());
    }

    #[test]
    fn real_tables() {
        let prefixes = (0..30u32).map(|i| (format!("20.{i}.0.0/16").parse().unwrap(), None));
        let table = Table::real(&RoutingTable::with_made_up_paths(prefixes));
        assert_eq!(table.prefixes().count(), 30);
        assert!(table.groups.len() <= 10);
        for wanted in [0, 1, 7, 29, 30, 99] {
            let thin = table.clone().thinned(Size { v4: wanted, v6: 5 });
            assert_eq!(thin.prefixes().count(), wanted.min(30));
            assert!(
                thin.groups.iter().all(|g| table.groups.iter().any(|t| t.prefixes.starts_with(&g.prefixes)))
            );
        }
    }
}
