//! Rights, users, folders, space, time.

use super::Finding;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use sluice_sandbox::Host;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The free space needed by a router for its state, in octets.
const ENOUGH: u64 = 64 << 20;
/// The earliest plausible time: the beginning of 2024 in Unix seconds. An earlier clock was never set.
const CLOCK_FLOOR: u64 = 1_704_067_200;
/// The bit of CAP_NET_ADMIN (capabilities(7)).
const CAP_NET_ADMIN: u64 = 1 << 12;

/// The default configuration file.
const CONFIGURATION: &str = "/etc/sluice/sluice.conf";

/// Runs the checks of the host.
///
/// `file` is the configuration file of the running router, if one runs.
pub fn findings(run_dir: &Path, file: Option<&Path>) -> Vec<Finding> {
    vec![
        rights(),
        sandbox(),
        folder(run_dir),
        secrets(file.unwrap_or(Path::new(CONFIGURATION))),
        space(run_dir),
        clock(),
        kernel(),
    ]
}

fn rights() -> Finding {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let caps = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    match caps & CAP_NET_ADMIN != 0 {
        true => Finding::ok("rights", "may configure the network (CAP_NET_ADMIN)"),
        false => Finding::fail(
            "rights",
            "may not configure the network",
            "run this and `sluice start` as root, or give CAP_NET_ADMIN",
        ),
    }
}

/// Asks the launcher for the layers of confinement that the host offers to components.
fn sandbox() -> Finding {
    let asked = sluice_process::own_executable()
        .and_then(|own| Command::new(own).args(["confine", "--probe"]).output());
    let host = asked.ok().and_then(|answer| serde_json::from_slice::<Host>(&answer.stdout).ok());
    let missing = host.unwrap_or_default().missing();
    match missing.is_empty() {
        true => {
            Finding::ok("sandbox", "components have users, namespaces, files and system calls of their own")
        }
        false => Finding::warn(
            "sandbox",
            format!("components run without {}", missing.join("; ")),
            "docs/security.md describes what each layer stops, and what it needs",
        ),
    }
}

/// Returns the deepest existing part of a path.
fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|p| p.exists());
    found.map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
}

fn folder(run_dir: &Path) -> Finding {
    let at = existing(run_dir);
    let shown = run_dir.display();
    match access(&at, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) if at == run_dir => Finding::ok("run-dir", format!("{shown} can be written")),
        Ok(()) => Finding::ok("run-dir", format!("{shown} can be made")),
        Err(error) => Finding::fail(
            "run-dir",
            format!("{} cannot be written: {}", at.display(), error.desc()),
            "run as root, or name another folder with --run-dir",
        ),
    }
}

/// Checks the configuration file's permissions against readers, because the file may hold passwords.
fn secrets(file: &Path) -> Finding {
    use std::os::unix::fs::PermissionsExt;
    let shown = file.display();
    let Ok(about) = std::fs::metadata(file) else {
        return Finding::ok("secrets", format!("there is no {shown}"));
    };
    let mode = about.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Finding::ok("secrets", format!("only its owner can read {shown}")),
        _ => Finding::warn(
            "secrets",
            format!(
                "others than its owner can read or write {shown} (mode {mode:04o}), which may hold passwords"
            ),
            format!("chmod 600 {shown}"),
        ),
    }
}

fn space(run_dir: &Path) -> Finding {
    let mut worst: Option<(u64, PathBuf)> = None;
    for path in [run_dir, Path::new("/etc"), Path::new("/var/lib")] {
        let at = existing(path);
        let Ok(about) = statvfs(&at) else { continue };
        // Both are of the width that the system has.
        #[allow(clippy::unnecessary_cast)]
        let free = about.blocks_available() as u64 * about.fragment_size() as u64;
        if worst.as_ref().is_none_or(|(least, _)| free < *least) {
            worst = Some((free, at));
        }
    }
    let Some((free, at)) = worst else { return Finding::warn("space", "is unknown", "look with `df`") };
    let text = format!("{} free at {}", crate::output::bytes(free), at.display());
    match free >= ENOUGH {
        true => Finding::ok("space", text),
        false => Finding::warn("space", text, "free some: state and revisions cannot be kept without"),
    }
}

fn clock() -> Finding {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = sluice_cli::render::time(now * 1000);
    match now >= CLOCK_FLOOR {
        true => Finding::ok("time", text),
        false => Finding::warn("time", text, "set the clock: logs and revisions carry the time"),
    }
}

fn kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // Next-hop objects and what is needed of them are there since 5.3.
    match version >= (5, 3) {
        true => Finding::ok("kernel", format!("Linux {release}")),
        false => {
            Finding::fail("kernel", format!("Linux {release}"), "5.3 or later is needed (next-hop objects)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn a_configuration_that_others_can_read_is_noticed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("sluice-doctor-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("sluice.conf");
        assert_eq!(secrets(&file).outcome, Outcome::Ok);
        std::fs::write(&file, "").unwrap();
        for (mode, outcome) in [(0o600, Outcome::Ok), (0o644, Outcome::Warn), (0o620, Outcome::Warn)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(secrets(&file).outcome, outcome, "{mode:o}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
