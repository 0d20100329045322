//! The memory and the CPU time of a route in the RIB's core and in the FEA's.
//!
//! `cargo run --release -p sluice-rib --example route_memory`
//!
//! The Internet's table of the shared data (without it, 1,000,000 generated IPv4 prefixes) goes through each core in
//! random order: with an engine that keeps pace, with an engine that accepts nothing before the table is complete, and
//! once more with a different next hop under every route. Last, the RIB applies policies to the routes: one that looks at the prefix
//! of each route, and one that does not.

use sluice_base::{
    Address, Distance, Duration, FibBatch, FibRoute, Forwarding, GroupId, Instant, Interface,
    InterfaceAddress, InterfaceEvent, InterfaceIndex, IpPrefix, Ipv4Prefix, Ipv6Prefix, NextHop, Prefix,
    Provenance, Rng, RouteAction, RouteBatch, RouteSet, RouteUpdate, TableId,
};
use sluice_fea::Fea;
use sluice_machine::{Budget, Machine, Outbox, Progress, Request};
use sluice_policy::source::{Named, Policies, Statement, Term, Values};
use sluice_rib::request::{SetPolicies, UpdateRoutes};
use sluice_rib::{Input, OriginSettings, Rib, RibPolicies, TableKey};
use sluice_testkit::heap;
use std::collections::BTreeMap;

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

/// Routes in a batch.
const BATCH: usize = 1024;
/// Prefixes in an event.
const PREFIXES_PER_EVENT: usize = 3;

/// The prefixes, in random order.
struct Table {
    v4: Vec<Ipv4Prefix>,
    v6: Vec<Ipv6Prefix>,
}

impl Table {
    fn load() -> Table {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for family in ["ipv4", "ipv6"] {
            let file = format!("data/bgp/prefixes/ris-as3333-20260511-{family}.txt.zst");
            let text = sluice_testkit::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            for prefix in text.lines().filter_map(|l| l.split_whitespace().next()?.parse::<IpPrefix>().ok()) {
                match prefix {
                    IpPrefix::V4(p) => v4.push(p),
                    IpPrefix::V6(p) => v6.push(p),
                }
            }
        }
        if v4.is_empty() {
            v4.extend((0..1_000_000u32).filter_map(|n| Ipv4Prefix::from_parts(0x0100_0000 + (n << 8), 24)));
        }
        let mut rng = Rng::from_seed(2005);
        shuffle(&mut v4, &mut rng);
        shuffle(&mut v6, &mut rng);
        Table { v4, v6 }
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for i in (1..all.len()).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// CPU time of the process, in nanoseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Resident memory of the process in octets.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

/// Runs `work` and prints its growth of the heap since `base`, the peak, the growth of resident memory, and its CPU
/// time.
fn measure(what: &str, routes: usize, base: isize, work: impl FnOnce()) {
    let before = heap::start();
    let resident_before = resident();
    let began = cpu();
    work();
    let nanos = (cpu() - began) / routes as f64;
    let held = heap::since(base).held as f64 / routes as f64;
    let peak = (before - base + heap::since(before).peak as isize) as f64 / routes as f64;
    let resident = (resident() - resident_before) / routes as f64;
    println!("{what:<44} {held:>8.1} {peak:>8.1} {resident:>+9.1} {nanos:>8.0}");
}

fn interface() -> Interface {
    let addresses = ["10.0.0.1", "2001:db8::1"].map(|addr| InterfaceAddress {
        addr: addr.parse().expect("an address"),
        prefix_len: if addr.contains(':') { 64 } else { 24 },
        peer: None,
    });
    Interface {
        index: InterfaceIndex::new(1).expect("not 0"),
        name: "eth1".into(),
        admin_up: true,
        running: true,
        loopback: false,
        point_to_point: false,
        multicast: true,
        mtu: 1500,
        mac: vec![2, 0, 0, 0, 0, 1],
        addresses: addresses.to_vec(),
    }
}

struct RibBench {
    rib: Rib,
    out: Outbox<sluice_rib::Output>,
    v4: FibBatch<Ipv4Prefix, Address>,
    v6: FibBatch<Ipv6Prefix, Address>,
    sent: usize,
}

impl RibBench {
    fn new() -> Self {
        let mut bench = RibBench {
            rib: Rib::new(1, 2),
            out: Outbox::new(),
            v4: FibBatch::default(),
            v6: FibBatch::default(),
            sent: 0,
        };
        bench.input(Input::Interface(InterfaceEvent::Changed(interface())));
        let (name, distance, grace) = ("bgp".into(), Distance(20), Duration::from_secs(60));
        bench.input(Input::RegisterOrigin(
            TableId::MAIN,
            OriginSettings { name, distance, external: true, grace, kinds: Vec::new() },
        ));
        bench
    }

    fn input(&mut self, input: Input) {
        self.rib.handle(Instant::ZERO, input, &mut self.out);
        self.idle();
    }

    fn idle(&mut self) {
        while self.rib.run_slice(Instant::ZERO, Budget::SLICE, &mut self.out) == Progress::More {}
        self.out.drain().for_each(drop);
    }

    fn pull(&mut self) {
        while self.rib.fib_work().next().is_some() {
            self.rib.fill_fib(TableId::MAIN, BATCH, &mut self.v4);
            self.rib.fill_fib(TableId::MAIN, BATCH, &mut self.v6);
            self.sent += self.v4.routes.len() + self.v6.routes.len();
        }
    }

    fn announce<P: TableKey>(&mut self, prefixes: &[P], gateway: Option<&str>, pull: bool) {
        for (n, prefixes) in prefixes.chunks(BATCH).enumerate() {
            let mut batch = RouteBatch::default();
            if let Some(gateway) = gateway {
                let forwarding =
                    Forwarding::one(NextHop::via(Address::Ip(gateway.parse().expect("an address"))));
                batch.sets.push(RouteSet::plain(forwarding));
            }
            let action = if gateway.is_some() { RouteAction::Set(0) } else { RouteAction::Delete };
            batch.updates.extend(prefixes.iter().enumerate().map(|(m, prefix)| RouteUpdate {
                prefix: *prefix,
                action,
                provenance: Provenance::new(9, ((n * BATCH + m) / PREFIXES_PER_EVENT) as u64),
            }));
            let (table, origin) = (TableId::MAIN, "bgp".into());
            UpdateRoutes { table, origin, batch }.make(&mut self.rib, Instant::ZERO, &mut self.out);
            self.idle();
            if pull {
                self.pull();
            }
        }
    }

    /// Sets a policy that adds a tag to the routes with some values of a variable.
    fn policy(&mut self, variable: &str, values: &str) {
        let named = |name: &str, value: &str| Named::from([(name.into(), Values(vec![value.into()]))]);
        let term = Term {
            name: "t".into(),
            from: named(variable, values),
            then: named("tag", "9"),
            ..Term::default()
        };
        let policy = Statement { name: "p".into(), parameter: Vec::new(), term: vec![term] };
        let source = Policies { policy_statement: vec![policy], ..Policies::default() };
        let imports = BTreeMap::from([("bgp".into(), vec!["p".into()])]);
        let policies = RibPolicies::compile(source, imports, Vec::new()).expect("a policy");
        SetPolicies(policies).make(&mut self.rib, Instant::ZERO, &mut self.out);
        self.idle();
        self.pull();
    }

    fn all(&mut self, table: &Table, gateways: Option<[&str; 2]>, pull: bool) {
        self.announce(&table.v4, gateways.map(|g| g[0]), pull);
        self.announce(&table.v6, gateways.map(|g| g[1]), pull);
    }
}

const FIRST: Option<[&str; 2]> = Some(["10.0.0.2", "2001:db8::2"]);
const SECOND: Option<[&str; 2]> = Some(["10.0.0.3", "2001:db8::3"]);

fn rib(table: &Table) {
    let routes = table.len();
    let base = heap::start();
    let mut bench = RibBench::new();
    measure("RIB: loaded, engine keeps pace", routes, base, || bench.all(table, FIRST, true));
    measure("RIB: announced again", routes, base, || bench.all(table, FIRST, true));
    measure("RIB: another next hop, engine keeps pace", routes, base, || bench.all(table, SECOND, true));
    measure("RIB: another next hop, engine waits", routes, base, || bench.all(table, FIRST, false));
    measure("RIB: the engine receives them", routes, base, || bench.pull());
    measure("RIB: withdrawn", routes, base, || bench.all(table, None, true));
    assert_eq!(bench.sent, 4 * routes, "each change is sent once");
    drop(bench);
    let base = heap::start();
    let mut bench = RibBench::new();
    measure("RIB: loaded, engine waits", routes, base, || bench.all(table, FIRST, false));
    measure("RIB: the engine receives them", routes, base, || bench.pull());
    measure("RIB: another next hop, engine keeps pace", routes, base, || bench.all(table, SECOND, true));
    bench.rib.subscribe::<Ipv4Prefix>(TableId::MAIN, vec!["static".into()]);
    measure("RIB: a subscriber to static routes begins", routes, base, || bench.all(table, FIRST, true));
    measure("RIB: another next hop beside the subscriber", routes, base, || bench.all(table, SECOND, true));
    measure("RIB: a policy of prefixes comes", routes, base, || bench.policy("prefix-length", "20-23"));
    measure("RIB: announced again through the policy", routes, base, || bench.all(table, SECOND, true));
    measure("RIB: a policy of tags comes", routes, base, || bench.policy("tag", "7"));
    measure("RIB: announced again through the policy", routes, base, || bench.all(table, SECOND, true));
}

struct FeaBench {
    fea: Fea,
    out: Outbox<sluice_fea::Output>,
    done: usize,
}

impl FeaBench {
    fn input(&mut self, input: sluice_fea::Input) {
        self.fea.handle(Instant::ZERO, input, &mut self.out);
        self.done += self.out.drain().count();
        while self.fea.run_slice(Instant::ZERO, Budget::SLICE, &mut self.out) == Progress::More {
            self.done += self.out.drain().count();
        }
        self.done += self.out.drain().count();
    }

    fn send<P: Copy>(
        &mut self,
        prefixes: &[P],
        group: Option<(GroupId, &str)>,
        wrap: fn(TableId, FibBatch<P>) -> sluice_fea::Input,
    ) {
        for prefixes in prefixes.chunks(BATCH) {
            let mut batch = FibBatch::default();
            if let Some((id, gateway)) = group {
                let interface = InterfaceIndex::new(1).expect("not 0");
                let hop = NextHop::via_on(gateway.parse().expect("an address"), interface);
                batch.groups.push((id, Forwarding::one(hop)));
            }
            let provenance = Provenance::new(9, 1);
            let group = group.map(|(id, _)| id);
            let route = |prefix: &P| FibRoute { prefix: *prefix, group, is_external: false, provenance };
            batch.routes.extend(prefixes.iter().map(route));
            self.input(wrap(TableId::MAIN, batch));
        }
    }

    fn all(&mut self, table: &Table, number: u32, gateways: Option<[&str; 2]>) {
        let group = |n: u32| gateways.map(|g| (GroupId(number + n), g[n as usize]));
        self.send(&table.v4, group(0), sluice_fea::Input::UpdateIpv4);
        self.send(&table.v6, group(1), sluice_fea::Input::UpdateIpv6);
    }
}

fn fea(table: &Table) {
    let routes = table.len();
    let base = heap::start();
    let mut bench = FeaBench { fea: Fea::new(1), out: Outbox::new(), done: 0 };
    measure("FEA: loaded", routes, base, || bench.all(table, 1, FIRST));
    measure("FEA: announced again", routes, base, || bench.all(table, 1, FIRST));
    measure("FEA: another group", routes, base, || bench.all(table, 3, SECOND));
    measure("FEA: resync that announces nothing", routes, base, || {
        bench.input(sluice_fea::Input::BeginResync(TableId::MAIN));
        bench.input(sluice_fea::Input::EndResync(TableId::MAIN));
    });
    assert!(bench.done >= 3 * routes, "each change is sent");
    drop(bench);
    let base = heap::start();
    let mut bench = FeaBench { fea: Fea::new(1), out: Outbox::new(), done: 0 };
    measure("FEA: loaded anew", routes, base, || bench.all(table, 1, FIRST));
    measure("FEA: deleted", routes, base, || bench.all(table, 1, None));
}

fn main() {
    let table = Table::load();
    println!("{} IPv4 and {} IPv6 prefixes; octets a route on the heap", table.v4.len(), table.v6.len());
    println!("{:<44} {:>8} {:>8} {:>9} {:>8}", "", "held", "peak", "resident", "ns");
    rib(&table);
    fea(&table);
}
