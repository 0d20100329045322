//! Circles between modules: of the modules of one folder, none can be read, moved or tested without the others of its circle.
//!
//! All crates and all levels are looked at. A module uses a neighbor in its folder if any file of the one names anything of the other:
//! by `crate::`, `super::` or `self::`, or by a name that a module between them imports. A parent and its children are no circle: a
//! folder's own file names its modules by design.

mod circles_of;
mod names;

use anyhow::Result;
use circles_of::circles;
use names::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The circles that are left, by folder of modules: the sizes, largest first. The list may shrink; a new folder of modules has none.
const LEFT: &[(&str, &[usize])] = &[
    ("apps/sluice/src", &[2]),
    ("apps/sluice/src/configuration", &[2]),
    ("apps/sluice/src/manual", &[2]),
    ("apps/sluice/src/show", &[2]),
    ("bench/bgp/src", &[3]),
    ("bench/fib/src", &[2]),
    ("bench/xrl/src", &[2]),
    ("components/fea/process/src/xdp", &[2]),
    ("components/rib/core/src/decide", &[2]),
    ("kits/mrt/src", &[2]),
    ("platform/xrl/src/client", &[2]),
    ("tools/bgpsim/src", &[3, 2]),
    ("tools/lab/src", &[2, 2]),
    ("tools/pktgen/src", &[2, 2]),
    ("tools/policy/src", &[2]),
    ("tools/sim/src", &[2]),
];

/// Folders of the repository with crates of the workspace.
const ROOMS: [&str; 10] =
    ["base", "kits", "platform", "components", "apps", "tools", "bench", "testkit", "fuzz", "xtask"];

/// A module by the names on its way from the crate: empty for the crate itself.
type Module = Vec<String>;

/// The modules of a folder and the neighbors that each uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reports circles that are not in [`LEFT`], and entries of the list that are larger than the circles.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut unseen: BTreeMap<&str, &[usize]> = LEFT.iter().copied().collect();
    for folder in crates(root)? {
        for (level, uses) in levels(&folder.join("src"))? {
            let place = folder.join("src").join(level.join("/"));
            let name = place.strip_prefix(root).unwrap_or(&place).display().to_string();
            let circles = circles(&uses);
            let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
            let known = unseen.remove(name.as_str()).unwrap_or_default();
            if sizes == known {
                continue;
            }
            let members: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
            let is_smaller = sizes.len() <= known.len() && sizes.iter().zip(known).all(|(a, b)| a <= b);
            found.push(match is_smaller {
                true => {
                    format!("{name}: circles of {sizes:?} modules are left; lower the list from {known:?}")
                }
                false => {
                    format!("{name}: modules use each other in circles of {sizes:?}: {}", members.join("; "))
                }
            });
        }
    }
    found.extend(unseen.keys().map(|name| format!("{name}: no circles are left; remove it from the list")));
    Ok(found)
}

/// Returns the folders of all crates.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut open: Vec<PathBuf> = ROOMS.iter().map(|room| root.join(room)).collect();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        if folder.join("Cargo.toml").exists() && folder.join("src").exists() {
            found.push(folder.clone());
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let is_of_crate = ["src", "tests", "target"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_of_crate {
                open.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the uses of each folder of modules in a crate, by the module that the folder belongs to.
fn levels(source: &Path) -> Result<BTreeMap<Module, Uses>> {
    let mut files = BTreeMap::new();
    read(source, &mut Vec::new(), &mut files)?;
    let modules: BTreeSet<Module> =
        (files.keys()).flat_map(|module| (0..=module.len()).map(|depth| module[..depth].to_vec())).collect();
    let names: BTreeMap<&Module, Names> =
        files.iter().map(|(module, text)| (module, Names::of(text, module, &modules))).collect();
    let mut levels = BTreeMap::<Module, Uses>::new();
    for (module, used) in &names {
        for path in used.paths() {
            let target = names::resolve(path, &modules, &names);
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let uses = levels.entry(module[..shared].to_vec()).or_default();
                uses.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    Ok(levels)
}

/// Adds the texts of the files below a folder, by module. Tests are left out.
fn read(folder: &Path, path: &mut Module, files: &mut BTreeMap<Module, String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_test = stem == "tests" || stem.ends_with("_tests");
        if is_test || (path.is_empty() && stem == "bin") {
            continue;
        }
        if file.is_dir() {
            path.push(stem);
            read(&file, path, files)?;
            path.pop();
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let is_own = stem == "mod" || (path.is_empty() && (stem == "lib" || stem == "main"));
            let own = if is_own { None } else { Some(stem) };
            let module = path.iter().cloned().chain(own).collect();
            files.entry(module).or_default().push_str(&std::fs::read_to_string(&file)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn circles_of_every_level_are_found() {
        let folder = std::env::temp_dir().join(format!("sluice-circles-{}", std::process::id()));
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::Both;\nuse a::inner::One;\npub struct Own(One, Both);"),
            ("a/mod.rs", "pub mod inner;\nmod outer;\nmod last;\nuse outer::Thing;\n"),
            ("a/inner.rs", "use super::Thing;\nuse crate::Own;\npub struct One;"),
            ("a/outer.rs", "use super::{\n    inner::{One, self},\n    last,\n};\npub struct Thing;"),
            (
                "a/last.rs",
                "// use super::outer::Thing;\n#[cfg(test)]\nmod tests {\n use super::super::outer; }",
            ),
            ("b.rs", "fn f() -> crate::a::inner::One { loop {} }\npub struct Both;"),
            ("c.rs", "use crate::{Both, d::D};"),
            ("d.rs", "use crate::c;"),
        ];
        for (name, text) in files {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        let levels = levels(&folder);
        fs::remove_dir_all(&folder).expect("the folder goes");
        let all: Vec<(String, Vec<Vec<String>>)> =
            levels.expect("levels").iter().map(|(level, uses)| (level.join("/"), circles(uses))).collect();
        let circle = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            all,
            [(String::new(), vec![circle(&["c", "d"])]), ("a".to_owned(), vec![circle(&["inner", "outer"])])]
        );
    }
}
