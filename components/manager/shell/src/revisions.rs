//! What was committed: a file for each revision, and what has to be known besides to start with the right one.
//!
//! A revision's file is there as a whole or not at all, and that it is there is what makes it hold. Its first line says what it is and
//! how its text hashes, so that a torn or hand-broken one is known for what it is. The configuration file is a copy of the newest
//! revision; who changes it by hand has it read at the next start or reload, which makes it a revision.

use crate::configuration::StartError;
use crate::durable;
use crate::state::cannot;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Revisions that are kept besides the newest.
pub const KEPT: usize = 50;

/// How a revision came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// It was edited and committed.
    Commit,
    /// It is the configuration file as somebody wrote it.
    File,
    /// It is what ran before, as a commit was not confirmed in time.
    Rollback,
}

impl Via {
    /// The word of `show revisions`.
    pub const fn name(self) -> &'static str {
        match self {
            Via::Commit => "commit",
            Via::File => "file",
            Via::Rollback => "rollback",
        }
    }
}

/// What is known of a revision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Revision {
    /// Its number; they count from 1 and never come again.
    pub number: u64,
    /// When, in milliseconds of Unix time.
    pub time_unix_ms: u64,
    /// Who.
    pub user: String,
    /// What for.
    pub comment: String,
    /// How.
    pub via: Via,
    /// How its text hashes (SHA-256).
    text_sha256: String,
}

/// A commit that has to be confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unconfirmed {
    /// The revision that it made.
    pub revision: u64,
    /// What runs again if it is not confirmed.
    pub back_to: u64,
    /// Until when, in milliseconds of Unix time.
    pub until_unix_ms: u64,
}

/// What to write as a new revision.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Who.
    pub user: &'a str,
    /// What for.
    pub comment: &'a str,
    /// How.
    pub via: Via,
    /// The configuration.
    pub text: &'a str,
}

/// The folder of all that.
pub struct Revisions {
    folder: PathBuf,
    /// The newest number that was ever given.
    last: u64,
}

const FIRST_LINE: &str = "# sluice revision ";

/// What keeps a revision from being used.
#[derive(Debug, thiserror::Error)]
#[error("revision {number} is damaged ({reason})")]
pub struct Damaged {
    number: u64,
    reason: String,
}

impl Revisions {
    /// Whether there is a folder of revisions.
    pub fn exist(state_dir: &Path) -> bool {
        state_dir.join("revisions").is_dir()
    }

    /// Opens the folder; makes it if there is none.
    pub fn open(state_dir: &Path) -> Result<Self, StartError> {
        let folder = state_dir.join("revisions");
        fs::create_dir_all(&folder).map_err(cannot("make the folder of revisions", &folder))?;
        let numbers = fs::read_dir(&folder).map_err(cannot("read", &folder))?;
        let last = numbers.filter_map(|entry| number_of(&entry.ok()?.path())).max().unwrap_or(0);
        Ok(Revisions { folder: state_dir.into(), last })
    }

    /// The folder to read from only; nothing is made, and there may be nothing.
    pub fn of(state_dir: &Path) -> Self {
        Revisions { folder: state_dir.into(), last: 0 }
    }

    /// The folder of all that.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join("revisions").join(format!("{number:08}.conf"))
    }

    /// All numbers that are there, the newest first.
    pub fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.folder.join("revisions")).into_iter().flatten();
        let mut numbers: Vec<u64> = entries.filter_map(|entry| number_of(&entry.ok()?.path())).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers
    }

    /// A revision and its text.
    pub fn read(&self, number: u64) -> Result<(Revision, String), Damaged> {
        let damaged = |reason: &dyn std::fmt::Display| Damaged { number, reason: reason.to_string() };
        let whole = fs::read_to_string(self.file(number)).map_err(|e| damaged(&e))?;
        let (revision, text) = parse_revision(&whole).map_err(|reason| damaged(&reason))?;
        Ok((revision, text.into()))
    }

    /// What is known of a revision, without its text.
    pub fn about(&self, number: u64) -> Option<Revision> {
        use io::{BufRead, BufReader, Read};
        let mut line = String::new();
        let file = fs::File::open(self.file(number)).ok()?;
        BufReader::new(file.take(1 << 16)).read_line(&mut line).ok()?;
        parse_first_line(&line).ok()
    }

    /// Writes a new revision; with this it holds. With `unconfirmed` it holds until then: that is written first, and means nothing
    /// without the revision.
    pub fn write(&mut self, new: New<'_>, unconfirmed: Option<(u64, u64)>) -> io::Result<Revision> {
        let number = self.last + 1;
        let revision = Revision {
            number,
            time_unix_ms: now_unix_ms(),
            user: new.user.into(),
            comment: new.comment.into(),
            via: new.via,
            text_sha256: hash(new.text),
        };
        if let Some((back_to, until_unix_ms)) = unconfirmed {
            let unconfirmed = Unconfirmed { revision: number, back_to, until_unix_ms };
            durable::replace(&self.unconfirmed_file(), &serde_json::to_vec(&unconfirmed)?, 0o600)?;
        }
        let whole = format!("{FIRST_LINE}{}\n{}", serde_json::to_string(&revision)?, new.text);
        durable::replace(&self.file(number), whole.as_bytes(), 0o600)?;
        self.last = number;
        for old in self.numbers().into_iter().skip(KEPT + 1) {
            let _ = fs::remove_file(self.file(old)); // it takes space and nothing else
        }
        Ok(revision)
    }

    fn unconfirmed_file(&self) -> PathBuf {
        self.folder.join("unconfirmed.json")
    }

    /// The commit that has to be confirmed, if the newest one has.
    pub fn unconfirmed(&self) -> Option<Unconfirmed> {
        let text = fs::read(self.unconfirmed_file()).ok()?;
        let unconfirmed = parse_unconfirmed(&text)?;
        (self.numbers().first() == Some(&unconfirmed.revision)).then_some(unconfirmed)
    }

    /// The newest commit holds for good.
    pub fn confirm(&self) -> io::Result<()> {
        durable::remove(&self.unconfirmed_file())
    }

    fn copy_file(&self) -> PathBuf {
        self.folder.join("file.sha256")
    }

    /// Makes the configuration file a copy of what runs.
    pub fn write_copy(&self, file: &Path, text: &str) -> io::Result<()> {
        if fs::read_to_string(file).is_ok_and(|there| there == text) {
            return self.is_copy(text);
        }
        durable::replace(file, text.as_bytes(), 0o640)?;
        self.is_copy(text)
    }

    /// Notes that this is what the configuration file says, and that it was read.
    pub fn is_copy(&self, text: &str) -> io::Result<()> {
        durable::replace(&self.copy_file(), hash(text).as_bytes(), 0o600)
    }

    /// Whether the configuration file is as it was last written or read: then the newest revision is newer, or the same.
    pub fn is_as_written(&self, text: &str) -> bool {
        let hash = hash(text);
        fs::read_to_string(self.copy_file()).is_ok_and(|written| written == hash)
            || self.numbers().first().and_then(|n| self.about(*n)).is_some_and(|r| r.text_sha256 == hash)
    }

    /// The schema that the newest revision was written by; nothing before there was one.
    pub fn schema(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("schema.json")).ok()
    }

    /// Writes that down, if it is another.
    pub fn write_schema(&self, json: &str) -> io::Result<()> {
        if self.schema().as_deref() == Some(json) {
            return Ok(());
        }
        durable::replace(&self.folder.join("schema.json"), json.as_bytes(), 0o644)
    }
}

/// Reads a revision's file: what its first line says, and the text behind it. The error says how it is damaged.
pub fn parse_revision(whole: &str) -> Result<(Revision, &str), String> {
    let (first, text) = whole.split_once('\n').ok_or("it is too short")?;
    let revision = parse_first_line(first)?;
    match revision.text_sha256 == hash(text) {
        true => Ok((revision, text)),
        false => Err("its text was changed after it was committed".into()),
    }
}

fn parse_first_line(line: &str) -> Result<Revision, String> {
    let first = line.strip_prefix(FIRST_LINE).ok_or("its first line is another")?;
    serde_json::from_str(first).map_err(|e| e.to_string())
}

/// Reads what is written down of a commit that has to be confirmed.
pub fn parse_unconfirmed(octets: &[u8]) -> Option<Unconfirmed> {
    serde_json::from_slice(octets).ok()
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".conf")?.parse().ok()
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Now, in milliseconds of Unix time.
pub fn now_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(text: &str) -> New<'_> {
        New { user: "ann", comment: "why # not", via: Via::Commit, text }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut revisions = Revisions::open(dir.path()).unwrap();
        assert!(revisions.numbers().is_empty() && revisions.read(1).is_err());
        let first = revisions.write(new("a;\n"), None).unwrap();
        revisions.write(new("b;\n"), Some((1, 99))).unwrap();
        assert_eq!(revisions.read(1).unwrap(), (first, "a;\n".into()));
        let expected = Unconfirmed { revision: 2, back_to: 1, until_unix_ms: 99 };
        assert_eq!(revisions.unconfirmed(), Some(expected));
        let mut again = Revisions::open(dir.path()).unwrap();
        assert_eq!((again.numbers(), again.unconfirmed()), (vec![2, 1], Some(expected)));
        again.write(new("c;\n"), None).unwrap();
        assert_eq!(again.unconfirmed(), None, "another one came after it");
        again.confirm().unwrap();
        again.confirm().unwrap();
        assert_eq!(again.about(3).unwrap().comment, "why # not");
    }

    #[test]
    fn every_damage_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut revisions = Revisions::open(dir.path()).unwrap();
        revisions.write(new("protocols { static; }\n"), None).unwrap();
        let file = revisions.file(1);
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert!(revisions.read(1).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            fs::write(&file, &other).unwrap();
            // What the first line says for people may change and still be one; the text may not.
            let text = revisions.read(1).map(|(_, text)| text);
            assert!(text.is_err() || text.is_ok_and(|t| t == "protocols { static; }\n"), "changed at {at}");
        }
        fs::write(&file, &whole).unwrap();
        assert!(revisions.read(1).is_ok());
    }

    #[test]
    fn a_change_by_hand_is_told_from_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sluice.conf");
        let mut revisions = Revisions::open(&dir.path().join("state")).unwrap();
        assert!(!revisions.is_as_written("a;\n"));
        revisions.write(new("a;\n"), None).unwrap();
        assert!(revisions.is_as_written("a;\n"), "a crash came before the copy");
        revisions.write_copy(&file, "a;\n").unwrap();
        revisions.write(new("b;\n"), None).unwrap();
        assert!(revisions.is_as_written("a;\n"), "a crash came before the copy");
        revisions.write_copy(&file, "b;\n").unwrap();
        assert!(!revisions.is_as_written("a;\n"), "somebody put the old one back");
        assert_eq!(fs::read_to_string(&file).unwrap(), "b;\n");
    }

    #[test]
    fn old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut revisions = Revisions::open(dir.path()).unwrap();
        for _ in 0..KEPT + 5 {
            revisions.write(new("a;\n"), None).unwrap();
        }
        let numbers = revisions.numbers();
        assert_eq!((numbers.len(), numbers[0], numbers[KEPT]), (KEPT + 1, KEPT as u64 + 5, 5));
    }
}
