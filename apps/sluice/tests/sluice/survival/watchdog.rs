//! The watchdog: stuck components are restarted and busy components are not; components dying too often are tried
//! seldom; the memory of a dead component is kept.

use crate::SLUICE;
use crate::survival::feed::FEED;
use crate::survival::small_table::{WHOLE, converged_with, rib_is_whole};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice_lab::Topology;
use sluice_router_lab::{RouterLab, possible, program_with, runs, share};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A router without neighbors.
const ALONE: &str = "
[nodes.sluice]
daemon = 'sluice'
config = 'protocols { static { route 192.0.2.0/24 discard; } }'
";

/// A watchdog with short limits: asks every 200 ms, is concerned after a second, and gives up after a minute.
const IMPATIENT: &str = "SLUICE_WATCHDOG=200,1000,60000";

/// Returns the router's whole log.
fn whole_log(lab: &RouterLab) -> String {
    std::fs::read_to_string(lab.lab.dir("sluice").join("sluice.log")).unwrap()
}

#[test]
fn a_component_that_does_nothing_is_started_anew() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_with(folder.path(), IMPATIENT);
    let Some((lab, _share)) = converged_with(&program) else {
        return;
    };
    // The manager itself stood still, for longer than it is patient: the missing answers of that time say nothing about the components.
    let manager = lab.pid("manager").unwrap();
    lab.signal("-STOP", manager);
    let stopped = Instant::now();
    assert!(!lab.cli(&["status", "--timeout", "3"]).status.success(), "who stands still does not answer");
    let stood = stopped.elapsed();
    lab.signal("-CONT", manager);
    assert!(stood >= Duration::from_secs(2), "who asked gave up after {stood:?}");
    for component in ["bgp", "rib"] {
        let pid = lab.pid(component).unwrap();
        lab.signal("-STOP", pid);
        lab.until(&format!("{component} is another process"), |l| {
            assert_eq!(l.kernel(), WHOLE, "{component} stands still and routes went with it");
            !runs(pid) && l.ready()
        });
        // A process that stands still takes no SIGABRT.
        let end = lab.last_end(component);
        assert!(end.starts_with("it did not answer for 1s and did nothing; signal: 9"), "{end}");
        lab.until("the session is up", |l| l.established(FEED));
        lab.until("the RIB has it all", rib_is_whole);
        assert_eq!(lab.kernel(), WHOLE, "after {component}");
    }
    assert_eq!(lab.restarts(), 2, "nobody else was started anew");
    let log = whole_log(&lab);
    assert_eq!(log.matches("ERROR manager: process.stuck: ").count(), 2, "{log}");
}

/// Lets a process run for a tenth of the time only, until the sender of `over` is dropped: less than its whole, and
/// twice the amount counted as idle.
fn slow_down(pid: u64, over: &Receiver<()>) {
    let process = Pid::from_raw(i32::try_from(pid).unwrap());
    let parts = [(Signal::SIGCONT, Duration::from_millis(10)), (Signal::SIGSTOP, Duration::from_millis(90))];
    // For 75 seconds at most.
    for (signal, while_) in parts.into_iter().cycle().take(1500) {
        if kill(process, signal).is_err() || over.recv_timeout(while_) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    let _ = kill(process, Signal::SIGCONT);
}

/// A large table is committed on a component with little processor time: the component is silent for long, the silence
/// is reported, and the component is left alone.
#[test]
fn a_component_that_is_busy_is_left_alone() {
    const ROUTES: usize = 40_000;
    /// So often the table comes and goes, if nobody was found busy before.
    const ROUNDS: usize = 5;
    let _share = share();
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program_with(folder.path(), IMPATIENT);
    let lab = RouterLab::up(&ALONE.parse().unwrap(), &program);
    lab.until("the router is ready", RouterLab::ready);
    let components = ["static", "rib", "fea"];
    let pids = components.map(|component| lab.pid(component));
    let routes = (0..ROUTES).map(|i| format!("route 20.{}.{}.0/24 discard;\n", i / 256, i % 256));
    let large = format!("protocols {{ static {{ {} }} }}\n", routes.collect::<String>());
    let small = "protocols { static { route 192.0.2.0/24 discard; } }\n";
    let is_reported = || whole_log(&lab).contains("process.busy: ");
    let rounds = (1..=ROUNDS).find(|round| {
        for (text, number) in [(large.as_str(), ROUTES), (small, 1)] {
            std::fs::write(lab.lab.dir("sluice").join("config"), text).unwrap();
            let (slow, over) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(move || slow_down(pids[0].unwrap(), &over));
                lab.signal("-HUP", lab.pid("manager").unwrap());
                let whole = || lab.kernel().v4 == number || is_reported();
                let whole = sluice_lab::until(Duration::from_secs(60), whole);
                drop(slow);
                assert!(
                    whole,
                    "never: {number} routes are in the kernel, round {round}\n{}",
                    whole_log(&lab)
                );
            });
            lab.until("all of it is in the kernel", |l| l.kernel().v4 == number);
        }
        is_reported()
    });
    println!("found busy in round {rounds:?}");
    lab.until("the router is ready", RouterLab::ready);
    let log = whole_log(&lab);
    assert!(rounds.is_some(), "nobody was found busy:\n{log}");
    assert_eq!(components.map(|component| lab.pid(component)), pids, "{log}");
    assert!(!log.contains("process.stuck") && !log.contains("process.died") && lab.restarts() == 0, "{log}");
    lab.until("it answers again", |l| {
        ["process.busy", "process.answers-again"].iter().all(|id| event(l, id, "static").is_some())
    });
    let busy = event(&lab, "process.busy", "static").unwrap();
    assert_eq!((&busy["level"], &busy["fields"]["silence_ms"]), (&"warn".into(), &"1000".into()), "{busy}");
}

/// Returns the manager's report about a component with the given event id.
fn event(lab: &RouterLab, id: &str, class: &str) -> Option<Value> {
    let all = lab.ask(&["show", "events", "--component", "manager", "--last", "1000"]);
    all["events"].as_array()?.iter().find(|e| e["id"] == id && e["fields"]["class"] == class).cloned()
}

/// A component dies at every start: the component is then tried seldom, the status and the log name the reason and the
/// remedy, and the remedy works.
#[test]
fn who_dies_too_often_is_tried_seldom() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&ALONE.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    let state = || {
        let all = lab.ask(&["show", "processes"]);
        let processes = all["processes"].as_array().unwrap();
        processes.iter().find(|p| p["component"] == "static").unwrap()["state"].clone()
    };
    let fails = || {
        lab.until_within(Duration::from_secs(180), "it is failing", |l| {
            if let Some(pid) = l.pid("static").filter(|pid| *pid > 0 && runs(*pid)) {
                l.signal("-9", pid);
            }
            state() == "failing"
        });
    };
    fails();
    let status = lab.cli(&["status"]);
    let said =
        String::from_utf8_lossy(&status.stdout).into_owned() + &String::from_utf8_lossy(&status.stderr);
    assert_eq!(status.status.code(), Some(1), "{said}");
    for part in ["static is failing", "signal: 9 (SIGKILL)", "sluice restart static"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let log = whole_log(&lab);
    assert_eq!(log.matches("process.failing: ").count(), 1, "{log}");
    assert!(log.contains("sluice restart static"), "{log}");

    let restarted = lab.cli(&["restart", "static"]);
    assert!(restarted.status.success(), "{}", String::from_utf8_lossy(&restarted.stderr));
    assert!(lab.ready() && lab.kernel().v4 == 1);
    // Its deaths are forgotten: after the next one it comes back soon.
    lab.kill(lab.pid("static").unwrap());
    lab.until_within(Duration::from_secs(20), "it is back", RouterLab::ready);
}

/// Returns true if the kernel writes cores to files here; records a skip under the test's name if not.
fn writes_cores() -> bool {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find(|l| l.starts_with("Max core file size"));
    let hard = limit.and_then(|l| l.split_whitespace().nth(5)).unwrap_or("0");
    let possible = !pattern.starts_with('|') && !pattern.trim().is_empty() && hard != "0";
    if !possible {
        sluice_testkit::skipped(format_args!("cores go to {:?} here, {hard} octets at most", pattern.trim()));
    }
    possible
}

#[test]
fn the_core_of_a_dead_component_is_found() {
    let _share = share();
    if !possible() || !writes_cores() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let topology: Topology = ALONE.parse().unwrap();
    let lab = RouterLab::up(&topology, &program_with(folder.path(), "SLUICE_CORES=1"));
    lab.until("the router is ready", RouterLab::ready);
    let mut found: Vec<PathBuf> = Vec::new();
    for component in ["static", "rib", "static", "rib"] {
        let end = ends_by_segv(&lab, component);
        let place = end.rsplit_once("core: ").unwrap_or_else(|| panic!("{component}: {end}")).1;
        let core = std::fs::read(place).unwrap();
        assert!(core.starts_with(b"\x7fELF"), "{place}");
        found.push(place.into());
    }
    let left = found.iter().filter(|core| core.exists()).count();
    let ours = found.iter().all(|core| core.starts_with(lab.run_dir()));
    assert!(left == if ours { 3 } else { left }, "the newest three are kept: {found:?}");
    assert!(whole_log(&lab).contains(&found[0].display().to_string()));
    if !ours {
        found.iter().for_each(|core| std::fs::remove_file(core).unwrap_or_default());
    }

    let lab = RouterLab::up(&topology, Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    let end = ends_by_segv(&lab, "static");
    assert!(end.contains("start the router with SLUICE_CORES=1"), "{end}");
}

/// Kills a component with a signal that leaves a core, and waits until the component is back. Returns the description
/// of the end.
fn ends_by_segv(lab: &RouterLab, component: &str) -> String {
    let pid = lab.pid(component).unwrap();
    lab.until(&format!("{component} is back"), |l| {
        // The first one that nobody's instruction caused only takes away the handler that looks for a stack that overflowed.
        if runs(pid) {
            l.signal("-SEGV", pid);
        }
        l.ready() && l.pid(component) != Some(pid)
    });
    lab.last_end(component)
}
