//! The features of dependencies: each package by itself has those of the workspace, so that its tests rebuild no dependency.

use crate::metadata;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// Returns a line for each package and dependency whose features differ from the workspace's.
///
/// # Errors
///
/// If cargo cannot be started or fails.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let whole = tree(root, &["--workspace"])?;
    let packages = metadata::packages(root, &["--no-deps", "--offline"])?;
    let names = packages.iter().map(|package| package["name"].as_str().unwrap_or_default());
    let queue = Mutex::new(names.collect::<Vec<_>>());
    let next = || queue.lock().ok().and_then(|mut names| names.pop());
    let work = || -> Result<Vec<String>> {
        let mut found = Vec::new();
        while let Some(name) = next() {
            let own = tree(root, &["-p", name])?;
            found.extend(own.difference(&whole).map(|line| difference(name, line)));
        }
        Ok(found)
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let found = std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended =
            started.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("a thread panicked")));
        ended.collect::<Result<Vec<_>>>()
    })?;
    let mut found = found.concat();
    found.sort();
    Ok(found)
}

fn difference(package: &str, line: &str) -> String {
    format!(
        "{package}: {line} would be built once more; list the features of the workspace in testkit/features/Cargo.toml"
    )
}

/// Returns the dependencies of packages with the features that cargo gives them, a line each.
fn tree(root: &Path, packages: &[&str]) -> Result<BTreeSet<String>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["tree", "--locked", "--offline", "-e", "normal,dev,build"]);
    cargo.args(["--prefix", "none", "-f", "{p} [{f}]"]).args(packages);
    let output = cargo.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(lines(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the lines without the mark of a line that cargo has printed before.
fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_line_is_the_same_dependency() {
        assert_eq!(lines("a v1 [std]\nb v2 []\na v1 [std] (*)\n").len(), 2);
    }
}
