//! BGP's process: the core, its sockets, and its dealings with the RIB.

use super::messages::{Answer, FromFea, FromRib, ToRib};
use super::process::{Class, Process};
use super::{Base, Configuration, OriginClient, ProcessId, fea};
use crate::fabric::end::EndRef;
use crate::fabric::ipc::{Instance, Life, Message, TcpEvent, word};
use crate::network;
use crate::wire::Wire;
use crate::world::Fabric;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Address, AnyPrefix, Distance, Forwarding, Instant, InterfaceEvent, InterfaceIndex, Ipv4Prefix,
    Ipv6Prefix, Metric, NextHop, Prefix, RouteBatch, XidPrefix,
};
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::event::PeerEvent;
use sluice_bgp::family::{Families, FamilyCodes, FamilyIndex};
use sluice_bgp::session::{ConnectionId, Direction, State};
use sluice_bgp::shard::{DecisionRules, Interest};
use sluice_bgp::speaker::control::GRACE;
use sluice_bgp::speaker::{Config, Identity, Input, Output, Speaker};
use sluice_clients::{FirstSnapshot, InterfaceTable, Question, Questions};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use sluice_rib::OriginSettings;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) const CLASS: Class = Class { name: "bgp", start, is_in_light_worlds: true, has_connections: true };

/// Requests that wait for the first snapshot of interfaces.
#[derive(Clone, Copy)]
enum Waiting {
    Connect(IpAddr, ConnectionId),
    Accept(EndRef),
}

/// BGP's process.
pub struct BgpProcess {
    /// The core.
    pub speaker: Speaker,
    connections: BTreeMap<(IpAddr, ConnectionId), EndRef>,
    readable: Vec<EndRef>,
    transmit: Vec<EndRef>,
    accepted: u32,
    started: Instant,
    origin: OriginClient,
    questions: Questions,
    /// Families of which the core has routes for the RIB.
    ready: Families,
    interfaces: InterfaceTable,
    snapshot: FirstSnapshot,
    waiting: Vec<Waiting>,
    /// Routes for the RIB, in a router without RIB.
    pub unsent: u64,
    /// Sessions that came up, and sessions that went down.
    pub flaps: (u64, u64),
    /// The octets written to each neighbor since its session came up, if BGP is checked.
    pub wires: BTreeMap<IpAddr, Wire>,
}

fn start(base: &mut Base, fabric: &mut Fabric, configuration: &Configuration) -> Box<dyn Process> {
    let mut process = Box::new(BgpProcess::new(base, fabric));
    process.configure(base, fabric, configuration);
    process
}

impl BgpProcess {
    fn new(base: &Base, fabric: &Fabric) -> Self {
        let now = base.now(fabric);
        let identity = Identity {
            local_as: base.asn,
            router_id: network::router_id(base.id),
            seed: base.seed(fabric),
            tables: fabric.settings.tables,
            source: 1,
            codes: FamilyCodes::DEFAULT,
            decision: DecisionRules::default(),
            started: now,
            is_restarted: false,
        };
        let mut speaker = Speaker::starting_at(identity, now);
        speaker.check(fabric.settings.check);
        let settings = OriginSettings {
            name: CLASS.name.into(),
            distance: Distance::EBGP,
            external: true,
            grace: GRACE,
            kinds: sluice_bgp::shard::RIB_KINDS.iter().map(ToString::to_string).collect(),
        };
        let mut process = BgpProcess {
            speaker,
            connections: BTreeMap::new(),
            readable: Vec::new(),
            transmit: Vec::new(),
            accepted: 0,
            started: now,
            origin: OriginClient::new(settings),
            questions: Questions::default(),
            ready: Families::default(),
            interfaces: InterfaceTable::default(),
            snapshot: FirstSnapshot::new(now),
            waiting: Vec::new(),
            unsent: 0,
            flaps: (0, 0),
            wires: BTreeMap::new(),
        };
        if fabric.settings.light {
            // Without a FEA and a RIB: interfaces never change, and questions are answered here.
            for interface in fea::interfaces(base, fabric) {
                process.interfaces.apply(InterfaceEvent::Changed(interface));
            }
            process.snapshot.complete();
            process.questions.rib_started();
        }
        process
    }

    /// The number of waiting requests and writes.
    pub fn waits(&self) -> usize {
        self.questions.queued() + self.transmit.len()
    }

    /// Gives the core an input.
    pub fn input(&mut self, base: &mut Base, fabric: &mut Fabric, input: Input) {
        self.step(base, fabric, |speaker, now, out| speaker.handle(now, input, out));
    }

    fn step(
        &mut self,
        base: &mut Base,
        fabric: &mut Fabric,
        act: impl FnOnce(&mut Speaker, Instant, &mut Outbox<Output>),
    ) {
        let mut out = std::mem::take(&mut fabric.outbox);
        act(&mut self.speaker, base.now(fabric), &mut out);
        for output in out.drain() {
            // A message is sent at once; all else may leave work behind.
            if !matches!(output, Output::Send(..)) {
                base.wake(fabric, true);
            }
            self.carry_out(base, fabric, output);
        }
        fabric.outbox = out;
    }

    fn carry_out(&mut self, base: &mut Base, fabric: &mut Fabric, output: Output) {
        match output {
            Output::Connect(address, id) => {
                self.wait_for_interfaces(base, fabric, Waiting::Connect(address, id));
            }
            Output::Close(address, id) => {
                if let Some(end) = self.connections.remove(&(address, id)) {
                    fabric.history.note(fabric.now, base.id, 1, || format!("closes {address} {id:?}"));
                    fabric.close(end);
                }
            }
            Output::Send(address, id, octets) => {
                if let Some(end) = self.connections.get(&(address, id)).copied() {
                    fabric.history.octets(&octets);
                    self.watch_collision(base, fabric, address, (id, end), &octets);
                    fabric.send(end, octets);
                }
            }
            Output::Transmit(address, id) => {
                if let Some(end) = self.connections.get(&(address, id)) {
                    self.transmit.push(*end);
                    base.wake(fabric, true);
                }
            }
            Output::RibReady(family) => {
                self.ready.insert(family);
                base.wake(fabric, true);
            }
            Output::InterestIpv4(interest) => self.ask(base, fabric, question(interest)),
            Output::InterestIpv6(interest) => self.ask(base, fabric, question(interest)),
            Output::InterestXid(interest) => self.ask(base, fabric, question(interest)),
            // Simulated routers have no statement that depends on the presence of routes.
            Output::WatchPresence(_) | Output::UnwatchPresence(_) => {}
            Output::GatewayUsable(address, is_usable) => {
                if self.origin.state.is_registered() {
                    base.send(fabric, ProcessId::RIB, ToRib::GatewayUsable(address, is_usable));
                }
            }
            Output::Event(event) => {
                match &event.what {
                    PeerEvent::Up => {
                        self.flaps.0 += 1;
                        if fabric.settings.check {
                            self.wires.insert(event.peer, Wire::default());
                        }
                    }
                    PeerEvent::Down(_) => {
                        self.flaps.1 += 1;
                        self.wires.remove(&event.peer);
                    }
                    _ => {}
                }
                fabric.history.note(fabric.now, base.id, 2, || event.to_string());
            }
        }
    }

    /// Checks collisions: of two connections, both routers close the connection that the router with the lower BGP
    /// Identifier opened (RFC 4271, section 6.8), but never an established connection.
    fn watch_collision(
        &self,
        base: &Base,
        fabric: &mut Fabric,
        address: IpAddr,
        (id, end): (ConnectionId, EndRef),
        octets: &[u8],
    ) {
        let is_collision = octets.get(18..21).is_some_and(|n| *n == [3, 6, 7]);
        if !is_collision || !fabric.settings.check {
            return;
        }
        let is_established = self.speaker.neighbor(address).is_some_and(|n| n.state == State::Established);
        // Two of one direction: the neighbor has given up the older one.
        let mut others = self.connections.keys().filter(|(a, other)| *a == address && *other != id);
        let is_rival = others.all(|(_, other)| other.direction != id.direction);
        let neighbor = network::place(address).map_or(0, |(link, side)| fabric.host_at(link, side));
        let is_own = end.end == 0;
        if !is_established && is_rival && is_own != (base.id < neighbor) {
            fabric
                .wrong
                .push(format!("n{}: of two connections with {address} the wrong one is closed", base.id));
        }
    }

    /// Connects or accepts once the interfaces are known, of which the session's next hops are made.
    fn wait_for_interfaces(&mut self, base: &mut Base, fabric: &mut Fabric, waiting: Waiting) {
        self.waiting.push(waiting);
        self.end_wait(base, fabric);
    }

    fn end_wait(&mut self, base: &mut Base, fabric: &mut Fabric) {
        if !self.snapshot.is_over(base.now(fabric)) {
            return;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Connect(address, id) => self.connect(base, fabric, address, id),
                Waiting::Accept(end) => self.accept(base, fabric, end),
            }
        }
    }

    fn endpoints(&self, base: &Base, address: IpAddr) -> Endpoints {
        let place = network::place(address).filter(|(link, _)| base.links.iter().any(|(l, _)| l == link));
        let Some((link, side)) = place else { return Endpoints::new(address) };
        Endpoints::between(&self.interfaces, network::ipv4(link, 1 - side).into(), address)
    }

    fn connect(&mut self, base: &mut Base, fabric: &mut Fabric, address: IpAddr, id: ConnectionId) {
        fabric.history.note(fabric.now, base.id, 3, || format!("connects to {address} {id:?}"));
        // The neighbor's side of a link of this router; sockets are the FEA's to open.
        let place = network::place(address).filter(|(link, side)| fabric.host_at(*link, 1 - side) == base.id);
        let end = match place.filter(|_| fabric.settings.light || base.is_alive(ProcessId::FEA)) {
            Some((link, side)) => fabric.connect(base.id, link, 1 - side, id),
            None => fabric.refuse(base.id, address, id),
        };
        self.connections.insert((address, id), end);
    }

    fn accept(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some(address) = fabric.connections.end_mut(end).map(|e| e.neighbor) else { return };
        let id = ConnectionId { direction: Direction::Incoming, number: self.accepted };
        self.accepted += 1;
        fabric.accept(end, id);
        fabric.history.note(fabric.now, base.id, 4, || format!("accepts {address} {id:?}"));
        if !self.speaker.neighbors().any(|a| a == address) {
            return fabric.close(end); // a stranger
        }
        self.connections.insert((address, id), end);
        let endpoints = self.endpoints(base, address);
        self.input(base, fabric, Input::Accepted(address, id, endpoints));
        base.wake(fabric, true);
    }

    fn connected(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some((address, id)) = fabric.connections.end_mut(end).map(|e| (e.neighbor, e.id)) else { return };
        fabric.history.note(fabric.now, base.id, 5, || format!("is connected to {address} {id:?}"));
        let endpoints = self.endpoints(base, address);
        self.input(base, fabric, Input::Connected(address, id, endpoints));
        base.wake(fabric, true);
    }

    fn read(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some(e) = fabric.connections.end_mut(end) else { return };
        e.noticed = false;
        let (address, id, finished) = (e.neighbor, e.id, e.finished);
        let octets = std::mem::take(&mut e.received);
        if !octets.is_empty() {
            fabric.history.note(fabric.now, base.id, 6, || format!("reads {} from {address}", octets.len()));
            fabric.history.octets(&octets);
            fabric.tap(base.id, base.asn, address, &octets);
            self.step(base, fabric, |speaker, now, out| speaker.receive(now, address, id, &octets, out));
        }
        if finished && self.connections.remove(&(address, id)).is_some() {
            fabric.history.note(fabric.now, base.id, 7, || format!("lost {address} {id:?}"));
            fabric.close(end);
            self.input(base, fabric, Input::Closed(address, id));
        }
    }

    /// Background work: all of it in fast runs, a slice a turn if events should interleave.
    fn work(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let budget = Budget(fabric.settings.slice);
        loop {
            let mut progress = Progress::Done;
            self.step(base, fabric, |speaker, now, out| progress = speaker.run_slice(now, budget, out));
            if fabric.settings.light {
                self.answer_all(base, fabric);
            }
            match progress {
                Progress::Done if self.questions.is_idle() || !fabric.settings.light => return,
                Progress::More if !fabric.settings.light => return base.wake(fabric, true),
                _ => {}
            }
        }
    }

    fn write(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some(address) = fabric.connections.end_mut(end).map(|e| e.neighbor) else { return };
        if !fabric.has_room(end) {
            return; // sent again when there is
        }
        let mut octets = Vec::new();
        let now = base.now(fabric);
        let more = self.speaker.fill(now, address, fabric.settings.fill, &mut octets);
        if !octets.is_empty() {
            fabric.history.octets(&octets);
            if let Some(wire) = self.wires.get_mut(&address) {
                wire.read(&octets);
                fabric.wrong.extend(wire.wrong.drain(..).map(|w| format!("n{} to {address}: {w}", base.id)));
            }
            octets.shrink_to_fit();
            let octets = fabric.rewrite(address).apply(octets);
            fabric.send(end, octets);
        }
        if more {
            self.transmit.push(end);
            base.wake(fabric, true);
        }
    }

    fn ask(&mut self, base: &mut Base, fabric: &mut Fabric, question: Question) {
        self.questions.ask(question);
        base.wake(fabric, true);
    }

    fn send_questions(&mut self, base: &Base, fabric: &mut Fabric) {
        if let Some(request) = self.questions.next_request() {
            base.send(fabric, ProcessId::RIB, ToRib::Interest(request));
        }
    }

    fn handle_rib(&mut self, base: &mut Base, fabric: &mut Fabric, word: FromRib) {
        if self.origin.reply(&word) {
            self.questions.rib_started();
            self.input(base, fabric, Input::RibRestarted);
        }
        match word {
            FromRib::Answers(answers) => {
                for answer in answers {
                    let input = match answer {
                        Answer::Ipv4(answer) => Input::AnswerIpv4(answer),
                        Answer::Ipv6(answer) => Input::AnswerIpv6(answer),
                        Answer::Xid(answer) => Input::AnswerXid(answer),
                    };
                    self.input(base, fabric, input);
                }
                for prefix in self.questions.answered() {
                    self.input(base, fabric, Input::Invalid(prefix));
                }
            }
            FromRib::InterestInvalid(prefixes) => {
                for prefix in prefixes {
                    self.questions.invalidated(prefix);
                    self.input(base, fabric, Input::Invalid(prefix));
                }
            }
            FromRib::Registered | FromRib::RoutesTaken => {}
        }
    }

    /// Answers without a RIB: next hops on a link are connected, the rest is unreachable.
    fn answer_all(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let request = self.questions.next_request().unwrap_or_default();
        // Simulated routers without a RIB have no routes of XIDs.
        for addr in request.register.into_iter().filter_map(Address::ip) {
            let place = network::place(addr);
            let interface =
                place.and_then(|(link, _)| base.links.iter().position(|(l, _)| *l == link)).map(|n| n as u32);
            let input = match addr {
                IpAddr::V4(a) => {
                    let host = Ipv4Prefix::host(sluice_base::ip::V4Addr(a));
                    let valid = if interface.is_some() { host.truncate(30) } else { host };
                    Input::AnswerIpv4(InterestAnswer { valid, route: connected(valid, interface) })
                }
                IpAddr::V6(a) => {
                    let host = Ipv6Prefix::host(sluice_base::ip::V6Addr(a));
                    let valid = if interface.is_some() { host.truncate(126) } else { host };
                    Input::AnswerIpv6(InterestAnswer { valid, route: connected(valid, interface) })
                }
            };
            self.input(base, fabric, input);
        }
        self.questions.answered();
    }

    /// Sends best routes to the RIB, as far as the RIB accepts them, and finally the end of the resync, once.
    fn pump(&mut self, base: &mut Base, fabric: &mut Fabric) {
        for family in FamilyIndex::all() {
            while self.ready.has(family) && (fabric.settings.light || self.origin.has_room()) {
                let more = match family {
                    FamilyIndex::IPV4 => {
                        self.send_routes(base, fabric, Speaker::rib_batch::<Ipv4Prefix>, ToRib::UpdateIpv4)
                    }
                    FamilyIndex::IPV6 => {
                        self.send_routes(base, fabric, Speaker::rib_batch::<Ipv6Prefix>, ToRib::UpdateIpv6)
                    }
                    _ => self.send_routes(base, fabric, Speaker::rib_batch::<XidPrefix>, ToRib::UpdateXids),
                };
                if !more {
                    self.ready.remove(family);
                }
            }
        }
        let is_announced = self.ready.is_empty() && self.origin.is_drained();
        if self.origin.state.refresh_due().is_some() && is_announced {
            let is_converged = self.speaker.is_converged(base.now(fabric));
            self.origin.end_refresh(base, fabric, is_converged);
        }
    }

    fn send_routes<P>(
        &mut self,
        base: &Base,
        fabric: &mut Fabric,
        fill: impl FnOnce(&mut Speaker, usize, &mut RouteBatch<P>) -> bool,
        message: impl FnOnce(RouteBatch<P>) -> ToRib,
    ) -> bool {
        let mut batch = RouteBatch::default();
        let more = fill(&mut self.speaker, fabric.settings.batch, &mut batch);
        fabric.history.mix(batch.updates.len() as u64);
        if fabric.settings.light {
            self.unsent += batch.updates.len() as u64;
        } else if !batch.is_empty() {
            self.origin.send(base, fabric, message(batch));
        }
        more
    }
}

impl Process for BgpProcess {
    fn configure(&mut self, base: &mut Base, fabric: &mut Fabric, configuration: &Configuration) {
        let config = configuration.get::<Config>().cloned().unwrap_or_default();
        self.input(base, fabric, Input::Configure(config));
        base.wake(fabric, true);
    }

    fn life(&mut self, base: &mut Base, fabric: &mut Fabric, life: Life) {
        self.origin.life(base, fabric, life);
        base.subscribe_to_interfaces(fabric, life);
        if matches!(life, Life::Died(rib) if rib.process == ProcessId::RIB) {
            self.questions.rib_died();
        }
    }

    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, _from: Instance, message: Box<dyn Message>) {
        match word(message) {
            Ok(word) => self.handle_rib(base, fabric, word),
            Err(message) => {
                let Ok(FromFea::Interfaces(events)) = word(message) else { return };
                for event in events {
                    if event == InterfaceEvent::SnapshotEnd {
                        self.snapshot.complete();
                    }
                    self.interfaces.apply(event);
                }
                self.end_wait(base, fabric);
            }
        }
    }

    fn serves(&self, neighbor: IpAddr) -> bool {
        self.speaker.neighbors().any(|known| known == neighbor)
    }

    fn tcp(&mut self, base: &mut Base, fabric: &mut Fabric, event: TcpEvent) {
        match event {
            TcpEvent::Asked(end) => self.wait_for_interfaces(base, fabric, Waiting::Accept(end)),
            TcpEvent::Connected(end) => self.connected(base, fabric, end),
            TcpEvent::Readable(end) => {
                if let Some(e) = fabric.connections.end_mut(end)
                    && !std::mem::replace(&mut e.noticed, true)
                {
                    self.readable.push(end);
                }
            }
            TcpEvent::Writable(end) => self.transmit.push(end),
        }
    }

    /// Reads input, works, and writes as far as there is room.
    fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.end_wait(base, fabric);
        for end in std::mem::take(&mut self.readable) {
            self.read(base, fabric, end);
        }
        self.work(base, fabric);
        for end in std::mem::take(&mut self.transmit) {
            self.write(base, fabric, end);
        }
        self.pump(base, fabric);
        if !fabric.settings.light {
            self.send_questions(base, fabric);
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        // When the wait for neighbors' routes is over, the refresh ends without them.
        let latest = self.started + GRACE;
        let refresh = (self.origin.state.refresh_due().is_some() && latest > now).then_some(latest);
        let interfaces = (!self.waiting.is_empty()).then(|| self.snapshot.deadline());
        [refresh, interfaces, self.speaker.next_deadline()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.step(base, fabric, |speaker, now, out| speaker.on_deadline(now, out));
        // A deadline that is left behind would come again without virtual time passing.
        self.end_wait(base, fabric);
    }

    /// Returns true if the RIB has every best route, and every next hop is resolved.
    fn is_settled(&mut self) -> bool {
        let is_announced = self.origin.state.is_registered() && self.origin.state.refresh_due().is_none();
        is_announced && self.speaker.tables().is_resolved()
    }

    fn killed(&mut self, _base: &mut Base, fabric: &mut Fabric) {
        self.connections.values().for_each(|end| fabric.close(*end));
    }

    fn power_lost(&mut self, fabric: &mut Fabric) {
        self.connections.values().for_each(|end| fabric.vanish(*end));
    }
}

/// Returns a question of a table as the RIB is asked.
fn question<P: Prefix>(interest: Interest<P>) -> Question {
    match interest {
        Interest::Register(addr) => Question::Register(addr.into()),
        Interest::Deregister(valid) => Question::Deregister(AnyPrefix::of(valid)),
    }
}

fn connected<P: Prefix>(prefix: P, interface: Option<u32>) -> Option<ResolvingRoute<P>> {
    let interface = InterfaceIndex::new(interface? + 1)?;
    Some(ResolvingRoute {
        prefix,
        metric: Metric(0),
        distance: Distance::CONNECTED,
        connected: true,
        forwarding: Forwarding::one(NextHop::on(interface)),
    })
}
