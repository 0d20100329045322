//! Batches from readers to shards: route changes of a peer and a family, in order.
//!
//! A batch carries each attribute set once for an UPDATE, as octets in the batch's arena, with a hash. So a batch can move to a
//! different thread without shared state, and the shard finds a known set without allocating. Batches are kept after use, and the
//! space is reused.

use crate::attributes::View;
use crate::family::{ByFamily, FamilyVisitor, Sharded};
use crate::hash::HashSeed;
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use sluice_base::{IpPrefix, Ipv4Prefix, Provenance};

/// A change for a latency profile: the prefix, true for a withdrawal, and the event.
pub type Traced = (IpPrefix, bool, Provenance);

/// The most stored paths of a neighbor and a prefix. Without the bound a neighbor could fill the memory with a single prefix.
pub const MOST_PATHS: u16 = 64;

/// An attribute set in a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchSet {
    /// Hash of octets and next hop, by the common seed of readers and shards.
    pub hash: u64,
    start: u32,
    len: u32,
    /// The routes' next hop.
    pub next_hop: NextHop,
    /// The values that the decision compares.
    pub view: View,
}

/// A change of one prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<P> {
    /// The prefix.
    pub prefix: P,
    /// The new attributes as an index of a set, [`Change::WITHDRAWN`], or [`Change::dropped`].
    pub set: u32,
}

/// The cause why an announced route is not stored: the route counts as withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropCause {
    /// The router's AS is in the AS path (RFC 4271, section 9.1.2).
    Loop,
    /// The router itself reflected or originated the route (RFC 4456, section 8).
    Reflected,
    /// The neighbor should not have passed the route on (RFC 9234, section 5).
    Leak,
    /// The attributes are malformed (RFC 7606: treat-as-withdraw).
    Malformed,
    /// A bound on prefixes is exceeded: new prefixes are ignored.
    MaximumPrefixes,
    /// The neighbor has as many paths of the prefix as a neighbor may have (RFC 7911): further paths are ignored.
    TooManyPaths,
}

impl DropCause {
    /// The causes, in order.
    pub const ALL: [DropCause; 6] = [
        DropCause::Loop,
        DropCause::Reflected,
        DropCause::Leak,
        DropCause::Malformed,
        DropCause::MaximumPrefixes,
        DropCause::TooManyPaths,
    ];
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DropCause::Loop => "this AS is in its AS path (RFC 4271, section 9.1.2)",
            DropCause::Reflected => {
                "reflected back: this router is its originator, or in its cluster list (RFC 4456, section 8)"
            }
            DropCause::Leak => "a leak by its ONLY_TO_CUSTOMER (RFC 9234, section 5)",
            DropCause::Malformed => "malformed attributes (RFC 7606); `show events` has the UPDATE",
            DropCause::MaximumPrefixes => "maximum-prefixes is exceeded, and new prefixes are ignored",
            DropCause::TooManyPaths => {
                return write!(
                    f,
                    "more than {MOST_PATHS} paths of the prefix (RFC 7911), and further paths are ignored"
                );
            }
        })
    }
}

impl<P> Change<P> {
    /// Stands for "no route any more" in [`Change::set`].
    pub const WITHDRAWN: u32 = u32::MAX;
    /// The first number for withdrawals; lower numbers are sets'.
    const FIRST_WITHDRAWAL: u32 = Self::WITHDRAWN - DropCause::ALL.len() as u32;

    /// Returns the number in the place of a set for an announcement that counts as withdrawn.
    pub const fn dropped(cause: DropCause) -> u32 {
        Self::FIRST_WITHDRAWAL + cause as u32
    }

    /// Returns true if the prefix has no route any more.
    #[inline(always)]
    pub const fn is_withdrawal(&self) -> bool {
        self.set >= Self::FIRST_WITHDRAWAL
    }

    /// Returns the cause for which an announcement counts as withdrawn; `None` for others, and for withdrawals by the neighbor.
    pub(crate) fn drop_cause(&self) -> Option<DropCause> {
        let number = self.set.checked_sub(Self::FIRST_WITHDRAWAL)?;
        DropCause::ALL.get(number as usize).copied()
    }
}

impl<P: FamilyKey> Change<P> {
    /// The change for a latency profile: prefix, whether it is withdrawn, and the event. `None` if the key is no IP prefix.
    pub fn traced(&self, provenance: Provenance) -> Option<Traced> {
        Some((self.prefix.as_ip()?, self.is_withdrawal(), provenance))
    }
}

/// Route changes of one peer.
#[derive(Debug)]
pub struct Batch<P> {
    sets: Vec<BatchSet>,
    arena: Vec<u8>,
    changes: Vec<Change<P>>,
    /// The path identifiers of the changes, in a session in which the peer sends several paths of a prefix (RFC 7911); empty in others.
    path_ids: Vec<u32>,
    /// The events behind the changes, each with the number of changes up to its end.
    events: Vec<(u32, Provenance)>,
}

impl<P> Default for Batch<P> {
    fn default() -> Self {
        Batch {
            sets: Vec::new(),
            arena: Vec::new(),
            changes: Vec::new(),
            path_ids: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl<P: Copy> Batch<P> {
    /// Changes after which a batch should be handed over: enough to spread its cost, few enough to stay in the cache.
    pub const FULL: usize = 4096;

    /// Adds an attribute set that the next changes refer to; its octets are those that `write` appends.
    #[inline]
    pub(crate) fn add_set(
        &mut self,
        seed: HashSeed,
        next_hop: NextHop,
        write: impl FnOnce(&mut Vec<u8>) -> View,
    ) -> u32 {
        let start = self.arena.len();
        let view = write(&mut self.arena);
        let hash = seed.attributes(&self.arena[start..], &next_hop);
        let len = (self.arena.len() - start) as u32;
        self.sets.push(BatchSet { hash, start: start as u32, len, next_hop, view });
        (self.sets.len() - 1) as u32
    }

    /// Adds the set number `index` of another batch.
    pub(crate) fn copy_set(&mut self, from: &Batch<P>, index: u32) -> u32 {
        let set = from.sets[index as usize];
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(from.octets(&set));
        self.sets.push(BatchSet { start, ..set });
        (self.sets.len() - 1) as u32
    }

    /// Adds a change: the set's index, [`Change::WITHDRAWN`], or [`Change::dropped`].
    pub fn push(&mut self, prefix: P, set: u32) {
        self.changes.push(Change { prefix, set });
    }

    /// Adds a change of a path with a path identifier. Either every change of a batch has a path identifier, or no change.
    #[inline]
    pub(crate) fn push_path(&mut self, prefix: P, path_id: Option<u32>, set: u32) {
        self.push(prefix, set);
        self.path_ids.extend(path_id);
    }

    /// Returns the path identifier of the change at a position; `None` in a session without path identifiers.
    #[inline]
    pub fn path_id(&self, position: usize) -> Option<u32> {
        self.path_ids.get(position).copied()
    }

    /// Attributes the changes since the last call to an event.
    pub(crate) fn end_event(&mut self, provenance: Provenance) {
        let end = self.changes.len() as u32;
        if self.event_end() < end {
            self.events.push((end, provenance));
        }
    }

    /// Returns the end of the last event's changes.
    fn event_end(&self) -> u32 {
        self.events.last().map_or(0, |(end, _)| *end)
    }

    /// Forgets the changes since the last event, after an error in the rest of an UPDATE. The UPDATE's set stays, without use.
    pub(crate) fn drop_event(&mut self) {
        let end = self.event_end() as usize;
        self.changes.truncate(end);
        self.path_ids.truncate(end);
    }

    /// The sets.
    pub fn sets(&self) -> &[BatchSet] {
        &self.sets
    }

    /// The canonical octets of a set of this batch.
    pub fn octets(&self, set: &BatchSet) -> &[u8] {
        &self.arena[set.start as usize..(set.start + set.len) as usize]
    }

    /// The changes, in order.
    pub fn changes(&self) -> &[Change<P>] {
        &self.changes
    }

    /// The events behind the changes, each with the end of its changes.
    pub fn events(&self) -> &[(u32, Provenance)] {
        &self.events
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Empties the batch; its space stays.
    pub fn clear(&mut self) {
        self.sets.clear();
        self.arena.clear();
        self.changes.clear();
        self.path_ids.clear();
        self.events.clear();
    }
}

/// A batch of any family.
trait AnyBatch: Any + fmt::Debug + Send + Sync {
    fn count(&self) -> usize;
    fn empty(&mut self);
    fn end(&mut self, provenance: Provenance);
    fn drop_last(&mut self);
    fn trace(&self, from: usize, provenance: Provenance, out: &mut Vec<Traced>);
}

impl<P: FamilyKey> AnyBatch for Batch<P> {
    fn count(&self) -> usize {
        self.changes.len()
    }
    fn empty(&mut self) {
        self.clear();
    }
    fn end(&mut self, provenance: Provenance) {
        self.end_event(provenance);
    }
    fn drop_last(&mut self) {
        self.drop_event();
    }
    fn trace(&self, from: usize, provenance: Provenance, out: &mut Vec<Traced>) {
        out.extend(self.changes[from..].iter().filter_map(|change| change.traced(provenance)));
    }
}

/// Makes an empty batch of a family.
struct NewBatch;

impl FamilyVisitor for NewBatch {
    type Output = Box<dyn AnyBatch>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::new(Batch::<P>::default())
    }
}

/// A batch of each family, for one table.
#[derive(Debug)]
pub struct Batches {
    batches: ByFamily<Box<dyn AnyBatch>>,
    /// True if a batch may have changes since the end of the last event.
    is_open: bool,
    /// True if a batch had as many changes at the end of an event as a batch should have.
    is_full: bool,
}

impl Default for Batches {
    fn default() -> Self {
        let batches = ByFamily::from_fn(|family| family.visit(NewBatch));
        Batches { batches, is_open: false, is_full: false }
    }
}

impl Batches {
    /// Returns the batch of a family.
    pub fn of<P: Sharded>(&self) -> &Batch<P> {
        let batch: &dyn Any = &*self.batches[P::INDEX];
        batch.downcast_ref().expect("a family's batch has the family's keys")
    }

    /// Returns the batch of a family, to change it. To be called once for several changes.
    pub fn of_mut<P: Sharded>(&mut self) -> &mut Batch<P> {
        self.is_open = true;
        let batch: &mut dyn Any = &mut *self.batches[P::INDEX];
        batch.downcast_mut().expect("a family's batch has the family's keys")
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.batches.values().all(|batch| batch.count() == 0)
    }

    /// Empties the batches; the space stays.
    pub fn clear(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.empty());
        (self.is_open, self.is_full) = (false, false);
    }

    /// Returns true if one batch should be handed over.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// The number of changes of each family.
    pub fn len(&self) -> ByFamily<usize> {
        ByFamily::from_fn(|family| self.batches[family].count())
    }

    /// Appends the changes that came after `before`, for a latency profile.
    pub fn trace(&self, before: &ByFamily<usize>, provenance: Provenance, out: &mut Vec<Traced>) {
        for (from, batch) in before.values().zip(self.batches.values()) {
            batch.trace(*from, provenance, out);
        }
    }

    /// Ends an event of all families; see [`Batch::end_event`].
    #[inline]
    pub(crate) fn end_event(&mut self, provenance: Provenance) {
        if core::mem::take(&mut self.is_open) {
            for batch in self.batches.values_mut() {
                batch.end(provenance);
                self.is_full |= batch.count() >= Batch::<Ipv4Prefix>::FULL;
            }
        }
    }

    /// Drops the changes since the last event; see [`Batch::drop_event`].
    pub(crate) fn drop_event(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.drop_last());
        self.is_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_numbers_that_no_set_has() {
        let change = |set| Change { prefix: 1, set };
        for cause in DropCause::ALL {
            let dropped = change(Change::<u8>::dropped(cause));
            assert_eq!((dropped.is_withdrawal(), dropped.drop_cause()), (true, Some(cause)));
        }
        let withdrawn = change(Change::<u8>::WITHDRAWN);
        assert_eq!((withdrawn.is_withdrawal(), withdrawn.drop_cause()), (true, None));
        let set = change(7);
        assert_eq!((set.is_withdrawal(), set.drop_cause()), (false, None));
    }

    #[test]
    fn a_bad_update_leaves_the_good_ones() {
        let mut batch = Batch::default();
        let good = Change { prefix: 1, set: Change::<u8>::WITHDRAWN };
        batch.drop_event();
        batch.push(good.prefix, good.set);
        batch.end_event(Provenance::NONE);
        batch.push(2, good.set);
        batch.drop_event();
        batch.end_event(Provenance::NONE);
        assert_eq!((batch.changes(), batch.events()), (&[good][..], &[(1, Provenance::NONE)][..]));
        batch.clear();
        batch.push_path(1, Some(7), good.set);
        batch.end_event(Provenance::NONE);
        batch.push_path(1, Some(8), good.set);
        batch.drop_event();
        assert_eq!([0, 1].map(|position| batch.path_id(position)), [Some(7), None]);
    }
}
