//! A router under test with scripted peers around it, all in virtual time: peers speak octets, the RIB is a table.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod hearing;
mod injection;
pub mod net;
pub mod oracle;
mod peer;
mod policy;
pub mod route;
mod saying;
pub mod station;

use hearing::hear_update;
pub use net::{Net, xid_of};
pub use peer::ScriptedPeer;
pub use policy::{TestPolicy, policies};
pub use route::Route;

use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    AnyPrefix, Asn, Distance, Forwarding, Instant, InterfaceIndex, Metric, NextHop as BaseHop, Prefix,
    RouteAction, RouteBatch, RouterId,
};
use sluice_bgp::endpoints::{Endpoints, Subnets};
use sluice_bgp::event::Event;
use sluice_bgp::family::{Families, FamilyCodes};
use sluice_bgp::session::{ConnectionId, Direction, State};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{
    AddPath, Config, DefaultPolicy, Identity, Input, NeighborConfig, Output, PresenceQuestion, SendPaths,
    Speaker,
};
use sluice_bgp::wire::{Capability, FamilyKey, MAX_EXTENDED_LEN, MessageType, Open, PathsFamily, header};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// The AS of the router under test.
pub const LOCAL_AS: u32 = 65001;
/// The BGP Identifier of the router under test.
pub const OWN_ID: u32 = 1;

/// Returns the address of a peer beyond those of the test's own network.
fn far_addr(n: usize) -> IpAddr {
    let [high, low] = (n as u16).to_be_bytes();
    IpAddr::from([10, 1, high, low])
}

/// An address of a family's next hops.
type HopAddr<P> = <<P as FamilyKey>::Hop as Prefix>::Addr;

/// How the fake RIB reaches a next hop: metric and whether it is connected.
pub type Reach = Option<(u32, bool)>;

/// The router under test, its peers and its RIB, in virtual time.
pub struct Dut<P: Net> {
    /// The machines under test.
    pub speaker: Speaker,
    /// The virtual time.
    pub now: Instant,
    /// The scripted peers, by number.
    pub peers: Vec<ScriptedPeer<P>>,
    /// What the RIB answers for each next hop.
    pub reach: BTreeMap<IpAddr, Reach>,
    /// The prefixes that the router originates.
    pub networks: BTreeSet<P>,
    /// The router's link-local address on the links to all peers.
    pub link_local: Option<Ipv6Addr>,
    /// The interface to these links.
    pub interface: Option<InterfaceIndex>,
    /// What was reported.
    pub events: Vec<Event>,
    /// What the RIB was told: next hop, metric, distance.
    pub rib: BTreeMap<P, (IpAddr, u32, u8)>,
    /// The next hops and weights of routes that the RIB was told with several. `rib` has the lowest of these next hops.
    pub rib_groups: BTreeMap<P, Vec<(IpAddr, u8)>>,
    /// What the RIB was told to drop packets for: the distance.
    pub rib_discards: BTreeMap<P, u8>,
    /// The interfaces of next hops that the RIB was told with one.
    pub rib_interfaces: BTreeMap<P, InterfaceIndex>,
    questions: VecDeque<HopAddr<P>>,
    registered: BTreeSet<P::Hop>,
    /// True if the RIB takes routes.
    pub rib_ready: bool,
    /// The number of changes that the RIB was told.
    rib_updates: usize,
    /// The questions to the RIB about the presence of routes.
    pub asked: BTreeSet<PresenceQuestion>,
    /// Families that peers are configured with.
    pub families: Families,
    /// The parameter of the configured policies ([`policies`]).
    pub parameter: u32,
    /// The policy for the networks.
    pub network_policy: TestPolicy,
    out: Outbox<Output>,
    next_connection: u32,
}

/// A router of so many tables.
pub fn identity(tables: u16) -> Identity {
    Identity {
        local_as: Asn(LOCAL_AS),
        router_id: RouterId(OWN_ID),
        seed: 7,
        tables,
        source: 1,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
        started: Instant::ZERO,
        is_restarted: false,
    }
}

impl<P: Net> Dut<P> {
    /// A router of so many tables, with peers of these ASes; peer `n` has address and identifier `n + 2`.
    pub fn new(asns: &[u32], tables: u16) -> Self {
        Self::with_identity(asns, identity(tables))
    }

    /// The same, with another identity of the router.
    pub fn with_identity(asns: &[u32], identity: Identity) -> Self {
        let peers = asns.iter().enumerate().map(|(n, asn)| ScriptedPeer {
            address: u8::try_from(n + 2).map_or_else(|_| far_addr(n), P::host_addr),
            asn: *asn,
            router_id: n as u32 + 2,
            on_subnet: false,
            four_octet_as: true,
            next_hop_self: false,
            client: false,
            relationship: None,
            import: TestPolicy::default(),
            export: TestPolicy::default(),
            keep_rejected: true,
            asked: 0,
            connection: None,
            several: false,
            is_next_hop: false,
            announced: BTreeMap::new(),
            further: BTreeMap::new(),
            told: BTreeMap::new(),
            told_paths: BTreeMap::new(),
            end_of_rib: false,
            ended: [false; 2],
            messages: vec![],
            wire: vec![],
            updates: 0,
            transmit: false,
        });
        let mut dut = Dut {
            speaker: Speaker::new(identity),
            now: Instant::ZERO,
            peers: peers.collect(),
            reach: BTreeMap::new(),
            networks: BTreeSet::new(),
            link_local: None,
            interface: None,
            events: vec![],
            rib: BTreeMap::new(),
            rib_groups: BTreeMap::new(),
            rib_discards: BTreeMap::new(),
            rib_interfaces: BTreeMap::new(),
            questions: VecDeque::new(),
            registered: BTreeSet::new(),
            rib_ready: false,
            rib_updates: 0,
            asked: BTreeSet::new(),
            families: P::families(),
            parameter: 0,
            network_policy: TestPolicy::default(),
            out: Outbox::new(),
            next_connection: 0,
        };
        dut.speaker.check(true);
        dut.configure();
        dut
    }

    /// Returns the configuration for the peers and networks.
    pub fn config(&self) -> Config {
        let neighbor = |p: &ScriptedPeer<P>| {
            let mut config = NeighborConfig {
                passive: true,
                relationship: p.relationship,
                next_hop_self: p.next_hop_self,
                route_reflector_client: p.client && p.internal(),
                default_policy: Some(DefaultPolicy::Accept),
                import: p.import.names(),
                export: p.export.names(),
                keep_rejected: p.keep_rejected,
                add_path: AddPath {
                    receive: p.several,
                    send: p.several.then_some(SendPaths::All),
                    ..AddPath::NONE
                },
                ..NeighborConfig::new(p.address, Asn(p.asn))
            };
            config.offer(self.families);
            config.xid.next_hop = P::host_addr(1).is_ipv4().then(|| xid_of(P::host_addr(1)));
            config
        };
        Config {
            neighbors: self.peers.iter().map(neighbor).collect(),
            networks: self.networks.iter().map(|p| AnyPrefix::of(*p)).collect(),
            policies: policies::<P>(self.parameter),
            network_policy: self.network_policy.names(),
            ..Config::default()
        }
    }

    /// Configures the router for the peers and networks.
    pub fn configure(&mut self) {
        let config = self.config();
        self.input(Input::Configure(config));
    }

    /// Gives the router an input and carries out its outputs.
    pub fn input(&mut self, input: Input) {
        self.speaker.handle(self.now, input, &mut self.out);
        self.outputs();
    }

    /// Puts another process with the same state in the router's place.
    pub fn hand_over(&mut self) {
        let state = self.speaker.export();
        let mut after = Speaker::starting_at(state.control.identity.clone(), self.now);
        self.registered.clear();
        self.questions.clear();
        after.import(self.now, state, &mut self.out);
        self.speaker = after;
        self.outputs();
        self.settle();
    }

    fn outputs(&mut self) {
        let outputs: Vec<Output> = self.out.drain().collect();
        for output in outputs {
            if let Some(interest) = P::interest(&output) {
                match interest {
                    Interest::Register(addr) => self.questions.push_back(addr),
                    Interest::Deregister(valid) => {
                        assert!(self.registered.remove(&valid), "{valid} was not registered");
                    }
                }
                continue;
            }
            match output {
                Output::Send(address, connection, octets) => {
                    let peer = self.peer_of(address);
                    if self.peers[peer].connection == Some(connection) {
                        self.hear(peer, &octets);
                    }
                }
                Output::Close(address, connection) => {
                    let peer = self.peer_of(address);
                    if self.peers[peer].connection == Some(connection) {
                        self.forget(peer);
                    }
                }
                Output::Transmit(address, _) => {
                    let peer = self.peer_of(address);
                    self.peers[peer].transmit = true;
                }
                Output::WatchPresence(questions) => self.asked.extend(questions),
                Output::UnwatchPresence(questions) => {
                    for question in questions {
                        assert!(self.asked.remove(&question), "{question:?} was not asked");
                    }
                }
                Output::RibReady(_) => self.rib_ready = true,
                Output::Event(event) => self.events.push(event),
                // A hint for the RIB, which has other ways to learn it.
                Output::GatewayUsable(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn peer_of(&self, address: IpAddr) -> usize {
        self.peers.iter().position(|p| p.address == address).expect("a scripted peer")
    }

    fn forget(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.connection = None;
        peer.announced.clear();
        peer.further.clear();
        peer.told.clear();
        peer.told_paths.clear();
        peer.end_of_rib = false;
        peer.transmit = false;
        peer.asked = 0;
    }

    /// A peer connects and the session comes up.
    pub fn up(&mut self, peer: usize) {
        self.up_with(peer, &[]);
    }

    /// Returns true if the router's wait for its peers is over and all is decided.
    pub fn is_converged(&mut self) -> bool {
        self.speaker.is_converged(self.now)
    }

    /// Returns the time at which the next timer fires.
    pub fn deadline(&self) -> Option<Instant> {
        self.speaker.next_deadline()
    }

    /// Fires the timers that are due.
    pub fn fire(&mut self) {
        self.speaker.on_deadline(self.now, &mut self.out);
        self.outputs();
    }

    /// A peer that offers these capabilities too connects and the session comes up.
    pub fn up_with(&mut self, peer: usize, more: &[Capability]) {
        let mut capabilities = vec![Capability::RouteRefresh];
        capabilities.extend_from_slice(more);
        self.up_offering(peer, capabilities);
    }

    /// A peer that does not answer ROUTE-REFRESH connects and the session comes up.
    pub fn up_without_refresh(&mut self, peer: usize) {
        self.up_offering(peer, vec![]);
    }

    fn up_offering(&mut self, peer: usize, more: Vec<Capability>) {
        let mut capabilities = vec![Capability::Multiprotocol { afi: P::AFI, safi: P::SAFI }];
        if self.peers[peer].four_octet_as {
            capabilities.push(Capability::FourOctetAs(Asn(self.peers[peer].asn)));
        }
        if self.peers[peer].several {
            let family = PathsFamily { afi: P::AFI, safi: P::SAFI, receive: true, send: true };
            capabilities.push(Capability::AddPath(vec![family]));
        }
        capabilities.extend(more);
        self.up_speaking(peer, capabilities);
    }

    /// A peer with these capabilities alone connects and the session comes up.
    pub fn up_speaking(&mut self, peer: usize, capabilities: Vec<Capability>) {
        self.wait_for(peer, State::Active);
        self.connect(peer, capabilities);
    }

    /// A peer with these capabilities connects, whatever the state of its session, and the session comes up.
    pub fn connect(&mut self, peer: usize, capabilities: Vec<Capability>) {
        let connection = ConnectionId { direction: Direction::Incoming, number: self.next_connection };
        self.next_connection += 1;
        self.peers[peer].connection = Some(connection);
        let address = self.peers[peer].address;
        let subnets = if self.peers[peer].on_subnet { P::subnet().into() } else { Subnets::NONE };
        let (link_local, interface) = (self.link_local, self.interface);
        let endpoints = Endpoints { subnets, link_local, interface, ..Endpoints::new(P::host_addr(1)) };
        self.input(Input::Accepted(address, connection, endpoints));
        let mut octets = vec![];
        let asn = Asn(self.peers[peer].asn);
        let open = Open {
            version: 4,
            as_field: asn.to_u16(),
            hold_time: 90,
            router_id: RouterId(self.peers[peer].router_id),
            capabilities,
        };
        open.put(&mut octets);
        header::put_keepalive(&mut octets);
        self.say(peer, &octets);
        assert_eq!(self.speaker.neighbor(address).unwrap().state, State::Established);
    }

    /// Lets time pass until a peer's session is in `state`.
    pub fn wait_for(&mut self, peer: usize, state: State) {
        let address = self.peers[peer].address;
        for _ in 0..1000 {
            if self.speaker.neighbor(address).unwrap().state == state {
                return;
            }
            self.now = self.speaker.next_deadline().expect("a timer").max(self.now);
            self.speaker.on_deadline(self.now, &mut self.out);
            self.outputs();
        }
        panic!("{address} does not get to {state}");
    }

    /// The peer's connection breaks.
    pub fn down(&mut self, peer: usize) {
        let Some(connection) = self.peers[peer].connection else { return };
        let address = self.peers[peer].address;
        self.forget(peer);
        self.input(Input::Closed(address, connection));
    }

    /// A peer sends octets.
    pub fn say(&mut self, peer: usize, octets: &[u8]) {
        let connection = self.peers[peer].connection.expect("a connection");
        let address = self.peers[peer].address;
        self.speaker.receive(self.now, address, connection, octets, &mut self.out);
        self.outputs();
    }

    /// The RIB answers its oldest question; `false` if there is none.
    pub fn answer_one(&mut self) -> bool {
        let Some(addr) = self.questions.pop_front() else { return false };
        let valid = P::Hop::host(addr);
        self.registered.insert(valid);
        let route = self.reach.get(&P::host_of(addr.into())).copied().flatten().map(|(metric, connected)| {
            ResolvingRoute {
                prefix: valid,
                metric: Metric(metric),
                distance: Distance(110),
                connected,
                forwarding: Forwarding::one(BaseHop::on(InterfaceIndex::new(1).unwrap())),
            }
        });
        self.input(P::answer(InterestAnswer { valid, route }));
        true
    }

    /// The IGP changes.
    pub fn set_reach(&mut self, hop: IpAddr, reach: Reach) {
        self.reach.insert(hop, reach);
        let valid = P::Hop::host(P::hop_addr(hop));
        if self.registered.remove(&valid) {
            self.input(Input::Invalid(AnyPrefix::of(valid)));
        }
    }

    /// Runs one slice of background work and carries out its outputs.
    pub fn slice(&mut self, budget: u32) -> Progress {
        let progress = self.speaker.run_slice(self.now, Budget(budget), &mut self.out);
        self.outputs();
        progress
    }

    /// A peer's socket takes some octets; whether there are more.
    pub fn transmit(&mut self, peer: usize, limit: usize) -> bool {
        if !self.peers[peer].transmit {
            return false;
        }
        let mut octets = vec![];
        let more = self.speaker.fill(self.now, self.peers[peer].address, limit, &mut octets);
        self.peers[peer].transmit = more;
        self.hear(peer, &octets);
        more
    }

    /// The RIB takes some routes; whether there are more.
    pub fn drain_rib(&mut self, limit: usize) -> bool {
        if !self.rib_ready {
            return false;
        }
        let mut batch = RouteBatch::default();
        self.rib_ready = P::rib_batch(&mut self.speaker, limit, &mut batch);
        self.rib_updates += batch.updates.len();
        for update in batch.updates {
            match update.action {
                RouteAction::Set(set) => {
                    let set = &batch.sets[set as usize];
                    self.rib_discards.remove(&update.prefix);
                    self.rib_groups.remove(&update.prefix);
                    let distance = set.distance.unwrap().0;
                    if set.forwarding == Forwarding::Discard {
                        self.rib.remove(&update.prefix);
                        self.rib_discards.insert(update.prefix, distance);
                        continue;
                    }
                    let BaseHop { gateway, interface, .. } = set.forwarding.next_hops()[0];
                    let hop = P::host_of(gateway.unwrap());
                    let primary = set.forwarding.next_hops().iter().filter(|hop| !hop.is_backup);
                    let group: Vec<(IpAddr, u8)> =
                        primary.map(|hop| (P::host_of(hop.gateway.unwrap()), hop.weight)).collect();
                    if group.len() > 1 {
                        self.rib_groups.insert(update.prefix, group);
                    }
                    self.rib_interfaces.remove(&update.prefix);
                    self.rib_interfaces.extend(interface.map(|interface| (update.prefix, interface)));
                    self.rib.insert(update.prefix, (hop, set.metric.0, distance));
                }
                RouteAction::Delete => {
                    self.rib_groups.remove(&update.prefix);
                    let was_discarded = self.rib_discards.remove(&update.prefix).is_some();
                    let is_known = self.rib.remove(&update.prefix).is_some() || was_discarded;
                    assert!(is_known, "delete of unknown {}", update.prefix);
                }
            }
        }
        self.rib_ready
    }

    /// Returns the number of changes that the RIB was told so far.
    pub fn updates_of_rib(&self) -> usize {
        self.rib_updates
    }

    /// Returns the numbers of prefixes announced and withdrawn to the second and the third peer so far.
    pub fn sent(&self) -> [(u64, u64); 2] {
        [1, 2].map(|peer| {
            let view = self.speaker.neighbor(self.peers[peer].address).unwrap();
            (view.writer.announced, view.writer.withdrawn)
        })
    }

    /// Gives the router an input; returns the numbers of prefixes announced and withdrawn to the second and the third peer since.
    pub fn news(&mut self, input: Input) -> [(u64, u64); 2] {
        let before = self.sent();
        self.input(input);
        self.settle();
        let after = self.sent();
        [0, 1].map(|n| (after[n].0 - before[n].0, after[n].1 - before[n].1))
    }

    /// All that can happen without time passing happens.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            let mut busy = self.answer_one();
            busy |= self.slice(256) == Progress::More;
            busy |= self.drain_rib(1000);
            for peer in 0..self.peers.len() {
                busy |= self.answer_refresh(peer);
                busy |= self.transmit(peer, 4096);
            }
            if !busy {
                return;
            }
        }
        panic!("never at rest");
    }

    /// A peer hears octets: whole messages.
    fn hear(&mut self, peer: usize, mut octets: &[u8]) {
        while !octets.is_empty() {
            let frame = header::frame_within(octets, MAX_EXTENDED_LEN)
                .expect("a good header")
                .expect("a whole message");
            let (message, rest) = octets.split_at(frame.len());
            octets = rest;
            self.peers[peer].wire.push(message.to_vec());
            if frame.kind == MessageType::Update {
                hear_update(&mut self.peers[peer], frame.body);
            } else {
                self.peers[peer].asked += usize::from(frame.kind == MessageType::RouteRefresh);
                self.peers[peer].messages.push(frame.kind);
            }
        }
    }
}

/// Returns a number of prefixes that fit in a message.
fn prefixes_of_a_message<P: Net>(prefixes: &[P]) -> usize {
    let longest = prefixes.iter().map(|prefix| prefix.wire_len()).max();
    3500 / longest.unwrap_or(1)
}
