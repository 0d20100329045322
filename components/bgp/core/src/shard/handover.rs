//! A shard's paths on their way to another process, which makes the same decisions of them and tells nobody again.

use super::Shard;
use super::resolver::Resolution;
use super::rib::RibBranch;
use crate::attributes::View;
use crate::hash::HashSeed;
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::Hash;
use serde::{Deserialize, Serialize};

/// The seed of fingerprints: both sides must have the same.
const FINGERPRINT: HashSeed = HashSeed(0);

/// A part of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardPart<P> {
    /// Attribute sets of this part, as they came: next hop, what the decision compares, canonical octets.
    pub sets: Vec<(NextHop, View, Vec<u8>)>,
    /// Paths by peer: prefix and set.
    pub paths: Vec<(u16, Vec<(P, u32)>)>,
    /// The next hops and their resolutions; in the first part only.
    pub hops: Vec<(NextHop, Resolution)>,
}

/// A fingerprint of the contents, independent of their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Paths.
    pub paths: u64,
    /// Prefixes that have a best path.
    pub decided: u64,
    /// The sum of hashes of all paths, and which of them are the best.
    pub sum: u64,
}

impl core::ops::AddAssign for Fingerprint {
    fn add_assign(&mut self, other: Self) {
        self.paths += other.paths;
        self.decided += other.decided;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl<P: FamilyKey + Hash> Shard<P> {
    /// The paths of up to `limit` entries from number `from` on, but for the router's own; and where to go on.
    pub fn export_part(&self, from: u32, limit: u32) -> (ShardPart<P>, Option<u32>) {
        let core = &self.core;
        let to = core.entries.end().min(from.saturating_add(limit));
        let mut part = ShardPart { sets: Vec::new(), paths: Vec::new(), hops: Vec::new() };
        if from == 0 {
            let known = core.resolver.view().filter(|(hop, ..)| !hop.is_unspecified());
            part.hops = known.map(|(hop, resolution, _)| (*hop, resolution)).collect();
        }
        let mut sets = BTreeMap::new();
        let mut by_peer: BTreeMap<u16, Vec<(P, u32)>> = BTreeMap::new();
        for entry in (from..to).filter(|id| !core.entries.is_vacant(*id)) {
            let is_fresh = |p: &&super::Path| p.generation == core.peers[usize::from(p.peer.0)].generation;
            let others = core.entries.paths(entry).iter().filter(|p| !p.peer.is_own());
            for path in others.filter(is_fresh) {
                let received = core.sets.received(path.attributes);
                let number = *sets.entry(received).or_insert_with(|| {
                    let set = &core.sets[received];
                    let hop = core.next_hop_of(set.hop);
                    part.sets.push((hop, set.view, core.sets.octets(set).to_vec()));
                    (part.sets.len() - 1) as u32
                });
                by_peer.entry(path.peer.0).or_default().push((core.entries[entry].prefix, number));
            }
        }
        part.paths = by_peer.into_iter().collect();
        (part, (to < core.entries.end()).then_some(to))
    }

    /// Restores another process's resolution of a next hop.
    pub fn restore_hop(&mut self, hop: NextHop, resolution: Resolution) {
        self.core.resolver.restore(hop, resolution);
    }

    /// Takes it that all peers were told all that there is to tell. The RIB is told everything.
    pub fn assume_advertised(&mut self) {
        self.core.resolver.drop_unused();
        self.groups.assume_advertised(&self.core);
        self.rib = RibBranch::new(self.core.queue.end());
        self.trim();
    }

    /// Returns the fingerprint of the contents.
    pub fn fingerprint(&self) -> Fingerprint {
        let core = &self.core;
        let mut all = Fingerprint::default();
        for entry in (0..core.entries.end()).filter(|id| !core.entries.is_vacant(*id)) {
            let best = core.entries.best(entry).map(|p| p.peer);
            all.decided += u64::from(best.is_some());
            let prefix = FINGERPRINT.prefix(&core.entries[entry].prefix);
            for path in core.entries.paths(entry) {
                let hash = |set| {
                    let set = &core.sets[set];
                    FINGERPRINT.attributes(core.sets.octets(set), &core.next_hop_of(set.hop))
                };
                let accepted = core.sets.accepted(path.attributes).map_or(0, hash);
                let attributes = hash(core.sets.received(path.attributes)) ^ accepted.rotate_left(7);
                // Numbers of own sources may be others in the other process.
                let peer = if path.peer.is_own() { 0 } else { path.peer.0 };
                let place = u64::from(peer) << 1 | u64::from(best == Some(path.peer));
                // Multiplied, so that no exchange between paths leaves the sum as it is.
                let hash = (prefix ^ attributes.rotate_left(17)).wrapping_add(place);
                all.paths += 1;
                all.sum = all.sum.wrapping_add(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
            }
        }
        all
    }
}
