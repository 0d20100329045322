//! Routes and counts of the RIB, for operators.

use crate::decide::plugged::StageView;
use crate::decide::view::{PageQuery, RouteView, Summary};
use crate::machine::Rib;
use alloc::vec::Vec;
use sluice_base::{Address, FamilyId, TableId};
use sluice_stage::TableKey;

impl Rib {
    /// Returns a page of routes, and whether more follow.
    pub fn routes(&self, table: TableId, family: FamilyId, query: &PageQuery) -> (Vec<RouteView>, bool) {
        let found = self.table(table).and_then(|table| Some((table.any_family(family)?, &table.shared)));
        found.map_or((Vec::new(), false), |(family, shared)| family.page(shared, query))
    }

    /// Returns the forwarding route of an address.
    pub fn lookup(&self, table: TableId, addr: Address) -> Option<RouteView> {
        let table = self.table(table)?;
        table.any_family(addr.family())?.lookup(&table.shared, addr)
    }

    /// Returns counts of the tables and families.
    pub fn summary(&self) -> Vec<Summary> {
        self.tables()
            .flat_map(|table| table.all_families().map(|family| family.summary(&table.shared)))
            .collect()
    }

    /// Returns the stages that the selected routes of a table's family pass, in order.
    pub fn plugged_stages<P: TableKey>(&self, table: TableId) -> Vec<StageView> {
        let family = self.table(table).and_then(|table| table.family::<P>());
        family.map(|family| family.plugged_stages()).unwrap_or_default()
    }
}
