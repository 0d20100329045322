//! A revision's file: a line with the record and the hash of the text, then the text: a configuration or steps.

use crate::version::{self, LaterVersion};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The origin of a revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// An edited and committed candidate.
    Commit,
    /// The configuration file, edited by hand.
    File,
    /// The configuration before a commit that was not confirmed in time.
    Rollback,
    /// The configuration that several machines share, committed on another one.
    Shared,
}

impl Via {
    /// The word of `show revisions`.
    pub const fn name(self) -> &'static str {
        match self {
            Via::Commit => "commit",
            Via::File => "file",
            Via::Rollback => "rollback",
            Via::Shared => "shared",
        }
    }
}

/// A revision's record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Revision {
    /// The number, counted from 1 and never reused.
    pub number: u64,
    /// The time, in milliseconds of Unix time.
    pub time_unix_ms: u64,
    /// The author.
    pub user: String,
    /// The comment.
    pub comment: String,
    /// The origin.
    pub via: Via,
    /// The hash of the text (SHA-256); of steps, together with their base.
    pub(super) text_sha256: String,
    /// The base of the steps; `None` if the text is the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<Base>,
    /// The executable and the schema of the writer: steps stand only on revisions of the same writer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) written_by: String,
}

/// The base of steps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Base {
    /// The revision's number: less than that of the steps.
    pub number: u64,
    /// The hash in the base's own line. The hash covers the hash of the base's own base, so that no link of a chain can
    /// be exchanged unseen.
    pub sha256: String,
}

const FIRST_LINE: &str = "# sluice revision ";
/// The newest version of the files. The first line of version 1 has no number; later versions have `version`.
const VERSION: u64 = 1;

impl Revision {
    /// The file: this line and the text.
    pub(super) fn file(&self, text: &str) -> serde_json::Result<String> {
        Ok(format!("{FIRST_LINE}{}\n{text}", serde_json::to_string(self)?))
    }
}

/// The damage of a revision's file.
#[derive(Debug, Error)]
pub enum Damage {
    /// There is no text behind the first line.
    #[error("it is too short")]
    Short,
    /// The file begins with another line.
    #[error("its first line is another")]
    FirstLine,
    /// A later version of Sluice wrote the file.
    #[error("it has {0}")]
    Version(#[from] LaterVersion),
    /// The first line has other fields.
    #[error(transparent)]
    Fields(#[from] serde_json::Error),
    /// The text has a different hash.
    #[error("its text was changed after it was committed")]
    Text,
    /// The base of the steps is unusable.
    #[error("{0}")]
    Base(String),
    /// Steps do not fit the text before. The step is not named: the reason is logged, and the step may set a secret.
    #[error("its steps lead nowhere")]
    Steps,
}

/// Reads a revision's file: the first line, and the text behind it.
///
/// # Errors
/// The file is damaged.
pub fn parse_revision(whole: &str) -> Result<(Revision, &str), Damage> {
    let (first, text) = whole.split_once('\n').ok_or(Damage::Short)?;
    let revision = parse_first_line(first)?;
    match revision.text_sha256 == hash_on(revision.base.as_ref(), text) {
        true => Ok((revision, text)),
        false => Err(Damage::Text),
    }
}

pub(super) fn parse_first_line(line: &str) -> Result<Revision, Damage> {
    let first = line.strip_prefix(FIRST_LINE).ok_or(Damage::FirstLine)?;
    version::check(first, VERSION)?;
    Ok(serde_json::from_str(first)?)
}

/// Returns the hash of a text with its base, if any.
pub(super) fn hash_on(base: Option<&Base>, text: &str) -> String {
    let mut digest = Sha256::new();
    if let Some(base) = base {
        digest.update(base.sha256.as_bytes());
        digest.update(b"\n");
    }
    digest.update(text.as_bytes());
    in_hex(&digest.finalize())
}

/// Returns the hash of octets.
pub(super) fn hash(octets: &[u8]) -> String {
    in_hex(&Sha256::digest(octets))
}

fn in_hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
