//! A router without its manager: the running processes, and calls to them without the Finder.

use sluice_manager_process::{LeftBehind, is_manager_dead, left_behind};
use sluice_xrl::XrlEndpoint;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run-time folder in which no manager runs.
pub struct Unmanaged {
    run_dir: PathBuf,
    components: Vec<LeftBehind>,
}

impl Unmanaged {
    /// Looks for components without a manager; `None` if a manager runs. Returns at once.
    pub fn find(run_dir: &Path) -> Option<Self> {
        is_manager_dead(run_dir)
            .then(|| Unmanaged { run_dir: run_dir.into(), components: left_behind(run_dir) })
    }

    /// Returns true if a running component can be called.
    pub fn can_answer(&self) -> bool {
        self.components.iter().any(|c| c.is_alive)
    }

    /// Returns an endpoint that calls the components by their sockets.
    pub fn router(&self) -> XrlEndpoint {
        let alive = self.components.iter().filter(|c| c.is_alive);
        let at = |c: &LeftBehind| Some((c.component.clone(), c.socket(&self.run_dir)?));
        XrlEndpoint::direct(alive.filter_map(at).collect::<BTreeMap<_, _>>())
    }

    /// Describes the running components, the stopped components, and the way to bring the manager back.
    pub fn text(&self) -> String {
        let shown = self.run_dir.display();
        let (alive, dead): (Vec<_>, Vec<_>) = self.components.iter().partition(|c| c.is_alive);
        let names = |of: &[&LeftBehind]| {
            of.iter().map(|c| format!("{} (process {})", c.component, c.pid)).collect::<Vec<_>>().join(", ")
        };
        match (alive.is_empty(), dead.is_empty()) {
            (true, true) if !readable(&self.run_dir) => format!(
                "the router manager in {shown} is dead, or none was started; you may not read which components run. `sluice start` \
                 starts it, and takes over those that run"
            ),
            (true, true) => format!(
                "no router runs in {shown}; start one with `sluice start`, or name its folder with --run-dir"
            ),
            (true, false) => format!(
                "the router in {shown} is dead: its manager and {}; the kernel goes on forwarding by the routes that it has. Start it \
                 with `sluice start`",
                names(&dead)
            ),
            (false, is_rest_alive) => format!(
                "the router manager in {shown} is dead{}. Still running: {}; the kernel goes on forwarding. `sluice start` brings the \
                 manager back, which takes over what runs",
                if is_rest_alive { String::new() } else { format!(", and so are {}", names(&dead)) },
                names(&alive)
            ),
        }
    }
}

/// Returns false if the file with the components' names exists and is not readable.
fn readable(run_dir: &Path) -> bool {
    let opened = std::fs::File::open(run_dir.join("state.json"));
    !opened.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmanaged(components: &[(&str, bool)]) -> Unmanaged {
        let of = |(name, is_alive): &(&str, bool)| LeftBehind {
            component: (*name).into(),
            pid: 7,
            is_alive: *is_alive,
        };
        Unmanaged { run_dir: "/run/x".into(), components: components.iter().map(of).collect() }
    }

    #[test]
    fn the_dead_and_the_living_are_named() {
        let text = unmanaged(&[("bgp", true), ("rib", false)]).text();
        for part in
            ["manager in /run/x is dead, and so are rib", "running: bgp (process 7)", "`sluice start`"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(unmanaged(&[("bgp", true)]).text().contains("is dead. Still running: bgp"));
        assert!(unmanaged(&[("bgp", false)]).text().contains("its manager and bgp"));
        assert!(unmanaged(&[]).text().contains("no router runs"));
    }
}
