//! An operator's views of a shard, in pages, without stalling the router.

use crate::attributes::{DEFAULT_LOCAL_PREF, View, canonical};
use crate::family::FamilyIndex;
use crate::policy::{DecidedBy, Memory};
use crate::shard::adj_rib_out::{ExportView, Exported, Exporter, NextHopsFor, Paths};
use crate::shard::entry::{PathNumber, PeerIndex, SetId};
use crate::shard::loc_rib::{Elimination, Multipath};
use crate::shard::queue::Cursor;
use crate::shard::resolver::Resolution;
use crate::shard::{Accepted, Core, Shard};
use crate::wire::FamilyKey;
use crate::wire::attribute::code;
use crate::wire::multiprotocol::NextHop;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, Duration};
use sluice_validation::{PathValidity, Validity};

/// A path of a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathView {
    /// The peer that announced the path.
    pub peer: PeerIndex,
    /// The path identifier (RFC 7911): as received, or, of an advertised route, as sent. `None` in a session without identifiers.
    pub path_id: Option<u32>,
    /// True for a path of an ended session, which will be deleted.
    pub stale: bool,
    /// The reason why the path is not the best; `None` for the best path.
    pub lost: Option<Elimination>,
    /// The part of the path in multipath forwarding; `None` with a single forwarding path, and for paths eliminated by a step up
    /// to the interior cost.
    pub multipath: Option<Multipath>,
    /// The term that rejects the path on import; empty names if no term decides. `None` for an accepted path.
    pub rejected_by: Option<DecidedBy>,
    /// The time for which flap damping (RFC 2439) suppresses the path; `None` for other paths.
    pub suppressed_for: Option<Duration>,
    /// The next hop.
    pub next_hop: NextHop,
    /// The resolution of the next hop.
    pub resolution: Resolution,
    /// The prefix of the RIB's route to the next hop; `None` on a connected subnet, and for a next hop that cannot be reached.
    pub resolved_by: Option<AnyPrefix>,
    /// The values that the decision compares.
    pub view: View,
    /// The validation of the origin of the path as it came.
    pub validity: Validity,
    /// The verification of the AS path as it came.
    pub path_validity: PathValidity,
    /// The received route, if changed by the rules of BGP or import policy.
    pub received: Option<ReceivedView>,
    /// The canonical attributes for import policy, if changed by the rules of BGP.
    pub entered: Option<Vec<u8>>,
    /// The attributes, canonical: for [`crate::attributes::canonical::attributes`]. For an advertised route the sent attributes,
    /// without the next hop.
    pub attributes: Vec<u8>,
    /// The codes of the attributes that an advertised route lost to fit in a message (RFC 8654, section 4).
    pub removed: Vec<u8>,
}

/// A route as received, before import policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedView {
    /// The next hop.
    pub next_hop: NextHop,
    /// The values for the decision.
    pub view: View,
    /// The canonical attributes.
    pub attributes: Vec<u8>,
}

/// A prefix and its paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteView<P> {
    /// The prefix.
    pub prefix: P,
    /// The paths: the best first, then the paths used beside it, then the rest by peer.
    pub paths: Vec<PathView>,
}

/// An update group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    /// The export view of the members.
    pub view: Arc<ExportView>,
    /// The members.
    pub members: Vec<PeerIndex>,
    /// Blocks not yet read by every member.
    pub blocks: usize,
    /// Changes not packed for the group yet.
    pub behind: u64,
    /// True if a checking stage is plugged in.
    pub checked: bool,
}

/// A shard in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardView {
    /// Prefixes that have paths, or had paths whose withdrawal is yet to be sent to a reader.
    pub prefixes: usize,
    /// Prefixes with a best path: routes of the Loc-RIB.
    pub selected: u64,
    /// Distinct attribute sets.
    pub attribute_sets: usize,
    /// References in the change queue.
    pub queued: usize,
    /// Paths that the deletion stage has yet to delete.
    pub stale: u64,
    /// Best routes sent to the RIB.
    pub in_rib: u32,
    /// Prefixes with several forwarding paths.
    pub multipath: usize,
    /// Pairs of a received attribute set and the result of import policy.
    pub imported_pairs: usize,
    /// Paths rejected by import policy.
    pub rejected: u64,
}

impl core::iter::Sum for ShardView {
    fn sum<I: Iterator<Item = Self>>(views: I) -> Self {
        views.fold(ShardView::default(), |a, b| ShardView {
            prefixes: a.prefixes + b.prefixes,
            selected: a.selected + b.selected,
            attribute_sets: a.attribute_sets + b.attribute_sets,
            queued: a.queued + b.queued,
            stale: a.stale + b.stale,
            in_rib: a.in_rib + b.in_rib,
            multipath: a.multipath + b.multipath,
            imported_pairs: a.imported_pairs + b.imported_pairs,
            rejected: a.rejected + b.rejected,
        })
    }
}

impl<P: FamilyKey> Shard<P> {
    /// The shard in numbers.
    pub fn view(&self) -> ShardView {
        ShardView {
            prefixes: self.core.adj_rib_in.entries.len(),
            selected: self.core.loc_rib.selected.into(),
            attribute_sets: self.core.adj_rib_in.sets.len(),
            queued: self.core.loc_rib.queue.len(),
            stale: self.core.adj_rib_in.peers.iter().map(|p| u64::from(p.stale)).sum(),
            in_rib: self.rib.branch.advertised_count(),
            multipath: self.rib.group_count(),
            imported_pairs: self.core.adj_rib_in.sets.pair_count(),
            rejected: self.core.adj_rib_in.peers.iter().map(|p| u64::from(p.rejected)).sum(),
        }
    }

    /// The number of paths that `peer` has announced and not withdrawn: of prefixes, or of paths if the peer sends several.
    pub fn received(&self, peer: PeerIndex) -> u32 {
        self.core.adj_rib_in.peers.get(usize::from(peer.0)).map_or(0, |p| p.paths - p.stale)
    }

    /// Returns the number of prefixes of `peer` that import policy rejects, routes of earlier sessions included.
    pub fn rejected(&self, peer: PeerIndex) -> u32 {
        self.core.adj_rib_in.peers.get(usize::from(peer.0)).map_or(0, |p| p.rejected)
    }

    /// The number of prefixes that `peer` was sent: the prefixes of the update group without the peer's own. Exact without
    /// waiting changes.
    pub fn advertised(&self, peer: PeerIndex) -> u32 {
        self.adj_rib_out
            .adj_rib_out(peer)
            .map_or(0, |(_, branch)| branch.advertised_count() - branch.advertised_by_source(peer))
    }

    /// The update groups.
    pub fn groups(&self) -> Vec<GroupView> {
        let end = self.core.loc_rib.queue.end();
        let view = |(view, members, blocks, cursor, checked): (_, _, _, Cursor, _)| GroupView {
            view,
            members,
            blocks,
            behind: cursor.distance(end),
            checked,
        };
        self.adj_rib_out.plumbing().map(view).collect()
    }

    /// Returns the next hops with their resolutions and numbers of paths.
    pub fn next_hops(&self) -> impl Iterator<Item = (&NextHop, Resolution, u32)> {
        self.core.resolver.view()
    }

    /// Returns a prefix with its paths; `None` without a path.
    pub fn route(&self, prefix: P) -> Option<RouteView<P>> {
        let id = self.core.adj_rib_in.find(prefix)?;
        self.route_at(id)
    }

    /// Returns a prefix with the best path as sent to `peer`, or with several paths in a session with ADD-PATH. `hops` are the
    /// next hops towards the peer: the export rules are applied to the attributes and the next hop, with AS numbers of four
    /// octets. `None` if the prefix is not sent to the peer.
    pub fn advertised_route(
        &self,
        peer: PeerIndex,
        prefix: P,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> Option<RouteView<P>> {
        let id = self.core.adj_rib_in.find(prefix).filter(|_| self.is_advertised(peer, prefix))?;
        let (view, branch) = self.adj_rib_out.adj_rib_out(peer)?;
        let sent: Paths = match &branch.paths_out {
            Some(paths_out) => paths_out.sent(id),
            None => view.best_number(&self.core.adj_rib_in, id).into_iter().collect(),
        };
        let others = sent.iter().filter(|number| self.core.adj_rib_in.lanes.peer(**number) != peer);
        let paths: Vec<PathView> =
            others.filter_map(|number| self.sent_path(view, id, *number, hops)).collect();
        (!paths.is_empty()).then_some(RouteView { prefix, paths })
    }

    /// Returns a path as sent to peers with a view.
    fn sent_path(
        &self,
        view: &ExportView,
        id: u32,
        number: PathNumber,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> Option<PathView> {
        let accepted = self.core.adj_rib_in.path(id, number)?;
        let mut exporter = Exporter::default();
        let outcome = exporter.export(&self.core, view, id, accepted)?;
        let mut exported = Exported::default();
        let shown = ExportView { four_octet_as: true, ..view.clone() };
        exported.make(&self.core, &exporter.subject(&self.core, outcome, accepted), &shown);
        if exported.points_back::<P>(hops) {
            return None;
        }
        let next_hop =
            (FamilyIndex::of::<P>().row().next_hop)(exported.next_hop_towards::<P>(hops), 0).ok()?;
        let mut path = self.paths_at(id).into_iter().find(|(known, _)| *known == number)?.1;
        path.path_id = view.paths.map(|_| self.core.adj_rib_in.lanes.sent_id(number));
        path.removed = exporter.removed(outcome).to_vec();
        path.attributes.clear();
        let sent = canonical::attributes(&exported.attributes).filter(|a| a.code != code::NEXT_HOP);
        sent.for_each(|attribute| attribute.put(&mut path.attributes));
        let number = |code| {
            let value = canonical::find(&path.attributes, code).and_then(|value| value.first_chunk::<4>());
            value.map(|octets| u32::from_be_bytes(*octets))
        };
        path.view.med = number(code::MULTI_EXIT_DISC);
        path.view.local_pref = number(code::LOCAL_PREF).unwrap_or(DEFAULT_LOCAL_PREF);
        path.next_hop = next_hop;
        Some(path)
    }

    fn route_at(&self, id: u32) -> Option<RouteView<P>> {
        let paths: Vec<PathView> = self.paths_at(id).into_iter().map(|(_, path)| path).collect();
        (!paths.is_empty()).then_some(RouteView { prefix: self.core.adj_rib_in.entries[id].prefix, paths })
    }

    /// Returns the paths of an entry with their numbers, the best first.
    fn paths_at(&self, id: u32) -> Vec<(PathNumber, PathView)> {
        let paths = self.core.adj_rib_in.entries.paths(id);
        let mut reasons: Vec<Option<Elimination>> = paths.iter().map(|_| None).collect();
        let current =
            self.core.adj_rib_in.entries.best(id).map(|best| self.core.adj_rib_in.lanes.peer(best.number));
        self.core.loc_rib.tables(&self.core.adj_rib_in, &self.core.resolver, id).decide(
            paths,
            current,
            |index, lost| reasons[index] = Some(lost),
        );
        let parts = self.core.loc_rib.parts_of_paths(&self.core.adj_rib_in, &self.core.resolver, id);
        let mut paths: Vec<(PathNumber, PathView)> = paths
            .iter()
            .zip(reasons)
            .zip(parts)
            .map(|((path, lost), multipath)| {
                let sets = &self.core.adj_rib_in.sets;
                let index = self.core.adj_rib_in.lanes.peer(path.number);
                let peer = &self.core.adj_rib_in.peers[usize::from(index.0)];
                let (came, accepted) = (sets.received(path.attributes), sets.accepted(path.attributes));
                let used = accepted.unwrap_or(came);
                let ReceivedView { next_hop, view, attributes } = self.set_view(used);
                let prefix = self.core.adj_rib_in.entries[id].prefix;
                let is_suppressed = self.core.damping.is_damped_path(index, path.number, prefix);
                let view = PathView {
                    peer: index,
                    path_id: self.core.adj_rib_in.lanes.id(id, path.number),
                    stale: path.generation != peer.generation,
                    lost,
                    multipath,
                    suppressed_for: self.core.damping.suppressed_for(index, prefix).filter(|_| is_suppressed),
                    rejected_by: accepted
                        .is_none()
                        .then(|| rejected_by(&self.core, index, prefix, came).unwrap_or_default()),
                    next_hop,
                    resolution: self.core.resolver.resolution(sets[used].hop),
                    resolved_by: self.core.resolver.resolved_by(sets[used].hop).map(AnyPrefix::of),
                    view,
                    validity: self.core.validity(index, prefix, came),
                    path_validity: self.core.path_validity(index, prefix, came),
                    received: (used != came).then(|| self.set_view(came)),
                    entered: peer.import.as_ref().and_then(|policy| policy.entered(sets.octets(&sets[came]))),
                    attributes,
                    removed: Vec::new(),
                };
                (path.number, view)
            })
            .collect();
        let is_left_out = |p: &PathView| !matches!(p.multipath, Some(Multipath::Used { .. }));
        paths.sort_by_key(|(_, p)| (p.lost.is_some(), is_left_out(p), p.peer, p.path_id));
        paths
    }

    fn set_view(&self, set: SetId) -> ReceivedView {
        let set = &self.core.adj_rib_in.sets[set];
        ReceivedView {
            next_hop: self.core.resolver.next_hop_of(set.hop),
            view: set.view,
            attributes: self.core.adj_rib_in.sets.octets(set).to_vec(),
        }
    }

    /// Returns up to `limit` routes for which `wanted` returns true, from place `from` on, visiting at most 16 times as many
    /// places; and the place of the next page, `None` at the end. Places are not ordered by prefix. A route present all the time
    /// is in exactly one page.
    pub fn routes(
        &self,
        from: u32,
        limit: usize,
        wanted: impl Fn(P) -> bool,
    ) -> (Vec<RouteView<P>>, Option<u32>) {
        let mut routes = Vec::new();
        let end = self.core.adj_rib_in.entries.end();
        let stop = end.min(from.saturating_add(u32::try_from(limit.saturating_mul(16)).unwrap_or(u32::MAX)));
        for id in from..stop {
            if wanted(self.core.adj_rib_in.entries[id].prefix)
                && let Some(route) = self.route_at(id)
            {
                routes.push(route);
                if routes.len() == limit {
                    return (routes, (id + 1 < end).then_some(id + 1));
                }
            }
        }
        (routes, (stop < end).then_some(stop))
    }

    /// Visits up to `places` places from `from` on and adds prefixes with a path, accepted by `wanted`, to `found`. The arguments
    /// of `wanted` are a prefix and, for each path, the neighbor, and the number and the canonical octets of the attribute set.
    /// Returns the place to go on from; `None` at the end. Places are not in the order of prefixes.
    pub fn list(
        &self,
        from: u32,
        places: u32,
        mut wanted: impl FnMut(P, &mut dyn Iterator<Item = (PeerIndex, u32, &[u8])>) -> bool,
        found: &mut Vec<P>,
    ) -> Option<u32> {
        let end = self.core.adj_rib_in.entries.end();
        let stop = end.min(from.saturating_add(places));
        for id in from..stop {
            let paths = self.core.adj_rib_in.entries.paths(id);
            let prefix = self.core.adj_rib_in.entries[id].prefix;
            let sets = &self.core.adj_rib_in.sets;
            let mut attributes = paths.iter().map(|path| {
                let set = sets.accepted(path.attributes).unwrap_or(sets.received(path.attributes));
                (self.core.adj_rib_in.lanes.peer(path.number), set.0, sets.octets(&sets[set]))
            });
            if !paths.is_empty() && wanted(prefix, &mut attributes) {
                found.push(prefix);
            }
        }
        (stop < end).then_some(stop)
    }

    /// Returns true if `peer` was sent a route of `prefix`: its Adj-RIB-Out. [`Shard::advertised_route`] has the attributes.
    pub fn is_advertised(&self, peer: PeerIndex, prefix: P) -> bool {
        let Some(id) = self.core.adj_rib_in.find(prefix) else { return false };
        let Some((_, branch)) = self.adj_rib_out.adj_rib_out(peer) else { return false };
        if let Some(paths_out) = &branch.paths_out {
            return paths_out.sent(id).iter().any(|path| self.core.adj_rib_in.lanes.peer(*path) != peer);
        }
        branch.advertised(id).peer().is_some_and(|source| source != peer)
    }
}

/// Returns the cause of a rejection on import; `None` for an accepted path.
fn rejected_by<P: FamilyKey>(
    core: &Core<P>,
    peer: PeerIndex,
    prefix: P,
    received: SetId,
) -> Option<DecidedBy> {
    let policy = core.adj_rib_in.peers.get(usize::from(peer.0))?.import.as_ref()?;
    let path = Accepted { peer, set: received };
    let mut route = core.context.route(&core.adj_rib_in, &core.resolver, prefix, path);
    let outcome = policy.decide(&mut route, &mut Memory::new(policy));
    let by_default = || DecidedBy { is_without_policy: policy.is_default(), ..DecidedBy::default() };
    (!outcome.is_accepted).then(|| policy.decided_by(&outcome).unwrap_or_else(by_default))
}
