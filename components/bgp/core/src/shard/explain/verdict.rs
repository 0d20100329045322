//! Answers to "why is a route not used, or not sent": for operators' requests, not for the processing of routes.

use super::view::RouteView;
use crate::attributes::Reach;
use crate::batch::DropCause;
use crate::policy::DecidedBy;
use crate::shard::adj_rib_out::{ExportView, Exported, Exporter, NextHopsFor, SentPaths};
use crate::shard::entry::PeerIndex;
use crate::shard::{Accepted, Shard};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use core::fmt;
use sluice_base::AnyPrefix;

/// The reason why a neighbor is not sent a prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// The neighbor's session is not established.
    NoSession,
    /// The two sides did not agree on the address family.
    NotAgreed,
    /// The router has no next hop of its own for the family on the session's interface.
    NoOwnNextHop,
    /// There is no route of the prefix.
    NoRoute,
    /// No path of the prefix is usable.
    NoBestPath,
    /// The best path came from the neighbor.
    FromThere,
    /// The best path came from an internal neighbor, and the neighbor is internal too (RFC 4271, section 9.2).
    FromInside,
    /// The best path came from a client, the neighbor is a client too, and client-to-client reflection is off.
    FromClient,
    /// A community or an attribute of the best path bounds its reach.
    Reach(Reach),
    /// The route is long-lived stale, and the peer does not support long-lived stale routes (RFC 9494).
    LongLivedStale,
    /// The neighbor's outbound route filter denies the prefix (RFC 5292).
    NotWanted,
    /// An aggregate with `summary-only` is announced in the place of the best path.
    Suppressed(AnyPrefix),
    /// The neighbor has no export policy, and external neighbors need one (RFC 8212).
    NoPolicy,
    /// Export policy rejects the best path.
    Rejected(DecidedBy),
    /// The policies of `add-path` do not choose the path beside the best path.
    NotChosen(DecidedBy),
    /// The path is not among this number of best paths (ADD-PATH, RFC 7911).
    NotOfBest(u8),
    /// The attributes do not fit in a message.
    TooLarge,
    /// The next hop is the neighbor's own address (RFC 4271, section 5.1.3).
    NextHopThere,
    /// A change waits to be sent.
    Waiting,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotSent::NoSession => "the session is not established",
            NotSent::NotAgreed => "the neighbor did not agree on the address family",
            NotSent::NoOwnNextHop => "this router has no next hop of its own for the family there",
            NotSent::NoRoute => "there is no route",
            NotSent::NoBestPath => "no path is usable",
            NotSent::FromThere => "the best path came from this neighbor",
            NotSent::FromInside => {
                "the best path came from an internal neighbor, as this one is (RFC 4271, section 9.2)"
            }
            NotSent::FromClient => {
                "the best path came from a client, as this one is, and client-to-client-reflection is off (RFC 4456)"
            }
            NotSent::Reach(Reach::Nobody) => "community no-advertise (RFC 1997)",
            NotSent::Reach(Reach::OwnAs) => "community no-export (RFC 1997)",
            NotSent::Reach(Reach::Customers) => "only customers are told the route (RFC 9234)",
            NotSent::Reach(Reach::Everybody) => "the reach of the route",
            NotSent::LongLivedStale => "long-lived stale route, which the neighbor does not understand (RFC 9494)",
            NotSent::NotWanted => "the neighbor's outbound route filter denies the prefix (RFC 5292)",
            NotSent::Suppressed(aggregate) => {
                return write!(f, "suppressed: the aggregate {aggregate} (summary-only) is announced in its place");
            }
            NotSent::NoPolicy => {
                "no export policy (RFC 8212): configure `export`, or `default-policy accept`"
            }
            NotSent::Rejected(by) => return write!(f, "rejected on export: {by}"),
            NotSent::NotChosen(by) if by.policy.is_empty() => "no term of the policies of add-path accepts the path",
            NotSent::NotChosen(by) => return write!(f, "not chosen by add-path: {by}"),
            NotSent::NotOfBest(most) => return write!(f, "not one of the {most} best paths that are sent"),
            NotSent::TooLarge => "the attributes do not fit in a message",
            NotSent::NextHopThere => "the next hop is this neighbor itself (RFC 4271, section 5.1.3)",
            NotSent::Waiting => "a change waits to be sent",
        })
    }
}

/// The route of a prefix as sent to a neighbor, or the reason why no route is sent.
pub type ExportVerdict<P> = Result<RouteView<P>, NotSent>;

impl<P: FamilyKey> Shard<P> {
    /// Returns the peers whose latest announcement of a prefix was not stored, with the causes, as far as the shard remembers.
    pub fn dropped(&self, prefix: P) -> Vec<(PeerIndex, DropCause)> {
        let core = &self.core;
        // The other paths of the prefix were stored.
        let is_beside_others = |cause| cause == DropCause::TooManyPaths;
        let is_present = |peer: PeerIndex, cause, generation| {
            let known = core.adj_rib_in.peers.get(usize::from(peer.0));
            known.is_some_and(|known| known.generation == generation)
                && (is_beside_others(cause) || !core.adj_rib_in.has_path(peer, None, prefix))
        };
        let all = core
            .dropped
            .of(prefix)
            .filter(|(peer, cause, generation)| is_present(*peer, *cause, *generation));
        all.map(|(peer, cause, _)| (peer, cause)).collect()
    }

    /// Returns what a peer is sent of a prefix; `hops` are the next hops towards the peer.
    ///
    /// # Errors
    ///
    /// The reason why nothing is sent.
    pub fn export_verdict(
        &self,
        peer: PeerIndex,
        prefix: P,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> ExportVerdict<P> {
        if let Some(sent) = self.advertised_route(peer, prefix, hops) {
            return Ok(sent);
        }
        let id = self
            .core
            .adj_rib_in
            .find(prefix)
            .filter(|id| !self.core.adj_rib_in.entries.paths(*id).is_empty());
        let id = id.ok_or(NotSent::NoRoute)?;
        let view = self.adj_rib_out.adj_rib_out(peer).map(|(view, _)| view);
        let best = match view {
            Some(view) => view.best_path(&self.core.adj_rib_in, id),
            None => self.core.adj_rib_in.best(id),
        };
        let best = best.ok_or(NotSent::NoBestPath)?;
        if best.peer == peer {
            return Err(NotSent::FromThere);
        }
        Err(self.not_sent(view.ok_or(NotSent::NotAgreed)?, id, best, hops))
    }

    /// Returns the usable paths of a prefix not sent to a peer with ADD-PATH, each with the received identifier and the reason.
    /// Empty for a peer without ADD-PATH.
    pub fn paths_not_sent(
        &self,
        peer: PeerIndex,
        prefix: P,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> Vec<(PeerIndex, Option<u32>, NotSent)> {
        let adj_rib_out = self.adj_rib_out.adj_rib_out(peer).zip(self.core.adj_rib_in.find(prefix));
        let Some(((view, branch), id)) = adj_rib_out else { return Vec::new() };
        let Some(paths_out) = &branch.paths_out else { return Vec::new() };
        let (core, sent) = (&self.core, paths_out.sent(id));
        let further = core.further_paths(id).filter(|number| !sent.contains(number));
        let cause = |number| {
            let path = core.adj_rib_in.path(id, number).filter(|path| path.peer != peer)?;
            let cause = match core.not_chosen(view, id, path) {
                Some(by) => NotSent::NotChosen(by),
                None => match (self.not_sent(view, id, path, hops), view.paths) {
                    (NotSent::Waiting, Some(SentPaths::Best(most))) => NotSent::NotOfBest(most),
                    (cause, _) => cause,
                },
            };
            Some((path.peer, core.adj_rib_in.lanes.id(id, number), cause))
        };
        further.filter_map(cause).collect()
    }

    /// Returns the reason why peers with a view are not sent a path.
    fn not_sent(
        &self,
        view: &ExportView,
        id: u32,
        best: Accepted,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> NotSent {
        let (Accepted { set, .. }, prefix) = (best, self.core.adj_rib_in.entries[id].prefix);
        if !view.may_export(&self.core.adj_rib_in, best) {
            let info = &self.core.adj_rib_in.peers[usize::from(best.peer.0)].info;
            let is_client = info.client && view.reflection.is_some_and(|rules| rules.to_clients);
            return match view.internal && info.internal {
                true if is_client && !view.passes(info) => NotSent::FromClient,
                true if !view.passes(info) => NotSent::FromInside,
                _ if !view.long_lived_stale && self.core.adj_rib_in.sets.is_long_lived(set) => {
                    NotSent::LongLivedStale
                }
                _ => NotSent::Reach(self.core.adj_rib_in.sets[set].view.reach),
            };
        }
        if let Some(aggregate) = self.core.loc_rib.aggregates.suppressed_by(
            &self.core.adj_rib_in,
            &self.core.resolver,
            &self.core.context,
            id,
            best,
        ) {
            return NotSent::Suppressed(AnyPrefix::of(aggregate));
        }
        if !view.wants(prefix) {
            return NotSent::NotWanted;
        }
        let mut exporter = Exporter::default();
        if let Some(outcome) = exporter.export(&self.core, view, id, best) {
            let mut exported = Exported::default();
            exported.make(&self.core, &exporter.subject(&self.core, outcome, best), view);
            let points_back = exported.points_back::<P>(hops);
            return if points_back { NotSent::NextHopThere } else { NotSent::Waiting };
        }
        if !exporter.too_large.is_empty() {
            return NotSent::TooLarge;
        }
        match exporter.rejected_by(&self.core, view, id, best) {
            Some(by) => NotSent::Rejected(by),
            None if view.policy_for(best.peer).is_some_and(|policy| policy.is_default()) => NotSent::NoPolicy,
            None => NotSent::Rejected(DecidedBy::default()),
        }
    }
}
