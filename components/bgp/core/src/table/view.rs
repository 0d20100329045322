//! The tables together, for operators.

use super::{Sharded, Spread, Table};
use crate::batch::DropCause;
use crate::family::FamilyIndex;
pub(super) use crate::shard::adj_rib_out::Announced;
use crate::shard::{
    DampedView, DampingCounts, ExportVerdict, GroupView, NotSent, PeerIndex, PolicyHits, Resolution,
    RevalidationProgress, RouteView, ShardView,
};
use crate::wire::multiprotocol::NextHop;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::Instant;
use sluice_stage::Violation;

/// A family's next hops: how each is reached, and by how many paths it is used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NextHops(pub BTreeMap<NextHop, (Resolution, u32)>);

impl NextHops {
    /// Adds the next hops of a table. A next hop counts as unanswered if any table waits for the answer.
    pub fn add(&mut self, others: impl IntoIterator<Item = (NextHop, (Resolution, u32))>) {
        for (hop, (resolution, paths)) in others {
            let known = self.0.entry(hop).or_insert((resolution, 0));
            known.1 += paths;
            if resolution == Resolution::Waiting {
                known.0 = resolution;
            }
        }
    }
}

impl Table {
    /// Returns a family in numbers.
    pub fn view(&self, family: impl Into<FamilyIndex>) -> ShardView {
        self.shards[family].view()
    }

    /// Returns the number of prefixes of a family that `peer` has announced and not withdrawn.
    pub fn received(&self, family: FamilyIndex, peer: PeerIndex) -> u32 {
        self.shards[family].received(peer)
    }

    /// Returns the number of prefixes of a family and of `peer` that import policy rejects.
    pub fn rejected(&self, family: FamilyIndex, peer: PeerIndex) -> u32 {
        self.shards[family].rejected(peer)
    }

    /// Returns the number of prefixes of a family that `peer` was sent; see [`crate::shard::Shard::advertised`].
    pub fn advertised(&self, family: FamilyIndex, peer: PeerIndex) -> u32 {
        self.shards[family].advertised(peer)
    }

    /// Adds the table's next hops to `all`.
    pub fn add_next_hops<P: Sharded>(&self, all: &mut NextHops) {
        all.add(self.shard::<P>().next_hops().map(|(hop, resolution, paths)| (*hop, (resolution, paths))));
    }

    /// Returns a prefix with the best path as sent to `peer`; see [`crate::shard::Shard::advertised_route`].
    pub fn advertised_route<P: Sharded>(&self, peer: PeerIndex, prefix: P) -> Option<RouteView<P>> {
        let outlet = self.peers.get(usize::from(peer.0))?.as_ref()?.outlet.as_ref()?;
        self.shard::<P>().advertised_route(peer, prefix, &outlet.next_hops::<P>())
    }

    /// Returns what `peer` is sent of a prefix; see [`crate::shard::Shard::export_verdict`].
    ///
    /// # Errors
    ///
    /// The reason why nothing is sent.
    pub fn export_verdict<P: Sharded>(&self, peer: PeerIndex, prefix: P) -> ExportVerdict<P> {
        let known = self.peers.get(usize::from(peer.0)).and_then(Option::as_ref).ok_or(NotSent::NoSession)?;
        let outlet = known.outlet.as_ref().ok_or(NotSent::NoSession)?;
        if !outlet.families.has(P::INDEX) {
            let is_agreed = outlet.agreed.has(P::INDEX);
            return Err(if is_agreed { NotSent::NoOwnNextHop } else { NotSent::NotAgreed });
        }
        self.shard::<P>().export_verdict(peer, prefix, &outlet.next_hops::<P>())
    }

    /// Returns the paths of a prefix that `peer` is not sent beside others; see [`crate::shard::Shard::paths_not_sent`].
    pub fn paths_not_sent<P: Sharded>(
        &self,
        peer: PeerIndex,
        prefix: P,
    ) -> Vec<(PeerIndex, Option<u32>, NotSent)> {
        let known = self.peers.get(usize::from(peer.0)).and_then(Option::as_ref);
        let outlet = known.and_then(|known| known.outlet.as_ref());
        outlet.map_or_else(Vec::new, |outlet| {
            self.shard::<P>().paths_not_sent(peer, prefix, &outlet.next_hops::<P>())
        })
    }

    /// Returns true if every path was decided by the RIB's answer about its next hop; see [`crate::shard::Shard::is_resolved`].
    pub fn is_resolved(&self) -> bool {
        self.shards.values().all(|shard| shard.is_resolved())
    }
}

/// The tables of a router.
#[derive(Clone, Copy)]
pub struct Tables<'t> {
    pub(crate) tables: &'t [Table],
    pub(crate) spread: Spread,
}

impl<'t> Tables<'t> {
    /// Returns routes that come and go, up to `limit` of each table, as they are at `now`; see [`crate::shard::Shard::damped`].
    pub fn damped<P: Sharded>(
        &self,
        now: Instant,
        limit: usize,
        suppressed_only: bool,
    ) -> Vec<DampedView<P>> {
        let of_table = |table: &Table| table.shard::<P>().damped(now, 0, limit, suppressed_only).0;
        self.tables.iter().flat_map(of_table).collect()
    }

    /// Returns the counts of flap damping of a family.
    pub fn damping_counts(&self, family: FamilyIndex) -> DampingCounts {
        self.tables.iter().map(|table| table.damping_counts(family)).sum()
    }

    fn shards<P: Sharded>(self) -> impl Iterator<Item = &'t crate::shard::Shard<P>> {
        self.tables.iter().map(Table::shard)
    }

    /// Fills `out` with the peers with output.
    pub fn with_output(self, out: &mut Vec<PeerIndex>) {
        let mut all = Vec::new();
        for table in self.tables {
            table.with_output(out);
            all.append(out);
        }
        all.sort_unstable();
        all.dedup();
        *out = all;
    }

    /// Returns true if every path was decided by the RIB's answer about its next hop.
    pub fn is_resolved(self) -> bool {
        self.tables.iter().all(Table::is_resolved)
    }

    /// Returns the violations that the checking stages of a family found so far.
    pub fn violations<P: Sharded>(self) -> Vec<Violation<Announced<P>>> {
        self.shards::<P>().flat_map(|shard| shard.violations()).collect()
    }

    /// A family in numbers. Attribute sets that several tables have count in each.
    pub fn view(self, family: impl Into<FamilyIndex>) -> ShardView {
        let family = family.into();
        self.tables.iter().map(|t| t.view(family)).sum()
    }

    /// The number of prefixes of a family that `peer` has announced and not withdrawn.
    pub fn received<P: Sharded>(self, peer: PeerIndex) -> u32 {
        self.shards::<P>().map(|s| s.received(peer)).sum()
    }

    /// The number of prefixes of a family and of `peer` that import policy rejects.
    pub fn rejected<P: Sharded>(self, peer: PeerIndex) -> u32 {
        self.shards::<P>().map(|s| s.rejected(peer)).sum()
    }

    /// Returns the work of walks after epochs of validated ROA payloads so far.
    pub fn revalidation<P: Sharded>(self) -> RevalidationProgress {
        let mut sum = RevalidationProgress::default();
        self.shards::<P>().for_each(|shard| sum += shard.revalidation_progress());
        sum
    }

    /// The number of prefixes of a family that `peer` was sent; see [`crate::shard::Shard::advertised`].
    pub fn advertised<P: Sharded>(self, peer: PeerIndex) -> u32 {
        self.shards::<P>().map(|s| s.advertised(peer)).sum()
    }

    /// Returns the hits of a policy over all routes of a family, in slices of `limit`.
    pub fn policy_hits<P: Sharded>(self, policy: &str, limit: usize) -> PolicyHits {
        let mut hits = PolicyHits::new();
        for shard in self.shards::<P>() {
            let mut from = Some(0);
            while let Some(place) = from {
                from = shard.count_hits(policy, place, limit, &mut hits);
            }
        }
        hits
    }

    /// The update groups of a family, table by table.
    pub fn groups<P: Sharded>(self) -> Vec<GroupView> {
        self.shards::<P>().flat_map(|shard| shard.groups()).collect()
    }

    /// The next hops of a family.
    pub fn next_hops<P: Sharded>(self) -> NextHops {
        let mut all = NextHops::default();
        self.tables.iter().for_each(|t| t.add_next_hops::<P>(&mut all));
        all
    }

    /// The table that has `prefix`.
    fn of<P: Sharded>(self, prefix: P) -> &'t crate::shard::Shard<P> {
        self.tables[self.spread.table(prefix)].shard()
    }

    /// Returns a prefix and its paths; `None` without a path.
    pub fn route<P: Sharded>(self, prefix: P) -> Option<RouteView<P>> {
        self.of(prefix).route(prefix)
    }

    /// Iterates over the routes of a family, table by table.
    pub fn routes<P: Sharded>(self) -> impl Iterator<Item = RouteView<P>> {
        self.shards::<P>().flat_map(|shard| shard.routes(0, usize::MAX, |_| true).0)
    }

    /// Returns the peers whose latest announcement of a prefix was not stored; see [`crate::shard::Shard::dropped`].
    pub fn dropped<P: Sharded>(self, prefix: P) -> Vec<(PeerIndex, DropCause)> {
        self.of(prefix).dropped(prefix)
    }

    /// Returns what `peer` is sent of a prefix; see [`crate::shard::Shard::export_verdict`].
    ///
    /// # Errors
    ///
    /// The reason why nothing is sent.
    pub fn export_verdict<P: Sharded>(self, peer: PeerIndex, prefix: P) -> ExportVerdict<P> {
        self.tables[self.spread.table(prefix)].export_verdict(peer, prefix)
    }

    /// Returns the paths of a prefix that `peer` is not sent beside others; see [`crate::shard::Shard::paths_not_sent`].
    pub fn paths_not_sent<P: Sharded>(
        self,
        peer: PeerIndex,
        prefix: P,
    ) -> Vec<(PeerIndex, Option<u32>, NotSent)> {
        self.tables[self.spread.table(prefix)].paths_not_sent(peer, prefix)
    }

    /// Returns a prefix with the best path as sent to `peer`; `None` if the prefix is not sent.
    pub fn advertised_route<P: Sharded>(self, peer: PeerIndex, prefix: P) -> Option<RouteView<P>> {
        self.tables[self.spread.table(prefix)].advertised_route(peer, prefix)
    }

    /// Returns true if `peer` was sent a route of `prefix`: its Adj-RIB-Out.
    pub fn is_advertised<P: Sharded>(self, peer: PeerIndex, prefix: P) -> bool {
        self.of(prefix).is_advertised(peer, prefix)
    }
}
