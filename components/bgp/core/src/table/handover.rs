//! Tables on their way to another process.

use super::{Sharded, Spread, Table};
use crate::batch::{Batch, Change};
use crate::shard::{Fingerprint, PeerIndex, ShardPart};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix, Provenance};

/// Entries of a part: with ordinary attributes some hundred kilobytes.
const ENTRIES: u32 = 4096;

/// A part of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TablePart {
    /// IPv4 unicast.
    Ipv4(ShardPart<Ipv4Prefix>),
    /// IPv6 unicast.
    Ipv6(ShardPart<Ipv6Prefix>),
}

impl Table {
    /// All parts, one after the other.
    pub fn parts(&self) -> impl Iterator<Item = TablePart> {
        let mut at = Some((Family::Ipv4, 0));
        core::iter::from_fn(move || {
            let (family, from) = at?;
            Some(match family {
                Family::Ipv4 => {
                    let (part, next) = self.ipv4.export_part(from, ENTRIES);
                    at = Some(next.map_or((Family::Ipv6, 0), |next| (Family::Ipv4, next)));
                    TablePart::Ipv4(part)
                }
                Family::Ipv6 => {
                    let (part, next) = self.ipv6.export_part(from, ENTRIES);
                    at = next.map(|next| (Family::Ipv6, next));
                    TablePart::Ipv6(part)
                }
            })
        })
    }

    /// Takes it that peers were told all that there is to tell them. The RIB is told everything.
    pub fn assume_told(&mut self) {
        self.ipv4.assume_told();
        self.ipv6.assume_told();
    }
}

/// Puts a part into the tables of a router that knows the peers already.
pub fn import(tables: &mut [Table], spread: Spread, part: TablePart) {
    match part {
        TablePart::Ipv4(part) => family(tables, spread, &part),
        TablePart::Ipv6(part) => family(tables, spread, &part),
    }
}

fn family<P: Sharded>(tables: &mut [Table], spread: Spread, part: &ShardPart<P>) {
    for table in &mut *tables {
        for (hop, resolution) in &part.hops {
            P::shard_mut(table).0.restore_hop(*hop, *resolution);
        }
    }
    for (peer, paths) in &part.paths {
        let mut batches: Vec<Batch<P>> = tables.iter().map(|_| Batch::default()).collect();
        let unknown = Change::<P>::WITHDRAWN;
        let mut known: Vec<Vec<u32>> = tables.iter().map(|_| alloc::vec![unknown; part.sets.len()]).collect();
        for (prefix, set) in paths {
            let number = spread.table(*prefix);
            // A set that is not there is one that was not sent: the fingerprints will differ.
            let Some((hop, view, octets)) = part.sets.get(*set as usize) else { continue };
            let place = &mut known[number][*set as usize];
            if *place == unknown {
                *place = batches[number].add_set(spread.seed(), *hop, |out| {
                    out.extend_from_slice(octets);
                    *view
                });
            }
            batches[number].push(*prefix, *place);
        }
        for (table, mut batch) in tables.iter_mut().zip(batches) {
            batch.end_event(Provenance::NONE);
            let (shard, interests) = P::shard_mut(table);
            shard.apply(PeerIndex(*peer), &batch, interests);
        }
    }
}

/// What tells the content of tables from another, however it is spread.
pub fn fingerprint<'t>(tables: impl IntoIterator<Item = &'t Table>) -> Fingerprint {
    let mut all = Fingerprint::default();
    for table in tables {
        all += table.ipv4.fingerprint();
        all += table.ipv6.fingerprint();
    }
    all
}
