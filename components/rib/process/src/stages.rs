//! Stages that operators plug into the RIB, and packages that may.

use crate::RibProcess;
use sluice_base::{FamilyId, IpPrefix, TableId};
use sluice_rib::plugged::{PluggedStage, PlumbError, StageView};
use sluice_rib::request::{PlugStage, UnplumbStage};
use sluice_rib::{StageId, TableKey};
use sluice_xrl::XrlError;
use sluice_xrl::idl::rib::v1 as pb;

impl RibProcess {
    /// Plugs a stage into a family of a table.
    pub(crate) fn plumb<P: TableKey + TryFrom<IpPrefix>>(
        &self,
        table: TableId,
        kind: pb::StageKind,
        nets: Vec<IpPrefix>,
    ) -> Result<StageId, XrlError> {
        let stage = match kind {
            pb::StageKind::Drill => PluggedStage::Drill,
            pb::StageKind::HoldBack => {
                let nets: Result<Vec<P>, _> = nets.into_iter().map(P::try_from).collect();
                let nets =
                    nets.map_err(|_| XrlError::BadArguments(format!("nets: one is not of {}", P::ID)))?;
                if nets.is_empty() {
                    return Err(XrlError::BadArguments("nets: expected the prefixes to hold back".into()));
                }
                PluggedStage::HoldBack(nets)
            }
        };
        self.driver.request(PlugStage::<P> { table, stage }).map_err(|error| match error {
            PlumbError::NoTable => XrlError::BadArguments(format!("table: {error}")),
            PlumbError::TooManyPrefixes => XrlError::BadArguments(format!("nets: {error}")),
            PlumbError::TooManyStages => XrlError::application(1, error.to_string()),
        })
    }

    /// Removes a stage from a family of a table.
    pub(crate) fn unplumb<P: TableKey>(&self, table: TableId, stage: u32) -> Result<(), XrlError> {
        let is_known = self.driver.read(|rib| rib.table(table).is_some());
        let id = stage.checked_sub(1).filter(|_| is_known).map(StageId::from_number);
        match id.is_some_and(|id| self.driver.request(UnplumbStage::<P>::new(table, id))) {
            true => Ok(()),
            false => Err(XrlError::BadArguments(format!("stage: there is no stage {stage}"))),
        }
    }

    /// Returns the stages of a family of a table.
    pub(crate) fn stages<P: TableKey>(&self, table: TableId) -> Vec<pb::PluggedStage> {
        let view = |StageView { id, name, is_leaving }| pb::PluggedStage {
            stage: number_of(id),
            name: name.into(),
            leaving: is_leaving,
        };
        self.driver.read(|rib| rib.plugged_stages::<P>(table)).into_iter().map(view).collect()
    }
}

/// Returns the number of a stage in calls: from 1 on.
pub(crate) fn number_of(id: StageId) -> u32 {
    id.number() + 1
}

/// Returns the error about a family without stages.
pub(crate) fn no_stages(family: FamilyId) -> XrlError {
    XrlError::BadArguments(format!("family: no stage can be plugged into {family}; expected ipv4 or ipv6"))
}
