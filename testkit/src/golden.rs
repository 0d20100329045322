//! Golden files: state that earlier versions of a router wrote (`testdata/state/README.md`), and the content that a reader has to find in them.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folders of all recorded versions of a kind of state, by number. The path of a kind is relative to `testdata/state`.
///
/// # Panics
///
/// If there is no version.
pub fn versions(kind: &str) -> Vec<(u32, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/state").join(kind);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let number = |path: PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, path));
    let mut versions: Vec<_> = entries.filter_map(|entry| number(entry.ok()?.path())).collect();
    versions.sort();
    assert!(!versions.is_empty(), "{} has no version", folder.display());
    versions
}

/// Compares the content that a reader found in a recording with the file `expected.json` beside the recording.
///
/// # Panics
///
/// If the content is another. The message has the whole content, for the first `expected.json` of a new recording.
pub fn compare(recording: &Path, found: &str) {
    let file = recording.join("expected.json");
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected.trim_end() == found,
        "the content is not the one of {}, but:\n{found}\n",
        file.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_compared_with_the_files_beside() {
        for kind in ["manager", "cluster", "bgp", "rib"] {
            let versions = versions(kind);
            assert!(versions.iter().is_sorted());
        }
        let folder = std::env::temp_dir();
        assert!(std::panic::catch_unwind(|| compare(&folder.join("no-such-recording"), "{}")).is_err());
    }
}
