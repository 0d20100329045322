//! Writes a new component: its rooms, and its rows in the executable. The new component passes the tests.

use anyhow::{Context, Result, ensure};
use sluice_template::Names;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "apps/sluice/Cargo.toml";
const ROWS: &str = "apps/sluice/src/components.rs";

/// Writes the component `name` into `components/` of the workspace at `root`, and its rows; or into `into`, as a
/// package with a program of its own, built outside of the workspace.
pub fn write(root: &Path, name: &str, into: Option<&Path>) -> Result<()> {
    let names = Names::of(name)?;
    let workspace = read(&root.join("Cargo.toml"))?;
    let taken = |line: &str| {
        [format!("sluice-{name} "), format!("sluice-{name}-process ")].iter().any(|n| line.starts_with(n))
    };
    ensure!(!workspace.lines().any(taken), "a crate `sluice-{name}` exists already; choose another name");
    let folder = into.map_or_else(|| root.join("components"), PathBuf::from).join(name);
    ensure!(!folder.exists(), "{} exists already", folder.display());
    // Everything that can be refused is, before anything is written.
    let rows = match into {
        None => vec![
            (root.join(MANIFEST), with_dependency(&read(&root.join(MANIFEST))?, &names)?),
            (root.join(ROWS), with_rows(&read(&root.join(ROWS))?, &names)?),
        ],
        Some(_) => Vec::new(),
    };
    let files = match into {
        None => sluice_template::component(&names),
        Some(_) => sluice_template::rust_package(&names, root),
    };
    let mut written = sluice_template::write(&folder, &files)?;
    for (path, text) in rows {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    format(root, &written);
    for path in &written {
        println!("{}", path.strip_prefix(root).unwrap_or(path).display());
    }
    println!("no fuzz row: nothing is decoded yet; add one in fuzz/src/lib.rs with the first decoder");
    match into {
        None => println!("next: cargo test -p sluice-{name} -p sluice-{name}-process"),
        Some(_) => {
            // The versions that this workspace was tested with.
            fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
            println!(
                "next: cd {} && cargo build --release && cp target/release/sluice-{name}-process {name} && sluice package check .",
                folder.display()
            );
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The executable's manifest with the process among its dependencies, in alphabetical order.
fn with_dependency(manifest: &str, names: &Names) -> Result<String> {
    let row = names.fill("sluice-@NAME@-process = { path = \"../../components/@NAME@/process\" }");
    let mut lines: Vec<&str> = manifest.lines().collect();
    let begin = lines.iter().position(|l| *l == "[dependencies]");
    let begin = begin.with_context(|| format!("{MANIFEST} has no [dependencies]"))? + 1;
    let section = &lines[begin..];
    let end = section.iter().position(|l| l.is_empty()).unwrap_or(section.len());
    let place = section[..end].iter().position(|l| *l > row.as_str()).unwrap_or(end);
    lines.insert(begin + place, &row);
    Ok(lines.join("\n") + "\n")
}

/// The list of components with the new one at the end of both tables.
fn with_rows(list: &str, names: &Names) -> Result<String> {
    let changed = || format!("{ROWS} does not look as it did; add the rows by hand");
    let table = list.find("pub const BUILTINS").with_context(changed)?;
    let close = table + list[table..].find("];").with_context(changed)?;
    let (before, after) = list.split_at(close);
    let before = before.trim_end().trim_end_matches(',');
    let arm = after.find("        other =>").with_context(changed)?;
    let (between, rest) = after.split_at(arm);
    let builtin = names.fill("builtin!(\"@NAME@\", module)");
    let run = names.fill("        \"@NAME@\" => sluice_@CRATE@_process::run(options),\n");
    Ok(format!("{before}, {builtin}{between}{run}{rest}"))
}

/// Formats the new files like the house's: line breaks depend on the length of the name.
fn format(root: &Path, written: &[PathBuf]) {
    let sources = written.iter().filter(|p| p.extension().is_some_and(|e| e == "rs"));
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--config-path"]).arg(root).args(sources);
    // Without rustfmt everything is right but for its looks.
    if !rustfmt.status().is_ok_and(|status| status.success()) {
        eprintln!("rustfmt could not be run: run `cargo fmt` yourself");
    }
}

#[cfg(test)]
mod tests;
