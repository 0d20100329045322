//! Every text and reason that BGP can report. The core emits events; whoever drives it logs and counts them.

use crate::attributes::AttributeError;
use crate::family::{Families, FamilyIndex};
use crate::state::State;
use crate::wire::Notification;
use crate::wire::notification::{cease, code};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix};

/// The reason why a connection or a session ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DownReason {
    /// The operator stopped it.
    Stopped,
    /// The local side ended the session with a NOTIFICATION (or would have, had OPEN been sent).
    Sent(Notification),
    /// The peer ended it with a NOTIFICATION.
    Received(Notification),
    /// The connection was closed without a word.
    ConnectionLost,
    /// No connection could be made.
    ConnectionFailed(ConnectError),
    /// The neighbor's OPEN was refused because the neighbor is of another AS than configured.
    WrongPeerAs {
        /// The AS in its OPEN.
        says: Asn,
        /// The AS in this router's configuration; 0 for a dynamic neighbor whose listen range allows several.
        configured: Asn,
    },
}

/// The cause of a connection that could not be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectError {
    /// The neighbor's system refused it: nobody listens there.
    Refused,
    /// There is no route to the neighbor, or it is not on its link.
    Unreachable,
    /// No answer arrived in time.
    NoAnswer,
    /// Anything else, as the system says it; empty if it does not.
    Other(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Refused => f.write_str("connection refused"),
            ConnectError::Unreachable => f.write_str("no route to the neighbor, or it is not there"),
            ConnectError::NoAnswer => f.write_str("no answer to the attempt to connect"),
            ConnectError::Other(text) if text.is_empty() => f.write_str("connection failed"),
            ConnectError::Other(text) => write!(f, "connection failed: {text}"),
        }
    }
}

impl DownReason {
    /// Returns true if something was wrong. It was not if the connection was merely closed, or with a Cease by either side: RFC 4271,
    /// section 6.7, has that for the absence of any fatal error.
    pub fn is_error(&self) -> bool {
        match self {
            DownReason::Sent(n) | DownReason::Received(n) => n.code != code::CEASE,
            DownReason::Stopped | DownReason::ConnectionLost => false,
            DownReason::ConnectionFailed(_) | DownReason::WrongPeerAs { .. } => true,
        }
    }

    /// Returns the side that ended a session for this reason.
    pub fn ended_by(&self) -> EndedBy {
        match self {
            DownReason::Stopped => EndedBy::Configuration,
            DownReason::Sent(n) => {
                let inside = n.reason();
                let n = inside.as_ref().unwrap_or(n);
                match (n.code, n.subcode) {
                    (code::CEASE, cease::RESET) => EndedBy::Operator,
                    (code::CEASE, cease::CONFIGURATION | cease::SHUTDOWN | cease::DECONFIGURED) => {
                        EndedBy::Configuration
                    }
                    _ => EndedBy::ThisRouter,
                }
            }
            DownReason::WrongPeerAs { .. } => EndedBy::ThisRouter,
            DownReason::Received(_) => EndedBy::Neighbor,
            DownReason::ConnectionLost | DownReason::ConnectionFailed(_) => EndedBy::Connection,
        }
    }

    /// Returns true for a NOTIFICATION after which sessions with graceful notifications keep routes (RFC 8538, section 4).
    pub fn is_graceful_notification(&self) -> bool {
        matches!(self, DownReason::Sent(n) | DownReason::Received(n) if !n.is_hard_reset())
    }

    /// Returns true if one of two connections was given up for the other (RFC 4271, section 6.8): that says nothing about the session.
    pub(crate) fn is_collision(&self) -> bool {
        matches!(self, DownReason::Sent(n) | DownReason::Received(n) if n.code == code::CEASE && n.subcode == cease::COLLISION)
    }

    /// Returns true if this router ended the session with a Cease, or stopped it: an operator or a commit wanted that.
    pub(crate) fn is_own_cease(&self) -> bool {
        matches!(self, DownReason::Sent(n) if n.code == code::CEASE) || *self == DownReason::Stopped
    }

    /// Returns true if the reason names what must be put right before a session can come up. The end of another connection without
    /// a reason, which often follows, does not replace it for a while.
    pub(crate) fn is_telling(&self) -> bool {
        match self {
            DownReason::Sent(_) => !self.is_own_cease(),
            DownReason::Received(_) | DownReason::WrongPeerAs { .. } => true,
            DownReason::Stopped | DownReason::ConnectionLost | DownReason::ConnectionFailed(_) => false,
        }
    }
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownReason::Stopped => f.write_str("stopped by the operator"),
            DownReason::Sent(n) => write!(f, "sent NOTIFICATION: {n}"),
            DownReason::Received(n) => write!(f, "received NOTIFICATION: {n}"),
            DownReason::ConnectionLost => f.write_str("connection lost"),
            DownReason::ConnectionFailed(error) => error.fmt(f),
            DownReason::WrongPeerAs { says, configured: Asn(0) } => {
                write!(f, "neighbor says AS {says}, which its listen range does not allow")
            }
            DownReason::WrongPeerAs { says, configured } => {
                write!(f, "neighbor says AS {says}, configured {configured}")
            }
        }
    }
}

/// A failed attempt to open a session, with the statements that make packets disappear where both sides do not have them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotOpened {
    /// The reason.
    pub reason: DownReason,
    /// True if the neighbor has a password here.
    pub has_password: bool,
    /// True if the neighbor has `ttl-security` here.
    pub has_ttl_security: bool,
}

impl NotOpened {
    /// Returns the causes that look like a neighbor without an answer, in parentheses; empty if there are none.
    pub const fn hint(has_password: bool, has_ttl_security: bool) -> &'static str {
        match (has_password, has_ttl_security) {
            (true, true) => " (another password, or ttl-security, looks the same)",
            (true, false) => " (another password looks the same)",
            (false, true) => " (ttl-security that does not fit looks the same)",
            (false, false) => "",
        }
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.reason {
            DownReason::ConnectionFailed(ConnectError::NoAnswer) => {
                f.write_str(Self::hint(self.has_password, self.has_ttl_security))
            }
            _ => Ok(()),
        }
    }
}

/// The side that ended a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndedBy {
    /// An operator of this router, by a command.
    Operator,
    /// A commit at this router.
    Configuration,
    /// This router, for an error, an expired timer or a bound.
    ThisRouter,
    /// The neighbor, by a NOTIFICATION.
    Neighbor,
    /// The neighbor or the network between both: the connection was lost without a NOTIFICATION.
    Connection,
}

impl EndedBy {
    /// Returns the name in output.
    pub const fn name(self) -> &'static str {
        match self {
            EndedBy::Operator => "operator",
            EndedBy::Configuration => "configuration",
            EndedBy::ThisRouter => "this router",
            EndedBy::Neighbor => "neighbor",
            EndedBy::Connection => "connection",
        }
    }
}

/// A report of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionEvent {
    /// The state changed.
    State {
        /// From this.
        from: State,
        /// To this.
        to: State,
    },
    /// A NOTIFICATION was sent.
    NotificationSent(Notification),
    /// A NOTIFICATION arrived.
    NotificationReceived(Notification),
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionEvent::State { from, to } => write!(f, "state {from} -> {to}"),
            SessionEvent::NotificationSent(n) => write!(f, "sent NOTIFICATION: {n}"),
            SessionEvent::NotificationReceived(n) => write!(f, "received NOTIFICATION: {n}"),
        }
    }
}

/// A report about a neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The neighbor.
    pub peer: IpAddr,
    /// The event.
    pub what: PeerEvent,
}

/// An event of a neighbor that is worth a line in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PeerEvent {
    /// Its session is up.
    Up,
    /// Its session is down.
    Down(DownReason),
    /// An attempt to open its session failed, for a reason that was not reported just before.
    NotOpened(NotOpened),
    /// Its session did something else.
    Session(SessionEvent),
    /// The neighbor has sent all its routes of a family (RFC 4724).
    EndOfRib(FamilyIndex),
    /// No routes of a family that both sides want are announced to the neighbor: this router has no next hop of its own for them on the
    /// session's interface.
    NoNextHop(FamilyIndex),
    /// The neighbor sent a malformed UPDATE that does not end the session (RFC 7606, section 6).
    Malformed {
        /// The worst error.
        error: AttributeError,
        /// True if the routes count as withdrawn for it.
        withdrawn: bool,
        /// The whole body of the UPDATE.
        update: Vec<u8>,
    },
    /// Further UPDATEs of the neighbor were wrong; these were counted and not reported one by one.
    MoreMalformed {
        /// The error, and whether the routes count as withdrawn for it; `None` for errors of several kinds.
        of: Option<(AttributeError, bool)>,
        /// The number of UPDATEs.
        count: u64,
    },
    /// The neighbor may restart: its routes of these families stay while its session is down (RFC 4724).
    Restarts(Families),
    /// The neighbor did not announce its routes of these families again in time; those that stayed are removed.
    RestartTookTooLong(Families),
    /// Routes of a neighbor that did not come back in time stay as long-lived stale ones (RFC 9494).
    LongLivedStale(Families),
    /// A ROUTE-REFRESH message about a family has no effect.
    RefreshIgnored(FamilyIndex, RefreshIgnored),
    /// The neighbor's outbound route filter of a family is removed, because an entry is malformed, or entries are ignored because there are
    /// too many.
    BadFilter(FamilyIndex),
    /// The neighbor did not announce its routes of these families again in time after it had begun to; the others are removed (RFC 7313).
    RefreshTookTooLong(Families),
    /// The address connected from a listen range and is a neighbor's from now on.
    Joined(IpPrefix),
    /// The neighbor of a listen range is removed: it has had no connection, or no session, for too long.
    Left(IpPrefix),
    /// A listen range refuses the address, which connected from the range.
    Refused {
        /// The range.
        range: IpPrefix,
        /// The reason.
        refusal: RangeRefusal,
    },
    /// The neighbor is refused: there are too many.
    TooManyNeighbors,
    /// A route is not announced to it, for the first time in this session: its attributes do not fit in a message.
    TooLarge,
    /// A route is announced to it without some of its attributes, for the first time in this session: with these it does not fit in a
    /// message (RFC 8654, section 4).
    Reduced,
    /// The neighbor's prefixes of a family come near a configured bound, or exceed it.
    MaximumPrefixes(FamilyIndex, LimitReached),
    /// Changed import policies cannot decide on all routes of the neighbor.
    NoRefresh(WithoutRefresh),
    /// The neighbor is external and has no policy for its routes, for routes to it, or for both (RFC 8212).
    NoPolicy {
        /// Nothing is accepted.
        import: bool,
        /// Nothing is announced.
        export: bool,
    },
}

/// The reason why a listen range refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RangeRefusal {
    /// The range has this number of neighbors, or the router has as many as it may.
    Limit(u32),
    /// Neighbors come faster than the range admits them.
    Rate,
    /// The range does not allow the AS of the OPEN.
    PeerAs(Asn),
}

impl fmt::Display for RangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeRefusal::Limit(neighbors) => {
                write!(f, "the range has {neighbors} neighbors, and may have no more (`limit`)")
            }
            RangeRefusal::Rate => f.write_str("neighbors come faster than the range admits them"),
            RangeRefusal::PeerAs(asn) => write!(f, "the range does not allow AS {asn} (`peer-as`)"),
        }
    }
}

/// The reason why a ROUTE-REFRESH message has no effect (RFC 7313, sections 4 and 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RefreshIgnored {
    /// The end of a refresh that did not begin.
    EndWithoutBegin,
    /// The beginning of a refresh before the End-of-RIB marker that the neighbor promised.
    BeforeEndOfRib,
    /// The message subtype is unknown.
    Subtype(u8),
}

impl fmt::Display for RefreshIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefreshIgnored::EndWithoutBegin => f.write_str("end of a route refresh that did not begin"),
            RefreshIgnored::BeforeEndOfRib => f.write_str("beginning of a route refresh before End-of-RIB"),
            RefreshIgnored::Subtype(subtype) => write!(f, "ROUTE-REFRESH with the unknown subtype {subtype}"),
        }
    }
}

/// A bound on prefixes, and the count that comes near or exceeds the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitReached {
    /// The configured bound.
    pub bound: u32,
    /// The prefixes.
    pub count: u32,
    /// True for prefixes that import policy accepted, false for all that the neighbor announced.
    pub is_accepted: bool,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_accepted { "accepted" } else { "received" };
        let relation = if self.count > self.bound { "more than" } else { "near" };
        write!(f, "{} prefixes {what}, {relation} the configured maximum of {}", self.count, self.bound)
    }
}

/// Describes a neighbor without policies, with the remedy.
pub struct WithoutPolicy {
    /// Nothing is accepted.
    pub import: bool,
    /// Nothing is announced.
    pub export: bool,
}

impl fmt::Display for WithoutPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.import, self.export) {
            (true, true) => "no import and no export policy: nothing is accepted and nothing is announced",
            (true, false) => "no import policy: nothing is accepted",
            (false, true) => "no export policy: nothing is announced",
            (false, false) => return Ok(()),
        })?;
        f.write_str(" (RFC 8212); configure `import` and `export`, or `default-policy accept`")
    }
}

/// Describes a session whose rejected routes are not stored, with a neighbor that does not send its routes again (RFC 2918).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WithoutRefresh {
    /// True if the import policy changed, so that routes that it may accept now are missing.
    pub is_missing: bool,
}

impl fmt::Display for WithoutRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_missing {
            "the import policy changed, and routes that were rejected before are missing: they were not stored \
             (keep-rejected false), and the neighbor does not offer route refresh (RFC 2918); `clear bgp neighbor` \
             fetches them"
        } else {
            "rejected routes are not stored (keep-rejected false), and the neighbor does not offer route refresh \
             (RFC 2918): a changed import policy needs a reset of the session; configure `keep-rejected true`"
        })
    }
}

impl Event {
    /// Its stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self.what {
            PeerEvent::Up => "bgp.session.up",
            PeerEvent::Down(_) | PeerEvent::NotOpened(_) => "bgp.session.down",
            PeerEvent::Session(_) => "bgp.session.state",
            PeerEvent::EndOfRib(_) => "bgp.session.end-of-rib",
            PeerEvent::NoNextHop(_) => "bgp.session.no-next-hop",
            PeerEvent::Malformed { .. } | PeerEvent::MoreMalformed { .. } => "bgp.update.malformed",
            PeerEvent::Restarts(_) => "bgp.restart.begin",
            PeerEvent::RestartTookTooLong(_) => "bgp.restart.too-long",
            PeerEvent::LongLivedStale(_) => "bgp.restart.long-lived",
            PeerEvent::RefreshIgnored(..) => "bgp.refresh.ignored",
            PeerEvent::RefreshTookTooLong(_) => "bgp.refresh.too-long",
            PeerEvent::BadFilter(_) => "bgp.filter.bad",
            PeerEvent::Joined(_) => "bgp.range.joined",
            PeerEvent::Left(_) => "bgp.range.left",
            PeerEvent::Refused { .. } => "bgp.range.refused",
            PeerEvent::TooManyNeighbors => "bgp.neighbor.refused",
            PeerEvent::TooLarge => "bgp.route.too-large",
            PeerEvent::Reduced => "bgp.route.reduced",
            PeerEvent::MaximumPrefixes(..) => "bgp.neighbor.maximum-prefixes",
            PeerEvent::NoRefresh(_) => "bgp.neighbor.no-refresh",
            PeerEvent::NoPolicy { .. } => "bgp.neighbor.no-policy",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbor {}: ", self.peer)?;
        match &self.what {
            PeerEvent::Up => f.write_str("session is up"),
            PeerEvent::Down(reason) => write!(f, "session is down: {reason}"),
            PeerEvent::NotOpened(failed) => write!(f, "session cannot be opened: {failed}"),
            PeerEvent::Session(event) => event.fmt(f),
            PeerEvent::EndOfRib(family) => write!(f, "End-of-RIB for {family}"),
            PeerEvent::NoNextHop(family) => {
                write!(f, "no {family} routes are announced: {}", family.row().no_next_hop)
            }
            PeerEvent::Malformed { error, withdrawn, .. } => {
                write!(f, "malformed UPDATE, {}: {error}", treatment(*withdrawn))
            }
            PeerEvent::MoreMalformed { of: Some((error, withdrawn)), count } => {
                write!(f, "{count} more malformed UPDATEs, {}: {error}", treatment(*withdrawn))
            }
            PeerEvent::MoreMalformed { of: None, count } => {
                write!(f, "{count} more malformed UPDATEs of other kinds")
            }
            PeerEvent::Restarts(families) => {
                write!(f, "{} routes stay while the neighbor may restart", Names(*families))
            }
            PeerEvent::LongLivedStale(families) => {
                write!(f, "{} routes stay as a last resort, marked with LLGR_STALE", Names(*families))
            }
            PeerEvent::RestartTookTooLong(families) => {
                write!(f, "{} routes that were not announced again in time are removed", Names(*families))
            }
            PeerEvent::RefreshIgnored(family, why) => write!(f, "{family}: ignored: {why} (RFC 7313)"),
            PeerEvent::BadFilter(family) => {
                write!(f, "{family}: the outbound route filter has malformed or too many entries (RFC 5291)")
            }
            PeerEvent::RefreshTookTooLong(families) => {
                write!(f, "{} routes are removed: a route refresh did not end in time", Names(*families))
            }
            PeerEvent::Joined(range) => write!(f, "connected from the listen range {range}"),
            PeerEvent::Left(range) => write!(f, "removed from the listen range {range}"),
            PeerEvent::Refused { range, refusal } => {
                write!(
                    f,
                    "refused by the listen range {range}: {refusal}; `show bgp ranges` counts the others"
                )
            }
            PeerEvent::TooManyNeighbors => f.write_str("too many neighbors"),
            PeerEvent::TooLarge => f.write_str(
                "a route is not announced: too large for a message; `show bgp neighbor` counts the others",
            ),
            PeerEvent::Reduced => f.write_str(
                "a route is announced without some of its attributes: too large for a message; `show bgp neighbor` counts the others",
            ),
            PeerEvent::MaximumPrefixes(family, reached) => write!(f, "{family}: {reached}"),
            PeerEvent::NoRefresh(without) => without.fmt(f),
            PeerEvent::NoPolicy { import, export } => {
                WithoutPolicy { import: *import, export: *export }.fmt(f)
            }
        }
    }
}

/// The names of families, in order.
struct Names(Families);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, family) in self.0.iter().enumerate() {
            write!(f, "{}{family}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Describes the treatment of a malformed UPDATE.
fn treatment(withdrawn: bool) -> &'static str {
    if withdrawn { "treated as withdrawal" } else { "attribute discarded" }
}

/// The octets of a message in hexadecimal, as a line of the log shows them.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
