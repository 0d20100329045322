//! The configuration file: a copy of the newest revision, until edited by hand. The hash of the text last written or
//! read is noted beside the revisions, before a write too; so any differing text is an operator's, also after a crash.

use super::chain::Folder;
use super::line::hash;
use crate::revisions::durable;
use serde::{Deserialize, Serialize};
use sluice_config::KeptComments;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Permissions of a file that may hold secrets: for the owner alone.
const PRIVATE: u32 = 0o600;

/// The comments of removed statements, beside `copy.json`.
const KEPT_COMMENTS: &str = "comments.json";

/// A note about the contents of the configuration file, written before the file is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Noted {
    /// The hash of the contents.
    pub sha256: String,
    /// The revision with the same contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// The result of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// The file has the contents of the revision.
    Written,
    /// An operator edited the file since the last write or read. The file is left unchanged.
    ByHand,
}

/// The configuration file, on a thread that may block.
pub struct ConfigurationFile {
    pub(super) folder: Folder,
    pub(super) path: PathBuf,
    /// The hash of the file as read by the process, where no note could be written.
    pub(super) read: Option<String>,
}

impl ConfigurationFile {
    /// Makes the file a copy of a revision. `render` writes the revision, with the comments and the order of the file's
    /// text.
    pub fn write(&self, render: impl FnOnce(&str) -> String, revision: u64) -> io::Result<Copied> {
        let state = State::of(&self.path);
        let old = match fs::read(&self.path) {
            Ok(octets) => Some(octets),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let before = old.as_deref().and_then(|octets| str::from_utf8(octets).ok()).unwrap_or_default();
        let text = render(before);
        let there = old.map(|octets| hash(&octets));
        let new = Noted { sha256: hash(text.as_bytes()), revision: Some(revision) };
        let mut may_be = Vec::new();
        if let Some(sha256) = there {
            if sha256 == new.sha256 {
                return note(&self.folder, &[new]).map(|()| Copied::Written);
            }
            let known = noted(&self.folder).into_iter().find(|noted| noted.sha256 == sha256);
            match known {
                Some(known) => may_be.push(known),
                None if self.read.as_ref() == Some(&sha256) => may_be.push(Noted { sha256, revision: None }),
                None => return Ok(Copied::ByHand),
            }
        }
        may_be.push(new.clone());
        note(&self.folder, &may_be)?;
        let is_as_it_was = || State::of(&self.path) == state;
        match durable::replace_if(&self.path, text.as_bytes(), PRIVATE, is_as_it_was)? {
            true => note(&self.folder, &[new]).map(|()| Copied::Written),
            false => Ok(Copied::ByHand),
        }
    }
}

impl ConfigurationFile {
    /// Returns the comments of statements that the file does not have now.
    pub(crate) fn kept_comments(&self) -> KeptComments {
        fs::read_to_string(self.folder.0.join(KEPT_COMMENTS))
            .map(|text| KeptComments::parse(&text))
            .unwrap_or_default()
    }

    /// Keeps comments for the time when their statements come back, as by a rollback.
    pub(crate) fn keep_comments(&self, kept: &KeptComments) -> io::Result<()> {
        if *kept == self.kept_comments() {
            return Ok(());
        }
        durable::replace(&self.folder.0.join(KEPT_COMMENTS), kept.text().as_bytes(), PRIVATE)
    }
}

/// The identity of a file at a moment: inode, length and times.
#[derive(PartialEq)]
pub(super) struct State(Option<[i64; 7]>);

impl State {
    pub fn of(path: &Path) -> Self {
        let state = |file: fs::Metadata| {
            let (device, number) = (file.dev().cast_signed(), file.ino().cast_signed());
            let (length, written, changed) = (file.size().cast_signed(), file.mtime(), file.ctime());
            [device, number, length, written, file.mtime_nsec(), changed, file.ctime_nsec()]
        };
        State(fs::metadata(path).ok().map(state))
    }
}

fn file(folder: &Folder) -> PathBuf {
    folder.0.join("copy.json")
}

/// Returns the path of the note of the version before, which has a hash alone.
fn older_file(folder: &Folder) -> PathBuf {
    folder.0.join("file.sha256")
}

/// Returns the notes about the file's contents if nobody else wrote to the file.
pub(super) fn noted(folder: &Folder) -> Vec<Noted> {
    match fs::read(file(folder)) {
        Ok(octets) => parse_copy(&octets),
        Err(_) => fs::read_to_string(older_file(folder))
            .map(|sha256| vec![Noted { sha256, revision: None }])
            .unwrap_or_default(),
    }
}

/// Parses the content of `copy.json`; a damaged file vouches for no content of the configuration file.
pub fn parse_copy(octets: &[u8]) -> Vec<Noted> {
    serde_json::from_slice(octets).unwrap_or_default()
}

/// Notes that.
pub(super) fn note(folder: &Folder, revisions: &[Noted]) -> io::Result<()> {
    durable::replace(&file(folder), &serde_json::to_vec(revisions)?, PRIVATE)?;
    // A version that does not know steps is not to take an old whole text for what the file was written from.
    durable::remove(&older_file(folder))
}
