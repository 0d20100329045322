//! Which table has a prefix.

use crate::family::{FamilyIndex, FamilyVisitor, Sharded};
use crate::hash::HashSeed;
use sluice_base::AnyPrefix;

/// Spreads prefixes over tables by the hash of a short covering prefix: the prefixes of an UPDATE mostly lie close together, and
/// so meet in a single table, which stores, decides and packs the attributes once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    seed: HashSeed,
    tables: u16,
}

impl Spread {
    /// Over `tables` (at least 1) tables.
    pub const fn new(seed: HashSeed, tables: u16) -> Self {
        Spread { seed, tables: if tables == 0 { 1 } else { tables } }
    }

    /// The seed that tables and readers share.
    pub const fn seed(self) -> HashSeed {
        self.seed
    }

    /// Returns the number of tables.
    pub const fn tables(self) -> usize {
        self.tables as usize
    }

    /// The number of the table that has `prefix`.
    #[inline]
    pub fn table<P: Sharded>(self, prefix: P) -> usize {
        if self.tables == 1 {
            return 0;
        }
        let hash = self.seed.prefix(&prefix.truncate(prefix.len().min(P::COVER)));
        // The high half of the product is below the number of tables, as evenly as the hash is.
        ((u128::from(hash) * u128::from(self.tables)) >> 64) as usize
    }

    /// The number of the table that has a prefix of any family.
    pub fn table_of(self, prefix: AnyPrefix) -> usize {
        FamilyIndex::with_id(prefix.family())
            .and_then(|family| family.visit(TableOf(self, prefix)))
            .unwrap_or(0)
    }
}

/// Returns the table of a prefix.
struct TableOf(Spread, AnyPrefix);

impl FamilyVisitor for TableOf {
    type Output = Option<usize>;

    fn visit<P: Sharded>(self) -> Option<usize> {
        let TableOf(spread, prefix) = self;
        prefix.to::<P>().map(|prefix| spread.table(prefix))
    }
}
