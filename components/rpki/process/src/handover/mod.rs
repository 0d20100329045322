//! Live upgrade: the next process has the payloads of the caches before its first request. Connections end with the old process.

#[cfg(test)]
mod golden;

use crate::RpkiProcess;
use crate::transfer::pages;
use sluice_machine::Machine;
use sluice_process::handover::{Loss, Versions};
use sluice_process::{HandOverError, Sink, Source, StatePart};
use sluice_rpki::handover::RpkiState;
use sluice_validation::{VrpTable, read_records};
use std::sync::Arc;

/// The payloads of the caches in pages, their serial numbers, counters, and the number of the epoch
/// ([`sluice_rpki::handover::RpkiState`]).
pub(crate) const CACHES: StatePart =
    StatePart::new("rpki.caches", Versions::only(1)).optional().losing(&[Loss {
        whole_since: 1,
        text: "payloads are fetched from the caches again; BGP keeps those that it has until then",
    }]);

impl RpkiProcess {
    /// Comes to rest, and sends the state.
    pub(crate) async fn hand_over_to(&self, to: &mut Sink) -> Result<(), HandOverError> {
        self.rest.set(true);
        self.tasks.replace([]);
        if to.begin(&CACHES).await?.is_none() {
            return Ok(());
        }
        let mut state = self.driver.read(Machine::export);
        let tables = state.take_tables();
        to.put(&state).await?;
        to.put(&tables.len()).await?;
        for table in tables {
            let pages = pages(table.records());
            to.put(&pages.len()).await?;
            for page in pages {
                to.put(&page).await?;
            }
        }
        Ok(())
    }
}

/// Reads the state of the old process; `None` if the old process handed over no data.
pub(crate) async fn read(from: &mut Source) -> Result<Option<RpkiState>, HandOverError> {
    if from.begin(&CACHES).await?.is_none() {
        return Ok(None);
    }
    let mut state: RpkiState = from.take().await?;
    let mut tables = Vec::new();
    for _ in 0..from.take::<usize>().await? {
        let mut records = Vec::new();
        for _ in 0..from.take::<usize>().await? {
            let page: Vec<u8> = from.take().await?;
            records.append(&mut read_records(&page).map_err(HandOverError::component)?);
        }
        tables.push(Arc::new(VrpTable::of_records(records)));
    }
    state.put_tables(tables).map_err(HandOverError::component)?;
    Ok(Some(state))
}
