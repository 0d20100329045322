//! PeerIn: the shard's state of a peer, whose Adj-RIB-In is a slice of the entries (RFC 4271, section 3.2).

use super::path::PeerIndex;
use crate::policy::{BoundPolicy, PathCheck};
use crate::shard::Shard;
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use alloc::sync::Arc;
use core::net::IpAddr;
use sluice_base::{Prefix, RouterId};

/// The properties of a peer that the decision needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerInfo {
    /// The BGP Identifier.
    pub router_id: RouterId,
    /// The address.
    pub address: IpAddr,
    /// True if the peer is in this router's AS.
    pub internal: bool,
    /// True for a client of this route reflector (RFC 4456).
    pub client: bool,
    /// True for an external peer on a connected subnet, whose next hops must be on a connected subnet too.
    pub direct: bool,
    /// The check of the peer's AS paths by ASPAs; `None` without verification.
    pub path_check: Option<PathCheck>,
    /// The way in which the peer's routes come.
    pub source: RouteSource,
}

/// The way in which a peer's routes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteSource {
    /// In a session.
    Session,
    /// Out of a trace ([`crate::injection`]).
    Trace {
        /// True if the RIB is sent the routes. The next hops of other routes need not be reachable.
        is_installed: bool,
    },
}

impl RouteSource {
    /// Returns true if packets are forwarded by the peer's routes.
    #[inline]
    pub const fn forwards(self) -> bool {
        !matches!(self, RouteSource::Trace { is_installed: false })
    }
}

/// The paths of a peer that stay when a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retention {
    /// No path stays.
    None,
    /// The paths of the session stay; paths that were stale before are removed (RFC 4724, section 4.2).
    Session,
    /// The paths of the session stay, and also paths kept from earlier sessions (RFC 8538, section 4.1).
    WithEarlier,
}

/// The shard's state of a peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerIn {
    pub info: PeerInfo,
    pub generation: u16,
    /// The number of paths, stale paths included.
    pub paths: u32,
    /// The number of stale paths: those of earlier sessions.
    pub stale: u32,
    /// The number of stale paths that the deletion stage removes.
    pub overdue: u32,
    /// The number of ended sessions whose paths stay although they are stale: the peer restarts (RFC 4724).
    pub stale_sessions: u16,
    /// The generation of the session whose loss made its paths and earlier paths long-lived stale (RFC 9494); `None` without
    /// long-lived stale paths.
    pub long_lived: Option<u16>,
    /// The number of paths that import policy rejected, stale paths included.
    pub rejected: u32,
    /// The policy for the peer's routes; `None` if every route is accepted unchanged.
    pub import: Option<Arc<BoundPolicy>>,
    /// True if paths that import policy rejects are stored.
    pub keeps_rejected: bool,
    /// True if new prefixes of the peer are ignored: a bound on prefixes is reached.
    pub is_full: bool,
    /// True if flaps of the peer's routes are counted (RFC 2439).
    pub is_damped: bool,
}

impl PeerIn {
    pub const fn new(info: PeerInfo) -> Self {
        PeerIn {
            info,
            generation: 0,
            paths: 0,
            stale: 0,
            overdue: 0,
            stale_sessions: 0,
            long_lived: None,
            rejected: 0,
            import: None,
            keeps_rejected: true,
            is_full: false,
            is_damped: false,
        }
    }

    /// Returns true if the deletion stage removes a path of a generation.
    pub const fn is_overdue(&self, generation: u16) -> bool {
        self.generation.wrapping_sub(generation) > self.stale_sessions
    }

    /// Returns true if a path of a generation is a long-lived stale one.
    pub const fn is_long_lived(&self, generation: u16) -> bool {
        match self.long_lived {
            Some(last) => self.generation.wrapping_sub(generation) >= self.generation.wrapping_sub(last),
            None => false,
        }
    }

    /// Notes that a path of a generation is removed, or announced again.
    pub const fn note_gone(&mut self, generation: u16) {
        self.stale -= (generation != self.generation) as u32;
        self.overdue -= self.is_overdue(generation) as u32;
    }

    /// Ends a session.
    pub const fn end_session(&mut self, retention: Retention) {
        (self.overdue, self.stale_sessions) = match retention {
            Retention::None => (self.paths, 0),
            Retention::Session => (self.stale, 1),
            Retention::WithEarlier => (self.overdue, self.stale_sessions.saturating_add(1)),
        };
        if !matches!(retention, Retention::WithEarlier) {
            self.long_lived = None;
        }
        self.stale = self.paths;
        self.generation = self.generation.wrapping_add(1);
        self.is_full = false;
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Begins a session. Paths of the peer's earlier sessions are stale already.
    pub fn peer_up(&mut self, peer: PeerIndex, mut info: PeerInfo) {
        // Next hops that are no IP addresses are on no subnet.
        info.direct &= <P::Hop as Prefix>::ID.ip().is_some();
        let index = usize::from(peer.0);
        if self.core.adj_rib_in.peers.get(index).is_some_and(|known| known.info.address != info.address) {
            self.forget_histories(peer);
        }
        while self.core.adj_rib_in.peers.len() <= index {
            self.core.adj_rib_in.peers.push(PeerIn::new(info));
        }
        self.core.adj_rib_in.peers[index].info = info;
    }

    /// Ends a session: the peer's routes become stale, and the deletion stage withdraws stale routes without retention. No more
    /// routes are advertised to the peer. Returns the peer's address if a next hop of only this peer's routes, and if the routes
    /// are withdrawn.
    pub fn peer_down(&mut self, peer: PeerIndex, retention: Retention) -> Option<IpAddr> {
        self.leave(peer);
        let known = self.core.adj_rib_in.peers.get(usize::from(peer.0))?;
        let address = known.info.address;
        // The end of a trace does not mean that a gateway is lost.
        let is_lost = known.info.source == RouteSource::Session
            && retention == Retention::None
            && self.core.resolver.is_used_by(&NextHop::new(address), peer);
        if let Some(peer) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0)) {
            peer.end_session(retention);
            self.deletion.is_on = true;
        }
        self.refilter.end(peer);
        is_lost.then_some(address)
    }

    /// Returns true if every route of a peer is removed, so the peer's number may be reused.
    pub fn is_clean(&self, peer: PeerIndex) -> bool {
        self.core.adj_rib_in.peers.get(usize::from(peer.0)).is_none_or(|p| p.paths == 0)
    }

    /// Ignores new prefixes of a peer, or no longer.
    pub fn set_full(&mut self, peer: PeerIndex, is_full: bool) {
        if let Some(peer) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0)) {
            peer.is_full = is_full;
        }
    }
}
