//! PeerIn: the shard's state of a peer, whose Adj-RIB-In is a slice of the entries (RFC 4271, section 3.2).

use crate::policy::BoundPolicy;
use alloc::sync::Arc;
use core::net::IpAddr;
use sluice_base::RouterId;

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
}

/// The shard's state of a peer.
#[derive(Clone, Debug)]
pub(super) struct PeerIn {
    pub info: PeerInfo,
    pub generation: u16,
    /// The number of paths, stale paths included.
    pub paths: u32,
    /// The number of stale paths: those of earlier sessions.
    pub stale: u32,
    /// The number of stale paths that the deletion stage removes.
    pub overdue: u32,
    /// True if the paths of the latest session stay although they are stale: the peer restarts (RFC 4724).
    pub keeps_stale: bool,
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
            keeps_stale: false,
            rejected: 0,
            import: None,
            keeps_rejected: true,
            is_full: false,
            is_damped: false,
        }
    }

    /// Returns true if the deletion stage removes a path of a generation.
    pub const fn is_overdue(&self, generation: u16) -> bool {
        self.generation.wrapping_sub(generation) > self.keeps_stale as u16
    }

    /// Notes that a path of a generation is removed, or announced again.
    pub const fn note_gone(&mut self, generation: u16) {
        self.stale -= (generation != self.generation) as u32;
        self.overdue -= self.is_overdue(generation) as u32;
    }

    /// Ends a session. The paths of the session stay if `keeps` is true; those of earlier sessions are removed in any case
    /// (RFC 4724, section 4.2).
    pub const fn end_session(&mut self, keeps: bool) {
        self.overdue = if keeps { self.stale } else { self.paths };
        self.stale = self.paths;
        self.generation = self.generation.wrapping_add(1);
        self.keeps_stale = keeps;
        self.is_full = false;
    }
}
