//! Digests of what the engine was sent, by table and family.
//!
//! The process compares the digests with the engine's at the same place of the stream of changes. A difference means that a change was
//! lost, or that the engine lost something by itself: the family is sent again as a whole.

use crate::machine::Rib;
use sluice_base::{Digest, DigestKey, FamilyId, TableId};

impl Rib {
    /// Returns the tables and families whose routes the engine accepts.
    pub fn fib_families(&self) -> impl Iterator<Item = (TableId, FamilyId)> {
        let of = |table: &crate::decide::table::Table| {
            let families = table.all_families().map(|family| family.id());
            let fed = families.filter(|family| table.shared.feeds_engine(*family));
            fed.map(|family| (table.id, family)).collect::<alloc::vec::Vec<_>>()
        };
        self.tables().flat_map(of)
    }

    /// Returns the digests of the routes and of the groups that the engine was sent; `None` for an unknown table or family.
    pub fn fib_digests(&self, table: TableId, family: FamilyId) -> Option<[Digest; 2]> {
        Some(self.table(table)?.any_family(family)?.fib_digests())
    }

    /// Sets the key of later digests.
    pub(crate) fn set_digest_key(&mut self, key: DigestKey) {
        self.digest_key = key;
        self.tables.values_mut().for_each(|table| table.shared.digest_key = key);
    }

    /// Voids the records of what the engine was sent of a family: every route and group waits to be sent.
    pub(crate) fn refresh_fib(&mut self, table: TableId, family: FamilyId) {
        let Some(table) = self.tables.get_mut(&table) else { return };
        if let Some((family, shared)) = table.any_family_mut(family) {
            family.begin_fib(shared);
        }
        let gone = table.shared.groups.forget_engine(Some(family));
        table.shared.gone.extend(gone);
        table.forget_gone();
    }
}
