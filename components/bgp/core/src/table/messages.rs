//! The orders to tables, and the events that tables report.

use super::peer_export::{ImportPolicies, PeerExport, PeerImport, PeerPolicies};
use super::retained::Retained;
use crate::aggregate::Contributors;
use crate::family::{ByFamily, Families, FamilyIndex};
use crate::policy::{BoundPolicy, OriginData};
use crate::shard::{DampingRules, Interest, OwnRoute, PeerIndex, PeerInfo};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::IpAddr;
use serde::Serialize;
use sluice_base::interest::InterestAnswer;
use sluice_base::{AnyPrefix, Instant, Ipv4Prefix, Ipv6Prefix, Prefix, Provenance, XidPrefix};

/// The number of a session, unique in the router's life, from 1 on. Routes read in a session are void in the next session.
pub type SessionEpoch = u32;

/// An order to tables, the same for each table.
#[derive(Clone, Debug)]
pub enum Order {
    /// A session is up.
    PeerUp {
        /// The peer.
        peer: PeerIndex,
        /// The session's number.
        life: SessionEpoch,
        /// The properties of the peer that the decision needs.
        info: PeerInfo,
        /// The import of the peer's routes.
        import: PeerImport,
    },
    /// Sets the import of a peer without a session: routes with a changed outcome are decided on again.
    SetImport(PeerIndex, PeerImport),
    /// Begins to advertise routes to a peer, under the export views.
    Open(PeerIndex, Box<PeerExport>),
    /// Sets the policies of peers with an established session: routes with a changed outcome are decided on again, and
    /// advertised.
    SetPolicies(Arc<[PeerPolicies]>),
    /// Advertises a family's routes to a peer once more. The number is the refresh's, from 1 on, and grows.
    Refresh(PeerIndex, FamilyIndex, u32),
    /// Routes of a peer become stale, and stay until announced again or until [`Order::DropStale`].
    MarkStale(PeerIndex, FamilyIndex),
    /// The session of this number is down. Some routes may stay until [`Order::DropStale`].
    PeerDown(PeerIndex, SessionEpoch, Retained),
    /// Ends the hold of a peer in a session: the time between advertisements is over.
    Release(PeerIndex, SessionEpoch),
    /// Routes of earlier sessions become long-lived stale ones (RFC 9494).
    MarkLongLived(PeerIndex, Families),
    /// Routes of earlier sessions are removed.
    DropStale(PeerIndex, Families),
    /// The router originates a prefix, or no longer does.
    Originate(Box<Origination>),
    /// New prefixes of a family and a peer are ignored, or no longer: a bound on prefixes is reached.
    SetFull(PeerIndex, FamilyIndex, bool),
    /// The bounds on a peer's prefixes changed: the peer's counts are to be reported.
    ReportPrefixes(PeerIndex),
    /// Sets the name of a source of the router's own, and the policies for the source's routes.
    SetSource(PeerIndex, Arc<str>, ImportPolicies),
    /// The RIB's answer about IPv4 next hops.
    AnswerIpv4(Versioned<Ipv4Prefix>, Provenance),
    /// The RIB's answer about IPv6 next hops.
    AnswerIpv6(Versioned<Ipv6Prefix>, Provenance),
    /// The RIB's answer about next hops that are XIDs.
    AnswerXid(Versioned<XidPrefix>, Provenance),
    /// An answer of the RIB is void.
    Invalid(AnyPrefix),
    /// The RIB was restarted: every question about next hops and every route is sent again.
    RibRestarted,
    /// Sends the RIB changed backups, if the table is at rest.
    AnnounceBackups,
    /// Sets the aggregates.
    SetAggregates(Arc<[AggregateRule]>),
    /// Requests the contributors of changed aggregates, as soon as every change is added up.
    ReportContributors,
    /// A new epoch of validated ROA payloads.
    SetOrigins(Arc<OriginData>),
    /// Flap damping.
    Damping(DampingOrder),
    /// Puts a checking stage before the PeerOut of a peer, or, with `None`, of every peer; `false` removes the stage.
    Check(Option<PeerIndex>, bool),
}

/// A change of a route originated by the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origination {
    /// The source of the router's own ([`PeerIndex::is_own`]).
    pub source: PeerIndex,
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The source's route of the prefix; `None` to withdraw the route.
    pub route: Option<OwnRoute>,
    /// The event behind the change.
    pub provenance: Provenance,
}

/// An answer of the RIB, with a number: later questions of a table carry the number of the newest answer seen by the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned<P: Prefix> {
    /// Grows from answer to answer.
    pub number: u64,
    /// The RIB's answer.
    pub answer: InterestAnswer<P>,
}

/// An event of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum TableEvent {
    /// A question of a family about IPv4 next hops, after every answer up to this number.
    InterestIpv4(FamilyIndex, Interest<Ipv4Prefix>, u64),
    /// A question of a family about IPv6 next hops, after every answer up to this number.
    InterestIpv6(FamilyIndex, Interest<Ipv6Prefix>, u64),
    /// A question of a family about XID next hops, after every answer up to this number.
    InterestXid(FamilyIndex, Interest<XidPrefix>, u64),
    /// Routes wait for the RIB: call [`Table::rib_batch`] until no more routes are left.
    RibReady(FamilyIndex),
    /// A monitor has changes to read: call [`Table::monitored`].
    Monitored,
    /// Backups wait for the RIB: order [`Order::AnnounceBackups`] after a while without many changes.
    BackupsDue,
    /// Contributors of aggregates changed: [`Order::ReportContributors`] after a while.
    AggregatesDue,
    /// The answer to [`Order::ReportContributors`]: the aggregates whose contributors changed since the last answer.
    Contributors(Vec<TableContributors>),
    /// A paced peer has received every route in this session, and receives no more until [`Order::Release`].
    Held(PeerIndex, SessionEpoch),
    /// A session is down, and only the session's routes had the peer's address as the next hop.
    GatewayLost(IpAddr),
    /// The number of prefixes of a counted peer changed.
    Prefixes {
        /// The peer.
        peer: PeerIndex,
        /// The session.
        life: SessionEpoch,
        /// The family.
        family: FamilyIndex,
        /// Prefixes that the peer announced.
        received: u32,
        /// Prefixes that import policy accepted.
        accepted: u32,
    },
    /// [`DampingOrder::Turn`] is due at this time.
    TurnDue(Instant),
    /// The table has removed the last route of a peer's ended session.
    Drained(PeerIndex, SessionEpoch),
}

impl TableEvent {
    /// Makes an event of a family's question about next hops; `None` if the RIB cannot be asked about such next hops.
    pub(super) fn interest<H: Prefix>(
        family: FamilyIndex,
        interest: Interest<H>,
        seen: u64,
    ) -> Option<TableEvent> {
        let interest: &dyn Any = &interest;
        let ipv4 = interest.downcast_ref().map(|i| TableEvent::InterestIpv4(family, *i, seen));
        let ip = ipv4.or_else(|| interest.downcast_ref().map(|i| TableEvent::InterestIpv6(family, *i, seen)));
        ip.or_else(|| interest.downcast_ref().map(|i| TableEvent::InterestXid(family, *i, seen)))
    }
}

/// An aggregate, for tables.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateRule {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// True if contributors are not announced.
    pub summary_only: bool,
    /// True if the AS_PATH has the ASes of the contributors.
    pub as_set: bool,
    /// The policies that select contributors.
    pub policies: ByFamily<Option<Arc<BoundPolicy>>>,
}

/// The contributors of an aggregate in a table; `None` if no route contributes.
pub type TableContributors = (AnyPrefix, Option<Contributors>);

/// An order about flap damping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DampingOrder {
    /// The parameters from now on, in a router with this number of tables.
    SetRules(DampingRules, usize),
    /// Sets the time, and serves due histories.
    Turn(Instant),
    /// The history of a prefix, or all histories are forgotten: suppressed routes are used again.
    Clear(Option<AnyPrefix>),
}
