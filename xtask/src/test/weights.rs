//! Measured times of test modules, from earlier runs.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name of the file below cargo's target folder with the times of the last run.
const TIMES: &str = "test-times.json";
/// Committed times, for machines without a last run.
const SEED: &str = "xtask/test-weights.json";
/// Shorter modules are not in the committed file: their order changes nothing.
const SEED_MIN_SECONDS: f64 = 3.0;

/// Wall time and processor time of a module, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Weight {
    pub wall: f64,
    /// User and system time of the process and of the children that it waited for.
    pub cpu: f64,
}

/// Weights by module key (`FOLDER PROGRAM MODULE`, or `FOLDER PROGRAM` for an undivided program).
type Table = BTreeMap<String, Weight>;

/// Weights of the last run, and committed weights for modules without one.
#[derive(Default)]
pub struct Weights {
    last: Table,
    seed: Table,
}

impl Weights {
    /// Reads both files. An absent or damaged file counts as empty: weights decide about the order only.
    pub fn read(root: &Path, target: &Path) -> Self {
        let read = |path: PathBuf| -> Table {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        };
        Self { last: read(target.join(TIMES)), seed: read(root.join(SEED)) }
    }

    /// Returns a module's weight.
    pub fn get(&self, key: &str) -> Option<Weight> {
        self.last.get(key).or_else(|| self.seed.get(key)).copied()
    }

    /// Returns the wall time of a program: its own, or the sum of its modules.
    pub fn program_wall(&self, key: &str) -> f64 {
        let sum = |table: &Table| -> f64 {
            let walls = table.iter().filter(|(other, _)| belongs(other, key)).map(|(_, weight)| weight.wall);
            walls.sum()
        };
        let last = sum(&self.last);
        if last > 0.0 { last } else { sum(&self.seed) }
    }

    /// Adds the measured times of a run. A run of the whole workspace replaces all earlier times; a partial run
    /// replaces the times of its programs' modules: of a program that is divided now, the undivided time is dropped.
    pub fn add(&mut self, measured: &[(String, Weight)], is_whole: bool) {
        if is_whole {
            self.last.clear();
        }
        for (key, weight) in measured {
            self.last.retain(|other, _| !is_part(other, key) && !is_part(key, other));
            self.last.insert(key.clone(), *weight);
        }
    }

    /// Writes the file of the last run.
    pub fn write(&self, target: &Path) -> Result<()> {
        write(&target.join(TIMES), &self.last)
    }

    /// Writes the times of a run's long modules as committed weights. After a run of the whole workspace no other
    /// committed weights remain.
    pub fn write_seed(&self, root: &Path, measured: &[(String, Weight)], is_whole: bool) -> Result<()> {
        let mut seed = if is_whole { Table::new() } else { self.seed.clone() };
        for (key, weight) in measured {
            seed.retain(|other, _| other != key && !is_part(other, key) && !is_part(key, other));
            if weight.wall >= SEED_MIN_SECONDS {
                seed.insert(key.clone(), *weight);
            }
        }
        write(&root.join(SEED), &seed)
    }
}

/// Returns true if `key` names a module of the program `program`.
fn is_part(key: &str, program: &str) -> bool {
    key.strip_prefix(program).is_some_and(|rest| rest.starts_with(' '))
}

fn belongs(key: &str, program: &str) -> bool {
    key == program || is_part(key, program)
}

/// Writes a table, one module a line, in a new file that replaces the old file.
fn write(path: &Path, table: &Table) -> Result<()> {
    let new = path.with_extension("json.new");
    std::fs::write(&new, text(table)?).with_context(|| format!("cannot write {}", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
}

fn text(table: &Table) -> Result<String> {
    let mut text = String::from("{");
    for (number, (key, weight)) in table.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let key = serde_json::to_string(key)?;
        write!(text, "{comma}\n  {key}: {{\"wall\": {:.2}, \"cpu\": {:.2}}}", weight.wall, weight.cpu)?;
    }
    text.push_str("\n}\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn weight(wall: f64, cpu: f64) -> Weight {
        Weight { wall, cpu }
    }

    #[test]
    fn a_written_table_is_read_again() {
        let (root, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(root.path().join("xtask")).unwrap();
        let mut weights = Weights::default();
        let measured = [("a p".into(), weight(2.5, 1.0)), ("b p m".into(), weight(60.0, 7.25))];
        weights.add(&measured, true);
        weights.write(target.path()).unwrap();
        weights.write_seed(root.path(), &measured, true).unwrap();
        let both = Weights::read(root.path(), target.path());
        assert_eq!(both.get("a p"), Some(weight(2.5, 1.0)));
        assert_eq!(both.get("b p m"), Some(weight(60.0, 7.25)));
        let fresh = Weights::read(root.path(), root.path());
        assert_eq!(fresh.get("a p"), None, "short modules are not committed");
        assert_eq!(fresh.get("b p m"), Some(weight(60.0, 7.25)));
        fresh.write_seed(root.path(), &[("c p".into(), weight(9.0, 9.0))], false).unwrap();
        let merged = Weights::read(root.path(), root.path());
        assert!(merged.get("b p m").is_some() && merged.get("c p").is_some());
        assert_eq!(text(&Table::new()).unwrap(), "{\n}\n");
    }

    #[test]
    fn a_partial_run_replaces_its_own_modules_only() {
        let mut weights = Weights::default();
        weights.add(&[("a p".into(), weight(9.0, 1.0)), ("b p".into(), weight(2.0, 1.0))], true);
        weights.add(&[("a p m".into(), weight(4.0, 1.0)), ("a p n".into(), weight(3.0, 1.0))], false);
        assert_eq!(weights.get("a p"), None);
        assert_eq!(weights.get("b p"), Some(weight(2.0, 1.0)));
        assert_eq!(weights.program_wall("a p"), 7.0);
        weights.add(&[("a p".into(), weight(1.0, 1.0))], false);
        assert_eq!(weights.program_wall("a p"), 1.0);
        weights.add(&[("c p".into(), weight(1.0, 1.0))], true);
        assert_eq!(weights.get("b p"), None, "a whole run forgets modules that no longer exist");
    }

    #[test]
    fn a_damaged_file_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TIMES), "{\"a\": ").unwrap();
        assert_eq!(Weights::read(folder.path(), folder.path()).get("a"), None);
    }

    #[test]
    fn the_committed_weights_are_readable() {
        let root = crate::root();
        let text = std::fs::read_to_string(root.join(SEED)).unwrap();
        serde_json::from_str::<Table>(&text).unwrap();
    }
}
