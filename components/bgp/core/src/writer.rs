//! The writer of a session: joins what the shards of all families have for a peer into its stream.
//!
//! Nothing is queued here. The driver asks for octets when the peer's socket can take them; a slow peer is a cursor that
//! stands still.

use crate::session::{Families, Negotiated};
use crate::shard::{Filled, GroupKey, PeerIndex, Sent};
use crate::shards::{Sharded, Tables};
use crate::wire::attribute::{Flags, code};
use crate::wire::{AFI_IPV6, MessageType, SAFI_UNICAST, header};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix};
use smallvec::SmallVec;

/// This router's addresses towards a peer, to be next hops of what it announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoints {
    /// This side's address of the connection.
    pub local: IpAddr,
    /// An IPv4 address on the same interface, where `local` is IPv6.
    pub ipv4: Option<Ipv4Addr>,
    /// A global IPv6 address on the same interface, where `local` is IPv4.
    pub ipv6: Option<Ipv6Addr>,
    /// The link-local address, if the peer is on the same link (RFC 2545, section 3).
    pub link_local: Option<Ipv6Addr>,
}

impl Endpoints {
    /// Nothing is known but the connection's own address.
    pub const fn new(local: IpAddr) -> Self {
        Endpoints { local, ipv4: None, ipv6: None, link_local: None }
    }

    /// The octets of the router's own next hop of a family; none if it has no address of that family there.
    fn next_hop(&self, family: Family) -> SmallVec<[u8; 32]> {
        let mut octets = SmallVec::new();
        match family {
            Family::Ipv4 => {
                let address = match self.local {
                    IpAddr::V4(a) => Some(a),
                    IpAddr::V6(_) => self.ipv4,
                };
                octets.extend(address.iter().flat_map(|a| a.octets()));
            }
            Family::Ipv6 => {
                let address = match self.local {
                    IpAddr::V6(a) => Some(a),
                    IpAddr::V4(_) => self.ipv6,
                };
                octets.extend(address.iter().flat_map(|a| a.octets()));
                if address.is_some() {
                    octets.extend(self.link_local.iter().flat_map(|a| a.octets()));
                }
            }
        }
        octets
    }
}

/// The writer of one session.
#[derive(Debug)]
pub struct Writer {
    peer: PeerIndex,
    /// Families that the peer is told, by whether the router has a next hop for them.
    families: Families,
    next_hops: [SmallVec<[u8; 32]>; 2],
    /// Whether IPv6 has the next turn.
    turn: bool,
    /// By family: the table that has the next turn, and how many have told all their routes.
    tables: [(usize, usize); 2],
    /// What was sent in this session.
    pub sent: Sent,
}

impl Writer {
    /// A writer for a session that has just come up; joins the groups of the tables.
    pub fn new(
        peer: PeerIndex,
        negotiated: &Negotiated,
        internal: bool,
        next_hop_self: bool,
        endpoints: &Endpoints,
        tables: &mut impl Tables,
    ) -> Self {
        let next_hops = Family::ALL.map(|family| endpoints.next_hop(family));
        let has_hop = Families { ipv4: !next_hops[0].is_empty(), ipv6: !next_hops[1].is_empty() };
        let families = negotiated.families.and(has_hop);
        let writer =
            Writer { peer, families, next_hops, turn: false, tables: [(0, 0); 2], sent: Sent::default() };
        let (ipv4, ipv6) = writer.keys(negotiated, internal, next_hop_self);
        if families.ipv4 {
            tables.join::<Ipv4Prefix>(peer, ipv4);
        }
        if families.ipv6 {
            tables.join::<Ipv6Prefix>(peer, ipv6);
        }
        writer
    }

    /// The group keys of both families.
    fn keys(&self, negotiated: &Negotiated, internal: bool, next_hop_self: bool) -> (GroupKey, GroupKey) {
        let key = GroupKey {
            internal,
            four_octet_as: negotiated.four_octet_as,
            link_local: false,
            next_hop_self: internal && next_hop_self,
        };
        (key, GroupKey { link_local: self.next_hops[1].len() == 32, ..key })
    }

    /// Tells the peer everything once more, after its configuration changed.
    pub fn rejoin(
        &self,
        negotiated: &Negotiated,
        internal: bool,
        next_hop_self: bool,
        tables: &mut impl Tables,
    ) {
        let (ipv4, ipv6) = self.keys(negotiated, internal, next_hop_self);
        tables.refresh::<Ipv4Prefix>(self.peer, Some(ipv4));
        tables.refresh::<Ipv6Prefix>(self.peer, Some(ipv6));
    }

    /// The families that the peer is told.
    pub const fn families(&self) -> Families {
        self.families
    }

    /// Whether there is anything to write.
    pub fn has_output(&self, tables: &impl Tables) -> bool {
        (self.families.ipv4 && tables.has_output::<Ipv4Prefix>(self.peer))
            || (self.families.ipv6 && tables.has_output::<Ipv6Prefix>(self.peer))
    }

    /// Appends messages up to about `limit` octets; returns whether there is more. Families take turns.
    pub fn fill(&mut self, tables: &mut impl Tables, limit: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + limit;
        for _ in 0..2 {
            self.turn = !self.turn;
            let more = match self.turn {
                true => self.families.ipv4 && self.fill_family::<Ipv4Prefix>(tables, end, out),
                false => self.families.ipv6 && self.fill_family::<Ipv6Prefix>(tables, end, out),
            };
            if more {
                return true;
            }
        }
        false
    }

    fn fill_family<P: Sharded>(&mut self, tables: &mut impl Tables, end: usize, out: &mut Vec<u8>) -> bool {
        let Writer { peer, next_hops, sent, .. } = self;
        let (turn, told) = &mut self.tables[P::FAMILY as usize];
        let count = tables.spread().tables();
        let mut dry = 0;
        while dry < count {
            match tables.fill::<P>(*turn, *peer, &next_hops[P::FAMILY as usize], end, out, sent) {
                Filled::Full => {
                    *turn = (*turn + 1) % count;
                    return true;
                }
                Filled::Dry => {
                    *turn = (*turn + 1) % count;
                    dry += 1;
                }
                // The peer hears it once, when the last table has told everything.
                Filled::EndOfRib => {
                    *told += 1;
                    if *told == count {
                        put_end_of_rib(P::FAMILY, out);
                        sent.updates += 1;
                    }
                }
            }
        }
        false
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
