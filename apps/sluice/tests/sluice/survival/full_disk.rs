//! No space for the router's files: the router reports the lack and keeps forwarding, and recovers once there is space.
//!
//! The run-time folder lies on a small file system in a mount namespace of its own, which ends with the router.

use crate::SLUICE;
use crate::survival::feed::{FEED, fed, feed_of};
use sluice_load::RoutingTable;
use sluice_router_lab::{Count, Machine, RouterLab, possible, runs, share};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUTES: usize = 300;
const WHOLE: Count = Count { v4: ROUTES, v6: 0 };

const TOPOLOGY: &str = "
[nodes.sluice]
forwarding = true
files = { 'router.conf' = '''
protocols bgp {
    local-as 64500;
    router-id 10.0.0.1;
    default-policy accept;
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }
}
''' }
";

/// Makes the file system, with these options, and becomes the rest of the words.
const ON_A_SMALL_DISK: &str = "mount -t tmpfs -o \"$2\" disk \"$1\" && shift 2 && exec \"$@\"";

/// A lab whose router is started by hand, on a disk of its own.
fn lab() -> RouterLab {
    let prefixes = (0..ROUTES).map(|i| format!("20.{}.{}.0/24", i / 256, i % 256));
    let table = RoutingTable::with_made_up_paths(prefixes.map(|p| (p.parse().unwrap(), None)));
    RouterLab::up(&fed(TOPOLOGY, feed_of(&table).config()), Path::new(SLUICE))
}

fn disk(lab: &RouterLab) -> PathBuf {
    let disk = lab.lab.dir("sluice").join("run");
    std::fs::create_dir_all(&disk).unwrap();
    disk
}

/// A command on the router's node that sees a new disk.
fn on_a_new_disk(lab: &RouterLab, options: &str) -> Command {
    let mut command = lab.lab.command("sluice", "unshare").unwrap();
    command.args(["--mount", "--propagation", "private", "sh", "-c", ON_A_SMALL_DISK, "sh"]);
    command.arg(disk(lab)).arg(options);
    command
}

fn start_words(lab: &RouterLab) -> Vec<String> {
    let config = lab.lab.dir("sluice").join("router.conf").display().to_string();
    [SLUICE, "start", "--config", &config, "--run-dir", &disk(lab).display().to_string()]
        .map(Into::into)
        .into()
}

/// Starts the router for good; its log goes to `log`, a path in the lab.
fn start(lab: &mut RouterLab, mut command: Command) {
    let log =
        File::options().create(true).append(true).open(lab.lab.dir("sluice").join("sluice.log")).unwrap();
    command.stderr(log);
    let id = lab.lab.spawn("sluice", "sluice", command).unwrap();
    lab.enter = ["nsenter", "--mount", "--target", &id.pid.to_string()].map(Into::into).into();
    lab.until("the router is ready", |l| l.ready());
}

/// A router's small disk, and what happens on it.
trait Disk {
    /// Runs a shell script in the router's mount namespace, from the router's folder.
    fn on_the_disk(&self, script: &str);
    fn fill_the_disk(&self);
    fn free_the_disk(&self);
    fn log_text(&self) -> String;
    /// Kills a component and waits for the next one.
    fn replaced(&self, component: &str) -> u64;
}

impl Disk for RouterLab {
    fn on_the_disk(&self, script: &str) {
        let script = format!("cd {} && {script}", self.run_dir().display());
        let (program, args) = self.enter.split_first().unwrap();
        let args = args.iter().map(String::as_str).chain(["sh", "-c", &script]);
        self.lab.exec("sluice", program, args).unwrap();
    }

    fn fill_the_disk(&self) {
        self.on_the_disk("! head -c 100M /dev/zero > ballast 2>/dev/null");
    }

    fn free_the_disk(&self) {
        self.on_the_disk("rm ballast");
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(self.lab.dir("sluice").join("sluice.log")).unwrap_or_default()
    }

    fn replaced(&self, component: &str) -> u64 {
        let before = self.pid(component).unwrap();
        self.kill(before);
        self.until(&format!("{component} is back"), |l| {
            assert_eq!(l.kernel(), WHOLE, "without {component}");
            l.ready() && l.pid(component).is_some_and(|new| new != before && new != 0)
        });
        self.until("the session is up", |l| l.established(FEED));
        self.pid(component).unwrap()
    }
}

/// A router with the table, on a disk of its own, and the router's share of the machine.
fn converged() -> Option<(RouterLab, Machine)> {
    let share = share();
    if !possible() {
        return None;
    }
    let mut lab = lab();
    let mut command = on_a_new_disk(&lab, "size=256k");
    command.args(start_words(&lab));
    start(&mut lab, command);
    lab.until("the table is in the kernel", |l| l.kernel() == WHOLE);
    Some((lab, share))
}

#[test]
fn a_start_without_space() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = lab();
    let run_dir = disk(&lab).display().to_string();
    // No name is left. (Where only octets are missing, the router starts, and writes its processes down later.)
    let mut command = on_a_new_disk(&lab, "nr_inodes=1");
    let output = command.args(start_words(&lab)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["sluice: cannot", "the run-time folder ", &run_dir, "No space left", "free some space there"]
    {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

/// The disk is full while processes die. What can be taken over once there is space again is taken over.
#[test]
fn the_disk_fills_while_the_router_runs() {
    let Some((mut lab, _share)) = converged() else { return };
    lab.fill_the_disk();
    for component in ["rib", "fea", "bgp"] {
        lab.replaced(component);
    }
    let path = lab.run_dir().join("state.json").display().to_string();
    let log = lab.log_text();
    let said = log.lines().find(|l| l.contains(&format!("cannot write {path}"))).expect("a line in the log");
    assert!(said.contains("No space left") && said.contains("free some space"), "{said}");

    lab.free_the_disk();
    lab.until("the state is written again", |l| l.log_text().contains(&format!("{path} is written again")));
    // The next manager is started where the disk is: by way of a component, which outlives the first one.
    let bgp = lab.pid("bgp").unwrap();
    take_over(&mut lab, bgp);
    assert_eq!(lab.pid("bgp"), Some(bgp), "the process was taken over, not started anew");
    assert_eq!(lab.kernel(), WHOLE);
}

/// The manager dies while the disk is full: a process missing in the record is not adopted, and does not stay beside
/// its successor either.
#[test]
fn a_process_that_nobody_knows_of_ends() {
    let Some((mut lab, _share)) = converged() else { return };
    let rib = lab.pid("rib").unwrap();
    lab.fill_the_disk();
    let unknown = lab.replaced("bgp");
    lab.kill(lab.pid("manager").unwrap());
    lab.enter = ["nsenter", "--mount", "--target", &rib.to_string()].map(Into::into).into();
    lab.free_the_disk();
    take_over(&mut lab, rib);
    lab.until("the unknown process has ended", |_| !runs(unknown));
    lab.until("another one has its place", |l| l.ready() && l.established(FEED));
    assert_eq!(lab.pid("rib"), Some(rib), "the process was taken over, not started anew");
    assert_ne!(lab.pid("bgp"), Some(unknown));
    assert_eq!(lab.kernel(), WHOLE);
}

/// The log is on the full disk too.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let _share = share();
    if !possible() {
        return;
    }
    let mut lab = lab();
    let log = disk(&lab).join("log").display().to_string();
    let mut command = on_a_new_disk(&lab, "size=256k");
    command.args(["sh", "-c", &format!("exec \"$@\" 2>>{log}"), "sh"]).args(start_words(&lab));
    start(&mut lab, command);
    lab.until("the table is in the kernel", |l| l.kernel() == WHOLE);
    let manager = lab.pid("manager");
    lab.fill_the_disk();
    for component in ["bgp", "rib", "fea"] {
        lab.replaced(component);
    }
    assert_eq!(lab.pid("manager"), manager);
    assert_eq!(lab.kernel(), WHOLE);
}

/// Kills the manager, if still running, and starts the next manager in the mount namespace of the process `inside`.
fn take_over(lab: &mut RouterLab, inside: u64) {
    lab.lab.stop("sluice", true).unwrap();
    let mut command = lab.lab.command("sluice", "nsenter").unwrap();
    command.args(["--mount", "--target", &inside.to_string()]).args(start_words(lab));
    start(lab, command);
    lab.until("the session is up", |l| l.established(FEED));
}
