//! Peers without a session, whose routes come out of traces: control's part ([`crate::injection`]).
//!
//! Such a peer has a number, policies and a session's number like a neighbor, so that the tables see no difference. Nothing is
//! advertised to it, and nobody waits for it. Its own session stays Idle. The peer exists from the beginning of the injection until
//! the operator ends it, or until a neighbor with the same address is configured.

use super::bindings::Bindings;
use super::config::NeighborConfig;
use super::control::{Control, Input, Output};
use super::inheritance::{Neighbor, Statements};
use super::peer::{Carrier, Peer};
use super::peers::Peers;
use super::settings::{Owner, Settings, SettingsError};
use super::{Output as SpeakerOutput, Speaker};
use crate::attributes::ReceiveRules;
use crate::injection::{Injected, InjectionError, Injector};
use crate::intake::Reading;
use crate::policy::DefaultPolicy;
use crate::reader::ReaderCounters;
use crate::shard::{PeerIndex, RouteSource};
use crate::table::{Order, PeerImport, Retained};
use alloc::boxed::Box;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{Asn, Instant, RouterId};
use sluice_machine::Outbox;

/// The source of injected routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectionConfig {
    /// The peer, as if it were a neighbor.
    pub neighbor: NeighborConfig,
    /// True if the RIB is told the routes.
    pub is_installed: bool,
}

/// A peer's trace.
#[derive(Debug)]
pub(super) struct Injection {
    pub source: RouteSource,
    /// The import that the tables know.
    pub import: Box<PeerImport>,
}

impl Settings {
    /// Returns the source of injected routes with this address, by the statements of a group. The AS is `peer_as`, or else the group's.
    /// Without a group, all routes are accepted unchanged, and the AS path need not begin with the AS.
    ///
    /// # Errors
    /// There is no such group, or no AS, or statements of the group contradict each other.
    pub fn injection(
        &self,
        address: IpAddr,
        peer_as: Option<Asn>,
        group: Option<&str>,
    ) -> Result<NeighborConfig, SettingsError> {
        let owner = Owner::Neighbor(address);
        self.check_group(owner, group)?;
        let mut statements = Statements::default();
        statements.peer_as = peer_as;
        let neighbor = Neighbor { address, group: group.map(String::from), statements };
        let mut config = self.joined(&neighbor).ok_or(SettingsError::NoAs(owner))?;
        self.check_neighbor(owner, &config)?;
        if group.is_none() {
            config.default_policy = Some(DefaultPolicy::Accept);
            config.enforce_first_as = false;
        }
        // A trace has routes of both families, whatever the address of the peer.
        for family in [&mut config.ipv4_unicast, &mut config.ipv6_unicast] {
            family.enabled.get_or_insert(true);
        }
        // Nobody can be asked for routes that were not stored.
        Ok(NeighborConfig { enabled: false, keep_rejected: true, multihop: Some(u8::MAX), ..config })
    }
}

impl Peer {
    /// Returns the import of injected routes, if the tables know another one.
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

    /// Returns the BGP Identifier of a trace's peer, which traces of messages do not have: that of an IPv4 address, or else the highest one.
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

    /// Begins an injection, or configures one that there is already. Does nothing if the address is a neighbor's.
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

    /// Notes what was read of a trace so far in its present session.
    pub fn injected(&mut self, address: IpAddr, read: ReaderCounters) {
        if let Some((_, peer)) = self.at(address).filter(|(_, peer)| peer.injection.is_some()) {
            peer.read = read;
        }
    }
}

impl Control {
    /// Returns the addresses of the sources of injected routes, in order.
    pub fn injections(&self) -> impl Iterator<Item = IpAddr> {
        let injected = self.peers.configured().filter(|peer| peer.injection.is_some());
        injected.map(|peer| peer.config.address)
    }

    /// Returns true if the routes of an address come out of a trace.
    pub fn is_injected(&self, address: IpAddr) -> bool {
        self.peers.is_injected(address)
    }

    /// Returns the counts of a peer's UPDATEs.
    pub fn injection_counters(&self, address: IpAddr) -> Option<ReaderCounters> {
        self.peers.of(address).map(Peer::read)
    }
}

impl Speaker {
    /// Begins an injection of the routes of `wanted` in a trace, or configures one that there is already.
    pub fn begin_injection(
        &mut self,
        now: Instant,
        config: InjectionConfig,
        wanted: IpAddr,
        out: &mut Outbox<SpeakerOutput>,
    ) {
        let address = config.neighbor.address;
        self.control(now, Input::Inject(Box::new(config)), out);
        if let Some(injector) = self.injectors.remove(&address) {
            let reading = injector.into_reading();
            self.injectors.insert(address, Injector::new(reading, wanted));
        }
        self.offer(out);
    }

    /// Takes the session of a trace.
    pub(super) fn injecting(&mut self, address: IpAddr, reading: Reading) {
        match self.injectors.get_mut(&address) {
            Some(injector) => injector.open(reading),
            None => drop(self.injectors.insert(address, Injector::new(reading, address))),
        }
    }

    /// Takes octets of a trace.
    ///
    /// # Errors
    /// The trace cannot be read on.
    pub fn inject(
        &mut self,
        now: Instant,
        address: IpAddr,
        mut octets: &[u8],
        out: &mut Outbox<SpeakerOutput>,
    ) -> Result<(), InjectionError> {
        while let Some(injector) = self.injectors.get_mut(&address) {
            let session = (injector.reading().peer, injector.reading().life);
            let taken = injector.take(&mut octets, &mut self.batches);
            let read = injector.reading().reader.counters;
            self.apply_in(now, session, out);
            self.control(now, Input::Injected(address, read), out);
            match taken {
                Ok(Injected::Full) => {}
                Ok(Injected::SessionOver) => self.control(now, Input::RestartInjection(address), out),
                Ok(Injected::Nothing) => break,
                Err(error) => {
                    self.offer(out);
                    return Err(error);
                }
            }
        }
        self.offer(out);
        Ok(())
    }

    /// Ends an injection. Returns the error of a trace that ends in the middle of a record, or could not be read.
    ///
    /// # Errors
    /// See above.
    pub fn end_injection(
        &mut self,
        now: Instant,
        address: IpAddr,
        out: &mut Outbox<SpeakerOutput>,
    ) -> Result<(), InjectionError> {
        let finished = self.injectors.remove(&address).map_or(Ok(()), |injector| injector.finish());
        self.control(now, Input::EndInjection(address), out);
        self.offer(out);
        finished
    }
}
