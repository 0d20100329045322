//! The record: the last result of each step, in `docs/long-runs.json`.

use anyhow::{Context, Result};
use bench_report::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file of the record, below the root.
pub const FILE: &str = "docs/long-runs.json";

/// The outcome of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The step ran to its end without a failure.
    Passed,
    /// The step failed or could not be built.
    Failed,
    /// The step exceeded its bound and was killed.
    Timeout,
    /// The machine lacks something that the step needs.
    Skipped,
}

impl Outcome {
    /// Returns the word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Timeout => "timeout",
            Outcome::Skipped => "skipped",
        }
    }
}

/// The last run of a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The campaign's name.
    pub campaign: String,
    /// The step's name.
    pub step: String,
    /// The commit, with `+` behind it if the sources had further changes.
    pub commit: String,
    /// The time of the start, as in `2026-11-28T08:30:00Z`.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// The duration without builds.
    pub seconds: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// The caught bugs of a step of seeded bugs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caught: Option<u64>,
    /// All bugs of a step of seeded bugs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The reason of a failure, or names of missed bugs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The form of the file.
#[derive(Default, Serialize, Deserialize)]
struct Runs {
    runs: Vec<Run>,
}

/// The last run of each step, by campaign and step.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Record {
    runs: BTreeMap<(String, String), Run>,
}

impl Record {
    /// Reads the record of a workspace. A workspace without the file has an empty record.
    ///
    /// # Errors
    ///
    /// If the file is not of the expected form.
    pub fn read(root: &Path) -> Result<Self> {
        match std::fs::read_to_string(root.join(FILE)) {
            Ok(text) => Self::parse(&text).context(FILE),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error).context(FILE),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let file: Runs = serde_json::from_str(text)?;
        let mut record = Record::default();
        file.runs.into_iter().for_each(|run| record.put(run));
        Ok(record)
    }

    /// Returns the last run of a step.
    pub fn last(&self, campaign: &str, step: &str) -> Option<&Run> {
        self.runs.get(&(campaign.to_owned(), step.to_owned()))
    }

    /// Replaces the last run of the run's step, unless the known one is later.
    pub fn put(&mut self, run: Run) {
        let key = (run.campaign.clone(), run.step.clone());
        if self.runs.get(&key).is_none_or(|known| known.date <= run.date) {
            self.runs.insert(key, run);
        }
    }

    /// Removes the runs of steps that `is_known` does not accept.
    pub fn retain(&mut self, is_known: impl Fn(&str, &str) -> bool) {
        self.runs.retain(|(campaign, step), _| is_known(campaign, step));
    }

    /// Returns all runs, sorted by campaign and step.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.values()
    }

    fn text(&self) -> Result<String> {
        let file = Runs { runs: self.runs.values().cloned().collect() };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// Adds a run to the file, which may have changed since it was read, and replaces the file atomically.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn add(root: &Path, run: Run, is_known: impl Fn(&str, &str) -> bool) -> Result<Self> {
        let mut record = Record::read(root)?;
        record.put(run);
        record.retain(is_known);
        let new = root.join(FILE).with_extension("new");
        std::fs::write(&new, record.text()?).context(FILE)?;
        std::fs::rename(&new, root.join(FILE)).context(FILE)?;
        Ok(record)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of a step at a date.
    pub fn run(campaign: &str, step: &str, date: &str, seconds: u64) -> Run {
        Run {
            campaign: campaign.into(),
            step: step.into(),
            commit: "0123456789ab".into(),
            date: date.into(),
            machine: Machine { cpu: "a processor".into(), cores: 2, kernel: "6.1".into() },
            seconds,
            outcome: Outcome::Passed,
            caught: None,
            of: None,
            detail: None,
        }
    }

    #[test]
    fn the_file_keeps_the_last_run_of_each_known_step() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), Record::default());
        let add = |run: Run| Record::add(folder.path(), run, |_, step| step != "gone").unwrap();
        add(run("b", "1", "2026-01-02", 1));
        add(run("a", "2", "2026-01-01", 2));
        add(run("a", "gone", "2026-01-03", 3));
        let mut failed = run("b", "1", "2026-01-04", 4);
        (failed.outcome, failed.detail, failed.caught) = (Outcome::Timeout, Some("why".into()), Some(3));
        let record = add(failed.clone());
        assert_eq!(record, Record::read(folder.path()).unwrap());
        let steps: Vec<_> = record.runs().map(|run| (run.campaign.as_str(), run.seconds)).collect();
        assert_eq!(steps, [("a", 2), ("b", 4)]);
        assert_eq!(record.last("b", "1"), Some(&failed));
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(text.contains(r#""outcome": "timeout""#) && text.ends_with("}\n"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path().join("docs")).unwrap().count(), 1);
    }

    #[test]
    fn an_earlier_run_does_not_replace_a_later_one() {
        let mut record = Record::default();
        record.put(run("a", "1", "2026-01-02", 1));
        record.put(run("a", "1", "2026-01-01", 2));
        assert_eq!(record.last("a", "1").unwrap().seconds, 1);
        assert!(Record::parse("{}").is_err());
    }
}
