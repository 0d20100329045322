//! The oracle: what a router should select and send its peers, in the simplest words of RFC 4271.

use super::{Dut, LOCAL_AS, Net, OWN_ID, Route, ScriptedPeer, TestPolicy};
use sluice_bgp::relationship::Relationship;
use sluice_bgp::shard::MultipathRules;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The model's candidate: the peer (`None`: the router itself) and its route.
#[derive(Clone)]
pub struct Candidate<'a, P> {
    /// The announcing peer; `None` for a route of the router.
    pub peer: Option<&'a ScriptedPeer<P>>,
    /// The route.
    pub route: Route,
    cost: u32,
    /// The path identifier, if the peer sends several paths.
    path_id: Option<u32>,
}

fn keep<'a, P, K: Ord>(field: &mut Vec<Candidate<'a, P>>, key: impl Fn(&Candidate<'a, P>) -> K) {
    if let Some(best) = field.iter().map(&key).min() {
        field.retain(|c| key(c) == best);
    }
}

fn relationship<P>(peer: &ScriptedPeer<P>) -> Option<Relationship> {
    peer.relationship.filter(|_| !peer.internal())
}

/// What becomes of a route that `peer` announces (RFC 9234, section 5, ingress); `None` if it is a leak.
fn received<P>(peer: &ScriptedPeer<P>, route: &Route) -> Option<Route> {
    let mut route = route.clone();
    let (pref, is_customer) = match relationship(peer) {
        None => return Some(route),
        Some(Relationship::Customer | Relationship::RouteServerClient) => (100, true),
        Some(Relationship::Peer | Relationship::RouteServer) => (90, false),
        Some(Relationship::Provider) => (80, false),
    };
    route.local_pref = Some(pref);
    match (relationship(peer), route.only_to_customer) {
        (Some(Relationship::Customer | Relationship::RouteServerClient), Some(_)) => return None,
        (Some(Relationship::Peer), Some(asn)) if asn != peer.asn => return None,
        _ => {}
    }
    if !is_customer {
        route.only_to_customer.get_or_insert(peer.asn);
    }
    Some(route)
}

/// The router's own route of a prefix.
pub fn own<P: Net>(dut: &Dut<P>, prefix: P) -> Option<Candidate<'_, P>> {
    let mut own = Route::new(vec![], P::host_addr(1));
    if dut.networks.contains(&prefix) && dut.network_policy.apply(dut.parameter, prefix, &mut own) {
        // With any policy, neighbors reach own networks through this router.
        own.next_hop = P::host_addr(1);
        return Some(Candidate { peer: None, route: own, cost: 0, path_id: None });
    }
    None
}

/// The usable paths of neighbors.
pub fn usable<P: Net>(dut: &Dut<P>, prefix: P) -> Vec<Candidate<'_, P>> {
    let mut field: Vec<Candidate<'_, P>> = vec![];
    let announced = dut.peers.iter().flat_map(|peer| {
        let all = [(&peer.announced, false), (&peer.further, true)];
        all.map(|(announced, is_further)| (peer, announced.get(&prefix), peer.path_id(is_further)))
    });
    for (peer, route, path_id) in announced {
        let Some(mut route) = route.and_then(|r| received(peer, r)) else { continue };
        if route.path.contains(&LOCAL_AS) || !peer.import.apply(dut.parameter, prefix, &mut route) {
            continue;
        }
        let Some(Some((cost, connected))) = dut.reach.get(&route.next_hop) else { continue };
        if P::has_ip_hops() && !peer.internal() && !connected {
            continue;
        }
        // RFC 4456, section 8.
        let came_back =
            |(originator, clusters): &(u32, Vec<u32>)| *originator == OWN_ID || clusters.contains(&OWN_ID);
        if route.reflected.as_ref().is_some_and(came_back) {
            continue;
        }
        field.push(Candidate { peer: Some(peer), route, cost: *cost, path_id });
    }
    field
}

/// RFC 4456, section 9: true for an internal peer, the originator in the place of the peer, the number of clusters, the address.
fn of<P: Net>(c: &Candidate<'_, P>) -> (bool, u32, usize, IpAddr) {
    let peer = c.peer.unwrap();
    let reflected = c.route.reflected.as_ref();
    let id = reflected.map_or(peer.router_id, |(originator, _)| *originator);
    let clusters = reflected.map_or(0, |(_, clusters)| clusters.len());
    (peer.internal(), id, clusters, peer.address)
}

/// The paths of neighbors that the steps of RFC 4271, section 9.1.2.2, up to the interior cost leave.
fn equal<P: Net>(dut: &Dut<P>, prefix: P) -> Vec<Candidate<'_, P>> {
    let mut field = usable(dut, prefix);
    keep(&mut field, |c| std::cmp::Reverse(c.route.local_pref.unwrap_or(100)));
    keep(&mut field, |c| c.route.path.len());
    keep(&mut field, |c| c.route.origin);
    let neighbor = |c: &Candidate<'_, P>| c.route.path.first().copied().unwrap_or(LOCAL_AS);
    let med = |c: &Candidate<'_, P>| c.route.med.unwrap_or(0);
    let all = field.clone();
    field.retain(|m| !all.iter().any(|n| neighbor(n) == neighbor(m) && med(n) < med(m)));
    keep(&mut field, |c| of(c).0);
    keep(&mut field, |c| c.cost);
    field
}

/// The next hops that may share the packets of a prefix, and the most that do; the best path of the prefix is `best`.
pub fn sharers<P: Net>(
    dut: &Dut<P>,
    prefix: P,
    best: &Candidate<'_, P>,
    rules: MultipathRules,
) -> (BTreeSet<IpAddr>, usize) {
    let Some(peer) = best.peer else { return (BTreeSet::new(), 1) };
    let limit = if peer.internal() { rules.internal } else { rules.external };
    let is_like = |c: &Candidate<'_, P>| rules.relax_as_path || c.route.path == best.route.path;
    let like = equal(dut, prefix).into_iter().filter(is_like);
    (like.map(|c| c.route.next_hop).collect(), usize::from(limit))
}

/// RFC 4271, section 9.1.2, word by word.
pub fn best<P: Net>(dut: &Dut<P>, prefix: P) -> Option<Candidate<'_, P>> {
    if let Some(own) = own(dut, prefix) {
        return Some(own);
    }
    let mut field = equal(dut, prefix);
    keep(&mut field, |c| of(c).1);
    keep(&mut field, |c| of(c).2);
    keep(&mut field, |c| of(c).3);
    // Paths of one neighbor differ only in their order.
    let known = dut.speaker.tables().route(prefix).and_then(|route| route.paths.first()?.path_id);
    if field.iter().any(|c| c.path_id == known) {
        field.retain(|c| c.path_id == known);
    }
    field.into_iter().next()
}

/// The route that `peer` should have been sent for a best route.
pub fn exported<P: Net>(
    dut: &Dut<P>,
    prefix: P,
    best: &Candidate<'_, P>,
    peer: &ScriptedPeer<P>,
) -> Option<Route> {
    let from = best.peer;
    // RFC 4456, section 6: between internal neighbors go the routes of clients, and those to clients.
    let reflected = from.filter(|from| from.internal() && peer.internal());
    let stays = reflected.is_some_and(|from| !from.client && !peer.client);
    let itself = from.is_some_and(|p| p.address == peer.address);
    if itself || stays || (best.route.no_export && !peer.internal()) {
        return None;
    }
    let mut route = best.route.clone();
    // RFC 9234, section 5, egress.
    let relationship = relationship(peer);
    let up =
        matches!(relationship, Some(Relationship::Peer | Relationship::Provider | Relationship::RouteServer));
    if up && route.only_to_customer.is_some() {
        return None;
    }
    let (med, next_hop) = (route.med, route.next_hop);
    if !peer.export.apply(dut.parameter, prefix, &mut route) {
        return None;
    }
    let has_own_med =
        route.med != med || (peer.export == TestPolicy::PrependLow && med == Some(7 + dut.parameter));
    let sets_hop = peer.export == TestPolicy::NextHop;
    assert!(sets_hop || next_hop == route.next_hop);
    let has_own_hop = sets_hop && P::has_ip_hops();
    if matches!(
        relationship,
        Some(Relationship::Peer | Relationship::Customer | Relationship::RouteServerClient)
    ) {
        route.only_to_customer.get_or_insert(LOCAL_AS);
    }
    if let Some(from) = reflected {
        let (originator, clusters) = route.reflected.take().unwrap_or((from.router_id, vec![]));
        route.reflected = Some((originator, [vec![OWN_ID], clusters].concat()));
    }
    if peer.internal() {
        route.local_pref.get_or_insert(100);
    } else {
        route.local_pref = None;
        route.path.insert(0, LOCAL_AS);
        // RFC 4271, section 5.1.3: next hops of an external neighbor on its subnet go to others there.
        let is_near = |hop: IpAddr| (0..16).any(|host| P::host_addr(host) == hop);
        let is_third_party = P::has_ip_hops()
            && from.is_some_and(|p| !p.internal() && peer.on_subnet)
            && is_near(route.next_hop)
            && route.next_hop != peer.address;
        if !is_third_party && !has_own_hop {
            route.next_hop = P::host_addr(1);
        }
        route.reflected = None;
        if from.is_some() && !has_own_med {
            route.med = None;
        }
    }
    Some(route)
}
