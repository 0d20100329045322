//! A copy of the payloads of another process, which is fetched an epoch at a time, in pages: whole, or as the difference to the epoch
//! of the copy.

use crate::changes::{ChangedPrefixes, TableChanges};
use crate::record::{Record, RecordError, read_records};
use crate::table::VrpTable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;
use sluice_base::{Duration, Instant};

/// The time for which a copy holds without an answer of a process that has the data (RFC 8210, section 6: the recommended Expire
/// Interval).
pub const EXPIRE: Duration = Duration::from_secs(7200);

/// The most pages of an epoch.
pub const MOST_PAGES: u32 = 4096;

/// A request for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// The epoch of the copy; 0 without one.
    pub known: u64,
    /// The epoch of the pages before; 0 for the first page.
    pub epoch: u64,
    /// The number of the page.
    pub page: u32,
}

/// A page of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    /// The epoch.
    pub epoch: u64,
    /// True if there are data.
    pub has_data: bool,
    /// True if the absence of data is final.
    pub is_settled: bool,
    /// True for pages of the whole table, false for pages of the difference to the known epoch.
    pub is_whole: bool,
    /// True if another epoch has come since the first page.
    pub is_superseded: bool,
    /// The number of pages.
    pub pages: u32,
    /// The records of the page ([`crate::record`]).
    pub records: &'a [u8],
}

/// The reason why a page cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageError {
    /// An epoch has more than [`MOST_PAGES`] pages.
    TooManyPages(u32),
    /// The records are malformed.
    Records(RecordError),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::TooManyPages(pages) => write!(f, "an epoch has {pages} pages; at most {MOST_PAGES}"),
            PageError::Records(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PageError {}

impl From<RecordError> for PageError {
    fn from(error: RecordError) -> Self {
        PageError::Records(error)
    }
}

/// The result of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Another page is to be requested.
    Next(PageRequest),
    /// The copy is the present epoch, or nothing is known yet.
    Unchanged,
    /// The copy is another epoch; routes of these prefixes may have other states.
    Changed(ChangedPrefixes),
    /// Another epoch has come meanwhile: the fetch begins again.
    Superseded,
}

/// The pages of an epoch so far.
#[derive(Debug)]
struct Fetch {
    epoch: u64,
    is_whole: bool,
    pages: u32,
    records: Vec<Record>,
    /// The pages that have come.
    received: u32,
}

/// A copy.
#[derive(Debug)]
pub struct Replica {
    epoch: u64,
    table: Option<Arc<VrpTable>>,
    /// The time of the latest answer.
    answered: Instant,
    fetch: Option<Fetch>,
}

impl Replica {
    /// Makes a copy without data.
    pub fn new(now: Instant) -> Self {
        Replica { epoch: 0, table: None, answered: now, fetch: None }
    }

    /// Returns the data, if any.
    pub fn table(&self) -> Option<&Arc<VrpTable>> {
        self.table.as_ref()
    }

    /// Takes the data of the process before this one. The number of their epoch is not known: the next fetch is of the whole table.
    pub fn resume(&mut self, table: Option<Arc<VrpTable>>) {
        self.table = table;
    }

    /// Begins a fetch.
    pub fn begin(&mut self) -> PageRequest {
        self.fetch = None;
        PageRequest { known: self.epoch, epoch: 0, page: 0 }
    }

    /// Takes the page that was requested last.
    ///
    /// # Errors
    /// The page cannot be used; the copy stays as it is.
    pub fn page(&mut self, now: Instant, page: Page<'_>) -> Result<Progress, PageError> {
        let mut fetch = match self.fetch.take() {
            Some(_) if page.is_superseded => return Ok(Progress::Superseded),
            Some(fetch) => fetch,
            None => match self.first(now, page)? {
                ControlFlow::Continue(fetch) => fetch,
                ControlFlow::Break(progress) => return Ok(progress),
            },
        };
        fetch.records.append(&mut read_records(page.records)?);
        fetch.received += 1;
        if fetch.received < fetch.pages {
            let request = PageRequest { known: self.epoch, epoch: fetch.epoch, page: fetch.received };
            self.fetch = Some(fetch);
            return Ok(Progress::Next(request));
        }
        self.answered = now;
        Ok(self.apply(fetch))
    }

    /// Removes the data if no answer has come for [`EXPIRE`]. Returns true if there were data.
    pub fn expire(&mut self, now: Instant) -> bool {
        let is_over = now.saturating_since(self.answered) > EXPIRE;
        if is_over {
            self.epoch = 0;
        }
        is_over && self.table.take().is_some()
    }

    /// Takes the first page: begins the collection of pages, or returns the result where no more are needed.
    fn first(&mut self, now: Instant, page: Page<'_>) -> Result<ControlFlow<Progress, Fetch>, PageError> {
        if page.pages > MOST_PAGES {
            return Err(PageError::TooManyPages(page.pages));
        }
        if !page.has_data {
            self.answered = now;
            if !page.is_settled || self.table.is_none() {
                return Ok(ControlFlow::Break(Progress::Unchanged));
            }
            (self.epoch, self.table) = (page.epoch, None);
            return Ok(ControlFlow::Break(Progress::Changed(ChangedPrefixes::All)));
        }
        if page.epoch == self.epoch && !page.is_whole {
            self.answered = now;
            return Ok(ControlFlow::Break(Progress::Unchanged));
        }
        let Page { epoch, is_whole, pages, .. } = page;
        Ok(ControlFlow::Continue(Fetch { epoch, is_whole, pages, records: Vec::new(), received: 0 }))
    }

    fn apply(&mut self, fetch: Fetch) -> Progress {
        let (table, changed) = match &self.table {
            Some(old) if fetch.is_whole => {
                let table = VrpTable::of_records(fetch.records);
                let changed = old.changed_states(&table, &old.changes_to(&table));
                (table, changed)
            }
            Some(old) => {
                let mut changes = TableChanges::default();
                fetch.records.into_iter().for_each(|record| changes.push_record(record));
                let table = old.changed(&changes);
                let changed = old.changed_states(&table, &changes);
                (table, changed)
            }
            None if fetch.is_whole => (VrpTable::of_records(fetch.records), ChangedPrefixes::All),
            None => {
                // The difference to data that are not here any more.
                self.epoch = 0;
                return Progress::Superseded;
            }
        };
        (self.epoch, self.table) = (fetch.epoch, Some(Arc::new(table)));
        Progress::Changed(changed)
    }
}
