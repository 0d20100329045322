//! Tables on their way to another process.

use super::{Sharded, Spread, Table};
use crate::batch::{Batch, Change};
use crate::family::FamilyIndex;
use crate::shard::{Fingerprint, PeerIndex, PeerPaths, Restored, ShardPart};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Ipv4Prefix, Ipv6Prefix, Provenance, XidPrefix};

/// Entries of a part: with ordinary attributes some hundred kilobytes.
const ENTRIES: u32 = 4096;

/// Histories of damped routes in a part.
const HISTORIES: usize = 4096;

/// A part of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TablePart {
    /// IPv4 unicast.
    Ipv4(ShardPart<Ipv4Prefix>),
    /// IPv6 unicast.
    Ipv6(ShardPart<Ipv6Prefix>),
    /// XIDs.
    Xid(ShardPart<XidPrefix>),
    /// The family of labels, which tests have.
    #[cfg(feature = "labels")]
    Labels(ShardPart<crate::labels::Label>),
}

impl Table {
    /// Iterates over the parts.
    pub fn parts(&self) -> impl Iterator<Item = TablePart> {
        let mut families = FamilyIndex::all();
        let mut at = families.next().map(|family| (family, 0));
        // A path that is suppressed is not used in the other process either.
        let mut histories = FamilyIndex::all().map(|family| (family, Some(0))).collect::<Vec<_>>();
        core::iter::from_fn(move || {
            while let Some((family, from)) = histories.pop() {
                let part = from.and_then(|from| self.shards.get(family).export_histories(from, HISTORIES));
                if let Some((part, next)) = part {
                    histories.push((family, next));
                    return Some(part);
                }
            }
            let (family, from) = at?;
            let (part, next) = self.shards.get(family).export_part(from, ENTRIES);
            let rest = next.map(|next| (family, next));
            at = rest.or_else(|| families.next().map(|family| (family, 0)));
            Some(part)
        })
    }

    /// Takes it that peers were told all that there is to tell them. The RIB is told everything.
    pub fn assume_advertised(&mut self) {
        self.shards.all_mut().into_values().for_each(|shard| shard.assume_advertised());
    }
}

/// Puts a part into the tables of a router that knows the peers already.
pub fn import(tables: &mut [Table], spread: Spread, part: TablePart) {
    match part {
        TablePart::Ipv4(part) => family(tables, spread, &part),
        TablePart::Ipv6(part) => family(tables, spread, &part),
        TablePart::Xid(part) => family(tables, spread, &part),
        #[cfg(feature = "labels")]
        TablePart::Labels(part) => family(tables, spread, &part),
    }
}

fn family<P: Sharded>(tables: &mut [Table], spread: Spread, part: &ShardPart<P>) {
    for table in &mut *tables {
        for (hop, resolution) in &part.hops {
            P::shard_mut(table).0.restore_hop(*hop, *resolution);
        }
    }
    for history in &part.histories {
        tables[spread.table(history.prefix)].restore_history(history);
    }
    for PeerPaths { peer, place, is_stale, paths, path_ids } in &part.paths {
        let restored = Restored { place: *place, is_stale: *is_stale };
        let mut batches: Vec<Batch<P>> = tables.iter().map(|_| Batch::default()).collect();
        let unknown = Change::<P>::WITHDRAWN;
        let mut known: Vec<Vec<u32>> = tables.iter().map(|_| alloc::vec![unknown; part.sets.len()]).collect();
        for (position, (prefix, set)) in paths.iter().enumerate() {
            let number = spread.table(*prefix);
            // A set that is not there is one that was not sent: the fingerprints will differ.
            let Some((hop, view, octets)) = part.sets.get(*set as usize) else { continue };
            let in_batch = &mut known[number][*set as usize];
            if *in_batch == unknown {
                *in_batch = batches[number].add_set(spread.seed(), *hop, |out| {
                    out.extend_from_slice(octets);
                    *view
                });
            }
            batches[number].push_path(*prefix, path_ids.get(position).copied(), *in_batch);
        }
        for (table, mut batch) in tables.iter_mut().zip(batches) {
            batch.end_event(Provenance::NONE);
            let (shard, interests) = P::shard_mut(table);
            shard.restore(PeerIndex(*peer), restored, &batch, interests);
        }
    }
}

/// Returns the fingerprint of the contents of tables, however spread.
pub fn fingerprint<'t>(tables: impl IntoIterator<Item = &'t Table>) -> Fingerprint {
    let mut all = Fingerprint::default();
    for table in tables {
        table.shards.all().into_values().for_each(|shard| all += shard.fingerprint());
    }
    all
}
