//! The price of a protocol outside its folder: rows in tables, and no line of code besides.
//!
//! The platform is to know no protocol by name. Counted are the lines of the platform's code that name a protocol: its crates, or its
//! name as a word of a string. Comments, tests, Markdown-like examples in backquotes, and the files with examples for people do not count.

use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders that are to know no protocol.
const PLATFORM: &[&str] = &[
    "apps/sluice",
    "base/src",
    "components/fea",
    "components/manager",
    "components/rib",
    "kits",
    "platform",
    "tools/cli/src",
    "tools/console",
];
/// Components that are the platform's own.
const NO_PROTOCOLS: &[&str] = &["fea", "guard", "manager", "rib"];
/// Files with examples for people, and a format that is a protocol's own.
const EXAMPLES: &[&str] = &["apps/sluice/src/manual/pages.rs", "apps/sluice/src/manual/conf_page.rs"];
/// Tables of XDP programs and their slots: a program may have its component's name.
const PROGRAMS: &[&str] = &[
    "components/fea/core/src/xdp/programs.rs",
    "platform/bpf/build.rs",
    "platform/bpf/src/embedded.rs",
    "platform/bpf/src/layout.rs",
];
/// The table of the components that receive other components' rights: a row there is free.
const RIGHTS: &[&str] = &["components/manager/process/src/configure/model.rs"];
/// The rows that a protocol may have, and one more file for each kind of thing that it brings beside its process.
const MOST: usize = 3;
/// Rows for a crate with commands of the command line: the dependency, and the table of commands.
const WITH_COMMANDS: usize = 2;

/// Returns, for each protocol with more rows than allowed, all of them.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (protocol, rows) in count(root)? {
        let has_commands = root.join("components").join(&protocol).join("cli").exists();
        let most = MOST + if has_commands { WITH_COMMANDS } else { 0 };
        if rows.len() > most {
            let rows = rows.join("\n  ");
            found.push(format!(
                "the platform names {protocol} in more than {most} lines; put what it knows into the component's folder:\n  {rows}"
            ));
        }
    }
    Ok(found)
}

/// The lines that name each protocol.
fn count(root: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut files = Vec::new();
    for folder in PLATFORM {
        walk(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut rows = BTreeMap::new();
    for folder in std::fs::read_dir(root.join("components"))? {
        let protocol = folder?.file_name().to_string_lossy().into_owned();
        if !NO_PROTOCOLS.contains(&protocol.as_str()) {
            rows.insert(protocol, Vec::new());
        }
    }
    for file in files {
        let shown = file.strip_prefix(root)?.display().to_string();
        if EXAMPLES.contains(&shown.as_str()) || PROGRAMS.contains(&shown.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        for (protocol, rows) in &mut rows {
            let is_rights_row = |line: &str| RIGHTS.contains(&shown.as_str()) && line.contains("-rights\"");
            let named = lines_naming(protocol, &text).into_iter().filter(|(_, line)| !is_rights_row(line));
            rows.extend(named.map(|(number, line)| format!("{shown}:{number}: {}", line.trim())));
        }
    }
    Ok(rows)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_test = name.ends_with("_tests.rs") || matches!(name.as_str(), "tests.rs" | "properties.rs");
        let is_source = name.ends_with(".rs") && !is_test || name == "Cargo.toml";
        if path.is_dir() && !matches!(name.as_str(), "tests" | "examples" | "target") {
            walk(&path, files)?;
        } else if path.is_file() && is_source {
            files.push(path);
        }
    }
    Ok(())
}

/// The lines of a file, by number, that name a protocol.
fn lines_naming<'t>(protocol: &str, text: &'t str) -> Vec<(usize, &'t str)> {
    let crates = [format!("sluice_{}", protocol.replace('-', "_")), format!("sluice-{protocol}")];
    // What tests need is no row.
    let ends = ["mod tests {", "[dev-dependencies]"];
    let code = text.lines().enumerate().take_while(|(_, line)| !ends.contains(&line.trim()));
    let names = |line: &str| {
        let line = line.trim();
        !line.starts_with("//")
            && (crates.iter().any(|name| words(line).any(|word| is_crate(word, name)))
                || strings(line).any(|string| words(string).any(|word| word == protocol)))
    };
    code.filter(|(_, line)| names(line)).map(|(index, line)| (index + 1, line)).collect()
}

/// Returns true if a word is a crate of a protocol: the core, the process, the commands.
fn is_crate(word: &str, name: &str) -> bool {
    word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
}

/// The string literals of a line, without what they have in backquotes.
fn strings(line: &str) -> impl Iterator<Item = &str> {
    let literals = line.split('"').skip(1).step_by(2);
    literals.flat_map(|literal| literal.split('`').step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_a_protocol_are_found() {
        let text = "//! \"rip\"\nuse sluice_rip_process::run;\nlet x = \"ripe\";\nlet y = \"show rip\";\nlet z = \"as `rip`\";\n\
                    let w = sluice_ripple::x;\nmod tests {\n let v = \"rip\";\n}";
        let found: Vec<usize> = lines_naming("rip", text).into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, [2, 4]);
    }

    #[test]
    fn a_protocol_is_its_folder_and_three_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder");
        assert_eq!(check(root).expect("the tree can be read"), Vec::<String>::new());
        let rows = count(root).expect("the tree can be read");
        // A component that is built in has three rows at least.
        assert!(rows.values().filter(|rows| rows.len() >= 3).count() >= 2, "{rows:?}");
    }
}
