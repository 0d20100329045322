//! The unit for systemd and the packages: hardened, reproducible, complete.

use crate::SLUICE;
use sluice_lab::{Lab, LabOptions, Topology, available, until};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The highest exposure that `systemd-analyze security` calls OK, in tenths.
const OK: u32 = 49;

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(name)
}

fn unit() -> String {
    std::fs::read_to_string(dist("sluice.service")).unwrap().replace("@PREFIX@", "/usr")
}

/// Returns a setting of the unit.
fn setting(name: &str) -> String {
    let unit = unit();
    let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn the_unit_is_hardened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluice.service");
    std::fs::write(&file, unit()).unwrap();
    let analyzed =
        Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).arg(file).output();
    let Ok(analyzed) = analyzed else { return sluice_testkit::skipped("systemd-analyze is not installed") };
    let text = String::from_utf8_lossy(&analyzed.stdout);
    let line =
        text.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_else(|| panic!("{text}"));
    let level = line.split_whitespace().find_map(|word| {
        let (whole, tenths) = word.split_once('.')?;
        Some(whole.parse::<u32>().ok()? * 10 + tenths.parse::<u32>().ok()?)
    });
    assert!(level.is_some_and(|level| level <= OK), "{line}");
    let said = String::from_utf8_lossy(&analyzed.stderr);
    assert!(!said.contains("Unknown"), "{said}");
}

/// The router has the unit's capabilities and no more, and confines every component all the same.
#[test]
fn a_router_works_with_the_units_capabilities() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = folder.path().join("router.conf");
    std::fs::write(&file, "protocols { static { route 192.0.2.0/24 { discard; } } bgp { local-as 65001; router-id 192.0.2.1; } }\n")
        .unwrap();
    let mut lab =
        Lab::up(&"[nodes.host]\n".parse::<Topology>().unwrap(), LabOptions::unique("unit")).unwrap();
    let capabilities: Vec<String> = setting("CapabilityBoundingSet")
        .split(' ')
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    assert_eq!(setting("NoNewPrivileges"), "yes");
    let mut start = lab.command("host", "setpriv").unwrap();
    start.arg(format!("--bounding-set=-all,{}", capabilities.join(","))).args([
        "--no-new-privs",
        SLUICE,
        "start",
    ]);
    start.arg("--config").arg(&file).arg("--run-dir").arg(folder.path().join("run"));
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    start.stdout(log.try_clone().unwrap()).stderr(log);
    lab.spawn("host", "router", start).unwrap();
    let run = |words: &[&str]| {
        let mut command = lab.command("host", SLUICE).unwrap();
        command.args(words).arg("--run-dir").arg(folder.path().join("run")).output().unwrap()
    };
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    assert!(until(Duration::from_secs(30), || run(&["status"]).status.success()), "{}", log());
    let restarted = run(&["restart", "bgp"]);
    assert!(restarted.status.success(), "{}\n{}", String::from_utf8_lossy(&restarted.stderr), log());
    let shown: serde_json::Value =
        serde_json::from_slice(&run(&["show", "security", "--json"]).stdout).unwrap();
    let processes = shown["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 4, "{shown:#}");
    for process in processes {
        assert!(process["confined"] == true && process["uid"].is_u64(), "{process:#}");
    }
    assert!(run(&["stop"]).status.success());
}

/// Makes the packages of the executable under test into a folder, quickly.
fn package(into: &Path) {
    let made = Command::new(dist("package"))
        .arg(SLUICE)
        .arg(into)
        .envs([
            ("ANY_LIBRARY", "1"),
            ("ZSTD_LEVEL", "1"),
            ("DEB_COMPRESSION", "none"),
            ("SOURCE_DATE_EPOCH", "1700000000"),
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn packages_are_whole_and_the_same_each_time() {
    for program in ["dpkg-deb", "zstd", "objcopy"] {
        if Command::new(program).arg("--version").output().is_err() {
            return sluice_testkit::skipped(format_args!("{program} is not installed"));
        }
    }
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    folders.iter().for_each(|folder| package(folder.path()));
    let sums = folders.each_ref().map(|folder| {
        let listed =
            Command::new("sh").args(["-c", "sha256sum *"]).current_dir(folder.path()).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].lines().count(), 3, "{}", sums[0]);
    let deb = std::fs::read_dir(folders[0].path())
        .unwrap()
        .flatten()
        .find(|e| e.path().extension() == Some("deb".as_ref()));
    let deb = deb.unwrap().path();
    let shown = |what: &str| {
        let output = Command::new("dpkg-deb").arg(what).arg(&deb).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let contents = shown("--contents");
    for file in [
        "./usr/bin/sluice",
        "./usr/share/man/man1/sluice.1.gz",
        "./usr/share/man/man5/sluice.conf.5.gz",
        "./usr/lib/systemd/system/sluice.service",
        "./usr/lib/sysctl.d/60-sluice.conf",
        "./usr/lib/sluice/python/sluice_xrl/__init__.py",
        "./usr/share/bash-completion/completions/sluice",
        "./usr/share/doc/sluice/copyright",
        "./etc/default/sluice",
    ] {
        assert!(contents.contains(&format!("{file}\n")), "{file} is not in\n{contents}");
    }
    assert!(contents.lines().all(|line| line.contains("root/root")), "{contents}");
    let field = shown("--info");
    assert!(field.contains("Architecture: amd64") && field.contains("Depends: libc6 (>= 2."), "{field}");
}
