//! The shards of a router: tables that share nothing, and who has which prefix.
//!
//! A [`Table`] is what one thread has: a shard of each family. Prefixes are spread over tables by the hash of a short cover
//! and not of themselves: what one UPDATE announces mostly lies close together, and then meets in one table, where
//! its attributes are kept, decided and packed once.
//!
//! What the tables ask of the RIB goes through [`questions`], so that the RIB hears each question once however many tables
//! have it.

mod questions;

use crate::batch::Batch;
use crate::hash::HashSeed;
use crate::reader::Batches;
use crate::shard::{
    Filled, GroupKey, GroupView, Interest, PeerIndex, PeerInfo, Resolution, RouteView, Sent, Shard, ShardView,
};
use crate::wire::Unicast;
use crate::wire::multiprotocol::NextHop;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use questions::Questions;
use sluice_base::interest::InterestAnswer;
use sluice_base::{Asn, Family, Ipv4Prefix, Ipv6Prefix, Provenance, RouteBatch, RouterId};
use sluice_machine::{Budget, Outbox, Progress};

/// A thread's part of the tables.
pub struct Table {
    /// IPv4 unicast.
    ipv4: Shard<Ipv4Prefix>,
    /// IPv6 unicast.
    ipv6: Shard<Ipv6Prefix>,
}

/// A family that is kept in tables.
pub trait Sharded: Unicast {
    /// The length of the cover by whose hash prefixes are spread: short enough to keep together what is announced together,
    /// long enough that no table gets much more than its share.
    const COVER: u8;

    /// The family's shard of a table.
    fn shard(table: &Table) -> &Shard<Self>;
    /// The same, to change.
    fn shard_mut(table: &mut Table) -> &mut Shard<Self>;
    /// The family's part of what a reader hands over.
    fn batch(batches: &Batches) -> &Batch<Self>;
    /// The same, to change.
    fn batch_mut(batches: &mut Batches) -> &mut Batch<Self>;
    /// The family's questions, and who asks them.
    fn questions(shards: &mut Shards) -> Asking<'_, Self>;
}

/// Says where a family is.
macro_rules! sharded {
    ($prefix:ty, $cover:literal, $field:ident, $questions:ident, $interests:ident) => {
        impl Sharded for $prefix {
            const COVER: u8 = $cover;

            fn shard(table: &Table) -> &Shard<Self> {
                &table.$field
            }
            fn shard_mut(table: &mut Table) -> &mut Shard<Self> {
                &mut table.$field
            }
            fn batch(batches: &Batches) -> &Batch<Self> {
                &batches.$field
            }
            fn batch_mut(batches: &mut Batches) -> &mut Batch<Self> {
                &mut batches.$field
            }
            fn questions(shards: &mut Shards) -> Asking<'_, Self> {
                let Shards { tables, $questions: questions, $interests: out, .. } = shards;
                Asking { questions, tables, out }
            }
        }
    };
}

sharded!(Ipv4Prefix, 14, ipv4, questions4, interests4);
sharded!(Ipv6Prefix, 30, ipv6, questions6, interests6);

/// Questions of a family, the tables that have them, and where they go.
pub struct Asking<'s, P: Sharded> {
    questions: &'s mut Questions<P>,
    tables: &'s mut [Table],
    out: &'s mut Outbox<Interest<P>>,
}

impl<P: Sharded> Asking<'_, P> {
    /// Has a table do something that may make it ask.
    fn table<R>(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut Shard<P>, &mut Outbox<Interest<P>>) -> R,
    ) -> R {
        self.questions.ask(self.tables, number, self.out, act)
    }
}

/// The tables as neighbours see them, wherever they are.
pub trait Tables {
    /// Who has what.
    fn spread(&self) -> Spread;
    /// A session is up; see [`Shard::peer_up`].
    fn peer_up(&mut self, peer: PeerIndex, info: PeerInfo);
    /// A session is down; see [`Shard::peer_down`].
    fn peer_down(&mut self, peer: PeerIndex);
    /// Whether all routes of a peer are forgotten, so that its number may be given to another.
    fn is_clean(&self, peer: PeerIndex) -> bool;
    /// The peer is to be told all routes of a family that a peer of its kind may have.
    fn join<P: Sharded>(&mut self, peer: PeerIndex, key: GroupKey);
    /// The peer is told everything of a family once more; see [`Shard::refresh`].
    fn refresh<P: Sharded>(&mut self, peer: PeerIndex, key: Option<GroupKey>);
    /// Takes what was read from `peer`: a batch for each table. They are empty afterwards.
    fn apply(&mut self, peer: PeerIndex, batches: &mut [Batches]);
    /// Whether `peer` has anything of a family to be told.
    fn has_output<P: Sharded>(&self, peer: PeerIndex) -> bool;
    /// Fills `out` with what the table `number` has for `peer`; see [`Shard::fill`].
    fn fill<P: Sharded>(
        &mut self,
        number: usize,
        peer: PeerIndex,
        hop: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) -> Filled;
}

/// Which table has a prefix.
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

    /// How many tables there are.
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
}

/// All tables of a router, on one thread.
pub struct Shards {
    spread: Spread,
    tables: Vec<Table>,
    questions4: Questions<Ipv4Prefix>,
    questions6: Questions<Ipv6Prefix>,
    interests4: Outbox<Interest<Ipv4Prefix>>,
    interests6: Outbox<Interest<Ipv6Prefix>>,
    /// The table that has the RIB's next turn.
    turn: usize,
}

impl Shards {
    /// Empty tables of a router of `local_as`.
    pub fn new(local_as: Asn, router_id: RouterId, spread: Spread) -> Self {
        let table = || Table {
            ipv4: Shard::new(local_as, router_id, spread.seed),
            ipv6: Shard::new(local_as, router_id, spread.seed),
        };
        Shards {
            spread,
            tables: core::iter::repeat_with(table).take(spread.tables()).collect(),
            questions4: Questions::default(),
            questions6: Questions::default(),
            interests4: Outbox::new(),
            interests6: Outbox::new(),
            turn: 0,
        }
    }

    /// What the tables ask the RIB: to be drained after each call that may make them ask.
    pub fn interests<P: Sharded>(&mut self) -> &mut Outbox<Interest<P>> {
        P::questions(self).out
    }

    fn shards<P: Sharded>(&self) -> impl Iterator<Item = &Shard<P>> {
        self.tables.iter().map(P::shard)
    }

    /// Originates `prefix`, or no longer does.
    pub fn originate<P: Sharded>(&mut self, prefix: P, wanted: bool, provenance: Provenance) {
        let number = self.spread.table(prefix);
        P::questions(self).table(number, |shard, out| shard.originate(prefix, wanted, provenance, out));
    }

    /// The RIB's answer about next hops.
    pub fn answer<P: Sharded>(&mut self, answer: &InterestAnswer<P>, provenance: Provenance) {
        let Asking { questions, tables, out } = P::questions(self);
        questions.answer(tables, answer, provenance, out);
    }

    /// The RIB's answer for `prefix` holds no longer.
    pub fn invalid<P: Sharded>(&mut self, prefix: P) {
        let mut asking = P::questions(self);
        asking.questions.invalid(prefix);
        for number in 0..asking.tables.len() {
            asking.table(number, |shard, out| shard.invalid(prefix, out));
        }
    }

    /// The RIB was restarted: it is asked about all next hops and told all routes again.
    pub fn rib_restarted<P: Sharded>(&mut self) {
        let mut asking = P::questions(self);
        asking.questions.forget();
        for number in 0..asking.tables.len() {
            asking.table(number, |shard, out| shard.rib_restarted(out));
        }
    }

    /// Whether every path was decided by the RIB's word on its next hop; see [`Shard::is_resolved`].
    pub fn is_resolved(&self) -> bool {
        self.tables.iter().all(|t| t.ipv4.is_resolved() && t.ipv6.is_resolved())
    }

    /// Background work of a family.
    pub fn run_slice<P: Sharded>(&mut self, budget: Budget) -> Progress {
        let mut asking = P::questions(self);
        let mut progress = Progress::Done;
        for number in 0..asking.tables.len() {
            progress = progress.or(asking.table(number, |shard, out| shard.run_slice(budget, out)));
        }
        progress
    }

    /// Whether the RIB has anything of a family to be told.
    pub fn has_rib_changes<P: Sharded>(&self) -> bool {
        self.shards::<P>().any(Shard::has_rib_changes)
    }

    /// Adds about `limit` changes for the RIB to `batch`. Tables take turns.
    pub fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) {
        for _ in 0..self.tables.len() {
            self.turn = (self.turn + 1) % self.tables.len();
            let shard = P::shard_mut(&mut self.tables[self.turn]);
            if batch.updates.len() < limit && shard.has_rib_changes() {
                shard.rib_batch(limit - batch.updates.len(), batch);
            }
        }
    }

    /// Puts checking stages before every PeerOut, or takes them out.
    pub fn check(&mut self, on: bool) {
        for table in &mut self.tables {
            table.ipv4.check(on);
            table.ipv6.check(on);
        }
    }

    /// What the checking stages of a family found wrong so far.
    pub fn violations<P: Sharded>(&self) -> Vec<sluice_stage::Violation<crate::shard::rules::Announced<P>>> {
        self.shards::<P>().flat_map(Shard::violations).collect()
    }

    /// A family in numbers. Attribute sets that several tables have count in each.
    pub fn view(&self, family: Family) -> ShardView {
        let add = |a: ShardView, b: ShardView| ShardView {
            prefixes: a.prefixes + b.prefixes,
            attribute_sets: a.attribute_sets + b.attribute_sets,
            queued: a.queued + b.queued,
            stale: a.stale + b.stale,
            in_rib: a.in_rib + b.in_rib,
        };
        let views = self.tables.iter().map(|t| match family {
            Family::Ipv4 => t.ipv4.view(),
            Family::Ipv6 => t.ipv6.view(),
        });
        views.fold(ShardView::default(), add)
    }

    /// The number of prefixes of a family that `peer` has announced and not withdrawn.
    pub fn received<P: Sharded>(&self, peer: PeerIndex) -> u32 {
        self.shards::<P>().map(|s| s.received(peer)).sum()
    }

    /// The number of prefixes of a family that `peer` was told; see [`Shard::advertised`].
    pub fn advertised<P: Sharded>(&self, peer: PeerIndex) -> u32 {
        self.shards::<P>().map(|s| s.advertised(peer)).sum()
    }

    /// The update groups of a family, table by table.
    pub fn groups<P: Sharded>(&self) -> Vec<GroupView> {
        self.shards::<P>().flat_map(Shard::groups).collect()
    }

    /// The next hops of a family: how each is reached, and by how many paths it is used.
    pub fn next_hops<P: Sharded>(&self) -> BTreeMap<NextHop, (Resolution, u32)> {
        let mut all = BTreeMap::new();
        for (hop, resolution, paths) in self.shards::<P>().flat_map(Shard::next_hops) {
            all.entry(*hop).or_insert((resolution, 0)).1 += paths;
        }
        all
    }

    /// A prefix and its paths; `None` if there is no path.
    pub fn route<P: Sharded>(&self, prefix: P) -> Option<RouteView<P>> {
        P::shard(&self.tables[self.spread.table(prefix)]).route(prefix)
    }

    /// A page of routes and the place of the next one; see [`Shard::routes`]. The first place is 0, and no other is.
    pub fn routes<P: Sharded>(
        &self,
        from: u64,
        limit: usize,
        wanted: impl Fn(P) -> bool,
    ) -> (Vec<RouteView<P>>, Option<u64>) {
        let (number, place) = ((from >> 32) as usize, from as u32);
        let Some(table) = self.tables.get(number) else { return (Vec::new(), None) };
        let (routes, next) = P::shard(table).routes(place, limit, wanted);
        let next = match next {
            Some(place) => Some((number as u64) << 32 | u64::from(place)),
            None => (number + 1 < self.tables.len()).then_some((number as u64 + 1) << 32),
        };
        (routes, next)
    }

    /// Whether `peer` was told a route of `prefix`: its Adj-RIB-Out.
    pub fn is_advertised<P: Sharded>(&self, peer: PeerIndex, prefix: P) -> bool {
        P::shard(&self.tables[self.spread.table(prefix)]).is_advertised(peer, prefix)
    }
}

impl Tables for Shards {
    fn spread(&self) -> Spread {
        self.spread
    }

    fn peer_up(&mut self, peer: PeerIndex, info: PeerInfo) {
        for table in &mut self.tables {
            table.ipv4.peer_up(peer, info);
            table.ipv6.peer_up(peer, info);
        }
    }

    fn peer_down(&mut self, peer: PeerIndex) {
        for table in &mut self.tables {
            table.ipv4.peer_down(peer);
            table.ipv6.peer_down(peer);
        }
    }

    fn is_clean(&self, peer: PeerIndex) -> bool {
        self.tables.iter().all(|t| t.ipv4.is_clean(peer) && t.ipv6.is_clean(peer))
    }

    fn join<P: Sharded>(&mut self, peer: PeerIndex, key: GroupKey) {
        self.tables.iter_mut().for_each(|t| P::shard_mut(t).join(peer, key));
    }

    fn refresh<P: Sharded>(&mut self, peer: PeerIndex, key: Option<GroupKey>) {
        self.tables.iter_mut().for_each(|t| P::shard_mut(t).refresh(peer, key));
    }

    fn apply(&mut self, peer: PeerIndex, batches: &mut [Batches]) {
        fn family<P: Sharded>(shards: &mut Shards, peer: PeerIndex, batches: &mut [Batches]) {
            let mut asking = P::questions(shards);
            for (number, batches) in batches.iter_mut().enumerate() {
                let batch = P::batch_mut(batches);
                if !batch.is_empty() {
                    asking.table(number, |shard, out| shard.apply(peer, batch, out));
                }
                batch.clear();
            }
        }
        family::<Ipv4Prefix>(self, peer, batches);
        family::<Ipv6Prefix>(self, peer, batches);
    }

    fn has_output<P: Sharded>(&self, peer: PeerIndex) -> bool {
        self.shards::<P>().any(|shard| shard.has_output(peer))
    }

    fn fill<P: Sharded>(
        &mut self,
        number: usize,
        peer: PeerIndex,
        hop: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) -> Filled {
        self.tables.get_mut(number).map_or(Filled::Dry, |t| P::shard_mut(t).fill(peer, hop, limit, out, sent))
    }
}
