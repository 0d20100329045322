//! The outbound route filters of a session in both directions (RFC 5291, RFC 5292).

use crate::family::{ByFamily, Families, FamilyIndex};
use crate::orf::{Entries, PrefixFilter};
use crate::session::Negotiated;
use crate::wire::orf::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};

/// The longest wait for the first ROUTE-REFRESH message of a neighbor that sends filters.
const PATIENCE: Duration = Duration::from_secs(10);

/// The filters of a session, for another process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FilterState {
    received: ByFamily<Entries>,
    sent: ByFamily<Option<Vec<Entry>>>,
}

/// The filters between the router and a neighbor in a session.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    pub(crate) received: ByFamily<Entries>,
    /// The filters in force, of what was received.
    filters: ByFamily<Option<Arc<PrefixFilter>>>,
    /// Families not advertised to the neighbor before the neighbor's first ROUTE-REFRESH message.
    pub(crate) awaited: Families,
    /// The end of that wait.
    pub until: Option<Instant>,
    /// The entries that the neighbor was sent.
    pub(crate) sent: ByFamily<Option<Vec<Entry>>>,
}

impl Filters {
    /// Returns the filters of a new session, with filters expected from the neighbor for the families `awaited`.
    pub fn begin(now: Instant, awaited: Families) -> Self {
        let until = (!awaited.is_empty()).then(|| now + PATIENCE);
        Filters { awaited, until, ..Filters::default() }
    }

    /// Returns the filters of a session of the old process.
    pub fn resumed(state: FilterState) -> Self {
        let FilterState { received, sent } = state;
        let mut filters = Filters { received, sent, ..Filters::default() };
        FamilyIndex::all().for_each(|family| filters.enforce(family));
        filters
    }

    /// Returns the filters for another process.
    pub fn export(&self) -> FilterState {
        FilterState { received: self.received.clone(), sent: self.sent.clone() }
    }

    /// Returns true if the neighbor may be sent routes.
    pub const fn are_known(&self) -> bool {
        self.until.is_none()
    }

    /// Returns the filter of a family.
    pub fn of(&self, family: FamilyIndex) -> Option<Arc<PrefixFilter>> {
        self.filters[family].clone()
    }

    /// Returns the number of entries in a session with these parameters.
    pub fn counts(&self, negotiated: &Negotiated) -> ByFamily<FilterCounts> {
        ByFamily::from_fn(|family| FilterCounts {
            received: negotiated.filters_received.has(family).then(|| self.received[family].len()),
            sent: self.sent[family].as_ref().map(Vec::len),
        })
    }

    /// Puts the received entries of a family in force.
    pub(crate) fn enforce(&mut self, family: FamilyIndex) {
        self.filters[family] = self.received[family].filter().map(Arc::new);
        self.awaited = self.awaited.without(Families::only(family));
        if self.awaited.is_empty() {
            self.until = None;
        }
    }
}

/// The number of entries of the outbound route filters of a family (RFC 5292) in a session; `None` where the session has no such filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterCounts {
    /// Entries of the filter that the neighbor sent.
    pub received: Option<usize>,
    /// Entries of the filter that the neighbor was sent.
    pub sent: Option<usize>,
}
