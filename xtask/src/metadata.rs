//! The workspace as cargo describes it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Returns the packages that `cargo metadata` lists with these options.
pub fn packages(root: &Path, options: &[&str]) -> Result<Vec<Value>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .args(options)
        .current_dir(root)
        .output()
        .context("cargo metadata does not start")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    Ok(metadata["packages"].as_array().context("metadata has packages")?.clone())
}
