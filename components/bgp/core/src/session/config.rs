//! The configuration of a session.

use super::failures::Failures;
use crate::family::{Families, FamilyCodes};
use crate::local_as::LocalAs;
use crate::relationship::Relationship;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, Duration, Instant, Rng, RouterId};

/// The time in Established after which a session is healthy, and the failures are forgotten.
pub(super) const STABLE: Duration = Duration::from_secs(60);
/// The rest of an Idle session after an early failure.
const FIRST_HOLD: Duration = Duration::from_millis(100);
/// After so many failures in a row the rest doubles with each: the number of RFC 4271's example (section 8.1.1).
const FREE_FAILURES: u32 = 10;
/// The longest rest after an error: RFC 4271's example.
const LONGEST_HOLD: Duration = Duration::from_secs(120);
/// The longest rest after an end without an error. A peer that was restarted many times should find the router ready at
/// the final start; a peer that restarts in a loop changes routes once a second at most.
const LONGEST_HOLD_AFTER_CLOSE: Duration = Duration::from_secs(1);
/// The default SendHoldTime, unless twice the hold time is more (RFC 9687).
const SEND_HOLD: Duration = Duration::from_secs(8 * 60);

/// The side that opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Direction {
    /// The peer.
    Incoming,
    /// The local side.
    Outgoing,
}

/// A TCP connection of one peer. The session numbers requested connections, the driver accepted connections; a
/// number is not reused while events of the earlier connection may still arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ConnectionId {
    /// The side that opened the connection.
    pub direction: Direction,
    /// The number among the connections of the direction.
    pub number: u32,
}

/// The session attributes of RFC 4271, section 8.1.1, in Sluice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The router's AS.
    pub local_as: Asn,
    /// The router's BGP Identifier.
    pub router_id: RouterId,
    /// The router's AS toward an external peer; `None` for the router's own AS.
    pub other_as: Option<LocalAs>,
    /// The peer's AS.
    pub peer_as: Asn,
    /// Proposed hold time in seconds; 0 for none, never 1 or 2.
    pub hold_time: u16,
    /// SendHoldTime in seconds (RFC 9687): the longest time without progress of the waiting octets. 0: unlimited; `None`: 8 minutes, or
    /// twice the hold time if longer.
    pub send_hold_time: Option<u16>,
    /// KeepaliveTime in seconds; `None` for a third of the negotiated hold time.
    pub keepalive_time: Option<u16>,
    /// ConnectRetryTime.
    pub connect_retry: Duration,
    /// DelayOpenTime; `None` without DelayOpen.
    pub delay_open: Option<Duration>,
    /// PassiveTcpEstablishment: wait for the peer to connect.
    pub passive: bool,
    /// DampPeerOscillations (RFC 4271, section 8.1.1): rests longer and longer after failures in a row. The duration is left
    /// to the implementation. Here the duration depends on the last end: up to 2 minutes after an error, up to a second
    /// after a close or a Cease, which do not count as errors either.
    pub damp: bool,
    /// Families to offer.
    pub families: Families,
    /// Families of which several paths of a prefix are offered (RFC 7911).
    pub add_path: AddPathFamilies,
    /// The families on the wire.
    pub codes: FamilyCodes,
    /// True if extended messages are offered (RFC 8654).
    pub extended_messages: bool,
    /// True if the peer may send outbound route filters, and true if the router sends filters (RFC 5291).
    pub route_filters: (bool, bool),
    /// The role of an external peer (RFC 9234); `None` for internal peers.
    pub relationship: Option<Relationship>,
    /// True if the router keeps the peer's routes after NOTIFICATIONs too, provided the peer does (RFC 8538).
    pub graceful_notifications: bool,
    /// True if long-lived stale routes of the peer stay (RFC 9494).
    pub keeps_long_lived: bool,
    /// The router's restart in the OPEN; `None` if the peer's routes are not preserved over a restart.
    pub restart: Option<OwnRestart>,
}

/// Families of which several paths of a prefix are exchanged (ADD-PATH, RFC 7911).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AddPathFamilies {
    /// Families of several received paths.
    pub receive: Families,
    /// Families of several sent paths.
    pub send: Families,
}

impl AddPathFamilies {
    /// A single path of each prefix in both directions.
    pub const NONE: AddPathFamilies = AddPathFamilies { receive: Families::NONE, send: Families::NONE };
}

/// The restart of the router (RFC 4724, section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OwnRestart {
    /// The longest duration of a restart, in seconds.
    pub time: u16,
    /// The seconds for which routes then stay as long-lived stale routes (RFC 9494); 0 for none.
    pub long_lived_time: u32,
    /// The start of the process.
    pub started: Instant,
    /// True if the RIB has kept the routes of the process before, and packets were forwarded meanwhile.
    pub is_preserved: bool,
}

impl OwnRestart {
    /// Returns true if the router counts as restarting.
    pub fn is_recent(self, now: Instant) -> bool {
        now < self.started + Duration::from_secs(self.time.into())
    }
}

impl SessionConfig {
    /// Makes the configuration of a session between `local_as` and `peer_as`, with defaults.
    pub const fn new(local_as: Asn, router_id: RouterId, peer_as: Asn) -> Self {
        SessionConfig {
            local_as,
            router_id,
            other_as: None,
            peer_as,
            hold_time: 90,
            send_hold_time: None,
            keepalive_time: None,
            connect_retry: Duration::from_secs(30),
            delay_open: None,
            passive: false,
            damp: true,
            families: Families::ALL,
            add_path: AddPathFamilies::NONE,
            codes: FamilyCodes::DEFAULT,
            extended_messages: true,
            route_filters: (false, false),
            relationship: None,
            graceful_notifications: false,
            keeps_long_lived: false,
            restart: None,
        }
    }

    /// Returns the AS of the router's OPEN. `by_own` is true if a peer that accepts either AS is tried with the router's own.
    pub(super) fn presented_as(&self, by_own: bool) -> Asn {
        self.other_as.filter(|other| !(other.dual && by_own)).map_or(self.local_as, |other| other.number)
    }

    /// Returns true for an internal peer.
    pub fn is_internal(&self) -> bool {
        self.local_as == self.peer_as
    }

    /// Returns the SendHoldTime for a negotiated hold time; `None`: unlimited. The SendHoldTime exceeds the hold time, so the silence of a
    /// dead peer is detected first.
    pub(super) fn send_hold(&self, hold_time: u16) -> Option<Duration> {
        let hold = Duration::from_secs(hold_time.into());
        match self.send_hold_time {
            Some(0) => None,
            Some(seconds) => Some(Duration::from_secs(seconds.into()).max(hold + Duration::from_secs(1))),
            None => Some(SEND_HOLD.max(hold * 2)),
        }
    }

    /// Returns the time between KEEPALIVEs for a negotiated hold time: at most a third (RFC 4271, section 4.4); `None`: no KEEPALIVEs,
    /// because a hold time of 0 forbids them.
    pub fn keepalive(&self, hold_time: u16) -> Option<Duration> {
        let third = Duration::from_secs(hold_time.into()) / 3;
        let wanted = self.keepalive_time.map_or(third, |seconds| Duration::from_secs(seconds.into()));
        (hold_time > 0).then(|| wanted.min(third))
    }

    /// IdleHoldTime after `failures` in a row.
    pub(super) fn idle_hold(&self, failures: &Failures, rng: &mut Rng) -> Duration {
        let (count, longest) = match failures.last_is_error {
            true => (failures.errors, LONGEST_HOLD),
            false => (failures.all, LONGEST_HOLD_AFTER_CLOSE),
        };
        let doublings = if self.damp { count.saturating_sub(FREE_FAILURES).min(16) } else { 0 };
        jittered((FIRST_HOLD * (1 << doublings)).min(longest), rng)
    }
}

/// 75 to 100 percent of `time` (RFC 4271, section 10).
pub(crate) fn jittered(time: Duration, rng: &mut Rng) -> Duration {
    time * (750 + rng.below(251) as u32) / 1000
}
