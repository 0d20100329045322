//! Figures 10 to 13 of the XORP paper again: a single route from BGP to the kernel and to a second peer, at full
//! table, with BIRD 2 (and, with an empty table, the installed ones of FRR, OpenBGPD and GoBGP) in the same run.
//! `make bench-latency`, as root; in network namespaces of its own.

mod background;
mod flow;
mod message;
mod network;
mod profile;
mod results;
mod show;
mod speaker;

use anyhow::{Context, Result};
use background::Work;
use bench_lab::{Device, TableArgs, TableWatch};
use bench_report::Report;
use clap::Parser;
use network::Peers;
use results::Results;
use sluice_lab::{Lab, LabOptions};
use sluice_load::RoutingTable;
use sluice_load::counts::{Cli, Count};
use speaker::Speaker;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest time of a router for the table.
const PATIENCE: Duration = Duration::from_secs(180);

/// Latency of single routes, beside peers in the same run.
#[derive(Parser)]
struct Args {
    /// Alternating runs of each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Routes that are followed to the kernel in each run.
    #[arg(long, default_value_t = 200)]
    routes: usize,
    #[command(flatten)]
    full: TableArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let sluice = args.full.sluice()?;
    let (table, source) = args.full.table()?;
    let mut report = Report::begin("latency");
    let results = measure(&args, &sluice, &table)?;
    bench_lab::reap_orphans();
    let plots = results.report_to(&source.to_string(), &table, &mut report);
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (*suffix, plot)).collect();
    report.finish(&plots)?;
    Ok(())
}

fn measure(args: &Args, sluice: &Path, table: &RoutingTable) -> Result<Results> {
    let mut lab = None;
    let devices = network::devices();
    let measured = measure_in(&mut lab, args, sluice, table, &devices);
    if let (Err(_), Some(lab)) = (&measured, &lab) {
        for device in devices {
            eprintln!("{}: {}", device.name(), lab.log(device.node(), device.node()));
        }
    }
    measured
}

fn measure_in(
    place: &mut Option<Lab>,
    args: &Args,
    sluice: &Path,
    table: &RoutingTable,
    devices: &[Device],
) -> Result<Results> {
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-latency") };
    let lab = &*place.insert(Lab::up(&network::topology(devices)?, options)?);
    let cli = Cli { lab, sluice };
    let mut results = Results::default();

    println!("empty tables: figure 13 with {} routers, figure 10", devices.len());
    for device in devices.iter().copied() {
        let mut peers = Peers::connect(lab, device)?;
        keep_one(&mut peers)?;
        results.empty.push((device, flow::run(&mut peers).with_context(|| device.name())?));
        if device == Device::Sluice {
            results.figure10 = profile::run(&cli, &mut peers.a, args.routes)?;
        }
    }

    println!("the full table goes to Sluice and BIRD 2");
    let mut to_sluice = Peers::connect(lab, Device::Sluice)?;
    let begin = Instant::now();
    results.while_loading = load(lab, Device::Sluice, &mut to_sluice, table, |watch, c| {
        let goes_on = || {
            // The table's IPv6 part comes last.
            let left = c.announced() < table.v4.len() as u64 || watch.ipv6_added()? < table.v6.len() as u64;
            Ok(left && begin.elapsed() < PATIENCE)
        };
        show::while_loading(&cli, table, goes_on)
    })?;
    let mut to_bird = Peers::connect(lab, Device::Bird)?;
    load(lab, Device::Bird, &mut to_bird, table, |_, _| Ok(()))?;
    keep_one(&mut to_sluice)?;
    keep_one(&mut to_bird)?;
    (results.at_rest, results.matches) = show::at_rest(&cli, table, 200)?;

    println!("full table: figure 11, then figure 12 and from peer to peer {} times", args.rounds);
    results.figure11 = profile::run(&cli, &mut to_sluice.a, args.routes)?;
    for round in 0..args.rounds {
        results.figure12.push(profile::run(&cli, &mut to_sluice.b, args.routes)?);
        let mut turns = [(Device::Sluice, &mut to_sluice), (Device::Bird, &mut to_bird)];
        turns.rotate_left(round % 2);
        for (device, peers) in turns {
            results.full.push((device, flow::run(peers).with_context(|| device.name())?));
        }
        results.show_round(round);
    }
    println!("full table: from peer to peer while the router has other work");
    let changes = table.v4.len() as u64;
    for work in Work::ALL {
        results.background.push(background::during(Device::Sluice, work, &mut to_sluice, &cli, changes)?);
        results.show_background();
    }
    let work = Work::SessionEnd;
    results.background.push(background::during(Device::Bird, work, &mut to_bird, &cli, changes)?);
    results.show_background();
    Ok(results)
}

/// Keeps a route of each peer present.
fn keep_one(peers: &mut Peers) -> Result<()> {
    let before = peers.c.announced();
    peers.a.announce(speaker::kept())?;
    peers.b.announce(speaker::kept())?;
    peers.c.await_announced(before + 1, PATIENCE)
}

/// Sends a router the table by its peer `a`, runs a closure meanwhile, and waits until kernel and peer `c` have the
/// whole table.
fn load<T>(
    lab: &Lab,
    device: Device,
    peers: &mut Peers,
    table: &RoutingTable,
    meanwhile: impl FnOnce(&TableWatch, &Speaker) -> Result<T>,
) -> Result<T> {
    let watch = TableWatch::start(bench_lab::within(lab, device.node())?)?;
    let Peers { a, c, .. } = peers;
    let done = std::thread::scope(|threads| {
        let sender = threads.spawn(|| a.announce_table(table));
        let done = meanwhile(&watch, c);
        sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        done
    })?;
    watch.wait(Count::of(table), PATIENCE)?;
    c.await_announced(table.v4.len() as u64, PATIENCE)?;
    // Then the machine comes to rest: whatever the router still sends is not counted.
    let mut before = 0;
    while before != c.announced() {
        before = c.announced();
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(done)
}
