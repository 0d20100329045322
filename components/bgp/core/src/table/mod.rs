//! A table: what one thread keeps of the prefixes, a shard of each family. Tables share nothing.
//!
//! A table is told what to do by [`Order`]s, in order; takes what readers read ([`Table::apply`]); and gives octets to writers
//! and routes to the RIB when they ask ([`Table::fill`], [`Table::rib_batch`]). What it has to say on its own is [`TableEvent`]. Who
//! carries these may be a function call or a channel between threads: a table cannot know the difference.

mod handover;
mod spread;
mod view;

pub use handover::{TablePart, fingerprint, import};
pub use spread::Spread;
pub use view::{NextHops, Tables};

use crate::batch::Batch;
use crate::hash::HashSeed;
use crate::reader::Batches;
use crate::shard::{Filled, Interest, NextHopsFor, PeerIndex, PeerInfo, Sent, Shard};
use crate::wire::Unicast;
use crate::writer::PeerExport;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::interest::InterestAnswer;
use sluice_base::{Asn, Family, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, RouteBatch, RouterId};
use sluice_machine::{Budget, Outbox, Progress};

/// The number of a session among all of a router's life, from 1 on. What a reader read in one session is void in the next.
pub type SessionEpoch = u32;

/// What a table is told. Orders to all tables are the same for each.
#[derive(Clone, Debug)]
pub enum Order {
    /// A session is up.
    PeerUp {
        /// Whose.
        peer: PeerIndex,
        /// The session's number.
        life: SessionEpoch,
        /// What the decision needs to know of the peer.
        info: PeerInfo,
    },
    /// The peer is to be told all routes that a peer of its kind may have.
    Open(PeerIndex, Box<PeerExport>),
    /// The peer is told everything once more, as one of another kind.
    Reopen(PeerIndex, Box<PeerExport>),
    /// The peer is told everything of a family once more.
    Refresh(PeerIndex, Family),
    /// The session of this number is down.
    PeerDown(PeerIndex, SessionEpoch),
    /// The router originates a prefix, or no longer does.
    Originate(IpPrefix, bool, Provenance),
    /// The RIB's answer about IPv4 next hops.
    AnswerIpv4(Versioned<Ipv4Prefix>, Provenance),
    /// The RIB's answer about IPv6 next hops.
    AnswerIpv6(Versioned<Ipv6Prefix>, Provenance),
    /// An answer of the RIB holds no longer.
    Invalid(IpPrefix),
    /// The RIB was restarted: it is asked about all next hops and told all routes again.
    RibRestarted,
    /// Checking stages go before every PeerOut, or are taken out.
    Check(bool),
}

/// An answer of the RIB, with a number by which a table says later that it had seen it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned<P: Unicast> {
    /// Grows from answer to answer.
    pub number: u64,
    /// What the RIB said.
    pub answer: InterestAnswer<P>,
}

/// What a table says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableEvent {
    /// It asks about IPv4 next hops, having seen the answer of this number and those before.
    InterestIpv4(Interest<Ipv4Prefix>, u64),
    /// It asks about IPv6 next hops.
    InterestIpv6(Interest<Ipv6Prefix>, u64),
    /// There are routes for the RIB: call [`Table::rib_batch`] until it says that there are no more.
    RibReady(Family),
    /// All routes of a peer whose session of this number is over are forgotten.
    Drained(PeerIndex, SessionEpoch),
}

/// A family that is kept in tables.
pub trait Sharded: Unicast {
    /// The length of the cover by whose hash prefixes are spread: short enough to keep together what is announced together,
    /// long enough that no table gets much more than its share.
    const COVER: u8;

    /// The family's shard of a table.
    fn shard(table: &Table) -> &Shard<Self>;
    /// The same, to change, and where its questions go.
    fn shard_mut(table: &mut Table) -> (&mut Shard<Self>, &mut Outbox<Interest<Self>>);
    /// The family's part of what a reader hands over.
    fn batch(batches: &Batches) -> &Batch<Self>;
    /// The same, to change.
    fn batch_mut(batches: &mut Batches) -> &mut Batch<Self>;
}

/// Says where a family is.
macro_rules! sharded {
    ($prefix:ty, $cover:literal, $field:ident, $interests:ident) => {
        impl Sharded for $prefix {
            const COVER: u8 = $cover;

            fn shard(table: &Table) -> &Shard<Self> {
                &table.$field
            }
            fn shard_mut(table: &mut Table) -> (&mut Shard<Self>, &mut Outbox<Interest<Self>>) {
                (&mut table.$field, &mut table.$interests)
            }
            fn batch(batches: &Batches) -> &Batch<Self> {
                &batches.$field
            }
            fn batch_mut(batches: &mut Batches) -> &mut Batch<Self> {
                &mut batches.$field
            }
        }
    };
}

sharded!(Ipv4Prefix, 14, ipv4, interests4);
sharded!(Ipv6Prefix, 30, ipv6, interests6);

/// What a table keeps of a peer whose session is up.
#[derive(Debug)]
struct PeerOut {
    life: SessionEpoch,
    outlet: Option<Box<PeerExport>>,
    /// Whether IPv6 has the next turn.
    turn: bool,
}

/// What filling a peer's buffer came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FillResult {
    /// The limit was reached: there may be more.
    pub more: bool,
    /// Families of which, for the first time, there is nothing more to tell.
    pub ended: [bool; 2],
}

/// A thread's part of the tables.
pub struct Table {
    ipv4: Shard<Ipv4Prefix>,
    ipv6: Shard<Ipv6Prefix>,
    interests4: Outbox<Interest<Ipv4Prefix>>,
    interests6: Outbox<Interest<Ipv6Prefix>>,
    /// By number.
    peers: Vec<Option<PeerOut>>,
    /// The newest answer of the RIB that was seen, by family.
    seen: [u64; 2],
    /// Peers whose routes are being forgotten, and the last session of each.
    leaving: BTreeMap<PeerIndex, SessionEpoch>,
    rib_offered: [bool; 2],
}

impl Table {
    /// An empty table of a router of `local_as`; `seed` is the readers'.
    pub fn new(local_as: Asn, router_id: RouterId, seed: HashSeed) -> Self {
        Table {
            ipv4: Shard::new(local_as, router_id, seed),
            ipv6: Shard::new(local_as, router_id, seed),
            interests4: Outbox::new(),
            interests6: Outbox::new(),
            peers: Vec::new(),
            seen: [0; 2],
            leaving: BTreeMap::new(),
            rib_offered: [false; 2],
        }
    }

    /// Does what it is told.
    pub fn order(&mut self, order: Order, out: &mut Outbox<TableEvent>) {
        match order {
            Order::PeerUp { peer, life, info } => {
                self.ipv4.peer_up(peer, info);
                self.ipv6.peer_up(peer, info);
                let place = usize::from(peer.0);
                if self.peers.len() <= place {
                    self.peers.resize_with(place + 1, || None);
                }
                self.peers[place] = Some(PeerOut { life, outlet: None, turn: false });
            }
            Order::Open(peer, outlet) => {
                if outlet.families.ipv4 {
                    self.ipv4.join(peer, outlet.keys[0]);
                }
                if outlet.families.ipv6 {
                    self.ipv6.join(peer, outlet.keys[1]);
                }
                self.set_outlet(peer, outlet);
            }
            Order::Reopen(peer, outlet) => {
                self.ipv4.refresh(peer, Some(outlet.keys[0]));
                self.ipv6.refresh(peer, Some(outlet.keys[1]));
                self.set_outlet(peer, outlet);
            }
            Order::Refresh(peer, Family::Ipv4) => self.ipv4.refresh(peer, None),
            Order::Refresh(peer, Family::Ipv6) => self.ipv6.refresh(peer, None),
            Order::PeerDown(peer, life) => {
                self.ipv4.peer_down(peer);
                self.ipv6.peer_down(peer);
                if let Some(known) = self.peers.get_mut(usize::from(peer.0)) {
                    *known = None;
                }
                self.leaving.insert(peer, life);
            }
            Order::Originate(IpPrefix::V4(prefix), wanted, provenance) => {
                self.ipv4.originate(prefix, wanted, provenance, &mut self.interests4);
            }
            Order::Originate(IpPrefix::V6(prefix), wanted, provenance) => {
                self.ipv6.originate(prefix, wanted, provenance, &mut self.interests6);
            }
            Order::AnswerIpv4(answer, provenance) => self.answer(&answer, provenance),
            Order::AnswerIpv6(answer, provenance) => self.answer(&answer, provenance),
            Order::Invalid(IpPrefix::V4(prefix)) => self.ipv4.invalid(prefix, &mut self.interests4),
            Order::Invalid(IpPrefix::V6(prefix)) => self.ipv6.invalid(prefix, &mut self.interests6),
            Order::RibRestarted => {
                self.ipv4.rib_restarted(&mut self.interests4);
                self.ipv6.rib_restarted(&mut self.interests6);
                self.rib_offered = [false; 2];
            }
            Order::Check(on) => {
                self.ipv4.check(on);
                self.ipv6.check(on);
            }
        }
        self.tell(out);
    }

    fn answer<P: Sharded>(&mut self, dated: &Versioned<P>, provenance: Provenance) {
        let seen = &mut self.seen[P::FAMILY as usize];
        *seen = dated.number.max(*seen);
        let (shard, interests) = P::shard_mut(self);
        shard.answer(&dated.answer, provenance, interests);
    }

    fn peer_mut(&mut self, peer: PeerIndex) -> Option<&mut PeerOut> {
        self.peers.get_mut(usize::from(peer.0))?.as_mut()
    }

    fn set_outlet(&mut self, peer: PeerIndex, outlet: Box<PeerExport>) {
        if let Some(known) = self.peer_mut(peer) {
            known.outlet = Some(outlet);
        }
    }

    /// Whether a session is the one that is up.
    pub fn is_up(&self, peer: PeerIndex, life: SessionEpoch) -> bool {
        self.peers.get(usize::from(peer.0)).and_then(Option::as_ref).is_some_and(|p| p.life == life)
    }

    /// Takes what was read of `peer` in a session, and leaves the batches empty. What is of a session that is over is ignored.
    pub fn apply(
        &mut self,
        peer: PeerIndex,
        life: SessionEpoch,
        batches: &mut Batches,
        out: &mut Outbox<TableEvent>,
    ) {
        fn family<P: Sharded>(table: &mut Table, peer: PeerIndex, batches: &mut Batches) {
            let batch = P::batch_mut(batches);
            if !batch.is_empty() {
                let (shard, interests) = P::shard_mut(table);
                shard.apply(peer, batch, interests);
            }
        }
        if self.is_up(peer, life) {
            family::<Ipv4Prefix>(self, peer, batches);
            family::<Ipv6Prefix>(self, peer, batches);
        }
        batches.clear();
        self.tell(out);
    }

    /// Background work.
    #[inline]
    pub fn run_slice(&mut self, budget: Budget, out: &mut Outbox<TableEvent>) -> Progress {
        match self.ipv4.has_work() || self.ipv6.has_work() {
            true => self.work(budget, out),
            false => Progress::Done,
        }
    }

    fn work(&mut self, budget: Budget, out: &mut Outbox<TableEvent>) -> Progress {
        let mut progress = Progress::Done;
        if self.ipv4.has_work() {
            progress = self.ipv4.run_slice(budget, &mut self.interests4);
        }
        if self.ipv6.has_work() {
            progress = progress.or(self.ipv6.run_slice(budget, &mut self.interests6));
        }
        self.tell(out);
        progress
    }

    /// Whether [`Table::fill`] has anything for `peer`.
    #[inline]
    pub fn has_output(&self, peer: PeerIndex) -> bool {
        let known = self.peers.get(usize::from(peer.0)).and_then(Option::as_ref);
        known.and_then(|p| p.outlet.as_ref()).is_some_and(|outlet| {
            (outlet.families.ipv4 && self.ipv4.has_output(peer))
                || (outlet.families.ipv6 && self.ipv6.has_output(peer))
        })
    }

    /// Puts all peers for which [`Table::has_output`] is true into `out`, in the order of their numbers, and nobody else.
    pub fn with_output(&self, out: &mut Vec<PeerIndex>) {
        out.clear();
        self.ipv4.with_output(out);
        self.ipv6.with_output(out);
        out.sort_unstable();
        out.dedup();
    }

    /// Appends UPDATEs for `peer` to `out` until it is about `end` octets long. Families take turns.
    pub fn fill(&mut self, peer: PeerIndex, end: usize, out: &mut Vec<u8>, sent: &mut Sent) -> FillResult {
        let mut portion = FillResult::default();
        let Table { ipv4, ipv6, peers, .. } = self;
        let known = peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut);
        let Some(PeerOut { outlet: Some(outlet), turn, .. }) = known else { return portion };
        for _ in 0..2 {
            *turn = !*turn;
            portion.more = match *turn {
                true => fill_family(ipv4, peer, outlet, end, out, sent, &mut portion.ended),
                false => fill_family(ipv6, peer, outlet, end, out, sent, &mut portion.ended),
            };
            if portion.more {
                break;
            }
        }
        portion
    }

    /// Whether the RIB has anything of a family to be told.
    pub fn has_rib_changes<P: Sharded>(&self) -> bool {
        P::shard(self).has_rib_changes()
    }

    /// Adds about `limit` changes for the RIB to `batch`; returns whether there are more. After a `false`, [`TableEvent::RibReady`] says
    /// when there are some again.
    pub fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) -> bool {
        let (shard, _) = P::shard_mut(self);
        shard.rib_batch(limit, batch);
        let more = shard.has_rib_changes();
        self.rib_offered[P::FAMILY as usize] = more;
        more
    }

    /// Says what nobody was told yet.
    fn tell(&mut self, out: &mut Outbox<TableEvent>) {
        if !(self.interests4.is_empty() && self.interests6.is_empty()) {
            self.ask(out);
        }
        let ready = [self.ipv4.has_rib_changes(), self.ipv6.has_rib_changes()];
        for family in Family::ALL {
            if ready[family as usize] && !core::mem::replace(&mut self.rib_offered[family as usize], true) {
                out.push(TableEvent::RibReady(family));
            }
        }
        if !self.leaving.is_empty() {
            self.take_leave(out);
        }
    }

    /// Passes on what the shards ask of the RIB.
    #[cold]
    fn ask(&mut self, out: &mut Outbox<TableEvent>) {
        let [seen4, seen6] = self.seen;
        self.interests4.drain().for_each(|interest| out.push(TableEvent::InterestIpv4(interest, seen4)));
        self.interests6.drain().for_each(|interest| out.push(TableEvent::InterestIpv6(interest, seen6)));
    }

    /// Says whose routes are forgotten by now.
    #[cold]
    fn take_leave(&mut self, out: &mut Outbox<TableEvent>) {
        let (ipv4, ipv6) = (&self.ipv4, &self.ipv6);
        self.leaving.retain(|peer, life| {
            let is_clean = ipv4.is_clean(*peer) && ipv6.is_clean(*peer);
            if is_clean {
                out.push(TableEvent::Drained(*peer, *life));
            }
            !is_clean
        });
    }
}

/// A family's part of [`Table::fill`]; returns whether there may be more.
fn fill_family<P: Sharded>(
    shard: &mut Shard<P>,
    peer: PeerIndex,
    outlet: &PeerExport,
    end: usize,
    out: &mut Vec<u8>,
    sent: &mut Sent,
    ended: &mut [bool; 2],
) -> bool {
    if !outlet.families.has(P::FAMILY) {
        return false;
    }
    let hop: NextHopsFor<'_, P> = outlet.next_hops();
    loop {
        match shard.fill(peer, &hop, end, out, sent) {
            Filled::Full => return true,
            Filled::Dry => return false,
            Filled::EndOfRib => ended[P::FAMILY as usize] = true,
        }
    }
}
