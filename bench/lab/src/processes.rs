//! The processes of a node: their processor time and memory.

use anyhow::{Context, Result};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::ClockId;
use nix::unistd::Pid;
use sluice_lab::Lab;
use sluice_lab::process::ProcessId;
use std::fs::{metadata, read_to_string};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A process of a router.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// The process's identity.
    pub id: ProcessId,
    /// The process's component or program.
    pub name: String,
    /// Processor time of the process's threads so far, including ended threads, in user space and in the kernel, in
    /// seconds.
    pub cpu_s: f64,
    /// Resident memory now, in octets.
    pub memory: u64,
    /// Resident memory at most so far, in octets.
    pub peak_memory: u64,
}

impl Process {
    /// Proportional share of memory, in octets: memory shared by several processes, for example their executable, is
    /// divided by the number of processes. 0 if the process has ended.
    pub fn proportional_memory(&self) -> u64 {
        let rollup = read_to_string(format!("/proc/{}/smaps_rollup", self.id.pid)).unwrap_or_default();
        let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"));
        let kb = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kb.unwrap_or(0) * 1024
    }
}

/// Makes the current process inherit the children of ended processes, so that their processor time counts as its own
/// and not as foreign load.
pub fn adopt_orphans() -> nix::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)
}

/// Waits for inherited processes that have ended. Call only without a running lab, which waits for its own processes.
pub fn reap_orphans() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

/// The processes of a node and their descendants, in the order of their names.
pub fn of_node(lab: &Lab, node: &str) -> Vec<Process> {
    let state = lab.state();
    let Some(node) = state.nodes.get(node) else { return Vec::new() };
    let inside = sluice_lab::process::inside(&state.scope.namespace_file(&node.namespace));
    let mut all: Vec<Process> = inside.into_iter().filter_map(|id| process(id.pid)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Returns a process in the network namespace of a node itself, for the kernel's tables in `/proc/PID/net`. Components in
/// empty namespaces see none of them.
///
/// # Errors
/// The node has no process.
pub fn within(lab: &Lab, node: &str) -> Result<u32> {
    let state = lab.state();
    let file = state.nodes.get(node).map(|node| state.scope.namespace_file(&node.namespace));
    let inode = |path: &Path| metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let wanted = file.as_deref().and_then(inode);
    let is_within =
        |process: &Process| inode(Path::new(&format!("/proc/{}/ns/net", process.id.pid))) == wanted;
    let found = of_node(lab, node).into_iter().find(is_within).filter(|_| wanted.is_some());
    found.map(|process| process.id.pid).with_context(|| format!("{node} has no process"))
}

/// `None` if the process has ended.
fn process(pid: u32) -> Option<Process> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let octets = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
    };
    let command = read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&str> = command.split('\0').collect();
    let name = match words[..] {
        [_, "run", class, ..] => class,
        [_, "start", ..] => "manager",
        [program, ..] => program.rsplit('/').next()?,
        [] => return None,
    };
    Some(Process {
        id: ProcessId::of(pid)?,
        name: name.to_owned(),
        cpu_s: processor_time(pid)?.as_secs_f64(),
        memory: octets("VmRSS:")?,
        peak_memory: octets("VmHWM:")?,
    })
}

/// By the process's own clock, which goes by nanoseconds and knows of threads that have ended; ticks of `/proc` are ten milliseconds.
fn processor_time(pid: u32) -> Option<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    clock.now().ok().map(Duration::from)
}

/// Ends processes at once and waits for their end.
pub(crate) fn end(processes: &[Process]) {
    processes.iter().for_each(|p| p.id.kill());
    for pid in processes.iter().filter_map(|p| i32::try_from(p.id.pid).ok()) {
        // Those are waited for that this process has inherited; the others are their parents' affair.
        let _ = waitpid(Pid::from_raw(pid), None);
    }
}
