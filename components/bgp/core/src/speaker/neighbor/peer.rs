//! A neighbor: session, connections, and counts of messages read and written.

use super::filters::{FilterCounts, Filters};
use super::limits::Limits;
use super::refreshes::Refreshes;
use super::restart::Restart;
use crate::attributes::ReceiveRules;
use crate::endpoints::Endpoints;
use crate::event::WithoutRefresh;
use crate::family::{ByFamily, Families};
use crate::intake::Reading;
use crate::local_as::LocalAs;
use crate::policy::PathCheck;
use crate::reader::{Reader, ReaderCounters};
use crate::session::{ConnectionId, Negotiated, Session};
use crate::shard::{ExportView, OtherAs, PeerIndex, PeerInfo, Reflection, RouteSource, Sent};
use crate::speaker::config::{Bindings, Identity, NeighborConfig};
use crate::speaker::messages::Link;
use crate::table::{PeerExport, PeerImport, SessionEpoch, Spread};
use crate::wire::{MAX_EXTENDED_LEN, MAX_MESSAGE_LEN};
use crate::writer::Writer;
use alloc::boxed::Box;
use core::net::IpAddr;
use sluice_base::{Duration, Instant, Provenance, RouterId};
use smallvec::SmallVec;

/// After this time with KEEPALIVEs only, a neighbor counts as having announced every route, even without an End-of-RIB marker.
/// Many speakers send no marker to a router that does not preserve forwarding state.
const QUIET: Duration = Duration::from_secs(3);

/// The longer time for a neighbor that promised End-of-RIB markers: the neighbor may defer the first UPDATE until its own
/// neighbors have announced their routes (RFC 4724, section 4.1).
const QUIET_IN_SPITE_OF_PROMISE: Duration = Duration::from_secs(30);

/// The carrier of a session's routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier {
    pub peer: PeerIndex,
    pub life: SessionEpoch,
    pub spread: Spread,
    /// The router's number in provenance ids.
    pub source: u16,
}

/// The policies of an established session after a change.
#[derive(Debug)]
pub(crate) struct ChangedPolicies {
    /// The import of the neighbor's routes.
    pub import: PeerImport,
    /// The export to the neighbor.
    pub export: PeerExport,
    /// True if the import decides on routes that are not stored.
    pub needs_refresh: bool,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub config: NeighborConfig,
    pub session: Session,
    /// The session's next deadline, as listed among the deadlines of all sessions.
    pub deadline: Option<Instant>,
    /// The number of the established session.
    pub life: Option<SessionEpoch>,
    /// Families completely announced by the neighbor in the session.
    pub end_of_rib: ByFamily<bool>,
    /// The arrival of this session's last UPDATE; the session's beginning if no UPDATE arrived.
    pub last_update: Instant,
    /// True if the neighbor is no longer configured. The entry stays until the tables have removed the neighbor's routes.
    pub retired: bool,
    /// The end of the time that a dynamic neighbor stays without an established session.
    pub stay: Option<Stay>,
    connections: SmallVec<[(ConnectionId, Endpoints); 2]>,
    /// The policies of the established session that the tables know.
    policies: Option<(PeerImport, PeerExport)>,
    /// True if routes of the session may be missing: a changed import policy may accept routes not stored, and the neighbor does
    /// not support a route refresh.
    pub misses_routes: bool,
    /// The trace of injected routes; `None` for a neighbor with a session.
    pub injection: Option<Injection>,
    /// The routes that stay while the neighbor restarts.
    pub restart: Restart,
    /// Outbound route filters in both directions.
    pub filters: Filters,
    /// Route refreshes in both directions.
    pub refreshes: Refreshes,
    /// The deferred export to the neighbor, during the router's restart (RFC 4724, section 4.1) or until the neighbor's filters
    /// are known.
    pub deferred: Option<Box<PeerExport>>,
    /// The neighbor's bounds on prefixes in this session.
    pub limits: Limits,
    /// Counts of messages read and written, in this session and earlier sessions.
    pub read: ReaderCounters,
    pub sent: Sent,
    pub read_before: ReaderCounters,
    pub sent_before: Sent,
}

impl Peer {
    pub fn new(config: NeighborConfig, identity: &Identity, seed: u64) -> Self {
        let session = Session::new(config.session(identity), seed);
        Peer {
            config,
            session,
            deadline: None,
            life: None,
            end_of_rib: ByFamily::default(),
            last_update: Instant::ZERO,
            retired: false,
            stay: None,
            connections: SmallVec::new(),
            policies: None,
            misses_routes: false,
            injection: None,
            restart: Restart::default(),
            refreshes: Refreshes::default(),
            filters: Filters::default(),
            deferred: None,
            limits: Limits::default(),
            read: ReaderCounters::default(),
            sent: Sent::default(),
            read_before: ReaderCounters::default(),
            sent_before: Sent::default(),
        }
    }

    pub fn opened(&mut self, id: ConnectionId, endpoints: Endpoints) {
        self.connections.push((id, endpoints));
    }

    pub fn forget(&mut self, id: ConnectionId) {
        self.connections.retain(|(known, _)| *known != id);
    }

    /// Returns true if the neighbor has a connection, whatever its state.
    pub fn has_connection(&self) -> bool {
        !self.connections.is_empty()
    }

    /// Returns the router's addresses on a connection.
    pub fn endpoints(&self, id: ConnectionId) -> Option<Endpoints> {
        self.connections.iter().find(|(known, _)| *known == id).map(|(_, endpoints)| *endpoints)
    }

    /// Returns the properties of the neighbor that the decision needs.
    pub fn info(&self, router_id: RouterId) -> PeerInfo {
        let session = self.session.config();
        let internal = session.is_internal();
        let path_check = PathCheck::new(session.relationship, self.config.aspa_procedure, session.peer_as)
            .filter(|_| !internal);
        PeerInfo {
            router_id,
            address: self.config.address,
            internal,
            client: internal && self.config.route_reflector_client,
            direct: !internal && self.config.multihop.is_none(),
            path_check,
            source: self.injection.as_ref().map_or(RouteSource::Session, |injection| injection.source),
        }
    }

    /// Notes an established session on connection `id`. Returns the carriers of the session's routes, the policies for the neighbor's
    /// routes, and the export to the neighbor.
    pub fn up(
        &mut self,
        carrier: Carrier,
        id: ConnectionId,
        negotiated: &Negotiated,
        bindings: &mut Bindings,
    ) -> Option<(Link, PeerImport, PeerExport)> {
        let Carrier { peer, spread, .. } = carrier;
        let outlet = self.outlet(id, negotiated, bindings)?;
        let import = self.import(bindings);
        self.policies = Some((import.clone(), outlet.clone()));
        let endpoints = self.endpoints(id)?;
        let codes = self.session.config().codes;
        let rules = ReceiveRules {
            presented_as: negotiated.presented_as,
            four_octet_as: negotiated.four_octet_as,
            families: negotiated.families,
            add_path: negotiated.add_path.receive,
            interface: endpoints.interface,
            link_local: endpoints.link_local,
            ..self.receive_rules(endpoints.local)
        };
        let reading = self.begin_reading(carrier, rules);
        let writer = Writer::new(peer, spread.tables(), codes).marking(negotiated.enhanced_refresh);
        Some((Link { reading, writer }, import, outlet))
    }

    /// Returns the rules for routes of the neighbor as far as they follow from the configuration.
    pub fn receive_rules(&self, local_address: IpAddr) -> ReceiveRules {
        let config = self.session.config();
        ReceiveRules {
            cluster_id: self.config.cluster_id.unwrap_or(config.router_id),
            allow_as_in: self.config.allow_as_in,
            codes: config.codes,
            local_xid: self.config.xid.next_hop,
            enforce_first_as: self.config.enforce_first_as,
            relationship: config.relationship,
            ..ReceiveRules::new(config.local_as, config.router_id, config.peer_as, local_address)
        }
    }

    /// Begins to read routes by `rules`.
    pub fn begin_reading(&mut self, carrier: Carrier, rules: ReceiveRules) -> Reading {
        let Carrier { peer, life, spread, source } = carrier;
        self.life = Some(life);
        let is_extended = self.session.config().extended_messages;
        // Every neighbor's UPDATEs have numbers of their own, so that whoever reads them draws without asking.
        let first = u64::from(peer.0) << 32 | (self.read().updates & u64::from(u32::MAX));
        Reading {
            peer,
            life,
            reader: Reader::new(rules, spread),
            provenance: Provenance::new(source, first),
            longest_message: if is_extended { MAX_EXTENDED_LEN } else { MAX_MESSAGE_LEN },
        }
    }

    /// Returns the time at which the neighbor counts as having announced every route, if no UPDATE arrives before: at once after
    /// the End-of-RIB markers of every family, otherwise after a time of silence. `None` without a session.
    pub fn announced_all_by(&self) -> Option<Instant> {
        let negotiated = self.session.negotiated()?;
        // Two routers that restart at once would wait for each other.
        let is_ended =
            negotiated.is_restarting || negotiated.families.iter().all(|family| self.end_of_rib[family]);
        let quiet = if negotiated.promises_end_of_rib { QUIET_IN_SPITE_OF_PROMISE } else { QUIET };
        Some(if is_ended { Instant::ZERO } else { self.last_update + quiet })
    }

    /// Returns the import of the neighbor's routes. Without a session, as after a hand-over in which the neighbor restarts, the neighbor knows
    /// this router by the configured AS.
    pub fn import(&self, bindings: &mut Bindings) -> PeerImport {
        let config = self.session.config();
        let other = match self.session.negotiated() {
            Some(negotiated) => self.other_as(negotiated),
            None => config.other_as,
        };
        let prepended = other.filter(LocalAs::is_prepended_on_import).map(|other| other.number);
        bindings.import(&self.config, config.local_as, prepended)
    }

    /// Returns the local AS in a session with the neighbor; `None` for the router's AS.
    fn other_as(&self, negotiated: &Negotiated) -> Option<LocalAs> {
        self.session.config().other_as.filter(|other| other.number == negotiated.presented_as)
    }

    fn outlet(
        &self,
        id: ConnectionId,
        negotiated: &Negotiated,
        bindings: &mut Bindings,
    ) -> Option<PeerExport> {
        let endpoints = self.endpoints(id)?;
        let (config, internal) = (&self.config, self.session.config().is_internal());
        let next_hops =
            ByFamily::from_fn(|family| (family.row().own_next_hop)(&endpoints, config.xid.next_hop));
        let views = ByFamily::from_fn(|family| {
            let view = ExportView {
                internal,
                four_octet_as: negotiated.four_octet_as,
                extended_messages: negotiated.extended_messages,
                paced: (config.advertisement_interval > 0).then_some(config.address),
                link_local: next_hops[family].len() == 32,
                next_hop_self: internal && config.next_hop_self,
                reflection: internal.then(|| Reflection {
                    cluster: config.cluster_id.unwrap_or(self.session.config().router_id),
                    to_clients: config.route_reflector_client,
                    between_clients: config.client_to_client_reflection,
                }),
                transparent: !internal && config.transparent,
                overridden_as: config.peer_as_override(self.session.config().local_as),
                other_as: self
                    .other_as(negotiated)
                    .map(|other| OtherAs { number: other.number, hides_router_as: other.hides_router_as() }),
                relationship: config.relationship.filter(|_| !internal),
                graceful_shutdown: config.graceful_shutdown,
                long_lived_stale: negotiated.long_lived.is_some(),
                communities: config.send_community,
                paths: config.add_path.sent().filter(|_| negotiated.add_path.send.has(family)),
                further: bindings.further(config, family).filter(|_| negotiated.add_path.send.has(family)),
                default_route: bindings.default_route(config, family),
                wanted: self.filters.of(family),
                policy: bindings.export(config, self.session.config().local_as, family),
            };
            bindings.view(view)
        });
        let is_direct = !internal && config.multihop.is_none();
        Some(PeerExport {
            agreed: negotiated.families,
            families: negotiated.families.and(Families::of(|family| !next_hops[family].is_empty())),
            views,
            paced: config.advertisement_interval > 0,
            counted: Families::of(|family| config.family(family).maximum_prefixes.is_set()),
            next_hops,
            subnets: endpoints.subnets,
            keeps_third_party: is_direct && !config.next_hop_self,
            address: config.address,
        })
    }

    /// Returns the policies under the present configuration, if the session is established and the tables know others.
    pub fn changed_policies(&mut self, bindings: &mut Bindings) -> Option<ChangedPolicies> {
        let export = self.outlet(self.session.established()?, self.session.negotiated()?, bindings)?;
        let import = self.import(bindings);
        let (old_import, old_export) = self.policies.as_ref()?;
        if (old_import, old_export) == (&import, &export) {
            return None;
        }
        let has_same_policy =
            old_import.policies == import.policies && old_import.keeps_rejected == import.keeps_rejected;
        let needs_refresh = !has_same_policy && !old_import.keeps_rejected;
        self.policies = Some((import.clone(), export.clone()));
        Some(ChangedPolicies { import, export, needs_refresh })
    }

    /// Describes a session in which changed import policies cannot decide on every route of the neighbor; `None` without the
    /// problem.
    pub fn without_refresh(&self) -> Option<WithoutRefresh> {
        let negotiated = self.session.negotiated()?;
        let is_concerned = self.misses_routes || !self.config.keep_rejected;
        (is_concerned && !negotiated.route_refresh)
            .then_some(WithoutRefresh { is_missing: self.misses_routes })
    }

    /// Returns the counts of the session's outbound route filters.
    pub fn filter_counts(&self) -> ByFamily<FilterCounts> {
        self.session.negotiated().map_or_else(ByFamily::default, |negotiated| self.filters.counts(negotiated))
    }

    /// Returns negotiated families without advertisements to the neighbor, because the router has no next hop for the family.
    pub fn untold(&self) -> Families {
        let agreed = self.session.negotiated().map(|n| n.families).unwrap_or_default();
        self.policies.as_ref().map_or(Families::default(), |(_, outlet)| agreed.without(outlet.families))
    }

    pub fn down(&mut self) -> Option<SessionEpoch> {
        (self.read_before, self.sent_before) = (self.read(), self.sent());
        (self.read, self.sent) = (ReaderCounters::default(), Sent::default());
        self.end_of_rib = ByFamily::default();
        self.policies = None;
        self.deferred = None;
        self.refreshes = Refreshes::default();
        self.filters = Filters::default();
        self.misses_routes = false;
        self.limits.end_session();
        self.life.take()
    }

    /// Returns the counts of received messages in all sessions.
    pub fn read(&self) -> ReaderCounters {
        let before = self.read_before;
        let now = self.read;
        ReaderCounters {
            updates: before.updates + now.updates,
            octets: before.octets + now.octets,
            announced: before.announced + now.announced,
            withdrawn: before.withdrawn + now.withdrawn,
            treated_as_withdraw: before.treated_as_withdraw + now.treated_as_withdraw,
            attribute_discards: before.attribute_discards + now.attribute_discards,
            loops: before.loops + now.loops,
            leaks: before.leaks + now.leaks,
            unroutable: before.unroutable + now.unroutable,
        }
    }

    /// Returns the counts of sent messages in all sessions.
    pub fn sent(&self) -> Sent {
        let before = self.sent_before;
        let now = self.sent;
        Sent {
            updates: before.updates + now.updates,
            announced: before.announced + now.announced,
            withdrawn: before.withdrawn + now.withdrawn,
            too_large: before.too_large + now.too_large,
            reduced: before.reduced + now.reduced,
        }
    }
}

/// A peer's trace.
#[derive(Debug)]
pub(crate) struct Injection {
    pub source: RouteSource,
    /// The import that the tables know.
    pub import: Box<PeerImport>,
}

/// The phase of a dynamic neighbor whose session is not Established, and the end of the phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stay {
    /// The neighbor has a connection.
    Opening(Instant),
    /// The neighbor has none.
    Idle(Instant),
}

impl Stay {
    /// Returns the time at which the neighbor is removed.
    pub fn until(self) -> Instant {
        let (Stay::Opening(at) | Stay::Idle(at)) = self;
        at
    }
}
