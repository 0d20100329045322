//! The values that a station is sent: sessions, statistics, mirrored messages.

use super::{DownCause, Instance, Timestamp};
use crate::family::{ByFamily, Families, FamilyCodes};
use crate::shard::PeerIndex;
use crate::table::SessionEpoch;
use crate::wire::Open;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Asn, Duration, Instant, RouterId};

/// An established session, for a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitoredSession {
    /// The number of the session.
    pub epoch: SessionEpoch,
    /// The peer's address.
    pub address: IpAddr,
    /// The router's address on the connection.
    pub local: IpAddr,
    /// The ports of the router and of the peer; 0 where they are unknown.
    pub ports: (u16, u16),
    /// The time when the session was established.
    pub since: Instant,
    /// The OPEN that the router sent.
    pub sent: Open,
    /// The OPEN that the peer sent.
    pub received: Open,
    /// The negotiated families.
    pub families: Families,
}

/// A peer of which the station has to know something new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitoredPeer {
    /// The peer.
    pub peer: PeerIndex,
    /// What is new.
    pub change: PeerChange,
}

/// A change of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerChange {
    /// The session that the station knows is over.
    Down(DownCause),
    /// A session is established.
    Up(MonitoredSession),
    /// The peer has announced all its routes of these families.
    Ended(Families),
}

/// Counts and gauges of a peer for a Statistics Report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerStatistics {
    /// UPDATEs invalidated for a loop of the AS path.
    pub loops: u64,
    /// UPDATEs that were treated as withdrawals (RFC 7606).
    pub treated_as_withdraw: u64,
    /// Routes in the Adj-RIB-In.
    pub received: ByFamily<u32>,
    /// Routes in the Adj-RIB-Out.
    pub sent: ByFamily<u32>,
}

/// Messages that a station was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// All messages.
    pub messages: u64,
    /// Route Monitoring messages, those with End-of-RIB markers included.
    pub route_monitoring: u64,
    /// Route Mirroring messages with a malformed message of a peer.
    pub mirrored: u64,
    /// Octets.
    pub octets: u64,
}

impl StationCounters {
    /// Returns the sum of two counts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        StationCounters {
            messages: self.messages + other.messages,
            route_monitoring: self.route_monitoring + other.route_monitoring,
            mirrored: self.mirrored + other.mirrored,
            octets: self.octets + other.octets,
        }
    }
}

/// The router, as stations see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitoredRouter {
    /// The AS.
    pub local_as: Asn,
    /// The BGP Identifier.
    pub router_id: RouterId,
    /// The families on the wire.
    pub codes: FamilyCodes,
    /// The families of the Loc-RIB that stations are sent.
    pub families: Families,
    /// The routing instance.
    pub instance: Instance,
}

/// Malformed messages of a peer, as they came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirroredMessages {
    /// The peer.
    pub peer: PeerIndex,
    /// The number of the session.
    pub epoch: SessionEpoch,
    /// The time at which the messages were read, in microseconds since 1970.
    pub since_1970: u64,
    /// True if AS numbers in messages have 4 octets (RFC 6793).
    pub four_octet_as: bool,
    /// The messages with their headers, each at most 65,535 octets long.
    pub messages: Vec<Vec<u8>>,
}

/// The present time, as control counts time and as stations do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Of the router's own clock.
    pub instant: Instant,
    /// Since 1970, in microseconds.
    pub since_1970: u64,
}

impl Now {
    pub(super) fn timestamp(self) -> Timestamp {
        Self::of_microseconds(self.since_1970)
    }

    /// Returns the time of an earlier instant.
    pub(super) fn at(self, earlier: Instant) -> Timestamp {
        let passed: Duration = self.instant.saturating_since(earlier);
        let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        Self::of_microseconds(self.since_1970.saturating_sub(passed))
    }

    pub(super) const fn of_microseconds(microseconds: u64) -> Timestamp {
        // Seconds have 32 bits until 2106.
        Timestamp {
            seconds: (microseconds / 1_000_000) as u32,
            microseconds: (microseconds % 1_000_000) as u32,
        }
    }
}
