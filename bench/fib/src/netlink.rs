//! How fast routes reach the kernel: the FEA's whole path against a bare netlink loop, on the same prefixes, in the same batches and
//! in the same run; how long a next-hop change under a full table takes; how long a single route takes.

use crate::paths::{self, Engine};
use anyhow::{Context, Result};
use bench_report::{Bar, Report, median, number, table};
use serde_json::json;
use sluice_base::{Ipv4Prefix, Prefix, Rng};
use sluice_lab::{Lab, LabOptions, Topology};
use std::collections::HashSet;
use std::fs::read_to_string;
use std::time;

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

/// A turn: both ways.
struct Turn {
    bare: Took,
    engine: Engine,
}

/// Runs both ways in turn, each time in a fresh namespace.
pub fn run(routes: usize, rounds: usize, report: &mut Report) -> Result<()> {
    let prefixes = prefixes(routes);
    let mut turns = Vec::new();
    for round in 0..rounds {
        let bare = || in_namespace(|lab| paths::bare_loop(lab, &prefixes));
        let engine = || in_namespace(|lab| paths::fea(lab, &prefixes));
        // Who comes second finds the kernel clearing up after the first.
        let (bare, engine) = if round % 2 == 0 {
            let bare = bare()?;
            (bare, engine()?)
        } else {
            let engine = engine()?;
            (bare()?, engine)
        };
        println!(
            "round {}: bare {} routes/s of processor time, FEA {}; next hop {:.3} ms, single route {:.1} us",
            round + 1,
            number(routes as f64 / bare.cpu),
            number(routes as f64 / engine.took.cpu),
            engine.change_ms,
            engine.single_us
        );
        turns.push(Turn { bare, engine });
    }
    add_results(&turns, routes, report);
    Ok(())
}

/// A way into the kernel: its name, and what it took in a turn.
type Way<'a> = (&'a str, &'a dyn Fn(&Turn) -> Took);

fn add_results(turns: &[Turn], routes: usize, report: &mut Report) {
    let middle = |value: &dyn Fn(&Turn) -> f64| median(&turns.iter().map(value).collect::<Vec<_>>());
    let rate = |seconds: f64| routes as f64 / seconds;
    let mut lines = Vec::new();
    let ways: [Way<'_>; 2] = [("bare netlink loop", &|t| t.bare), ("FEA", &|t| t.engine.took)];
    for (what, took) in ways {
        let (cpu, wall) = (middle(&|t| rate(took(t).cpu)), middle(&|t| rate(took(t).wall)));
        report.row(json!({
            "what": what, "routes": routes, "routes_per_cpu_s": cpu, "routes_per_s": wall, "runs": turns.len(),
        }));
        lines.push(vec![what.to_owned(), number(cpu), number(wall)]);
    }
    println!("{}", table(&["into the kernel, medians", "routes per CPU s", "routes/s"], &lines));
    // Of processor time, which other programs disturb less than the clock.
    let of_cpu = middle(&|t| t.bare.cpu / t.engine.took.cpu);
    report.row(json!({
        "what": "FEA / bare netlink loop", "of_cpu": of_cpu,
        "by_the_clock": middle(&|t| t.bare.wall / t.engine.took.wall),
    }));
    report.row(json!({ "what": "one route, from the FEA's input to the kernel", "us": middle(&|t| t.engine.single_us) }));
    report.bar(Bar::higher("fib.vs_bare_netlink", of_cpu, "x", 0.85));
    report.bar(Bar::lower("fib.nexthop_change_ms", middle(&|t| t.engine.change_ms), "ms", 10.0));
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
        let prefix = Ipv4Prefix::from_parts(bits, len);
        seen.extend(prefix.filter(|p| ![10, 127].contains(&(p.to_parts().0 >> 24))));
    }
    let mut all: Vec<Ipv4Prefix> = seen.into_iter().collect();
    all.sort_unstable_by_key(|p| {
        u64::from(p.to_parts().0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(p.len())
    });
    all
}

/// Runs `work` inside node `r` of a new lab.
fn in_namespace<T: Send>(work: impl FnOnce(&Lab) -> Result<T> + Send) -> Result<T> {
    let lab = Lab::up(&TOPOLOGY.parse::<Topology>()?, LabOptions::unique("bench-netlink"))?;
    lab.inside("r", || work(&lab))?
}

/// The time of the work, in seconds: by the clock, and of this thread's processor time.
#[derive(Clone, Copy)]
pub struct Took {
    /// By the clock.
    pub wall: f64,
    /// Processor time.
    pub cpu: f64,
}

/// Measures both.
pub struct Watch {
    wall: time::Instant,
    cpu: u64,
}

impl Watch {
    /// From now on.
    pub fn start() -> Result<Self> {
        Ok(Watch { cpu: cpu_nanos()?, wall: time::Instant::now() })
    }

    /// Until now.
    pub fn stop(&self) -> Result<Took> {
        let cpu = cpu_nanos()? - self.cpu;
        Ok(Took { wall: self.wall.elapsed().as_secs_f64(), cpu: cpu as f64 / 1e9 })
    }
}

/// Processor time of this thread, in nanoseconds (/proc/PID/schedstat, first field).
fn cpu_nanos() -> Result<u64> {
    let text = read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    nanos.context("the kernel does not say a thread's processor time")
}
