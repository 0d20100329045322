//! Live upgrade of the RIB: the next process has the same routes before its first request. Origins register with the
//! next process and announce their routes again; the engine keeps its routes until then.

#[cfg(test)]
mod golden;

use crate::RibProcess;
use sluice_base::{FamilyId, TableId};
use sluice_process::handover::Versions;
use sluice_process::{Driver, HandOverError, Sink, Source};
use sluice_rib::handover::StatePart;
use sluice_rib::{Input, Rib};

/// Interfaces, origins with their notes, and routes in pieces ([`StatePart`]), and the counts of routes.
pub(crate) const ROUTES: sluice_process::StatePart =
    sluice_process::StatePart::new("rib.routes", Versions::only(1));

impl RibProcess {
    /// Exports the state.
    pub(crate) async fn hand_over_to(&self, to: &mut Sink) -> Result<(), HandOverError> {
        self.rest.set(true);
        to.begin(&ROUTES).await?;
        let head = self.driver.read(|rib| rib.export_head());
        for part in head {
            to.put(&Some(part)).await?;
        }
        let tables: Vec<TableId> = self.driver.read(|rib| rib.tables().map(|t| t.id).collect());
        for table in tables {
            let families = self.driver.read(|rib| rib.exported_families(table));
            for family in families {
                let mut after = None;
                while let Some((parts, last)) =
                    self.driver.read(|rib| rib.export_routes(table, family, after))
                {
                    for part in parts {
                        to.put(&Some(part)).await?;
                    }
                    after = Some(last);
                }
            }
        }
        to.put(&None::<StatePart>).await?;
        to.put(&self.driver.read(|rib| rib.counts())).await
    }

    /// Imports the state of an older process.
    pub(crate) async fn take_over_from(&self, from: &mut Source) -> Result<(), HandOverError> {
        read(&self.driver, from).await?;
        self.driver.input(Input::Imported);
        self.interfaces.arrived();
        Ok(())
    }
}

/// Reads the state of the old process into a RIB, and checks the state for completeness.
async fn read(driver: &Driver<Rib>, from: &mut Source) -> Result<(), HandOverError> {
    from.begin(&ROUTES).await?;
    // There is no engine yet that could receive all this.
    driver.input(Input::FibGone);
    while let Some(part) = from.take::<Option<StatePart>>().await? {
        driver.input(Input::Import(part));
    }
    let expected: Vec<(TableId, FamilyId, String, u64)> = from.take().await?;
    let found = driver.read(|rib| rib.counts());
    if found != expected {
        return Err(HandOverError::component(format!("{found:?} routes came, {expected:?} were sent")));
    }
    Ok(())
}
