//! Epochs: each change of the data in effect makes a new epoch, and takes effect as a whole.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_validation::{AnyVrp, TableChanges, VrpTable, write_record};

/// The most changed VRPs and ASPAs in the log of differences. A subscriber with an older epoch receives the whole table.
const MOST_LOGGED: usize = 1 << 16;

/// The difference between a subscriber's epoch and the present epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The epochs are equal.
    Nothing,
    /// Changes of the subscriber's table.
    Changes(TableChanges),
    /// The whole table, or its absence.
    Whole,
}

/// The data in effect, and the latest differences.
#[derive(Debug)]
pub struct Epochs {
    number: u64,
    table: Option<Arc<VrpTable>>,
    /// The number at the start of the process. New epochs have higher numbers.
    first: u64,
    /// The number of epochs so far.
    count: u64,
    /// The data of the process before this one; `None` once data are set.
    resumed: Option<Resumed>,
    /// The differences between epochs, each with the number of the earlier epoch.
    log: VecDeque<(u64, TableChanges)>,
    logged: usize,
}

/// The data in effect at a hand-over: the fingerprint of the table, `None` without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Resumed(Option<u64>);

/// The present epoch, for a new process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EpochsState {
    number: u64,
    count: u64,
    /// The fingerprint of the data in effect.
    fingerprint: Option<u64>,
}

impl Epochs {
    /// Begins without data. Numbers of epochs grow from `first` on and differ between processes.
    pub fn new(first: u64) -> Self {
        let (table, resumed, log) = (None, None, VecDeque::new());
        Epochs { number: first, table, first, count: 0, resumed, log, logged: 0 }
    }

    /// Returns the present epoch for a new process.
    pub(crate) fn export(&self) -> EpochsState {
        let fingerprint = self.table.as_deref().map(fingerprint);
        EpochsState { number: self.number, count: self.count, fingerprint }
    }

    /// Takes over the present epoch of an earlier process. If the first data set are equal, they are of the same epoch: subscribers
    /// have them already.
    pub(crate) fn import(&mut self, state: EpochsState) {
        (self.number, self.count) = (state.number, state.count);
        self.resumed = Some(Resumed(state.fingerprint));
    }

    /// Returns true between [`Epochs::import`] and the first data.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed.is_some()
    }

    /// Returns true if data are in effect, or were at a hand-over.
    pub(crate) fn has_data(&self) -> bool {
        self.table.is_some() || self.resumed.is_some_and(|Resumed(table)| table.is_some())
    }

    /// Returns the number of epochs since the first process of a row of hand-overs began.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the present epoch's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the data in effect, if any.
    pub fn table(&self) -> Option<&Arc<VrpTable>> {
        self.table.as_ref()
    }

    /// Sets the data in effect. Returns the number of changed VRPs and ASPAs; `None` if the data did not change.
    pub fn set(&mut self, table: Option<Arc<VrpTable>>) -> Option<usize> {
        if let Some(Resumed(before)) = self.resumed.take() {
            if before == table.as_deref().map(fingerprint) {
                self.table = table;
                return None;
            }
            return Some(self.advance(table, None));
        }
        let changes = match (&self.table, &table) {
            (None, None) => return None,
            (Some(old), Some(new)) => Some(old.changes_to(new)),
            _ => None,
        };
        if changes.as_ref().is_some_and(TableChanges::is_empty) {
            return None;
        }
        Some(self.advance(table, changes))
    }

    /// Begins an epoch with other data. Returns the number of changed VRPs and ASPAs. Without `changes` subscribers receive the whole
    /// table.
    fn advance(&mut self, table: Option<Arc<VrpTable>>, changes: Option<TableChanges>) -> usize {
        let before = self.number;
        // The process before this one may have had a further epoch, with the next number.
        self.number = before.max(self.first) + 1;
        self.count += 1;
        let count = match changes {
            Some(changes) => {
                let count = changes.len();
                self.logged += count;
                self.log.push_back((before, changes));
                while self.logged > MOST_LOGGED {
                    let Some((_, oldest)) = self.log.pop_front() else { break };
                    self.logged -= oldest.len();
                }
                count
            }
            None => {
                self.log.clear();
                self.logged = 0;
                self.table.as_ref().or(table.as_ref()).map_or(0, |table| table.len() + table.aspas.len())
            }
        };
        self.table = table;
        count
    }

    /// Returns the difference from the epoch `known` to the present epoch.
    pub fn since(&self, known: u64) -> Missing {
        if known == self.number {
            return Missing::Nothing;
        }
        let Some(first) = self.log.iter().position(|(number, _)| *number == known) else {
            return Missing::Whole;
        };
        // A VRP comes and goes by turns: first and last change say what the difference is.
        let mut net: BTreeMap<AnyVrp, (bool, bool)> = BTreeMap::new();
        for (vrp, is_added) in self.log.iter().skip(first).flat_map(|(_, changes)| changes.vrps()) {
            net.entry(vrp).or_insert((is_added, is_added)).1 = is_added;
        }
        let mut changes = TableChanges::default();
        for (vrp, (before, after)) in net {
            if before == after {
                changes.push(vrp, after);
            }
        }
        for (_, later) in self.log.iter().skip(first) {
            let aspas = later.aspas.iter();
            changes.aspas.extend(aspas.map(|(customer, providers)| (*customer, providers.clone())));
        }
        Missing::Changes(changes)
    }
}

/// Returns a number that distinguishes tables, of the same value in each version (FNV-1a over all records).
fn fingerprint(table: &VrpTable) -> u64 {
    let mut octets = Vec::new();
    let step = |sum: u64, octet: &u8| (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    table.records().fold(0xcbf2_9ce4_8422_2325, |sum, record| {
        octets.clear();
        write_record(&record, &mut octets);
        octets.iter().fold(sum, step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::{Asn, IpPrefix};
    use std::format;

    fn table(asns: &[u32]) -> Option<Arc<VrpTable>> {
        let vrp = |asn: &u32| {
            let prefix: IpPrefix =
                format!("10.{}.{}.0/24", asn / 256 % 256, asn % 256).parse().expect("a prefix");
            AnyVrp::new(prefix, 24, Asn(*asn)).expect("a VRP")
        };
        Some(Arc::new(VrpTable::new(asns.iter().map(vrp))))
    }

    #[test]
    fn differences_lead_to_the_present_epoch() {
        let mut epochs = Epochs::new(100);
        assert_eq!(epochs.set(None), None);
        let steps: [&[u32]; 5] = [&[1, 2], &[1, 2, 3], &[1, 3], &[1, 2, 3, 4], &[2, 3]];
        let mut known = Vec::new();
        for step in steps {
            assert!(epochs.set(table(step)).is_some());
            assert_eq!(epochs.set(table(step)), None, "equal data are no epoch");
            known.push((epochs.number(), epochs.table().cloned().expect("data")));
        }
        assert_eq!(epochs.number(), 105);
        assert_eq!(epochs.since(100), Missing::Whole);
        assert_eq!(epochs.since(105), Missing::Nothing);
        assert_eq!(epochs.since(99), Missing::Whole);
        assert_eq!(epochs.since(u64::MAX - 1), Missing::Whole);
        let last = known.last().expect("an epoch").1.clone();
        for (number, old) in &known[..4] {
            let Missing::Changes(changes) = epochs.since(*number) else { panic!("{number} is in the log") };
            assert_eq!(old.changed(&changes), *last, "from {number}");
            assert_eq!(changes, old.changes_to(&last), "the smallest difference");
        }
        assert_eq!(epochs.set(None), Some(2));
        assert_eq!(epochs.since(105), Missing::Whole);
    }

    #[test]
    fn equal_data_of_another_process_are_the_same_epoch() {
        let mut old = Epochs::new(100);
        old.set(table(&[1, 2]));
        let resumed = |first: u64| {
            let mut new = Epochs::new(first);
            new.import(old.export());
            new
        };
        let mut same = resumed(5000);
        assert_eq!(same.set(table(&[1, 2])), None);
        assert_eq!((same.number(), same.count(), same.since(101)), (101, 1, Missing::Nothing));
        // A number that the old process could have used for another table is not used.
        assert_eq!((same.set(table(&[1])), same.number(), same.count()), (Some(1), 5001, 2));
        assert!(matches!(same.since(101), Missing::Changes(changes) if changes.len() == 1));
        assert_eq!(same.since(102), Missing::Whole);
        let mut other = resumed(5000);
        assert_eq!(other.set(table(&[1])), Some(1));
        assert_eq!((other.number(), other.since(101)), (5001, Missing::Whole));
        let mut gone = resumed(50);
        assert_eq!(gone.set(None), Some(0));
        assert_eq!((gone.number(), gone.since(101)), (102, Missing::Whole));
    }

    #[test]
    fn the_log_is_bounded() {
        let mut epochs = Epochs::new(0);
        let many: Vec<u32> = (0..MOST_LOGGED as u32 - 10).collect();
        epochs.set(table(&[70000]));
        epochs.set(table(&many));
        let known = epochs.number();
        assert!(matches!(epochs.since(known - 1), Missing::Changes(_)));
        epochs.set(table(&many[20..]));
        assert_eq!(epochs.since(known - 1), Missing::Whole);
        assert!(matches!(epochs.since(known), Missing::Changes(changes) if changes.len() == 20));
    }
}
