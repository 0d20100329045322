//! A lab with a Sluice router, and the questions shared by the tests.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

pub mod bgpdump;
pub mod bird;
pub mod lan;
mod machine;
pub mod recorder;
pub mod speaker;
pub mod steps;
pub mod table;
pub mod xdp;
pub mod xip;

pub use machine::{Machine, alone, share};

use serde_json::Value;
use sluice_lab::process::ProcessId;
use sluice_lab::{Lab, LabOptions, Topology, available};
use sluice_load::wide;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;

/// Returns the executable under test, which cargo builds two folders above the test program.
pub fn executable() -> &'static Path {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = std::env::current_exe().unwrap();
        program.ancestors().nth(2).unwrap().join("sluice")
    });
    &PATH
}

/// Returns true if labs with BIRD can be made here; records a skip under the test's name if not.
pub fn possible() -> bool {
    if let Err(reason) = available() {
        sluice_testkit::skipped(reason);
        return false;
    }
    if Command::new("bird").arg("--version").output().is_err() {
        sluice_testkit::skipped("BIRD is not installed");
        return false;
    }
    true
}

/// Returns true if labs with BIRD and FRR can be made here; records a skip under the test's name if not.
pub fn possible_with_frr() -> bool {
    if !possible() {
        return false;
    }
    let is_there = Path::new("/usr/lib/frr/bgpd").exists();
    if !is_there {
        sluice_testkit::skipped("FRR is not installed");
    }
    is_there
}

/// Returns true if `text` has all of `parts`.
pub fn has_all(text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.contains(part))
}

/// Makes a program in `folder` that runs the router with `variables` in its environment.
pub fn program_with(folder: &Path, variables: &str) -> PathBuf {
    wrapper_of(executable(), folder, variables)
}

/// Makes a program in `folder` that runs `executable` with `variables` in its environment.
pub fn wrapper_of(executable: &Path, folder: &Path, variables: &str) -> PathBuf {
    let program = folder.join("sluice");
    std::fs::write(&program, format!("#!/bin/sh\n{variables} exec {} \"$@\"\n", executable.display()))
        .unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    program
}

/// Prefixes of both families.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// IPv4 prefixes.
    pub v4: usize,
    /// IPv6 prefixes.
    pub v6: usize,
}

/// The lines of the log that a failed wait prints.
const LINES: usize = 80;

/// A lab with a router on its node `sluice`.
pub struct RouterLab {
    /// The lab around the router.
    pub lab: Lab,
    /// Words before a command on the router's node that must see the router's view; mostly empty.
    pub enter: Vec<String>,
    /// The router's executable.
    pub program: PathBuf,
}

impl RouterLab {
    /// Brings it up, with `program` as the router.
    pub fn up(topology: &Topology, program: &Path) -> Self {
        let options = LabOptions { sluice: Some(program.into()), ..LabOptions::unique("router") };
        RouterLab { lab: Lab::up(topology, options).unwrap(), enter: Vec::new(), program: program.into() }
    }

    /// Asks until it is so, for a minute.
    pub fn until(&self, what: &str, so: impl FnMut(&Self) -> bool) {
        self.until_within(Duration::from_secs(60), what, so);
    }

    /// Asks until it is so.
    pub fn until_within(&self, patience: Duration, what: &str, mut so: impl FnMut(&Self) -> bool) {
        assert!(
            sluice_lab::until(patience, || so(self)),
            "never: {what}\n{}\n{}\n{}",
            self.ask(&["show", "processes"]),
            self.ask(&["show", "summary"]),
            self.log_end()
        );
    }

    /// Returns the last lines of the router's log.
    fn log_end(&self) -> String {
        let log = self.whole_log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Returns the router's run-time folder.
    pub fn run_dir(&self) -> PathBuf {
        self.lab.dir("sluice").join("run")
    }

    /// Runs a command of the router's CLI with `--json`.
    pub fn cli(&self, words: &[&str]) -> Output {
        let program = self.program.display().to_string();
        let mut line = self.enter.iter().chain([&program]);
        let mut command = self.lab.command("sluice", line.next().unwrap()).unwrap();
        command.args(line).args(words).arg("--json").arg("--run-dir").arg(self.run_dir()).output().unwrap()
    }

    /// The answer to a command; null if there is none.
    pub fn ask(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.cli(words).stdout).unwrap_or_default()
    }

    /// Whatever the router has reported since its first start.
    pub fn whole_log(&self) -> String {
        std::fs::read_to_string(self.lab.dir("sluice").join("sluice.log")).unwrap()
    }

    /// Returns the last exit of a component.
    pub fn last_end(&self, component: &str) -> String {
        let all = self.ask(&["show", "processes"]);
        let of = |p: &Value| (p["component"] == component).then(|| p["last_exit"].as_str().map(Into::into));
        all["processes"].as_array().into_iter().flatten().find_map(of).flatten().unwrap_or_default()
    }

    /// Returns true if every component runs, even if degraded.
    pub fn ready(&self) -> bool {
        matches!(self.cli(&["status"]).status.code(), Some(0 | 8))
    }

    /// Returns a component's process number.
    pub fn pid(&self, component: &str) -> Option<u64> {
        self.process(component, "pid")
    }

    /// Resident octets of a component.
    pub fn memory(&self, component: &str) -> Option<u64> {
        self.process(component, "memory_bytes")
    }

    fn process(&self, component: &str, field: &str) -> Option<u64> {
        let all = self.ask(&["show", "processes"]);
        let of_component = all["processes"].as_array()?.iter().find(|p| p["component"] == component);
        of_component.and_then(|p| wide(&p[field]))
    }

    /// Returns the number of restarts of components.
    pub fn restarts(&self) -> u64 {
        let all = self.ask(&["show", "processes"]);
        all["processes"].as_array().unwrap().iter().filter_map(|p| p["restarts"].as_u64()).sum()
    }

    /// Returns the router's state of a BGP neighbor as JSON.
    pub fn neighbor(&self, address: &str) -> Value {
        self.ask(&["show", "bgp", "neighbor", address])["neighbors"][0].clone()
    }

    /// Returns true if the session with a neighbor is established.
    pub fn established(&self, address: &str) -> bool {
        self.neighbor(address)["state"] == "Established"
    }

    /// Returns the routes of BGP from a neighbor.
    pub fn received(&self, address: &str) -> Count {
        let neighbor = self.neighbor(address);
        let of = |family: &str| {
            let families = neighbor["families"].as_array().into_iter().flatten();
            let number =
                families.filter(|f| f["family"] == family).find_map(|f| wide(&f["prefixes_received"]));
            number.unwrap_or(0) as usize
        };
        Count { v4: of("ipv4"), v6: of("ipv6") }
    }

    /// Returns the RIB's routes of an origin, and true if every route is fully processed.
    pub fn rib(&self, origin: &str) -> (Count, bool) {
        let summary = self.ask(&["show", "summary"]);
        let of = |family: &str| {
            let tables = summary["tables"].as_array().into_iter().flatten();
            let origins =
                tables.filter(|t| t["family"] == family).flat_map(|t| t["origins"].as_array()).flatten();
            origins.filter(|o| o["origin"] == origin).filter_map(|o| wide(&o["routes"])).sum::<u64>() as usize
        };
        (Count { v4: of("ipv4"), v6: of("ipv6") }, summary["idle"] == true)
    }

    /// Returns the router's routes in the kernel as printed by a foreign tool: a route a line, the prefix first.
    pub fn kernel_text(&self, family: &str) -> String {
        let output = self.lab.output("sluice", "ip", [family, "route", "show", "proto", "83"]).unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the number of the router's routes in the kernel.
    pub fn kernel(&self) -> Count {
        let count = |family| routes(&self.kernel_text(family)).count();
        Count { v4: count("-4"), v6: count("-6") }
    }

    /// Sends the BIRD of a node a command.
    pub fn birdc(&self, node: &str, words: &str) -> String {
        let socket = self.lab.dir(node).join("bird.ctl").display().to_string();
        let args = ["-s", &socket].into_iter().chain(words.split(' '));
        self.lab.exec(node, "birdc", args).unwrap()
    }

    /// Sends a signal to one of the router's processes.
    pub fn signal(&self, signal: &str, pid: u64) {
        assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    }

    /// Kills a process and waits until the process has stopped. (The parent may not have noticed yet.)
    pub fn kill(&self, pid: u64) {
        self.signal("-9", pid);
        self.until("the process is dead", |_| !runs(pid));
    }
}

/// Returns true if a process is active rather than only an exit status.
pub fn runs(pid: u64) -> bool {
    ProcessId::of(u32::try_from(pid).unwrap()).is_some_and(ProcessId::is_running)
}

/// Iterates over the prefixes in the output of `ip route show`; lines beginning with space are next hops of the route
/// before.
pub fn routes(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|l| !l.starts_with([' ', '\t']));
    lines.map(|l| l.split_whitespace().find(|w| !matches!(*w, "blackhole" | "unreachable")).unwrap_or(l))
}
