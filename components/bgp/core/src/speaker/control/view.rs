//! Views of the router and the neighbors, for operators.

use super::router::Control;
use crate::endpoints::Endpoints;
use crate::event::{DownReason, NotOpened, WithoutRefresh};
use crate::family::{ByFamily, Families};
use crate::reader::ReaderCounters;
use crate::session::{MessageCounters, Negotiated, SessionEnd, State, Timer};
use crate::shard::{PeerIndex, Sent, ShardView};
use crate::speaker::config::NeighborConfig;
use crate::speaker::neighbor::{FilterCounts, LimitStop, RoutesStay};
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
    /// The local AS.
    pub local_as: Asn,
    /// The BGP Identifier.
    pub router_id: RouterId,
    /// The number of neighbors, configured neighbors and neighbors of listen ranges.
    pub neighbors: usize,
    /// The number of established sessions.
    pub established: usize,
    /// True during a graceful shutdown (RFC 8326).
    pub graceful_shutdown: bool,
    /// The tables, IPv4 first.
    pub tables: ByFamily<ShardView>,
}

/// A neighbor.
#[derive(Clone, PartialEq, Debug)]
pub struct NeighborView {
    /// The neighbor's number in the shards.
    pub index: PeerIndex,
    /// The configuration.
    pub config: NeighborConfig,
    /// True for routes from, and for routes to, an external neighbor without a policy: no route is accepted, or announced.
    pub without_policy: (bool, bool),
    /// The session's lack of ROUTE-REFRESH, if needed by changed import policies; `None` without a problem.
    pub without_refresh: Option<WithoutRefresh>,
    /// True if the neighbor is in this router's AS.
    pub internal: bool,
    /// The state of the session.
    pub state: State,
    /// The time at which the session was established.
    pub established_at: Option<Instant>,
    /// The number of times that the session was lost.
    pub flaps: u64,
    /// Time and reason of the last end, of the session or of an attempt to open it.
    pub last_down: Option<(Instant, DownReason)>,
    /// The last end of the established session.
    pub last_end: Option<SessionEnd>,
    /// The time when running timers fire.
    pub timers: Vec<(Timer, Instant)>,
    /// The negotiated parameters.
    pub negotiated: Option<Negotiated>,
    /// The seconds between KEEPALIVEs of the established session; 0 without a session, or for no KEEPALIVEs.
    pub keepalive_time: u64,
    /// The neighbor's OPEN.
    pub open: Option<Open>,
    /// The OPEN that this router sent.
    pub own_open: Option<Open>,
    /// The router's AS for the neighbor.
    pub local_as: Asn,
    /// The addresses and ports of the connection; `None` without a connection.
    pub endpoints: Option<Endpoints>,
    /// The routes that stay from an earlier session.
    pub stays: ByFamily<Option<RoutesStay>>,
    /// Messages received.
    pub received: MessageCounters,
    /// Messages sent.
    pub sent: MessageCounters,
    /// The counters of read UPDATEs.
    pub reader: ReaderCounters,
    /// The counters of sent UPDATEs.
    pub writer: Sent,
    /// Counts of prefixes received from and sent to the neighbor.
    pub prefixes: PrefixCounts,
    /// Families of which the neighbor has announced all routes.
    pub end_of_rib: ByFamily<bool>,
    /// Negotiated families without advertisements to the neighbor, because the router has no next hop for the family.
    pub untold: Families,
    /// Counts of the entries of outbound route filters.
    pub filters: ByFamily<FilterCounts>,
    /// The end of the session for a bound on prefixes, after which it was not opened again.
    pub stopped: Option<LimitStop>,
}

/// A neighbor's prefixes by family, as the tables count the prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrefixCounts {
    /// The prefixes received from the neighbor.
    pub received: ByFamily<u32>,
    /// The prefixes received from the neighbor that import policy rejects.
    pub rejected: ByFamily<u32>,
    /// The prefixes sent to the neighbor's update group.
    pub sent: ByFamily<u32>,
}

impl NeighborView {
    /// Returns the reason, in words, for a session that is not established; empty for an established session, and during the first attempt
    /// to connect.
    pub fn reason(&self) -> String {
        let hint = NotOpened::hint(self.config.password.is_some(), self.config.ttl_security);
        match &self.last_down {
            _ if self.state == State::Established => String::new(),
            _ if !self.config.enabled => "not enabled".into(),
            _ if self.stopped.is_some() => self
                .stopped
                .as_ref()
                .map_or_else(String::new, |stop| format!("{}: {}", stop.family, stop.reached)),
            Some((_, reason)) if self.config.passive && reason.is_own_cease() => {
                format!("the neighbor has not connected since: {reason}{hint}")
            }
            Some((_, reason)) => self.config.not_opened(reason.clone()).to_string(),
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
            rejected: ByFamily::from_fn(|family| self.rejected(family, peer)),
            sent: ByFamily::from_fn(|family| self.advertised(family, peer)),
        }
    }
}

impl core::iter::Sum for PrefixCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        let add = |a: ByFamily<u32>, b: ByFamily<u32>| ByFamily::from_fn(|family| a[family] + b[family]);
        counts.fold(PrefixCounts::default(), |a, b| PrefixCounts {
            received: add(a.received, b.received),
            rejected: add(a.rejected, b.rejected),
            sent: add(a.sent, b.sent),
        })
    }
}

impl Control {
    /// Returns the view of the router, with these tables.
    pub fn summary(&self, tables: ByFamily<ShardView>) -> Summary {
        let established = |address: &IpAddr| self.established(*address).is_some();
        Summary {
            local_as: self.peers.identity.local_as,
            router_id: self.peers.identity.router_id,
            neighbors: self.neighbors().count(),
            established: self.neighbors().filter(established).count(),
            graceful_shutdown: self.peers.peers.iter().flatten().any(|p| p.config.graceful_shutdown),
            tables,
        }
    }

    /// Returns the number of a neighbor.
    pub fn neighbor_index(&self, address: IpAddr) -> Option<PeerIndex> {
        self.peers.by_address.get(&address).copied()
    }

    /// Returns the BGP Identifier and the AS of this router.
    pub fn router(&self) -> (RouterId, Asn) {
        (self.peers.identity.router_id, self.peers.identity.local_as)
    }

    /// Returns the BGP Identifier of a neighbor in its latest session; `None` without a session so far.
    pub fn neighbor_router_id(&self, address: IpAddr) -> Option<RouterId> {
        self.peers.of(address)?.restart.router_id
    }

    /// Returns the address of the neighbor with this number; `None` for the router's own number.
    pub fn neighbor_address(&self, index: PeerIndex) -> Option<IpAddr> {
        self.peers.peers.get(usize::from(index.0))?.as_ref().map(|p| p.config.address)
    }

    /// Returns the view of a neighbor, with the tables' counts of prefixes; `None` for an unknown neighbor.
    pub fn neighbor(&self, address: IpAddr, prefixes: PrefixCounts) -> Option<NeighborView> {
        let index = self.neighbor_index(address)?;
        let peer = self.peers.of(address)?;
        let session = &peer.session;
        let all = [Timer::ConnectRetry, Timer::Hold, Timer::Keepalive, Timer::DelayOpen, Timer::IdleHold];
        let timers = all.into_iter().filter_map(|t| session.timer(t).map(|at| (t, at))).collect();
        let (reader, writer) = (peer.read(), peer.sent());
        Some(NeighborView {
            index,
            without_policy: peer.config.without_policy(self.peers.identity.local_as),
            without_refresh: peer.without_refresh(),
            config: peer.config.clone(),
            internal: session.config().is_internal(),
            state: session.state(),
            established_at: session.established_at(),
            flaps: session.flaps,
            last_down: session.last_down().cloned(),
            last_end: session.last_end().cloned(),
            timers,
            negotiated: session.negotiated().copied(),
            keepalive_time: session.keepalive_time(),
            open: session.peer_open().cloned(),
            own_open: session.own_open().cloned(),
            local_as: session.negotiated().map_or_else(|| session.presented_as(), |n| n.presented_as),
            endpoints: session.connection().and_then(|connection| peer.endpoints(connection)),
            stays: peer.restart.stays(),
            received: MessageCounters { update: reader.updates, ..session.received },
            sent: MessageCounters { update: writer.updates, ..session.sent },
            reader,
            writer,
            prefixes,
            end_of_rib: peer.end_of_rib,
            untold: peer.untold(),
            filters: peer.filter_counts(),
            stopped: peer.limits.stopped().copied(),
        })
    }
}
