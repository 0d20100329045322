//! Control on its way to another process: who the neighbors are, and the sessions that are up.

use super::config::{Config, Identity};
use super::control::{Control, Output};
use super::dynamic::RangeCounters;
use super::filters::{FilterState, Filters};
use super::limits::{LimitStop, Limits};
use super::peer::{Carrier, Peer};
use super::peers::Peers;
use super::presence::PresenceQuestion;
use super::redistribution::Redistributed;
use super::refresh::Refreshes;
use super::restart::Restart;
use crate::aggregate::AggregateAttributes;
use crate::endpoints::Endpoints;
use crate::family::ByFamily;
use crate::policy::Policies;
use crate::reader::ReaderCounters;
use crate::session::{self, ConnectionId, SessionState};
use crate::shard::{PeerIndex, Sent};
use crate::table::{Order, SessionEpoch};
use crate::writer::Writer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Instant, IpPrefix};
use sluice_machine::{Machine, Outbox};

/// What control knows, in a form that outlives it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpeakerState {
    /// What holds for the life of a router: the tables of the next process spread prefixes as those before.
    pub identity: Identity,
    /// The configuration.
    pub config: Config,
    redistributed: Vec<Redistributed>,
    aggregates: Vec<(AnyPrefix, AggregateAttributes)>,
    present: Vec<PresenceQuestion>,
    peers: Vec<PeerState>,
    ranges: Vec<(IpPrefix, RangeCounters)>,
    life: SessionEpoch,
    started: Instant,
    all_announced: bool,
}

/// A neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PeerState {
    address: IpAddr,
    index: u16,
    session: SessionState,
    life: Option<SessionEpoch>,
    end_of_rib: ByFamily<bool>,
    #[serde(default)]
    misses_routes: bool,
    endpoints: Option<Endpoints>,
    filters: FilterState,
    restart: Restart,
    refreshes: Refreshes,
    stopped: Option<LimitStop>,
    /// In this session, and in those before.
    read: [ReaderCounters; 2],
    sent: [Sent; 2],
}

impl SpeakerState {
    /// Takes the redistributed routes out, of which there may be many, and the policies, which the next process reads from its own
    /// configuration: what is left is small.
    pub fn take_large(&mut self) -> Vec<Redistributed> {
        self.config.policies = Policies::default();
        core::mem::take(&mut self.redistributed)
    }

    /// Puts back what [`SpeakerState::take_large`] took out.
    pub fn put_large(&mut self, policies: Policies, redistributed: Vec<Redistributed>) {
        self.config.policies = policies;
        self.redistributed = redistributed;
    }

    /// The connections of sessions that are up.
    pub fn established(&self) -> impl Iterator<Item = (IpAddr, ConnectionId)> {
        self.peers.iter().filter_map(|p| Some((p.address, p.session.connection()?)))
    }
}

impl Control {
    pub(super) fn export_state(&self) -> SpeakerState {
        let peers = &self.peers;
        let neighbors = peers.addresses().filter_map(|a| peers.config(a).cloned());
        let states = peers.by_address.iter().filter_map(|(address, index)| {
            // Injections end with the process.
            let peer = peers.peers.get(usize::from(index.0))?.as_deref().filter(|p| p.injection.is_none())?;
            Some(peer.export_state(*address, *index))
        });
        SpeakerState {
            identity: peers.identity.clone(),
            config: Config { neighbors: neighbors.collect(), ..self.config() },
            redistributed: self.redistributed.export(),
            aggregates: self.aggregation.export(),
            present: self.presences.export(),
            peers: states.collect(),
            ranges: peers.ranges.export(),
            life: peers.life,
            started: self.started,
            all_announced: self.all_announced,
        }
    }

    pub(super) fn import_state(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        (self.started, self.all_announced) = (state.started, state.all_announced);
        self.look_at = (!state.all_announced).then_some(now);
        if state.all_announced {
            self.peers.end_deferral(out);
        }
        self.peers.life = state.life;
        self.peers.bindings.policies = state.config.policies.clone();
        self.import_presence(state.present);
        // Neighbors without a session stay for the time of their range.
        self.peers.ranges.configure(now, state.config.ranges.clone());
        for peer in state.peers {
            let config = state.config.neighbors.iter().find(|n| n.address == peer.address);
            if let Some(config) = config {
                let new = Peer::new(config.clone(), &self.peers.identity, self.peers.rng.next_u64());
                self.peers.import(now, peer, new, out);
            }
        }
        self.configure(now, state.config, out);
        self.peers.ranges.import(&state.ranges);
        self.redistribute(state.redistributed, out);
        self.import_aggregates(state.aggregates, out);
    }
}

impl Peer {
    fn export_state(&self, address: IpAddr, index: PeerIndex) -> PeerState {
        PeerState {
            address,
            index: index.0,
            session: self.session.export(),
            life: self.life,
            end_of_rib: self.end_of_rib,
            misses_routes: self.misses_routes,
            filters: self.filters.export(),
            restart: self.restart.clone(),
            refreshes: self.refreshes.clone(),
            stopped: self.limits.stopped().copied(),
            endpoints: self.session.established().and_then(|id| self.endpoints(id)),
            read: [self.read, self.read_before],
            sent: [self.sent, self.sent_before],
        }
    }
}

impl Peers {
    fn import(&mut self, now: Instant, state: PeerState, peer: Peer, out: &mut Outbox<Output>) {
        let (index, address) = (PeerIndex(state.index), state.address);
        let place = usize::from(state.index);
        if index.is_own() || place > Self::MOST_NEIGHBORS {
            return;
        }
        if self.peers.len() <= place {
            // Numbers between, which nobody has.
            self.free.extend((self.peers.len()..place).map(|free| PeerIndex(free as u16)));
            self.peers.resize_with(place + 1, || None);
        }
        self.free.remove(&index);
        let peer = &mut **self.peers[place].insert(Box::new(peer));
        self.by_address.insert(address, index);
        [peer.read, peer.read_before] = state.read;
        [peer.sent, peer.sent_before] = state.sent;
        (peer.restart, peer.refreshes) = (state.restart, state.refreshes);
        peer.limits = Limits::resumed(state.stopped);
        let up = state.session.connection().zip(state.session.negotiated().copied()).zip(state.endpoints);
        let mut session_out = Outbox::new();
        peer.session.import(now, state.session, &mut session_out);
        if let (Some(((connection, negotiated), endpoints)), Some(life)) = (up, state.life) {
            peer.opened(connection, endpoints);
            peer.filters = Filters::resumed(state.filters);
            peer.end_of_rib = state.end_of_rib;
            peer.misses_routes = state.misses_routes;
            peer.last_update = now;
            let info = peer.info(negotiated.router_id);
            let carrier = Carrier { peer: index, life, spread: self.spread, source: self.identity.source };
            if let Some((mut link, import, outlet)) =
                peer.up(carrier, connection, &negotiated, &mut self.bindings)
            {
                link.reading.reader.counters = state.read[0];
                link.writer =
                    Writer::resumed(index, self.spread.tables(), self.identity.codes, state.sent[0])
                        .marking(negotiated.enhanced_refresh);
                out.push(Output::Order(None, Order::PeerUp { peer: index, life, info, import }));
                out.push(Output::Order(None, Order::Open(index, Box::new(outlet))));
                out.push(Output::Up(address, connection, Box::new(link)));
            }
        } else if let Some(router_id) = peer.restart.router_id.filter(|_| !peer.restart.kept().is_empty()) {
            // The tables take the routes that stay only of peers that they know.
            let import = peer.import(&mut self.bindings);
            let (info, life) = (peer.info(router_id), self.life);
            out.push(Output::Order(None, Order::PeerUp { peer: index, life, info, import }));
        }
        self.session_outputs(now, index, &mut session_out, out);
    }

    /// Nothing will be said for a while.
    pub(super) fn pause(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.each_session(now, out, |session, session_out| session.pause(now, session_out));
    }

    /// What was said meanwhile is read from now on.
    pub(super) fn go_on(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.each_session(now, out, |session, _| session.go_on(now));
    }

    fn each_session(
        &mut self,
        now: Instant,
        out: &mut Outbox<Output>,
        act: impl Fn(&mut session::Session, &mut Outbox<session::Output>),
    ) {
        let mut session_out = Outbox::new();
        for place in usize::from(PeerIndex::OWN_SOURCES)..self.peers.len() {
            if let Some(peer) = &mut self.peers[place] {
                act(&mut peer.session, &mut session_out);
            }
            self.session_outputs(now, PeerIndex(place as u16), &mut session_out, out);
        }
    }
}
