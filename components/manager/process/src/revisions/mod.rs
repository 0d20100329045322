//! Committed revisions: a file for each revision, and the records needed to start with the right revision.
//!
//! A revision's file exists as a whole or not at all, and its existence makes the revision hold. The first line holds
//! the record and the hash of the text, so that a torn or hand-broken file is detected (`line.rs`). The text is the
//! whole configuration, or, so that the cost of a commit follows the size of the change, the steps from an earlier
//! revision (`chain.rs`). The configuration file is a copy of the newest revision (`copy.rs`); an edited file is read
//! at the next start or reload, and becomes a revision.

mod chain;
mod copy;
mod durable;
mod line;
#[cfg(test)]
mod tests;

pub use chain::Damaged;
pub use copy::{ConfigurationFile, Copied, Noted, parse_copy};
pub use line::{Revision, Via, parse_revision};

use crate::start_error::StartError;
use crate::start_error::cannot;
use chain::{Chain, Folder};
use copy::State;
use line::{Base, hash, hash_on};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Revisions that are kept besides the newest.
pub const KEPT: usize = 50;
/// The most revisions with steps in a row before a revision with the whole text.
const LINKS: usize = 32;
/// The steps of a chain are together at most this part of the whole text at its base.
const PART: usize = 4;

/// A commit that has to be confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// The revision made by the commit.
    pub revision: u64,
    /// The revision to go back to without a confirmation.
    pub back_to: u64,
    /// Until when, in milliseconds of Unix time.
    pub until_unix_ms: u64,
}

/// A new revision to write.
pub struct New<'a> {
    /// The author.
    pub user: &'a str,
    /// The comment.
    pub comment: &'a str,
    /// The origin.
    pub via: Via,
    /// The steps from the revision of [`Revisions::room_for_steps`], if known and within the room.
    pub steps: Option<String>,
    /// Makes the whole text. Called only if needed, on a thread that may block.
    pub whole: Box<dyn FnOnce() -> String + Send>,
}

/// The folder of the revisions.
pub struct Revisions {
    folder: Folder,
    /// The newest number that was ever given.
    last: u64,
    /// Which executable with which schema this is.
    written_by: String,
    /// The possible base of further steps.
    tip: Option<Tip>,
    /// The hash of the configuration file as last read by the process.
    read: Option<String>,
    /// The state of the schema file when last seen with the current executable's schema.
    schema_file: Option<State>,
    /// The configuration file's state at the last look, and the content found.
    looked_at: Option<(State, FileContent)>,
}

/// The content of the configuration file, compared with revisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileContent {
    /// The text of a revision, as far as that is known.
    Revision(Option<u64>),
    /// Text edited by hand and not yet read.
    Else,
    /// The file cannot be read, for this reason.
    Nothing(String),
}

/// The last written revision, or the revision of the start.
#[derive(Clone, Debug)]
struct Tip {
    base: Base,
    links: usize,
    /// Octets of the chain's steps up to the revision.
    steps: usize,
    /// Octets of the whole on which they stand.
    whole: usize,
}

/// A revision to be written, on a thread that may block.
pub struct Draft {
    folder: Folder,
    revision: Revision,
    unconfirmed: Option<Unconfirmed>,
    tip: Option<Tip>,
    steps: Option<String>,
    whole: Box<dyn FnOnce() -> String + Send>,
}

/// A revision that was written.
pub struct Written {
    revision: Revision,
    tip: Tip,
}

impl Draft {
    /// Writes the revision; the revision holds from then on. A deadline for a confirmation is written first, and means
    /// nothing without the revision.
    pub fn write(self) -> io::Result<Written> {
        let Draft { folder, mut revision, unconfirmed, tip, steps, whole } = self;
        if revision.number > chain::LARGEST {
            return Err(io::Error::other(format!(
                "revision {} is the last that can be written",
                chain::LARGEST
            )));
        }
        let (text, links, octets, length) = match (steps, tip) {
            (Some(steps), Some(Tip { base, links, steps: before, whole })) => {
                revision.base = Some(base);
                let octets = before + steps.len();
                (steps, links + 1, octets, whole)
            }
            _ => {
                let text = whole();
                let length = text.len();
                (text, 0, 0, length)
            }
        };
        revision.text_sha256 = hash_on(revision.base.as_ref(), &text);
        if let Some(unconfirmed) = unconfirmed {
            durable::replace(&unconfirmed_file(&folder), &serde_json::to_vec(&unconfirmed)?, 0o600)?;
        }
        let file = folder.file(revision.number);
        durable::replace(&file, revision.file(&text)?.as_bytes(), 0o600).inspect_err(|_| {
            // What is there may hold or not. The receiver of the error assumes that it does not.
            let _ = fs::remove_file(&file);
        })?;
        folder.prune();
        let base = Base { number: revision.number, sha256: revision.text_sha256.clone() };
        Ok(Written { revision, tip: Tip { base, links, steps: octets, whole: length } })
    }
}

impl Revisions {
    /// Returns true if there is a folder of revisions.
    pub fn exist(state_dir: &Path) -> bool {
        state_dir.join("revisions").is_dir()
    }

    /// Opens the folder for the current executable with a schema; makes a missing folder.
    pub fn open(state_dir: &Path, schema_json: &str) -> Result<Self, StartError> {
        let folder = state_dir.join("revisions");
        fs::create_dir_all(&folder).map_err(cannot("make the folder of revisions", &folder))?;
        fs::read_dir(&folder).map_err(cannot("read", &folder))?;
        let mut revisions = Revisions::of(state_dir);
        let written_by = format!("{}\n{schema_json}", env!("CARGO_PKG_VERSION"));
        revisions.written_by = hash(written_by.as_bytes());
        revisions.last = revisions.folder.numbers().first().copied().unwrap_or(0);
        Ok(revisions)
    }

    /// Opens the folder for reading only; nothing is made, and the folder may be missing.
    pub fn of(state_dir: &Path) -> Self {
        Revisions {
            folder: Folder(state_dir.into()),
            last: 0,
            written_by: String::new(),
            tip: None,
            read: None,
            schema_file: None,
            looked_at: None,
        }
    }

    /// The folder of the revisions.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The numbers of the kept revisions, the newest first.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers = self.folder.numbers();
        numbers.truncate(KEPT + 1);
        numbers
    }

    /// A revision and its text, whole.
    pub fn read(&self, number: u64) -> Result<(Revision, String), Damaged> {
        self.folder.read(number).map(|chain| (chain.revision, chain.text))
    }

    /// Returns the text of the revision to run; the next revision may stand on the revision as its base.
    pub(crate) fn read_to_run(&mut self, number: u64) -> Result<String, Damaged> {
        let Chain { revision, text, links, steps, whole } = self.folder.read(number)?;
        // What another has written it may have written in other words.
        let is_own = !self.written_by.is_empty() && revision.written_by == self.written_by;
        let base = Base { number, sha256: revision.text_sha256 };
        self.tip = is_own.then_some(Tip { base, links, steps, whole });
        Ok(text)
    }

    /// Returns a revision without its text.
    pub fn about(&self, number: u64) -> Option<Revision> {
        self.folder.about(number)
    }

    /// Returns the most octets of steps from the revision `running`; longer steps are not worth it. 0 without a base.
    pub(crate) fn room_for_steps(&self, running: u64) -> usize {
        match &self.tip {
            Some(tip) if tip.base.number == running && tip.links < LINKS => {
                (tip.whole / PART).saturating_sub(tip.steps)
            }
            _ => 0,
        }
    }

    /// Returns a new revision to be written. With `unconfirmed` (the revision to go back to, the deadline) the commit
    /// needs a confirmation.
    pub fn draft(&self, new: New<'_>, unconfirmed: Option<(u64, u64)>) -> Draft {
        let number = self.last.saturating_add(1);
        let revision = Revision {
            number,
            time_unix_ms: now_unix_ms(),
            user: new.user.into(),
            comment: new.comment.into(),
            via: new.via,
            text_sha256: String::new(),
            base: None,
            written_by: self.written_by.clone(),
        };
        let unconfirmed = unconfirmed.map(|(back_to, until_unix_ms)| Unconfirmed {
            revision: number,
            back_to,
            until_unix_ms,
        });
        let (folder, tip) = (self.folder.clone(), self.tip.clone());
        Draft { folder, revision, unconfirmed, tip, steps: new.steps, whole: new.whole }
    }

    /// A draft was written; its number.
    pub fn written(&mut self, written: Written) -> u64 {
        self.last = written.revision.number;
        self.tip = Some(written.tip);
        self.last
    }

    /// Writes a new revision here and now; its number.
    pub fn write(&mut self, new: New<'_>, unconfirmed: Option<(u64, u64)>) -> io::Result<u64> {
        let written = self.draft(new, unconfirmed).write()?;
        Ok(self.written(written))
    }

    /// The commit waiting for a confirmation, if the newest commit is.
    pub fn unconfirmed(&self) -> Option<Unconfirmed> {
        let text = fs::read(unconfirmed_file(&self.folder)).ok()?;
        let unconfirmed = parse_unconfirmed(&text)?;
        (self.folder.numbers().first() == Some(&unconfirmed.revision)).then_some(unconfirmed)
    }

    /// The newest commit holds for good.
    pub fn confirm(&self) -> io::Result<()> {
        durable::remove(&unconfirmed_file(&self.folder))
    }

    /// The configuration file, to be made a copy of what runs.
    pub(crate) fn configuration_file(&self, path: &Path) -> ConfigurationFile {
        ConfigurationFile { folder: self.folder.clone(), path: path.into(), read: self.read.clone() }
    }

    /// Notes that the configuration file has been read, has the text `text`, and equals `revision`. The process
    /// remembers the note even if writing the note fails.
    pub fn is_copy(&mut self, text: &str, revision: u64) -> io::Result<()> {
        self.looked_at = None;
        let sha256 = hash(text.as_bytes());
        self.read = Some(sha256.clone());
        copy::note(&self.folder, &[Noted { sha256, revision: Some(revision) }])
    }

    /// Notes for the process only that the configuration file has been read, without a revision that equals the file.
    pub(crate) fn has_read(&mut self, text: &str) {
        self.looked_at = None;
        self.read = Some(hash(text.as_bytes()));
    }

    /// Returns true if the configuration file is as it was last written or read: then the newest revision is newer, or the same.
    pub(crate) fn is_as_written(&self, text: &str) -> bool {
        let hash = hash(text.as_bytes());
        self.read.as_ref() == Some(&hash)
            || copy::noted(&self.folder).iter().any(|noted| noted.sha256 == hash)
            || self.newest().is_some_and(|r| r.base.is_none() && r.text_sha256 == hash)
    }

    /// Returns the revision copied to the configuration file, if the file is as last written or read and the revision
    /// is known.
    pub(crate) fn copy_of(&self, text: &str) -> Option<u64> {
        let hash = hash(text.as_bytes());
        copy::noted(&self.folder).into_iter().find(|noted| noted.sha256 == hash)?.revision
    }

    /// Forgets the hash of the configuration file: the file was written since.
    pub(crate) fn is_copied(&mut self) {
        self.read = None;
        self.looked_at = None;
    }

    /// Notes that the configuration file is not a copy: the next start reads the file again, and no commit overwrites
    /// the file.
    pub(crate) fn disown_file(&mut self) -> io::Result<()> {
        self.read = None;
        self.looked_at = None;
        copy::note(&self.folder, &[])
    }

    /// Returns the content of the configuration file. A file unchanged since the last look is not read again.
    pub(crate) fn file_content(&mut self, path: &Path) -> FileContent {
        let state = State::of(path);
        if let Some((known, content)) = &self.looked_at
            && *known == state
        {
            return content.clone();
        }
        let content = match fs::read_to_string(path) {
            Err(error) => FileContent::Nothing(error.to_string()),
            Ok(text) if self.is_as_written(&text) => FileContent::Revision(self.copy_of(&text)),
            Ok(_) => FileContent::Else,
        };
        self.looked_at = Some((state, content.clone()));
        content
    }

    fn newest(&self) -> Option<Revision> {
        self.about(*self.folder.numbers().first()?)
    }

    /// The schema of the newest revision's writer; `None` before the first revision.
    pub fn schema(&self) -> Option<String> {
        fs::read_to_string(self.schema_file()).ok()
    }

    fn schema_file(&self) -> PathBuf {
        self.folder.0.join("schema.json")
    }

    /// Writes the schema, if changed. A file seen or written by the process is not read again while unchanged.
    pub(crate) fn write_schema(&mut self, json: &str) -> io::Result<()> {
        let file = self.schema_file();
        if self.schema_file.as_ref().is_some_and(|known| *known == State::of(&file)) {
            return Ok(());
        }
        if self.schema().as_deref() != Some(json) {
            durable::replace(&file, json.as_bytes(), 0o644)?;
        }
        self.schema_file = Some(State::of(&file));
        Ok(())
    }
}

fn unconfirmed_file(folder: &Folder) -> PathBuf {
    folder.0.join("unconfirmed.json")
}

/// Reads the record of a commit waiting for a confirmation.
pub fn parse_unconfirmed(octets: &[u8]) -> Option<Unconfirmed> {
    serde_json::from_slice(octets).ok()
}

/// Now, in milliseconds of Unix time.
pub fn now_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
