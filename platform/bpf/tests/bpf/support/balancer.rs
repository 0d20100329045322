//! The program `balance` with maps that the cluster's core fills.

use super::usable;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use sluice_base::{Instant, InterfaceIndex};
use sluice_bpf::array::MappedArray;
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::{Reason as ChainReason, balance};
use sluice_bpf::run::{Run, Verdict, run};
use sluice_bpf::{Embedded, Loaded, Loader};
use sluice_cluster::balancer::{Balancer, Input, Output};
use sluice_cluster::decision::{Arrival, Decision, Turns, decide};
use sluice_cluster::frame::Mac;
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::key::{ClusterKey, KeyRing};
use sluice_cluster::policy::Policy;
use sluice_cluster::reason::Reason;
use sluice_cluster::resolution;
use sluice_cluster::words::{Map, Mirror, Place, Words};
use sluice_machine::{Machine, Outbox};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The interface from which the frames of test runs come: the loopback interface.
pub const INCOMING: u32 = 1;
/// The virtual MAC addresses of the ports 1 and 2.
pub const VIRTUAL: Mac = Mac([2, 0, 0, 0, 1, 1]);
pub const VIRTUAL2: Mac = Mac([2, 0, 0, 0, 1, 2]);
/// Neighbors: behind port 1, behind port 2, behind both, behind a port of another balancer.
pub const NEIGHBORS: [Mac; 4] =
    [Mac([2, 0, 0, 0, 9, 1]), Mac([2, 0, 0, 0, 9, 2]), Mac([2, 0, 0, 0, 9, 3]), Mac([2, 0, 0, 0, 9, 4])];
/// The routers.
pub const ROUTERS: [u16; 3] = [2, 3, 4];
/// The control plane.
pub const CONTROL: u16 = 9;
/// The router's own addresses.
pub const OWN: [&str; 2] = ["192.0.2.254", "2001:db8::fe"];
/// The cluster's key.
pub const KEY: ClusterKey = ClusterKey([7; 32]);

/// The side of the incoming interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// Port 1.
    Outer,
    /// The interconnect.
    Inner,
}

pub fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

pub fn port(number: u16) -> PortNumber {
    PortNumber::new(number).unwrap()
}

pub fn index(number: u32) -> InterfaceIndex {
    InterfaceIndex::new(number).unwrap()
}

/// The maps of the loaded program.
pub struct Maps(BTreeMap<Map, MappedArray>);

impl Words for Maps {
    fn load(&self, place: Place) -> u64 {
        let map = self.0.get(&place.map);
        map.and_then(|map| map.load64(place.entry as usize, place.word.into())).unwrap_or_default()
    }
}

impl Maps {
    /// Stores a word.
    pub fn store(&self, place: Place, value: u64) {
        assert!(self.0[&place.map].store64(place.entry as usize, place.word.into(), value), "{place:?}");
    }
}

/// A balancer with two ports, three routers, a control plane, and the port 3 of another balancer.
pub struct Bed {
    pub program: Loaded,
    pub maps: Maps,
    pub balancer: Balancer,
    pub turns: Turns,
    counts: MappedArray,
    led: MappedArray,
    counters: Counters,
}

impl Bed {
    /// Runs `work` with the program loaded on a thread of one CPU, or records why the test is skipped.
    pub fn with<T: Send>(policy: Policy, work: impl FnOnce(Bed) -> T + Send) -> Option<T> {
        let alone = || {
            let mut cpus = CpuSet::new();
            cpus.set(0).unwrap();
            sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
            work(Bed::new(policy))
        };
        usable().then(|| std::thread::scope(|threads| threads.spawn(alone).join().unwrap()))
    }

    /// Loads the program and fills the maps.
    pub fn new(policy: Policy) -> Bed {
        Bed::of(Loader::new(Embedded::Balance).load().unwrap(), policy)
    }

    /// Fills the maps of a loaded program.
    pub fn of(program: Loaded, policy: Policy) -> Bed {
        let array = |name| MappedArray::new(program.map(name).unwrap()).unwrap();
        let maps = Map::WRITTEN.into_iter().chain([Map::Hellos]).map(|map| (map, array(map.name())));
        let maps = Maps(maps.collect());
        let (counts, led) = (array("balance_counts"), array("balance_led"));
        let counters = Counters::new(program.map("counts").unwrap()).unwrap();
        let balancer = Balancer::new(id(1), 0x5eed, Mirror::default());
        let mut bed = Bed { program, maps, balancer, turns: Turns::default(), counts, led, counters };
        bed.fill(policy);
        bed
    }

    /// Gives an input to the machine and carries out its stores.
    pub fn input(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.balancer.handle(Instant::ZERO, input, &mut out);
        for output in out.drain() {
            match output {
                Output::Store(store) => self.maps.store(store.place, store.value),
                other => panic!("{other:?}"),
            }
        }
    }

    fn fill(&mut self, policy: Policy) {
        let element = |number: u16, role: Role, ports: &[(u16, Mac)]| Element {
            id: id(number),
            name: format!("e{number}"),
            roles: [role].into(),
            weight: number,
            ports: ports
                .iter()
                .map(|(number, mac)| OuterPort { number: port(*number), interface: "eth".into(), mac: *mac })
                .collect(),
        };
        let mut inventory = Inventory::default();
        inventory.put(element(1, Role::Balancer, &[(1, VIRTUAL), (2, VIRTUAL2)])).unwrap();
        inventory.put(element(5, Role::Balancer, &[(3, Mac([2, 0, 0, 0, 1, 3]))])).unwrap();
        inventory.put(element(CONTROL, Role::Control, &[])).unwrap();
        inventory.put(element(8, Role::Filter, &[])).unwrap();
        for router in ROUTERS {
            inventory.put(element(router, Role::Router, &[])).unwrap();
        }
        let own: BTreeSet<IpAddr> = OWN.iter().map(|address| address.parse().unwrap()).collect();
        self.input(Input::Policy(policy));
        self.input(Input::Keys(KeyRing { current: KEY, other: Some(ClusterKey([8; 32])) }));
        self.input(Input::InService(inventory.iter().map(|element| element.id).collect()));
        self.input(Input::Inventory(inventory));
        self.input(Input::Control(Some(id(CONTROL))));
        self.input(Input::Addresses(own));
        self.input(Input::Neighbor(NEIGHBORS[0], [port(1)].into()));
        self.input(Input::Neighbor(NEIGHBORS[1], [port(2)].into()));
        self.input(Input::Neighbor(NEIGHBORS[2], [port(1), port(2)].into()));
        self.input(Input::Neighbor(NEIGHBORS[3], [port(3)].into()));
        self.input(Input::Outer(port(2), Some(index(11))));
        self.come_from(From::Outer);
    }

    /// Makes the incoming interface a port, or an interface to the interconnect.
    pub fn come_from(&mut self, from: From) {
        match from {
            From::Outer => {
                self.input(Input::Inner(vec![index(20), index(21), index(22)]));
                self.input(Input::Outer(port(1), Some(index(INCOMING))));
            }
            From::Inner => {
                self.input(Input::Outer(port(1), Some(index(10))));
                self.input(Input::Inner(vec![index(INCOMING), index(20), index(21)]));
            }
        }
    }

    /// Sets the time of the last hello of an element: never, or at any time.
    pub fn set_live(&self, element: u16, is_live: bool) {
        self.maps.store(Place::new(Map::Hellos, element.into(), 0), if is_live { u64::MAX } else { 0 });
    }

    fn counts(&self) -> BTreeMap<u32, u64> {
        let sum = |reason: u32| {
            let cpus = (0..balance::CPUS).map(|cpu| (cpu * balance::REASONS + reason) as usize);
            cpus.map(|entry| self.counts.load64(entry, 0).unwrap()).sum()
        };
        (0..balance::REASONS).map(|reason| (reason, sum(reason))).collect()
    }

    /// Returns the frames of a reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts()[&(reason as u32)]
    }

    /// Returns the frames and octets of a class that were led to elements.
    pub fn led(&self, class: usize) -> [u64; 2] {
        let cpus = (0..balance::CPUS as usize).map(|cpu| cpu * balance::CLASSES + class);
        let entries = cpus.map(|entry| [0, 1].map(|word| self.led.load64(entry, word).unwrap()));
        entries.fold([0; 2], |sum, entry| [sum[0] + entry[0], sum[1] + entry[1]])
    }

    /// Returns the frames and octets of all classes.
    fn all_led(&self) -> [u64; 2] {
        (0..balance::CLASSES).map(|class| self.led(class)).fold([0; 2], |a, b| [a[0] + b[0], a[1] + b[1]])
    }

    /// Runs the program once and returns the reasons by which it counted the frame.
    pub fn run(&self, frame: &[u8]) -> (Vec<Reason>, Run) {
        let (before, chain) = (self.counts(), self.counters.read_ports(0..1).unwrap());
        let led = self.all_led();
        let ran = run(self.program.program(), frame, 1).unwrap();
        let led = [0, 1].map(|word| self.all_led()[word] - led[word]);
        let is_balanced = self.count(Reason::Balanced) != before[&(Reason::Balanced as u32)];
        assert_eq!(led, if is_balanced { [1, frame.len() as u64] } else { [0, 0] }, "frames of classes");
        let (after, chain_after) = (self.counts(), self.counters.read_ports(0..1).unwrap());
        let reasons = Reason::ALL.into_iter().filter(|r| after[&(*r as u32)] != before[&(*r as u32)]);
        // The chain counts each frame once, by a reason with the program's verdict.
        let total = |reason| chain_after.count(0, reason).packets - chain.count(0, reason).packets;
        assert_eq!(ChainReason::ALL.into_iter().map(total).sum::<u64>(), 1);
        let is = |reason| total(reason) == 1;
        assert_eq!(is(ChainReason::Balanced), ran.verdict == Verdict::Redirect);
        assert_eq!(is(ChainReason::Dropped), ran.verdict == Verdict::Drop);
        (reasons.collect(), ran)
    }

    /// Runs the program once, compares with the core's decision, and returns the decision.
    pub fn compare(&mut self, frame: &[u8]) -> Decision {
        let arrival = Arrival { interface: INCOMING, frame, now: 1 << 60 };
        let decision = decide(&self.maps, &mut self.turns, arrival);
        let is_outward = self.maps.load(Place::new(Map::Interfaces, INCOMING, 1)) == 2;
        let (reasons, ran) = self.run(frame);
        let mut expected = frame.to_vec();
        let (verdict, counted) = match decision {
            Decision::Continue | Decision::Station => (Verdict::Pass, vec![]),
            Decision::Up(reason) => (Verdict::Pass, vec![reason]),
            Decision::Hello(element, stamp) => {
                let last_hello =
                    |word| self.maps.load(Place::new(Map::Hellos, element.number().into(), word));
                assert_eq!((last_hello(1), last_hello(2)), (stamp.epoch, stamp.counter));
                (Verdict::Pass, vec![Reason::Hello])
            }
            Decision::Drop(reason) => (Verdict::Drop, vec![reason]),
            Decision::Send { reason, mac, besides, .. } => {
                let at = if is_outward { 6 } else { 0 };
                if reason == Reason::FromControl {
                    let from = Mac(*frame[6..].first_chunk().unwrap());
                    resolution::rewrite(&mut expected, from, mac);
                }
                expected[at..at + 6].copy_from_slice(&mac.0);
                (Verdict::Redirect, [reason].into_iter().chain(besides).collect())
            }
        };
        assert_eq!((ran.verdict, reasons), (verdict, counted), "{decision:?} {frame:02x?}");
        assert_eq!(ran.frame, expected, "{decision:?}");
        decision
    }
}
