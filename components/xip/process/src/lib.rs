//! XIP: the process. It follows the FEA's interfaces and the RIB's routes of XIDs, reads and writes packets, and fills the
//! maps of the program `xip`. All rules are in the core (`sluice_xip`).

pub mod config;
mod fast_path;
pub mod ip_routes;
pub mod keys;
pub mod maps;
mod nwp;
mod principals;
mod proofs;
mod rings;
mod routes;
mod service;
mod tunnel;
mod view;

sluice_xrl::include_idl!();

use config::{ConfigError, EtherTypes, Settings};
use maps::{CacheLines, ProgramMaps};
use proofs::Proofs;
use service::Pings;
use sluice_base::{FamilyId, InterfaceEvent, InterfaceIndex, XidPrefix};
use sluice_process::part::Planned;
use sluice_process::{
    Driver, Link, PACKET_HOST, PACKET_OTHERHOST, PacketSocket, Prepared, Protocol, ProtocolFrame, RibOrigin,
    RibOriginSettings, RibSubscription, RunOptions,
};
use sluice_xip::early::{EarlyPacket, EarlyPackets};
use sluice_xip::io::{Input, Output};
use sluice_xip::links::Station;
use sluice_xip::machine::{FastPath, Xip};
use sluice_xip::wire::{ETHERTYPE_NWP, ETHERTYPE_XIP, LinkDestination};
use sluice_xrl::Service;
use sluice_xrl::idl::rib::v1 as rib;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::SystemTime;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use tracing::{info, warn};
use tunnel::TunnelSocket;

/// The origins of XID routes.
const ORIGINS: [&str; 4] = ["static", nwp::ORIGIN, "bgp", ip_routes::ORIGIN];

/// The sockets of an interface with the reading tasks.
struct InterfaceSockets {
    sockets: BTreeMap<u16, Rc<PacketSocket>>,
    readers: Vec<AbortHandle>,
}

impl Drop for InterfaceSockets {
    fn drop(&mut self) {
        self.readers.iter().for_each(AbortHandle::abort);
    }
}

/// The process of XIP.
pub struct XipProcess {
    /// Until the FEA has sent all interfaces, the program of an earlier process goes on: an empty cache would send packets to sockets that
    /// do not exist yet.
    protocol: ProtocolFrame,
    me: Weak<XipProcess>,
    driver: Driver<Xip<CacheLines>>,
    settings: RefCell<Option<Settings>>,
    sockets: RefCell<BTreeMap<InterfaceIndex, InterfaceSockets>>,
    maps: RefCell<Option<ProgramMaps>>,
    /// The AF_XDP sockets.
    rings: rings::Rings,
    tunnel: RefCell<Option<TunnelSocket>>,
    subscription: Rc<RibSubscription<XidPrefix>>,
    /// Routes that no principal takes, for the RIB.
    refusals: routes::Refusals,
    nwp: nwp::NeighborRoutes,
    /// IPv4 routes as routes of the principal LPM.
    ip_routes: Rc<ip_routes::IpRoutes>,
    /// True once the RIB has sent the routes that it had at the subscription.
    knows_routes: Cell<bool>,
    /// True once packets are decided on: routes and interfaces are known.
    decides: Cell<bool>,
    /// The packets that arrive before.
    early: RefCell<EarlyPackets>,
    pings: Pings,
    proofs: Proofs,
    /// Processes outside that decide for types of XIDs.
    principals: principals::Principals,
    /// The reason why the program does not run.
    without_program: RefCell<Option<String>>,
    /// The reasons why sockets are missing, by interface.
    without_sockets: RefCell<BTreeMap<String, String>>,
    changed: Notify,
}

sluice_process::served!(XipProcess);

/// Runs XIP until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let seed = getrandom::u64()?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let clock = since_epoch.as_secs() as u32;
        let settings = RibOriginSettings::new(nwp::ORIGIN, frame.table, nwp::DISTANCE, nwp::GRACE);
        let nwp = nwp::NeighborRoutes::new(RibOrigin::new(&frame.router, settings), frame.provenance);
        let ip_routes = Rc::new(ip_routes::IpRoutes::new(&frame));
        let subscription = RibSubscription::new(&frame.router, frame.table);
        subscription.set_origins(ORIGINS.map(String::from).to_vec());
        Ok(Rc::new_cyclic(|me: &Weak<XipProcess>| {
            let process = me.clone();
            let effect = move |output| {
                if let Some(process) = process.upgrade() {
                    process.carry_out(output);
                }
            };
            let (process, of_ip) = (me.clone(), Rc::clone(&ip_routes));
            let changed = move |changes| {
                if let Some(process) = process.upgrade() {
                    process.routes_changed(changes);
                }
            };
            let protocol = ProtocolFrame::new(frame)
                .with_interfaces()
                .with_origin(nwp.origin())
                .with_origin(ip_routes.origin())
                .with_subscription(&subscription, changed)
                .with_subscription(ip_routes.subscription(), move |changes| of_ip.changed(changes));
            XipProcess {
                driver: Driver::new(Xip::new(seed, clock), effect),
                me: me.clone(),
                protocol,
                settings: RefCell::default(),
                sockets: RefCell::default(),
                maps: RefCell::default(),
                rings: rings::Rings::default(),
                tunnel: RefCell::default(),
                subscription,
                refusals: routes::Refusals::default(),
                nwp,
                ip_routes,
                knows_routes: Cell::new(false),
                decides: Cell::new(false),
                early: RefCell::default(),
                pings: Pings::default(),
                proofs: Proofs::default(),
                principals: principals::Principals::default(),
                without_program: RefCell::default(),
                without_sockets: RefCell::default(),
                changed: Notify::new(),
            }
        }))
    })
}

impl XipProcess {
    fn carry_out(&self, output: Output) {
        match output {
            Output::Send { to, ether_type, octets } => {
                let sockets = self.sockets.borrow();
                let socket = sockets.get(&to.interface).and_then(|links| links.sockets.get(&ether_type));
                if let Some(socket) = socket {
                    socket.push(to.mac, octets);
                }
            }
            Output::Datagram { to, octets } => {
                if let Some(tunnel) = &*self.tunnel.borrow() {
                    tunnel.send(to, &octets);
                }
            }
            Output::Member(number, member) => {
                if let Some(maps) = &*self.maps.borrow() {
                    match member {
                        Some(member) => maps.set_member(number.0, member.into()),
                        None => maps.clear_member(number.0),
                    }
                }
            }
            Output::NeedsKey => {
                warn!(event = "xip.cache.key", "two rows of addresses collide; the cache gets another key");
                self.maps.take();
                self.changed.notify_one();
            }
            Output::Refused(prefix, reason) => {
                if let Some(reason) = &reason {
                    warn!(event = "xip.route.refused", %prefix, reason, "no principal takes the route of {prefix}: {reason}");
                }
                self.refusals.note(prefix, reason);
            }
            Output::Ask { kind, registration, xids } => self.ask(kind, registration, xids),
            Output::Pong(pong) => self.pings.answered(*pong),
            Output::Proof(request) => self.prove(request),
            Output::NeighborEvent(event) => self.report(event),
            // Hosts' sockets are not here yet: the core counts the packets.
            Output::Deliver { .. } => {}
            Output::Neighbor(xid, station, is_learned) => {
                self.nwp.changed(xid, station, is_learned);
            }
        }
    }

    /// Sends the packets of the last inputs.
    fn flush(&self) {
        let sockets = self.sockets.borrow();
        sockets.values().flat_map(|links| links.sockets.values()).for_each(|socket| socket.flush());
    }

    /// Decides on a packet, or keeps it until routes and interfaces are known.
    fn packet(&self, packet: EarlyPacket) {
        if self.decides.get() {
            self.driver.input(packet.into());
        } else {
            self.early.borrow_mut().push(packet);
        }
    }

    /// Notes that the RIB has sent all routes.
    fn routes_known(&self) {
        if !self.knows_routes.replace(true) {
            self.decide_early();
            self.changed.notify_one();
        }
    }

    /// Decides on the packets that waited, once the routes are known and the interfaces of their neighbors.
    fn decide_early(&self) {
        let is_known = self.knows_routes.get() && self.protocol.interfaces.is_complete();
        if !is_known || self.decides.replace(true) {
            return;
        }
        let early = self.early.borrow_mut().take();
        early.for_each(|packet| self.driver.input(packet.into()));
        self.flush();
    }

    fn input(&self, input: Input) {
        self.driver.input(input);
        self.flush();
    }

    /// Opens and closes sockets, and starts or stops the program, as the configuration and the interfaces want. For ever.
    async fn follow(self: Rc<Self>) {
        loop {
            self.changed.notified().await;
            let Some(settings) = self.settings.borrow().clone() else { continue };
            self.follow_sockets(&settings).await;
            tunnel::follow(&self, &settings).await;
            if self.maps.borrow().is_none() && self.decides.get() {
                self.start_program(&settings).await;
            }
            self.follow_rings(settings.punt_path, &self.wanted_interfaces(&settings));
        }
    }

    async fn start_program(&self, settings: &Settings) {
        let started = fast_path::start(&self.protocol.frame, &self.protocol.path, settings).await;
        // A program that is put anew knows no sockets.
        self.close_rings();
        match started {
            Ok((cache, maps)) => {
                self.maps.replace(Some(maps));
                self.without_program.take();
                // The core writes all members now.
                self.driver.request(FastPath(Some(cache)));
                self.flush();
                info!(event = "xip.program.started", "the program xip forwards");
            }
            Err(error) => {
                let text = error.to_string();
                if self.without_program.replace(Some(text.clone())) != Some(text) {
                    info!(event = "xip.program.missing", %error, "all packets come to this process: {error}");
                }
                self.driver.request(FastPath(None));
                self.flush();
            }
        }
    }

    /// Returns the interfaces of XIP that exist.
    fn wanted_interfaces(&self, settings: &Settings) -> BTreeMap<InterfaceIndex, String> {
        let all = self.protocol.interfaces.all().into_iter();
        all.filter(|(_, name)| settings.core.interfaces.contains_key(name)).collect()
    }

    /// Notes the configured interfaces that do not exist, and forgets what was wrong with interfaces that are no longer configured.
    fn note_missing(&self, settings: &Settings, existing: &BTreeMap<InterfaceIndex, String>) {
        let mut without = self.without_sockets.borrow_mut();
        without.retain(|name, _| name == tunnel::NAME || settings.core.interfaces.contains_key(name));
        let is_missing = |name: &&String| existing.values().all(|known| known != *name);
        if self.protocol.interfaces.is_complete() {
            for name in settings.core.interfaces.keys().filter(is_missing) {
                without.insert(name.clone(), format!("the interface {name} does not exist"));
            }
        }
    }

    async fn follow_sockets(self: &Rc<Self>, settings: &Settings) {
        let wanted = self.wanted_interfaces(settings);
        self.sockets.borrow_mut().retain(|index, _| wanted.contains_key(index));
        self.note_missing(settings, &wanted);
        for (index, name) in &wanted {
            if self.sockets.borrow().contains_key(index) {
                continue;
            }
            match self.open(*index, name, settings.ether_types).await {
                Ok(sockets) => {
                    self.sockets.borrow_mut().insert(*index, sockets);
                    self.without_sockets.borrow_mut().remove(name);
                }
                Err(error) => {
                    let text = format!("{name} has no packet socket: {error}");
                    warn!(event = "xip.socket.missing", interface = name, %error, "no XIP on {name}: {error}");
                    self.without_sockets.borrow_mut().insert(name.clone(), text);
                }
            }
        }
    }

    async fn open(
        self: &Rc<Self>,
        index: InterfaceIndex,
        name: &str,
        ether_types: EtherTypes,
    ) -> Result<InterfaceSockets, sluice_process::SocketError> {
        let mut opened = InterfaceSockets { sockets: BTreeMap::new(), readers: Vec::new() };
        // The core knows the kinds of frames by the EtherTypes that these have unless others are configured.
        for (kind, ether_type) in
            [(ETHERTYPE_XIP, ether_types.packets), (ETHERTYPE_NWP, ether_types.neighbors)]
        {
            let socket = PacketSocket::open(&self.protocol.frame, index, name, ether_type, &[]).await?;
            opened.sockets.insert(kind, Rc::clone(&socket));
            let me = self.me.clone();
            let reader = tokio::task::spawn_local(async move {
                let received = socket.receive(
                    |link, octets| {
                        let Some(me) = me.upgrade() else { return };
                        let from = Station { interface: index, mac: link.mac };
                        let link = destination(link);
                        let octets = octets.to_vec();
                        match kind {
                            ETHERTYPE_XIP => {
                                me.rings.by_packet_socket.set(me.rings.by_packet_socket.get() + 1);
                                me.packet(EarlyPacket::Link { from, link, octets });
                            }
                            _ => me.driver.input(Input::Nwp { from, octets }),
                        }
                    },
                    || {
                        if let Some(me) = me.upgrade() {
                            me.flush();
                        }
                    },
                );
                if let Err(error) = received.await {
                    warn!(%error, "a packet socket ended");
                }
            });
            opened.readers.push(reader.abort_handle());
        }
        Ok(opened)
    }
}

/// Returns the destination of a frame by the kernel's class.
fn destination(link: Link) -> LinkDestination {
    match link.class {
        PACKET_HOST => LinkDestination::ThisHost,
        PACKET_OTHERHOST => LinkDestination::OtherHost,
        _ => LinkDestination::Group,
    }
}

impl Protocol for XipProcess {
    const CLASS: &'static str = "xip";

    type Settings = Settings;

    type Error = ConfigError;

    fn protocol(&self) -> &ProtocolFrame {
        &self.protocol
    }

    fn services(self: &Rc<Self>) -> Vec<Service> {
        let served = || Rc::new(Served(Rc::clone(self)));
        vec![idl::xip::v1::xip_service(served()), idl::xip::v1::principal_service(served())]
    }

    fn tasks(self: &Rc<Self>, _instance: &str) -> Vec<JoinHandle<()>> {
        let me = Rc::clone(self);
        vec![
            spawn_local(Rc::clone(self).follow()),
            spawn_local(Rc::clone(self).report_refusals()),
            // Timers send too: announcements, challenges.
            spawn_local(async move { me.driver.run_notifying(|| me.flush()).await }),
        ]
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, ConfigError> {
        config::settings(planned.whole()).map(Prepared::quiet)
    }

    async fn configure(self: &Rc<Self>, settings: Settings) -> Result<(), ConfigError> {
        let before = self.settings.replace(Some(settings.clone()));
        if before.as_ref().is_some_and(|before| before.ether_types != settings.ether_types) {
            self.sockets.take();
        }
        let is_other_program = before.is_none_or(|before| {
            before.line_bits != settings.line_bits
                || before.core.interfaces.keys().ne(settings.core.interfaces.keys())
        });
        if is_other_program {
            self.maps.take();
        } else if let Some(maps) = &*self.maps.borrow() {
            maps.set_settings(settings.program);
        }
        self.nwp.set_own(settings.keys.iter().map(|key| key.hid().xid()).collect());
        self.ip_routes.configure(settings.ip_routes);
        self.principals.set_rights(settings.principal_rights);
        self.input(Input::Configure(settings.core));
        self.changed.notify_one();
        Ok(())
    }

    fn interfaces_changed(self: &Rc<Self>, events: Vec<InterfaceEvent>) {
        events.into_iter().for_each(|event| self.input(Input::Interface(event)));
        self.decide_early();
        self.changed.notify_one();
    }

    fn path_changed(self: &Rc<Self>) {
        self.maps.take();
    }

    fn announce_all(self: &Rc<Self>, origin: &RibOrigin) {
        if origin.name() == nwp::ORIGIN {
            self.nwp.announce_all();
        } else {
            spawn_local(Rc::clone(&self.ip_routes).announce_all());
        }
    }

    /// Does nothing: each origin knows when all of its routes are announced.
    fn end_refresh(self: &Rc<Self>, _: &Rc<RibOrigin>) {}

    async fn routes_received(self: &Rc<Self>, family: FamilyId, is_complete: bool) {
        if family == FamilyId::IPV4 {
            self.ip_routes.received(is_complete).await;
        } else if is_complete {
            self.report_all_refusals();
            self.routes_known();
        }
    }

    /// Reports refused routes of neighbors. Refused routes of LPM prefixes are refused here: `show xip routes` has them.
    fn routes_rejected(self: &Rc<Self>, request: rib::RoutesRejectedRequest) {
        let is_of_neighbors = request.origin == nwp::ORIGIN;
        for route in request.routes.into_iter().filter(|_| is_of_neighbors) {
            warn!(event = "xip.neighbor.refused", reason = route.reason, "a neighbor's route is refused");
        }
    }

    fn problems(&self) -> Vec<String> {
        let sockets = self.without_sockets.borrow().values().cloned().collect::<Vec<_>>();
        // Where the kernel forwards alone, all packets come to this process as the operator wants it.
        let takes_programs = self.protocol.path.takes_programs();
        let program = self.without_program.borrow().clone().filter(|_| takes_programs);
        sockets.into_iter().chain(program).collect()
    }

    async fn end(self: &Rc<Self>, for_good: bool) {
        if for_good {
            fast_path::stop(&self.protocol.frame).await;
        }
    }
}
