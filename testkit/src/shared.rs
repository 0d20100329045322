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
/// if the file, or the tool, does not exist, which is recorded as a skipped test.
///
/// # Panics
/// If a file that exists cannot be read or unpacked.
pub fn read(path: &str) -> Option<Vec<u8>> {
    let path = shared(path)?;
    let tool = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => "gzip",
        Some("xz") => "xz",
        Some("bz2") => "bzip2",
        Some("zst") => "zstd",
        _ => return Some(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))),
    };
    unpacked(tool, &path)
}

/// The output of `TOOL -dc FILE`; `None` without the tool.
fn unpacked(tool: &str, path: &Path) -> Option<Vec<u8>> {
    match Command::new(tool).arg("-dc").arg(path).stderr(Stdio::inherit()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{tool} cannot unpack {}: {}", path.display(), output.status);
            Some(output.stdout)
        }
        Err(error) => {
            crate::skipped(format_args!("{tool} cannot be started: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_no_content() {
        // The record of the run must not name this test.
        let own = Command::new(std::env::current_exe().expect("the test program"))
            .args(["--exact", "shared::tests::reads_without_a_tool", "--nocapture"])
            .env("SLUICE_READ_NOW", "1")
            .env(crate::skip::RECORD, "/dev/null")
            .output()
            .expect("the test program starts");
        let text = String::from_utf8_lossy(&own.stdout);
        assert!(
            own.status.success() && text.contains("skipped: ") && text.contains("cannot be started"),
            "{text}"
        );
    }

    #[test]
    fn reads_without_a_tool() {
        if std::env::var_os("SLUICE_READ_NOW").is_some() {
            assert_eq!(unpacked("no-such-tool", Path::new("/dev/null")), None);
        }
    }

    #[test]
    #[should_panic(expected = "cannot unpack")]
    fn a_damaged_file_is_a_failure() {
        unpacked("gzip", Path::new("/dev/zero"));
    }
}
