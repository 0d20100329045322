//! The time of a full table through the core, in and out, and its memory.
//!
//! `cargo run --release -p sluice-bgp --example full_table [--synthetic] [--receivers N] [--feeds N] [--tables N]
//! [--pause MS] [--updates N] [--singles N] [--subnet]`
//!
//! By default a real session is replayed: 577,710 prefixes in 89,679 UPDATEs. `--synthetic` makes 1,000,000 prefixes in
//! 340,000 UPDATEs of its own, or `--updates` of them. Then single UPDATEs come, each after a pause if wanted: after a pause, in which the
//! processor did further work, an UPDATE takes as long as on a quiet day. At last the first feed is lost. `--subnet` puts all neighbors on
//! one link with the router, as `bench-bgp` has them: each receives next hops of the rest. `bench-bgp`'s S4 is `--synthetic --receivers 30
//! --subnet`, its S5 `--synthetic --feeds 2 --subnet`.

use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::prefix::Prefix;
use sluice_base::{
    Asn, Distance, Family, Forwarding, Instant, InterfaceIndex, IpPrefix, Ipv4Prefix, Metric, NextHop, Rng,
    RouteBatch, RouterId,
};
use sluice_bgp::endpoints::{Endpoints, Subnets};
use sluice_bgp::family::FamilyCodes;
use sluice_bgp::session::{ConnectionId, Direction};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Config, DefaultPolicy, Identity, Input, NeighborConfig, Output, Speaker};
use sluice_bgp::wire::attribute::{code, put_header};
use sluice_bgp::wire::{AFI_IPV4, Capability, FamilyKey, MessageType, Open, header};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use std::net::IpAddr;
use std::time::{Duration, Instant as Clock};

const FEED_AS: u32 = 3856;

/// The CPU time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Resident memory in MB, now and at its peak.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// The whole session of a route collector, as octets; UPDATEs only.
fn real() -> Option<Vec<u8>> {
    let trace = sluice_testkit::read("data/bgp/updates/pch-as3856.fullfeed.20151023.et.mrt.gz")?;
    let mut octets = Vec::new();
    for message in sluice_mrt::messages(&trace) {
        if message.octets.get(18) == Some(&(MessageType::Update as u8)) && message.octets.len() > 23 {
            octets.extend_from_slice(message.octets);
        }
    }
    Some(octets)
}

/// About three prefixes in each UPDATE, most of them with attributes of their own. Paths of a later feed are longer, and each feed is its
/// own next hop.
fn synthetic(updates: u32, feed: usize) -> Vec<u8> {
    let mut rng = Rng::from_seed(1);
    let mut octets = Vec::new();
    let mut next = 0x0100_0000u32;
    for n in 0..updates {
        let at = header::start(&mut octets, MessageType::Update);
        let mut attributes = Vec::new();
        put_header(&mut attributes, 0x40, code::ORIGIN, 1);
        attributes.push(0);
        let hops = 2 + rng.below(5) as usize;
        put_header(&mut attributes, 0x40, code::AS_PATH, 2 + 4 * (hops + 1 + feed));
        attributes.extend_from_slice(&[2, (hops + 1 + feed) as u8]);
        for _ in 0..=feed {
            attributes.extend_from_slice(&FEED_AS.to_be_bytes());
        }
        for _ in 0..hops {
            attributes.extend_from_slice(&(rng.below(70_000) as u32 + 1).to_be_bytes());
        }
        put_header(&mut attributes, 0x40, code::NEXT_HOP, 4);
        attributes.extend_from_slice(&[10, 0, 0, feed as u8 + 2]);
        if rng.below(2) == 0 {
            put_header(&mut attributes, 0xc0, code::COMMUNITIES, 8);
            attributes.extend_from_slice(&rng.next_u64().to_be_bytes());
        }
        octets.extend_from_slice(&[0, 0]);
        octets.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
        octets.extend_from_slice(&attributes);
        let count = if n % 17 == 0 { 2 } else { 3 };
        for _ in 0..count {
            let len = [24, 24, 24, 23, 22, 20][rng.below(6) as usize];
            let size = 1u32 << (32 - len);
            next = next.next_multiple_of(size);
            if let Some(prefix) = Ipv4Prefix::from_parts(next, len as u8) {
                prefix.put(&mut octets);
            }
            next = next.wrapping_add(size);
        }
        header::finish(&mut octets, at);
    }
    octets
}

struct Bench {
    speaker: Speaker,
    out: Outbox<Output>,
    questions: Vec<Interest<Ipv4Prefix>>,
    sent: usize,
    routes: usize,
    buffer: Vec<u8>,
    batch: RouteBatch<Ipv4Prefix>,
    receivers: Vec<IpAddr>,
    /// The subnet of all neighbors and the router, where neighbors reach each other.
    subnet: Option<IpPrefix>,
}

impl Bench {
    fn outputs(&mut self) {
        let questions = &mut self.questions;
        self.out.drain().for_each(|o| {
            if let Output::InterestIpv4(i) = o {
                questions.push(i);
            }
        });
    }

    fn up(&mut self, address: IpAddr, asn: Asn, id: u32) -> ConnectionId {
        let connection = ConnectionId { direction: Direction::Incoming, number: id };
        let local = IpAddr::from([10, 0, 0, 1]);
        let endpoints =
            Endpoints { subnets: self.subnet.map_or(Subnets::NONE, Subnets::from), ..Endpoints::new(local) };
        let input = Input::Accepted(address, connection, endpoints);
        self.speaker.handle(Instant::ZERO, input, &mut self.out);
        let mut octets = Vec::new();
        Open {
            version: 4,
            as_field: asn.to_u16(),
            hold_time: 90,
            router_id: RouterId(id),
            capabilities: vec![Capability::unicast(AFI_IPV4), Capability::FourOctetAs(asn)],
        }
        .put(&mut octets);
        header::put_keepalive(&mut octets);
        self.speaker.receive(Instant::ZERO, address, connection, &octets, &mut self.out);
        self.outputs();
        connection
    }

    /// Answers, works off, writes and takes the waiting work.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            for question in std::mem::take(&mut self.questions) {
                if let Interest::Register(addr) = question {
                    let valid = Ipv4Prefix::new(addr, 24).expect("24 is below the width");
                    let forwarding = Forwarding::one(NextHop::on(InterfaceIndex::new(1).expect("not 0")));
                    let (metric, distance) = (Metric(0), Distance::CONNECTED);
                    let route =
                        Some(ResolvingRoute { prefix: valid, metric, distance, connected: true, forwarding });
                    let input = Input::AnswerIpv4(InterestAnswer { valid, route });
                    self.speaker.handle(Instant::ZERO, input, &mut self.out);
                    busy = true;
                }
            }
            busy |= self.speaker.run_slice(Instant::ZERO, Budget::SLICE, &mut self.out) == Progress::More;
            self.outputs();
            for receiver in &self.receivers {
                self.buffer.clear();
                busy |= self.speaker.fill(Instant::ZERO, *receiver, 65536, &mut self.buffer);
                self.sent += self.buffer.len();
            }
            self.batch.sets.clear();
            self.batch.updates.clear();
            busy |= self.speaker.rib_batch(1024, &mut self.batch);
            self.routes += self.batch.updates.len();
            if !busy {
                return;
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (receivers, feeds) = (number("--receivers", 1), number("--feeds", 1));
    let tables = number("--tables", 1) as u16;
    let has = |name: &str| arguments.iter().any(|a| a == name);
    let stream = |feed| match has("--synthetic") {
        true => Some(synthetic(number("--updates", 340_000) as u32, feed)),
        false => real(),
    };
    let Some(streams) = (0..feeds).map(stream).collect::<Option<Vec<_>>>() else { return };
    println!("feed: {} MB; {feeds} feeds, {receivers} receivers", streams[0].len() >> 20);

    let identity = Identity {
        started: Instant::ZERO,
        is_restarted: false,
        local_as: Asn(65001),
        router_id: RouterId(1),
        seed: 7,
        tables,
        source: 1,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
    };
    let address = |n: usize| IpAddr::from([10, 0, 0, n as u8 + 2]);
    let asn = |n: usize| if n < feeds { Asn(FEED_AS) } else { Asn(65002 + n as u32) };
    let neighbors = (0..feeds + receivers).map(|n| NeighborConfig {
        passive: true,
        enforce_first_as: false,
        default_policy: Some(DefaultPolicy::Accept),
        ..NeighborConfig::new(address(n), asn(n))
    });
    let config = Config { neighbors: neighbors.collect(), ..Config::default() };
    let mut bench = Bench {
        speaker: Speaker::new(identity),
        out: Outbox::new(),
        questions: vec![],
        sent: 0,
        routes: 0,
        buffer: vec![],
        batch: RouteBatch::default(),
        receivers: (0..feeds + receivers).map(address).collect(),
        subnet: IpPrefix::new(IpAddr::from([10, 0, 0, 0]), 24).filter(|_| has("--subnet")),
    };
    bench.speaker.handle(Instant::ZERO, Input::Configure(config), &mut bench.out);
    let connections: Vec<ConnectionId> =
        (0..feeds + receivers).map(|n| bench.up(address(n), asn(n), n as u32 + 2)).collect();
    bench.settle();

    let (before, base) = (cpu(), memory().0);
    for (feed, (connection, stream)) in connections.iter().zip(&streams).enumerate() {
        for chunk in stream.chunks(65536) {
            bench.speaker.receive(Instant::ZERO, address(feed), *connection, chunk, &mut bench.out);
            bench.outputs();
            bench.settle();
        }
    }
    bench.settle();
    let view = bench.speaker.tables().view(Family::Ipv4);
    println!(
        "in and out: {:?} CPU, {} MB sent, {} RIB changes, {view:?}",
        cpu() - before,
        bench.sent >> 20,
        bench.routes
    );
    println!("memory: +{} MB resident, {} MB peak with the feed in it", memory().0 - base, memory().1);
    let pause = Duration::from_millis(number("--pause", 0) as u64);
    let count = number("--singles", if pause.is_zero() { 20_000 } else { 200 });
    singles(&mut bench, address(0), connections[0], pause, count as u32);
    let before = cpu();
    bench.speaker.handle(Instant::ZERO, Input::Closed(address(0), connections[0]), &mut bench.out);
    bench.outputs();
    bench.settle();
    println!("feed lost: {:?} CPU, {:?}", cpu() - before, bench.speaker.tables().view(Family::Ipv4));
}

/// Sends single UPDATEs at full table: in, decided, out.
#[inline(never)]
fn singles(bench: &mut Bench, feed: IpAddr, connection: ConnectionId, pause: Duration, count: u32) {
    let mut times = Vec::new();
    for n in 0..count {
        let mut octets = Vec::new();
        let at = header::start(&mut octets, MessageType::Update);
        let path = [&[2u8, 2][..], &FEED_AS.to_be_bytes(), &(n + 1).to_be_bytes()].concat();
        let mut attributes = Vec::new();
        for (flags, code, value) in [
            (0x40, code::ORIGIN, &[0][..]),
            (0x40, code::AS_PATH, &path),
            (0x40, code::NEXT_HOP, &[10, 0, 0, 2]),
        ] {
            put_header(&mut attributes, flags, code, value.len());
            attributes.extend_from_slice(value);
        }
        octets.extend_from_slice(&[0, 0]);
        octets.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
        octets.extend_from_slice(&attributes);
        octets.extend_from_slice(&[24, 0xc0, (n >> 8) as u8, n as u8]);
        header::finish(&mut octets, at);
        std::thread::sleep(pause);
        let start = Clock::now();
        bench.speaker.receive(Instant::ZERO, feed, connection, &octets, &mut bench.out);
        bench.outputs();
        bench.settle();
        times.push(start.elapsed());
    }
    if times.is_empty() {
        return;
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    println!("one update: median {:?}, p99 {:?}, p99.9 {:?}, max {:?}", at(500), at(990), at(999), at(1000));
}
