//! The state for a hand-over to a new process: data and counters of caches, and the number of the present epoch.
//!
//! Connections stay with the old process. The new process connects again, and asks a cache for the changes since the handed-over serial
//! number. Until the answer is complete the data stay in effect, at most until they expire.

use crate::epoch::EpochsState;
use crate::session::{CacheData, SessionState};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;
use sluice_validation::VrpTable;

/// The state of all caches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RpkiState {
    pub(crate) epochs: EpochsState,
    pub(crate) source: Option<String>,
    pub(crate) is_settled: bool,
    pub(crate) settle_at: Option<Instant>,
    pub(crate) caches: Vec<CacheState>,
    pub(crate) held: Option<Held>,
}

/// The state of a cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CacheState {
    pub name: String,
    pub session: SessionState,
}

/// Data of a removed cache, in effect until a cache is synchronized.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    pub cache: String,
    pub data: CacheData,
    pub until: Option<Instant>,
}

/// The number of tables differs from the number of caches with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherTables {
    /// The tables that the state has.
    pub expected: usize,
    /// The tables that came.
    pub found: usize,
}

impl fmt::Display for OtherTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables of payloads came, the state has {}", self.found, self.expected)
    }
}

impl core::error::Error for OtherTables {}

impl RpkiState {
    /// Returns the data of all caches, in the order of the state.
    fn data(&mut self) -> impl Iterator<Item = &mut CacheData> {
        let of_caches = self.caches.iter_mut().filter_map(|cache| cache.session.data.as_mut());
        of_caches.chain(self.held.as_mut().map(|held| &mut held.data))
    }

    /// Takes the tables out of the state, which are larger than the rest.
    pub fn take_tables(&mut self) -> Vec<Arc<VrpTable>> {
        self.data().map(|data| core::mem::take(&mut data.table)).collect()
    }

    /// Puts back the tables of [`RpkiState::take_tables`].
    ///
    /// # Errors
    /// There are more tables, or fewer, than the state has.
    pub fn put_tables(&mut self, tables: Vec<Arc<VrpTable>>) -> Result<(), OtherTables> {
        let (expected, found) = (self.data().count(), tables.len());
        if expected != found {
            return Err(OtherTables { expected, found });
        }
        self.data().zip(tables).for_each(|(data, table)| data.table = table);
        Ok(())
    }
}
