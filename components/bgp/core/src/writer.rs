//! The writer of a session: how a peer is told routes, and how what all tables have for it becomes one stream.
//!
//! Nothing is queued here. The driver asks for octets when the peer's socket can take them; a slow peer is a cursor that
//! stands still.

use crate::endpoints::Endpoints;
use crate::session::{Families, Negotiated};
use crate::shard::{GroupKey, NextHopsFor, PeerIndex, Sent};
use crate::speaker::NeighborConfig;
use crate::table::Table;
use crate::wire::attribute::{Flags, code};
use crate::wire::{AFI_IPV6, MessageType, SAFI_UNICAST, Unicast, header};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Family, IpPrefix};
use smallvec::SmallVec;

/// How a peer is told routes: what a table needs to know to write for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerExport {
    /// Families that the peer is told: agreed on, and the router has a next hop for them.
    pub families: Families,
    /// The octets of the router's own next hop, by family.
    pub next_hops: [SmallVec<[u8; 32]>; 2],
    /// The subnet that the router shares with the peer, and the peer's address: there the peer reaches the next hops of other external
    /// neighbors itself, and is told these (RFC 4271, section 5.1.3). `None` if it is told this router for all.
    pub shared: Option<(IpPrefix, IpAddr)>,
    /// The update groups that the peer belongs to, by family.
    pub keys: [GroupKey; 2],
}

impl PeerExport {
    /// The outlet of a session that has just come up.
    pub fn new(
        negotiated: &Negotiated,
        internal: bool,
        config: &NeighborConfig,
        endpoints: &Endpoints,
    ) -> Self {
        let next_hops = Family::ALL.map(|family| endpoints.next_hop(family));
        let has_hop = Families { ipv4: !next_hops[0].is_empty(), ipv6: !next_hops[1].is_empty() };
        let key = GroupKey {
            internal,
            four_octet_as: negotiated.four_octet_as,
            link_local: false,
            next_hop_self: internal && config.next_hop_self,
            relationship: config.relationship.filter(|_| !internal),
            graceful_shutdown: config.graceful_shutdown,
        };
        let with_link_local = GroupKey { link_local: next_hops[1].len() == 32, ..key };
        let is_direct = !internal && config.multihop.is_none();
        let subnet = endpoints.subnet.filter(|_| is_direct && !config.next_hop_self);
        PeerExport {
            families: negotiated.families.and(has_hop),
            next_hops,
            shared: subnet.map(|subnet| (subnet, config.address)),
            keys: [key, with_link_local],
        }
    }

    /// The next hops of a family that the peer is told.
    pub fn next_hops<P: Unicast>(&self) -> NextHopsFor<'_, P> {
        let shared = self.shared.and_then(|(subnet, peer)| {
            let first = P::Addr::try_from(subnet.addr()).ok()?;
            Some((P::new(first, subnet.len())?, P::host(P::Addr::try_from(peer).ok()?)))
        });
        NextHopsFor { own: &self.next_hops[P::FAMILY as usize], shared }
    }
}

/// The writer of one session: joins what the tables have for a peer into its stream.
#[derive(Debug)]
pub struct Writer {
    peer: PeerIndex,
    /// The table that has the next turn.
    turn: usize,
    /// How many tables there are, and how many have told all their routes of each family.
    tables: usize,
    told: [usize; 2],
    /// What was sent in this session.
    pub sent: Sent,
}

impl Writer {
    /// A writer of a session that has just come up.
    pub fn new(peer: PeerIndex, tables: usize) -> Self {
        Writer { peer, turn: 0, tables, told: [0; 2], sent: Sent::default() }
    }

    /// The writer of a session whose peer was told everything, and that so much was sent in.
    pub fn resumed(peer: PeerIndex, tables: usize, sent: Sent) -> Self {
        Writer { told: [tables; 2], sent, ..Writer::new(peer, tables) }
    }

    /// The peer's number.
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// Appends messages up to about `limit` octets; returns whether there is more. Tables take turns.
    pub fn fill(&mut self, tables: &mut [Table], limit: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + limit;
        for _ in 0..tables.len() {
            let portion = tables[self.turn].fill(self.peer, end, out, &mut self.sent);
            self.turn = (self.turn + 1) % tables.len();
            self.ended(portion.ended, out);
            if portion.more {
                return true;
            }
        }
        false
    }

    /// A table has told all its routes of these families: when the last one has, the peer hears it.
    #[inline]
    pub fn ended(&mut self, families: [bool; 2], out: &mut Vec<u8>) {
        for family in Family::ALL {
            if families[family as usize] {
                self.told[family as usize] += 1;
                if self.told[family as usize] == self.tables {
                    put_end_of_rib(family, out);
                    self.sent.updates += 1;
                }
            }
        }
    }
}

/// Appends the End-of-RIB marker (RFC 4724, section 2).
pub fn put_end_of_rib(family: Family, out: &mut Vec<u8>) {
    let at = header::start(out, MessageType::Update);
    match family {
        Family::Ipv4 => out.extend_from_slice(&[0, 0, 0, 0]),
        Family::Ipv6 => {
            let [a, b] = AFI_IPV6.to_be_bytes();
            out.extend_from_slice(&[
                0,
                0,
                0,
                6,
                Flags::OPTIONAL,
                code::MP_UNREACH_NLRI,
                3,
                a,
                b,
                SAFI_UNICAST,
            ]);
        }
    }
    header::finish(out, at);
}
