//! Routes of a shard as policies read them.

use super::Accepted;
use super::entry::{AdjRibIn, PeerIndex, PeerInfo};
use super::resolver::Resolver;
use crate::policy::vocabulary::NETWORK_PROTOCOL;
use crate::policy::{Context, PolicyRoute, RouteType};
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, Asn};
use sluice_validation::VrpTable;

/// The properties of a router that policies read beside a route.
#[derive(Debug)]
pub(crate) struct PolicyContext {
    pub local_as: Asn,
    /// The names of the sources of the router's own, by number.
    sources: Vec<Arc<str>>,
    /// The payloads for origin validation; `None` without data.
    pub origins: Option<Arc<VrpTable>>,
}

impl PolicyContext {
    pub fn new(local_as: Asn) -> Self {
        PolicyContext { local_as, sources: Vec::new(), origins: None }
    }

    /// Names a source of the router's own.
    pub fn set_source(&mut self, source: PeerIndex, name: Arc<str>) {
        let place = usize::from(source.0);
        if source.is_own() {
            while self.sources.len() <= place {
                self.sources.push(Arc::from(NETWORK_PROTOCOL));
            }
            self.sources[place] = name;
        }
    }

    /// Returns the name of the protocol that a peer's routes come from.
    pub fn protocol(&self, peer: PeerIndex) -> &str {
        match self.sources.get(usize::from(peer.0)) {
            Some(name) => name,
            None if peer.is_own() => NETWORK_PROTOCOL,
            None => "bgp",
        }
    }

    /// Returns a path of a prefix as policies read it.
    #[inline]
    pub fn route<'a, P: FamilyKey>(
        &'a self,
        adj_rib_in: &'a AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        prefix: P,
        path: Accepted,
    ) -> PolicyRoute<'a> {
        self.route_under(adj_rib_in, resolver, prefix, path, self.origins.as_deref())
    }

    /// Returns a path of a prefix for policies, under given payloads.
    #[inline(always)]
    pub fn route_under<'a, P: FamilyKey>(
        &'a self,
        adj_rib_in: &'a AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        prefix: P,
        path: Accepted,
        origins: Option<&'a VrpTable>,
    ) -> PolicyRoute<'a> {
        let set = &adj_rib_in.sets[path.set];
        let (octets, hop) = (adj_rib_in.sets.octets(set), resolver.next_hop_of(set.hop));
        let info = &adj_rib_in.peers[usize::from(path.peer.0)].info;
        let context = Context {
            route_type: route_type(path.peer, info),
            protocol: self.protocol(path.peer),
            local_as: self.local_as,
            neighbor: info.address,
            origins,
            path_check: info.path_check,
        };
        PolicyRoute::new(AnyPrefix::of(prefix), octets, &set.view, hop, context)
    }
}

/// Returns the source of a peer's routes.
pub(crate) fn route_type(peer: PeerIndex, info: &PeerInfo) -> RouteType {
    match (peer.is_own(), info.internal) {
        (true, _) => RouteType::Local,
        (false, true) => RouteType::Internal,
        (false, false) => RouteType::External,
    }
}
