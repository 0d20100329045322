//! The versions of the formats of files that packages ship.
//!
//! A package is built for one version of Sluice and installed on another. A file states the version of its format by the key `format` at its
//! top. A new key that older versions may not ignore, or another meaning of a key, makes a new version of the format.

use core::fmt;
use serde::Deserialize;

/// The newest version of `rights.toml`.
pub const RIGHTS_FORMAT: u32 = 1;
/// The newest version of `commands.toml`.
pub const COMMANDS_FORMAT: u32 = 1;
/// The newest version of `metrics.toml`.
pub const METRICS_FORMAT: u32 = 1;

/// The part of a file that every version of the format has. Other keys are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FormatHead {
    /// The version of the format; absent: 1.
    pub format: Option<u32>,
}

/// The error for a file whose format has an unknown version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownFormat {
    /// The version of the file.
    pub found: u32,
    /// The newest readable version.
    pub newest: u32,
}

impl FormatHead {
    /// Checks that the version is one of those from 1 to `newest`.
    ///
    /// # Errors
    ///
    /// If the version is unknown.
    pub fn check(self, newest: u32) -> Result<(), UnknownFormat> {
        let found = self.format.unwrap_or(1);
        if (1..=newest).contains(&found) { Ok(()) } else { Err(UnknownFormat { found, newest }) }
    }
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownFormat { found, newest } = self;
        write!(
            f,
            "the file has format {found}, and this version of Sluice reads formats up to {newest}; \
             install a package for this version, or a newer Sluice"
        )
    }
}

impl core::error::Error for UnknownFormat {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn older_formats_are_read_and_newer_ones_refused_with_both_versions() {
        let check = |format| FormatHead { format }.check(2);
        assert_eq!([check(None), check(Some(1)), check(Some(2))], [Ok(()); 3]);
        assert_eq!(check(Some(0)), Err(UnknownFormat { found: 0, newest: 2 }));
        let text = check(Some(3)).expect_err("newer").to_string();
        assert!(text.contains("format 3,") && text.contains("up to 2;"), "{text}");
    }
}
