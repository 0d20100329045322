//! A next hop under all routes changes: the time until packets take the new way.

use crate::Prefixes;
use anyhow::{Result, ensure};
use bench_forward::router::Engines;
use bench_forward::traffic::{Spread, on_field, sink, start};
use bench_report::{Bar, Report, median};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest wait for a packet.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures, prints and reports.
pub fn run(prefixes: &Prefixes, rounds: usize, pins: &Path, report: &mut Report) -> Result<()> {
    let prefixes = &prefixes.ipv4[..];
    let destinations = Spread::Uniform.draw(prefixes);
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let one = |engines| {
            on_field(engines, prefixes, pins, |field| {
                // The new way's neighbor is known, as that of a backup is.
                field.router.point_to(1);
                field.router.settle()?;
                field.router.point_to(0);
                field.router.settle()?;
                let sinks = [sink(field.lab, 0)?, sink(field.lab, 1)?];
                let running = start(field.lab, destinations.clone())?;
                let deadline = Instant::now() + PATIENCE;
                while sinks[0].tally().received < 100_000 {
                    ensure!(Instant::now() < deadline, "no packets");
                    std::thread::sleep(Duration::from_millis(5));
                }
                let before = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
                field.router.point_to(1);
                while sinks[1].tally().received == 0 {
                    ensure!(Instant::now() < deadline, "no packets by the new way");
                    std::thread::sleep(Duration::from_millis(1));
                }
                let first = Duration::from_nanos(sinks[1].tally().first);
                running.stop()?;
                Ok((first - Duration::from(before)).as_secs_f64() * 1e3)
            })
        };
        let pair = [one(Engines::Kernel)?, one(Engines::Xdp)?];
        println!("repoint round {}: kernel {:.3} ms, kernel and XDP {:.3} ms", round + 1, pair[0], pair[1]);
        pairs.push(pair);
    }
    let middle = |n: usize| median(&pairs.iter().map(|pair| pair[n]).collect::<Vec<_>>());
    report.row(json!({
        "what": "repoint", "routes": prefixes.len(), "kernel_ms": middle(0), "xdp_ms": middle(1), "runs": rounds,
    }));
    report.bar(Bar::lower("forward.repoint_ms", middle(1), "ms", 1.0));
    Ok(())
}
