//! The pages of `docs/guide/`: the printed commands and outputs are tested. Every command runs as printed, in order, in
//! namespaces of the page's own, with the executable of the current build first in PATH; its output is compared with
//! the page (`docs/guide/README.md` has the rules).

mod compare;
mod page;
mod typing;

use crate::own_host;
use crate::own_host::Host;
use page::{Block, What};
use sluice_testkit::workspace::{self, Workspace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the pages.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

/// Runs a page from the first line to the last.
fn follow(name: &str, needs: &[&str]) {
    follow_after(name, needs, "true");
}

/// Runs a page after a command that makes what the page presupposes.
fn follow_after(name: &str, needs: &[&str], before: &str) {
    if let Err(reason) = own_host::possible(needs) {
        sluice_testkit::skipped(reason);
        return;
    }
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let blocks =
        page::read(&text).unwrap_or_else(|(line, reason)| panic!("docs/guide/{name}:{line}: {reason}"));
    let mut host = Host::new();
    let (said, status) = host.shell(before).unwrap();
    assert_eq!(status, 0, "{said}");
    let mut running = Vec::new();
    let check = |line: usize, done: Result<(), String>| {
        done.unwrap_or_else(|reason| panic!("docs/guide/{name}:{line}: {reason}"));
    };
    for Block { line, what } in blocks {
        match what {
            What::File { path, text } => check(line, host.write(&path, &text)),
            What::Command(command) if command.runs_on => {
                let started = host.start(&command.text);
                running.extend(started.as_ref().ok().map(|file| (line, command, file.clone())));
                check(line, started.map(drop));
            }
            What::Command(command) => check(line, typing::run(&mut host, &command)),
        }
    }
    for (line, command, file) in running {
        check(line, typing::came(&command, &file));
    }
}

#[test]
fn first_router() {
    follow("first-router.md", &[]);
}

#[test]
fn two_border_routers() {
    follow("two-border-routers.md", &["bird", "/usr/lib/frr/bgpd"]);
}

#[test]
fn reading_the_router() {
    follow("reading-the-router.md", &["bird"]);
}

#[test]
fn changing_it_safely() {
    follow("changing-it-safely.md", &["bird"]);
}

#[test]
fn policies() {
    follow("policies.md", &["bird"]);
}

#[test]
fn upgrading_it() {
    follow("upgrading-it.md", &["bird"]);
}

#[test]
fn forwarding_by_xdp() {
    follow("forwarding-by-xdp.md", &["nft"]);
}

#[test]
fn cluster() {
    follow("cluster.md", &["ping"]);
}

#[test]
fn rpki() {
    follow("rpki.md", &["bird", "stayrtr"]);
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success(), "{}", from.display());
}

#[test]
fn own_protocol() {
    const EXAMPLE: &str = "examples/distance-vector";
    let sluice = Path::new(crate::SLUICE);
    let root = folder().join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::copy(&root, folder.path(), &["examples"]).unwrap();
    std::fs::create_dir(folder.path().join("examples")).unwrap();
    copy(&root.join(EXAMPLE), &folder.path().join("examples"));
    let rust = folder.path().join(EXAMPLE).join("rust");
    // By itself, the program is a workspace of its own: cargo finds all that it depends on.
    std::fs::copy(root.join("Cargo.lock"), rust.join("Cargo.lock")).unwrap();
    let found = std::process::Command::new("cargo")
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(&rust)
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let manifest = std::fs::read_to_string(rust.join("Cargo.toml")).unwrap();
    let (manifest, _) = manifest.split_once("[profile.").unwrap();
    std::fs::write(rust.join("Cargo.toml"), manifest.replacen("[workspace]", "", 1)).unwrap();
    workspace.add(&[&format!("{EXAMPLE}/rust")], (&format!("{EXAMPLE}/rust"), "dv")).unwrap();

    let variables = [
        ("CARGO_COMMAND", Workspace::arguments("dv").join(" ")),
        ("CARGO_TARGET_DIR", workspace::target(sluice).display().to_string()),
        ("PROFILE", workspace::profile(sluice).to_owned()),
    ];
    let built = std::process::Command::new(folder.path().join(EXAMPLE).join("build"))
        .arg("rust")
        .arg(folder.path().join("built"))
        .envs(variables.clone())
        .status();
    assert!(built.unwrap().success());
    let variables = variables.map(|(name, value)| format!("{name}='{value}'"));
    let before = format!("export {} && ln -s '{}' sluice", variables.join(" "), folder.path().display());
    follow_after("own-protocol.md", &["python3", "cargo"], &before);
}

#[test]
fn no_page_is_left_out() {
    let names = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = names.filter(|name| name != "README.md").collect();
    let run = include_str!("mod.rs");
    let run: BTreeSet<String> = ["follow(\"", "follow_after(\""]
        .into_iter()
        .flat_map(|call| run.split(call).skip(1))
        .filter_map(|rest| rest.split_once('"'))
        .map(|(name, _)| name.into())
        .collect();
    assert_eq!(there, run.into_iter().filter(|name| name.ends_with(".md")).collect());
}
