//! How fast routes reach the kernel: the FEA's whole path against a bare netlink loop, on the same prefixes and in the same
//! run, by processor time; how long a next-hop change under a full table takes; how long a single route takes.
//!
//! `cargo run --release -p sluice-fea-shell --example fibload -- [ROUTES] [RUNS]`, as root; works in a network namespace of its
//! own. Writes `target/bench/fib.json` below the current folder, or to the file that `FIBLOAD_OUT` names.
#![allow(clippy::unwrap_used)]

use sluice_base::*;
use sluice_fea::{Drive, Effect, EngineOp, Fea, Input, Member, Members, NextHopId, RouteTarget};
use sluice_fea_shell::linux::LinuxEngine;
use sluice_fea_shell::netlink::{decode, encode::Messages, socket::Socket};
use sluice_lab::{Lab, LabOptions};
use std::collections::HashSet;
use std::fs::File;
use std::net::IpAddr;
use std::time;

const TABLE: TableId = TableId::MAIN;
const TOPOLOGY: &str = "
[nodes.r]
forwarding = true
sysctls = { 'net.ipv4.nexthop_compat_mode' = '0' }
[nodes.a]
[nodes.b]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
a_addresses = ['10.0.0.1/24']
[[links]]
a = 'r:eth1'
b = 'b:eth0'
a_addresses = ['10.0.1.1/24']
";

/// Messages in a datagram of the bare loop: those of the engine.
const BATCH: usize = 128;

/// Routes in a batch from the RIB.
const FROM_RIB: usize = 4096;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let (routes, runs) = (args.next().unwrap_or(1_000_000), args.next().unwrap_or(5));
    let prefixes = prefixes(routes);
    let (mut bare, mut ours, mut wall) = (Vec::new(), Vec::new(), Vec::new());
    let (mut change, mut single) = (Vec::new(), Vec::new());
    for run in 0..runs {
        // Alternating, each in a fresh namespace.
        let rate = |seconds: f64| prefixes.len() as f64 / seconds;
        let b = in_namespace(|lab| bare_loop(lab, &prefixes));
        let (o, c, s) = in_namespace(|lab| fea(lab, &prefixes));
        println!(
            "run {run}: bare {:.0}/s, FEA {:.0}/s; of processor time {:.0}/s, {:.0}/s ({:.1} %); \
             next hop {c:.3} ms, single route {s:.1} us",
            rate(b.wall),
            rate(o.wall),
            rate(b.cpu),
            rate(o.cpu),
            100.0 * b.cpu / o.cpu
        );
        bare.push(rate(b.cpu));
        ours.push(rate(o.cpu));
        wall.push(b.wall / o.wall);
        change.push(c);
        single.push(s);
    }
    let ratios: Vec<f64> = ours.iter().zip(&bare).map(|(o, b)| o / b).collect();
    let (ratio, change, single) = (median(ratios), median(change), median(single));
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|l| l.strip_prefix("model name\t: ")).unwrap_or("unknown").to_owned();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let report = serde_json::json!({
        "name": "fib",
        "host": {
            "cpu": cpu,
            "cores": std::thread::available_parallelism().map_or(1, usize::from),
            "kernel": kernel.trim(),
        },
        "rows": [
            {"what": "bare netlink loop", "routes": prefixes.len(), "routes_per_cpu_s": median(bare)},
            {"what": "FEA", "routes": prefixes.len(), "routes_per_cpu_s": median(ours)},
            {"what": "FEA / bare by the clock", "ratio": median(wall)},
        ],
        "bars": [
            {"name": "fib.vs_bare_netlink", "value": ratio, "unit": "ratio", "better": "higher", "target": 0.85},
            {"name": "fib.nexthop_change_ms", "value": change, "unit": "ms", "better": "lower", "target": 10.0},
            {"name": "fib.single_route_us", "value": single, "unit": "us", "better": "lower", "target": 50.0},
        ],
    });
    let out = std::env::var("FIBLOAD_OUT").unwrap_or_else(|_| "target/bench/fib.json".into());
    std::fs::create_dir_all(std::path::Path::new(&out).parent().unwrap()).unwrap();
    std::fs::write(&out, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
    println!("FEA/bare {ratio:.3}, next-hop change {change:.3} ms, single route {single:.1} us; {out}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prefixes as the Internet has them: three in five are /24, the rest down to /16; in no order.
fn prefixes(count: usize) -> Vec<Ipv4Prefix> {
    let mut rng = Rng::from_seed(1);
    let mut seen = HashSet::new();
    while seen.len() < count {
        let len = match rng.below(100) {
            0..60 => 24,
            60..70 => 23,
            70..82 => 22,
            82..87 => 21,
            87..92 => 20,
            _ => 16 + rng.below(4) as u8,
        };
        let bits = (1 << 24) + rng.below(0xdf00_0000 - (1 << 24)) as u32;
        let prefix = Ipv4Prefix::from_parts(bits, len).unwrap();
        if ![10, 127].contains(&(prefix.to_parts().0 >> 24)) {
            seen.insert(prefix);
        }
    }
    let mut all: Vec<Ipv4Prefix> = seen.into_iter().collect();
    all.sort_unstable_by_key(|p| {
        u64::from(p.to_parts().0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(p.len())
    });
    all
}

/// Runs `work` on a thread inside node `r` of a new lab.
fn in_namespace<T: Send>(work: impl FnOnce(&Lab) -> T + Send) -> T {
    let lab = Lab::up(&TOPOLOGY.parse().unwrap(), LabOptions::unique("fibload")).unwrap();
    let state = lab.state();
    let file = File::open(state.scope.namespace_file(&state.nodes["r"].namespace)).unwrap();
    std::thread::scope(|threads| {
        let inside = threads.spawn(|| {
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            work(&lab)
        });
        inside.join().unwrap()
    })
}

/// What the work took: by the clock, and of this thread's processor time, which other programs do not disturb.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// Measures both.
struct Watch {
    wall: time::Instant,
    cpu: u64,
}

impl Watch {
    fn start() -> Self {
        Watch { cpu: cpu_nanos(), wall: time::Instant::now() }
    }

    fn stop(&self) -> Took {
        let cpu = cpu_nanos() - self.cpu;
        Took { wall: self.wall.elapsed().as_secs_f64(), cpu: cpu as f64 / 1e9 }
    }
}

/// Processor time of this thread, in nanoseconds (/proc/PID/schedstat, first field).
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The least that can be done: a message made once, its prefix and number patched, 128 in a datagram, refusals read.
fn bare_loop(lab: &Lab, prefixes: &[Ipv4Prefix]) -> Took {
    let socket = Socket::open().unwrap();
    let mut setup = Messages::default();
    let (member, group) = (NextHopId(10), NextHopId(11));
    let gateway = "10.0.0.2".parse().unwrap();
    let interface = InterfaceIndex::new(index(lab, "eth0")).unwrap();
    setup.push(&EngineOp::SetMember { id: member, member: Member::Via { gateway, interface } }, 1);
    let members: Members = [(member, 1)].into_iter().collect();
    setup.push(&EngineOp::SetGroup { id: group, members, create: true }, 2);
    socket.send(setup.octets()).unwrap();
    let mut template = Messages::default();
    let set = EngineOp::SetRoute {
        table: TABLE,
        prefix: "0.0.0.0/0".parse().unwrap(),
        target: RouteTarget::Group(group),
        replace: false,
        provenance: Provenance::NONE,
    };
    template.push(&set, 0);
    let template = template.octets().to_vec();
    let mut datagram = template.repeat(BATCH);
    let mut buffer = vec![0; 1 << 16];
    let mut refused = 0;
    let watch = Watch::start();
    for (n, chunk) in prefixes.chunks(BATCH).enumerate() {
        for (i, prefix) in chunk.iter().enumerate() {
            let message = &mut datagram[i * template.len()..][..template.len()];
            message[8..12].copy_from_slice(&((n * BATCH + i) as u32).to_ne_bytes());
            message[17] = prefix.len();
            message[32..36].copy_from_slice(&prefix.to_parts().0.to_be_bytes());
        }
        socket.send(&datagram[..chunk.len() * template.len()]).unwrap();
        while let Some(answer) = socket.receive(&mut buffer).unwrap() {
            refused += decode::messages(answer).count();
        }
    }
    let took = watch.stop();
    assert_eq!(refused, 0);
    took
}

fn index(lab: &Lab, interface: &str) -> u32 {
    let path = format!("/sys/class/net/{interface}/ifindex");
    // `/sys` is the host's: asked through `ip`, which enters the namespace.
    let text = lab.exec("r", "ip", ["-o", "link", "show", "dev", interface]).expect(&path);
    text.split(':').next().unwrap().parse().unwrap()
}

/// The whole path, from the RIB's batch to the kernel; then next-hop changes under all of it, then single routes.
fn fea(lab: &Lab, prefixes: &[Ipv4Prefix]) -> (Took, f64, f64) {
    let mut drive = Drive::new(Fea::new(1), LinuxEngine::open().unwrap());
    let mut effects = Vec::new();
    drive.quiesce(Instant::ZERO, &mut effects);
    let hop = |gateway: &str, interface: &str| {
        let index = InterfaceIndex::new(index(lab, interface)).unwrap();
        Forwarding::one(NextHop::via_on(gateway.parse().unwrap(), index))
    };
    let ways = [hop("10.0.0.2", "eth0"), hop("10.0.1.2", "eth1")];
    let provenance = Provenance::new(1, 1);
    let group = Some(GroupId(1));
    let mut batches: Vec<FibBatch<Ipv4Prefix>> = prefixes
        .chunks(FROM_RIB)
        .map(|chunk| FibBatch {
            routes: chunk.iter().map(|p| FibRoute { prefix: *p, group, provenance }).collect(),
            ..FibBatch::default()
        })
        .collect();
    batches[0].groups.push((GroupId(1), ways[0].clone()));
    let watch = Watch::start();
    for batch in batches {
        drive.handle(Instant::ZERO, Input::UpdateIpv4(TABLE, batch), &mut effects);
    }
    let took = watch.stop();
    drive.quiesce(Instant::ZERO, &mut effects);
    assert!(!effects.iter().any(|e| matches!(e, Effect::Rejected { .. })), "nothing was refused");
    assert_eq!(drive.core().totals().tables[0].2.wanted, prefixes.len());

    let mut changes = Vec::new();
    let lookup = Socket::open().unwrap();
    let probe = prefixes[prefixes.len() / 2];
    for n in 1..=9 {
        let way = &ways[n % 2];
        let wanted = way.next_hops()[0].interface.unwrap().number();
        let batch = FibBatch { groups: vec![(GroupId(1), way.clone())], ..FibBatch::default() };
        let start = time::Instant::now();
        drive.handle(Instant::ZERO, Input::UpdateIpv4(TABLE, batch), &mut effects);
        while output_interface(&lookup, probe.addr().into()) != Some(wanted) {
            assert!(start.elapsed() < time::Duration::from_secs(10), "the new path is never used");
        }
        changes.push(start.elapsed().as_secs_f64() * 1e3);
        drive.quiesce(Instant::ZERO, &mut effects);
    }

    let mut singles = Vec::new();
    for prefix in prefixes.iter().take(2000) {
        for group in [None, group] {
            let routes = vec![FibRoute { prefix: *prefix, group, provenance }];
            let start = time::Instant::now();
            let input = Input::UpdateIpv4(TABLE, FibBatch { routes, ..FibBatch::default() });
            drive.handle(Instant::ZERO, input, &mut effects);
            singles.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    (took, median(changes), median(singles))
}

/// The interface that the kernel would send a packet to `to` out of: RTM_GETROUTE, as `ip route get` does.
fn output_interface(socket: &Socket, to: IpAddr) -> Option<u32> {
    const RTM_GETROUTE: u16 = 26;
    let IpAddr::V4(to) = to else { return None };
    let mut request = Vec::new();
    request.extend_from_slice(&36u32.to_ne_bytes());
    request.extend_from_slice(&RTM_GETROUTE.to_ne_bytes());
    request.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    request.extend_from_slice(&[2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    request.extend_from_slice(&[8, 0, 1, 0]);
    request.extend_from_slice(&to.octets());
    socket.send(&request).unwrap();
    let mut buffer = vec![0; 4096];
    let answer = socket.receive(&mut buffer).unwrap()?;
    let message = decode::messages(answer).next()?;
    let mut rest = message.body.get(12..)?;
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        // RTA_OIF
        if rest[2] == 4 {
            return Some(u32::from_ne_bytes(rest.get(4..8)?.try_into().ok()?));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}
