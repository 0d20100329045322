//! The attribute sets of paths: found or made for announced routes, and released, with the questions about next hops.

use crate::attributes::View;
use crate::batch::BatchSet;
use crate::shard::entry::{AdjRibIn, PathSet, PeerIndex, SetId, Sets};
use crate::shard::resolver::{Interest, Resolver};
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use sluice_machine::Outbox;

impl<P: FamilyKey> AdjRibIn<P> {
    /// Returns the shard's set for a set of a batch, with a reference for the caller.
    pub(crate) fn intern(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        set: &BatchSet,
        octets: &[u8],
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> SetId {
        let known = &*resolver;
        let is_hop = |hop| known.next_hop(hop) == Some(&set.next_hop);
        if let Some(id) = self.sets.find(set.hash, octets, is_hop) {
            return id;
        }
        let hop = resolver.acquire(set.next_hop, out);
        self.sets.insert(set.hash, octets, hop, set.view)
    }

    /// Returns the set of changed attributes, with a reference for the caller.
    pub(crate) fn intern_octets(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        octets: &[u8],
        next_hop: NextHop,
        view: View,
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> SetId {
        let hash = self.seed.attributes(octets, &next_hop);
        let known = &*resolver;
        let is_hop = |hop| known.next_hop(hop) == Some(&next_hop);
        if let Some(id) = self.sets.find(hash, octets, is_hop) {
            return id;
        }
        let hop = resolver.acquire(next_hop, out);
        self.sets.insert(hash, octets, hop, view)
    }

    /// Releases a reference to a set.
    pub(crate) fn release(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        set: SetId,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        if let Some(hop) = self.sets.release(set) {
            resolver.release(hop, out);
        }
    }

    /// Releases a path's reference to its attributes.
    #[inline(always)]
    pub(crate) fn release_path(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        attributes: PathSet,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        match attributes.plain() {
            Some(set) => self.release(resolver, set, out),
            None => self.release_pair(resolver, attributes, out),
        }
    }

    #[inline(never)]
    fn release_pair(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        attributes: PathSet,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        for hop in self.sets.release_pair(attributes) {
            resolver.release(hop, out);
        }
    }

    /// Notes changed attributes of a path at the resolver, and in the peer's counts.
    pub(crate) fn note_replaced(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        id: u32,
        peer: PeerIndex,
        before: PathSet,
        after: PathSet,
    ) {
        let hop = |sets: &Sets, attributes| sets.accepted(attributes).map(|set| sets[set].hop);
        let (hop_before, hop) = (hop(&self.sets, before), hop(&self.sets, after));
        if hop_before == hop {
            return;
        }
        let known = &mut self.peers[usize::from(peer.0)];
        match hop_before {
            Some(hop) => resolver.remove_path(hop),
            None => known.rejected -= 1,
        }
        match hop {
            Some(hop) => resolver.add_path(hop, id, peer),
            None => known.rejected += 1,
        }
    }
}
