//! The machine, and its foreign load.

use std::fs::read_to_string;

use crate::circumstances::{Machine, machine};
use serde_json::{Value, json};

/// Measures the load of foreign processes.
pub struct HostMeter {
    busy: u64,
    total: u64,
    own: u64,
}

/// Ticks of the busy machine, and total ticks.
fn ticks() -> (u64, u64) {
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let counts: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .map(|t| t.parse().unwrap_or(0))
        .collect();
    let total = counts.iter().sum();
    // The fourth and fifth are idle and waiting for disks.
    let idle: u64 = counts.iter().skip(3).take(2).sum();
    (total - idle, total)
}

/// Ticks of the current process and its ended children.
fn own() -> u64 {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces; after it utime is the 12th, then stime, cutime, cstime.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(4).map(|t| t.parse::<u64>().unwrap_or(0)).sum()
}

impl HostMeter {
    /// Begins to measure.
    pub fn start() -> Self {
        let (busy, total) = ticks();
        HostMeter { busy, total, own: own() }
    }

    /// The machine and the foreign load since the start, in percent of the whole machine. Children of the benchmark
    /// have to have ended.
    pub fn stop(&self) -> Value {
        let (busy, total) = ticks();
        let used = (busy - self.busy).saturating_sub(own() - self.own);
        let share = 100.0 * used as f64 / (total - self.total).max(1) as f64;
        let Machine { cpu, cores, kernel } = machine();
        json!({
            "cpu": cpu, "cores": cores, "kernel": kernel, "foreign_cpu_pct": (share * 10.0).round() / 10.0,
        })
    }
}
