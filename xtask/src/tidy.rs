//! Rules of the house about files: sizes, names, forbidden content, broken links.

use anyhow::Result;
use std::path::{Path, PathBuf};

/// Files are seldom longer. Longer files are listed here with their length, and may shrink but not grow.
const LINES: usize = 600;
const OLD_SINS: &[(&str, usize)] = &[];

/// The most Rust files of a folder. Fuller folders are listed with their number, and may shrink but not grow.
const FILES: usize = 20;
const FULL_FOLDERS: &[(&str, usize)] = &[("apps/sluice/tests/sluice", 56)];

/// Meaningless names.
const EMPTY_NAMES: [&str; 5] = ["utils.rs", "util.rs", "common.rs", "misc.rs", "helpers.rs"];

/// Returns the broken rules, in words.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    for file in &files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_string();
        let shown = file.display();
        if EMPTY_NAMES.contains(&name.as_str()) {
            found.push(format!("{shown}: a name without a meaning; name the file after its noun"));
        }
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        match file.extension().and_then(|e| e.to_str()) {
            Some("rs") => rust(&shown.to_string(), &text, &mut found),
            Some("md") => links(root, file, &text, &mut found),
            _ => {}
        }
    }
    found.extend(test_programs(&files));
    found.extend(full_folders(&files));
    for component in list(&root.join("components"))? {
        for needed in ["README.md", "rights.toml", "core/src/lib.rs", "process/src/lib.rs"] {
            if !component.join(needed).exists() {
                found.push(format!("{}: {needed} is missing", component.strip_prefix(root)?.display()));
            }
        }
    }
    Ok(found)
}

/// A crate has one test program, `tests/NAME/main.rs` with a module for each subject: each further program would be linked with the
/// whole crate once more.
fn test_programs(files: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    let mut programs = std::collections::BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let Some(folder) = file.ancestors().find(|folder| folder.ends_with("tests")) else { continue };
        let inside = file.strip_prefix(folder).unwrap_or(file);
        match inside.components().count() {
            1 if !folder.components().any(|part| part.as_os_str() == "src") => {
                found.push(format!(
                    "{}: a module of the crate's one test program, tests/NAME/main.rs",
                    file.display()
                ));
            }
            2 if inside.ends_with("main.rs") => {
                let programs: &mut Vec<_> = programs.entry(folder.to_owned()).or_default();
                programs.push(file.display().to_string());
            }
            _ => {}
        }
    }
    found.extend(
        programs
            .into_values()
            .filter(|all| all.len() > 1)
            .map(|all| format!("{}: one test program a crate", all.join(", "))),
    );
    found
}

/// Returns the folders with too many Rust files, and those on the list that have become emptier.
fn full_folders(files: &[PathBuf]) -> Vec<String> {
    let mut folders = std::collections::BTreeMap::<String, usize>::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let folder = file.parent().unwrap_or(Path::new("")).display().to_string();
        *folders.entry(folder).or_default() += 1;
    }
    let limit = |folder: &str| {
        FULL_FOLDERS.iter().find(|(full, _)| *full == folder).map_or(FILES, |(_, files)| *files)
    };
    let full = folders.iter().filter(|(folder, files)| **files > limit(folder));
    let full = full.map(|(folder, files)| {
        format!("{folder}: {files} files; a folder has at most {}: find the folders in it", limit(folder))
    });
    let emptier =
        FULL_FOLDERS.iter().filter(|(folder, files)| folders.get(*folder).is_none_or(|now| now < files));
    full.chain(emptier.map(|(folder, _)| format!("{folder}: fewer files; lower the list of full folders")))
        .collect()
}

/// Returns true if a line has a `Result` whose error is a `String`.
fn has_string_error(line: &str) -> bool {
    line.match_indices("Result<").any(|(at, _)| {
        let mut depth = 0_usize;
        let mut error = at;
        for (place, c) in line[at..].char_indices() {
            match c {
                '<' | '(' => depth += 1,
                '>' | ')' if depth == 1 => return line[error..at + place].trim() == "String",
                '>' | ')' => depth -= 1,
                ',' if depth == 1 => error = at + place + 1,
                _ => {}
            }
        }
        false
    })
}

fn rust(shown: &str, text: &str, found: &mut Vec<String>) {
    let lines = text.lines().count();
    let limit = OLD_SINS.iter().find(|(file, _)| *file == shown).map_or(LINES, |(_, lines)| *lines);
    if lines > limit {
        found.push(format!("{shown}: {lines} lines; one idea a file, at most {limit}"));
    }
    if !text.starts_with("//!") && !shown.contains("tests") && !shown.ends_with("_tests.rs") {
        found.push(format!("{shown}: a file begins with what it is (`//!`)"));
    }
    let marker = ["TO", "DO"].concat();
    if text.contains(&format!("{marker}:")) || text.contains(&format!("// {marker}")) {
        found.push(format!("{shown}: no {marker} is left behind"));
    }
    if shown.starts_with("xtask") {
        return; // the rules below are written here
    }
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    if !shown.contains("tests") && code.lines().any(has_string_error) {
        found.push(format!("{shown}: an error is a String; write an enum of what can go wrong"));
    }
    let is_ffi = shown.contains("ffi") || text.contains("#![allow(unsafe_code)]");
    if !is_ffi && text.lines().any(|l| l.trim_start().starts_with("unsafe ") || l.contains("= unsafe {")) {
        found.push(format!("{shown}: unsafe outside an FFI room"));
    }
    if is_ffi {
        let unsafes = text.lines().filter(|l| l.contains("unsafe {") || l.contains("unsafe impl")).count();
        let reasons = text.lines().filter(|l| l.contains("SAFETY:")).count();
        if unsafes > reasons {
            found.push(format!("{shown}: {unsafes} unsafe blocks, {reasons} SAFETY lines"));
        }
    }
}

/// Relative links of a document must lead somewhere.
fn links(root: &Path, file: &Path, text: &str, found: &mut Vec<String>) {
    let folder = root.join(file).parent().map(PathBuf::from).unwrap_or_default();
    for part in text.split("](").skip(1) {
        let Some(target) = part.split(')').next() else { continue };
        let target = target.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        if !folder.join(target).exists() {
            found.push(format!("{}: the link to {target} leads nowhere", file.display()));
        }
    }
    // "Where to change what": paths in backticks in the tables must exist.
    let Some((_, section)) = text.split_once("\n## Where to change what\n") else { return };
    for line in section.lines().take_while(|l| !l.starts_with("## ")).filter(|l| l.starts_with('|')) {
        for word in line.split('`').skip(1).step_by(2) {
            let looks_like_a_path = word.contains('/') && !word.contains([' ', '<', '*', ':', '(', '{']);
            if looks_like_a_path && !root.join(word).exists() {
                found.push(format!("{}: `{word}` does not exist", file.display()));
            }
        }
    }
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder)?.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.is_dir()).collect();
    all.sort();
    Ok(all)
}

/// Lists the files below a folder, relative to the root; hidden ones, build outputs and corpora are left out.
pub fn walk(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if name.starts_with('.') || name.starts_with("target") || name == "corpus" || name == "__pycache__" {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files)?;
        } else {
            files.push(path.strip_prefix(root)?.to_path_buf());
        }
    }
    Ok(())
}
