//! A neighbour: its session, its connections, and what it has read and written.

use super::config::{Identity, NeighborConfig};
use crate::attributes::ReceiveRules;
use crate::endpoints::Endpoints;
use crate::family::{ByFamily, Families};
use crate::intake::Reading;
use crate::reader::{Reader, ReaderCounters};
use crate::session::{ConnectionId, Negotiated, Session};
use crate::shard::{GroupKey, PeerIndex, PeerInfo, Sent};
use crate::table::{PeerExport, SessionEpoch, Spread};
use crate::writer::Writer;
use sluice_base::{Duration, Instant, Provenance};
use smallvec::SmallVec;

/// The time of silence but for KEEPALIVEs after which a neighbor that is up counts as one that has announced all its routes, although it
/// has sent no End-of-RIB marker. Many speakers send none to a router that does not preserve its forwarding state.
const QUIET: Duration = Duration::from_secs(3);
/// The longer time for a neighbor that promised End-of-RIB markers: such a neighbor may defer its first UPDATE until it has heard all
/// neighbors of its own.
const QUIET_IN_SPITE_OF_PROMISE: Duration = Duration::from_secs(30);

/// What carries the routes of a session that is up: for whoever reads and writes its connection.
#[derive(Debug)]
pub struct Link {
    /// For the connection's intake.
    pub reading: Reading,
    /// Joins what the tables have for the peer.
    pub writer: Writer,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub config: NeighborConfig,
    pub session: Session,
    /// The session's next deadline, as it is kept among those of all.
    pub deadline: Option<Instant>,
    /// The number of the session that is up.
    pub life: Option<SessionEpoch>,
    /// Families that the neighbour has told all its routes of in this session.
    pub end_of_rib: ByFamily<bool>,
    /// The arrival of this session's last UPDATE; the session's beginning if no UPDATE arrived.
    pub last_update: Instant,
    /// No longer configured; stays until the tables have forgotten its routes.
    pub retired: bool,
    connections: SmallVec<[(ConnectionId, Endpoints); 2]>,
    /// What this session, and earlier ones, read and wrote.
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
            connections: SmallVec::new(),
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

    /// This router's addresses on a connection.
    pub fn endpoints(&self, id: ConnectionId) -> Option<Endpoints> {
        self.connections.iter().find(|(known, _)| *known == id).map(|(_, endpoints)| *endpoints)
    }

    pub fn info(&self, negotiated: &Negotiated) -> PeerInfo {
        let internal = self.session.config().is_internal();
        PeerInfo {
            router_id: negotiated.router_id,
            address: self.config.address,
            internal,
            direct: !internal && self.config.multihop.is_none(),
        }
    }

    /// A session is up; what carries its routes, and how it is told them. `source` is the router's number in provenance ids.
    pub fn up(
        &mut self,
        peer: PeerIndex,
        life: SessionEpoch,
        id: ConnectionId,
        negotiated: &Negotiated,
        spread: Spread,
        source: u16,
    ) -> Option<(Link, PeerExport)> {
        let outlet = self.outlet(id, negotiated)?;
        let endpoints = self.endpoints(id)?;
        let config = self.session.config();
        let rules = ReceiveRules {
            local_as: config.local_as,
            router_id: config.router_id,
            peer_as: config.peer_as,
            four_octet_as: negotiated.four_octet_as,
            families: negotiated.families,
            local_address: endpoints.local,
            interface: endpoints.interface,
            link_local: endpoints.link_local,
            enforce_first_as: self.config.enforce_first_as,
            relationship: config.relationship,
        };
        self.life = Some(life);
        // Every neighbour's UPDATEs have numbers of their own, so that whoever reads them draws without asking.
        let first = u64::from(peer.0) << 32 | (self.read().updates & u64::from(u32::MAX));
        let reading = Reading {
            peer,
            life,
            reader: Reader::new(rules, spread),
            provenance: Provenance::new(source, first),
        };
        Some((Link { reading, writer: Writer::new(peer, spread.tables()) }, outlet))
    }

    /// Returns the time when the neighbor counts as one that has announced all its routes, if no UPDATE comes until then: at once after
    /// End-of-RIB markers of all families, else after a time of silence. `None` while there is no session.
    pub fn announced_all_by(&self) -> Option<Instant> {
        let negotiated = self.session.negotiated()?;
        let is_ended = negotiated.families.iter().all(|family| self.end_of_rib[family]);
        let quiet = if negotiated.promises_end_of_rib { QUIET_IN_SPITE_OF_PROMISE } else { QUIET };
        Some(if is_ended { Instant::ZERO } else { self.last_update + quiet })
    }

    fn outlet(&self, id: ConnectionId, negotiated: &Negotiated) -> Option<PeerExport> {
        let endpoints = self.endpoints(id)?;
        let (config, internal) = (&self.config, self.session.config().is_internal());
        let next_hops = ByFamily::from_fn(|family| (family.row().own_next_hop)(&endpoints));
        let key = GroupKey {
            internal,
            four_octet_as: negotiated.four_octet_as,
            link_local: false,
            next_hop_self: internal && config.next_hop_self,
            relationship: config.relationship.filter(|_| !internal),
            graceful_shutdown: config.graceful_shutdown,
        };
        let is_direct = !internal && config.multihop.is_none();
        let subnet = endpoints.subnet.filter(|_| is_direct && !config.next_hop_self);
        Some(PeerExport {
            families: negotiated.families.and(Families::of(|family| !next_hops[family].is_empty())),
            keys: ByFamily::from_fn(|family| GroupKey { link_local: next_hops[family].len() == 32, ..key }),
            next_hops,
            shared: subnet.map(|subnet| (subnet, config.address)),
        })
    }

    /// How the neighbour is told routes as it is configured now, if its session is up.
    pub fn current_outlet(&self) -> Option<PeerExport> {
        self.outlet(self.session.established()?, self.session.negotiated()?)
    }

    /// Families that both sides want and of which the neighbor is told nothing, as this router has no next hop of its own for them.
    pub fn untold(&self) -> Families {
        let agreed = self.session.negotiated().map(|n| n.families).unwrap_or_default();
        self.current_outlet().map_or(Families::default(), |outlet| agreed.without(outlet.families))
    }

    pub fn down(&mut self) -> Option<SessionEpoch> {
        (self.read_before, self.sent_before) = (self.read(), self.sent());
        (self.read, self.sent) = (ReaderCounters::default(), Sent::default());
        self.end_of_rib = ByFamily::default();
        self.life.take()
    }

    /// What was read in all sessions.
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
        }
    }
}
