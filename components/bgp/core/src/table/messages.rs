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

/// The number of a session among all of a router's life, from 1 on. What a reader read in one session is void in the next.
pub type SessionEpoch = u32;

/// An order to tables, the same for each table.
#[derive(Clone, Debug)]
pub enum Order {
    /// A session is up.
    PeerUp {
        /// Whose.
        peer: PeerIndex,
        /// The session's number.
        life: SessionEpoch,
        /// The properties of the peer that the decision needs.
        info: PeerInfo,
        /// The import of the peer's routes.
        import: PeerImport,
    },
    /// The import of a peer without a session, from now on: routes with another outcome are decided on again.
    SetImport(PeerIndex, PeerImport),
    /// The peer is to be sent all routes that its export view lets through.
    Open(PeerIndex, Box<PeerExport>),
    /// The policies of peers whose sessions are up, from now on: routes with another outcome are decided on again, and advertised.
    SetPolicies(Arc<[PeerPolicies]>),
    /// The peer is sent everything of a family once more. The number is that of the refresh, from 1 on, and grows.
    Refresh(PeerIndex, FamilyIndex, u32),
    /// Routes of a peer become stale, and stay until [`Order::DropStale`] unless they are announced again.
    MarkStale(PeerIndex, FamilyIndex),
    /// The session of this number is down. Some routes may stay until [`Order::DropStale`].
    PeerDown(PeerIndex, SessionEpoch, Retained),
    /// A peer may be sent something again in this session: the time between advertisements is over.
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
    /// A source of the router's own has this name, and these policies for its routes, from now on.
    SetSource(PeerIndex, Arc<str>, ImportPolicies),
    /// The RIB's answer about IPv4 next hops.
    AnswerIpv4(Versioned<Ipv4Prefix>, Provenance),
    /// The RIB's answer about IPv6 next hops.
    AnswerIpv6(Versioned<Ipv6Prefix>, Provenance),
    /// The RIB's answer about next hops that are XIDs.
    AnswerXid(Versioned<XidPrefix>, Provenance),
    /// An answer of the RIB holds no longer.
    Invalid(AnyPrefix),
    /// The RIB was restarted: it is asked about all next hops and told all routes again.
    RibRestarted,
    /// The RIB is to be sent backups where they changed, if the table is at rest.
    AnnounceBackups,
    /// These are the aggregates from now on.
    SetAggregates(Arc<[AggregateRule]>),
    /// Control is to be sent the contributors of aggregates that changed, as soon as all changes are added up.
    ReportContributors,
    /// Another epoch of validated ROA payloads.
    SetOrigins(Arc<OriginData>),
    /// Flap damping.
    Damping(DampingOrder),
    /// A checking stage goes before the PeerOut of a peer, or of all peers without one; `false` removes it.
    Check(Option<PeerIndex>, bool),
}

/// A change of what the router originates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origination {
    /// The source of the router's own ([`PeerIndex::is_own`]).
    pub source: PeerIndex,
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The source's route of the prefix; `None` if the source has none any more.
    pub route: Option<OwnRoute>,
    /// The event behind the change.
    pub provenance: Provenance,
}

/// An answer of the RIB, with a number by which a table says later that it had seen it.
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
    /// A question of a family about IPv4 next hops, after all answers up to this number.
    InterestIpv4(FamilyIndex, Interest<Ipv4Prefix>, u64),
    /// A question of a family about IPv6 next hops, after all answers up to this number.
    InterestIpv6(FamilyIndex, Interest<Ipv6Prefix>, u64),
    /// A question of a family about next hops that are XIDs, after all answers up to this number.
    InterestXid(FamilyIndex, Interest<XidPrefix>, u64),
    /// There are routes for the RIB: call [`Table::rib_batch`] until it says that there are no more.
    RibReady(FamilyIndex),
    /// A monitor has something to read: call [`Table::monitored`].
    Monitored,
    /// There are backups that the RIB has not been sent: [`Order::AnnounceBackups`] after a while without many changes.
    BackupsDue,
    /// Contributors of aggregates changed: [`Order::ReportContributors`] after a while.
    AggregatesDue,
    /// The answer to [`Order::ReportContributors`]: the aggregates whose contributors changed since the last answer.
    Contributors(Vec<TableContributors>),
    /// A peer whose advertisements are paced was sent everything in this session, and is sent nothing until [`Order::Release`].
    Held(PeerIndex, SessionEpoch),
    /// A session is down, and this address of its peer was the next hop of its routes and of no others.
    GatewayLost(IpAddr),
    /// The number of prefixes changed of a peer whose prefixes are counted.
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
    /// The table has no routes left of a peer whose session of this epoch is over.
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
    /// It is this time: what is due is done.
    Turn(Instant),
    /// The history of a prefix, or all histories are forgotten: suppressed routes are used again.
    Clear(Option<AnyPrefix>),
}
