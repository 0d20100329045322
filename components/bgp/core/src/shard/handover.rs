//! The export of a shard's paths to a new process, which makes the same decisions and advertises no route again.

use super::Shard;
use super::damping::HistoryState;
use super::entry::PeerIndex;
use super::loc_rib::RibBranch;
use super::resolver::Resolution;
use crate::attributes::View;
use crate::hash::HashSeed;
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hash;
use serde::{Deserialize, Serialize};

/// The seed of fingerprints: both sides must have the same.
const FINGERPRINT: HashSeed = HashSeed(0);

/// A part of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardPart<P> {
    /// The part's received attribute sets: next hop, view, canonical octets.
    pub sets: Vec<(NextHop, View, Vec<u8>)>,
    /// The paths. A peer's paths at a place can be in several parts: the best paths, and the others.
    pub paths: Vec<PeerPaths<P>>,
    /// The next hops and their resolutions; in the first part only.
    pub hops: Vec<(NextHop, Resolution)>,
    /// The histories of damped routes. All of a shard come before the paths.
    pub histories: Vec<HistoryState<P>>,
}

/// Paths of a peer, at a place among the peer's paths of a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerPaths<P> {
    /// The peer.
    pub peer: u16,
    /// The place; 0 for the first path of a prefix. The path identifiers that neighbors were sent depend on the place.
    pub place: u16,
    /// True for stale paths that stay until the peer has announced its paths again.
    pub is_stale: bool,
    /// The paths by prefix and set.
    pub paths: Vec<(P, u32)>,
    /// The received path identifier of each path; empty if the paths came without.
    pub path_ids: Vec<u32>,
}

/// A fingerprint of the contents, independent of their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Paths.
    pub paths: u64,
    /// Prefixes that have a best path.
    pub decided: u64,
    /// The sum of hashes of the paths and of the selection.
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
        let to = core.adj_rib_in.entries.end().min(from.saturating_add(limit));
        let mut part =
            ShardPart { sets: Vec::new(), paths: Vec::new(), hops: Vec::new(), histories: Vec::new() };
        if from == 0 {
            let known = core.resolver.view().filter(|(hop, ..)| !hop.is_unspecified());
            part.hops = known.map(|(hop, resolution, _)| (*hop, resolution)).collect();
        }
        let mut sets = BTreeMap::new();
        // The best paths come first: the other process makes a path the best one again before a path that is equal but newer.
        let mut by_peer: BTreeMap<(bool, u16, u16, bool, bool), PeerPaths<P>> = BTreeMap::new();
        for entry in (from..to).filter(|id| !core.adj_rib_in.entries.is_vacant(*id)) {
            for path in core.adj_rib_in.entries.paths(entry).iter().filter(|p| !p.number.is_own()) {
                let known = &core.adj_rib_in.peers[usize::from(core.adj_rib_in.lanes.peer(path.number).0)];
                if known.is_overdue(path.generation) {
                    continue;
                }
                let is_stale = known.generation != path.generation;
                let received = core.adj_rib_in.sets.received(path.attributes);
                let number = *sets.entry(received).or_insert_with(|| {
                    let set = &core.adj_rib_in.sets[received];
                    let hop = core.resolver.next_hop_of(set.hop);
                    part.sets.push((hop, set.view, core.adj_rib_in.sets.octets(set).to_vec()));
                    (part.sets.len() - 1) as u32
                });
                let is_other =
                    core.adj_rib_in.entries.best(entry).is_none_or(|best| best.number != path.number);
                let (PeerIndex(peer), place) =
                    (core.adj_rib_in.lanes.peer(path.number), core.adj_rib_in.lanes.place(path.number));
                let path_id = core.adj_rib_in.lanes.id(entry, path.number);
                let of_peer = by_peer
                    .entry((is_other, peer, place, is_stale, path_id.is_some()))
                    .or_insert_with(|| PeerPaths { peer, place, is_stale, paths: vec![], path_ids: vec![] });
                of_peer.paths.push((core.adj_rib_in.entries[entry].prefix, number));
                of_peer.path_ids.extend(path_id);
            }
        }
        part.paths = by_peer.into_values().collect();
        (part, (to < core.adj_rib_in.entries.end()).then_some(to))
    }

    /// Restores another process's resolution of a next hop.
    pub fn restore_hop(&mut self, hop: NextHop, resolution: Resolution) {
        self.core.resolver.restore(hop, resolution);
    }

    /// Assumes that every peer has received the whole Adj-RIB-Out. Every route is sent to the RIB.
    pub fn assume_advertised(&mut self) {
        self.core.resolver.drop_unused();
        self.adj_rib_out.assume_advertised(&self.core);
        self.rib = RibBranch::new(self.core.loc_rib.queue.end());
        self.trim();
    }

    /// Returns the fingerprint of the contents.
    pub fn fingerprint(&self) -> Fingerprint {
        let core = &self.core;
        let mut all = Fingerprint::default();
        for entry in (0..core.adj_rib_in.entries.end()).filter(|id| !core.adj_rib_in.entries.is_vacant(*id)) {
            let best = core.adj_rib_in.entries.best(entry).map(|p| p.number);
            all.decided += u64::from(best.is_some());
            let prefix = FINGERPRINT.prefix(&core.adj_rib_in.entries[entry].prefix);
            for path in core.adj_rib_in.entries.paths(entry) {
                let hash = |set| {
                    let set = &core.adj_rib_in.sets[set];
                    FINGERPRINT
                        .attributes(core.adj_rib_in.sets.octets(set), &core.resolver.next_hop_of(set.hop))
                };
                let accepted = core.adj_rib_in.sets.accepted(path.attributes).map_or(0, hash);
                let attributes =
                    hash(core.adj_rib_in.sets.received(path.attributes)) ^ accepted.rotate_left(7);
                // Numbers of own sources may be others in the other process.
                let peer = if path.number.is_own() { 0 } else { core.adj_rib_in.lanes.sent_id(path.number) };
                let path_id = core.adj_rib_in.lanes.id(entry, path.number).map_or(0, |id| u64::from(id) + 1);
                let place = (u64::from(peer) << 1 | u64::from(best == Some(path.number))) ^ path_id << 32;
                // Multiplied, so that no exchange between paths leaves the sum as it is.
                let hash = (prefix ^ attributes.rotate_left(17)).wrapping_add(place);
                all.paths += 1;
                all.sum = all.sum.wrapping_add(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
            }
        }
        all
    }
}
