//! Epochs: each change of the data in effect makes a new epoch, and takes effect as a whole.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use sluice_validation::{AnyVrp, TableChanges, VrpTable};

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
    /// The differences between epochs, each with the number of the later epoch.
    log: VecDeque<(u64, TableChanges)>,
    logged: usize,
}

impl Epochs {
    /// Begins without data. Numbers of epochs grow from `first` on and differ between processes.
    pub fn new(first: u64) -> Self {
        Epochs { number: first, table: None, log: VecDeque::new(), logged: 0 }
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
        let changes = match (&self.table, &table) {
            (None, None) => return None,
            (Some(old), Some(new)) => Some(old.changes_to(new)),
            _ => None,
        };
        if changes.as_ref().is_some_and(TableChanges::is_empty) {
            return None;
        }
        self.number += 1;
        let count = match changes {
            Some(changes) => {
                let count = changes.len();
                self.logged += count;
                self.log.push_back((self.number, changes));
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
        Some(count)
    }

    /// Returns the difference from the epoch `known` to the present epoch.
    pub fn since(&self, known: u64) -> Missing {
        if known == self.number {
            return Missing::Nothing;
        }
        let Some(first) = self.log.iter().position(|(number, _)| *number == known + 1) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
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
