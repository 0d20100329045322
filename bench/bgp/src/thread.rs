//! The load of a process's threads.

use std::fs::{read_dir, read_to_string};

/// A thread of a process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thread {
    /// The thread's number.
    pub id: u32,
    /// True for the process's first thread.
    pub is_main: bool,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// Number of times that the thread gave up or lost its processor.
    pub switches: u64,
}

impl Thread {
    /// The load since an earlier measurement; the whole load of a new thread.
    pub fn since(self, earlier: &[Thread]) -> Self {
        let Some(before) = earlier.iter().find(|t| t.id == self.id) else { return self };
        Thread {
            cpu_s: self.cpu_s - before.cpu_s,
            switches: self.switches.saturating_sub(before.switches),
            ..self
        }
    }
}

/// The threads of a process; empty if the process has ended.
pub fn of_process(pid: u32) -> Vec<Thread> {
    let entries = read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let ids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter_map(|id| thread(pid, id)).collect()
}

fn thread(pid: u32, id: u32) -> Option<Thread> {
    let of = |name: &str| read_to_string(format!("/proc/{pid}/task/{id}/{name}")).ok();
    let ns: f64 = of("schedstat")?.split_whitespace().next()?.parse().ok()?;
    let status = of("status")?;
    let counts = status.lines().filter_map(|l| l.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok());
    Some(Thread { id, is_main: pid == id, cpu_s: ns / 1e9, switches: counts.sum() })
}
