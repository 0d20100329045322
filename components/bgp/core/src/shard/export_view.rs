//! Export views: the properties that peers share which receive the same routes.

use super::{Accepted, Core, PeerIndex};
use crate::attributes::Reach;
use crate::policy::BoundPolicy;
use crate::relationship::Relationship;
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use serde::{Deserialize, Serialize};

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
    /// All kinds.
    pub const ALL: SentCommunities = SentCommunities { standard: true, extended: true, large: true };
}

impl Default for SentCommunities {
    fn default() -> Self {
        SentCommunities::ALL
    }
}

/// The router's own default route for some peers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultRoute {
    /// The policy for the route, in the place of the export policy; `None` if the route is announced unchanged.
    pub policy: Option<Arc<BoundPolicy>>,
}

/// The rules by which routes are announced to a peer. Peers with equal views are in one update group: they receive the same routes,
/// apart from the next hop's address. A view is made once for all peers and tables that share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportView {
    /// The peers are in this AS.
    pub internal: bool,
    /// AS numbers have 4 octets.
    pub four_octet_as: bool,
    /// The router's own next hop has a link-local address too (RFC 2545, section 3).
    pub link_local: bool,
    /// Internal peers are told this router as the next hop of what it learned outside.
    pub next_hop_self: bool,
    /// The role of external peers.
    pub relationship: Option<Relationship>,
    /// The peers are told that what they are told will go (RFC 8326).
    pub graceful_shutdown: bool,
    /// The kinds of communities that the peers are sent.
    pub communities: SentCommunities,
    /// The router's own default route, which the peers are told in the place of any other; `None` if they are told the best path.
    pub default_route: Option<DefaultRoute>,
    /// The export policy; `None` if every route is announced unchanged that the rules of BGP allow.
    pub policy: Option<Arc<BoundPolicy>>,
}

impl ExportView {
    /// Returns true if the rules of BGP allow peers with this view to be told a path: internal peers are told no routes of internal
    /// peers (RFC 4271, section 9.2), and communities and roles bound the reach of routes.
    #[inline(always)]
    pub(super) fn may_export<P: FamilyKey>(&self, core: &Core<P>, path: Accepted) -> bool {
        let from_inside = core.peers[usize::from(path.peer.0)].info.internal;
        let reach = match self.relationship {
            _ if self.internal => Reach::OwnAs,
            // RFC 9234, section 5, egress 2; a neighbour without a relationship is told as if there were no marks.
            None | Some(Relationship::Customer) => Reach::Customers,
            Some(Relationship::Peer | Relationship::Provider) => Reach::Everybody,
        };
        !(self.internal && from_inside) && core.sets[path.set].view.reach >= reach
    }

    /// Returns the policy for the routes of a peer.
    #[inline(always)]
    pub(super) fn policy_for(&self, peer: PeerIndex) -> Option<&Arc<BoundPolicy>> {
        match &self.default_route {
            Some(route) if peer == PeerIndex::DEFAULT => route.policy.as_ref(),
            _ => self.policy.as_ref(),
        }
    }
}
