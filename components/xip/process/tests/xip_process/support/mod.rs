//! The program `xip` with its maps, run on frames made by hand.

use sluice_base::{Rng, Xid, XidType};
use sluice_bpf::array::MappedArray;
use sluice_bpf::layout::PORT_IPV4;
use sluice_bpf::layout::xip::{CacheAction, REASON_NAMES};
use sluice_bpf::run::{Run, run};
use sluice_bpf::{Embedded, Loaded, Loader};
use sluice_xip::cache::{AnswerWord, Cache, HashKey, Put};
use sluice_xip::{Edge, Row};
use sluice_xip_process::maps::{CacheLines, Member, ProgramMaps, ProgramSettings};

/// The loopback interface, from which the frames of test runs come.
pub const INCOMING: usize = 1;
pub const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
pub const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const NEIGHBOR: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The settings of a bench: every packet may come up.
pub const SETTINGS: ProgramSettings = ProgramSettings {
    shadow_interval: 0,
    punts_per_second: 1_000_000,
    punt_burst: 1_000_000,
    has_reports: false,
    ether_type: sluice_xip::wire::ETHERTYPE_XIP,
    tunnel: None,
};

pub struct Bench {
    pub program: Loaded,
    pub maps: ProgramMaps,
    pub cache: Cache<CacheLines>,
}

impl Bench {
    pub fn new() -> Option<Bench> {
        if !is_root() {
            sluice_testkit::skipped("not root");
            return None;
        }
        Some(Bench::of(Loader::new(Embedded::Xip).load().unwrap()))
    }

    /// Makes a bench of the loaded program `xip`.
    pub fn of(program: Loaded) -> Bench {
        set_port(&program, INCOMING, ROUTER);
        let (lines, maps) = ProgramMaps::new(|name| program.map(name)).unwrap();
        let mut rng = Rng::from_seed(5);
        let cache = Cache::new(lines, 12, HashKey::draw(|| rng.next_u64()));
        maps.set_hashes(cache.key(), cache.line_shift());
        maps.set_settings(SETTINGS);
        maps.set_member(7, Member { interface: 1000, mtu: 1500, destination: NEIGHBOR, source: ROUTER });
        Bench { program, maps, cache }
    }

    pub fn put(&mut self, edges: &[(Xid, bool)], action: CacheAction, edge: u8, index: u32) {
        let row = row(edges);
        let put = self.cache.put(&row, AnswerWord::new(action as u8, edge, index));
        assert!(matches!(put, Put::Stored { .. }), "{put:?}");
    }

    /// Runs the program once and returns the reasons that grew.
    pub fn run(&self, packet: &[u8]) -> (Run, Vec<&'static str>) {
        self.run_frame(&frame(packet))
    }

    pub fn run_frame(&self, frame: &[u8]) -> (Run, Vec<&'static str>) {
        let before = self.maps.counts();
        let ran = run(self.program.program(), frame, 1).unwrap();
        let after = self.maps.counts();
        let grown = |(number, _): &&(u32, &str)| after[*number as usize] > before[*number as usize];
        (ran, REASON_NAMES.iter().filter(grown).map(|(_, name)| *name).collect())
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn row(edges: &[(Xid, bool)]) -> Row {
    let edges = edges.iter().map(|(xid, is_sink)| Edge { xid: *xid, is_sink: *is_sink });
    Row { edges: edges.collect(), is_input: true }
}

pub fn xid(kind: XidType, octet: u8) -> Xid {
    Xid { kind, id: [octet; 20] }
}

pub fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

pub fn frame(packet: &[u8]) -> Vec<u8> {
    [&ROUTER[..], &SENDER, &[0xc0, 0xde], packet].concat()
}

/// Makes an interface a port of the router, with IPv4.
pub fn set_port(program: &Loaded, interface: usize, mac: [u8; 6]) {
    let ports = MappedArray::new(program.map("ports").unwrap()).unwrap();
    let [a, b, c, d, e, f] = mac;
    ports.store64(interface, 0, u64::from_ne_bytes([a, b, c, d, e, f, 9, 0]));
    ports.store32(interface, 2, PORT_IPV4);
}
