//! The routes of a family for the replacing process, in parts.

use super::family::FamilyRib;
use crate::entry::origin::OriginId;
use crate::entry::routes::Shared;
use crate::entry::set::SetId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, RouteAction, RouteBatch, RouteUpdate};
use sluice_stage::{Cursor, TableKey};

/// Prefixes in a part.
const PREFIXES: usize = 4096;

/// Routes of an origin.
pub(crate) type RoutesPart = (OriginId, RouteBatch<AnyPrefix>);

/// Exports the routes of a family behind a prefix.
pub(crate) fn export_family<P: TableKey>(
    family: &FamilyRib<P>,
    shared: &Shared,
    after: Option<AnyPrefix>,
) -> Option<(Vec<RoutesPart>, AnyPrefix)> {
    let start = after.and_then(AnyPrefix::to).map_or(Cursor::Start, Cursor::After);
    let mut batches: BTreeMap<OriginId, (RouteBatch<AnyPrefix>, BTreeMap<SetId, u32>)> = BTreeMap::new();
    let mut last = None;
    for (prefix, entry) in family.entries().iter_after(start).take(PREFIXES) {
        let prefix = AnyPrefix::of(prefix);
        last = Some(prefix);
        for path in entry.paths().iter().filter(|p| !shared.origin(p.origin).connected) {
            let (batch, sets) = batches.entry(path.origin).or_default();
            let announced = shared.sets.source(path.set);
            let index = *sets.entry(announced).or_insert_with(|| {
                batch.sets.push(shared.sets.slot(announced).set.clone());
                (batch.sets.len() - 1) as u32
            });
            let action = RouteAction::Set(index);
            batch.updates.push(RouteUpdate { prefix, action, provenance: path.provenance });
        }
    }
    Some((batches.into_iter().map(|(origin, (batch, _))| (origin, batch)).collect(), last?))
}
