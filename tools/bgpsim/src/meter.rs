//! Who used the machine meanwhile: the client, the target, everybody else.

use serde_json::{Value, json};
use std::fs::read_to_string;

/// Ticks a second in `/proc`: USER_HZ, which is 100 wherever Sluice runs.
const TICKS: f64 = 100.0;

/// Ticks so far.
#[derive(Clone, Debug)]
struct Ticks {
    busy: u64,
    total: u64,
    own: u64,
    target: Vec<u64>,
}

/// Measures processor time between two moments.
#[derive(Clone, Debug)]
pub struct Meter {
    target: Vec<u32>,
    begin: Ticks,
}

/// Processor time between two moments.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Of the client, in seconds.
    pub own_s: f64,
    /// Of the target's processes, in seconds; 0 if they are not known.
    pub target_s: f64,
    /// Of each of the target's processes, in their order, in seconds.
    pub target_processes_s: Vec<f64>,
    /// Of everybody else, in percent of the whole machine. The target is somebody else if its processes are not known.
    pub foreign_pct: f64,
}

impl Meter {
    /// Begins to measure; `target` are the target's processes.
    pub fn start(target: &[u32]) -> Self {
        Meter { target: target.to_vec(), begin: Ticks::now(target) }
    }

    /// What has been used since.
    pub fn load(&self) -> Load {
        let (begin, now) = (&self.begin, Ticks::now(&self.target));
        let own = now.own.saturating_sub(begin.own);
        let each: Vec<u64> =
            now.target.iter().zip(&begin.target).map(|(n, b)| n.saturating_sub(*b)).collect();
        let target: u64 = each.iter().sum();
        let foreign = now.busy.saturating_sub(begin.busy).saturating_sub(own + target);
        let total = now.total.saturating_sub(begin.total).max(1);
        Load {
            own_s: own as f64 / TICKS,
            target_s: target as f64 / TICKS,
            target_processes_s: each.iter().map(|t| *t as f64 / TICKS).collect(),
            foreign_pct: (1000.0 * foreign as f64 / total as f64).round() / 10.0,
        }
    }

    /// The target's resident memory at most, in octets; `None` if its processes are not known.
    pub fn target_peak(&self) -> Option<u64> {
        let peak = |pid: &u32| {
            let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
        };
        let all: Vec<u64> = self.target.iter().filter_map(peak).collect();
        (!all.is_empty()).then(|| all.iter().sum())
    }
}

impl Ticks {
    fn now(target: &[u32]) -> Self {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = words.map(|t| t.parse().unwrap_or(0)).collect();
        let total: u64 = ticks.iter().sum();
        // The fourth and fifth are idle and waiting for disks.
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Ticks {
            busy: total - idle,
            total,
            own: of_process("self"),
            target: target.iter().map(|pid| of_process(&pid.to_string())).collect(),
        }
    }
}

/// Ticks that a process has used, all its threads together; 0 if there is none.
fn of_process(process: &str) -> u64 {
    let stat = read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may hold spaces; after it utime is the 12th, stime the 13th.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).map(|t| t.parse::<u64>().unwrap_or(0)).sum()
}

/// The machine, for the record.
pub fn machine() -> Value {
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    json!({
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "kernel": read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}
