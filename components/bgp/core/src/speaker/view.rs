//! What an operator sees of the router and its neighbours.

use super::Speaker;
use super::config::NeighborConfig;
use super::peer::Peer;
use crate::event::DownReason;
use crate::reader::ReaderCounters;
use crate::session::{MessageCounters, Negotiated, State, Timer};
use crate::shard::{PeerIndex, Sent, ShardView};
use crate::wire::Open;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Asn, Family, Instant, Ipv4Prefix, Ipv6Prefix, RouterId};

/// The router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Its AS.
    pub local_as: Asn,
    /// Its BGP Identifier.
    pub router_id: RouterId,
    /// Configured neighbours.
    pub neighbors: usize,
    /// Sessions that are up.
    pub established: usize,
    /// The tables, IPv4 first.
    pub tables: [ShardView; 2],
}

/// A neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct NeighborView {
    /// Its number in the shards.
    pub index: PeerIndex,
    /// Its configuration.
    pub config: NeighborConfig,
    /// Whether it is in this router's AS.
    pub internal: bool,
    /// The state of its session.
    pub state: State,
    /// Since when the session is up.
    pub established_at: Option<Instant>,
    /// Times that the session was lost.
    pub flaps: u64,
    /// When and why it last ended.
    pub last_down: Option<(Instant, DownReason)>,
    /// When running timers fire.
    pub timers: Vec<(Timer, Instant)>,
    /// What both sides agreed on.
    pub negotiated: Option<Negotiated>,
    /// What the neighbour offered.
    pub open: Option<Open>,
    /// Messages received.
    pub received: MessageCounters,
    /// Messages sent.
    pub sent: MessageCounters,
    /// What was read in UPDATEs.
    pub reader: ReaderCounters,
    /// What was sent in UPDATEs.
    pub writer: Sent,
    /// Prefixes that it has announced, by family.
    pub prefixes_received: [u32; 2],
    /// Prefixes that its update group was told, by family.
    pub prefixes_sent: [u32; 2],
    /// Families that it has told all its routes of.
    pub end_of_rib: [bool; 2],
}

impl Speaker {
    /// The router.
    pub fn summary(&self) -> Summary {
        let peers = &self.peers;
        let established = |p: &&Peer| p.session.state() == State::Established;
        let configured =
            || peers.by_address.values().filter_map(|i| peers.peers[usize::from(i.0)].as_deref());
        Summary {
            local_as: peers.identity.local_as,
            router_id: peers.identity.router_id,
            neighbors: peers.by_address.len(),
            established: configured().filter(established).count(),
            tables: Family::ALL.map(|family| peers.tables.view(family)),
        }
    }

    /// The addresses of the configured neighbours, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        self.peers.addresses()
    }

    /// The address of the neighbour with this number; the router's own number has none.
    pub fn neighbor_address(&self, index: PeerIndex) -> Option<IpAddr> {
        self.peers.peers.get(usize::from(index.0))?.as_ref().map(|p| p.config.address)
    }

    /// The configuration of a neighbour.
    pub fn neighbor_config(&self, address: IpAddr) -> Option<&NeighborConfig> {
        self.peers.config(address)
    }

    /// A neighbour; `None` if it is not configured.
    pub fn neighbor(&self, address: IpAddr) -> Option<NeighborView> {
        let &index = self.peers.by_address.get(&address)?;
        let peer = self.peers.peers[usize::from(index.0)].as_deref()?;
        let session = &peer.session;
        let all = [Timer::ConnectRetry, Timer::Hold, Timer::Keepalive, Timer::DelayOpen, Timer::IdleHold];
        let timers = all.into_iter().filter_map(|t| session.timer(t).map(|at| (t, at))).collect();
        let (reader, writer) = (peer.read(), peer.sent());
        let shards = &self.peers.tables;
        Some(NeighborView {
            index,
            config: peer.config.clone(),
            internal: session.config().is_internal(),
            state: session.state(),
            established_at: session.established_at(),
            flaps: session.flaps,
            last_down: session.last_down().cloned(),
            timers,
            negotiated: session.negotiated().copied(),
            open: session.peer_open().cloned(),
            received: MessageCounters { update: reader.updates, ..session.received },
            sent: MessageCounters { update: writer.updates, ..session.sent },
            reader,
            writer,
            prefixes_received: [shards.received::<Ipv4Prefix>(index), shards.received::<Ipv6Prefix>(index)],
            prefixes_sent: [shards.advertised::<Ipv4Prefix>(index), shards.advertised::<Ipv6Prefix>(index)],
            end_of_rib: Family::ALL.map(|f| peer.link.as_ref().is_some_and(|l| l.end_of_rib[f as usize])),
        })
    }
}
