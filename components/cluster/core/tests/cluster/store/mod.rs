//! A model of the store: linearizable, with revisions, a leader's key, history for watches, and compaction.

use sluice_cluster::stream::loader::{LoadError, Loaded, Loader};
use sluice_cluster::stream::store::{Key, Outcome, Transaction};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Store {
    revision: u64,
    /// Values with the revision of their last change.
    values: BTreeMap<String, (Vec<u8>, u64)>,
    /// Entries of the log by the revision of their transaction.
    history: BTreeMap<u64, Vec<Vec<u8>>>,
    compacted: u64,
    /// The revision at which the leader's key was created.
    leader: Option<u64>,
}

impl Store {
    /// Ends the lease of the leader, and lets another one begin. Returns the epoch.
    pub fn elect(&mut self) -> u64 {
        self.revision += 1;
        self.leader = Some(self.revision);
        self.revision
    }

    pub fn transact(&mut self, transaction: &Transaction) -> Outcome {
        let head = self.values.get("head").cloned();
        let is_leader = self.leader == Some(transaction.epoch);
        let revision = head.as_ref().map_or(0, |(_, revision)| *revision);
        if !is_leader || revision != transaction.head_revision {
            return Outcome::Refused { is_leader, head };
        }
        assert!(transaction.puts.len() + transaction.removed_chunks.len() + 2 <= 128, "operations");
        let octets: usize = transaction.puts.iter().map(|(_, octets)| octets.len()).sum();
        assert!(octets < 1_500_000, "{octets} octets");
        self.revision += 1;
        if transaction.clears {
            self.values.clear();
        }
        for id in &transaction.removed_chunks {
            assert!(self.values.remove(&Key::Chunk(*id).text()).is_some(), "{id}");
        }
        if let Some((from, to)) = transaction.removed_entries {
            for sequence in from..to {
                assert!(self.values.remove(&Key::Entry(sequence).text()).is_some(), "{sequence}");
            }
        }
        for (key, octets) in &transaction.puts {
            if let Key::Entry(_) = key {
                self.history.entry(self.revision).or_default().push(octets.clone());
            }
            self.values.insert(key.text(), (octets.clone(), self.revision));
        }
        Outcome::Done(self.revision)
    }

    pub fn load(&self) -> Result<Loaded, LoadError> {
        let mut loader = Loader::default();
        let head = self.values.iter().filter(|(key, _)| *key == "head");
        for (key, (octets, revision)) in head.chain(self.values.iter().filter(|(key, _)| *key != "head")) {
            loader.add(key, octets, *revision);
        }
        loader.finish(self.revision)
    }

    /// Returns the entries behind a revision; `None` if the history is gone.
    pub fn watch(&self, behind: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        let later = self.history.range(behind + 1..);
        let all =
            later.flat_map(|(revision, entries)| entries.iter().map(|entry| (*revision, entry.clone())));
        (behind >= self.compacted).then(|| all.collect())
    }

    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// Returns the number of keys that begin with a text.
    pub fn count(&self, start: &str) -> usize {
        self.values.keys().filter(|key| key.starts_with(start)).count()
    }

    /// Damages a value.
    pub fn damage(&mut self, key: &str) {
        if let Some((octets, _)) = self.values.get_mut(key) {
            octets.truncate(octets.len() / 2);
        }
    }
}
