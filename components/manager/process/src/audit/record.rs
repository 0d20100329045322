//! A record of the audit, its line in the file, and the check of a file. Each line has the hash of the line before, so
//! that no record can be changed, moved or taken out unseen.

use crate::version;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The newest version of records. Records of version 1 have no number; later versions have `version`.
const VERSION: u64 = 1;
/// The hash before the first record.
const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The most lines of what was done in a record; further lines are counted.
const MOST_LINES: usize = 200;

/// What somebody did, or tried to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A commit of a candidate.
    Commit,
    /// A read of the configuration file.
    Reload,
    /// The restart of a component.
    Restart,
    /// The change of a component's executable.
    Upgrade,
    /// A package that comes, is replaced, or goes.
    Package,
    /// The stop of the router.
    Stop,
    /// The right to call a method that does more than read, received by a person's process.
    Call,
    /// The first connection of a person, or the first after an hour.
    LogIn,
    /// Something that was refused.
    Denied,
}

impl Act {
    /// Returns the word for lists and files.
    pub const fn name(self) -> &'static str {
        match self {
            Act::Commit => "commit",
            Act::Reload => "reload",
            Act::Restart => "restart",
            Act::Upgrade => "upgrade",
            Act::Package => "package",
            Act::Stop => "stop",
            Act::Call => "call",
            Act::LogIn => "log-in",
            Act::Denied => "denied",
        }
    }
}

/// Who did it, by the kernel's word.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Who {
    /// The name at the Finder; `user:NAME` for a person.
    pub principal: String,
    /// The user's number; `None` if unknown.
    pub uid: Option<u32>,
    /// The process; 0 if unknown.
    pub pid: u32,
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The number, counted from 1.
    pub number: u64,
    /// The time, in milliseconds of Unix time.
    pub time_unix_ms: u64,
    /// Who did it.
    pub who: Who,
    /// What was done.
    pub act: Act,
    /// The statements, the component, the method: without secrets.
    pub lines: Vec<String>,
    /// What came of it: `done`, or the reason for which it was not.
    pub result: String,
    /// The revision that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// A record with what makes it part of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Link {
    #[serde(flatten)]
    record: Record,
    /// The hash of the link before.
    previous: String,
}

/// A line of the file: a link, and the hash of the link's text.
#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    link: Link,
    hash: String,
}

/// The end of a chain: the number and the hash of its last record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last record; 0 for an empty chain.
    pub number: u64,
    /// Its hash.
    pub hash: String,
}

impl Default for Head {
    fn default() -> Self {
        Head { number: 0, hash: NOTHING.into() }
    }
}

/// The first place at which a chain is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {reason}")]
pub struct Broken {
    /// The line of the file, counted from 1.
    pub line: u64,
    /// What is wrong there.
    pub reason: String,
}

impl Record {
    /// Cuts what was done to a bearable number of lines.
    pub fn shortened(mut self) -> Self {
        if self.lines.len() > MOST_LINES {
            let more = self.lines.len() - MOST_LINES;
            self.lines.truncate(MOST_LINES);
            self.lines.push(format!("and {more} more"));
        }
        self
    }
}

/// Returns the hash of a link's text.
fn hash(link: &str) -> String {
    Sha256::digest(link).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the end of a line behind the fields of the link.
fn end(hash: &str) -> String {
    format!(",\"hash\":\"{hash}\"}}")
}

/// Returns the line of a record behind `head`, and the new head.
///
/// # Errors
/// The record cannot be written as JSON.
pub fn line(record: Record, head: &Head) -> serde_json::Result<(String, Head)> {
    let number = record.number;
    let mut text = serde_json::to_string(&Link { record, previous: head.hash.clone() })?;
    let hash = hash(&text);
    text.truncate(text.len().saturating_sub(1));
    text.push_str(&end(&hash));
    text.push('\n');
    Ok((text, Head { number, hash }))
}

/// Reads a file of records from its first line on. Returns the records and the head.
///
/// # Errors
/// The first place at which the chain is broken.
pub fn verify(text: &str) -> Result<(Vec<Record>, Head), Broken> {
    let mut head = Head::default();
    let mut records = Vec::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let broken = |reason: String| Broken { line: number, reason };
        let whole = line.strip_suffix('\n').ok_or_else(|| broken("the line is cut off".into()))?;
        version::check(whole, VERSION).map_err(|error| broken(format!("the record has {error}")))?;
        let Line { link, hash: stated } =
            serde_json::from_str(whole).map_err(|error| broken(format!("no record: {error}")))?;
        if link.record.number != head.number + 1 {
            let (found, expected) = (link.record.number, head.number + 1);
            return Err(broken(format!("record {found} stands where record {expected} belongs")));
        }
        if link.previous != head.hash {
            return Err(broken("it does not follow the line before".into()));
        }
        // Of the text: the hash includes fields that only another version knows.
        let text = whole.strip_suffix(&end(&stated)).map(|link| format!("{link}}}"));
        if text.is_none_or(|text| hash(&text) != stated) {
            return Err(broken("the record was changed after it was written".into()));
        }
        head = Head { number: link.record.number, hash: stated };
        records.push(link.record);
    }
    Ok((records, head))
}

/// Returns an error if a chain does not end at the head that was noted elsewhere: records at the end were taken out.
pub(crate) fn check_head(found: &Head, noted: &Head) -> Result<(), Broken> {
    if found == noted {
        return Ok(());
    }
    let reason = match found.number < noted.number {
        true => format!("records {} to {} are missing at the end", found.number + 1, noted.number),
        false => "it does not end where the note of its end states".into(),
    };
    Err(Broken { line: found.number + 1, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(number: u64) -> Record {
        let who = Who { principal: "user:ann".into(), uid: Some(1000), pid: 7 };
        let lines = vec![format!("set protocols static route 10.{number}.0.0/16 discard")];
        let revision = Some(number + 3);
        Record { number, time_unix_ms: 5, who, act: Act::Commit, lines, result: "done".into(), revision }
    }

    fn chain(of: u64) -> (String, Head) {
        let (mut text, mut head) = (String::new(), Head::default());
        for number in 1..=of {
            let (line, next) = line(record(number), &head).unwrap();
            text.push_str(&line);
            head = next;
        }
        (text, head)
    }

    #[test]
    fn a_chain_is_read_as_it_was_written() {
        let (text, head) = chain(5);
        let (records, found) = verify(&text).unwrap();
        assert_eq!((records, &found), ((1..=5).map(record).collect(), &head));
        assert_eq!(check_head(&found, &head), Ok(()));
        assert_eq!(verify("").unwrap().1, Head::default());
    }

    #[test]
    fn fields_of_another_version_are_skipped_and_part_of_the_chain() {
        let (text, head) = chain(2);
        let link = serde_json::to_string(&Link { record: record(3), previous: head.hash }).unwrap();
        let link = link.replace("{\"number\"", "{\"place\":{\"rack\":7},\"number\"");
        let signed = |link: &str, hash: &str| format!("{}{}\n", link.strip_suffix('}').unwrap(), end(hash));
        let whole = text + &signed(&link, &hash(&link));
        assert_eq!(verify(&whole).unwrap().0, (1..=3).map(record).collect::<Vec<_>>());
        let broken = verify(&whole.replace("rack", "room")).unwrap_err();
        assert_eq!((broken.line, broken.reason.contains("was changed")), (3, true));
        // A later version may mean something else by the same fields.
        let later = link.replace("{\"place\"", "{\"version\":2,\"place\"");
        let broken = verify(&(chain(2).0 + &signed(&later, &hash(&later)))).unwrap_err();
        assert_eq!(broken.line, 3);
        assert!(broken.reason.contains("version 2") && broken.reason.contains("up to 1"), "{broken}");
    }

    #[test]
    fn every_kind_of_damage_has_its_place() {
        let (text, head) = chain(6);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let check = |lines: Vec<String>, place: u64| {
            let text: String = lines.concat();
            let outcome = verify(&text).and_then(|(_, found)| check_head(&found, &head));
            assert_eq!(outcome.expect_err(&text).line, place, "{text}");
        };
        let owned = || lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        for n in 0..6 {
            let mut dropped = owned();
            dropped.remove(n);
            check(dropped, n as u64 + 1);
            let mut edited = owned();
            edited[n] = edited[n].replace("discard", "reject");
            check(edited, n as u64 + 1);
            check(owned()[..n].to_vec(), n as u64 + 1);
            let mut cut = owned()[..=n].to_vec();
            cut[n].truncate(20);
            check(cut, n as u64 + 1);
            if n > 0 {
                let mut moved = owned();
                moved.swap(n - 1, n);
                check(moved, n as u64);
            }
        }
        let mut doubled = owned();
        doubled.insert(3, owned()[2].clone());
        check(doubled, 4);
    }

    #[test]
    fn a_record_with_a_new_hash_does_not_fit_the_next() {
        let (text, head) = chain(4);
        let mut lines: Vec<String> = text.split_inclusive('\n').map(Into::into).collect();
        let before = verify(&lines[..1].concat()).unwrap().1;
        let forged = Record { result: "refused".into(), ..record(2) };
        lines[1] = line(forged, &before).unwrap().0;
        assert_eq!(verify(&lines.concat()).unwrap_err().line, 3);
        // The last record has no next one: the note of the end decides.
        let (text, before) = chain(3);
        let forged = line(Record { result: "refused".into(), ..record(4) }, &before).unwrap().0;
        let (_, found) = verify(&(text + &forged)).unwrap();
        assert!(check_head(&found, &head).is_err());
    }

    proptest! {
        #[test]
        fn garbage_is_refused_and_never_panics(text: String, at in 0_usize..2000, octet: u8) {
            let _ = verify(&text);
            let mut whole = chain(3).0.into_bytes();
            let at = at % whole.len();
            prop_assume!(whole[at] != octet);
            whole[at] = octet;
            if let Ok(changed) = String::from_utf8(whole) {
                let records: Vec<Record> = (1..=3).map(record).collect();
                // White space between members means nothing to JSON; then the records are the same.
                prop_assert!(verify(&changed).is_err() || verify(&changed).unwrap().0 == records);
            }
        }
    }
}
