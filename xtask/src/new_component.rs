//! Writes a new component: placeholder.
use anyhow::Result;
use std::path::Path;

pub fn write(_root: &Path, _name: &str, _into: Option<&Path>) -> Result<()> {
    Ok(())
}
