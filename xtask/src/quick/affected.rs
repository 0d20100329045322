//! Crates that a change may break, and the quick ones among them.

use crate::layers;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::path::{Component, Path, PathBuf};

/// The crate that makes namespaces and virtual links: crates with labs depend on it.
const LAB: &str = "sluice-lab";
/// Crates that are quick although they depend on the lab: a few of their tests need it, most simulate.
const QUICK: [&str; 2] = ["tools/sim", "xtask"];
/// Folders that are never quick: applications, measurements, a build of all decoders, and another build of BGP's core for
/// a single long model.
const SLOW: [&str; 3] = ["apps/", "bench/", "fuzz"];

/// A crate of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crate {
    pub name: String,
    /// Folder below the root.
    folder: String,
    /// Folders with the crate's sources: its own, and those of targets elsewhere.
    sources: BTreeSet<String>,
    /// Crates of the workspace, dev-dependencies and build dependencies with them.
    dependencies: BTreeSet<String>,
}

impl Display for Crate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.folder)
    }
}

/// Crates that a change affects.
#[derive(Default)]
pub struct Affected<'a> {
    pub tested: Vec<&'a Crate>,
    /// Processes, applications, benchmarks and crates with labs.
    pub left_out: Vec<&'a Crate>,
    /// Changed files outside all crates.
    pub unowned: Vec<String>,
}

/// Returns the workspace's crates in the output of `cargo metadata --no-deps`.
pub fn crates(root: &Path, packages: &[Value]) -> Result<Vec<Crate>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let folder_of = |file: &Value| -> Result<String> {
        let file = text(file);
        let folder = normal(Path::new(&file).parent().unwrap_or(root));
        Ok(folder.strip_prefix(root)?.display().to_string())
    };
    let names: BTreeSet<String> = packages.iter().map(|package| text(&package["name"])).collect();
    let mut crates = Vec::new();
    for package in packages {
        let folder = folder_of(&package["manifest_path"])?;
        let mut sources = BTreeSet::from([folder.clone()]);
        for target in package["targets"].as_array().into_iter().flatten() {
            let source = folder_of(&target["src_path"])?;
            if !is_below(&source, &folder) {
                sources.insert(source);
            }
        }
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.map(|dependency| text(&dependency["name"]));
        let dependencies = dependencies.filter(|name| names.contains(name)).collect();
        crates.push(Crate { name: text(&package["name"]), folder, sources, dependencies });
    }
    crates.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(crates)
}

/// Removes each `..` with the folder before it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

fn is_below(file: &str, folder: &str) -> bool {
    file == folder || file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the crates that own a changed file, and the crates that depend on them.
pub fn affected<'a>(crates: &'a [Crate], files: &[String]) -> Affected<'a> {
    let mut unowned = Vec::new();
    let mut changed: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        let owners = owners(crates, file);
        if owners.is_empty() {
            unowned.push(file.clone());
        }
        changed.extend(owners);
    }
    let (mut tested, mut left_out) = (Vec::new(), Vec::new());
    for krate in crates {
        let reached = closure(crates, &krate.name);
        if !reached.iter().any(|name| changed.contains(name)) {
            continue;
        }
        if is_quick(krate, &reached) { tested.push(krate) } else { left_out.push(krate) }
    }
    Affected { tested, left_out, unowned }
}

/// Returns the crates that own a file: the crate with the innermost folder, and crates with a target's source beside the
/// file.
fn owners<'a>(crates: &'a [Crate], file: &str) -> Vec<&'a str> {
    let inner = crates
        .iter()
        .filter(|krate| is_below(file, &krate.folder))
        .max_by_key(|krate| krate.folder.len())
        .map(|krate| krate.folder.as_str());
    let owns = |krate: &&Crate| -> bool {
        let outside = krate.sources.iter().filter(|folder| **folder != krate.folder);
        inner == Some(krate.folder.as_str()) || outside.into_iter().any(|folder| is_below(file, folder))
    };
    crates.iter().filter(owns).map(|krate| krate.name.as_str()).collect()
}

/// Returns a crate and all crates that it depends on, directly or through others.
fn closure<'a>(crates: &'a [Crate], name: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![name];
    while let Some(name) = next.pop() {
        if reached.insert(name)
            && let Some(krate) = crates.iter().find(|krate| krate.name == name)
        {
            next.extend(krate.dependencies.iter().map(String::as_str));
        }
    }
    reached
}

/// Returns true for crates whose tests need no lab and no process: pure layers, and libraries and tools that do not reach
/// the lab through any dependency. The table of layers decides what is pure and what is a process.
fn is_quick(krate: &Crate, reached: &BTreeSet<&str>) -> bool {
    let folder = krate.folder.as_str();
    if layers::is_process(folder) || SLOW.iter().any(|prefix| folder.starts_with(prefix)) {
        return false;
    }
    layers::is_pure(folder) || QUICK.contains(&folder) || !reached.contains(LAB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;

    fn krate(name: &str, folder: &str, outside: &[&str], dependencies: &[&str]) -> Crate {
        Crate {
            name: name.into(),
            folder: folder.into(),
            sources: outside.iter().chain([&folder]).map(|folder| folder.to_string()).collect(),
            dependencies: dependencies.iter().map(|name| name.to_string()).collect(),
        }
    }

    fn workspace() -> Vec<Crate> {
        vec![
            krate("sluice", "apps/sluice", &[], &["bgp-process", "sluice-lab"]),
            krate("base", "base", &[], &[]),
            krate("bgp", "components/bgp/core", &[], &["base"]),
            krate("variant", "components/bgp/core/variant", &["components/bgp/core/src"], &["base"]),
            krate("bgp-process", "components/bgp/process", &[], &["bgp"]),
            krate("sluice-lab", "tools/lab", &[], &[]),
            krate("policy", "tools/policy", &[], &["bgp"]),
            krate("sim", "tools/sim", &[], &["bgp", "sluice-lab"]),
        ]
    }

    fn names(crates: &[&Crate]) -> Vec<String> {
        crates.iter().map(|krate| krate.name.clone()).collect()
    }

    #[test]
    fn a_change_in_a_core_affects_all_dependents() {
        let crates = workspace();
        let found = affected(&crates, &["components/bgp/core/src/lib.rs".into()]);
        assert_eq!(names(&found.tested), ["bgp", "variant", "policy", "sim"]);
        assert_eq!(names(&found.left_out), ["sluice", "bgp-process"]);
        let found = affected(&crates, &["base/src/lib.rs".into()]);
        assert_eq!(names(&found.tested), ["base", "bgp", "variant", "policy", "sim"]);
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let crates = workspace();
        let found = affected(&crates, &["components/bgp/core/variant/Cargo.toml".into()]);
        assert_eq!((names(&found.tested), found.left_out.len()), (vec!["variant".into()], 0));
        let found = affected(&crates, &["components/bgp/core/tests/sessions.rs".into()]);
        assert_eq!(names(&found.tested), ["bgp", "policy", "sim"]);
        let found = affected(&crates, &["tools/notes.md".into(), "README.md".into()]);
        assert!(found.tested.is_empty() && found.left_out.is_empty());
        assert_eq!(found.unowned, ["tools/notes.md", "README.md"]);
    }

    #[test]
    fn the_lab_makes_its_dependents_slow() {
        let crates = workspace();
        let found = affected(&crates, &["tools/lab/src/lib.rs".into()]);
        assert_eq!(
            (names(&found.tested), names(&found.left_out)),
            (vec!["sim".into()], vec!["sluice".into(), "sluice-lab".into()])
        );
    }

    #[test]
    fn the_crates_of_this_workspace_are_read() {
        let root = crate::root();
        let crates = crates(&root, &metadata::packages(&root, &["--no-deps", "--offline"]).unwrap()).unwrap();
        let found = affected(&crates, &["components/bgp/core/src/lib.rs".into()]);
        let tested: Vec<&str> = found.tested.iter().map(|krate| krate.folder.as_str()).collect();
        for folder in ["components/bgp/core", "tools/sim"] {
            assert!(tested.contains(&folder), "{folder} is not in {tested:?}");
        }
        let left_out: Vec<&str> = found.left_out.iter().map(|krate| krate.folder.as_str()).collect();
        for folder in ["apps/sluice", "components/bgp/process"] {
            assert!(left_out.contains(&folder), "{folder} is not in {left_out:?}");
        }
    }
}
