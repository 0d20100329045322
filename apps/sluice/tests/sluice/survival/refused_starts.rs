//! Starts that cannot succeed: each reports the reason and the remedy, with its exit status, and changes nothing.

use crate::SLUICE;
use sluice_lab::Topology;
use sluice_router_lab::{RouterLab, possible, share};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

/// An ordinary user.
const NOBODY: u32 = 65_534;

/// A folder with a valid configuration, and nothing else.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        place.write("router.conf", "protocols { }");
        // Others may look into it.
        std::fs::set_permissions(place.0.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Starts a router with names inside the folder, by a command that begins with `words`.
    fn start(&self, words: &[&str], config: &str, run_dir: &str) -> Output {
        // A start that is not refused is a failure, and must not run on.
        let mut command = Command::new("timeout");
        command.arg("20").args(words).arg(SLUICE);
        let inside = |name: &str| self.0.path().join(name);
        command.arg("start").arg("--config").arg(inside(config)).arg("--run-dir").arg(inside(run_dir));
        command.output().unwrap()
    }

    /// Checks that the start is refused with the given status and texts, and leaves the folder unchanged.
    fn refused(&self, words: &[&str], config: &str, run_dir: &str, status: i32, texts: &[&str]) {
        let before = self.names();
        let output = self.start(words, config, run_dir);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        for part in texts {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
        assert_eq!(self.names(), before);
    }
}

/// Returns true if the executable can be run as another user here; records a skip if not.
fn can_be_nobody() -> bool {
    let id = NOBODY.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", SLUICE, "--version"])
        .output();
    let can = output.is_ok_and(|o| o.status.success());
    if !can {
        sluice_testkit::skipped(format_args!(
            "{SLUICE} cannot be run as another user (needs root, and a path that all can read)"
        ));
    }
    can
}

#[test]
fn configurations_that_are_not_there_or_not_valid() {
    let place = Place::new();
    place.write("bad.conf", "protocols { bgp { local-as 0; } }");
    place.refused(&[], "none.conf", "run", 4, &["none.conf", "name another with --config"]);
    place.refused(&[], "bad.conf", "run", 4, &["bad.conf:1:28"]);
}

#[test]
fn a_folder_that_cannot_be_made() {
    if nix_root() {
        let place = Place::new();
        place.refused(&[], "router.conf", "router.conf/run", 1, &["router.conf/run", "--run-dir"]);
    } else {
        sluice_testkit::skipped("needs root");
    }
}

fn nix_root() -> bool {
    // The owner of this process's own entry.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// An ordinary user, who may not configure the network.
#[test]
fn a_user_without_rights() {
    if !can_be_nobody() {
        return;
    }
    let id = NOBODY.to_string();
    let nobody = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    let place = Place::new();
    place.refused(&nobody, "router.conf", "run", 7, &["CAP_NET_ADMIN", "start it as root"]);
    // Not even in a folder of the user's own.
    std::fs::create_dir(place.0.path().join("own")).unwrap();
    chown(place.0.path().join("own"), Some(NOBODY), Some(NOBODY)).unwrap();
    place.refused(&nobody, "router.conf", "own", 7, &["CAP_NET_ADMIN", "start it as root"]);
    assert_eq!(std::fs::read_dir(place.0.path().join("own")).unwrap().count(), 0);
    // A file that the user cannot read.
    std::fs::set_permissions(place.0.path().join("router.conf"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    place.refused(&nobody, "router.conf", "own", 4, &["router.conf", "Permission denied", "start as root"]);
}

/// Root whose capabilities were taken away, as in a container.
#[test]
fn root_without_the_right_to_the_network() {
    if !can_be_nobody() {
        return;
    }
    let place = Place::new();
    let words = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"];
    place.refused(&words, "router.conf", "run", 7, &["CAP_NET_ADMIN", "start it as root"]);
}

/// A user who may configure the network, and may not write into the router's folders.
#[test]
fn a_folder_that_is_not_writable() {
    if !can_be_nobody() {
        return;
    }
    let id = NOBODY.to_string();
    let place = Place::new();
    let words = [
        "unshare",
        "--net",
        "setpriv",
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--inh-caps",
        "+net_admin",
        "--ambient-caps",
        "+net_admin",
    ];
    let texts =
        ["cannot make the run-time folder", "/run", "Permission denied", "start as root", "--run-dir"];
    place.refused(&words, "router.conf", "run", 7, &texts);
    std::fs::create_dir_all(place.0.path().join("others/xrl")).unwrap();
    place.refused(&words, "router.conf", "others", 7, &["/others", "start as root", "--run-dir"]);
}

/// Root of a user namespace, in a network outside the namespace.
#[test]
fn root_of_a_user_namespace_in_the_hosts_network() {
    let words = ["unshare", "--user", "--map-root-user"];
    if !Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        return sluice_testkit::skipped("no user namespaces here");
    }
    let place = Place::new();
    place.refused(&words, "router.conf", "run", 7, &["CAP_NET_ADMIN", "network namespace of its own"]);
}

#[test]
fn a_second_router_in_the_same_folder() {
    let _share = share();
    if !possible() {
        return;
    }
    let topology: Topology = "[nodes.sluice]\ndaemon = 'sluice'\nconfig = 'protocols { }'".parse().unwrap();
    let lab = RouterLab::up(&topology, Path::new(SLUICE));
    let mut second = lab.lab.command("sluice", SLUICE).unwrap();
    second.arg("start").arg("--config").arg(lab.lab.dir("sluice").join("config"));
    let second = second.arg("--run-dir").arg(lab.run_dir()).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    for part in ["a router runs already in", &lab.pid("manager").unwrap().to_string(), "--run-dir"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(lab.ready());
}
