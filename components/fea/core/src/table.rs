//! A table: a side for each family.

use crate::engine::AuthorityRoutes;
use crate::fib::{Fib, Side};
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix, TableId};

/// The two families of a table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) ipv4: Fib<Ipv4Prefix>,
    pub(crate) ipv6: Fib<Ipv6Prefix>,
}

impl Table {
    pub(crate) fn new(table: TableId, seed: u64, selection: &AuthorityRoutes) -> Self {
        let (ipv4, ipv6) = (selection.clone(), selection.clone());
        Table { ipv4: Fib::new(table, seed, ipv4), ipv6: Fib::new(table, seed, ipv6) }
    }

    pub(crate) fn side(&mut self, family: Family) -> &mut dyn Side {
        match family {
            Family::Ipv4 => &mut self.ipv4,
            Family::Ipv6 => &mut self.ipv6,
        }
    }

    /// Returns a side to look at.
    pub(crate) fn side_ref(&self, family: Family) -> &dyn Side {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }

    pub(crate) fn sides(&mut self) -> [&mut dyn Side; 2] {
        [&mut self.ipv4, &mut self.ipv6]
    }
}
