//! The pages of `docs/guide/`: the printed commands and outputs are tested. Every command runs as printed, in order, in
//! namespaces of the page's own, with the executable of the current build first in PATH; its output is compared with
//! the page (`docs/guide/README.md` has the rules).

mod compare;
mod page;
mod typing;

use crate::own_host;
use crate::own_host::Host;
use page::{Block, What};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the pages are.
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

#[test]
fn own_protocol() {
    let root = folder().join("../..").canonicalize().unwrap();
    // Shared with the other packages that tests build: what was compiled once is not compiled again.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let folder = tempfile::tempdir().unwrap();
    let built = std::process::Command::new(root.join("examples/distance-vector/build"))
        .arg("rust")
        .arg(folder.path())
        .env("CARGO_TARGET_DIR", &target)
        .env("PROFILE", "dev")
        .env_remove("RUSTFLAGS")
        .status();
    assert!(built.unwrap().success());
    let before = format!(
        "export PROFILE=dev CARGO_TARGET_DIR='{}' && unset RUSTFLAGS && ln -s '{}' sluice",
        target.display(),
        root.display()
    );
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
