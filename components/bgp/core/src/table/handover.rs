//! The export of tables to the new process, and the import.

use super::{Spread, Table};
use crate::batch::{Batch, Change};
use crate::family::{FamilyIndex, FamilyVisitor, Sharded};
use crate::shard::{Fingerprint, PeerIndex, PeerPaths, Restored, ShardPart};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::Provenance;

/// Entries of a part: with ordinary attributes some hundred kilobytes.
const ENTRIES: u32 = 4096;

/// Histories of damped routes in a part.
const HISTORIES: usize = 4096;

/// A part of a table: some of the content of a family's shard. Its serialized form is the family's number and a [`ShardPart`].
pub struct TablePart {
    family: FamilyIndex,
    part: Box<dyn Any + Send + Sync>,
}

impl TablePart {
    /// Makes a part of a table of a part of a family's shard.
    pub(super) fn new<P: Sharded>(part: ShardPart<P>) -> Self {
        TablePart { family: P::INDEX, part: Box::new(part) }
    }

    /// Returns the part of the shard.
    pub(super) fn of<P: Sharded>(&self) -> &ShardPart<P> {
        self.part.downcast_ref().expect("a part has the keys of its family")
    }
}

impl fmt::Debug for TablePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TablePart").field("family", &self.family).finish_non_exhaustive()
    }
}

impl Serialize for TablePart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.family.visit(WritePart { part: self, serializer })
    }
}

/// Serializes a part of a table.
struct WritePart<'p, S> {
    part: &'p TablePart,
    serializer: S,
}

impl<S: Serializer> FamilyVisitor for WritePart<'_, S> {
    type Output = Result<S::Ok, S::Error>;

    fn visit<P: Sharded>(self) -> Self::Output {
        (self.part.family, self.part.of::<P>()).serialize(self.serializer)
    }
}

impl<'de> Deserialize<'de> for TablePart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, PartVisitor)
    }
}

/// Deserializes the family of a part, and then the part.
struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = TablePart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a family and a part of its shard")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<TablePart, A::Error> {
        let family: FamilyIndex = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        let part = family.visit(ReadPart { parts, lifetime: PhantomData })?;
        part.ok_or_else(|| A::Error::invalid_length(1, &self))
    }
}

/// Deserializes a part of a family's shard.
struct ReadPart<'de, A> {
    parts: A,
    lifetime: PhantomData<&'de ()>,
}

impl<'de, A: SeqAccess<'de>> FamilyVisitor for ReadPart<'de, A> {
    type Output = Result<Option<TablePart>, A::Error>;

    fn visit<P: Sharded>(mut self) -> Self::Output {
        Ok(self.parts.next_element::<ShardPart<P>>()?.map(TablePart::new))
    }
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
                let part = from.and_then(|from| self.shards[family].export_histories(from, HISTORIES));
                if let Some((part, next)) = part {
                    histories.push((family, next));
                    return Some(part);
                }
            }
            let (family, from) = at?;
            let (part, next) = self.shards[family].export_part(from, ENTRIES);
            let rest = next.map(|next| (family, next));
            at = rest.or_else(|| families.next().map(|family| (family, 0)));
            Some(part)
        })
    }

    /// Assumes that every peer has received the whole Adj-RIB-Out. Every route is sent to the RIB.
    pub fn assume_advertised(&mut self) {
        self.shards.values_mut().for_each(|shard| shard.assume_advertised());
    }
}

/// Puts a part into the tables of a router that knows the peers already.
pub fn import(tables: &mut [Table], spread: Spread, part: &TablePart) {
    part.family.visit(Import { tables, spread, part });
}

/// Puts a part into tables.
struct Import<'t> {
    tables: &'t mut [Table],
    spread: Spread,
    part: &'t TablePart,
}

impl FamilyVisitor for Import<'_> {
    type Output = ();

    fn visit<P: Sharded>(self) {
        import_part::<P>(self.tables, self.spread, self.part.of());
    }
}

fn import_part<P: Sharded>(tables: &mut [Table], spread: Spread, part: &ShardPart<P>) {
    for table in &mut *tables {
        for (hop, resolution) in &part.hops {
            table.shard_mut::<P>().0.restore_hop(*hop, *resolution);
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
            let (shard, interests) = table.shard_mut::<P>();
            shard.restore(PeerIndex(*peer), restored, &batch, interests);
        }
    }
}

/// Returns the fingerprint of the contents of tables, however spread.
pub fn fingerprint<'t>(tables: impl IntoIterator<Item = &'t Table>) -> Fingerprint {
    let mut all = Fingerprint::default();
    for table in tables {
        table.shards.values().for_each(|shard| all += shard.fingerprint());
    }
    all
}
