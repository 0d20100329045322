//! Peers without a session, whose routes come from traces ([`crate::injection`]).
//!
//! Such a peer has a number, policies and a session's number like a neighbor, so the tables see no difference. No routes are
//! advertised to the peer, and the router does not wait for the peer's routes. The peer's session stays Idle. The peer exists
//! from the beginning of the injection until the operator ends the injection, or until a neighbor with the same address is
//! configured.

use super::registry::Peers;
use crate::attributes::ReceiveRules;
use crate::reader::ReaderCounters;
use crate::shard::{PeerIndex, RouteSource};
use crate::speaker::config::{Bindings, InjectionConfig};
use crate::speaker::messages::Output;
use crate::speaker::neighbor::{Carrier, Injection, Peer};
use crate::table::{Order, PeerImport, Retained};
use alloc::boxed::Box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{Instant, RouterId};
use sluice_machine::Outbox;

impl Peer {
    /// Returns the import of injected routes, if changed since sent to the tables.
    pub fn changed_import(&mut self, bindings: &mut Bindings) -> Option<PeerImport> {
        let local_as = self.session.config().local_as;
        let injection = self.injection.as_mut()?;
        let import = bindings.import(&self.config, local_as, None);
        if *injection.import == import {
            return None;
        }
        *injection.import = import.clone();
        Some(import)
    }

    /// Returns the rules for the routes of a trace: no next hop is an address of this router's end, as there is no connection.
    fn trace_rules(&self) -> ReceiveRules {
        let local: IpAddr = match self.config.address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        ReceiveRules { families: self.config.families(), ..self.receive_rules(local) }
    }

    /// Returns a BGP Identifier for a trace's peer, missing in traces of messages: an IPv4 address's, or else the highest.
    fn trace_id(&self) -> RouterId {
        match self.config.address {
            IpAddr::V4(address) => RouterId(address.to_bits()),
            IpAddr::V6(_) => RouterId(u32::MAX),
        }
    }
}

impl Peers {
    /// Returns true if the routes of an address come out of a trace.
    pub fn is_injected(&self, address: IpAddr) -> bool {
        self.of(address).is_some_and(|peer| peer.injection.is_some())
    }

    /// Begins an injection, or configures a known injection. Has no effect for the address of a neighbor.
    pub fn inject(&mut self, now: Instant, config: InjectionConfig, out: &mut Outbox<Output>) {
        let InjectionConfig { neighbor, is_installed } = config;
        let address = neighbor.address;
        if !self.by_address.contains_key(&address) {
            self.add(now, neighbor, out);
            if let Some(index) = self.by_address.get(&address).copied() {
                self.begin_trace(index, RouteSource::Trace { is_installed }, out);
            }
            return;
        }
        if self.is_injected(address)
            && let Some((_, peer)) = self.at(address)
        {
            peer.config = neighbor;
            self.set_policies(out);
        }
    }

    /// Begins the session of a trace.
    fn begin_trace(&mut self, index: PeerIndex, source: RouteSource, out: &mut Outbox<Output>) {
        self.life += 1;
        let (life, spread) = (self.life, self.spread);
        let carrier = Carrier { peer: index, life, spread, source: self.identity.source };
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let import = self.bindings.import(&peer.config, self.identity.local_as, None);
        peer.injection = Some(Injection { source, import: Box::new(import.clone()) });
        let info = peer.info(peer.trace_id());
        let reading = peer.begin_reading(carrier, peer.trace_rules());
        out.push(Output::Order(None, Order::PeerUp { peer: index, life, info, import }));
        out.push(Output::Injecting(peer.config.address, Box::new(reading)));
    }

    /// Ends the session of a trace: its routes are removed.
    fn end_trace(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let tables = self.spread.tables();
        let Some(life) = self.peer_mut(index).and_then(Peer::down) else { return };
        self.leaving.insert(index, (life, tables));
        out.push(Output::Order(None, Order::PeerDown(index, life, Retained::default())));
    }

    /// Ends a session in a trace, and begins the next one.
    pub fn restart_injection(&mut self, address: IpAddr, out: &mut Outbox<Output>) {
        let Some((index, peer)) = self.at(address) else { return };
        let Some(source) = peer.injection.as_ref().map(|injection| injection.source) else { return };
        self.end_trace(index, out);
        self.begin_trace(index, source, out);
    }

    /// Ends an injection, if the address has one.
    pub fn end_injection(&mut self, address: IpAddr, out: &mut Outbox<Output>) {
        if !self.is_injected(address) {
            return;
        }
        if let Some(index) = self.by_address.remove(&address) {
            self.end_trace(index, out);
            self.retire(index);
        }
    }

    /// Notes the reader's counters of a trace's present session.
    pub fn injected(&mut self, address: IpAddr, read: ReaderCounters) {
        if let Some((_, peer)) = self.at(address).filter(|(_, peer)| peer.injection.is_some()) {
            peer.read = read;
        }
    }
}
