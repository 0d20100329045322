//! The machine beside the test, which plays the caches: PDUs in and out as values.

use sluice_base::{Asn, Instant};
use sluice_machine::{Machine, Outbox};
use sluice_rpki::event::Event;
use sluice_rpki::exceptions::Exceptions;
use sluice_rpki::machine::{ConnectionId, Input, Output, Rpki};
use sluice_rpki::serial::Serial;
use sluice_rpki::settings::{CacheSettings, Settings};
use sluice_rpki::wire::{Intervals, Pdu, Version, decode};
use sluice_validation::{AnyVrp, AspaSet, Providers, VrpTable};
use std::collections::BTreeMap;
use std::time::Duration;

pub fn vrp(prefix: &str, max_length: u8, asn: u32) -> AnyVrp {
    AnyVrp::new(prefix.parse().expect("a prefix"), max_length, Asn(asn)).expect("a VRP")
}

pub fn cache(name: &str, preference: u8) -> CacheSettings {
    let last = name.bytes().last().expect("a name");
    CacheSettings {
        name: name.into(),
        address: [192, 0, 2, last].into(),
        port: 323,
        local_address: None,
        tls: None,
        preference,
        refresh: None,
        retry: None,
        expire: None,
    }
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub const INTERVALS: Intervals = Intervals {
    refresh: Duration::from_secs(1000),
    retry: Duration::from_secs(30),
    expire: Duration::from_secs(5000),
};

pub struct World {
    pub machine: Rpki,
    pub now: Instant,
    /// The last octet of the cache's address, by connection.
    pub connections: BTreeMap<ConnectionId, u8>,
    /// PDUs that were sent, with the last octet of the cache's address, the version, and the PDU.
    pub sent: Vec<(char, u8, Pdu)>,
    pub events: Vec<Event>,
    pub closed: Vec<char>,
    pub changed: usize,
    out: Outbox<Output>,
}

impl World {
    pub fn new(caches: &[CacheSettings]) -> Self {
        let mut world = World {
            machine: Rpki::new(1000),
            now: Instant::ZERO + seconds(1),
            connections: BTreeMap::new(),
            sent: Vec::new(),
            events: Vec::new(),
            closed: Vec::new(),
            changed: 0,
            out: Outbox::new(),
        };
        world.configure(caches, Exceptions::default());
        world
    }

    /// A new process takes over, with the same configuration.
    pub fn restart(&mut self) {
        let octets = postcard::to_allocvec(&self.machine.export()).expect("a state");
        let settings = self.machine.settings().clone();
        self.machine = Rpki::new(2000);
        self.connections.clear();
        let state = postcard::from_bytes(&octets).expect("the same state");
        self.machine.import(self.now, state, &mut self.out);
        assert!(self.out.is_empty(), "nothing happens before the configuration");
        self.input(Input::Configure(settings));
    }

    pub fn configure(&mut self, caches: &[CacheSettings], exceptions: Exceptions) {
        self.input(Input::Configure(Settings { caches: caches.to_vec(), exceptions }));
    }

    pub fn input(&mut self, input: Input) {
        self.machine.handle(self.now, input, &mut self.out);
        self.read();
    }

    fn read(&mut self) {
        for output in self.out.drain() {
            match output {
                Output::Connect { connection, address, .. } => {
                    let std::net::IpAddr::V4(address) = address else { panic!("IPv4") };
                    self.connections.insert(connection, address.octets()[3]);
                }
                Output::Send(connection, octets) => {
                    let decoded = decode(&octets).expect("good").expect("whole");
                    assert_eq!(decoded.len, octets.len());
                    let name = char::from(self.connections[&connection]);
                    self.sent.push((name, decoded.version.0, decoded.pdu));
                }
                Output::Close(connection) => {
                    let name = self.connections.remove(&connection).expect("it was open");
                    self.closed.push(char::from(name));
                }
                Output::Changed => self.changed += 1,
                Output::Event(event) => self.events.push(event),
            }
        }
    }

    /// Lets time pass; timers fire when they are due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.machine.next_deadline().filter(|at| *at <= end) {
            self.now = at;
            self.machine.on_deadline(at, &mut self.out);
            self.read();
        }
        self.now = end;
    }

    /// Returns the names of caches with connections, in order.
    pub fn connected(&self) -> String {
        let mut names: Vec<char> = self.connections.values().map(|octet| char::from(*octet)).collect();
        names.sort_unstable();
        names.into_iter().collect()
    }

    pub fn connection(&self, name: char) -> ConnectionId {
        let found = self.connections.iter().find(|(_, octet)| char::from(**octet) == name);
        *found.unwrap_or_else(|| panic!("no connection to {name}; {:?}", self.connections)).0
    }

    /// The cache accepts the connection.
    pub fn accept(&mut self, name: char) {
        self.input(Input::Connected(self.connection(name)));
    }

    /// The cache closes the connection.
    pub fn hang_up(&mut self, name: char) {
        let connection = self.connection(name);
        self.connections.remove(&connection);
        self.input(Input::Closed(connection));
    }

    /// No connection can be made.
    pub fn refuse(&mut self, name: char) {
        let connection = self.connection(name);
        self.connections.remove(&connection);
        self.input(Input::NotConnected(connection, "refused".into()));
    }

    pub fn octets(&mut self, name: char, octets: &[u8]) {
        self.input(Input::Received(self.connection(name), octets.to_vec()));
    }

    /// The cache sends PDUs in a version, in one piece.
    pub fn send_in(&mut self, name: char, version: u8, pdus: &[Pdu]) {
        let mut octets = Vec::new();
        pdus.iter().for_each(|pdu| pdu.encode(Version(version), &mut octets));
        self.octets(name, &octets);
    }

    pub fn send(&mut self, name: char, pdus: &[Pdu]) {
        self.send_in(name, 2, pdus);
    }

    /// The cache answers a query.
    pub fn answer(&mut self, name: char, session: u16, serial: u32, changes: &[(AnyVrp, bool)]) {
        self.send(name, &answer(session, serial, changes));
    }

    /// Takes the PDUs that were sent.
    pub fn take_sent(&mut self) -> Vec<(char, u8, Pdu)> {
        std::mem::take(&mut self.sent)
    }

    /// Takes the ids of events.
    pub fn take_events(&mut self) -> Vec<&'static str> {
        self.events.drain(..).map(|event| event.id()).collect()
    }

    /// Returns the ASPAs in effect.
    pub fn aspas(&self) -> AspaSet {
        self.machine.epochs().table().map(|table| table.aspas.clone()).unwrap_or_default()
    }

    /// Returns the VRPs in effect.
    pub fn table(&self) -> Option<Vec<AnyVrp>> {
        self.machine.epochs().table().map(|table| table.iter().collect())
    }
}

pub fn providers(asns: &[u32]) -> Option<Providers> {
    Some(Providers::new(asns.iter().copied().map(Asn).collect()).expect("a list"))
}

/// The answer with PDUs in place of VRPs.
pub fn answer_of(session: u16, serial: u32, pdus: &[Pdu]) -> Vec<Pdu> {
    let mut all = answer(session, serial, &[]);
    all.splice(1..1, pdus.iter().cloned());
    all
}

pub fn answer(session: u16, serial: u32, changes: &[(AnyVrp, bool)]) -> Vec<Pdu> {
    let mut pdus = vec![Pdu::CacheResponse { session }];
    pdus.extend(changes.iter().map(|(vrp, is_announced)| Pdu::Prefix(*vrp, *is_announced)));
    pdus.push(Pdu::EndOfData { session, serial: Serial(serial), intervals: Some(INTERVALS) });
    pdus
}

pub fn sorted(vrps: &[AnyVrp]) -> Option<Vec<AnyVrp>> {
    Some(VrpTable::new(vrps.iter().copied()).iter().collect())
}
