//! The two rules between the decision and PeerOut, in the words of the stage kit, for the checking stage.
//!
//! The hot part of a shard is not a row of stage objects: an entry holds the paths of a prefix, and a branch is a cursor into one
//! queue. What a stage promises holds all the same: a group is sent a deletion only of what it was sent (rule 1), and what it is
//! sent is what a look-up finds at that moment (rule 2). This file states both so that they can be verified.

use super::export_view::ExportView;
use super::exporter::Exporter;
use super::item::{Item, Source};
use crate::shard::entry::PeerIndex;
use crate::shard::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::Provenance;
use sluice_stage::{Action, Batch, Change, CheckStage, Source as Head, Stage, Table, Upstream, Violation};

/// The Adj-RIB-Out of an update group: the source of each prefix's route. The attributes follow from the shard's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced<P>(PhantomData<P>);

impl<P: FamilyKey> Table for Announced<P> {
    type Key = P;
    type Route = AdvertisedSource;
}

/// Whose route a group was sent.
pub type AdvertisedSource = Source;

/// The Adj-RIB-Out that a group should have, by the shard's entries.
pub(crate) struct Truth<'a, P: FamilyKey> {
    pub core: &'a Core<P>,
    pub view: &'a ExportView,
}

impl<P: FamilyKey> Head<Announced<P>> for Truth<'_, P> {
    fn lookup(&self, prefix: P) -> Option<Source> {
        let id = self.core.adj_rib_in.find(prefix)?;
        Exporter::default().best(self.core, self.view, id).map(|(peer, _)| Source::of(peer))
    }

    fn next_after(&self, prefix: Option<P>) -> Option<(P, Source)> {
        let entries = &self.core.adj_rib_in.entries;
        let all = (0..entries.end()).filter(|id| !entries.is_vacant(*id)).map(|id| entries[id].prefix);
        let next = all.filter(|next| prefix.is_none_or(|p| *next > p)).min()?;
        self.lookup(next).map(|source| (next, source)).or_else(|| self.next_after(Some(next)))
    }
}

/// Sends the items through the checking stage as changes of the advertised source.
#[cold]
pub(crate) fn run_check<P: FamilyKey>(
    check: &mut CheckStage<Announced<P>>,
    core: &Core<P>,
    view: &ExportView,
    items: &[Item],
) {
    let advertised = |source: Source| source.peer().map(|_| source);
    let mut batch = Batch::new();
    for item in items {
        let action = match (advertised(item.before), advertised(item.source)) {
            (Some(old), Some(new)) => Action::Replace { old, new },
            (None, Some(new)) => Action::Add(new),
            (Some(old), None) => Action::Delete(old),
            (None, None) => continue,
        };
        let provenance: Provenance = item.provenance;
        batch.push(Change { key: core.adj_rib_in.entries[item.entry].prefix, action, provenance });
    }
    let truth = Truth { core, view };
    check.process(&mut batch, Upstream::new(&truth, &[]), &mut Batch::new());
}

/// The peers whose PeerOut has a checking stage before it.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    all: bool,
    peers: BTreeSet<PeerIndex>,
}

impl Checked {
    /// Adds or removes a peer; `None` stands for every peer, of later sessions too.
    pub fn set(&mut self, peer: Option<PeerIndex>, on: bool) {
        match peer {
            Some(peer) if on => _ = self.peers.insert(peer),
            Some(peer) => _ = self.peers.remove(&peer),
            None => (self.all, self.peers) = (on, BTreeSet::new()),
        }
    }

    /// Returns true if a peer is checked.
    pub fn covers(&self, peer: PeerIndex) -> bool {
        self.all || self.peers.contains(&peer)
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Puts a checking stage before the PeerOut of a peer, or of all peers without one; or removes it. Peers of one update group
    /// are checked together.
    pub fn check(&mut self, peer: Option<PeerIndex>, on: bool) {
        self.adj_rib_out.check(peer, on);
    }

    /// Returns the violations that the checking stages found so far.
    pub fn violations(&self) -> Vec<Violation<Announced<P>>> {
        self.adj_rib_out.violations().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::FamilyIndex;
    use crate::hash::HashSeed;
    use crate::shard::adj_rib_out::filled::Filled;
    use crate::shard::adj_rib_out::next_hops::NextHopsFor;
    use crate::shard::adj_rib_out::pack::Sent;
    use crate::shard::adj_rib_out::reexport::tests::view;
    use crate::shard::own_router::OwnRouter;
    use sluice_base::{Asn, Ipv4Prefix, RouterId};

    const PEERS: [PeerIndex; 3] = [PeerIndex(20), PeerIndex(21), PeerIndex(22)];

    /// Fills the buffers of all peers, so that groups of equal views become one.
    fn settle(shard: &mut Shard<Ipv4Prefix>) {
        for peer in PEERS {
            let own = [192, 0, 2, 1];
            let hop = NextHopsFor { own: &own, subnet: None, keeps_third_party: false, member: None };
            while shard.fill(peer, &hop, 4096, &mut Vec::new(), &mut Sent::default()) != Filled::Dry {}
        }
    }

    fn checked(shard: &Shard<Ipv4Prefix>) -> Vec<PeerIndex> {
        let groups = shard.groups().into_iter().filter(|group| group.checked);
        let mut all: Vec<PeerIndex> = groups.flat_map(|group| group.members).collect();
        all.sort();
        all
    }

    #[test]
    fn one_peer_is_checked_with_those_of_its_group() {
        let router = OwnRouter::new(Asn(9), RouterId(99));
        let mut shard = Shard::<Ipv4Prefix>::new(router, HashSeed(1), FamilyIndex::IPV4.row().code);
        let [a, b, c] = PEERS;
        shard.check(Some(b), true);
        for (peer, next_hop_self) in [(a, false), (b, false), (c, true)] {
            shard.join(peer, view(next_hop_self));
        }
        assert_eq!(checked(&shard), [b], "each is alone until all routes are advertised");
        settle(&mut shard);
        assert_eq!(checked(&shard), [a, b]);
        shard.refresh(b, None, 0);
        assert_eq!(checked(&shard), [b]);
        shard.leave(b);
        assert_eq!(checked(&shard), []);
        shard.join(b, view(false));
        settle(&mut shard);
        shard.check(None, true);
        assert_eq!(checked(&shard), PEERS);
        shard.check(None, false);
        assert_eq!(checked(&shard), []);
    }
}
