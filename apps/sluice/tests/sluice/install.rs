//! `dist/install`: the installed files, and the errors of a failed installation.

use crate::SLUICE;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/install")
}

fn install(program: &str, destdir: &Path, prefix: &str) -> Output {
    Command::new(script()).arg(program).env("DESTDIR", destdir).env("PREFIX", prefix).output().unwrap()
}

#[test]
fn everything_is_below_destdir_and_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("opt/router");
    // A page of a command that is gone.
    std::fs::create_dir_all(root.join("share/man/man1")).unwrap();
    std::fs::write(root.join("share/man/man1/sluice-gone.1"), "").unwrap();
    let output = install(SLUICE, folder.path(), "/opt/router");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let version = Command::new(root.join("bin/sluice")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("sluice "));
    let holds = |name: &str, text: &str| {
        let written = std::fs::read_to_string(root.join(name)).unwrap();
        assert!(written.contains(text), "{name}");
    };
    holds("share/man/man1/sluice.1", ".TH sluice 1");
    holds("share/man/man1/sluice-show.1", "sluice");
    holds("share/man/man5/sluice.conf.5", "hold\\-time");
    holds("share/bash-completion/completions/sluice", "complete -F");
    holds("share/zsh/site-functions/_sluice", "#compdef sluice");
    holds("share/fish/vendor_completions.d/sluice.fish", "complete -c sluice");
    holds("lib/sluice/python/sluice_xrl/__init__.py", "XRL for Python");
    holds("lib/systemd/system/sluice.service", "ExecStart=/opt/router/bin/sluice start");
    assert!(!root.join("share/man/man1/sluice-gone.1").exists());
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn nothing_but_what_was_installed_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let others = folder.path().join("usr/share/man/man1/other.1");
    std::fs::create_dir_all(others.parent().unwrap()).unwrap();
    std::fs::write(&others, "").unwrap();
    assert!(install(SLUICE, folder.path(), "/usr").status.success());
    assert!(files(folder.path()).len() > 20);
    assert!(install("--remove", folder.path(), "/usr").status.success());
    assert_eq!(files(folder.path()), [others]);
    let again = install("--remove", folder.path(), "/usr");
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing is installed"));
}

/// systemd accepts the unit without a remark.
#[test]
fn the_unit_is_valid() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return sluice_testkit::skipped("systemd is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().display().to_string();
    assert!(install(SLUICE, Path::new(""), &prefix).status.success());
    let unit = folder.path().join("lib/systemd/system/sluice.service");
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("sluice.service"), "{said}");
}

#[test]
fn what_cannot_be_reports_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |output: Output, text: &str| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(text), "{said}");
    };
    refused(install("/nowhere/sluice", folder.path(), "/usr"), "make dist");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    refused(install(SLUICE, &file, "/usr"), "PREFIX or DESTDIR");
}
