//! Interfaces between processes of different versions.
//!
//! A process is replaced while the others run, and a package brings a component of its own: two ends of a call may have other versions of
//! `idl/` and `components/*/idl`. `idl/baseline/PACKAGE.txt` records what each version so far could rely on. An addition has to be recorded.
//! A change that another version would misread is refused; a renewal records it if the changelog names it.

mod comparison;
mod description;
#[cfg(test)]
mod tests;

use crate::protos::{Protos, entries, name};
use anyhow::{Context, Result};
use comparison::{Break, Differences};
use description::{Package, Packages};
use protox::prost_reflect::DescriptorPool;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folder of the recorded descriptions.
const BASELINE: &str = "idl/baseline";
/// The command that records descriptions.
const RENEW: &str = "cargo xtask interfaces --write";

/// Options of `cargo xtask interfaces`.
#[derive(clap::Args)]
pub struct Options {
    /// Records the present interfaces. An incompatible change has to stand in the unreleased part of CHANGELOG.md.
    #[arg(long)]
    write: bool,
}

/// Checks the interfaces, or records them. Returns the problems.
///
/// # Errors
///
/// If a file cannot be read, written or understood.
pub fn run(root: &Path, options: &Options) -> Result<Vec<String>> {
    if options.write { write(root) } else { check(root) }
}

/// Returns the differences between the interfaces and their recorded descriptions.
///
/// # Errors
///
/// If a file cannot be read or understood.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let interfaces = Interfaces::read(root)?;
    let mut problems = Vec::new();
    for (package, found) in interfaces.differences() {
        let files = interfaces.files(&package);
        problems.extend(found.breaks.iter().map(|broken| text(&files, broken)));
        let names: BTreeSet<&str> = found.breaks.iter().map(|broken| broken.name.as_str()).collect();
        if !names.is_empty() {
            problems.push(format!(
                "{files}: to break {package} on purpose, write {} into the unreleased part of CHANGELOG.md, and run `{RENEW}`",
                quoted(names)
            ));
        }
        if !found.additions.is_empty() {
            let additions = found.additions.join(", ");
            problems.push(format!(
                "{files}: {package} has additions that {BASELINE} lacks ({additions}); run `{RENEW}`"
            ));
        }
    }
    Ok(problems)
}

/// Records the interfaces. Writes nothing if it returns problems.
fn write(root: &Path) -> Result<Vec<String>> {
    let interfaces = Interfaces::read(root)?;
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    let unreleased = unreleased(&changelog);
    let mut problems = Vec::new();
    for (package, found) in interfaces.differences() {
        let files = interfaces.files(&package);
        problems.extend(found.breaks.iter().filter(|broken| broken.frees_number).map(|b| text(&files, b)));
        let names: BTreeSet<&str> = found.breaks.iter().map(|broken| broken.name.as_str()).collect();
        for name in names.into_iter().filter(|name| !unreleased.contains(&format!("`{name}`"))) {
            problems.push(format!(
                "CHANGELOG.md: {package} changes incompatibly, and no line of the unreleased part names `{name}`"
            ));
        }
    }
    if problems.is_empty() {
        interfaces.record(root)?;
    }
    Ok(problems)
}

/// Returns the part of a changelog below the heading of the unreleased version; empty without one.
fn unreleased(changelog: &str) -> &str {
    let mut parts = changelog.split("\n## ").skip(1);
    parts
        .find(|part| part.lines().next().is_some_and(|title| title.contains("unreleased")))
        .unwrap_or_default()
}

fn text(files: &str, broken: &Break) -> String {
    let Break { place, was, now, remedy, .. } = broken;
    format!("{files}: {place}: {was}, {now}; {remedy}")
}

fn quoted(names: BTreeSet<&str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(" and ")
}

/// The interfaces of a tree, and their recorded descriptions.
struct Interfaces {
    present: Packages,
    recorded: Packages,
    /// The files of each package.
    files: BTreeMap<String, Vec<String>>,
}

impl Interfaces {
    fn read(root: &Path) -> Result<Interfaces> {
        let Protos { files: sources, set } = Protos::compile(root)?;
        let pool = DescriptorPool::from_file_descriptor_set(set)?;
        let present = description::describe(&pool, |file| sources.contains_key(file));
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in pool.files() {
            let path = sources.get(file.name()).and_then(|path| path.strip_prefix(root).ok());
            let paths = files.entry(file.package_name().to_owned()).or_default();
            paths.extend(path.map(|path| path.display().to_string()));
        }
        Ok(Interfaces { present, recorded: recorded(root)?, files })
    }

    /// Returns the files of a package, for messages.
    fn files(&self, package: &str) -> String {
        match self.files.get(package) {
            Some(files) => files.join(", "),
            None => path(package),
        }
    }

    /// Returns the packages that differ from their recorded description.
    fn differences(&self) -> Vec<(String, Differences)> {
        let nothing = Package::default();
        let names: BTreeSet<&String> = self.present.keys().chain(self.recorded.keys()).collect();
        let compare = |name: &String| {
            let recorded = self.recorded.get(name).unwrap_or(&nothing);
            let present = self.present.get(name).unwrap_or(&nothing);
            comparison::compare(name, recorded, present)
        };
        let all = names.into_iter().map(|name| (name.clone(), compare(name)));
        all.filter(|(_, found)| !found.additions.is_empty() || !found.breaks.is_empty()).collect()
    }

    fn record(&self, root: &Path) -> Result<()> {
        std::fs::create_dir_all(root.join(BASELINE))?;
        for name in self.recorded.keys().filter(|name| !self.present.contains_key(*name)) {
            std::fs::remove_file(root.join(path(name))).with_context(|| path(name))?;
        }
        for (name, package) in &self.present {
            let text =
                format!("# What other versions know of {name}. `{RENEW}` writes this file.\n{package}");
            std::fs::write(root.join(path(name)), text).with_context(|| path(name))?;
        }
        Ok(())
    }
}

/// Returns the path of a package's recorded description, below the root.
fn path(package: &str) -> String {
    format!("{BASELINE}/{package}.txt")
}

fn recorded(root: &Path) -> Result<Packages> {
    let folder = root.join(BASELINE);
    let mut found = Packages::new();
    for file in if folder.is_dir() { entries(&folder)? } else { Vec::new() } {
        let text = std::fs::read_to_string(&file)?;
        let package = text.parse().with_context(|| file.display().to_string())?;
        found.insert(name(&file).trim_end_matches(".txt").to_owned(), package);
    }
    Ok(found)
}
