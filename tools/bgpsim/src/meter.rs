//! The load of the machine: the client, the target, and the remaining processes.

use nix::time::ClockId;
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::time::Duration;

/// Ticks a second in `/proc/stat`: USER_HZ, which is 100 wherever Sluice runs.
const TICKS: f64 = 100.0;

/// Seconds so far: of the machine by ticks of a hundredth, of processes by nanoseconds.
#[derive(Clone, Debug)]
struct Used {
    busy: f64,
    total: f64,
    own: f64,
    target: Vec<f64>,
}

/// Measures processor time between two moments.
#[derive(Clone, Debug)]
pub struct Meter {
    target: Vec<u32>,
    begin: Used,
}

/// Processor time between two moments.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// CPU time of the client, in seconds.
    pub own_s: f64,
    /// CPU time of the target's processes, in seconds; 0 if the processes are not known.
    pub target_s: f64,
    /// CPU time of each process of the target, in their order, in seconds.
    pub target_processes_s: Vec<f64>,
    /// Load by foreign processes, in percent of the whole machine. The target counts as foreign if its processes are
    /// not known.
    pub foreign_pct: f64,
}

impl Meter {
    /// Begins to measure; `target` are the target's processes.
    pub fn start(target: &[u32]) -> Self {
        Meter { target: target.to_vec(), begin: Used::now(target) }
    }

    /// Returns the load since the start of the measurement.
    pub fn load(&self) -> Load {
        let (begin, now) = (&self.begin, Used::now(&self.target));
        let own = now.own - begin.own;
        // One that has ended is not known any more.
        let each = now.target.iter().zip(&begin.target).map(|(n, b)| (n - b).max(0.0));
        let target_processes_s: Vec<f64> = each.collect();
        let target_s = target_processes_s.iter().fold(0.0, |sum, s| sum + s);
        let foreign = (now.busy - begin.busy - own - target_s).max(0.0);
        let total = (now.total - begin.total).max(1.0 / TICKS);
        Load {
            own_s: own,
            target_s,
            target_processes_s,
            foreign_pct: (1000.0 * foreign / total).round() / 10.0,
        }
    }

    /// Peak resident memory of the target, in octets; `None` if its processes are not known.
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

impl Used {
    fn now(target: &[u32]) -> Self {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = words.map(|t| t.parse().unwrap_or(0)).collect();
        let total: u64 = ticks.iter().sum();
        // The fourth and fifth are idle and waiting for disks.
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Used {
            busy: (total - idle) as f64 / TICKS,
            total: total as f64 / TICKS,
            own: own().as_secs_f64(),
            target: target.iter().map(|pid| of_process(*pid).as_secs_f64()).collect(),
        }
    }
}

/// Processor time of the current process with its threads, including ended threads.
pub fn own() -> Duration {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map(Duration::from).unwrap_or_default()
}

/// Processor time of a given process, by its own clock; zero if the process does not exist.
fn of_process(pid: u32) -> Duration {
    let clock = i32::try_from(pid).ok().and_then(|pid| ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok());
    clock.and_then(|clock| clock.now().ok()).map(Duration::from).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// The clock of a process counts work below a tick, and ended threads.
    #[test]
    fn a_little_work_counts() {
        let me = std::process::id();
        let meter = Meter::start(&[me, u32::MAX]);
        let (before, begin) = (own(), Instant::now());
        let work = || while begin.elapsed() < Duration::from_millis(3) {};
        std::thread::scope(|threads| _ = threads.spawn(work));
        let load = meter.load();
        let used = own().saturating_sub(before).as_secs_f64();
        assert!(used > 0.0);
        assert!(load.own_s > 0.0 && load.target_processes_s[0] > 0.0, "{load:?}");
        assert_eq!(load.target_processes_s[1], 0.0);
    }
}
