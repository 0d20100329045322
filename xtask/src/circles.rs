//! Circles between the modules of a pure crate. No module of a circle can be read, moved or tested alone.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates with circles older than this check, and the number of modules in circles: a limit to lower.
const OLD_CIRCLES: [(&str, usize); 2] = [("components/rib/core", 9), ("kits/mrt", 2)];

/// Modules of a crate and the modules used by each.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reports cores and kits with more modules in circles than [`OLD_CIRCLES`] allows.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut crates = vec![root.join("base")];
    crates.extend(folders(&root.join("kits"))?);
    crates.extend(folders(&root.join("components"))?.into_iter().map(|component| component.join("core")));
    let mut found = Vec::new();
    for folder in crates {
        let name = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
        let mut uses = Uses::new();
        read(&folder.join("src"), &mut Vec::new(), &mut uses)?;
        let modules = in_circles(&uses);
        let most = OLD_CIRCLES.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most);
        if modules.len() > most {
            found.push(format!(
                "{name}: {} modules use each other in circles, at most {most} may: {}",
                modules.len(),
                modules.join(", ")
            ));
        }
    }
    Ok(found)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Adds the uses of the files below `folder`, the folder of module `path`.
fn read(folder: &Path, path: &mut Vec<String>, uses: &mut Uses) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.path();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem == "tests" || (path.is_empty() && stem == "lib") {
            continue;
        }
        path.push(stem);
        if file.is_dir() {
            read(&file, path, uses)?;
        } else if file.extension().is_some_and(|e| e == "rs") {
            let module = &path[0];
            let mut used = used_modules(&std::fs::read_to_string(&file)?);
            used.remove(module);
            uses.entry(module.clone()).or_default().extend(used);
        }
        path.pop();
    }
    Ok(())
}

/// Returns the modules of the own crate named by a file, outside comments and tests.
fn used_modules(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => first_names(list, &mut used),
            None => used.extend(name(rest)),
        }
    }
    used
}

/// Returns the name at the beginning of a text.
fn name(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Adds the first name of each item of a list in braces, up to the closing brace.
fn first_names(list: &str, used: &mut BTreeSet<String>) {
    let (mut depth, mut begins) = (0, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if c.is_whitespace() => {}
            _ if depth == 0 && begins => {
                used.extend(name(&list[at..]));
                begins = false;
            }
            _ => {}
        }
    }
}

/// Returns the modules on a circle.
fn in_circles(uses: &Uses) -> Vec<String> {
    let reaches_itself = |module: &&String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = uses[*module].iter().collect();
        while let Some(next) = open.pop() {
            if next == *module {
                return true;
            }
            if seen.insert(next) {
                open.extend(uses.get(next).into_iter().flatten());
            }
        }
        false
    };
    uses.keys().filter(reaches_itself).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_use_each_other_are_found() {
        let files = [
            (
                "a",
                "use crate::b::{X, Y};\n// crate::d\nfn f() {}\n#[cfg(test)]\nmod tests {\n use crate::e; }",
            ),
            ("b", "use crate::{\n    c::{Z, d},\n    e,\n};"),
            ("c", "fn g() { crate::a::h(); }"),
            ("e", "use core::fmt;"),
        ];
        let uses: Uses = files.iter().map(|(name, text)| ((*name).to_owned(), used_modules(text))).collect();
        assert_eq!(uses["a"], BTreeSet::from(["b".to_owned()]));
        assert_eq!(uses["b"], BTreeSet::from(["c".to_owned(), "e".to_owned()]));
        assert_eq!(in_circles(&uses), ["a", "b", "c"]);
    }
}
