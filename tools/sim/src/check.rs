//! The conditions that hold in a network at rest.

use crate::host::{Host, RibProcess};
use crate::network;
use crate::policy::{Direction, PolicyBook};
use crate::reference::{Policies, Route, View, Way};
use crate::rewrite::NO_EXPORT;
use crate::wire::WireRoute;
use crate::world::World;
use sluice_base::{Address, Distance, Family, IpPrefix, Ipv4Prefix, Ipv6Prefix, NextHop, TableId};
use sluice_bgp::attributes::canonical;
use sluice_bgp::session::State;
use sluice_bgp::shard::{PeerIndex, RouteView};
use sluice_bgp::speaker::{Config, NeighborView};
use sluice_bgp::wire::FamilyKey;
use sluice_bgp::wire::attribute::code;
use sluice_fea::sim::SimRoute;
use sluice_fea::{Member, RouteTarget};
use sluice_static::StaticRoute;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

/// The most broken conditions reported of a network.
const MOST: usize = 20;
/// Octets that may be under way on a connection at rest: a few KEEPALIVEs.
const AT_REST: usize = 19 * 4;

/// A router's knowledge of a prefix: its best route, its routes, and the neighbors (by link) to which the best route
/// was announced.
struct Known {
    best: Option<Route>,
    all: BTreeSet<Route>,
    advertised_to: BTreeSet<u32>,
    /// True if the router keeps a route, accepted or rejected.
    is_kept: bool,
}

/// Checks a network; returns the broken conditions, empty if none is broken.
pub fn check(world: &mut World, prefixes: &[IpPrefix]) -> Vec<String> {
    let mut wrong = std::mem::take(&mut world.fabric.wrong);
    for node in 0..world.hosts.len() {
        queues(&world.hosts[node], &mut wrong);
    }
    let links = &world.fabric.links;
    let most = world.fabric.connections.most_under_way(|link| links[link as usize].is_up());
    if most > AT_REST {
        wrong.push(format!("{most} octets are under way on a connection at rest"));
    }
    sessions(world, &mut wrong);
    hold_times(world, &mut wrong);
    let neighbors: Vec<Neighbors> = world.hosts.iter().map(Neighbors::of).collect();
    let mut best = BTreeMap::new();
    {
        let view = view(world);
        let mut fixpoints = Fixpoints::default();
        let mut totals = vec![Totals::default(); world.hosts.len()];
        for prefix in prefixes {
            let known = know(world, &neighbors, *prefix);
            routes(world, &view, &known, *prefix, &mut fixpoints, &mut wrong);
            for (total, known) in totals.iter_mut().zip(&known) {
                total.add(known, *prefix);
            }
            wires(world, &view, &known, *prefix, &mut wrong);
            for (node, known) in known.into_iter().enumerate() {
                let Some(route) = known.best.filter(|r| r.from.is_some()) else { continue };
                let way = route.next_hop.and_then(|hop| view.way(node as u32, hop));
                best.insert((node, *prefix), (route, way));
            }
        }
        for (host, totals) in world.hosts.iter().zip(&totals) {
            totals.check(host, &mut wrong);
        }
        ends_of_wires(world, prefixes, &mut wrong);
    }
    forwarding(world, prefixes, &best, &mut wrong);
    wrong.truncate(MOST);
    wrong
}

/// The contents of a router's tables, counted from the routes in the tables.
#[derive(Clone, Copy, Default)]
struct Totals {
    prefixes: [usize; 2],
    in_rib: [u32; 2],
}

impl Totals {
    fn add(&mut self, known: &Known, prefix: IpPrefix) {
        let family = usize::from(matches!(prefix, IpPrefix::V6(_)));
        self.prefixes[family] += usize::from(known.is_kept);
        self.in_rib[family] += u32::from(known.best.as_ref().is_some_and(|b| b.from.is_some()));
    }

    /// Checks that the router keeps no unneeded data, and that its counters equal its contents.
    fn check(&self, host: &Host, wrong: &mut Vec<String>) {
        let (node, Some(bgp)) = (host.base.id, host.bgp()) else { return };
        let tables = bgp.speaker.tables();
        for (number, family) in Family::ALL.into_iter().enumerate() {
            let view = tables.view(family);
            let (prefixes, in_rib) = (self.prefixes[number], self.in_rib[number]);
            if (view.prefixes, view.in_rib) != (prefixes, in_rib) {
                wrong.push(format!(
                    "n{node}: {view:?} of {family}, should be {prefixes} prefixes, {in_rib} in the RIB"
                ));
            }
            if prefixes == 0 && view.attribute_sets > 0 {
                wrong.push(format!(
                    "n{node}: {} attribute sets of {family} that no route has",
                    view.attribute_sets
                ));
            }
        }
        let hops = [tables.next_hops::<Ipv4Prefix>().0.len(), tables.next_hops::<Ipv6Prefix>().0.len()];
        if self.prefixes == [0; 2] && hops != [0; 2] {
            wrong.push(format!("n{node}: {hops:?} next hops that no route has"));
        }
    }
}

/// Each router's best route at rest.
type Bests = BTreeMap<u32, Route>;

/// The reference's fixpoints, once for prefixes that differ only in their bits.
#[derive(Default)]
struct Fixpoints(BTreeMap<Alike, Option<Rc<Bests>>>);

/// Prefixes with equal values have equal fixpoints: the family, the routers that originate the prefix, and the rules of
/// policies that concern it.
type Alike = (bool, Vec<usize>, Vec<bool>);

impl Fixpoints {
    fn get(&mut self, view: &View<'_>, prefix: IpPrefix) -> Option<Rc<Bests>> {
        let origins = view.networks.iter().enumerate().filter(|(_, n)| n.contains(&prefix)).map(|(n, _)| n);
        let sides = view.policies.iter().flatten();
        let rules = sides.flat_map(|policies| policies.import.iter().chain(policies.export));
        let concerned = rules.map(|rule| rule.concerns(prefix)).collect();
        let key = (matches!(prefix, IpPrefix::V6(_)), origins.collect(), concerned);
        self.0.entry(key).or_insert_with(|| view.fixpoint(prefix).map(Rc::new)).clone()
    }
}

/// Checks the announcements to each neighbor of a prefix, octet by octet, against the router's best route. No neighbor
/// receives its own route back.
fn wires(world: &World, view: &View<'_>, known: &[Known], prefix: IpPrefix, wrong: &mut Vec<String>) {
    for (host, known) in world.hosts.iter().zip(known) {
        let (node, Some(bgp)) = (host.base.id, host.bgp()) else { continue };
        for (link, side) in &host.base.links {
            let side = usize::from(*side);
            let address: IpAddr = network::ipv4(*link, 1 - side).into();
            let Some(wire) = bgp.wires.get(&address) else { continue };
            let should = known.best.as_ref().and_then(|best| view.announced(*link, side, best, prefix));
            let should = should.map(|route| WireRoute {
                origin: route.origin,
                path: route.path,
                next_hop: route.next_hop,
                med: route.med,
                local_pref: route.internal.then_some(route.local_pref),
                no_export: route.no_export,
                only_to_customer: route.only_to_customer,
            });
            let is = wire.routes.get(&prefix).map(|route| &**route);
            if is != should.as_ref() {
                wrong.push(format!("n{node}: link {link} was sent {is:?} of {prefix}, should be {should:?}"));
            }
        }
    }
}

/// Checks that no neighbor was sent a prefix that does not exist, and that each neighbor received exactly one
/// End-of-RIB.
fn ends_of_wires(world: &World, prefixes: &[IpPrefix], wrong: &mut Vec<String>) {
    for host in &world.hosts {
        let (node, Some(bgp)) = (host.base.id, host.bgp()) else { continue };
        for (address, wire) in &bgp.wires {
            if let Some(prefix) = wire.routes.keys().find(|p| prefixes.binary_search(p).is_err()) {
                wrong.push(format!("n{node}: {address} was sent {prefix}, which nobody has"));
            }
            let should = [1, u32::from(world.fabric.settings.ipv6)];
            if wire.ends != should {
                wrong.push(format!("n{node}: {address} received {:?} End-of-RIB markers", wire.ends));
            }
        }
    }
}

/// Returns true if the network is at rest: exactly the possible sessions are up, and no process waits for time to
/// pass.
pub fn is_at_rest(world: &mut World, expected: &[usize]) -> bool {
    let light = world.fabric.settings.light;
    let settled = world.hosts.iter_mut().zip(expected).all(|(host, expected)| {
        let established = host.bgp().map_or(0, |b| b.speaker.summary().established);
        established == *expected && (light || !host.is_on() || host.is_settled())
    });
    // As many as there should be may still be the wrong ones.
    let mut wrong = Vec::new();
    if settled {
        sessions(world, &mut wrong);
    }
    settled && wrong.is_empty()
}

/// The number of sessions that each router should have.
pub fn expected_sessions(world: &World) -> Vec<usize> {
    let mut expected = vec![0; world.hosts.len()];
    for link in 0..world.fabric.links.len() as u32 {
        if world.can_be_up(link) {
            (0..2).for_each(|side| expected[world.fabric.host_at(link, side) as usize] += 1);
        }
    }
    expected
}

fn sessions(world: &World, wrong: &mut Vec<String>) {
    for link in 0..world.fabric.links.len() as u32 {
        let can = world.can_be_up(link);
        for side in 0..2 {
            let state = world.state(link, side);
            if can != (state == State::Established) {
                let verdict = if can { "could be up" } else { "cannot be up" };
                wrong.push(format!("link {link} side {side}: the session {verdict} and is {state}"));
            }
        }
    }
}

/// Checks that both ends of a session use the smaller of the proposed hold times (RFC 4271, section 4.2).
fn hold_times(world: &World, wrong: &mut Vec<String>) {
    let settings = &world.fabric.settings;
    for host in &world.hosts {
        let Some(bgp) = host.bgp() else { continue };
        for view in bgp.speaker.neighbors().filter_map(|a| bgp.speaker.neighbor(a)) {
            let other = network::place(view.config.address)
                .and_then(|(link, side)| world.original_neighbor(link, side))
                .map_or(settings.hold_time, |n| n.hold_time);
            let should = view.config.hold_time.min(other);
            if let Some(is) = view.negotiated.map(|n| n.hold_time).filter(|is| *is != should) {
                let node = host.base.id;
                wrong.push(format!(
                    "n{node}: hold time {is} with {}, should be {should}",
                    view.config.address
                ));
            }
        }
    }
}

/// Stage rules, stale routes and queues.
fn queues(host: &Host, wrong: &mut Vec<String>) {
    let node = host.base.id;
    if let Some(bgp) = host.bgp() {
        let tables = bgp.speaker.tables();
        for violation in tables.violations::<Ipv4Prefix>() {
            wrong.push(format!("n{node}: stage rule broken: {violation:?}"));
        }
        for violation in tables.violations::<Ipv6Prefix>() {
            wrong.push(format!("n{node}: stage rule broken: {violation:?}"));
        }
        for family in Family::ALL {
            let view = tables.view(family);
            if view.stale > 0 || view.queued > 0 {
                wrong.push(format!("n{node}: BGP at rest has {view:?} of {family}"));
            }
        }
        if !tables.is_resolved() {
            wrong.push(format!("n{node}: BGP at rest has next hops that nobody answered"));
        }
        if bgp.waits() > 0 {
            wrong.push(format!("n{node}: {} things wait at BGP's glue", bgp.waits()));
        }
    }
    if let Some(rib) = host.get::<RibProcess>() {
        for (name, _, _, stale) in rib.rib.summary().into_iter().flat_map(|s| s.origins) {
            if stale > 0 {
                wrong.push(format!("n{node}: {stale} stale routes of {name} in the RIB"));
            }
        }
        if rib.waits() > 0 {
            wrong.push(format!("n{node}: {} things wait at the RIB's glue", rib.waits()));
        }
    }
}

/// Returns true if the reference finds a single fixpoint for each prefix. Some policies have several fixpoints, or
/// none at all, and no router can avoid that.
pub fn is_decided(world: &World, prefixes: &[IpPrefix]) -> bool {
    let view = view(world);
    let mut fixpoints = Fixpoints::default();
    prefixes.iter().all(|prefix| fixpoints.get(&view, *prefix).is_some())
}

fn view(world: &World) -> View<'_> {
    let links = 0..world.fabric.links.len() as u32;
    let sets_self = |link: u32, side: usize| {
        let host = &world.hosts[world.fabric.host_at(link, side) as usize];
        let address: IpAddr = network::ipv4(link, 1 - side).into();
        let config = host.configuration.get::<Config>();
        config.into_iter().flat_map(|c| &c.neighbors).any(|n| n.address == address && n.next_hop_self)
    };
    let running = |h: &Host| h.bgp().is_some();
    let policies = |link: u32, side: usize| policies(world, link, side);
    View {
        network: world.network(),
        sessions: links.clone().map(|l| world.can_be_up(l)).collect(),
        carriers: world.fabric.links.iter().map(|l| l.carrier).collect(),
        next_hop_self: links.clone().map(|l| [sets_self(l, 0), sets_self(l, 1)]).collect(),
        policies: links.map(|l| [policies(l, 0), policies(l, 1)]).collect(),
        networks: world.hosts.iter().map(|h| if running(h) { h.networks() } else { Vec::new() }).collect(),
    }
}

/// Returns the policies of the router at `side` of a link for its neighbor over the link.
fn policies(world: &World, link: u32, side: usize) -> Policies<'_> {
    let host = &world.hosts[world.fabric.host_at(link, side) as usize];
    let address: IpAddr = network::ipv4(link, 1 - side).into();
    let neighbors = host.configuration.get::<Config>().into_iter().flat_map(|config| &config.neighbors);
    let Some(neighbor) = neighbors.into_iter().find(|neighbor| neighbor.address == address) else {
        return Policies::default();
    };
    let Some(book) = host.configuration.get::<PolicyBook>() else { return Policies::default() };
    let rules = |names: &[String], direction| match names {
        [] => &[],
        _ => book.rules(link, direction),
    };
    Policies {
        import: rules(&neighbor.import, Direction::Import),
        export: rules(&neighbor.export, Direction::Export),
    }
}

/// A router's neighbors as its tables number them.
struct Neighbors(Vec<(PeerIndex, u32, bool)>);

impl Neighbors {
    fn of(host: &Host) -> Self {
        let Some(bgp) = host.bgp() else { return Neighbors(Vec::new()) };
        let views = bgp.speaker.neighbors().filter_map(|a| bgp.speaker.neighbor(a));
        let entry = |n: NeighborView| Some((n.index, network::place(n.config.address)?.0, n.internal));
        Neighbors(views.filter_map(entry).collect())
    }

    fn get(&self, peer: PeerIndex) -> Option<(u32, bool)> {
        self.0.iter().find(|(index, ..)| *index == peer).map(|(_, link, internal)| (*link, *internal))
    }
}

fn known<P: FamilyKey + sluice_bgp::table::Sharded>(host: &Host, neighbors: &Neighbors, prefix: P) -> Known {
    let mut known =
        Known { best: None, all: BTreeSet::new(), advertised_to: BTreeSet::new(), is_kept: false };
    let Some(bgp) = host.bgp() else { return known };
    let tables = bgp.speaker.tables();
    let Some(RouteView { paths, .. }) = tables.route(prefix) else { return known };
    known.is_kept = !paths.is_empty();
    for path in paths.into_iter().filter(|path| path.rejected_by.is_none()) {
        let neighbor = neighbors.get(path.peer);
        let mark = attribute(&path.attributes, code::ONLY_TO_CUSTOMER);
        let route = Route {
            from: neighbor.map(|(link, _)| link),
            internal: neighbor.is_some_and(|(_, internal)| internal),
            local_pref: path.view.local_pref,
            path: as_path(&path.attributes),
            origin: path.view.origin as u8,
            med: path.view.med,
            no_export: attribute(&path.attributes, code::COMMUNITIES)
                .as_chunks::<4>()
                .0
                .contains(&NO_EXPORT.to_be_bytes()),
            only_to_customer: mark.first_chunk::<4>().map(|asn| u32::from_be_bytes(*asn)),
            next_hop: neighbor.and_then(|_| path.next_hop.address.ip()),
        };
        if path.lost.is_none() {
            known.best = Some(route.clone());
        }
        known.all.insert(route);
    }
    let links = neighbors.0.iter().filter(|(index, ..)| tables.is_advertised(*index, prefix));
    known.advertised_to = links.map(|(_, link, _)| *link).collect();
    known
}

/// The value of an attribute among canonical attributes; empty if the attribute is absent.
fn attribute(attributes: &[u8], code: u8) -> &[u8] {
    canonical::attributes(attributes).find(|a| a.code == code).map_or(&[], |a| a.value)
}

/// The AS path among canonical attributes. Simulated routers only create AS_SEQUENCEs.
fn as_path(attributes: &[u8]) -> Vec<u32> {
    let mut octets = attribute(attributes, code::AS_PATH);
    let mut numbers = Vec::new();
    while let [_, count, rest @ ..] = octets {
        let (words, rest) = rest.split_at((4 * usize::from(*count)).min(rest.len()));
        numbers.extend(words.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w)));
        octets = rest;
    }
    numbers
}

/// The knowledge of every router about a prefix.
fn know(world: &World, neighbors: &[Neighbors], prefix: IpPrefix) -> Vec<Known> {
    let of = |(host, neighbors)| match prefix {
        IpPrefix::V4(p) => known(host, neighbors, p),
        IpPrefix::V6(p) => known(host, neighbors, p),
    };
    world.hosts.iter().zip(neighbors).map(of).collect()
}

/// Checks a single prefix on every router: tables and announcements.
fn routes(
    world: &World,
    view: &View<'_>,
    known: &[Known],
    prefix: IpPrefix,
    fixpoints: &mut Fixpoints,
    wrong: &mut Vec<String>,
) {
    let best = |node: u32| known[node as usize].best.as_ref();
    let fixpoint = fixpoints.get(view, prefix);
    for host in world.hosts.iter().filter(|h| h.bgp().is_some()) {
        let node = host.base.id;
        let is = &known[node as usize];
        // Adj-RIB-In is what the neighbors' best routes come to, and the best of it is used.
        let received: BTreeSet<Route> = view.received(node, prefix, best).into_iter().collect();
        for route in received.difference(&is.all) {
            wrong.push(format!("n{node}: {prefix} was not received: {route:?}"));
        }
        for route in is.all.difference(&received) {
            wrong.push(format!("n{node}: {prefix} should not be known: {route:?}"));
        }
        let received: Vec<Route> = received.into_iter().collect();
        let should = view.decide(node, &received);
        if is.best != should {
            wrong.push(format!("n{node}: {prefix}: uses {:?} and should use {should:?}", is.best));
        }
        if let Some(fixpoint) = &fixpoint
            && is.best.as_ref() != fixpoint.get(&node)
        {
            let should = fixpoint.get(&node);
            wrong.push(format!("n{node}: {prefix}: uses {:?}, the reference {should:?}", is.best));
        }
        let advertises = |(link, side): (u32, usize)| {
            is.best.as_ref().and_then(|b| view.announced(link, side, b, prefix)).map(|_| link)
        };
        let links: BTreeSet<u32> = world.network().links_of(node).filter_map(advertises).collect();
        if links != is.advertised_to {
            wrong.push(format!(
                "n{node}: {prefix}: announced to links {:?}, should be {links:?}",
                is.advertised_to
            ));
        }
    }
}

/// The next hop of a kernel for a prefix.
fn hop(host: &mut Host, prefix: IpPrefix) -> Option<(usize, Option<IpAddr>)> {
    let kernel = host.look_at_kernel()?;
    let SimRoute::Ours(RouteTarget::Group(group)) = kernel.routes.get(&(TableId::MAIN, prefix))? else {
        return None;
    };
    let (member, _) = kernel.groups.get(group)?.first()?;
    match kernel.members.get(member)? {
        Member::Via { gateway, interface } => Some((interface.number() as usize - 1, Some(*gateway))),
        Member::Direct { interface, .. } => Some((interface.number() as usize - 1, None)),
        Member::Blackhole { .. } => None,
    }
}

/// Each router's best routes from neighbors, and the paths to their next hops.
type Best = BTreeMap<(usize, IpPrefix), (Route, Option<Way>)>;

/// RIB and FIB against BGP's best routes, and walks through the FIBs.
fn forwarding(world: &mut World, prefixes: &[IpPrefix], bests: &Best, wrong: &mut Vec<String>) {
    if world.fabric.settings.light {
        return;
    }
    let mut hops: BTreeMap<(u32, IpPrefix), u32> = BTreeMap::new();
    let mut expected_routes: BTreeMap<usize, usize> = BTreeMap::new();
    for prefix in prefixes {
        for node in 0..world.hosts.len() {
            let known = bests.get(&(node, *prefix));
            let (best, way) = (known.map(|(route, _)| route), known.and_then(|(_, way)| *way));
            *expected_routes.entry(node).or_default() += usize::from(way.is_some());
            in_rib(&world.hosts[node], *prefix, best, wrong);
            let host = &mut world.hosts[node];
            if !world.fabric.up[node] {
                continue;
            }
            let place = |link: u32| host.base.links.iter().position(|(l, _)| *l == link);
            let should = way.and_then(|(link, gateway)| Some((place(link)?, Some(gateway))));
            let is = hop(host, *prefix);
            if is != should {
                wrong.push(format!("n{node}: {prefix}: the kernel has {is:?} and should have {should:?}"));
            }
            if let Some((interface, _)) = is
                && let Some((link, side)) = world.hosts[node].base.links.get(interface).copied()
            {
                let next = world.fabric.host_at(link, 1 - usize::from(side));
                if world.fabric.links[link as usize].carrier {
                    hops.insert((node as u32, *prefix), next);
                }
            }
        }
    }
    for node in 0..world.hosts.len() {
        let expected = expected_routes.get(&node).copied().unwrap_or(0);
        static_routes(world, node, expected, prefixes, wrong);
    }
    for prefix in prefixes {
        for node in 0..world.hosts.len() as u32 {
            walk(world, &hops, node, *prefix, wrong);
        }
    }
}

/// Checks that the RIB has BGP's best route as its only route.
fn in_rib(host: &Host, prefix: IpPrefix, best: Option<&Route>, wrong: &mut Vec<String>) {
    let Some(rib) = host.get::<RibProcess>() else { return };
    let node = host.base.id;
    let inside = rib.rib.lookup(TableId::MAIN, prefix.addr().into());
    let is = inside.filter(|r| r.prefix == prefix.into() && r.origin == "bgp" && r.selected);
    let primary =
        |hops: &[NextHop<Address>]| hops.iter().find(|hop| !hop.is_backup).and_then(|hop| hop.gateway?.ip());
    let is = is.map(|r| (primary(r.announced.next_hops()), r.distance));
    let distance = |r: &Route| if r.internal { Distance::IBGP } else { Distance::EBGP };
    let should = best.map(|r| (r.next_hop, distance(r)));
    if is != should {
        wrong.push(format!("n{node}: {prefix}: the RIB has {is:?} and should have {should:?}"));
    }
}

/// Checks that the remaining routes in the kernel are usable static routes.
fn static_routes(
    world: &mut World,
    node: usize,
    expected: usize,
    prefixes: &[IpPrefix],
    wrong: &mut Vec<String>,
) {
    let configured = world.hosts[node].configuration.get::<Vec<StaticRoute>>();
    let known: BTreeSet<IpPrefix> = prefixes
        .iter()
        .copied()
        .chain(configured.into_iter().flatten().filter_map(|route| route.prefix.ip()))
        .collect();
    let Some(kernel) = world.hosts[node].look_at_kernel() else { return };
    let bgp = kernel.routes.keys().filter(|(_, p)| prefixes.contains(p)).count();
    if bgp != expected {
        wrong.push(format!("n{node}: {bgp} of BGP's routes are in the kernel, should be {expected}"));
    }
    if let Some((_, prefix)) = kernel.routes.keys().find(|(_, p)| !known.contains(p)) {
        wrong.push(format!("n{node}: nobody knows of {prefix} in the kernel"));
    }
}

/// Follows a packet: no loop, and no end except at a router that originates the prefix.
fn walk(
    world: &World,
    hops: &BTreeMap<(u32, IpPrefix), u32>,
    from: u32,
    prefix: IpPrefix,
    wrong: &mut Vec<String>,
) {
    let mut seen = vec![from];
    let mut at = from;
    while let Some(next) = hops.get(&(at, prefix)) {
        if seen.contains(next) {
            return wrong.push(format!("{prefix}: packets from n{from} loop: {seen:?} and n{next} again"));
        }
        seen.push(*next);
        at = *next;
    }
    if at != from && !world.hosts[at as usize].networks().contains(&prefix) {
        wrong.push(format!("{prefix}: packets from n{from} end at n{at}: {seen:?}"));
    }
}
