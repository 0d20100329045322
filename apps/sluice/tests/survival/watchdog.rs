//! Who is stuck is started anew and who is busy is not; who dies too often is tried seldom; where the memory of a dead one is.

use crate::feed::FEED;
use crate::router_lab::{RouterLab, SLUICE, possible, program_with, runs, share};
use crate::small_table::{WHOLE, converged_with, rib_is_whole};
use sluice_lab::Topology;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A router without neighbours.
const ALONE: &str = "
[nodes.sluice]
daemon = 'sluice'
config = 'protocols { static { route 192.0.2.0/24 discard; } }'
";

/// A watchdog that loses its patience soon: it asks each 200 ms, is concerned after a second, and gives up after a minute.
const IMPATIENT: &str = "SLUICE_WATCHDOG=200,1000,60000";

/// All that the router has logged.
fn whole_log(lab: &RouterLab) -> String {
    std::fs::read_to_string(lab.lab.dir("sluice").join("sluice.log")).unwrap()
}

#[test]
fn a_component_that_does_nothing_is_started_anew() {
    let folder = tempfile::tempdir().unwrap();
    let program = program_with(folder.path(), IMPATIENT);
    let Some((lab, _share)) = converged_with("a_component_that_does_nothing_is_started_anew", &program)
    else {
        return;
    };
    // The manager itself stood still: that nobody answered it then says nothing of them.
    let manager = lab.pid("manager").unwrap();
    lab.signal("-STOP", manager);
    std::thread::sleep(Duration::from_secs(3));
    lab.signal("-CONT", manager);
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

/// Lets a process run for half of the time only.
fn slow_down(lab: &RouterLab, pid: u64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) && runs(pid) {
        lab.signal("-STOP", pid);
        std::thread::sleep(Duration::from_millis(30));
        lab.signal("-CONT", pid);
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// A large table is committed on a component that hardly gets to work: it takes long, and is left alone.
#[test]
fn a_component_that_is_busy_is_left_alone() {
    const ROUTES: usize = 20_000;
    let _share = share();
    if !possible("a_component_that_is_busy_is_left_alone") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program_with(folder.path(), IMPATIENT);
    let lab = RouterLab::up(&ALONE.parse().unwrap(), &program);
    lab.until("the router is ready", RouterLab::ready);
    let pids = ["static", "rib", "fea"].map(|component| lab.pid(component));
    let routes = (0..ROUTES).map(|i| format!("route 20.{}.{}.0/24 discard;\n", i / 256, i % 256));
    let text = format!("protocols {{ static {{ {} }} }}\n", routes.collect::<String>());
    std::fs::write(lab.lab.dir("sluice").join("config"), text).unwrap();
    let over = AtomicBool::new(false);
    let slowed = pids[0].unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| slow_down(&lab, slowed, &over));
        lab.signal("-HUP", lab.pid("manager").unwrap());
        let whole = sluice_lab::until(Duration::from_secs(60), || lab.kernel().v4 == ROUTES);
        over.store(true, Ordering::Relaxed);
        assert!(whole, "never: the table is in the kernel\n{}", whole_log(&lab));
    });
    lab.until("the router is ready", RouterLab::ready);
    let log = whole_log(&lab);
    assert_eq!(["static", "rib", "fea"].map(|component| lab.pid(component)), pids, "{log}");
    println!("the watchdog found somebody busy {} times", log.matches("process.busy").count());
}

/// It dies as soon as it is there, again and again: it is tried seldom then, everybody is told why and what to do, and doing that
/// helps.
#[test]
fn who_dies_too_often_is_tried_seldom() {
    let _share = share();
    if !possible("who_dies_too_often_is_tried_seldom") {
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

/// Whether the kernel writes cores to files here; says so by the test's name if not.
fn writes_cores(test: &str) -> bool {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find(|l| l.starts_with("Max core file size"));
    let hard = limit.and_then(|l| l.split_whitespace().nth(5)).unwrap_or("0");
    let possible = !pattern.starts_with('|') && !pattern.trim().is_empty() && hard != "0";
    if !possible {
        println!("skipped: {test}: cores go to {:?} here, {hard} octets at most", pattern.trim());
    }
    possible
}

#[test]
fn the_core_of_a_dead_component_is_found() {
    let test = "the_core_of_a_dead_component_is_found";
    let _share = share();
    if !possible(test) || !writes_cores(test) {
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

/// Has a component die by a signal that leaves a core, and waits until it is back; how it ended.
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
