//! The attributes of announced routes: what each kind of peer receives of a route (RFC 4271, sections 5 and 9.1.3).

use super::export_view::ExportView;
use super::next_hops::NextHopsFor;
use crate::attributes::{View, canonical};
use crate::graceful_shutdown;
use crate::policy::{Edited, NextHopRule};
use crate::relationship::Relationship;
use crate::shard::entry::PeerIndex;
use crate::shard::{Accepted, Core};
use crate::wire::attribute::{Flags, RawAttribute, code, put_header};
use crate::wire::multiprotocol::NextHop;
use crate::wire::{FamilyKey, as_path};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Address, Asn, Prefix, RouterId};

/// The attributes of an announced route, before the rules of the session: a path's set, or the result of export policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The canonical octets.
    pub octets: &'a [u8],
    view: &'a View,
    next_hop: Option<NextHop>,
    peer: PeerIndex,
    rule: NextHopRule,
    /// True if export policy set MULTI_EXIT_DISC.
    has_own_med: bool,
}

impl<'a> Subject<'a> {
    /// The attributes of a path as its set has them.
    #[inline(always)]
    pub fn of<P: FamilyKey>(core: &'a Core<P>, path: Accepted) -> Self {
        let set = &core.adj_rib_in.sets[path.set];
        Subject {
            octets: core.adj_rib_in.sets.octets(set),
            view: &set.view,
            next_hop: core.resolver.next_hop(set.hop).copied(),
            peer: path.peer,
            rule: NextHopRule::Session,
            has_own_med: false,
        }
    }

    /// The attributes of a peer's path that export policy changed, or that lost attributes to fit in a message.
    pub fn changed(edited: &'a Edited, peer: PeerIndex) -> Self {
        Subject {
            octets: &edited.octets,
            view: &edited.view,
            next_hop: Some(edited.next_hop),
            peer,
            rule: edited.rule,
            has_own_med: edited.sets_med,
        }
    }

    /// Returns the attributes as changed ones; `next_hop` is the path's.
    #[cold]
    pub fn to_edited(self, next_hop: NextHop) -> Edited {
        Edited {
            octets: self.octets.to_vec(),
            view: *self.view,
            next_hop: self.next_hop.unwrap_or(next_hop),
            rule: self.rule,
            sets_med: self.has_own_med,
        }
    }
}

/// The sources of the router's own attributes.
struct Own<'a> {
    /// The AS that the peers know this router by.
    presented_as: Asn,
    local_pref: u32,
    /// The BGP Identifier of the route's peer.
    originator: RouterId,
    key: &'a ExportView,
}

/// Attributes as they are announced.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    /// The attributes without MP_REACH_NLRI.
    pub attributes: Vec<u8>,
    /// The next hop's octets; for the router's own, which differs from peer to peer, only the room.
    pub next_hop: Vec<u8>,
    /// True if it is the router's own.
    pub is_own: bool,
    /// `next_hop` is an external neighbor's next hop. Members on the same subnet keep this next hop in place of the router's own
    /// (RFC 4271, section 5.1.3); zeros stand for an unknown link-local address.
    pub is_third_party: bool,
    /// The offset of the next hop in `attributes`: IPv4 only.
    pub next_hop_at: usize,
    /// The path with 4-octet numbers, for neighbors that need AS4_PATH.
    path: Vec<u8>,
}

impl Exported {
    /// Makes the attributes of a route for peers with a view.
    #[inline(always)]
    pub fn make<P: FamilyKey>(&mut self, core: &Core<P>, route: &Subject<'_>, key: &ExportView) {
        let originated = route.peer.is_own();
        let source = &core.adj_rib_in.peers[usize::from(route.peer.0)].info;
        let from_inside = source.internal;
        // Routes of an internal peer are announced to internal peers by reflection only.
        let reflection = key.reflection.filter(|_| from_inside);
        let hop = route.next_hop.as_ref();
        // A link-local address has no meaning on other links.
        let is_of_a_link = hop.is_some_and(|hop| hop.interface.is_some());
        // A route server is no next hop between external peers.
        let is_passed_on = key.transparent && !from_inside;
        // RFC 7947, section 2.2.4: nor does it remove communities.
        let keeps_communities = key.internal || (is_passed_on && !originated);
        self.is_own = !(key.internal || is_passed_on)
            || originated
            || (key.next_hop_self && !from_inside)
            || is_of_a_link;
        self.is_third_party = !key.internal && !originated && !from_inside;
        if route.rule != NextHopRule::Session {
            self.obey::<P>(route, originated || is_of_a_link);
        }
        self.next_hop.clear();
        if let Some(hop) = hop.filter(|_| !self.is_own || self.is_third_party) {
            put_address(hop, &mut self.next_hop);
            if let Some(link_local) = hop.link_local.filter(|_| key.link_local) {
                self.next_hop.extend_from_slice(&link_local.octets());
            }
        }
        if self.is_own {
            let len = usize::from(<P::Hop as Prefix>::WIDTH / 8) * if key.link_local { 2 } else { 1 };
            self.next_hop.resize(len, 0);
        }
        self.attributes.clear();
        // What the group is sent and the set may not have, by code.
        let mut missing = [
            (code::NEXT_HOP, P::HAS_OWN_FIELDS),
            (code::LOCAL_PREF, key.internal),
            (code::COMMUNITIES, key.graceful_shutdown && key.communities.standard),
            // RFC 4456, section 8.
            (code::ORIGINATOR_ID, reflection.is_some()),
            (code::CLUSTER_LIST, reflection.is_some()),
            // RFC 9234, section 5, egress 1.
            (code::ONLY_TO_CUSTOMER, key.relationship.is_some_and(Relationship::marks_sent)),
        ]
        .into_iter()
        .fold(0_u64, |missing, (code, is_needed)| missing | u64::from(is_needed) << code);
        let own = Own {
            presented_as: key.presented_as(core.context.local_as),
            local_pref: route.view.local_pref,
            originator: source.router_id,
            key,
        };
        let mut as4_aggregator = None;
        for attribute in canonical::attributes(route.octets) {
            let before = 1_u64.checked_shl(attribute.code.into()).map_or(u64::MAX, |bit| bit - 1);
            if missing & before != 0 {
                self.put_missing(missing & before, &own);
            }
            // Nor is it missing if it is this one.
            missing &= !(before << 1 | 1);
            match attribute.code {
                code::AS_PATH => self.put_path(attribute.value, core.context.local_as, key),
                // RFC 4271, section 5.1.4: a neighbor's MED is not for other neighbors.
                code::MULTI_EXIT_DISC
                    if !key.internal && !key.transparent && !originated && !route.has_own_med => {}
                code::LOCAL_PREF | code::ORIGINATOR_ID | code::CLUSTER_LIST if !key.internal => {}
                code::LOCAL_PREF => self.put_local_pref(route.view.local_pref, key),
                code::CLUSTER_LIST => match reflection {
                    Some(reflection) => self.put_cluster_list(reflection.cluster, attribute.value),
                    None => attribute.put(&mut self.attributes),
                },
                code::COMMUNITIES if !key.communities.standard => {}
                code::EXTENDED_COMMUNITIES | code::IPV6_EXTENDED_COMMUNITIES if !key.communities.extended => {
                }
                code::LARGE_COMMUNITY if !key.communities.large => {}
                code::COMMUNITIES if key.graceful_shutdown => {
                    graceful_shutdown::put_communities(Some(&attribute), &mut self.attributes);
                }
                code::EXTENDED_COMMUNITIES if !keeps_communities => {
                    put_transitive::<8>(&attribute, &mut self.attributes);
                }
                code::IPV6_EXTENDED_COMMUNITIES if !keeps_communities => {
                    put_transitive::<20>(&attribute, &mut self.attributes);
                }
                code::AGGREGATOR if !key.four_octet_as => {
                    as4_aggregator = put_old_aggregator(&attribute, &mut self.attributes);
                }
                _ => attribute.put(&mut self.attributes),
            }
        }
        if missing != 0 {
            self.put_missing(missing, &own);
        }
        if !key.four_octet_as {
            self.put_as4(as4_aggregator);
        }
    }

    /// Applies the next hop that export policy asks for. `must_be_own` is true where the route has no other next hop for peers.
    #[cold]
    fn obey<P: FamilyKey>(&mut self, route: &Subject<'_>, must_be_own: bool) {
        match route.rule {
            // RFC 4271, section 5.1.3: no peer is sent its own address as the next hop.
            NextHopRule::Session | NextHopRule::Peer => {}
            NextHopRule::Own => (self.is_own, self.is_third_party) = (true, false),
            NextHopRule::Unchanged if must_be_own => {}
            NextHopRule::Unchanged => self.is_own = false,
            NextHopRule::Address(_) => self.is_own = false,
        }
        // Routes of a family have no other next hops: this router is the next hop where policy names one.
        let is_of_family = |hop: &NextHop| hop.address.family() == <P::Hop as Prefix>::ID;
        if !route.next_hop.as_ref().is_some_and(is_of_family) {
            (self.is_own, self.is_third_party) = (true, false);
        }
    }

    /// Returns true if peers receive the same octets of both.
    pub fn is_like(&self, other: &Exported) -> bool {
        let properties = |e: &Exported| (e.is_own, e.is_third_party);
        (properties(self), &self.attributes, &self.next_hop)
            == (properties(other), &other.attributes, &other.next_hop)
    }

    /// The octets of the next hop that a member of the group is sent.
    pub fn next_hop_towards<'a, P: FamilyKey>(&'a self, hops: &NextHopsFor<'a, P::Hop>) -> &'a [u8] {
        match self.is_own && !(self.is_third_party && hops.keeps(&self.next_hop)) {
            true => hops.own,
            false => hops.of_other(&self.next_hop),
        }
    }

    /// Returns true if the route's next hop is the member of the group itself, which is not sent the route.
    pub fn points_back<P: FamilyKey>(&self, hops: &NextHopsFor<'_, P::Hop>) -> bool {
        !self.is_own && hops.points_back(&self.next_hop)
    }

    /// Puts attributes that the set has not, lowest code first.
    fn put_missing(&mut self, mut codes: u64, own: &Own<'_>) {
        while codes != 0 {
            match codes.trailing_zeros() as u8 {
                code::NEXT_HOP => {
                    put_header(&mut self.attributes, Flags::TRANSITIVE, code::NEXT_HOP, self.next_hop.len());
                    self.next_hop_at = self.attributes.len();
                    self.attributes.extend_from_slice(&self.next_hop);
                }
                code::LOCAL_PREF => self.put_local_pref(own.local_pref, own.key),
                code::ORIGINATOR_ID => {
                    put_header(&mut self.attributes, Flags::OPTIONAL, code::ORIGINATOR_ID, 4);
                    self.attributes.extend_from_slice(&own.originator.0.to_be_bytes());
                }
                code::CLUSTER_LIST => {
                    if let Some(reflection) = own.key.reflection {
                        self.put_cluster_list(reflection.cluster, &[]);
                    }
                }
                code::COMMUNITIES => graceful_shutdown::put_communities(None, &mut self.attributes),
                _ => canonical::put_only_to_customer(own.presented_as, &mut self.attributes),
            }
            codes &= codes - 1;
        }
    }

    fn put_local_pref(&mut self, local_pref: u32, key: &ExportView) {
        let local_pref = if key.graceful_shutdown { graceful_shutdown::LOCAL_PREF } else { local_pref };
        put_header(&mut self.attributes, Flags::TRANSITIVE, code::LOCAL_PREF, 4);
        self.attributes.extend_from_slice(&local_pref.to_be_bytes());
    }

    /// Puts CLUSTER_LIST with this router's cluster before the others (RFC 4456, section 8).
    #[cold]
    fn put_cluster_list(&mut self, cluster: RouterId, list: &[u8]) {
        put_header(&mut self.attributes, Flags::OPTIONAL, code::CLUSTER_LIST, 4 + list.len());
        self.attributes.extend_from_slice(&cluster.0.to_be_bytes());
        self.attributes.extend_from_slice(list);
    }

    fn put_path(&mut self, path: &[u8], local_as: Asn, key: &ExportView) {
        match (key.overridden_as, key.other_as) {
            (None, None) => self.put_path_of(path, local_as, key),
            _ => self.put_changed_path(path, local_as, key),
        }
    }

    /// For peers whose AS is replaced in paths, or with a different local AS.
    #[cold]
    fn put_changed_path(&mut self, path: &[u8], local_as: Asn, key: &ExportView) {
        let presented_as = key.presented_as(local_as);
        let mut replaced = Vec::new();
        match key.overridden_as {
            Some(old) => as_path::put_replaced(path, old, presented_as, &mut replaced),
            None => replaced.extend_from_slice(path),
        }
        if key.keeps_path() || key.other_as.is_none_or(|other| other.hides_router_as) {
            return self.put_path_of(&replaced, presented_as, key);
        }
        let mut behind = Vec::new();
        as_path::put_prepended(&replaced, local_as, &mut behind);
        self.put_path_of(&behind, presented_as, key);
    }

    #[inline(always)]
    fn put_path_of(&mut self, path: &[u8], local_as: Asn, key: &ExportView) {
        if !key.four_octet_as {
            self.put_narrow_path(path, local_as, key);
        } else if key.keeps_path() {
            put_header(&mut self.attributes, Flags::TRANSITIVE, code::AS_PATH, path.len());
            self.attributes.extend_from_slice(path);
        } else {
            let len = path.len() + as_path::prepended_growth(path);
            put_header(&mut self.attributes, Flags::TRANSITIVE, code::AS_PATH, len);
            as_path::put_prepended(path, local_as, &mut self.attributes);
        }
    }

    /// For a 2-octet speaker; AS numbers of 4 octets stay in `path`.
    #[cold]
    fn put_narrow_path(&mut self, path: &[u8], local_as: Asn, key: &ExportView) {
        self.path.clear();
        if key.keeps_path() {
            self.path.extend_from_slice(path);
        } else {
            as_path::put_prepended(path, local_as, &mut self.path);
        }
        let mut narrow = Vec::new();
        if !as_path::put_narrowed(&self.path, &mut narrow) {
            self.path.clear();
        }
        put_header(&mut self.attributes, Flags::TRANSITIVE, code::AS_PATH, narrow.len());
        self.attributes.extend_from_slice(&narrow);
    }

    /// Writes the attributes that a 2-octet speaker cannot read but passes on (RFC 6793, section 4.2.2).
    fn put_as4(&mut self, aggregator: Option<&[u8]>) {
        let flags = Flags::OPTIONAL | Flags::TRANSITIVE;
        let parts =
            [(code::AS4_PATH, &self.path[..]), (code::AS4_AGGREGATOR, aggregator.unwrap_or_default())];
        for (code, value) in parts {
            if !value.is_empty() {
                put_header(&mut self.attributes, flags, code, value.len());
                self.attributes.extend_from_slice(value);
            }
        }
    }
}

/// Appends the octets of a next hop's address.
pub(crate) fn put_address(hop: &NextHop, out: &mut Vec<u8>) {
    match hop.address {
        Address::Ip(IpAddr::V4(a)) => out.extend_from_slice(&a.octets()),
        Address::Ip(IpAddr::V6(a)) => out.extend_from_slice(&a.octets()),
        Address::Identifier(id) => out.extend_from_slice(id.octets()),
    }
}

/// Bit of an extended community's first octet: the community does not leave the AS (RFC 4360, section 2; RFC 5701, section 2).
const NON_TRANSITIVE: u8 = 0x40;

/// Appends an attribute of extended communities of `N` octets without the non-transitive communities (RFC 4360, section 6), and
/// nothing if all are non-transitive.
fn put_transitive<const N: usize>(attribute: &RawAttribute<'_>, out: &mut Vec<u8>) {
    let stays = |community: &&[u8]| community[0] & NON_TRANSITIVE == 0;
    let communities = attribute.value.chunks_exact(N).filter(stays);
    let count = communities.clone().count();
    if count > 0 {
        put_header(out, attribute.flags.0, attribute.code, count * N);
        communities.for_each(|community| out.extend_from_slice(community));
    }
}

/// Writes AGGREGATOR with 2 octets for the AS; returns the value for AS4_AGGREGATOR if the number did not fit.
fn put_old_aggregator<'a>(attribute: &RawAttribute<'a>, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let &[a, b, c, d, ref address @ ..] = attribute.value else { return None };
    let asn = Asn(u32::from_be_bytes([a, b, c, d]));
    put_header(out, attribute.flags.0, code::AGGREGATOR, 2 + address.len());
    out.extend_from_slice(&asn.to_u16().to_be_bytes());
    out.extend_from_slice(address);
    (asn.0 > u16::MAX.into()).then_some(attribute.value)
}

/// Octets of an announcement besides its prefixes and [`Exported::attributes`].
pub(crate) fn announcement_overhead<P: FamilyKey>(exported: &Exported) -> usize {
    23 + if P::HAS_OWN_FIELDS { 0 } else { 9 + exported.next_hop.len() }
}
