//! Several paths of a prefix from one neighbor (ADD-PATH, RFC 7911).
//!
//! Each path of an entry has a different number ([`PathNumber`]). A neighbor's first path of a prefix has the neighbor's number;
//! each further path has the number of a *lane*, which stands for the neighbor and for the path's place among the neighbor's
//! paths of the prefix. A lane serves every prefix of the shard and is made when the first prefix needs the lane. The received
//! path identifiers are stored beside the entries, so paths of a neighbor without ADD-PATH need no room for identifiers.
//!
//! A received identifier has a meaning only to the neighbor (RFC 7911, section 2). A sent identifier consists of the number of
//! the neighbor and the path's place ([`Lanes::sent_id`]): no identifiers are allotted, and the new process of a live upgrade
//! sends the same identifiers.

use super::entries::Entries;
use super::path::{Path, PathNumber, PeerIndex};
use crate::wire::FamilyKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Maps of received identifiers. A map that grows stalls the router no longer than a fraction of the entries takes.
const PARTS: usize = 256;

/// The neighbor of a lane, and the place of the lane's paths among the neighbor's paths of a prefix, from 1 on.
#[derive(Clone, Copy, Debug)]
struct Lane {
    peer: PeerIndex,
    place: u16,
}

/// The lanes of a shard, and the received path identifiers.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The lanes of each neighbor, by place; the first has place 1.
    by_peer: BTreeMap<PeerIndex, Vec<PathNumber>>,
    /// Received path identifiers by entry and path, in [`PARTS`] maps; none before the first identifier comes.
    ids: Vec<HashMap<(u32, PathNumber), u32, FixedState>>,
}

impl Lanes {
    /// Returns the neighbor that a path came from.
    #[inline(always)]
    pub fn peer(&self, path: PathNumber) -> PeerIndex {
        match path.lane() {
            None => PeerIndex(path.0),
            Some(lane) => self.lanes[lane].peer,
        }
    }

    /// Returns the place of a path among its neighbor's paths of the prefix; 0 for the first.
    #[inline]
    pub fn place(&self, path: PathNumber) -> u16 {
        path.lane().map_or(0, |lane| self.lanes[lane].place)
    }

    /// Returns the path identifier to send with a path: unique among the paths of a prefix, and never 0.
    pub fn sent_id(&self, path: PathNumber) -> u32 {
        u32::from(self.place(path)) << 16 | (u32::from(self.peer(path).0) + 1)
    }

    /// Returns the number of a neighbor's path at a place; `None` without a free number.
    pub fn number(&mut self, peer: PeerIndex, place: u16) -> Option<PathNumber> {
        let Some(position) = usize::from(place).checked_sub(1) else {
            return Some(PathNumber::first_of(peer));
        };
        let of_peer = self.by_peer.entry(peer).or_default();
        while of_peer.len() <= position {
            let number = PathNumber::of_lane(self.lanes.len())?;
            self.lanes.push(Lane { peer, place: of_peer.len() as u16 + 1 });
            of_peer.push(number);
        }
        of_peer.get(position).copied()
    }

    /// Returns the received identifier of a path; `None` if the path came without one.
    pub fn id(&self, entry: u32, path: PathNumber) -> Option<u32> {
        self.ids.get(entry as usize % PARTS)?.get(&(entry, path)).copied()
    }

    /// Stores the received identifier of a path.
    pub(crate) fn set_id(&mut self, entry: u32, path: PathNumber, id: u32) {
        if self.ids.is_empty() {
            self.ids.resize_with(PARTS, HashMap::default);
        }
        self.ids[entry as usize % PARTS].insert((entry, path), id);
    }

    /// Forgets the received identifier of a path that is removed.
    #[inline]
    pub fn forget(&mut self, entry: u32, path: PathNumber) {
        if let Some(ids) = self.ids.get_mut(entry as usize % PARTS) {
            ids.remove(&(entry, path));
        }
    }

    /// Returns the position of a peer's path in an entry: of the path with an identifier, or of the only one.
    #[inline(always)]
    pub fn position<P: FamilyKey>(
        &self,
        entries: &Entries<P>,
        entry: u32,
        peer: PeerIndex,
        path_id: Option<u32>,
    ) -> Option<usize> {
        match path_id {
            None => entries.position(entry, PathNumber::first_of(peer)),
            Some(id) => self.position_of_id(entries, entry, peer, id),
        }
    }

    /// Returns the position of the path with an identifier.
    #[inline(never)]
    pub fn position_of_id<P: FamilyKey>(
        &self,
        entries: &Entries<P>,
        entry: u32,
        peer: PeerIndex,
        id: u32,
    ) -> Option<usize> {
        let is_path = |path: &Path| self.peer(path.number) == peer && self.id(entry, path.number) == Some(id);
        entries.paths(entry).iter().position(is_path)
    }

    /// Returns the numbers of a peer's paths of an entry.
    pub fn paths_of<P: FamilyKey>(
        &self,
        entries: &Entries<P>,
        entry: u32,
        peer: PeerIndex,
    ) -> SmallVec<[PathNumber; 4]> {
        let paths = entries.paths(entry).iter().filter(|path| self.peer(path.number) == peer);
        paths.map(|path| path.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::canonical;
    use crate::batch::{Batch, Change};
    use crate::batch::{DropCause, MOST_PATHS};
    use crate::family::FamilyIndex;
    use crate::hash::HashSeed;
    use crate::shard::Shard;
    use crate::shard::entry::peer_in::{PeerInfo, Retention, RouteSource};
    use crate::shard::entry::sets::PathSet;
    use crate::shard::own_router::OwnRouter;
    use crate::wire::multiprotocol::NextHop;
    use core::net::{IpAddr, Ipv4Addr};
    use sluice_base::Provenance;
    use sluice_base::{Asn, Ipv4Prefix, RouterId};
    use sluice_machine::Outbox;
    use sluice_machine::{Budget, Progress};

    #[test]
    fn a_path_is_found_by_its_peer_and_identifier() {
        let (mut lanes, mut entries) = (Lanes::default(), Entries::<Ipv4Prefix>::default());
        let [a, b] = [20, 21].map(PeerIndex);
        let entry = entries.insert("10.0.0.0/8".parse().unwrap());
        for (peer, place, id) in [(a, 0, 7), (b, 0, 7), (a, 1, 9)] {
            let number = lanes.number(peer, place).unwrap();
            entries.push(entry, Path { attributes: PathSet::from_bits(1), number, generation: 0 });
            lanes.set_id(entry, number, id);
        }
        let position = |peer, id| lanes.position(&entries, entry, peer, id);
        assert_eq!(
            [position(a, Some(7)), position(b, Some(7)), position(a, Some(9))],
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(
            (position(a, None), position(b, Some(9)), position(PeerIndex(22), None)),
            (Some(0), None, None)
        );
        assert_eq!(lanes.paths_of(&entries, entry, a).len(), 2);
    }

    #[test]
    fn numbers_stand_for_a_neighbor_and_a_place() {
        let mut lanes = Lanes::default();
        let [a, b] = [20, 21].map(PeerIndex);
        let numbers: Vec<PathNumber> =
            [(a, 0), (a, 2), (b, 1), (a, 1)].map(|(peer, place)| lanes.number(peer, place).unwrap()).into();
        let back: Vec<_> = numbers.iter().map(|path| (lanes.peer(*path), lanes.place(*path))).collect();
        assert_eq!(back, [(a, 0), (a, 2), (b, 1), (a, 1)]);
        assert_eq!(numbers[0], PathNumber::first_of(a));
        assert_eq!(lanes.number(a, 2), Some(numbers[1]));
        let ids: Vec<u32> = numbers.iter().map(|path| lanes.sent_id(*path)).collect();
        assert_eq!(ids, [21, 2 << 16 | 21, 1 << 16 | 22, 1 << 16 | 21]);
    }

    #[test]
    fn numbers_come_to_an_end() {
        let mut lanes = Lanes::default();
        let all = u16::MAX - 1 - PeerIndex::END;
        let made = (20..).map(PeerIndex).flat_map(|peer| (1..MOST_PATHS).map(move |place| (peer, place)));
        let numbers: Vec<_> = made.map(|(peer, place)| lanes.number(peer, place)).take(all.into()).collect();
        assert!(numbers.iter().all(Option::is_some));
        assert_eq!(lanes.number(PeerIndex(19), 1), None);
        assert_eq!(lanes.number(PeerIndex(20), 1), numbers[0]);
    }

    /// Announces 192.0.2.0/24 by paths with the identifiers `announced`, and withdraws paths with the identifiers `withdrawn`.
    fn change(shard: &mut Shard<Ipv4Prefix>, announced: &[u32], withdrawn: &[u32]) {
        let mut batch = Batch::default();
        let hop = NextHop::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let (local, view) = canonical::local(Asn(9));
        let set = batch.add_set(HashSeed(1), hop, |out| {
            out.extend_from_slice(&local);
            view
        });
        withdrawn.iter().for_each(|id| batch.push_path(prefix(), Some(*id), Change::<Ipv4Prefix>::WITHDRAWN));
        announced.iter().for_each(|id| batch.push_path(prefix(), Some(*id), set));
        batch.end_event(Provenance::NONE);
        shard.apply(PEER, &batch, &mut Outbox::new());
    }

    const PEER: PeerIndex = PeerIndex(20);

    fn prefix() -> Ipv4Prefix {
        "192.0.2.0/24".parse().expect("a prefix")
    }

    fn ids(shard: &Shard<Ipv4Prefix>) -> Vec<Option<u32>> {
        let paths = shard.route(prefix()).map(|route| route.paths).unwrap_or_default();
        let mut ids: Vec<_> = paths.iter().map(|path| path.path_id).collect();
        ids.sort_unstable();
        ids
    }

    fn shard() -> Shard<Ipv4Prefix> {
        let mut shard =
            Shard::new(OwnRouter::new(Asn(9), RouterId(99)), HashSeed(1), FamilyIndex::IPV4.row().code);
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        let info = PeerInfo {
            router_id: RouterId(2),
            address,
            internal: true,
            client: false,
            direct: false,
            path_check: None,
            source: RouteSource::Session,
        };
        shard.peer_up(PEER, info);
        shard
    }

    #[test]
    fn ten_thousand_paths_of_a_prefix_are_bounded() {
        let mut shard = shard();
        let all: Vec<u32> = (0..10_000).collect();
        change(&mut shard, &all, &[]);
        let expected: Vec<Option<u32>> = (0..u32::from(MOST_PATHS)).map(Some).collect();
        assert_eq!((ids(&shard), shard.received(PEER)), (expected, 64));
        assert_eq!(shard.dropped(prefix()), [(PEER, DropCause::TooManyPaths)]);
        // A path that the neighbor does not have is ignored, and what is announced again replaces.
        change(&mut shard, &[7, 7], &[9_999]);
        assert_eq!(shard.received(PEER), 64);
        change(&mut shard, &[u32::MAX], &[3, 4]);
        assert_eq!((shard.received(PEER), ids(&shard).last()), (63, Some(&Some(u32::MAX))));
        assert_eq!(shard.dropped(prefix()), []);
        change(&mut shard, &[], &all);
        assert_eq!(ids(&shard), [Some(u32::MAX)]);
        change(&mut shard, &[], &[u32::MAX]);
        assert!(shard.is_clean(PEER) && shard.view().prefixes == 0);
        assert!(shard.core.adj_rib_in.lanes.ids.iter().all(HashMap::is_empty));
    }

    #[test]
    fn paths_of_an_earlier_session_make_room_for_paths_with_other_identifiers() {
        let mut shard = shard();
        let of = |first: u32| (first..first + u32::from(MOST_PATHS)).collect::<Vec<u32>>();
        change(&mut shard, &of(0), &[]);
        shard.peer_down(PEER, Retention::Session);
        change(&mut shard, &of(1000), &[]);
        assert_eq!(ids(&shard), of(1000).into_iter().map(Some).collect::<Vec<_>>());
        shard.drop_stale(PEER);
        while shard.run_slice(Budget::SLICE, &mut Outbox::new()) == Progress::More {}
        assert_eq!(shard.received(PEER), 64);
        // A session without identifiers has one path of each prefix.
        shard.peer_down(PEER, Retention::Session);
        let mut batch = Batch::default();
        batch.push(prefix(), Change::<Ipv4Prefix>::WITHDRAWN);
        batch.end_event(Provenance::NONE);
        shard.apply(PEER, &batch, &mut Outbox::new());
        assert_eq!(ids(&shard).len(), 63);
        shard.drop_stale(PEER);
        while shard.run_slice(Budget::SLICE, &mut Outbox::new()) == Progress::More {}
        assert!(shard.is_clean(PEER) && shard.view().prefixes == 0);
    }

    #[test]
    fn received_identifiers_are_kept_by_entry_and_path() {
        let mut lanes = Lanes::default();
        let path = PathNumber::first_of(PeerIndex(20));
        lanes.forget(1, path);
        assert_eq!(lanes.id(1, path), None);
        lanes.set_id(1, path, 7);
        lanes.set_id(1 + PARTS as u32, path, 8);
        lanes.forget(1, path);
        assert_eq!((lanes.id(1, path), lanes.id(1 + PARTS as u32, path)), (None, Some(8)));
    }
}
