//! The file for the history of lines, readable only by the owner.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// The most lines kept.
pub const LINES: usize = 1000;

/// Returns the file, made if missing; `None` without a place for the file.
pub fn file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local/state"));
    let folder = state.or_else(home)?.join("sluice");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file = folder.join("history");
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
    opened.set_permissions(PermissionsExt::from_mode(0o600)).ok()?;
    Some(file)
}
