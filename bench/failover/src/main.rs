//! Two feeds of the full table, and the better one fails: how long packets to random prefixes are lost, and how long the kernel's table has
//! routes to the failed neighbor, by Sluice and by BIRD 2 in turn. `make bench-failover`, as root; in network namespaces of its own.

mod network;
mod stream;

use anyhow::{Context, Result, ensure};
use bench_lab::{Device, TableArgs};
use bench_report::{Bar, Report, median, table};
use clap::Parser;
use network::FEEDS;
use serde_json::json;
use sluice_lab::{Lab, LabOptions};
use sluice_load::RoutingTable;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use stream::Stream;

/// The longest time that a router may take for anything.
const PATIENCE: Duration = Duration::from_secs(240);
/// A router is at rest when it has hardly used a processor for so long.
const REST: Duration = Duration::from_secs(6);
/// The stream flows for so long before the failure.
const BEFORE: Duration = Duration::from_secs(1);
/// The stream flows for so long after the kernel's table is final.
const AFTER: Duration = Duration::from_secs(2);

const DEVICES: [Device; 2] = [Device::Sluice, Device::Bird];

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// The neighbor's process is killed: its connection ends at once.
    Process,
    /// The link to the neighbor goes down.
    Link,
}

const FAILURES: [(Failure, &str); 2] = [(Failure::Process, "process"), (Failure::Link, "link")];

/// Failover from a neighbor with the full table, beside BIRD 2.
#[derive(Parser)]
struct Args {
    /// Runs of each router for each failure.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[command(flatten)]
    full: TableArgs,
}

/// A run.
struct Run {
    device: Device,
    failure: Failure,
    /// From the failure to the last packet that did not arrive by the other way, in milliseconds.
    forwarding_ms: f64,
    /// Packets that were lost.
    lost: usize,
    /// From the failure until the kernel has no route to the neighbor, in milliseconds.
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
        for (failure, name) in FAILURES {
            let mut devices = DEVICES;
            devices.rotate_left(round % DEVICES.len());
            for device in devices {
                let run = once(&sluice, device, failure, &routes)?;
                println!(
                    "round {}: {:<6} {name:<7} packets lost for {:>8.1} ms ({} packets), kernel final after {:>8.1} ms",
                    round + 1,
                    device.name(),
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
    tell(&runs, &routes, &source.to_string(), &mut report);
    report.finish(&[])?;
    Ok(())
}

/// Brings a network up, lets the better feed fail, and follows the packets.
fn once(sluice: &Path, device: Device, failure: Failure, routes: &RoutingTable) -> Result<Run> {
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-failover") };
    let mut lab = Lab::up(&network::topology(device, routes)?, options)?;
    network::open_to_traffic(&lab)?;
    let run = fail(&mut lab, device, failure, routes);
    run.with_context(|| format!("{}: {}", device.name(), lab.log(device.node(), device.node())))
}

fn fail(lab: &mut Lab, device: Device, failure: Failure, routes: &RoutingTable) -> Result<Run> {
    at_rest(lab, device, routes)?;
    let stream = Stream::start(lab, routes)?;
    sleep(BEFORE);
    let event = Instant::now();
    match failure {
        Failure::Process => lab.stop(FEEDS[0], true)?,
        Failure::Link => drop(lab.exec(FEEDS[0], "ip", ["link", "set", "router", "down"])?),
    }
    let over = loop {
        if !leads_to(lab, device, FEEDS[0])? {
            break Instant::now();
        }
        ensure!(event.elapsed() < PATIENCE, "the kernel still has routes to the neighbor that failed");
        sleep(Duration::from_millis(20));
    };
    // All routes have to be there again: where the kernel drops those of a link itself, none is left for a while.
    at_rest(lab, device, routes)?;
    sleep(AFTER);
    let arrivals = stream.stop()?;
    let (before, _) = arrivals.lost_since(event - BEFORE / 2, 0);
    ensure!(before > Duration::ZERO, "the stream did not flow through the first feed");
    let (forwarding, lost) = arrivals.lost_since(event, 1);
    ensure!(lost < arrivals.sent.len(), "no packet arrived by the other way");
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let final_ms = ms(over.duration_since(event));
    Ok(Run { device, failure, forwarding_ms: ms(forwarding), lost, final_ms })
}

/// Waits until the kernel has all routes and the router's processors have been idle for a while.
fn at_rest(lab: &Lab, device: Device, routes: &RoutingTable) -> Result<()> {
    let begin = Instant::now();
    let pid = bench_lab::of_node(lab, device.node()).first().map(|process| process.id.pid);
    let pid = pid.context("the router does not run")?;
    let cpu = || bench_lab::of_node(lab, device.node()).iter().map(|process| process.cpu_s).sum::<f64>();
    loop {
        let before = cpu();
        sleep(REST);
        let count = bench_lab::routes(pid)?;
        let is_full = count.v4 >= routes.v4.len() as u64 && count.v6 >= routes.v6.len() as u64;
        if is_full && cpu() - before < 0.1 {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "the router does not come to rest: {count} routes");
    }
}

/// Returns true if the kernel has routes of the router that leave by an interface.
fn leads_to(lab: &Lab, device: Device, interface: &str) -> Result<bool> {
    let protocol = if device == Device::Sluice { "83" } else { "bird" };
    let line = format!("ip -4 route show dev {interface} proto {protocol} 2>/dev/null | head -n 1");
    Ok(!lab.exec(device.node(), "sh", ["-c", &line])?.trim().is_empty())
}

/// Prints and notes the medians.
fn tell(runs: &[Run], routes: &RoutingTable, source: &str, report: &mut Report) {
    let mut lines = Vec::new();
    for (failure, name) in FAILURES {
        let middle = |device: Device, value: &dyn Fn(&Run) -> f64| {
            let of = runs.iter().filter(|run| run.device == device && run.failure == failure);
            median(&of.map(value).collect::<Vec<_>>())
        };
        for device in DEVICES {
            let forwarding = middle(device, &|run| run.forwarding_ms);
            let (lost, last) = (middle(device, &|run| run.lost as f64), middle(device, &|run| run.final_ms));
            report.row(json!({
                "what": "failover", "failure": name, "router": device.name(), "table": source, "ipv4": routes.v4.len(),
                "ipv6": routes.v6.len(), "detected_to_forwarding_ms": forwarding, "packets_lost": lost,
                "kernel_final_ms": last, "packets_a_second": stream::RATE,
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
        if failure == Failure::Process {
            report.bar(Bar::lower("failover.detected_to_forwarding_ms", of(Device::Sluice), "ms", 100.0));
            report.bar(Bar::lower("failover.vs_bird", ratio, "x", 0.05));
        } else {
            report.row(json!({ "what": "failover, Sluice / BIRD", "failure": name, "ratio": ratio }));
        }
    }
    let head = ["failover, medians", "ms until forwarded", "packets lost", "ms until final"];
    println!("{}", table(&head, &lines));
}
