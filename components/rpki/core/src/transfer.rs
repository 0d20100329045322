//! The incoming answer to a query: data before End of Data.

use crate::event::Failure;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::Asn;
use sluice_validation::{AnyVrp, AspaChanges, AspaSet, Providers, TableChanges, VrpTable};

/// The most VRPs of a cache, and the most changes of an answer. There are about 700,000 VRPs in 2026.
pub(crate) const MOST_VRPS: usize = 4_000_000;

/// The most providers in all ASPAs of a cache, and in an answer; removed ASPAs count as one. There are about 2,000 ASPAs in 2026, and
/// 80,000 ASes.
pub const MOST_PROVIDERS: usize = 4_000_000;

/// An incoming answer.
#[derive(Debug)]
pub struct Transfer {
    session: u16,
    /// All data.
    vrps: Vec<AnyVrp>,
    /// Changes: true for VRPs present afterward.
    changes: BTreeMap<AnyVrp, bool>,
    /// ASPAs by customer, `None` for removed ones.
    aspas: AspaChanges,
    /// The providers of all ASPAs in the answer.
    providers: usize,
}

impl Transfer {
    /// Begins an answer of a cache's session.
    pub fn new(session: u16) -> Self {
        Transfer {
            session,
            vrps: Vec::new(),
            changes: BTreeMap::new(),
            aspas: AspaChanges::new(),
            providers: 0,
        }
    }

    /// Returns the cache's session.
    pub fn session(&self) -> u16 {
        self.session
    }

    /// Takes a VRP of the answer. `before` is the table to change; `None` for the answer to a reset query.
    ///
    /// # Errors
    /// The VRP does not fit the table, or there are too many.
    pub fn gather(
        &mut self,
        before: Option<&VrpTable>,
        vrp: AnyVrp,
        is_announced: bool,
    ) -> Result<(), Failure> {
        if self.vrps.len().max(self.changes.len()) >= MOST_VRPS {
            return Err(Failure::TooMany(MOST_VRPS));
        }
        let Some(before) = before else {
            if !is_announced {
                return Err(Failure::UnknownRecord(vrp));
            }
            self.vrps.push(vrp);
            return Ok(());
        };
        let is_present = self.changes.get(&vrp).copied().unwrap_or_else(|| before.contains(&vrp));
        match (is_present, is_announced) {
            (true, true) => return Err(Failure::Duplicate(vrp)),
            (false, false) => return Err(Failure::UnknownRecord(vrp)),
            _ => {}
        }
        self.changes.insert(vrp, is_announced);
        Ok(())
    }

    /// Takes the ASPA of a customer. A later ASPA of the customer replaces an earlier one (draft-ietf-sidrops-8210bis, section 5.12).
    ///
    /// # Errors
    /// The customer of a withdrawal has no ASPA, or there are too many providers.
    pub(crate) fn gather_aspa(
        &mut self,
        before: Option<&VrpTable>,
        customer: Asn,
        providers: Option<Providers>,
    ) -> Result<(), Failure> {
        self.providers += providers.as_ref().map_or(1, |providers| providers.asns().len());
        if self.providers > MOST_PROVIDERS {
            return Err(Failure::TooManyProviders(MOST_PROVIDERS));
        }
        let is_present = match (self.aspas.get(&customer), before) {
            (Some(changed), _) => changed.is_some(),
            (None, before) => before.is_some_and(|before| before.aspas.providers(customer).is_some()),
        };
        if providers.is_none() && (before.is_none() || !is_present) {
            return Err(Failure::UnknownCustomer(customer));
        }
        self.aspas.insert(customer, providers);
        Ok(())
    }

    /// Returns the table after the answer. `before` is the table to change; `None` for the answer to a reset query.
    ///
    /// # Errors
    /// A VRP came twice, or there are too many.
    pub fn finish(self, before: Option<&Arc<VrpTable>>) -> Result<Arc<VrpTable>, Failure> {
        let Some(before) = before else {
            let mut vrps = self.vrps;
            vrps.sort_unstable();
            return match vrps.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(Failure::Duplicate(pair[0])),
                None => Ok(Arc::new(VrpTable::new(vrps).with_aspas(AspaSet::default().changed(&self.aspas)))),
            };
        };
        let mut changes = TableChanges::default();
        for (vrp, is_present) in self.changes {
            if before.contains(&vrp) != is_present {
                changes.push(vrp, is_present);
            }
        }
        for (customer, providers) in self.aspas {
            if before.aspas.providers(customer) != providers.as_ref() {
                changes.aspas.insert(customer, providers);
            }
        }
        if changes.is_empty() {
            return Ok(before.clone());
        }
        let table = before.changed(&changes);
        let providers: usize = table.aspas.iter().map(|(_, providers)| providers.asns().len()).sum();
        if table.len() > MOST_VRPS {
            Err(Failure::TooMany(MOST_VRPS))
        } else if providers > MOST_PROVIDERS {
            Err(Failure::TooManyProviders(MOST_PROVIDERS))
        } else {
            Ok(Arc::new(table))
        }
    }
}
