//! Two or three feeds of the full table, and the best one fails: how long packets to random prefixes are lost, and how long the router
//! works until its tables and the kernel's are final, by Sluice and by BIRD 2 in turn. `make bench-failover`, as root; in network namespaces of its own.

mod network;
mod stream;

use anyhow::{Context, Result, ensure};
use bench_lab::{Device, TableArgs};
use bench_report::{Bar, Report, median, table};
use clap::Parser;
use network::{BACKUP, FEEDS};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use sluice_base::Asn;
use sluice_lab::{Lab, LabOptions};
use sluice_load::RoutingTable;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use stream::Stream;

/// The longest time that a router may take for anything.
const PATIENCE: Duration = Duration::from_secs(240);
/// A router is at rest when it has hardly used a processor for so long.
const REST: Duration = Duration::from_secs(6);
/// Processor time that counts as hardly any, in seconds.
const HARDLY: f64 = 0.03;
/// The pause between two looks at a router's processor time.
const LOOK: Duration = Duration::from_millis(50);
/// The stream flows for so long before the failure.
const BEFORE: Duration = Duration::from_secs(1);
/// The stream flows for so long after the router is at rest.
const AFTER: Duration = Duration::from_secs(2);

const DEVICES: [Device; 2] = [Device::Sluice, Device::Bird];

/// The failing part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// The neighbor's process is killed: its connection ends at once.
    Process,
    /// The link to the neighbor goes down.
    Link,
    /// The neighbor's process is stopped: its connection stays, and the hold timer of the router expires.
    Silence,
}

/// A failure among so many feeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    failure: Failure,
    feeds: usize,
    name: &'static str,
}

const CASES: [Case; 4] = [
    Case { failure: Failure::Process, feeds: 2, name: "process" },
    Case { failure: Failure::Process, feeds: 3, name: "process, three feeds" },
    Case { failure: Failure::Link, feeds: 2, name: "link" },
    Case { failure: Failure::Silence, feeds: 2, name: "hold timer" },
];

/// Failover from a neighbor with the full table, beside BIRD 2.
#[derive(Parser)]
struct Args {
    /// Runs of each router in each case.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only cases whose name begins so.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    full: TableArgs,
}

/// A run.
struct Run {
    device: Device,
    case: Case,
    /// From the router's kernel noticing the failure to the last packet that did not arrive over the second feed, in
    /// milliseconds.
    forwarding_ms: f64,
    /// Packets that were lost.
    lost: usize,
    /// From the failure until the router's processes rest: its tables and the kernel's are final. In milliseconds.
    final_ms: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let sluice = args.full.sluice()?;
    let (routes, source) = args.full.table()?;
    let mut runs = Vec::new();
    for round in 0..args.rounds {
        for case in cases(&args.only) {
            let mut devices = DEVICES;
            devices.rotate_left(round % DEVICES.len());
            for device in devices {
                let run = once(&sluice, device, case, &routes)?;
                println!(
                    "round {}: {:<6} {:<20} packets lost for {:>8.1} ms ({} packets), at rest after {:>8.1} ms",
                    round + 1,
                    device.name(),
                    case.name,
                    run.forwarding_ms,
                    run.lost,
                    run.final_ms
                );
                runs.push(run);
            }
        }
    }
    bench_lab::reap_orphans();
    let mut report = Report::begin("failover");
    add_results(&runs, &routes, &source.to_string(), &mut report);
    report.finish(&[])?;
    Ok(())
}

/// The cases whose names begin with a text.
fn cases(begin: &str) -> impl Iterator<Item = Case> {
    CASES.into_iter().filter(move |case| case.name.starts_with(begin))
}

/// Brings a network up, lets the better feed fail, and follows the packets.
fn once(sluice: &Path, device: Device, case: Case, routes: &RoutingTable) -> Result<Run> {
    let feeds = &FEEDS[..case.feeds];
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-failover") };
    let mut lab = Lab::up(&network::topology(device, feeds, routes)?, options)?;
    network::open_to_traffic(&lab, feeds)?;
    let run = fail(&mut lab, device, case, routes);
    run.with_context(|| format!("{}: {}", device.name(), lab.log(device.node(), device.node())))
}

fn fail(lab: &mut Lab, device: Device, case: Case, routes: &RoutingTable) -> Result<Run> {
    at_rest(lab, device, routes)?;
    let stream = Stream::start(lab, &FEEDS[..case.feeds], routes)?;
    sleep(BEFORE);
    let pid = bench_lab::within(lab, device.node())?;
    let (event, killed) = match case.failure {
        Failure::Process => {
            // A killed process first gives its memory back, then its connections: the router notices it later.
            let killed = Instant::now();
            let watch = spawn(move || connection_ends(pid));
            lab.stop(FEEDS[0], true)?;
            let ended =
                watch.join().map_err(|_| anyhow::anyhow!("the watch of the connection panicked"))??;
            (ended, killed)
        }
        Failure::Link => {
            let event = Instant::now();
            lab.exec(FEEDS[0], "ip", ["link", "set", "router", "down"])?;
            (event, event)
        }
        Failure::Silence => {
            let stopped = Instant::now();
            for process in bench_lab::of_node(lab, FEEDS[0]) {
                kill(Pid::from_raw(process.id.pid.cast_signed()), Signal::SIGSTOP)?;
            }
            (connection_ends(pid)?, stopped)
        }
    };
    let over = at_rest(lab, device, routes)?;
    sleep(AFTER);
    let arrivals = stream.stop()?;
    let (_, elsewhere) = arrivals.lost_since(killed - BEFORE / 2, BACKUP);
    ensure!(elsewhere > 0, "the stream did not flow through the first feed");
    let (forwarding, lost) = arrivals.lost_since(event, BACKUP);
    ensure!(lost < arrivals.sent.len(), "no packet arrived by the other way");
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let final_ms = ms(over.duration_since(event));
    Ok(Run { device, case, forwarding_ms: ms(forwarding), lost, final_ms })
}

/// Waits until the router's kernel has no established connection with the first feed. Returns when that was.
fn connection_ends(pid: u32) -> Result<Instant> {
    // The remote address 10.1.0.2 in hexadecimal, lowest octet first; the state of an established connection.
    let is_up = |line: &str| line.contains(" 0200010A:") && line.split_whitespace().nth(3) == Some("01");
    let begin = Instant::now();
    loop {
        let now = Instant::now();
        if !read_to_string(format!("/proc/{pid}/net/tcp"))?.lines().any(is_up) {
            return Ok(now);
        }
        ensure!(begin.elapsed() < PATIENCE, "the connection with the first feed does not end");
        sleep(Duration::from_micros(500));
    }
}

/// Waits until the kernel has all routes and the router has hardly used a processor for a while. Returns when that began.
fn at_rest(lab: &Lab, device: Device, routes: &RoutingTable) -> Result<Instant> {
    let begin = Instant::now();
    let pid = bench_lab::within(lab, device.node())?;
    let cpu = || bench_lab::of_node(lab, device.node()).iter().map(|process| process.cpu_s).sum::<f64>();
    let (mut busy_at, mut spent) = (begin, cpu());
    loop {
        sleep(LOOK);
        let now = cpu();
        if now - spent > HARDLY {
            (busy_at, spent) = (Instant::now(), now);
        }
        if busy_at.elapsed() > REST {
            let count = bench_lab::routes(pid)?;
            if count.v4 >= routes.v4.len() as u64 && count.v6 >= routes.v6.len() as u64 {
                return Ok(busy_at);
            }
            ensure!(begin.elapsed() < PATIENCE, "the router does not come to rest: {count} routes");
        }
    }
}

/// Prints and notes the medians.
fn add_results(runs: &[Run], routes: &RoutingTable, source: &str, report: &mut Report) {
    let mut lines = Vec::new();
    let sets: BTreeSet<&[Asn]> =
        routes.v4.iter().chain(&routes.v6).map(|route| route.path.as_slice()).collect();
    println!("{} prefixes with {} AS paths", routes.v4.len() + routes.v6.len(), sets.len());
    for case in CASES.into_iter().filter(|case| runs.iter().any(|run| run.case == *case)) {
        let name = case.name;
        let middle = |device: Device, value: &dyn Fn(&Run) -> f64| {
            let of = runs.iter().filter(|run| run.device == device && run.case == case);
            median(&of.map(value).collect::<Vec<_>>())
        };
        for device in DEVICES {
            let forwarding = middle(device, &|run| run.forwarding_ms);
            let (lost, last) = (middle(device, &|run| run.lost as f64), middle(device, &|run| run.final_ms));
            report.row(json!({
                "what": "failover", "failure": name, "feeds": case.feeds, "as_paths": sets.len(), "router": device.name(), "table": source, "ipv4": routes.v4.len(),
                "ipv6": routes.v6.len(), "detected_to_forwarding_ms": forwarding, "packets_lost": lost,
                "rest_ms": last, "packets_a_second": stream::RATE,
            }));
            lines.push(vec![
                format!("{name}: {}", device.name()),
                format!("{forwarding:.1}"),
                format!("{lost:.0}"),
                format!("{last:.1}"),
            ]);
        }
        let of = |device| middle(device, &|run| run.forwarding_ms);
        let ratio = of(Device::Sluice) / of(Device::Bird);
        println!("{name}: Sluice / BIRD {ratio:.3}");
        if case == CASES[0] {
            report.bar(Bar::lower("failover.detected_to_forwarding_ms", of(Device::Sluice), "ms", 100.0));
            report.bar(Bar::lower("failover.vs_bird", ratio, "x", 0.05));
        } else {
            report.row(json!({ "what": "failover, Sluice / BIRD", "failure": name, "ratio": ratio }));
        }
    }
    let head = ["failover, medians", "ms until forwarded", "packets lost", "ms until rest"];
    println!("{}", table(&head, &lines));
}
