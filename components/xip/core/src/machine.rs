//! XIP on this host as a machine: settings, interfaces, routes and packets in; frames, datagrams and members out.

mod fast_path;

use crate::anchor::Touched;
use crate::answer::NeighborId;
use crate::answers::Answers;
use crate::cache::Lines;
use crate::forwarding::{Context, Forwarding};
use crate::io::{Input, Output, RibRoute, Settings};
use crate::links::{Links, Station};
use crate::neighbors::{self, Link, Neighbors};
use crate::outsiders::Outsiders;
use crate::principals::catalog;
use crate::registry::Registered;
use crate::route::{ChangeError, Route};
use crate::router::{Limits, Router};
use crate::waiting::Arrival;
use crate::wire::nwp::Form;
use crate::wire::{Dag, ETHERTYPE_NWP, Hid, LinkDestination, Mac, udp};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Bound;
use sluice_base::{Duration, Instant, InterfaceEvent, InterfaceIndex, Prefix, Xid, XidPrefix, XidType};
use sluice_machine::{Machine, Outbox};

pub use fast_path::FastPath;

/// The most attachments of the forest: four for each of two million rows.
const MOST_LINKS: usize = 8 << 20;
/// The time between two sweeps of a part of the cache.
const SWEEP: Duration = Duration::from_millis(100);
/// Slots that are swept at once: a cache of 2^18 slots is swept in 3.2 seconds.
const SWEPT: usize = 1 << 13;

/// XIP on this host.
pub struct Xip<L> {
    settings: Settings,
    pub(crate) answers: Answers<L>,
    pub(crate) outsiders: Outsiders,
    links: Links,
    forwarding: Forwarding,
    routes: BTreeMap<XidPrefix, RibRoute>,
    refused: BTreeMap<XidPrefix, ChangeError>,
    /// The domains and hosts of which this host is a part.
    own: BTreeSet<Xid>,
    neighbors: Neighbors,
    /// The links on which NWP runs.
    nwp: BTreeMap<InterfaceIndex, Link>,
    /// Outputs of `neighbors` that are not carried out yet.
    from_neighbors: Outbox<neighbors::Output>,
    pub(crate) seed: u64,
    sweep: Option<Instant>,
    asked_for_key: bool,
}

impl<L: Lines> Xip<L> {
    /// Makes XIP without interfaces, principals and routes. `seed` is secret; `clock` is the time at [`Instant::ZERO`] in seconds, for
    /// neighbors that compare clocks before and after a restart.
    pub fn new(seed: u64, clock: u32) -> Self {
        let settings = neighbors::Settings { limits: neighbors::Limits::default(), clock_base: clock, seed };
        Xip {
            settings: Settings::default(),
            answers: Answers::new(Router::new(Limits::default(), seed), MOST_LINKS, seed),
            outsiders: Outsiders::default(),
            links: Links::default(),
            forwarding: Forwarding::default(),
            routes: BTreeMap::new(),
            refused: BTreeMap::new(),
            own: BTreeSet::new(),
            neighbors: Neighbors::new(settings),
            nwp: BTreeMap::new(),
            from_neighbors: Outbox::new(),
            seed,
            sweep: None,
            asked_for_key: false,
        }
    }

    /// Returns the decisions.
    pub fn answers(&self) -> &Answers<L> {
        &self.answers
    }

    /// Returns the interfaces and neighbors.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the packet path.
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }

    /// Returns the neighbors that NWP knows.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the routes of the RIB, with the reason for those that no principal takes.
    pub fn routes(&self) -> impl Iterator<Item = (XidPrefix, &RibRoute, Option<ChangeError>)> {
        self.routes.iter().map(|(prefix, route)| (*prefix, route, self.refused.get(prefix).copied()))
    }

    /// Returns the routes behind a prefix, as [`Xip::routes`] does.
    pub fn routes_after(
        &self,
        after: Option<XidPrefix>,
    ) -> impl Iterator<Item = (XidPrefix, &RibRoute, Option<ChangeError>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let routes = self.routes.range((from, Bound::Unbounded));
        routes.map(|(prefix, route)| (*prefix, route, self.refused.get(prefix).copied()))
    }

    /// Returns this host's address: its first host, directly, within its first domain, and through its tunnel, in this order.
    /// Empty without a host and a domain.
    pub fn own_address(&self) -> Dag {
        let first = |kind| self.own.iter().find(|xid| xid.kind == kind).copied();
        let (domain, host) = (first(XidType::AD), first(XidType::HID));
        let tunnel = self.settings.tunnel.map(|tunnel| tunnel_xid(tunnel.local));
        let ways: Vec<Xid> = domain.into_iter().chain(tunnel).collect();
        match (host, domain, tunnel) {
            (Some(host), Some(domain), None) => Dag::scoped(&[domain], host),
            (Some(host), _, Some(_)) => Dag::any_way(host, &ways),
            (Some(xid), None, None) | (None, Some(xid), _) => Some(Dag::direct(xid)),
            (None, None, _) => None,
        }
        .unwrap_or(Dag::EMPTY)
    }

    fn configure(&mut self, now: Instant, settings: Settings, out: &mut Outbox<Output>) {
        let before = core::mem::replace(&mut self.settings, settings);
        self.forwarding.has_xcmp = self.settings.has_xcmp;
        self.links.configure(self.settings.interfaces.keys().cloned().collect());
        let limits = Limits { consultations: self.settings.consultations.max(1), ..Limits::default() };
        if before.consultations != self.settings.consultations {
            self.answers.change(now, |router| (router.set_limits(limits), Touched::new()));
            // Any row may have another answer.
            self.answers.clear();
        }
        for kind in before.principals.keys() {
            if !self.settings.principals.contains_key(kind) {
                self.answers.change(now, |router| ((), router.unregister(*kind)));
                self.fill(now, *kind, out);
            }
        }
        let new: Vec<(XidType, &str)> = self.settings.principals.iter().map(|(k, n)| (*k, *n)).collect();
        for (kind, name) in new {
            if before.principals.get(&kind) != Some(&name)
                && let Some(row) = catalog::row(name)
            {
                let principal = Registered::Inside((row.make)(kind, self.seed));
                // The schema bounds the number of principals below that of the registry.
                self.answers.change(now, |router| ((), router.register(principal).unwrap_or_default()));
                self.fill(now, kind, out);
            }
        }
        if before.tunnel != self.settings.tunnel {
            self.set_tunnel(now, before.tunnel.map(|tunnel| tunnel.local));
        }
        self.refresh_neighbors(now, out);
    }

    /// Gives the routes of a type to its principal, which is new or gone.
    pub(crate) fn fill(&mut self, now: Instant, kind: XidType, out: &mut Outbox<Output>) {
        let of_kind = self.routes.iter().filter(|(prefix, _)| prefix.kind() == Some(kind));
        let routes: Vec<(XidPrefix, RibRoute)> = of_kind.map(|(p, r)| (*p, r.clone())).collect();
        for (prefix, route) in routes {
            self.change(now, prefix, Some(&route), out);
        }
        if let Some(tunnel) = self.settings.tunnel
            && tunnel_xid(tunnel.local).kind == kind
        {
            self.set_tunnel(now, None);
        }
    }

    fn set_tunnel(&mut self, now: Instant, before: Option<SocketAddr>) {
        let prefix = |local| XidPrefix::host(tunnel_xid(local));
        let new = self.settings.tunnel;
        self.answers.change(now, |router| {
            let mut touched = Touched::new();
            if let Some(before) = before {
                touched.extend(router.change(prefix(before), None).unwrap_or_default());
            }
            if let Some(tunnel) = new {
                let route = Route::Tunnel { no_check: tunnel.no_check };
                touched.extend(router.change(prefix(tunnel.local), Some(route)).unwrap_or_default());
            }
            ((), touched)
        });
    }

    /// Applies a route change, and reports whether the principal takes the route.
    fn change(
        &mut self,
        now: Instant,
        prefix: XidPrefix,
        route: Option<&RibRoute>,
        out: &mut Outbox<Output>,
    ) {
        let is_removed = route.is_none();
        let route = match route {
            None => Ok(None),
            Some(RibRoute::Local) => Ok(Some(Route::Local)),
            Some(RibRoute::Discard) => Err(ChangeError::WrongRoute),
            Some(RibRoute::Gateways(gateways)) => self.gateway(gateways, out).map(Some),
        };
        let changed = route.and_then(|route| {
            self.answers.change(now, |router| match router.change(prefix, route) {
                Ok(touched) => (Ok(()), touched),
                Err(error) => (Err(error), Touched::new()),
            })
        });
        let refusal = changed.err().filter(|_| !is_removed);
        let before = match refusal {
            None => self.refused.remove(&prefix),
            Some(error) => {
                // The route before it is no route of the RIB any more.
                self.answers.change(now, |router| ((), router.change(prefix, None).unwrap_or_default()));
                self.refused.insert(prefix, error)
            }
        };
        // The RIB forgets a refusal with each change of the route.
        if before.is_some() || refusal.is_some() {
            out.push(Output::Refused(prefix, refusal.map(|error| error.to_string())));
        }
    }

    /// Returns the route by the gateway with the largest weight.
    fn gateway(
        &mut self,
        gateways: &[crate::io::Gateway],
        out: &mut Outbox<Output>,
    ) -> Result<Route, ChangeError> {
        let best =
            gateways.iter().rev().max_by_key(|gateway| gateway.weight).ok_or(ChangeError::WrongRoute)?;
        let (Some(interface), Some(mac)) = (best.interface, best.xid.link_address()) else {
            return Ok(Route::Redirect(best.xid));
        };
        let station = Station { interface, mac: Mac(mac) };
        let number = self.links.number(station).ok_or(ChangeError::WrongRoute)?;
        self.answers.set_interface(number, interface);
        out.push(Output::Member(number, self.links.member(number)));
        Ok(Route::Neighbor(number))
    }

    fn routes_changed(
        &mut self,
        now: Instant,
        changes: Vec<(XidPrefix, Option<RibRoute>)>,
        out: &mut Outbox<Output>,
    ) {
        for (prefix, route) in changes {
            let xid = prefix.addr();
            let is_own = route == Some(RibRoute::Local)
                && prefix.len() == XidPrefix::WIDTH
                && matches!(xid.kind, XidType::AD | XidType::HID);
            if is_own {
                self.own.insert(xid);
            } else {
                self.own.remove(&xid);
            }
            self.change(now, prefix, route.as_ref(), out);
            match route {
                Some(route) => self.routes.insert(prefix, route),
                None => self.routes.remove(&prefix),
            };
        }
        // The HIDs of this host may have changed.
        self.refresh_links(now, out);
    }

    /// Gives NWP the links on which it runs, with this host's HIDs.
    fn refresh_links(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let hids: Vec<Hid> = self.own.iter().filter_map(|xid| Hid::of(*xid)).collect();
        let form = if self.settings.is_monitored { Form::Monitoring } else { Form::Basic };
        let wanted = self.links.iter().filter(|interface| {
            let is_wanted = self.settings.interfaces.get(&interface.name).copied().unwrap_or_default();
            is_wanted && interface.running
        });
        let links: BTreeMap<InterfaceIndex, Link> = wanted
            .filter_map(|interface| {
                let link = Link {
                    interface: interface.index,
                    mac: Mac(interface.mac.as_slice().try_into().ok()?),
                    mtu: interface.mtu as usize,
                    form,
                    hids: hids.clone(),
                    proof: self.settings.proof,
                };
                Some((interface.index, link))
            })
            .collect();
        let gone: Vec<InterfaceIndex> =
            self.nwp.keys().filter(|index| !links.contains_key(index)).copied().collect();
        for index in gone {
            self.nwp.remove(&index);
            self.neighbors.handle(now, neighbors::Input::RemoveLink(index), &mut self.from_neighbors);
        }
        for (index, link) in links {
            if self.nwp.get(&index) != Some(&link) {
                self.nwp.insert(index, link.clone());
                self.neighbors.handle(now, neighbors::Input::SetLink(link), &mut self.from_neighbors);
            }
        }
        self.carry_out(out);
    }

    /// Passes on what NWP asks for.
    fn carry_out(&mut self, out: &mut Outbox<Output>) {
        let station =
            |neighbor: neighbors::Neighbor| Station { interface: neighbor.interface, mac: neighbor.mac };
        for output in self.from_neighbors.drain() {
            match output {
                neighbors::Output::Send { interface, destination, octets } => out.push(Output::Send {
                    to: Station { interface, mac: destination },
                    ether_type: ETHERTYPE_NWP,
                    octets,
                }),
                neighbors::Output::Learned(neighbor) => {
                    out.push(Output::Neighbor(neighbor.hid.xid(), station(neighbor), true));
                }
                neighbors::Output::Lost(neighbor) => {
                    out.push(Output::Neighbor(neighbor.hid.xid(), station(neighbor), false));
                }
                neighbors::Output::Proof(request) => out.push(Output::Proof(request)),
                neighbors::Output::Event(event) => out.push(Output::NeighborEvent(event)),
            }
        }
    }

    /// Passes the reachable neighbors to router and program.
    fn refresh_neighbors(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let neighbors: Vec<NeighborId> = self.links.neighbors().map(|(number, _)| number).collect();
        for number in neighbors {
            let member = self.links.member(number);
            // The program knows the neighbor before an answer names it.
            out.push(Output::Member(number, member));
            self.answers.change(now, |router| ((), router.set_neighbor(number, member.is_some())));
        }
        self.refresh_links(now, out);
    }

    fn packet(&mut self, now: Instant, link: LinkDestination, octets: Vec<u8>, out: &mut Outbox<Output>) {
        let own = self.own_address();
        let mut context = Context { now, answers: &mut self.answers, links: &self.links, own, waits: 0 };
        self.forwarding.receive(&mut context, link, octets, out);
        if self.answers.needs_key() && !self.asked_for_key {
            self.asked_for_key = true;
            out.push(Output::NeedsKey);
        }
    }
}

impl<L: Lines> Xip<L> {
    /// Routes the packets whose awaited answer is known, late or given up.
    pub(crate) fn release_waiting(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let registry = self.answers.router().registry();
        let is_waiting =
            |xid: Xid| registry.outside(xid.kind).is_some_and(|principal| principal.is_waiting(xid));
        let ready = self.forwarding.waiting.take_ready(is_waiting);
        let own = self.own_address();
        for packet in ready {
            let waits = packet.waits + 1;
            let mut context = Context { now, answers: &mut self.answers, links: &self.links, own, waits };
            self.forwarding.route(&mut context, packet.octets, packet.arrival, out);
        }
    }
}

/// Returns the XID of a tunnel's socket.
fn tunnel_xid(local: SocketAddr) -> Xid {
    match local {
        SocketAddr::V4(local) => udp::u4id(local),
        SocketAddr::V6(local) => udp::u6id(local),
    }
}

impl<L: Lines> Machine for Xip<L> {
    type Input = Input;
    type Output = Output;
    type State = ();

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Configure(settings) => self.configure(now, settings, out),
            Input::Interface(event) => match event {
                InterfaceEvent::Changed(interface) => {
                    self.links.set(interface);
                    self.refresh_neighbors(now, out);
                }
                InterfaceEvent::Removed(index) => {
                    self.links.remove(index);
                    self.refresh_neighbors(now, out);
                }
                InterfaceEvent::SnapshotBegin | InterfaceEvent::SnapshotEnd => {}
            },
            Input::Routes(changes) => self.routes_changed(now, changes, out),
            Input::Packet { link, octets, .. } => self.packet(now, link, octets, out),
            Input::Nwp { from, octets } => {
                let Station { interface, mac } = from;
                let frame = neighbors::Input::Frame { interface, source: mac, octets };
                self.neighbors.handle(now, frame, &mut self.from_neighbors);
                self.carry_out(out);
            }
            Input::Proof(answer) => {
                self.neighbors.handle(now, neighbors::Input::Proof(answer), &mut self.from_neighbors);
                self.carry_out(out);
            }
            Input::Datagram(octets) => self.packet(now, LinkDestination::ThisHost, octets, out),
            Input::ClearCache => self.answers.clear(),
            Input::Ping(ping) => {
                let own = self.own_address();
                if let Some(octets) = Forwarding::ping(own, &ping) {
                    let (answers, links) = (&mut self.answers, &self.links);
                    let mut context = Context { now, answers, links, own, waits: 0 };
                    self.forwarding.route(&mut context, octets, Arrival::Made, out);
                }
            }
        }
        self.ask(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let late = self.outside_deadline();
        self.sweep.into_iter().chain(self.neighbors.next_deadline()).chain(late).min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.neighbors.on_deadline(now, &mut self.from_neighbors);
        self.carry_out(out);
        if self.sweep.is_some_and(|at| at <= now) {
            self.answers.sweep(SWEPT);
            self.sweep = Some(now + SWEEP);
        }
        self.outside_late(now, out);
        self.ask(out);
    }

    fn export(&self) {}

    fn import(&mut self, _: Instant, (): (), _: &mut Outbox<Output>) {}
}
