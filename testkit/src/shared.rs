//! The folder of shared real inputs, which not every machine has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns a path in the folder of shared inputs: `$SLUICE_SHARED`, or `../shared` beside the repository. `None` if
/// the path does not exist, which is recorded as a skipped test.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SLUICE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    crate::skipped(format_args!("no shared data ({})", path.display()));
    None
}

/// The content of a shared file, unpacked by the machine's own tools if its name has a suffix of a packed file. `None`
/// if the file, or the tool, does not exist.
pub fn read(path: &str) -> Option<Vec<u8>> {
    let path = shared(path)?;
    let tool = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => "gzip",
        Some("xz") => "xz",
        Some("bz2") => "bzip2",
        Some("zst") => "zstd",
        _ => return std::fs::read(path).ok(),
    };
    let output = Command::new(tool).arg("-dc").arg(&path).stderr(Stdio::null()).output().ok()?;
    if !output.status.success() {
        crate::skipped(format_args!("{tool} cannot unpack {}", path.display()));
        return None;
    }
    Some(output.stdout)
}
