//! Lists the schemas of the CLI's output.

use std::path::{Path, PathBuf};

fn main() {
    list_schemas();
}

/// Writes `schemas.rs`: an array of names and texts.
fn list_schemas() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
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
