//! A component that floods the router with connections, calls, frames, registrations and metrics, and then does not answer:
//! the component's own connections suffer, and nobody else's. `target/bench/floods.json` has the times of routes during each flood beside
//! the time without a flood; no time is asserted.

use crate::third_party::latency::{Latency, NEIGHBORS, Neighbors, SESSIONS};
use crate::third_party::router::{Router, copy, has, install, python, text};
use bench_report::Report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The processes that a flood may reach, and BGP.
const PROCESSES: [&str; 4] = ["manager", "rib", "fea", "bgp"];
/// Octets by which the memory of each process may grow in all floods together.
const GROWTH: u64 = 64 << 20;
/// Routes of a sample.
const ROUTES: usize = 200;
/// A watchdog that notices a silent component after 3 s.
const IMPATIENT: (&str, &str) = ("SLUICE_WATCHDOG", "300,3000,60000");

/// A flood's name, and the refusals (kind and part of the subject) that it is counted by.
const FLOODS: [(&str, &[(&str, &str)]); 5] = [
    ("connections", &[("limit", "more than 64 connections"), ("limit", "without a secret or a key")]),
    ("calls", &[("limit", "more than 64 connections")]),
    ("slow", &[("limit", "more than 64 connections")]),
    ("frames", &[("limit", "unfinished frames"), ("limit", "16777220"), ("frame", "frame kind 99")]),
    ("registrations", &[("limit", "more than 64 subscriptions"), ("limit", "octets of descriptors")]),
];

/// The router, its neighbors, and what was measured before the first flood.
struct Run {
    neighbors: Neighbors,
    router: Router,
    pids: BTreeMap<&'static str, u64>,
    memory: BTreeMap<&'static str, u64>,
    before: Latency,
    report: Report,
}

#[test]
fn floods_harm_the_flooder_only() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "flooder");
    copy(&python().join("sluice_xrl"), &packages.join("flooder/sluice_xrl"));
    let configuration = format!("protocols {{ {SESSIONS} static {{ route 192.0.2.0/24 discard; }} }}\n");
    let router = Router::start_among(folder.path(), NEIGHBORS, &configuration, &[IMPATIENT]);
    let mut neighbors = Neighbors::connect(&router);
    router.until("the static route is in the kernel", || router.kernel().contains(&"192.0.2.0/24".into()));
    commit(&router, &["set protocols flooder"]);
    neighbors.sample(ROUTES);
    let before = neighbors.sample(2 * ROUTES);
    let mut run = Run {
        pids: pids(&router),
        memory: BTreeMap::new(),
        router,
        neighbors,
        before,
        report: Report::begin("floods"),
    };
    run.memory = run.resident();
    println!("before: {before:?}, memory {:?}", run.memory);
    for (flood, refusals) in FLOODS {
        run.flood(flood, refusals);
    }
    run.million_series();
    run.silence();
    run.report.finish(&[]).unwrap();
}

impl Run {
    /// Runs a flood, and measures the router meanwhile.
    fn flood(&mut self, flood: &str, refusals: &[(&str, &str)]) {
        let begun = format!("flood {flood}: begun");
        commit(&self.router, &[&format!("set protocols flooder flood {flood}")]);
        self.router.until("the flood has begun", || self.router.log().contains(&begun));
        self.measure(flood);
        self.router.until("the refusals are counted", || {
            let denials = self.denials();
            refusals
                .iter()
                .all(|(kind, subject)| denials.iter().any(|(k, s)| k == kind && s.contains(subject)))
        });
        commit(&self.router, &["set protocols flooder flood none"]);
        assert_eq!(pids(&self.router), self.pids, "{flood}: nobody was started anew");
    }

    /// Takes a sample of routes, gives the operator's commands, each of which is answered within the patience of a call, and checks the memory of
    /// every process.
    fn measure(&mut self, flood: &str) {
        let Latency { p50, p99 } = self.neighbors.sample(ROUTES);
        let mut longest = Duration::ZERO;
        for words in
            [&["status"][..], &["show", "processes"], &["show", "routes"], &["show", "bgp", "summary"]]
        {
            let begin = Instant::now();
            let output = self.router.run(words);
            assert!(output.status.success(), "{flood}: {words:?}: {}", text(&output));
            longest = longest.max(begin.elapsed());
        }
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        self.report.row(json!({
            "flood": flood, "p50_ms": milliseconds(p50), "p99_ms": milliseconds(p99),
            "before_p50_ms": milliseconds(self.before.p50), "before_p99_ms": milliseconds(self.before.p99),
            "longest_command_ms": milliseconds(longest),
        }));
        let growth: BTreeMap<_, _> = self
            .resident()
            .into_iter()
            .map(|(name, memory)| (name, memory.saturating_sub(self.memory[name])))
            .collect();
        let ratio = p99.as_secs_f64() / self.before.p99.as_secs_f64();
        println!(
            "{flood}: routes p50 {p50:?} p99 {p99:?} ({ratio:.2} of before), commands at most {longest:?}, growth in KiB {:?}",
            growth.iter().map(|(name, octets)| (*name, octets >> 10)).collect::<Vec<_>>()
        );
        for (name, octets) in growth {
            assert!(octets < GROWTH, "{flood}: {name} has grown by {octets} octets");
        }
    }

    /// A component answers a call for metrics with a million series.
    fn million_series(&mut self) {
        // The first answer is without series: the component makes the next one meanwhile.
        self.router.run(&["show", "metrics", "flooder"]);
        let begin = Instant::now();
        let metrics = text(&self.router.run(&["show", "metrics"]));
        println!("a million series: the metrics of all components after {:?}", begin.elapsed());
        let count = |start: &str| metrics.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("sluice_flooder_series{"), 10_000);
        assert!(
            metrics.contains("sluice_series_left_out{component=\"flooder\"} 990000"),
            "{}",
            self.router.log()
        );
        assert!(metrics.contains("flooder: 990000 series beyond the limit of 10000 are left out"));
        assert!(count("sluice_bgp_") > 0 && count("sluice_manager_") > 0);
        self.measure("a million series");
    }

    /// A component does not answer the manager.
    fn silence(&mut self) {
        let flooder = self.router.process("flooder", "pid");
        commit(&self.router, &["set protocols flooder flood silence"]);
        self.measure("silence");
        self.router.until("the silent process is ended", || {
            self.router.log().contains("process.stuck") && self.router.process("flooder", "pid") != flooder
        });
        commit(&self.router, &["delete protocols flooder"]);
        self.router.until("the flooder has ended", || self.router.run(&["status"]).status.success());
        assert_eq!(pids(&self.router), self.pids, "silence: nobody else was started anew");
        self.measure("after");
    }

    /// The resident memory of each process in octets.
    fn resident(&self) -> BTreeMap<&'static str, u64> {
        let of = |pid: u64| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        self.pids.iter().map(|(name, pid)| (*name, of(*pid))).collect()
    }

    /// The refusals of the flooder's user: kind and subject.
    fn denials(&self) -> Vec<(String, String)> {
        let uid = self.router.process("flooder", "uid");
        let reply = self.router.ask(&["show", "denials"]);
        let rows = reply["denials"].as_array().cloned().unwrap_or_default();
        let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let own = rows.iter().filter(|row| uid.is_null() || row["uid"] == uid);
        own.map(|row| (text(row, "kind"), text(row, "subject"))).collect()
    }
}

fn pids(router: &Router) -> BTreeMap<&'static str, u64> {
    PROCESSES.map(|name| (name, router.process(name, "pid").as_u64().unwrap())).into()
}

fn commit(router: &Router, statements: &[&str]) {
    let begin = Instant::now();
    let done = router.configure(&[statements, &["commit"]].concat());
    assert!(done.status.success(), "{statements:?}: {}\n{}", text(&done), router.log());
    println!("commit of {statements:?} after {:?}", begin.elapsed());
}
