//! A neighbour: its session, its connections, and reader and writer while the session is up.

use super::config::{Identity, NeighborConfig};
use crate::attributes::ReceiveRules;
use crate::reader::{Framer, Reader, ReaderCounters};
use crate::session::{ConnectionId, Negotiated, Session};
use crate::shard::{PeerIndex, PeerInfo, Sent};
use crate::shards::Tables;
use crate::writer::{Endpoints, Writer};
use smallvec::SmallVec;

/// What there is only while a session is up.
#[derive(Debug)]
pub(super) struct Link {
    pub reader: Reader,
    pub writer: Writer,
    /// Whether the driver knows that there is something to write.
    pub offered: bool,
    /// Families that the neighbour has told all its routes of.
    pub end_of_rib: [bool; 2],
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    endpoints: Endpoints,
    framer: Framer,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub config: NeighborConfig,
    pub session: Session,
    pub link: Option<Link>,
    /// No longer configured; stays until the shards have forgotten its routes.
    pub retired: bool,
    connections: SmallVec<[Connection; 2]>,
    /// What earlier sessions read and wrote.
    read_before: ReaderCounters,
    sent_before: Sent,
}

impl Peer {
    pub fn new(config: NeighborConfig, identity: &Identity, seed: u64) -> Self {
        let session = Session::new(config.session(identity), seed);
        Peer {
            config,
            session,
            link: None,
            retired: false,
            connections: SmallVec::new(),
            read_before: ReaderCounters::default(),
            sent_before: Sent::default(),
        }
    }

    pub fn opened(&mut self, id: ConnectionId, endpoints: Endpoints) {
        self.connections.push(Connection { id, endpoints, framer: Framer::default() });
    }

    pub fn forget(&mut self, id: ConnectionId) {
        self.connections.retain(|c| c.id != id);
    }

    /// Takes the framer out for the time of reading.
    pub fn take_framer(&mut self, id: ConnectionId) -> Option<Framer> {
        let connection = self.connections.iter_mut().find(|c| c.id == id)?;
        Some(core::mem::take(&mut connection.framer))
    }

    pub fn give_framer(&mut self, id: ConnectionId, framer: Framer) {
        if let Some(connection) = self.connections.iter_mut().find(|c| c.id == id) {
            connection.framer = framer;
        }
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

    pub fn up(
        &mut self,
        index: PeerIndex,
        id: ConnectionId,
        negotiated: &Negotiated,
        tables: &mut impl Tables,
    ) {
        let Some(connection) = self.connections.iter().find(|c| c.id == id) else { return };
        let endpoints = connection.endpoints;
        let config = self.session.config();
        let rules = ReceiveRules {
            local_as: config.local_as,
            peer_as: config.peer_as,
            four_octet_as: negotiated.four_octet_as,
            families: negotiated.families,
            local_address: endpoints.local,
            enforce_first_as: self.config.enforce_first_as,
        };
        let next_hop_self = self.config.next_hop_self;
        let writer = Writer::new(index, negotiated, config.is_internal(), next_hop_self, &endpoints, tables);
        let reader = Reader::new(rules, tables.spread());
        self.link = Some(Link { reader, writer, offered: false, end_of_rib: [false; 2] });
    }

    /// Lets the neighbour be told everything once more, as it is configured now.
    pub fn rejoin(&mut self, tables: &mut impl Tables) {
        let internal = self.session.config().is_internal();
        if let (Some(link), Some(negotiated)) = (&self.link, self.session.negotiated()) {
            link.writer.rejoin(negotiated, internal, self.config.next_hop_self, tables);
        }
    }

    pub fn down(&mut self) {
        self.read_before = self.read();
        self.sent_before = self.sent();
        self.link = None;
    }

    /// What was read in all sessions.
    pub fn read(&self) -> ReaderCounters {
        let before = self.read_before;
        let now = self.link.as_ref().map_or(ReaderCounters::default(), |l| l.reader.counters);
        ReaderCounters {
            updates: before.updates + now.updates,
            octets: before.octets + now.octets,
            announced: before.announced + now.announced,
            withdrawn: before.withdrawn + now.withdrawn,
            treated_as_withdraw: before.treated_as_withdraw + now.treated_as_withdraw,
            attribute_discards: before.attribute_discards + now.attribute_discards,
            loops: before.loops + now.loops,
            unroutable: before.unroutable + now.unroutable,
        }
    }

    /// What was sent in all sessions.
    pub fn sent(&self) -> Sent {
        let before = self.sent_before;
        let now = self.link.as_ref().map_or(Sent::default(), |l| l.writer.sent);
        Sent {
            updates: before.updates + now.updates,
            announced: before.announced + now.announced,
            withdrawn: before.withdrawn + now.withdrawn,
        }
    }
}
