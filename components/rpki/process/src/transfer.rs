//! An epoch in pages for subscribers: whole, or as the difference to the subscriber's epoch.

use sluice_rpki::epoch::{Epochs, Missing};
use sluice_validation::{Record, write_record};

/// Octets after which a page ends: a page has at most 65,531 more, the longest record of an ASPA.
pub const OCTETS: usize = 94_208;

/// The pages from a known epoch to the present epoch.
pub struct Transfer {
    /// The epoch of the receiver; 0 without data.
    pub known: u64,
    /// The epoch after the last page.
    pub epoch: u64,
    /// True if there are data.
    pub has_data: bool,
    /// True for the whole table, false for changes.
    pub is_whole: bool,
    /// The pages, each with whole records.
    pub pages: Vec<Vec<u8>>,
}

impl Transfer {
    /// Makes the pages.
    pub fn new(known: u64, epochs: &Epochs) -> Self {
        let missing = epochs.since(known);
        let (is_whole, pages) = match (missing, epochs.table()) {
            (Missing::Nothing, _) => (false, Vec::new()),
            (Missing::Changes(changes), Some(_)) => (false, pages(changes.records())),
            (_, Some(table)) => (true, pages(table.records())),
            (_, None) => (true, Vec::new()),
        };
        Transfer { known, epoch: epochs.number(), has_data: epochs.table().is_some(), is_whole, pages }
    }
}

/// Writes records to pages.
pub(crate) fn pages(records: impl Iterator<Item = Record>) -> Vec<Vec<u8>> {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    for record in records {
        match pages.last_mut().filter(|page| page.len() < OCTETS) {
            Some(page) => write_record(&record, page),
            None => {
                let mut page = Vec::new();
                write_record(&record, &mut page);
                pages.push(page);
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::{Asn, IpPrefix};
    use sluice_validation::{AnyVrp, VrpTable, read_records};
    use std::sync::Arc;

    fn vrps(count: u32) -> Vec<AnyVrp> {
        let vrp = |n: u32| {
            let prefix: IpPrefix = format!("10.{}.{}.0/24", n / 256, n % 256).parse().expect("a prefix");
            AnyVrp::new(prefix, 24, Asn(n)).expect("a VRP")
        };
        (0..count).map(vrp).collect()
    }

    #[test]
    fn pages_have_all_records() {
        let mut epochs = Epochs::new(7);
        let none = Transfer::new(0, &epochs);
        assert_eq!((none.has_data, none.is_whole, none.pages.len()), (false, true, 0));
        let all = vrps(10_000);
        epochs.set(Some(Arc::new(VrpTable::new(all.iter().copied()))));
        let whole = Transfer::new(7, &epochs);
        assert_eq!((whole.is_whole, whole.has_data, whole.pages.len(), whole.epoch), (true, true, 2, 8));
        assert!(whole.pages.iter().all(|page| page.len() <= OCTETS + 23));
        let read: Vec<Record> =
            whole.pages.iter().flat_map(|page| read_records(page).expect("whole records")).collect();
        assert_eq!(read, all.iter().map(|vrp| Record::Vrp(*vrp, true)).collect::<Vec<_>>());
        epochs.set(Some(Arc::new(VrpTable::new(all[1..].iter().copied()))));
        let changes = Transfer::new(8, &epochs);
        let read = read_records(&changes.pages[0]).expect("whole records");
        assert_eq!((changes.is_whole, read), (false, vec![Record::Vrp(all[0], false)]));
        assert_eq!(Transfer::new(9, &epochs).pages.len(), 0);
    }
}
