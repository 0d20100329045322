//! The sessions that continue in a new process.

use super::registry::Peers;
use crate::endpoints::Endpoints;
use crate::family::ByFamily;
use crate::reader::ReaderCounters;
use crate::session::{self, SessionState};
use crate::shard::{PeerIndex, Sent};
use crate::speaker::messages::Output;
use crate::speaker::neighbor::{Carrier, FilterState, Filters, LimitStop, Limits, Peer, Refreshes, Restart};
use crate::table::{Order, SessionEpoch};
use crate::writer::Writer;
use alloc::boxed::Box;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

/// A neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PeerState {
    pub(crate) address: IpAddr,
    index: u16,
    pub(crate) session: SessionState,
    life: Option<SessionEpoch>,
    end_of_rib: ByFamily<bool>,
    #[serde(default)]
    misses_routes: bool,
    endpoints: Option<Endpoints>,
    filters: FilterState,
    restart: Restart,
    refreshes: Refreshes,
    stopped: Option<LimitStop>,
    /// In the present session, and in earlier sessions.
    read: [ReaderCounters; 2],
    sent: [Sent; 2],
}

impl Peer {
    pub(crate) fn export_state(&self, address: IpAddr, index: PeerIndex) -> PeerState {
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
    pub(crate) fn import(&mut self, now: Instant, state: PeerState, peer: Peer, out: &mut Outbox<Output>) {
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

    /// Prepares a pause of the router.
    pub(crate) fn pause(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.each_session(now, out, |session, session_out| session.pause(now, session_out));
    }

    /// Notes that messages which arrived meanwhile are read from now on.
    pub(crate) fn go_on(&mut self, now: Instant, out: &mut Outbox<Output>) {
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
