//! A few whole routers in virtual time: slow connections, a shared IGP, no sleep.

use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::prefix::Prefix;
use sluice_base::{
    Address, AnyPrefix, Asn, Distance, Duration, Forwarding, Instant, InterfaceIndex, Ipv4Prefix, Ipv6Prefix,
    Metric, NextHop, RouteAction, RouteBatch, RouterId, Xid, XidPrefix, XidType,
};
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::event::{Event, PeerEvent};
use sluice_bgp::family::{ByFamily, FamilyCodes, FamilyIndex};
use sluice_bgp::session::{ConnectionId, Direction, State};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Config, DefaultPolicy, Identity, Input, NeighborConfig, Output, Speaker};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// The travel time of an octet.
pub const LATENCY: Duration = Duration::from_millis(5);

/// An end of a connection: router, the neighbor's address there, and the number.
type End = (usize, IpAddr, ConnectionId);

pub struct Router {
    pub speaker: Speaker,
    pub asn: u32,
    pub addresses: Vec<IpAddr>,
    pub config: Config,
    pub rib: BTreeMap<AnyPrefix, IpAddr>,
    /// The backups sent to the RIB.
    pub backups: BTreeMap<AnyPrefix, IpAddr>,
    /// Gateways marked unusable at the RIB.
    pub lost: BTreeSet<IpAddr>,
    /// The number of routes sent to the RIB.
    pub rib_updates: usize,
    pub events: Vec<Event>,
    rib_ready: ByFamily<bool>,
    transmit: Vec<IpAddr>,
}

/// The octets on the way.
enum Arrival {
    Input(Input),
    /// A neighbor's connection, to be answered on the other end.
    Connect {
        from: End,
        address: IpAddr,
    },
}

pub struct World {
    pub now: Instant,
    pub routers: Vec<Router>,
    /// By time; equal times in order of sending.
    arrivals: VecDeque<(Instant, usize, Arrival)>,
    /// Both ends of each connection.
    ends: BTreeMap<End, End>,
    /// Links that are cut: pairs of addresses, one direction.
    pub cut: Vec<(IpAddr, IpAddr)>,
    /// True if octets get lost, while connections stand.
    pub silent: bool,
    /// True if octets arrive in two successive pieces.
    pub cut_messages: bool,
    cut_until: BTreeMap<End, Instant>,
    numbers: u32,
    out: Outbox<Output>,
}

impl World {
    /// Routers with these ASes; router `n` has the addresses in `addresses`.
    pub fn new(routers: &[(u32, &[&str])]) -> Self {
        let routers = routers.iter().enumerate().map(|(n, (asn, addresses))| {
            let identity = Identity {
                started: Instant::ZERO,
                is_restarted: false,
                local_as: Asn(*asn),
                router_id: RouterId(n as u32 + 1),
                seed: n as u64 + 1,
                tables: n as u16 % 3 + 1,
                source: n as u16 + 1,
                codes: FamilyCodes::DEFAULT,
                decision: Default::default(),
            };
            let mut speaker = Speaker::new(identity);
            speaker.check(true);
            Router {
                speaker,
                asn: *asn,
                addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
                config: Config::default(),
                rib: BTreeMap::new(),
                backups: BTreeMap::new(),
                lost: BTreeSet::new(),
                rib_updates: 0,
                events: vec![],
                rib_ready: ByFamily::default(),
                transmit: vec![],
            }
        });
        World {
            now: Instant::ZERO,
            routers: routers.collect(),
            arrivals: VecDeque::new(),
            ends: BTreeMap::new(),
            cut: vec![],
            silent: false,
            cut_messages: false,
            cut_until: BTreeMap::new(),
            numbers: 0,
            out: Outbox::new(),
        }
    }

    /// Makes two routers neighbors by their addresses.
    pub fn peer(&mut self, a: (usize, &str), b: (usize, &str), change: impl Fn(&mut NeighborConfig)) {
        for ((this, _), (other, address)) in [(a, b), (b, a)] {
            let asn = Asn(self.routers[other].asn);
            let mut config = NeighborConfig::new(address.parse().unwrap(), asn);
            config.offer(sluice_bgp::family::Families::ALL);
            config.default_policy = Some(DefaultPolicy::Accept);
            config.xid.next_hop = Some(xid_of(this));
            change(&mut config);
            self.routers[this].config.neighbors.push(config);
        }
    }

    pub fn configure(&mut self, router: usize) {
        let config = self.routers[router].config.clone();
        self.input(router, Input::Configure(config));
    }

    pub fn configure_all(&mut self) {
        (0..self.routers.len()).for_each(|n| self.configure(n));
    }

    pub fn input(&mut self, router: usize, input: Input) {
        self.routers[router].speaker.handle(self.now, input, &mut self.out);
        self.carry_out(router);
    }

    fn own_address(&self, router: usize, neighbor: IpAddr) -> IpAddr {
        let link = |a: &IpAddr| match (a, neighbor) {
            (IpAddr::V4(a), IpAddr::V4(b)) => a.octets()[..3] == b.octets()[..3],
            (IpAddr::V6(a), IpAddr::V6(b)) => a.octets()[..8] == b.octets()[..8],
            _ => false,
        };
        *self.routers[router].addresses.iter().find(|a| link(a)).expect("an address on the link")
    }

    fn later(&mut self, router: usize, arrival: Arrival) {
        self.arrivals.push_back((self.now + LATENCY, router, arrival));
    }

    fn carry_out(&mut self, router: usize) {
        let outputs: Vec<Output> = self.out.drain().collect();
        for output in outputs {
            match output {
                Output::Connect(address, connection) => {
                    let own = self.own_address(router, address);
                    let other = self.routers.iter().position(|r| r.addresses.contains(&address));
                    let from = (router, address, connection);
                    match other.filter(|_| !self.cut.contains(&(own, address))) {
                        Some(other) => self.later(other, Arrival::Connect { from, address: own }),
                        None => self.later(router, Arrival::Input(Input::Closed(address, connection))),
                    }
                }
                Output::Close(address, connection) => self.close((router, address, connection)),
                Output::Send(address, connection, octets) => {
                    self.send((router, address, connection), octets);
                }
                Output::Transmit(address, _) => self.routers[router].transmit.push(address),
                Output::RibReady(family) => self.routers[router].rib_ready[family] = true,
                Output::InterestIpv4(Interest::Register(addr)) => {
                    let answer = reachable::<Ipv4Prefix>(addr);
                    self.later(router, Arrival::Input(Input::AnswerIpv4(answer)));
                }
                Output::InterestIpv6(Interest::Register(addr)) => {
                    let answer = reachable::<Ipv6Prefix>(addr);
                    self.later(router, Arrival::Input(Input::AnswerIpv6(answer)));
                }
                Output::InterestXid(Interest::Register(addr)) => {
                    let answer = reachable::<XidPrefix>(addr);
                    self.later(router, Arrival::Input(Input::AnswerXid(answer)));
                }
                Output::InterestIpv4(Interest::Deregister(_))
                | Output::InterestIpv6(Interest::Deregister(_))
                | Output::InterestXid(Interest::Deregister(_)) => {}
                Output::WatchPresence(_) | Output::UnwatchPresence(_) => {}
                Output::GatewayUsable(address, true) => {
                    assert!(self.routers[router].lost.remove(&address), "{address} was not lost");
                }
                Output::GatewayUsable(address, false) => {
                    assert!(self.routers[router].lost.insert(address), "{address} is lost already");
                }
                Output::Event(event) => self.routers[router].events.push(event),
            }
        }
    }

    fn send(&mut self, end: End, octets: Vec<u8>) {
        if let Some(&(other, address, connection)) = self.ends.get(&end).filter(|_| !self.silent) {
            if self.cut_messages {
                let (head, tail) = octets.split_at(octets.len() * 2 / 3);
                // The second piece a while later, and what is sent next behind it.
                let first = self.now.max(self.cut_until.get(&end).copied().unwrap_or(self.now)) + LATENCY;
                self.cut_until.insert(end, first);
                for (at, piece) in [(first, head), (first + LATENCY, tail)] {
                    let input = Input::Received(address, connection, piece.to_vec());
                    self.arrivals.push_back((at, other, Arrival::Input(input)));
                }
                self.arrivals.make_contiguous().sort_by_key(|(at, ..)| *at);
                return;
            }
            self.later(other, Arrival::Input(Input::Received(address, connection, octets)));
        }
    }

    /// Runs a router's immediate work without advancing the time.
    pub fn rest(&mut self, router: usize) {
        while self.work(router) {}
    }

    /// Puts another process in a router's place, with this output.
    pub fn replace(&mut self, router: usize, speaker: Speaker, said: Vec<Output>) {
        self.routers[router].speaker = speaker;
        said.into_iter().for_each(|output| self.out.push(output));
        self.carry_out(router);
    }

    fn close(&mut self, end: End) {
        if let Some((other, address, connection)) = self.ends.remove(&end) {
            self.ends.remove(&(other, address, connection));
            self.later(other, Arrival::Input(Input::Closed(address, connection)));
        }
    }

    /// Breaks the connections between two addresses, and prevents new connections until [`World::mend`].
    pub fn sever(&mut self, a: &str, b: &str) {
        let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
        self.cut.extend([(a, b), (b, a)]);
        let broken: Vec<End> = self.ends.keys().filter(|(_, to, _)| *to == a || *to == b).copied().collect();
        for (router, address, connection) in broken {
            self.ends.remove(&(router, address, connection));
            self.later(router, Arrival::Input(Input::Closed(address, connection)));
        }
    }

    pub fn mend(&mut self) {
        self.cut.clear();
    }

    fn arrive(&mut self, router: usize, arrival: Arrival) {
        let input = match arrival {
            Arrival::Input(input) => input,
            Arrival::Connect { from, address } => {
                let number = self.numbers;
                self.numbers += 1;
                let connection = ConnectionId { direction: Direction::Incoming, number };
                let here = (router, address, connection);
                self.ends.insert(here, from);
                self.ends.insert(from, here);
                let endpoints = self.endpoints(from.0, from.1);
                self.later(from.0, Arrival::Input(Input::Connected(from.1, from.2, endpoints)));
                Input::Accepted(address, connection, self.endpoints(router, address))
            }
        };
        self.input(router, input);
    }

    fn endpoints(&self, router: usize, neighbor: IpAddr) -> Endpoints {
        let mut endpoints = Endpoints::new(self.own_address(router, neighbor));
        for address in &self.routers[router].addresses {
            match address {
                IpAddr::V4(a) => endpoints.ipv4 = endpoints.ipv4.or(Some(*a)),
                IpAddr::V6(a) => endpoints.ipv6 = endpoints.ipv6.or(Some(*a)),
            }
        }
        endpoints
    }

    /// Does work without time: slices, writing, the RIB. Returns true if there was work.
    fn work(&mut self, router: usize) -> bool {
        let now = self.now;
        let mut busy =
            self.routers[router].speaker.run_slice(now, Budget(64), &mut self.out) == Progress::More;
        self.carry_out(router);
        for address in std::mem::take(&mut self.routers[router].transmit) {
            let speaker = &mut self.routers[router].speaker;
            let mut octets = vec![];
            let more = speaker.fill(now, address, 1000, &mut octets);
            let end = self.ends.keys().find(|(r, a, _)| (*r, *a) == (router, address)).copied();
            if let Some(end) = end.filter(|_| !octets.is_empty()) {
                self.send(end, octets);
            }
            if more {
                self.routers[router].transmit.push(address);
            }
            busy = true;
        }
        let Router { speaker, rib, backups, rib_updates, rib_ready, .. } = &mut self.routers[router];
        if rib_ready[FamilyIndex::IPV4] {
            let mut batch = RouteBatch::<Ipv4Prefix>::default();
            rib_ready[FamilyIndex::IPV4] = speaker.rib_batch(100, &mut batch);
            *rib_updates += batch.updates.len();
            take(batch, rib, backups);
            busy = true;
        }
        if rib_ready[FamilyIndex::IPV6] {
            let mut batch = RouteBatch::<Ipv6Prefix>::default();
            rib_ready[FamilyIndex::IPV6] = speaker.rib_batch(100, &mut batch);
            *rib_updates += batch.updates.len();
            take(batch, rib, backups);
            busy = true;
        }
        if rib_ready[FamilyIndex::XID] {
            let mut batch = RouteBatch::<XidPrefix>::default();
            rib_ready[FamilyIndex::XID] = speaker.rib_batch(100, &mut batch);
            *rib_updates += batch.updates.len();
            take(batch, rib, backups);
            busy = true;
        }
        busy
    }

    /// Lets `time` pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while (0..self.routers.len()).fold(false, |busy, n| self.work(n) | busy) {}
            let arrival = self.arrivals.front().map(|(at, ..)| *at);
            let timer = self.routers.iter().filter_map(|r| r.speaker.next_deadline()).min();
            let Some(next) = arrival.into_iter().chain(timer).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                if let Some((_, router, arrival)) = self.arrivals.pop_front() {
                    self.arrive(router, arrival);
                }
            } else {
                for router in 0..self.routers.len() {
                    self.routers[router].speaker.on_deadline(self.now, &mut self.out);
                    self.carry_out(router);
                }
            }
        }
        self.now = end;
    }

    pub fn state(&self, router: usize, neighbor: &str) -> State {
        self.routers[router].speaker.neighbor(neighbor.parse().unwrap()).unwrap().state
    }

    /// Advances by at most `time`, until the sessions of both ends are Established; returns the duration.
    pub fn until_up(&mut self, a: (usize, &str), b: (usize, &str), time: Duration) -> Duration {
        let start = self.now;
        while self.state(a.0, b.1) != State::Established || self.state(b.0, a.1) != State::Established {
            assert!(
                self.now.saturating_since(start) < time,
                "{} {}",
                self.state(a.0, b.1),
                self.state(b.0, a.1)
            );
            self.pass(LATENCY);
        }
        self.now.saturating_since(start)
    }

    /// Times that a session of a router came up.
    pub fn ups(&self, router: usize) -> usize {
        self.routers[router].events.iter().filter(|e| e.what == PeerEvent::Up).count()
    }

    pub fn check(&self) {
        for router in &self.routers {
            assert_eq!(router.speaker.tables().violations::<Ipv4Prefix>(), []);
            assert_eq!(router.speaker.tables().violations::<Ipv6Prefix>(), []);
            assert_eq!(router.speaker.tables().violations::<XidPrefix>(), []);
        }
    }
}

pub fn reachable<P: Prefix>(addr: P::Addr) -> InterestAnswer<P> {
    let prefix = P::host(addr);
    let forwarding = Forwarding::one(NextHop::on(InterfaceIndex::new(1).unwrap()));
    let (metric, distance) = (Metric(0), Distance::CONNECTED);
    let route = Some(ResolvingRoute { prefix, metric, distance, connected: true, forwarding });
    InterestAnswer { valid: prefix, route }
}

/// Returns the XID of a router, as of a tunnel.
pub fn xid_of(router: usize) -> Xid {
    let mut id = [0; 20];
    id[..6].copy_from_slice(&[10, 9, 0, router as u8 + 1, 0x35, 0xd5]);
    Xid { kind: XidType::U4ID, id }
}

/// The address of a gateway, or of the router whose XID it is.
fn host_of(gateway: Address) -> IpAddr {
    gateway.ip().or_else(|| Xid::try_from(gateway).ok()?.tunnel_end()).unwrap()
}

fn take<P: Prefix>(
    batch: RouteBatch<P>,
    rib: &mut BTreeMap<AnyPrefix, IpAddr>,
    backups: &mut BTreeMap<AnyPrefix, IpAddr>,
) {
    for update in batch.updates {
        let prefix = AnyPrefix::of(update.prefix);
        backups.remove(&prefix);
        match update.action {
            RouteAction::Set(set) => {
                let hops = batch.sets[set as usize].forwarding.next_hops();
                let gateway = |hop: &NextHop<Address>| host_of(hop.gateway.unwrap());
                let (primary, backup): (Vec<_>, Vec<_>) = hops.iter().partition(|hop| !hop.is_backup);
                assert!(primary.len() == 1 && backup.len() < 2);
                rib.insert(prefix, gateway(primary[0]));
                backups.extend(backup.first().map(|hop| (prefix, gateway(hop))));
            }
            RouteAction::Delete => assert!(rib.remove(&prefix).is_some()),
        }
    }
}
