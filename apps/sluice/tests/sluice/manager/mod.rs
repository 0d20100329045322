//! The manager on a host of its own: commits that overlap, strangers, failing starts, and their reports in `sluice
//! status`.

mod commits;
mod dead;
mod degraded;
mod life;
mod lifecycle;
mod lockout;
mod marks;
mod policies;
mod strangers;

use crate::own_host::{Host, possible};
use serde_json::Value;
use std::time::Duration;

/// The configuration file.
const FILE: &str = "/etc/sluice/sluice.conf";

/// The longest wait for an expected state.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with a router in the usual places.
struct Router(Host);

impl Router {
    /// Starts a router with the given configuration; `None` where there are no hosts for tests.
    fn up(configuration: &str) -> Option<Self> {
        if let Err(reason) = possible(&["ip", "setpriv"]) {
            sluice_testkit::skipped(reason);
            return None;
        }
        let mut router = Router(Host::new());
        router.0.write(FILE, configuration).unwrap();
        router.start("");
        Some(router)
    }

    /// Starts the router, by a command line ending with `words`, and waits until the router runs.
    fn start(&mut self, words: &str) {
        let log = self.0.start(&format!("exec sluice start {words}")).unwrap();
        let runs = self.waits(|router| matches!(router.status(), 0 | 8));
        assert!(runs, "{}", std::fs::read_to_string(log).unwrap_or_default());
    }

    /// Asks until `so` returns true, or until the timeout. Returns the last answer.
    ///
    /// Polls because no event covers the conditions: the conditions are about the kernel's routes, about the process
    /// table of another namespace, and about a router that has not started to listen yet, has been killed or has just
    /// ended, so that a change cannot be reported. A late condition makes the test slower and never wrong.
    fn waits(&mut self, mut so: impl FnMut(&mut Self) -> bool) -> bool {
        sluice_lab::until(PATIENCE, || so(self))
    }

    fn shell(&mut self, text: &str) -> (String, i32) {
        self.0.shell(text).unwrap()
    }

    /// Runs a command, which must succeed. Returns its output.
    #[track_caller]
    fn run(&mut self, text: &str) -> String {
        let (said, status) = self.shell(text);
        assert_eq!(status, 0, "{text}: {said}");
        said
    }

    /// Ends the router, and waits until it has ended.
    fn stop(&mut self) {
        let manager = self.pid("manager");
        self.run(&format!("kill {manager}"));
        assert!(self.waits(|router| router.shell("pidof sluice").1 != 0));
    }

    fn status(&mut self) -> i32 {
        self.shell("sluice status").1
    }

    fn json(&mut self, text: &str) -> Value {
        let (said, _) = self.shell(&format!("{text} --json"));
        serde_json::from_str(&said).unwrap_or_default()
    }

    /// The reasons why the router is degraded.
    fn degraded(&mut self) -> String {
        self.json("sluice status")["degraded"].to_string()
    }

    fn pid(&mut self, component: &str) -> u64 {
        let all = self.json("sluice show processes");
        let mut processes = all["processes"].as_array().into_iter().flatten();
        processes.find(|p| p["component"] == component).and_then(|p| p["pid"].as_u64()).unwrap_or(0)
    }

    /// The prefixes that the kernel has from the router.
    fn kernel(&mut self) -> String {
        self.run("ip route show proto 83")
    }
}
