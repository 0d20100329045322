//! What an operator sees of the router and its neighbours.

use super::config::NeighborConfig;
use super::{Control, Speaker};
use crate::event::{ConnectError, DownReason};
use crate::family::{ByFamily, Families};
use crate::reader::ReaderCounters;
use crate::session::{MessageCounters, Negotiated, State, Timer};
use crate::shard::{PeerIndex, Sent, ShardView};
use crate::table::Table;
use crate::wire::Open;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Asn, Instant, RouterId};

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
    /// Neighbours are told that what they are told will go (RFC 8326).
    pub graceful_shutdown: bool,
    /// The tables, IPv4 first.
    pub tables: ByFamily<ShardView>,
}

/// A neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct NeighborView {
    /// Its number in the shards.
    pub index: PeerIndex,
    /// Its configuration.
    pub config: NeighborConfig,
    /// True if it is in this router's AS.
    pub internal: bool,
    /// The state of its session.
    pub state: State,
    /// Since when the session is up.
    pub established_at: Option<Instant>,
    /// Times that the session was lost.
    pub flaps: u64,
    /// The time when and why it last ended.
    pub last_down: Option<(Instant, DownReason)>,
    /// The time when running timers fire.
    pub timers: Vec<(Timer, Instant)>,
    /// The negotiated parameters.
    pub negotiated: Option<Negotiated>,
    /// The neighbor's OPEN.
    pub open: Option<Open>,
    /// Messages received.
    pub received: MessageCounters,
    /// Messages sent.
    pub sent: MessageCounters,
    /// The counters of read UPDATEs.
    pub reader: ReaderCounters,
    /// The counters of sent UPDATEs.
    pub writer: Sent,
    /// Prefixes that it announced and was told.
    pub prefixes: PrefixCounts,
    /// Families that it has told all its routes of.
    pub end_of_rib: ByFamily<bool>,
    /// Families that were agreed on and of which it is told nothing: this router has no next hop of its own for them.
    pub untold: Families,
}

/// A neighbour's prefixes, by family: what tables know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrefixCounts {
    /// The prefixes received from the neighbor.
    pub received: ByFamily<u32>,
    /// The prefixes sent to the neighbor's update group.
    pub sent: ByFamily<u32>,
}

impl NeighborView {
    /// Returns the reason, in words, for a session that is not up; empty for one that is, and during the first attempt to connect.
    pub fn reason(&self) -> String {
        let hint = match (self.config.password.is_some(), self.config.ttl_security) {
            (true, true) => " (another password, or ttl-security, looks the same)",
            (true, false) => " (another password looks the same)",
            (false, true) => " (ttl-security that does not fit looks the same)",
            (false, false) => "",
        };
        match &self.last_down {
            _ if self.state == State::Established => String::new(),
            _ if !self.config.enabled => "not enabled".into(),
            Some((_, reason @ DownReason::ConnectionFailed(ConnectError::NoAnswer))) => {
                format!("{reason}{hint}")
            }
            Some((_, reason)) => reason.to_string(),
            None if matches!(self.state, State::OpenSent | State::OpenConfirm) => {
                format!("connected, but the neighbor has not answered yet{hint}")
            }
            None if self.config.passive => format!("the neighbor has not connected yet{hint}"),
            None => String::new(),
        }
    }
}

impl Table {
    /// Returns the counts of a neighbor in this table.
    pub fn counts(&self, peer: PeerIndex) -> PrefixCounts {
        PrefixCounts {
            received: ByFamily::from_fn(|family| self.received(family, peer)),
            sent: ByFamily::from_fn(|family| self.advertised(family, peer)),
        }
    }
}

impl core::iter::Sum for PrefixCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        let add = |a: ByFamily<u32>, b: ByFamily<u32>| ByFamily::from_fn(|family| a[family] + b[family]);
        counts.fold(PrefixCounts::default(), |a, b| PrefixCounts {
            received: add(a.received, b.received),
            sent: add(a.sent, b.sent),
        })
    }
}

impl Control {
    /// The router, with these tables.
    pub fn summary(&self, tables: ByFamily<ShardView>) -> Summary {
        let established = |address: &IpAddr| self.established(*address).is_some();
        Summary {
            local_as: self.peers.identity.local_as,
            router_id: self.peers.identity.router_id,
            neighbors: self.peers.by_address.len(),
            established: self.neighbors().filter(established).count(),
            graceful_shutdown: self.peers.peers.iter().flatten().any(|p| p.config.graceful_shutdown),
            tables,
        }
    }

    /// The number of a neighbour.
    pub fn neighbor_index(&self, address: IpAddr) -> Option<PeerIndex> {
        self.peers.by_address.get(&address).copied()
    }

    /// The address of the neighbour with this number; the router's own number has none.
    pub fn neighbor_address(&self, index: PeerIndex) -> Option<IpAddr> {
        self.peers.peers.get(usize::from(index.0))?.as_ref().map(|p| p.config.address)
    }

    /// A neighbour, with the prefixes that the tables count; `None` if it is not configured.
    pub fn neighbor(&self, address: IpAddr, prefixes: PrefixCounts) -> Option<NeighborView> {
        let index = self.neighbor_index(address)?;
        let peer = self.peers.of(address)?;
        let session = &peer.session;
        let all = [Timer::ConnectRetry, Timer::Hold, Timer::Keepalive, Timer::DelayOpen, Timer::IdleHold];
        let timers = all.into_iter().filter_map(|t| session.timer(t).map(|at| (t, at))).collect();
        let (reader, writer) = (peer.read(), peer.sent());
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
            prefixes,
            end_of_rib: peer.end_of_rib,
            untold: peer.untold(),
        })
    }
}

impl Speaker {
    /// The router.
    pub fn summary(&self) -> Summary {
        self.control.summary(ByFamily::from_fn(|family| self.tables().view(family)))
    }

    /// The addresses of the configured neighbours, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        self.control.neighbors()
    }

    /// A neighbour; `None` if it is not configured.
    pub fn neighbor(&self, address: IpAddr) -> Option<NeighborView> {
        let index = self.control.neighbor_index(address)?;
        self.control.neighbor(address, self.tables.iter().map(|t| t.counts(index)).sum())
    }
}
