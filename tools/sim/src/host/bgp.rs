//! BGP's process: the core, its sockets, and its dealings with the RIB.
//!
//! A rule of the shell that is repeated here because it is there and not in the core: an answer is void which was taken back while
//! its question was under way.

use super::ipc::{Answer, Message, Process};
use super::{Base, network_endpoints};
use crate::network;
use crate::tcp::EndRef;
use crate::wire::Wire;
use crate::world::Fabric;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Distance, Family, Forwarding, Instant, InterfaceIndex, IpPrefix, Ipv4Prefix, Ipv6Prefix, Metric, NextHop,
    Prefix, RouteBatch,
};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::session::{ConnectionId, Direction, State};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::control::GRACE;
use sluice_bgp::speaker::{Config, Identity, Input, Output, Speaker};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use sluice_rib::OriginSettings;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Batches to the RIB that may be under way.
const WINDOW: u32 = 8;

/// A question for the RIB.
enum Question {
    Register(IpAddr),
    Deregister(IpPrefix),
}

/// What BGP has to do with the RIB.
#[derive(Default)]
struct RibSide {
    registered: bool,
    under_way: u32,
    ready: [bool; 2],
    refresh_due: bool,
    questions: Vec<Question>,
    asking: bool,
    taken_back: Vec<IpPrefix>,
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
    rib: RibSide,
    /// Routes that the RIB would have been told, where there is none.
    pub unsent: u64,
    /// Sessions that came up, and that went down.
    pub flaps: (u64, u64),
    /// What was written to each neighbour since its session came up, where BGP is checked.
    pub wires: BTreeMap<IpAddr, Wire>,
}

impl BgpProcess {
    /// The process as it starts, before it is configured.
    pub fn new(base: &Base, fabric: &Fabric) -> Self {
        let identity = Identity {
            local_as: base.asn,
            router_id: network::router_id(base.id),
            seed: base.seed(fabric, Process::Bgp),
            tables: fabric.settings.tables,
            source: 1,
        };
        let mut speaker = Speaker::starting_at(identity, base.now(fabric));
        speaker.check(fabric.settings.check);
        BgpProcess {
            speaker,
            connections: BTreeMap::new(),
            readable: Vec::new(),
            transmit: Vec::new(),
            accepted: 0,
            started: base.now(fabric),
            rib: RibSide::default(),
            unsent: 0,
            flaps: (0, 0),
            wires: BTreeMap::new(),
        }
    }

    /// The ends of its connections.
    pub fn connections(&self) -> impl Iterator<Item = EndRef> {
        self.connections.values().copied()
    }

    /// What waits to be asked of the RIB or announced to it.
    pub fn waits(&self) -> usize {
        self.rib.questions.len() + self.transmit.len()
    }

    /// Whether the RIB has been told everything, and next hops are known.
    pub fn is_settled(&self) -> bool {
        self.rib.registered && !self.rib.refresh_due && self.speaker.tables().is_resolved()
    }

    /// Takes a configuration.
    pub fn configure(&mut self, base: &mut Base, fabric: &mut Fabric, config: Config) {
        self.input(base, fabric, Input::Configure(config));
        base.wake(fabric, true);
    }

    /// The operator's word.
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
            Output::Connect(address, id) => self.connect(base, fabric, address, id),
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
                self.rib.ready[family as usize] = true;
                base.wake(fabric, true);
            }
            Output::InterestIpv4(Interest::Register(addr)) => {
                self.ask(base, fabric, Question::Register(addr.into()));
            }
            Output::InterestIpv6(Interest::Register(addr)) => {
                self.ask(base, fabric, Question::Register(addr.into()));
            }
            Output::InterestIpv4(Interest::Deregister(p)) => {
                self.ask(base, fabric, Question::Deregister(p.into()));
            }
            Output::InterestIpv6(Interest::Deregister(p)) => {
                self.ask(base, fabric, Question::Deregister(p.into()));
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

    /// Of two connections that collide, the one goes that the router with the lower BGP Identifier asked for, and both routers see it
    /// so (RFC 4271, section 6.8); but never one that is established.
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
        // Two of one direction: the neighbour has given up the older one.
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

    fn connect(&mut self, base: &mut Base, fabric: &mut Fabric, address: IpAddr, id: ConnectionId) {
        fabric.history.note(fabric.now, base.id, 3, || format!("connects to {address} {id:?}"));
        // The neighbour's side of a link of this router; sockets are the FEA's to open.
        let place = network::place(address).filter(|(link, side)| fabric.host_at(*link, 1 - side) == base.id);
        let end = match place.filter(|_| fabric.settings.light || base.is_alive(Process::Fea)) {
            Some((link, side)) => fabric.connect(base.id, link, 1 - side, id),
            None => fabric.refuse(base.id, address, id),
        };
        self.connections.insert((address, id), end);
    }

    /// Somebody connects.
    pub fn asked(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some(address) = fabric.connections.end_mut(end).map(|e| e.neighbor) else { return };
        let id = ConnectionId { direction: Direction::Incoming, number: self.accepted };
        self.accepted += 1;
        fabric.accept(end, id);
        fabric.history.note(fabric.now, base.id, 4, || format!("accepts {address} {id:?}"));
        if !self.speaker.neighbors().any(|a| a == address) {
            return fabric.close(end); // a stranger
        }
        self.connections.insert((address, id), end);
        let endpoints = network_endpoints(fabric, address);
        self.input(base, fabric, Input::Accepted(address, id, endpoints));
        base.wake(fabric, true);
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some((address, id)) = fabric.connections.end_mut(end).map(|e| (e.neighbor, e.id)) else { return };
        fabric.history.note(fabric.now, base.id, 5, || format!("is connected to {address} {id:?}"));
        let endpoints = network_endpoints(fabric, address);
        self.input(base, fabric, Input::Connected(address, id, endpoints));
        base.wake(fabric, true);
    }

    /// There is something to read.
    pub fn readable(&mut self, fabric: &mut Fabric, end: EndRef) {
        if let Some(e) = fabric.connections.end_mut(end)
            && !std::mem::replace(&mut e.noticed, true)
        {
            self.readable.push(end);
        }
    }

    /// There is room to write.
    pub fn writable(&mut self, end: EndRef) {
        self.transmit.push(end);
    }

    /// Reads what has come, works, and writes what there is room for.
    pub fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        for end in std::mem::take(&mut self.readable) {
            self.read(base, fabric, end);
        }
        self.work(base, fabric);
        for end in std::mem::take(&mut self.transmit) {
            self.write(base, fabric, end);
        }
        self.pump(base, fabric);
        self.send_questions(base, fabric);
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

    /// Background work: all of it where speed counts, a slice a turn where events are to come in between.
    fn work(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let budget = Budget(fabric.settings.slice);
        loop {
            let mut progress = Progress::Done;
            self.step(base, fabric, |speaker, now, out| progress = speaker.run_slice(now, budget, out));
            if fabric.settings.light {
                self.answer_all(base, fabric);
            }
            match progress {
                Progress::Done if self.rib.questions.is_empty() || !fabric.settings.light => return,
                Progress::More if !fabric.settings.light => return base.wake(fabric, true),
                _ => {}
            }
        }
    }

    fn write(&mut self, base: &mut Base, fabric: &mut Fabric, end: EndRef) {
        let Some(address) = fabric.connections.end_mut(end).map(|e| e.neighbor) else { return };
        if !fabric.has_room(end) {
            return; // told again when there is
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

    /// The next moment at which the process has something to do.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let patience = (self.rib.refresh_due).then(|| self.started + GRACE);
        patience.into_iter().filter(|at| *at > now).chain(self.speaker.next_deadline()).min()
    }

    /// Timers are due.
    pub fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.step(base, fabric, |speaker, now, out| speaker.on_deadline(now, out));
    }

    /// A message of another process.
    pub fn message(&mut self, base: &mut Base, fabric: &mut Fabric, message: Message) {
        match message {
            Message::Born(Process::Rib, _) => {
                let settings = OriginSettings {
                    name: Process::Bgp.name().into(),
                    distance: Distance::EBGP,
                    external: true,
                    grace: GRACE,
                };
                let life = base.life(Process::Bgp);
                base.tell(fabric, Process::Rib, Message::RegisterOrigin(Process::Bgp, life, settings));
            }
            Message::Died(Process::Rib, _) => {
                self.rib.registered = false;
                self.rib.under_way = 0;
                self.rib.asking = false;
            }
            Message::Registered => {
                self.rib.registered = true;
                self.input(base, fabric, Input::RibRestarted);
                self.rib.refresh_due = true;
            }
            Message::RoutesTaken => self.rib.under_way = self.rib.under_way.saturating_sub(1),
            Message::Answers(answers) => {
                self.rib.asking = false;
                for answer in answers {
                    let input = match answer {
                        Answer::Ipv4(answer) => Input::AnswerIpv4(answer),
                        Answer::Ipv6(answer) => Input::AnswerIpv6(answer),
                    };
                    self.input(base, fabric, input);
                }
                for prefix in std::mem::take(&mut self.rib.taken_back) {
                    self.input(base, fabric, Input::Invalid(prefix));
                }
            }
            Message::Invalid(prefixes) => {
                for prefix in prefixes {
                    if self.rib.asking {
                        self.rib.taken_back.push(prefix);
                    }
                    self.input(base, fabric, Input::Invalid(prefix));
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, base: &mut Base, fabric: &mut Fabric, question: Question) {
        // A RIB that comes to life is asked everything again.
        if fabric.settings.light || base.is_alive(Process::Rib) {
            self.rib.questions.push(question);
            base.wake(fabric, true);
        }
    }

    fn send_questions(&mut self, base: &mut Base, fabric: &mut Fabric) {
        if self.rib.asking || self.rib.questions.is_empty() || fabric.settings.light {
            return;
        }
        let (mut deregister, mut addrs) = (Vec::new(), Vec::new());
        for question in self.rib.questions.drain(..) {
            match question {
                Question::Register(addr) => addrs.push(addr),
                Question::Deregister(prefix) => deregister.push(prefix),
            }
        }
        self.rib.asking = !addrs.is_empty();
        self.rib.taken_back.clear();
        let (from, life) = (Process::Bgp, base.life(Process::Bgp));
        base.tell(fabric, Process::Rib, Message::Ask { from, life, deregister, addrs });
    }

    /// Without a RIB: what is on a link is connected, and nothing else is reachable.
    fn answer_all(&mut self, base: &mut Base, fabric: &mut Fabric) {
        for question in std::mem::take(&mut self.rib.questions) {
            let Question::Register(addr) = question else { continue };
            let place = network::place(addr);
            let interface =
                place.and_then(|(link, _)| base.links.iter().position(|(l, _)| *l == link)).map(|n| n as u32);
            let input = match addr {
                IpAddr::V4(a) => {
                    let host = Ipv4Prefix::host(sluice_base::prefix::V4Addr(a));
                    let valid = if interface.is_some() { host.truncate(30) } else { host };
                    Input::AnswerIpv4(InterestAnswer { valid, route: connected(valid, interface) })
                }
                IpAddr::V6(a) => {
                    let host = Ipv6Prefix::host(sluice_base::prefix::V6Addr(a));
                    let valid = if interface.is_some() { host.truncate(126) } else { host };
                    Input::AnswerIpv6(InterestAnswer { valid, route: connected(valid, interface) })
                }
            };
            self.input(base, fabric, input);
        }
    }

    /// Best routes to the RIB, as far as it takes them; then, once, that it has them all.
    fn pump(&mut self, base: &mut Base, fabric: &mut Fabric) {
        for family in Family::ALL {
            while self.rib.ready[family as usize]
                && (fabric.settings.light || (self.rib.registered && self.rib.under_way < WINDOW))
            {
                let more = match family {
                    Family::Ipv4 => self.send_routes(base, fabric, Speaker::rib_batch_ipv4, |batch| {
                        Message::RoutesIpv4(Process::Bgp, batch)
                    }),
                    Family::Ipv6 => self.send_routes(base, fabric, Speaker::rib_batch_ipv6, |batch| {
                        Message::RoutesIpv6(Process::Bgp, batch)
                    }),
                };
                self.rib.ready[family as usize] = more;
            }
        }
        let idle = !self.rib.ready.iter().any(|r| *r) && self.rib.under_way == 0 && self.rib.registered;
        if self.rib.refresh_due && idle && self.speaker.is_converged(base.now(fabric)) {
            self.rib.refresh_due = false;
            base.tell(fabric, Process::Rib, Message::EndOfRefresh(Process::Bgp));
        }
    }

    fn send_routes<P>(
        &mut self,
        base: &Base,
        fabric: &mut Fabric,
        fill: impl FnOnce(&mut Speaker, usize, &mut RouteBatch<P>) -> bool,
        message: impl FnOnce(RouteBatch<P>) -> Message,
    ) -> bool {
        let mut batch = RouteBatch::default();
        let more = fill(&mut self.speaker, fabric.settings.batch, &mut batch);
        fabric.history.mix(batch.updates.len() as u64);
        if fabric.settings.light {
            self.unsent += batch.updates.len() as u64;
        } else if !batch.is_empty() {
            self.rib.under_way += 1;
            base.tell(fabric, Process::Rib, message(batch));
        }
        more
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
