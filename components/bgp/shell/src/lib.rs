//! BGP-4: the process.
//!
//! Sockets come from the FEA ([`sockets`]) and are served by a pair of tasks each ([`connection`]); best routes go to the RIB
//! and next hops are asked of it ([`rib`]); what operators ask is answered from the core's views ([`service`]). No rule of the
//! protocol is here.

pub mod config;
mod connection;
mod ffi;
mod interfaces;
mod listening;
mod rib;
mod service;
mod sockets;

sluice_xrl::include_idl!();

use connection::Outgoing;
use interfaces::Interfaces;
use listening::Listening;
use rib::{Question, RibSide};
use sluice_base::{Distance, Duration, InterfaceEvent, IpPrefix, TableId};
use sluice_bgp::event::{Event, PeerEvent};
use sluice_bgp::session::{ConnectionId, State};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Identity, Input, Output, Speaker};
use sluice_machine::Machine;
use sluice_shell::{Component, Driver, Frame, Point, RibOrigin, RibOriginSettings, RunOptions};
use sluice_xrl::idl::fea::v1::{self as fea, interface_observer_service};
use sluice_xrl::idl::rib::v1::{self as pb, interest_holder_service, origin_owner_service};
use sluice_xrl::{CallContext, LifeEvent, Service, XrlError};
use sockets::Sockets;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use tracing::{debug, info, warn};

/// How long BGP's routes outlive their process: as long as sessions take to come back and tell everything.
const GRACE: Duration = Duration::from_secs(120);

/// The process of BGP.
pub struct BgpShell {
    frame: Frame,
    me: Weak<BgpShell>,
    /// The core, once it is configured who the router is.
    driver: RefCell<Option<Rc<Driver<Speaker>>>>,
    identity: RefCell<Option<Identity>>,
    origin: Rc<RibOrigin>,
    rib: RibSide,
    sockets: Sockets,
    listening: Listening,
    connections: RefCell<BTreeMap<(IpAddr, ConnectionId), Rc<Outgoing>>>,
    accepted: Cell<u32>,
    started: std::time::Instant,
    converged: Cell<bool>,
    interfaces: RefCell<Interfaces>,
    entering: Point,
}

/// Runs BGP until it is told to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_shell::run(options, |frame| async move { Ok(BgpShell::new(frame)) })
}

impl BgpShell {
    /// The process's shell, not yet registered nor configured.
    pub fn new(frame: Frame) -> Rc<Self> {
        let settings = RibOriginSettings {
            name: BgpShell::CLASS.into(),
            table: TableId::MAIN,
            distance: Distance::EBGP,
            external: true,
            grace: GRACE,
        };
        Rc::new_cyclic(|me| BgpShell {
            me: me.clone(),
            driver: RefCell::new(None),
            identity: RefCell::new(None),
            origin: RibOrigin::new(&frame.router, settings),
            entering: frame.profile.point("route_enters_bgp"),
            rib: RibSide::new(&frame),
            sockets: Sockets::new(&frame),
            listening: Listening::default(),
            connections: RefCell::default(),
            accepted: Cell::new(0),
            started: std::time::Instant::now(),
            converged: Cell::new(false),
            interfaces: RefCell::default(),
            frame,
        })
    }

    fn core(&self) -> Option<Rc<Driver<Speaker>>> {
        self.driver.borrow().clone()
    }

    /// Looks at the core, or pulls something out of it; `None` before it is configured.
    fn with<R>(&self, look: impl FnOnce(&mut Speaker) -> R) -> Option<R> {
        self.core().map(|driver| driver.with(look))
    }

    fn input(&self, input: Input) {
        if let Some(driver) = self.core() {
            driver.input(input);
        }
    }

    /// Octets came from a neighbour.
    fn received(&self, input: Input) {
        let Some(driver) = self.core() else { return };
        let profiled = self.entering.is_on();
        driver.with(|speaker| speaker.trace(profiled));
        driver.input(input);
        if profiled {
            for (prefix, withdrawn, provenance) in driver.with(Speaker::take_traced) {
                self.entering.record(prefix, withdrawn, provenance);
            }
        }
    }

    /// A connection is gone, or could not be made.
    fn lost(&self, neighbor: IpAddr, id: ConnectionId) {
        if let Some(outgoing) = self.connections.borrow_mut().remove(&(neighbor, id)) {
            outgoing.close();
        }
        self.input(Input::Closed(neighbor, id));
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        let connection = |address, id| self.connections.borrow().get(&(address, id)).cloned();
        match output {
            Output::Connect(address, id) => self.connect(address, id),
            Output::Close(address, id) => {
                if let Some(outgoing) = self.connections.borrow_mut().remove(&(address, id)) {
                    outgoing.close();
                }
            }
            Output::Send(address, id, octets) => {
                if let Some(outgoing) = connection(address, id) {
                    outgoing.send(&octets);
                }
            }
            Output::Transmit(address, id) => {
                if let Some(outgoing) = connection(address, id) {
                    outgoing.transmit();
                }
            }
            Output::RibReady(family) => self.rib.routes_ready(family),
            Output::InterestIpv4(Interest::Register(addr)) => self.rib.ask(Question::Register(addr.into())),
            Output::InterestIpv6(Interest::Register(addr)) => self.rib.ask(Question::Register(addr.into())),
            Output::InterestIpv4(Interest::Deregister(p)) => self.rib.ask(Question::Deregister(p.into())),
            Output::InterestIpv6(Interest::Deregister(p)) => self.rib.ask(Question::Deregister(p.into())),
            Output::Event(event) => self.report(&event),
        }
    }

    fn report(&self, event: &Event) {
        match event.what {
            PeerEvent::Up | PeerEvent::Down(_) => info!("{event}"),
            PeerEvent::EndOfRib(_) => {
                debug!("{event}");
                self.rib.look();
            }
            PeerEvent::Session(_) => debug!("{event}"),
            PeerEvent::Malformed { .. } | PeerEvent::TooManyNeighbors => warn!("{event}"),
        }
    }

    /// Whether the RIB has been told what there is: all next hops are resolved (what waits for that is not announced yet), and
    /// every neighbour that is wanted has told all its routes since this process started, or the time for that is over.
    fn is_converged(&self) -> bool {
        if !self.converged.get() {
            self.converged.set(self.started.elapsed() >= GRACE || self.have_all_told());
        }
        self.converged.get() && self.with(|speaker| speaker.shards().is_resolved()).unwrap_or(false)
    }

    fn have_all_told(&self) -> bool {
        let all_told = |speaker: &mut Speaker| {
            let addresses: Vec<IpAddr> = speaker.neighbors().collect();
            addresses.into_iter().filter_map(|a| speaker.neighbor(a)).all(|n| {
                let families = n.negotiated.map(|n| n.families).unwrap_or_default();
                let told = (!families.ipv4 || n.end_of_rib[0]) && (!families.ipv6 || n.end_of_rib[1]);
                !n.config.enabled || (n.state == State::Established && told)
            })
        };
        self.with(all_told).unwrap_or(false)
    }

    fn connect(self: &Rc<Self>, address: IpAddr, id: ConnectionId) {
        let outgoing = Rc::new(Outgoing::default());
        self.connections.borrow_mut().insert((address, id), Rc::clone(&outgoing));
        let me = Rc::clone(self);
        let task = tokio::task::spawn_local({
            let outgoing = Rc::clone(&outgoing);
            async move {
                let Some((config, internal)) = me.neighbor(address) else { return };
                match me.sockets.connect(&config, internal).await {
                    Ok(stream) => me.opened(address, id, stream, outgoing),
                    Err(error) => {
                        debug!(%address, %error, "no connection");
                        me.lost(address, id);
                    }
                }
            }
        });
        outgoing.own(task.abort_handle());
    }

    fn neighbor(&self, address: IpAddr) -> Option<(sluice_bgp::speaker::NeighborConfig, bool)> {
        let config = self.with(|speaker| speaker.neighbor_config(address).cloned())??;
        let internal = self.identity.borrow().as_ref().is_some_and(|i| i.local_as == config.peer_as);
        Some((config, internal))
    }

    /// A connection is there: made, or accepted.
    fn opened(
        self: &Rc<Self>,
        address: IpAddr,
        id: ConnectionId,
        stream: tokio::net::TcpStream,
        outgoing: Rc<Outgoing>,
    ) {
        let Ok(local) = stream.local_addr() else { return self.lost(address, id) };
        let endpoints = self.interfaces.borrow().endpoints(local.ip().to_canonical(), address);
        connection::start(self, address, id, stream, outgoing);
        self.input(match id.direction {
            sluice_bgp::session::Direction::Outgoing => Input::Connected(address, id, endpoints),
            sluice_bgp::session::Direction::Incoming => Input::Accepted(address, id, endpoints),
        });
    }

    fn start_core(self: &Rc<Self>, settings: &config::Settings) -> Result<(), String> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| format!("no randomness: {e}"))?;
        let identity = Identity {
            local_as: settings.local_as,
            router_id: settings.router_id,
            seed: u64::from_ne_bytes(seed),
            tables: 1,
            source: self.frame.provenance.source(),
        };
        let me = self.me.clone();
        let effect = move |output| {
            if let Some(me) = me.upgrade() {
                me.carry_out(output);
            }
        };
        let driver = Rc::new(Driver::new(Speaker::new(identity.clone()), effect));
        self.identity.replace(Some(identity));
        self.driver.replace(Some(Rc::clone(&driver)));
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // Background work may have been what the RIB waits for.
            driver.run_telling(|| me.rib.look_if_due()).await;
        });
        Ok(())
    }

    async fn follow_interfaces(self: Rc<Self>, instance: String) {
        let client = fea::InterfacesClient::new(&self.frame.router, "fea");
        let Ok(mut lives) = self.frame.router.watch_class("fea").await else {
            return warn!("the Finder does not tell of the FEA; BGP has no sockets");
        };
        while let Some(event) = lives.next().await {
            if matches!(event, LifeEvent::Birth(_)) {
                if let Err(error) = client.subscribe(fea::SubscribeRequest { target: instance.clone() }).await
                {
                    warn!(%error, "the FEA does not tell of interfaces");
                }
                listening::refresh(&self, true).await;
            }
        }
    }
}

impl Component for BgpShell {
    const CLASS: &'static str = "bgp";

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            idl::bgp::v1::bgp_service(Rc::new(Served(Rc::clone(self)))),
            interface_observer_service(Rc::new(Served(Rc::clone(self)))),
            interest_holder_service(Rc::new(Served(Rc::clone(self)))),
            origin_owner_service(Rc::new(Served(Rc::clone(self)))),
        ]
    }

    async fn registered(self: Rc<Self>, instance: String) {
        let me = Rc::clone(&self);
        let again = move || {
            me.input(Input::RibRestarted);
            me.rib.refresh();
        };
        let (origin, router) = (Rc::clone(&self.origin), self.frame.router.clone());
        tokio::task::spawn_local(origin.keep_registered(router, instance.clone(), again));
        tokio::task::spawn_local(rib::ask(Rc::clone(&self), instance.clone()));
        tokio::task::spawn_local(rib::pump(Rc::clone(&self)));
        let me = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(GRACE).await;
            me.rib.look();
        });
        tokio::task::spawn_local(self.follow_interfaces(instance));
    }

    async fn configure(self: Rc<Self>, config: serde_json::Value, check_only: bool) -> Result<(), String> {
        let settings = config::settings(config)?;
        if check_only {
            return Ok(());
        }
        let changed = self
            .identity
            .borrow()
            .as_ref()
            .is_some_and(|i| (i.local_as, i.router_id) != (settings.local_as, settings.router_id));
        if changed {
            return Err("local-as and router-id hold for the life of the process: restart bgp".into());
        }
        if self.core().is_none() {
            self.start_core(&settings)?;
        }
        self.input(Input::Configure(settings.config));
        self.rib.look();
        listening::refresh(&self, false).await;
        Ok(())
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        // Unless this is the end the RIB keeps what it has, until the next life tells it more or the grace time is over.
        self.rib.stop();
        if for_good {
            self.origin.unregister().await;
        }
        // Neighbours are told, and that is written, before the process ends.
        let open: Vec<Rc<Outgoing>> = self.connections.borrow().values().cloned().collect();
        self.input(Input::Configure(sluice_bgp::speaker::Config::default()));
        for outgoing in open {
            outgoing.closed().await;
        }
    }

    fn export_state(&self) -> Vec<u8> {
        let state = self.with(|speaker| speaker.export());
        state.and_then(|state| postcard::to_allocvec(&state).ok()).unwrap_or_default()
    }
}

/// The shell as handlers see it: they need the shared pointer, to start tasks of their own.
struct Served(Rc<BgpShell>);

impl std::ops::Deref for Served {
    type Target = Rc<BgpShell>;

    fn deref(&self) -> &Rc<BgpShell> {
        &self.0
    }
}

impl fea::InterfaceObserver for Served {
    async fn interface_changed(
        &self,
        _ctx: &CallContext,
        request: fea::InterfaceChangedRequest,
    ) -> Result<fea::InterfaceChangedReply, XrlError> {
        for event in request.events {
            let event = InterfaceEvent::try_from(&event)
                .map_err(|e| XrlError::BadArguments(format!("events: {e}")))?;
            self.interfaces.borrow_mut().change(event);
        }
        Ok(fea::InterfaceChangedReply {})
    }
}

impl pb::InterestHolder for Served {
    async fn interest_invalid(
        &self,
        _ctx: &CallContext,
        request: pb::InterestInvalidRequest,
    ) -> Result<pb::InterestInvalidReply, XrlError> {
        for net in &request.valid {
            let prefix = IpPrefix::try_from(net)?;
            self.rib.take_back(prefix);
            self.input(Input::Invalid(prefix));
        }
        Ok(pb::InterestInvalidReply {})
    }
}

impl pb::OriginOwner for Served {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: pb::RoutesRejectedRequest,
    ) -> Result<pb::RoutesRejectedReply, XrlError> {
        if let Some(route) = request.routes.first() {
            let count = request.routes.len();
            warn!(reason = route.reason, count, "routes refused by the forwarding engine");
        }
        Ok(pb::RoutesRejectedReply {})
    }
}
