//! Every text and reason that BGP reports. The core emits events; the driver logs and counts them.

use crate::attributes::AttributeError;
use crate::family::{Families, FamilyIndex};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix};

pub(crate) mod down;

pub use down::{ConnectError, DownReason, EndedBy, NotOpened, SessionEvent};

/// A report about a neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The neighbor.
    pub peer: IpAddr,
    /// The event.
    pub what: PeerEvent,
}

/// An event of a neighbor, for the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PeerEvent {
    /// The session is up.
    Up,
    /// The session is down.
    Down(DownReason),
    /// An attempt to open the session failed, for a reason not reported just before.
    NotOpened(NotOpened),
    /// A further event of the session.
    Session(SessionEvent),
    /// The neighbor has sent its routes of a family completely (RFC 4724).
    EndOfRib(FamilyIndex),
    /// No routes of an agreed family are announced to the neighbor: the router has no own next hop of the family on the session's
    /// interface.
    NoNextHop(FamilyIndex),
    /// The neighbor sent a malformed UPDATE, and the session continues (RFC 7606, section 6).
    Malformed {
        /// The worst error.
        error: AttributeError,
        /// True if the routes therefore count as withdrawn.
        withdrawn: bool,
        /// The whole body of the UPDATE.
        update: Vec<u8>,
    },
    /// Further malformed UPDATEs of the neighbor were counted, and not reported one by one.
    MoreMalformed {
        /// The error, and true if the routes therefore count as withdrawn; `None` for errors of several kinds.
        of: Option<(AttributeError, bool)>,
        /// The number of UPDATEs.
        count: u64,
    },
    /// The neighbor may restart: the routes of these families stay while the session is down (RFC 4724).
    Restarts(Families),
    /// The neighbor did not announce the routes of these families again in time; the stale routes are removed.
    RestartTookTooLong(Families),
    /// Routes of a neighbor that did not come back in time stay as long-lived stale routes (RFC 9494).
    LongLivedStale(Families),
    /// A ROUTE-REFRESH message about a family has no effect.
    RefreshIgnored(FamilyIndex, RefreshIgnored),
    /// The neighbor's outbound route filter of a family is removed, because an entry is malformed, or entries are ignored because there are
    /// too many.
    BadFilter(FamilyIndex),
    /// The neighbor began to announce the routes of these families again and did not finish in time; the rest is removed (RFC 7313).
    RefreshTookTooLong(Families),
    /// The address connected from a listen range and is a neighbor's from now on.
    Joined(IpPrefix),
    /// The neighbor of a listen range is removed: no connection, or no session, for too long.
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
    /// A route is not announced to the neighbor, for the first time in the session: the attributes do not fit in a message.
    TooLarge,
    /// A route is announced to the neighbor without some attributes, for the first time in the session: the whole route does not fit
    /// in a message (RFC 8654, section 4).
    Reduced,
    /// The neighbor's prefixes of a family come near a configured bound, or exceed it.
    MaximumPrefixes(FamilyIndex, LimitReached),
    /// Changed import policies cannot decide on every route of the neighbor.
    NoRefresh(WithoutRefresh),
    /// The neighbor is external, without a policy for received routes, for routes to it, or for both (RFC 8212).
    NoPolicy {
        /// No route is accepted.
        import: bool,
        /// No route is announced.
        export: bool,
    },
}

/// The reason why a listen range refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RangeRefusal {
    /// The range has this number of neighbors, or the router has the allowed number.
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
    /// The end of a refresh without a beginning.
    EndWithoutBegin,
    /// The beginning of a refresh before the promised End-of-RIB marker.
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

/// A bound on prefixes, and the count near or above the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitReached {
    /// The configured bound.
    pub bound: u32,
    /// The prefixes.
    pub count: u32,
    /// True for prefixes accepted by import policy, false for announced prefixes.
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
    /// No route is accepted.
    pub import: bool,
    /// No route is announced.
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

/// Describes a session whose rejected routes are not stored, with a neighbor without route refresh (RFC 2918).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WithoutRefresh {
    /// True if the import policy changed: routes that are acceptable now may be missing.
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
    /// The stable name (docs/events.md).
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

/// Returns the octets of a message in hexadecimal, for the log.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
