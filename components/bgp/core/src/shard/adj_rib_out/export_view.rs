//! Export views: the properties that peers share which receive the same routes.

use crate::attributes::{Reach, canonical};
use crate::orf::PrefixFilter;
use crate::policy::BoundPolicy;
use crate::relationship::Relationship;
use crate::shard::Accepted;
use crate::shard::entry::{AdjRibIn, PathNumber, PeerIndex, PeerInfo};
use crate::wire::attribute::code;
use crate::wire::{FamilyKey, MAX_EXTENDED_LEN, MAX_MESSAGE_LEN, PATH_ID_LEN};
use alloc::sync::Arc;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, RouterId};

/// The kinds of communities that are sent to a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SentCommunities {
    /// COMMUNITIES (RFC 1997).
    pub standard: bool,
    /// EXTENDED_COMMUNITIES (RFC 4360), and those of IPv6 addresses (RFC 5701).
    pub extended: bool,
    /// LARGE_COMMUNITY (RFC 8092).
    pub large: bool,
}

impl SentCommunities {
    /// Every kind.
    pub const ALL: SentCommunities = SentCommunities { standard: true, extended: true, large: true };
}

impl Default for SentCommunities {
    fn default() -> Self {
        SentCommunities::ALL
    }
}

/// Reflection of the routes of internal peers to other internal peers (RFC 4456).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reflection {
    /// The cluster for which this router reflects.
    pub cluster: RouterId,
    /// The peers are clients.
    pub to_clients: bool,
    /// Routes of clients are reflected to clients: the clients are not fully meshed.
    pub between_clients: bool,
}

impl Reflection {
    /// Returns true if the peers are sent a route of an internal peer, which is a client or not (RFC 4456, section 6).
    pub const fn reflects(self, from_client: bool) -> bool {
        match (from_client, self.to_clients) {
            (true, true) => self.between_clients,
            (from_client, to_clients) => from_client || to_clients,
        }
    }
}

/// The AS that external peers know this router by, in the place of the router's AS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherAs {
    /// The AS.
    pub number: Asn,
    /// Paths that the peers are sent do not have the router's AS.
    pub hides_router_as: bool,
}

/// The router's own default route for some peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultRoute {
    /// The policy for the route, in the place of the export policy; `None` if the route is announced unchanged.
    pub policy: Option<Arc<BoundPolicy>>,
}

/// The paths of a prefix that peers are sent which receive several (ADD-PATH, RFC 7911).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentPaths {
    /// Every usable path.
    All,
    /// A number of the best paths, at least 1. A peer's own path counts, but is not sent to the peer.
    Best(u8),
}

/// The rules by which routes are announced to a peer. Peers with equal views are in one update group: they receive the same routes,
/// apart from the next hop's address. Peers and tables with equal views share a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportView {
    /// The peers are in this AS.
    pub internal: bool,
    /// AS numbers have 4 octets.
    pub four_octet_as: bool,
    /// Messages may have 65,535 octets (RFC 8654).
    pub extended_messages: bool,
    /// The address of a peer whose advertisements are paced, which is alone in the update group: with other members, the peer
    /// would be sent each change, and not only the latest.
    pub paced: Option<IpAddr>,
    /// The router's own next hop has a link-local address too (RFC 2545, section 3).
    pub link_local: bool,
    /// Internal peers are sent the router as the next hop of routes learned outside.
    pub next_hop_self: bool,
    /// The rules of reflection; `None` for external peers.
    pub reflection: Option<Reflection>,
    /// External peers are sent routes as another external peer announced them, without this router's AS and next hop: a route server
    /// (RFC 7947).
    pub transparent: bool,
    /// The AS of the peers, replaced in paths by the router's: sites of one AS reach each other over the router.
    pub overridden_as: Option<Asn>,
    /// The AS that external peers know this router by; `None` for the router's AS.
    pub other_as: Option<OtherAs>,
    /// The role of external peers.
    pub relationship: Option<Relationship>,
    /// The peers are notified that the routes that they are sent will be withdrawn (RFC 8326).
    pub graceful_shutdown: bool,
    /// The peers are sent long-lived stale routes (RFC 9494, section 4.5).
    pub long_lived_stale: bool,
    /// The kinds of communities that the peers are sent.
    pub communities: SentCommunities,
    /// The paths of each prefix for the peers, with path identifiers; `None` for the best path without an identifier.
    pub paths: Option<SentPaths>,
    /// The policy for the choice of paths beside the best path: only accepted paths are sent; changes of the policy have no
    /// effect. `None` without a choice, and with a single path.
    pub further: Option<Arc<BoundPolicy>>,
    /// The router's own default route, sent in place of the best path; `None` for the best path.
    pub default_route: Option<DefaultRoute>,
    /// The prefixes wanted by the peers (RFC 5292); `None` for all.
    pub wanted: Option<Arc<PrefixFilter>>,
    /// The export policy; `None` if the rules of BGP alone decide.
    pub policy: Option<Arc<BoundPolicy>>,
}

impl ExportView {
    /// Returns the path of an entry that peers with the view are sent: the best one, or the router's own default route.
    #[inline(always)]
    pub(crate) fn best_path<P: FamilyKey>(&self, adj_rib_in: &AdjRibIn<P>, id: u32) -> Option<Accepted> {
        match &self.default_route {
            Some(_) if adj_rib_in.entries[id].prefix.len() == 0 => {
                adj_rib_in.own_default(id).or_else(|| adj_rib_in.best(id))
            }
            _ => adj_rib_in.best(id),
        }
    }

    /// Returns the number of the path that peers with the view are sent: see [`ExportView::best_path`].
    pub(crate) fn best_number<P: FamilyKey>(&self, adj_rib_in: &AdjRibIn<P>, id: u32) -> Option<PathNumber> {
        let default = PathNumber::first_of(PeerIndex::DEFAULT);
        let best = || adj_rib_in.entries.best(id).map(|path| path.number);
        match self.best_path(adj_rib_in, id)?.peer {
            PeerIndex::DEFAULT => Some(default),
            _ => best(),
        }
    }

    /// Returns true if the rules of BGP allow peers with this view to be sent a path: internal peers are sent no routes of internal
    /// peers (RFC 4271, section 9.2) that are not reflected, and communities and roles bound the reach of routes.
    #[inline(always)]
    pub(crate) fn may_export<P: FamilyKey>(&self, adj_rib_in: &AdjRibIn<P>, path: Accepted) -> bool {
        let info = &adj_rib_in.peers[usize::from(path.peer.0)].info;
        let reach = match self.relationship {
            _ if self.internal => Reach::OwnAs,
            // RFC 9234, section 5, egress 2; a neighbor without a relationship is sent as if there were no marks.
            None => Reach::Customers,
            Some(relationship) if relationship.is_for_everybody() => Reach::Customers,
            Some(_) => Reach::Everybody,
        };
        self.passes(info)
            && (adj_rib_in.sets[path.set].view.reach >= reach
                || self.ignores_communities(adj_rib_in, path, reach))
            && (self.long_lived_stale || !adj_rib_in.sets.is_long_lived(path.set))
    }

    /// Returns true if communities do not bound the reach of a path: a route server does not process its clients' communities
    /// (RFC 7947, section 2.2.4). ONLY_TO_CUSTOMER is no community.
    #[cold]
    fn ignores_communities<P: FamilyKey>(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        path: Accepted,
        reach: Reach,
    ) -> bool {
        let is_marked = || {
            let set = &adj_rib_in.sets[path.set];
            canonical::find(adj_rib_in.sets.octets(set), code::ONLY_TO_CUSTOMER).is_some()
        };
        let is_of_client = !path.peer.is_own() && !adj_rib_in.peers[usize::from(path.peer.0)].info.internal;
        self.transparent && is_of_client && (reach <= Reach::Customers || !is_marked())
    }

    /// Returns true if peers are sent routes of a peer as far as both are internal or not.
    #[inline(always)]
    pub(crate) fn passes(&self, from: &PeerInfo) -> bool {
        let is_inside = self.internal && from.internal;
        !is_inside || self.reflection.is_some_and(|reflection| reflection.reflects(from.client))
    }

    /// Returns true if peers are sent AS paths without this router's AS.
    #[inline(always)]
    pub(crate) const fn keeps_path(&self) -> bool {
        self.internal || self.transparent
    }

    /// Returns true if the peers want a prefix.
    #[inline(always)]
    pub(crate) fn wants<P: FamilyKey>(&self, prefix: P) -> bool {
        let Some(filter) = &self.wanted else { return true };
        prefix.as_ip().is_none_or(|prefix| filter.permits(prefix))
    }

    /// Returns the octets of the longest message.
    #[inline(always)]
    pub(crate) const fn longest_message(&self) -> usize {
        if self.extended_messages { MAX_EXTENDED_LEN } else { MAX_MESSAGE_LEN }
    }

    /// Returns the most octets of a prefix in a message.
    pub(crate) fn longest_nlri<P: FamilyKey>(&self) -> usize {
        let path_id = if self.paths.is_some() { PATH_ID_LEN } else { 0 };
        path_id + 1 + usize::from(P::WIDTH / 8)
    }

    /// Returns the AS that peers know a router of `local_as` by.
    pub(crate) fn presented_as(&self, local_as: Asn) -> Asn {
        self.other_as.map_or(local_as, |other| other.number)
    }

    /// Returns true if peers are sent routes by their validation.
    pub(crate) fn asks_for_validation(&self) -> bool {
        let of_default = self.default_route.as_ref().and_then(|route| route.policy.as_ref());
        self.policy.iter().chain(&self.further).chain(of_default).any(|policy| policy.asks_for_validation())
    }

    /// Returns the policy for the routes of a peer.
    #[inline(always)]
    pub(crate) fn policy_for(&self, peer: PeerIndex) -> Option<&Arc<BoundPolicy>> {
        match &self.default_route {
            Some(route) if peer == PeerIndex::DEFAULT => route.policy.as_ref(),
            _ => self.policy.as_ref(),
        }
    }
}
