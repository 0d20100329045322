//! Comparisons with the owner of the tables, and with the engines beside the authority.

use super::Fea;
use crate::engine::{BesideId, EngineDigests};
use crate::output::Output;
use crate::replay::Held;
use crate::table::Table;
use sluice_base::{Digest, DigestKey, Family, TableId};
use sluice_machine::Outbox;

impl Fea {
    /// Returns the key of all digests.
    pub fn digest_key(&self) -> DigestKey {
        DigestKey(self.seed)
    }

    /// Returns the digests of the routes and of the groups that the owner of a table announced, of a family.
    pub fn announced_digests(&self, table: TableId, family: Family) -> [Digest; 2] {
        self.tables.get(&table).map_or_else(Default::default, |table| table.side_ref(family).announced())
    }

    /// Returns true if engines may be compared with the core: nothing is left to do.
    pub(crate) fn is_comparable(&self) -> bool {
        let sides = |table: &Table| Family::ALL.into_iter().all(|family| table.side_ref(family).is_idle());
        let is_idle = self.replays.is_idle() && self.mendings.is_idle() && !self.is_selecting;
        self.started && !self.in_snapshot && is_idle && self.tables.values().all(sides)
    }

    /// Returns true if engines are to be compared again soon.
    pub(crate) fn is_comparison_urgent(&self) -> bool {
        self.mendings.is_urgent()
    }

    /// Compares an engine beside the authority. What follows is background work.
    pub(super) fn compare(&mut self, engine: BesideId, found: &EngineDigests, out: &Outbox<Output>) {
        if !self.is_comparable() || !out.is_empty() {
            return;
        }
        let key = self.digest_key();
        let held = Held { interfaces: &self.interfaces, pool: &self.pool, tables: &self.tables };
        for (table, family) in self.mendings.compare(engine, found, key, &held) {
            self.table(table).side(family).recount();
        }
    }
}
