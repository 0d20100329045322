//! Versions of the files that the manager keeps. A file or a record without a number has version 1.

use serde::Deserialize;
use thiserror::Error;

/// The version of the executable, as `sluice --version` prints it.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A later version of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("version {found} of the format, but sluice {PROGRAM} reads versions up to {newest}")]
pub struct LaterVersion {
    /// The version that was found.
    pub found: u64,
    /// The newest version that the executable reads.
    pub newest: u64,
}

/// The part of a record that all versions have in common.
#[derive(Deserialize)]
struct Versioned {
    #[serde(default = "first")]
    version: u64,
}

fn first() -> u64 {
    1
}

/// Refuses a JSON record of a version later than `newest`. A malformed record passes: the reader of the record describes the damage.
pub fn check(json: &str, newest: u64) -> Result<(), LaterVersion> {
    match serde_json::from_str(json) {
        Ok(Versioned { version: found }) if found > newest => Err(LaterVersion { found, newest }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_are_refused_with_both_numbers() {
        for text in ["{}", "{\"version\":1,\"more\":[]}", "{\"version\":2}", "{\"version\":-1}", "[", ""] {
            assert_eq!(check(text, 2), Ok(()), "{text}");
        }
        let error = check("{\"number\":7,\"version\":18446744073709551615}", 2).unwrap_err();
        assert_eq!(error, LaterVersion { found: u64::MAX, newest: 2 });
        let text = error.to_string();
        assert!(text.contains("18446744073709551615") && text.ends_with("reads versions up to 2"), "{text}");
    }
}
