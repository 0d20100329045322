//! The cluster: the process of an element. It follows the FEA's interfaces and neighbors, sends and receives the cluster's frames,
//! has links for outer ports made, and fills the maps of the program `balance`. All rules are in the core (`sluice_cluster`).

pub mod config;
mod configuration;
mod console;
pub mod credentials;
mod identity;
mod links;
pub mod maps;
mod program;
mod roster;
mod service;
mod store;
mod stream;
mod totals;

sluice_xrl::include_idl!();

use config::ConfigError;
use configuration::ConfigurationKeeper;
use console::Console;
use links::Links;
use maps::ProgramMaps;
use roster::RosterKeeper;
use sluice_base::{InterfaceEvent, InterfaceIndex};
use sluice_cluster::frame::{ETHER_TYPE, GROUP};
use sluice_cluster::header::Kind;
use sluice_cluster::inventory::Role;
use sluice_cluster::io::{Input, Output};
use sluice_cluster::machine::Cluster;
use sluice_cluster::settings::Settings;
use sluice_process::part::Planned;
use sluice_process::{
    Driver, EffectKind, PacketSocket, Prepared, Protocol, ProtocolFrame, RunOptions, SocketError,
};
use sluice_xrl::idl::fea::v1::neighbor_observer_service;
use sluice_xrl::idl::manager::v1::configuration_owner_service;
use sluice_xrl::idl::rib::v1::{self as rib, origin_owner_service, route_subscriber_service};
use sluice_xrl::{CallContext, Service, XrlError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime};
use store::server::StoreServer;
use stream::Stream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use tracing::{info, warn};

/// The time until sockets and the program that are missing are asked for again.
const RETRY: Duration = Duration::from_secs(1);

/// A socket on the interconnect, and the task that reads from the socket.
struct Interconnect {
    socket: Rc<PacketSocket>,
    reader: AbortHandle,
}

impl Drop for Interconnect {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The process of an element.
pub struct ClusterProcess {
    protocol: ProtocolFrame,
    me: Weak<ClusterProcess>,
    driver: Driver<Cluster>,
    /// The configuration.
    configured: RefCell<Option<Settings>>,
    /// The configuration as the roster changes it: the element works by these settings.
    settings: RefCell<Option<Settings>>,
    roster: RosterKeeper,
    configuration: ConfigurationKeeper,
    sockets: RefCell<BTreeMap<InterfaceIndex, Interconnect>>,
    links: Links,
    maps: RefCell<Option<ProgramMaps>>,
    /// The interfaces that the program has.
    program_interfaces: RefCell<Vec<String>>,
    /// The reason why the program does not run.
    without_program: RefCell<Option<String>>,
    /// The reasons why sockets are missing, by interface.
    without_sockets: RefCell<BTreeMap<String, String>>,
    changed: Notify,
    stream: Stream,
    store_server: StoreServer,
    console: Console,
}

sluice_process::served!(ClusterProcess);

/// Runs the element until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = since_epoch.as_millis() as u64;
        Ok(Rc::new_cyclic(|me: &Weak<ClusterProcess>| {
            let process = me.clone();
            let effect = move |output| {
                if let Some(process) = process.upgrade() {
                    process.carry_out(output);
                }
            };
            ClusterProcess {
                driver: Driver::new(Cluster::new(epoch), effect),
                me: me.clone(),
                stream: Stream::new(&frame),
                protocol: ProtocolFrame::new(frame).with_interfaces(),
                configured: RefCell::default(),
                settings: RefCell::default(),
                roster: RosterKeeper::default(),
                configuration: ConfigurationKeeper::new(epoch),
                sockets: RefCell::default(),
                links: Links::default(),
                maps: RefCell::default(),
                program_interfaces: RefCell::default(),
                without_program: RefCell::default(),
                without_sockets: RefCell::default(),
                changed: Notify::new(),
                store_server: StoreServer::default(),
                console: Console::default(),
            }
        }))
    })
}

impl ClusterProcess {
    fn carry_out(&self, output: Output) {
        match output {
            Output::Send(octets) => {
                for interconnect in self.sockets.borrow().values() {
                    interconnect.socket.push(GROUP, octets.clone());
                }
            }
            Output::Store(store) => {
                if let Some(maps) = &*self.maps.borrow() {
                    maps.store(store);
                }
            }
            Output::Links(links) => self.links.want(links),
            Output::SetNeighbors(neighbors) => self.links.set_neighbors(neighbors),
            Output::NeighborsKnown => self.links.renew(),
            Output::Event(event) if event.is_warning() => warn!(event = event.id(), "{event}"),
            Output::Event(event) => info!(event = event.id(), "{event}"),
        }
    }

    /// Works by the present configuration and roster.
    fn adopt(&self) {
        let settings = self.configured.borrow().as_ref().map(|configured| self.roster.applied(configured));
        let Some(settings) = settings else { return };
        if self.settings.replace(Some(settings.clone())).is_some_and(|before| before == settings) {
            return;
        }
        self.input(Input::Configure(Box::new(settings)));
        self.changed.notify_one();
        self.stream.configured();
        self.store_server.changed.notify_one();
        self.console.changed.notify_one();
        self.configuration.changed.notify_one();
    }

    /// Sends what the last inputs caused.
    fn flush(&self) {
        self.sockets.borrow().values().for_each(|interconnect| interconnect.socket.flush());
    }

    fn input(&self, input: Input) {
        self.driver.input(input);
        self.flush();
    }

    /// Opens and closes sockets, and starts or stops the program, as the configuration and the interfaces want. For ever.
    async fn follow(self: Rc<Self>) {
        loop {
            let is_missing =
                self.without_program.borrow().is_some() || !self.without_sockets.borrow().is_empty();
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(RETRY), if is_missing => {}
            }
            let Some(settings) = self.settings.borrow().clone() else { continue };
            self.follow_sockets(&settings).await;
            if self.protocol.interfaces.is_complete() {
                self.follow_program(&settings).await;
            }
        }
    }

    async fn follow_program(&self, settings: &Settings) {
        let own = settings.inventory.get(settings.element).filter(|own| own.roles.contains(&Role::Balancer));
        let Some(own) = own else {
            if self.maps.take().is_some() {
                program::stop(&self.protocol.frame).await;
                self.input(Input::Maps(None));
            }
            self.without_program.take();
            return;
        };
        let outer = own.ports.iter().map(|port| port.interface.clone());
        let interfaces: BTreeSet<String> = outer.chain(settings.interconnect.iter().cloned()).collect();
        let interfaces: Vec<String> = interfaces.into_iter().collect();
        if self.maps.borrow().is_some() && *self.program_interfaces.borrow() == interfaces {
            return;
        }
        match program::start(&self.protocol.frame, &self.protocol.path, interfaces.clone()).await {
            Ok(maps) => {
                let found = maps.found();
                self.maps.replace(Some(maps));
                self.program_interfaces.replace(interfaces);
                self.without_program.take();
                self.input(Input::Maps(Some(found)));
                info!(event = "cluster.program.started", "the program balance leads frames to elements");
            }
            Err(error) => {
                let text = error.to_string();
                if self.without_program.replace(Some(text.clone())) != Some(text) {
                    warn!(event = "cluster.program.missing", %error, "no frames are led to elements: {error}");
                }
            }
        }
    }

    async fn follow_sockets(self: &Rc<Self>, settings: &Settings) {
        let interfaces = self.protocol.interfaces.all();
        let wanted = |index: &InterfaceIndex| {
            interfaces.get(index).is_some_and(|name| settings.interconnect.contains(name))
        };
        self.sockets.borrow_mut().retain(|index, _| wanted(index));
        let is_there = |name: &String| interfaces.values().any(|known| known == name);
        let mut missing = BTreeMap::new();
        for name in settings.interconnect.iter().filter(|name| !is_there(name)) {
            missing.insert(name.clone(), format!("the interconnect {name} does not exist"));
        }
        for (index, name) in interfaces.iter().filter(|(index, _)| wanted(index)) {
            if self.sockets.borrow().contains_key(index) {
                continue;
            }
            match self.open(*index, name).await {
                Ok(interconnect) => {
                    self.sockets.borrow_mut().insert(*index, interconnect);
                }
                Err(error) => {
                    warn!(event = "cluster.socket.missing", interface = name, %error, "no frames on {name}: {error}");
                    missing.insert(name.clone(), format!("{name} has no packet socket: {error}"));
                }
            }
        }
        self.without_sockets.replace(missing);
    }

    async fn open(self: &Rc<Self>, index: InterfaceIndex, name: &str) -> Result<Interconnect, SocketError> {
        let socket = PacketSocket::open(&self.protocol.frame, index, name, ETHER_TYPE, &[GROUP]).await?;
        let (me, reading) = (self.me.clone(), Rc::clone(&socket));
        let reader = tokio::task::spawn_local(async move {
            let received = reading.receive(
                |_, octets| {
                    // Hello frames are the program's.
                    if let Some(me) = me.upgrade()
                        && octets.get(1) != Some(&(Kind::Hello as u8))
                    {
                        me.driver.input(Input::Frame(octets.to_vec()));
                    }
                },
                || {
                    if let Some(me) = me.upgrade() {
                        me.flush();
                    }
                },
            );
            if let Err(error) = received.await {
                warn!(event = "cluster.socket.ended", %error, "a packet socket ended: {error}");
                if let Some(me) = me.upgrade() {
                    me.sockets.borrow_mut().remove(&index);
                    me.changed.notify_one();
                }
            }
        });
        Ok(Interconnect { socket, reader: reader.abort_handle() })
    }
}

impl Protocol for ClusterProcess {
    const CLASS: &'static str = "cluster";

    type Settings = Settings;

    type Error = ConfigError;

    fn protocol(&self) -> &ProtocolFrame {
        &self.protocol
    }

    fn services(self: &Rc<Self>) -> Vec<Service> {
        let served = || Rc::new(Served(Rc::clone(self)));
        vec![
            idl::cluster::v1::cluster_service(served()),
            idl::cluster::v1::elements_service(served()),
            neighbor_observer_service(served()),
            route_subscriber_service(served()),
            origin_owner_service(served()),
            configuration_owner_service(served()),
        ]
    }

    fn tasks(self: &Rc<Self>, instance: &str) -> Vec<JoinHandle<()>> {
        let (me, router) = (Rc::clone(self), self.protocol.frame.router.clone());
        let begins = move |family| me.stream.begin_refresh(family);
        let subscription = Rc::clone(&self.stream.subscription);
        let me = Rc::clone(self);
        vec![
            spawn_local(links::follow(Rc::clone(self), instance.into())),
            spawn_local(subscription.keep_announced(router, instance.into(), begins)),
            spawn_local(stream::announcer::walk(Rc::clone(self))),
            spawn_local(stream::run(Rc::clone(self), instance.into())),
            spawn_local(store::server::follow(Rc::clone(self))),
            spawn_local(roster::follow(Rc::clone(self))),
            spawn_local(roster::ask_standing(Rc::clone(self))),
            spawn_local(configuration::follow(Rc::clone(self))),
            spawn_local(console::follow(Rc::clone(self))),
            spawn_local(Rc::clone(self).follow()),
            spawn_local(async move { me.driver.run_notifying(|| me.flush()).await }),
        ]
    }

    fn fea_started(self: &Rc<Self>) {
        self.links.renew();
        self.changed.notify_one();
    }

    fn interfaces_changed(self: &Rc<Self>, events: Vec<InterfaceEvent>) {
        events.into_iter().for_each(|event| self.input(Input::Interface(event)));
        self.changed.notify_one();
        self.stream.interfaces_changed(self);
    }

    fn path_changed(self: &Rc<Self>) {
        self.program_interfaces.borrow_mut().clear();
        // The maps of a path that ended have no effect any more.
        if !self.protocol.path.takes_programs() && self.maps.take().is_some() {
            self.input(Input::Maps(None));
        }
    }

    fn problems(&self) -> Vec<String> {
        let program = self.without_program.borrow().clone();
        let sockets: Vec<String> = self.without_sockets.borrow().values().cloned().collect();
        let of_store = self.stream.problems().into_iter().chain(self.store_server.problem());
        program
            .into_iter()
            .chain(sockets)
            .chain(self.links.problems())
            .chain(of_store)
            .chain(self.console.problem())
            .chain(self.configuration.problem())
            .collect()
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, ConfigError> {
        let settings = config::settings(planned.whole())?;
        let before = self.configured.borrow();
        if let Some(moved) = before.as_ref().and_then(|before| before.moved_server(&settings)) {
            return Err(ConfigError::MovedServer(moved.number()));
        }
        let interrupted = before.as_ref().map(|before| before.interrupted_by(&settings)).unwrap_or_default();
        Ok(Prepared::touching(settings, vec![(EffectKind::Interrupted, interrupted)]))
    }

    async fn configure(self: &Rc<Self>, settings: Settings) -> Result<(), ConfigError> {
        self.configured.replace(Some(settings));
        self.adopt();
        // A manager that starts may have read another configuration from its file.
        self.configuration.compare();
        Ok(())
    }

    async fn end(self: &Rc<Self>, for_good: bool) {
        if for_good && self.maps.borrow().is_some() {
            program::stop(&self.protocol.frame).await;
        }
        self.stream.end(for_good).await;
    }
}

impl rib::OriginOwner for Served {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: rib::RoutesRejectedRequest,
    ) -> Result<rib::RoutesRejectedReply, XrlError> {
        let reason = request.routes.first().map(|route| route.reason.clone()).unwrap_or_default();
        let routes = request.routes.len();
        warn!(
            event = "cluster.routes.rejected",
            origin = request.origin,
            "{routes} routes were refused: {reason}"
        );
        Ok(rib::RoutesRejectedReply {})
    }
}
