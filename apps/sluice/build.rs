//! Lists the schemas of the CLI's output.

use std::path::{Path, PathBuf};

fn main() {
    list_schemas();
}

/// Writes `schemas.rs`: an array of names and texts.
fn list_schemas() {
    // Asked for at run time: a build script that was compiled elsewhere, whose target folder has moved, would look there.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&own).join("../../docs/schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    let mut text = String::from("[\n");
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = file.canonicalize().unwrap_or(file);
        println!("cargo::rerun-if-changed={}", path.display());
        text.push_str(&format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string()));
    }
    text.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("schemas.rs"), text).expect("OUT_DIR can be written");
}
