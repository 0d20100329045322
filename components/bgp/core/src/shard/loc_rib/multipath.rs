//! Multipath: paths of a prefix that forward packets side by side.
//!
//! Paths left by the decision's steps up to the interior cost are equal but for their routers. With multipath the best path
//! shares the packets with equal paths, up to a limit, each through a different next hop. The router still announces the best
//! path alone, so equal paths need the same AS path, or, with `relax-as-path`, an AS path of the same length: otherwise packets
//! could leave the announced path.
//!
//! The group of an entry is computed from the entry's paths when the RIB branch sends the prefix, and no entry holds a group. A
//! change of a path marks the entry ([`LocRib::changed_groups`]), and [`SentGroups`] has the fingerprint of each sent group of
//! several paths, so only changed groups are sent to the RIB. Without multipath, and for prefixes with a single path, groups cost
//! no work.

use super::decision::{Candidate, Tables};
use super::selection::LocRib;
use crate::attributes::canonical;
use crate::attributes::link_bandwidth::link_bandwidth;
use crate::attributes::private::Private;
use crate::hash::HashSeed;
use crate::shard::entry::{AdjRibIn, Path};
use crate::shard::resolver::Resolver;
use crate::wire::FamilyKey;
use crate::wire::attribute::code;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use sluice_base::Prefix;
use smallvec::SmallVec;

/// The part of a path in forwarding, among paths equal but for their routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Multipath {
    /// The path is used.
    Used {
        /// The path's share of the packets among the used paths, relative to the sum of weights.
        weight: u8,
    },
    /// The path is not used.
    LeftOut(LeftOut),
}

/// The reason why a path, equal to the best path but for its router, is not used beside the best path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LeftOut {
    /// The AS path has other contents, and `relax-as-path` is off.
    OtherAsPath,
    /// A used path has the same next hop.
    SameNextHop,
    /// Policy has packets of this path, or of the best path, dropped.
    Blackhole,
    /// So many paths, the most that are configured, are used already.
    Limit(u8),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::OtherAsPath => "other AS path (relax-as-path is off)",
            LeftOut::SameNextHop => "same next hop as a used path",
            LeftOut::Blackhole => "packets are dropped by policy",
            LeftOut::Limit(limit) => return write!(f, "multipath is limited to {limit}"),
        })
    }
}

/// The next hops of a prefix in multipath forwarding, by number and with weights; empty for a best path alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Group(SmallVec<[(u32, u8); 4]>);

impl Group {
    /// Returns true if the best path alone forwards packets.
    pub fn is_alone(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the next hops and their weights.
    pub fn members(&self) -> impl Iterator<Item = (u32, u8)> {
        self.0.iter().copied()
    }

    /// Iterates over the next hops.
    pub fn hops(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|(hop, _)| *hop)
    }
}

/// The groups of several paths that the RIB was sent, as fingerprints by entry.
#[derive(Debug, Default)]
pub(crate) struct SentGroups(HashMap<u32, u64, FixedState>);

impl SentGroups {
    /// Notes a group sent to the RIB. Returns true if the entry's group changed.
    pub fn replace<H: Prefix>(
        &mut self,
        resolver: &Resolver<H>,
        seed: HashSeed,
        entry: u32,
        group: &Group,
    ) -> bool {
        if group.is_alone() {
            return self.0.remove(&entry).is_some();
        }
        let print = fingerprint(resolver, seed, group);
        self.0.insert(entry, print) != Some(print)
    }

    /// Notes that the RIB has no route of an entry.
    #[inline]
    pub fn forget(&mut self, entry: u32) {
        if !self.0.is_empty() {
            self.0.remove(&entry);
        }
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Hashes the addresses of a group, because numbers of next hops are reused. The seed is the router's secret, because neighbors
/// choose the addresses.
fn fingerprint<H: Prefix>(resolver: &Resolver<H>, seed: HashSeed, group: &Group) -> u64 {
    let mut members: SmallVec<[_; 4]> =
        group.members().map(|(hop, weight)| (resolver.next_hop(hop), weight)).collect();
    members.sort_unstable();
    FixedState::with_seed(seed.0).hash_one(&members)
}

/// Returns the weights of paths by the bandwidths of links: whole percents of the sum, at least 1. Every weight is 1 if a
/// bandwidth is unknown.
fn weights(bandwidths: &[Option<u64>]) -> SmallVec<[u8; 8]> {
    let sum: u128 = bandwidths.iter().flatten().map(|bandwidth| u128::from(*bandwidth)).sum();
    let weight = |bandwidth: &Option<u64>| {
        let percent = u128::from((*bandwidth)?) * 100 / sum.max(1);
        Some(u8::try_from(percent.max(1)).unwrap_or(u8::MAX))
    };
    let known: Option<SmallVec<[u8; 8]>> = bandwidths.iter().map(weight).collect();
    known.unwrap_or_else(|| bandwidths.iter().map(|_| 1).collect())
}

impl<P: FamilyKey> Tables<'_, P> {
    /// Returns the paths used side by side, as indices with weights, with `best` first. Calls `left_out` with the index and the
    /// reason of each unused equal path. Empty if the best path alone is used.
    fn side_by_side(
        &self,
        paths: &[Path],
        best: usize,
        mut left_out: impl FnMut(usize, LeftOut),
    ) -> SmallVec<[(usize, u8); 8]> {
        let mut field = self.equals(paths, &mut |_, _| {});
        let info = |c: &Candidate| &self.peers[usize::from(c.peer.0)].info;
        field.retain(|c| info(c).source.forwards());
        let Some(first) = field.iter().position(|c| c.index == best) else { return SmallVec::new() };
        let limit = self.rules.multipath.limit(info(&field[first]).internal);
        if limit < 2 || field.len() < 2 || field[first].peer.is_own() {
            return SmallVec::new();
        }
        field.sort_by_key(|c| {
            let view = &self.sets[c.set].view;
            let id = view.compared_id(info(c).router_id);
            let place = (info(c).address, c.peer, self.lanes.place(c.number));
            (c.index != best, id, view.cluster_list_length, place)
        });
        let octets = |c: &Candidate| self.sets.octets(&self.sets[c.set]);
        let path = |c: &Candidate| canonical::find(octets(c), code::AS_PATH);
        let is_blackhole =
            |c: &Candidate| self.sets.has_private(c.set) && Private::of(octets(c)).is_blackhole;
        let hop = |c: &Candidate| self.sets[c.set].hop;
        let drops_all = is_blackhole(&field[0]);
        let mut used: SmallVec<[&Candidate; 8]> = SmallVec::from_slice(&[&field[0]]);
        for other in &field[1..] {
            let why = if !self.rules.multipath.relax_as_path && path(other) != path(used[0]) {
                LeftOut::OtherAsPath
            } else if drops_all || is_blackhole(other) {
                LeftOut::Blackhole
            } else if used.iter().any(|known| hop(known) == hop(other)) {
                LeftOut::SameNextHop
            } else if used.len() >= usize::from(limit) {
                LeftOut::Limit(limit)
            } else {
                used.push(other);
                continue;
            };
            left_out(other.index, why);
        }
        if used.len() < 2 {
            return SmallVec::new();
        }
        let bandwidths: SmallVec<[Option<u64>; 8]> = used.iter().map(|c| link_bandwidth(octets(c))).collect();
        used.iter().map(|c| c.index).zip(weights(&bandwidths)).collect()
    }
}

impl<P: FamilyKey> LocRib<P> {
    /// Returns the next hops that share the packets of an entry.
    pub(crate) fn group(&self, adj_rib_in: &AdjRibIn<P>, resolver: &Resolver<P::Hop>, id: u32) -> Group {
        let paths = adj_rib_in.entries.paths(id);
        let Some(best) = best_position(adj_rib_in, id).filter(|_| paths.len() > 1) else {
            return Group::default();
        };
        let used = self.tables(adj_rib_in, resolver, id).side_by_side(paths, best, |_, _| {});
        let sets = &adj_rib_in.sets;
        let hop = |index: usize| sets.accepted(paths[index].attributes).map(|set| sets[set].hop);
        let mut hops: SmallVec<[(u32, u8); 4]> =
            used.iter().filter_map(|(index, weight)| Some((hop(*index)?, *weight))).collect();
        hops.sort_unstable();
        Group(hops)
    }

    /// Returns the part of each path of an entry in forwarding.
    pub(crate) fn parts_of_paths(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        id: u32,
    ) -> Vec<Option<Multipath>> {
        let paths = adj_rib_in.entries.paths(id);
        let mut parts: Vec<Option<Multipath>> = paths.iter().map(|_| None).collect();
        if self.rules.multipath.is_on()
            && let Some(best) = best_position(adj_rib_in, id)
        {
            let left_out = |index: usize, why| parts[index] = Some(Multipath::LeftOut(why));
            let used = self.tables(adj_rib_in, resolver, id).side_by_side(paths, best, left_out);
            used.iter().for_each(|(index, weight)| parts[*index] = Some(Multipath::Used { weight: *weight }));
        }
        parts
    }
}

fn best_position<P: FamilyKey>(adj_rib_in: &AdjRibIn<P>, id: u32) -> Option<usize> {
    let best = adj_rib_in.entries.best(id)?.number;
    adj_rib_in.entries.position(id, best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn weights_are_percents_of_the_sum() {
        let of =
            |bandwidths: &[u64]| weights(&bandwidths.iter().map(|b| Some(*b)).collect::<Vec<_>>()).to_vec();
        assert_eq!(of(&[1_250_000_000, 5_000_000_000]), [20, 80]);
        assert_eq!(of(&[1, 1, 1]), [33, 33, 33]);
        assert_eq!(of(&[1, 1_000_000_000]), [1, 99]);
        assert_eq!(of(&[u64::MAX, u64::MAX]), [50, 50]);
        assert_eq!((of(&[7, 0]), of(&[0, 0])), (vec![100, 1], vec![1, 1]));
    }

    #[test]
    fn a_path_without_bandwidth_makes_all_weights_equal() {
        assert_eq!(weights(&[Some(7), None, Some(9)])[..], [1, 1, 1]);
    }

    proptest! {
        #[test]
        fn no_weight_is_zero(bandwidths in prop::collection::vec(prop::option::weighted(0.9, any::<u64>()), 1..64)) {
            let weights = weights(&bandwidths);
            prop_assert_eq!(weights.len(), bandwidths.len());
            prop_assert!(weights.iter().all(|weight| (1..=100).contains(weight)));
        }
    }
}
