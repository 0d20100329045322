//! The policies of origins: applied to routes as they come, and again in the background when policies change. The announced sets
//! stay known, so that no origin is asked for its routes.

use super::family::FamilyRib;
use super::walk::Refilter;
use crate::entry::Path;
use crate::entry::origin::OriginId;
use crate::entry::routes::Shared;
use crate::entry::set::SetId;
use crate::policy::Chain;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use sluice_base::AnyPrefix;
use sluice_machine::Budget;
use sluice_stage::{Cursor, TableKey};
use smallvec::SmallVec;

/// The policies of an origin while some of its routes are filtered.
pub(crate) struct Import {
    origin: OriginId,
    chain: Arc<Chain>,
    /// Derived sets by announced set, of policies that do not look at prefixes. Each counts as a user.
    known: Option<BTreeMap<SetId, SetId>>,
}

impl Import {
    /// Begins with the present policies of an origin; `None` without policies.
    pub(crate) fn of(shared: &Shared, origin: OriginId) -> Option<Self> {
        let chain = shared.origin(origin).import.clone()?;
        let known = (!chain.reads_prefix()).then(BTreeMap::new);
        Some(Import { origin, chain, known })
    }

    /// Returns the set of a route after the policies, with an additional user. Keys other than IP prefixes pass unchanged.
    pub(crate) fn filter<P: TableKey>(&mut self, shared: &mut Shared, prefix: P, announced: SetId) -> SetId {
        let Some(ip) = AnyPrefix::of(prefix).ip() else {
            shared.sets.retain(announced);
            return announced;
        };
        if let Some(id) = self.known.as_ref().and_then(|known| known.get(&announced)) {
            shared.sets.retain(*id);
            return *id;
        }
        let outcome = shared.decide_policy(&self.chain, self.origin, ip, announced);
        let id = shared.sets.derive(&mut shared.groups, announced, outcome);
        if let Some(known) = &mut self.known {
            shared.sets.retain(id);
            known.insert(announced, id);
        }
        id
    }

    /// Ends the use of derived sets.
    pub(crate) fn end(self, shared: &mut Shared) {
        self.known.into_iter().flatten().for_each(|(_, id)| shared.release(id));
    }
}

impl<P: TableKey> FamilyRib<P> {
    /// Starts to apply an origin's policies again.
    pub(crate) fn start_refilter(&mut self, origin: OriginId) {
        self.refilters.retain(|refilter| refilter.origin != origin);
        if self.route_count(origin) > 0 {
            self.refilters.push(Refilter { origin, cursor: Cursor::Start });
        }
    }

    /// A slice of the newest walk. Returns false if there is none.
    pub(crate) fn refilter_slice(&mut self, shared: &mut Shared, budget: &mut Budget) -> bool {
        let Some(mut refilter) = self.refilters.pop() else { return false };
        let mut import = Import::of(shared, refilter.origin);
        let mut last = None;
        let mut paths: SmallVec<[(P, Path); 64]> = SmallVec::new();
        for (prefix, entry) in self.entries.iter_after(refilter.cursor).take(budget.0 as usize) {
            last = Some(prefix);
            let path = entry.paths().iter().find(|path| path.origin == refilter.origin);
            paths.extend(path.map(|path| (prefix, *path)));
            budget.spend(1);
        }
        for (prefix, path) in paths {
            let announced = shared.sets.source(path.set);
            let set = match &mut import {
                Some(import) => import.filter(shared, prefix, announced),
                None => {
                    shared.sets.retain(announced);
                    announced
                }
            };
            if set != path.set {
                let changed = Path::new(path.origin, set, path.provenance, path.generation);
                self.change_path(shared, path.origin, prefix, Some(changed), path.provenance);
            }
            shared.release(set);
        }
        if let Some(import) = import {
            import.end(shared);
        }
        self.flush_selected(shared);
        if let Some(last) = last {
            refilter.cursor = Cursor::After(last);
            self.refilters.push(refilter);
        }
        true
    }
}
