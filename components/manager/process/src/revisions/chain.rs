//! The files of revisions. A file holds a whole configuration, or the steps from an earlier revision; so a revision's
//! content is the whole configuration at the end of its chain with every step taken. A chain is as good as each of its
//! links.

use super::KEPT;
use super::line::{Base, Damage, Revision, parse_first_line, parse_revision};
use sluice_config::steps::Outline;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The largest number of a revision. A file with a larger number in its name was not written by the router, and is
/// ignored: no number would be left after the revision.
pub const LARGEST: u64 = 1 << 48;

/// The reason why a revision cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("revision {number} is damaged ({reason})")]
pub struct Damaged {
    number: u64,
    reason: String,
}

/// A revision as it is stored.
pub(super) struct Chain {
    pub revision: Revision,
    /// The whole configuration.
    pub text: String,
    /// The number of successive steps.
    pub links: usize,
    /// Octets of the chain's steps.
    pub steps: usize,
    /// Octets of the whole configuration on which they stand.
    pub whole: usize,
}

/// The folder in which the folder of revisions is.
#[derive(Clone)]
pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn file(&self, number: u64) -> PathBuf {
        self.0.join("revisions").join(format!("{number:08}.conf"))
    }

    /// Returns every revision number, the newest first, including revisions kept only as bases.
    pub fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(self.0.join("revisions")).into_iter().flatten();
        let mut numbers: Vec<u64> = entries
            .filter_map(|entry| number_of(&entry.ok()?.path()))
            .filter(|number| *number <= LARGEST)
            .collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers
    }

    /// Returns a revision without its text.
    pub fn about(&self, number: u64) -> Option<Revision> {
        let mut line = String::new();
        let file = fs::File::open(self.file(number)).ok()?;
        BufReader::new(file.take(1 << 16)).read_line(&mut line).ok()?;
        parse_first_line(&line).ok()
    }

    /// A revision and its whole text.
    pub fn read(&self, number: u64) -> Result<Chain, Damaged> {
        let damaged = |reason: String| Damaged { number, reason };
        let mut steps: Vec<String> = Vec::new();
        let mut newest: Option<Revision> = None;
        let (mut at, mut expected): (u64, Option<Base>) = (number, None);
        let whole = loop {
            let of_base = |reason: &dyn std::fmt::Display| match at == number {
                true => damaged(reason.to_string()),
                false => damaged(format!("it stands on revision {at}: {reason}")),
            };
            let mut file = fs::read_to_string(self.file(at)).map_err(|e| of_base(&e))?;
            let (revision, text) = parse_revision(&file).map_err(|reason| of_base(&reason))?;
            if expected.is_some_and(|base| base.sha256 != revision.text_sha256) {
                return Err(of_base(&"that is another than it was"));
            }
            let start = file.len() - text.len();
            let base = revision.base.clone();
            newest.get_or_insert(revision);
            file.drain(..start);
            let Some(base) = base else { break file };
            if base.number >= at {
                return Err(of_base(&"it stands on nothing before it"));
            }
            steps.push(file);
            at = base.number;
            expected = Some(base);
        };
        let Some(revision) = newest else { return Err(damaged("there is none".into())) };
        let (links, octets) = (steps.len(), steps.iter().map(String::len).sum());
        let length = whole.len();
        let text = match links {
            0 => whole,
            _ => taken(&whole, &steps).map_err(|damage| damaged(damage.to_string()))?,
        };
        Ok(Chain { revision, text, links, steps: octets, whole: length })
    }

    /// Removes revisions older than the kept revisions, except bases of kept revisions. A failure to remove only costs
    /// space.
    pub fn prune(&self) {
        let numbers = self.numbers();
        let Some(kept) = numbers.get(..=KEPT) else { return };
        let mut needed: BTreeSet<u64> = BTreeSet::new();
        for number in &numbers {
            // The newest first: who stands on another is looked at before it.
            if (kept.contains(number) || needed.contains(number))
                && let Some(base) = self.about(*number).and_then(|revision| revision.base)
            {
                needed.insert(base.number);
            }
        }
        for old in numbers.iter().skip(kept.len()).filter(|old| !needed.contains(old)) {
            let _ = fs::remove_file(self.file(*old));
        }
    }
}

/// A text after steps, of which the newest come first.
fn taken(whole: &str, steps: &[String]) -> Result<String, Damage> {
    let mut outline =
        Outline::read("revision", whole).map_err(|e| Damage::Base(e.without_line().to_string()))?;
    for steps in steps.iter().rev() {
        outline.step(steps).map_err(|_| Damage::Steps)?;
    }
    Ok(outline.to_string())
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".conf")?.parse().ok()
}
