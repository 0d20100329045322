//! BGP-4: the process.
//!
//! Sockets come from the FEA. Each is served by a reader and a writer ([`transport`]), and each table by
//! a task ([`tables`]); these carry the routes, on as many threads as are configured ([`executor`]). The process's own
//! thread has control, which decides on sessions and sees no route; it sends best routes to the RIB and asks it about next
//! hops ([`rib`]), and answers what operators ask ([`service`]). No rule of the protocol is here.

mod bmp;
mod capabilities;
pub mod config;
mod damping;
mod dump;
mod effects;
pub mod error;
mod executor;
mod explain;
mod ffi;
mod handover;
mod hits;
mod injection;
mod messages;
mod monitoring;
mod mrt;
mod neighbor;
mod notices;
mod paths;
mod plumbing;
mod presence;
mod ranges;
mod redistribution;
mod rib;
mod service;
mod tables;
mod threads;
mod transport;
mod validation;

sluice_xrl::include_idl!();

use error::{ConfigError, ThreadsError};
use executor::pool::{Plan, Pool};
use presence::PresenceSide;
use rib::RibSide;
use sluice_base::{AnyPrefix, Distance, Duration};
use sluice_bgp::endpoints::{Endpoints, Ports};
use sluice_bgp::session::ConnectionId;
use sluice_bgp::speaker::control::{Control, GRACE, Input, Output};
use sluice_bgp::speaker::{Config, Identity, Settings};
use sluice_bgp::table::{Table, TableEvent};
use sluice_clients::InterfaceTable;
use sluice_process::part::Planned;
use sluice_process::{
    Component, Driver, EffectKind, Frame, HandOverError, InterfaceSnapshot, Point, Prepared, RibChange,
    RibOrigin, RibOriginSettings, RibSubscription, RunOptions, Sink, Source, Tasks, clock,
};
use sluice_xrl::Service;
use sluice_xrl::idl::fea::v1::interface_observer_service;
use sluice_xrl::idl::rib::v1 as pb;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use tables::table::TableMessage;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tracing::debug;
use transport::connection::Connection;
use transport::listeners::Listening;
use transport::reader::{ConnectionKey, ControlMessage, Mailboxes};
use transport::sockets::Sockets;
use transport::writer::WriterMessage;

/// The time by which control learns ahead of its timers what connections read and wrote.
const AHEAD: Duration = Duration::from_millis(100);

/// The process of BGP.
pub struct BgpProcess {
    frame: Frame,
    me: Weak<BgpProcess>,
    /// The part that exists once AS and identifier are configured.
    core: RefCell<Option<Rc<Core>>>,
    identity: RefCell<Option<Identity>>,
    origin: Rc<RibOrigin>,
    rib: RibSide,
    presence: PresenceSide,
    validation: validation::ValidationSide,
    redistribution: Rc<RibSubscription<AnyPrefix>>,
    sockets: Sockets,
    listening: Listening,
    bmp: bmp::BmpSide,
    mrt: mrt::MrtSide,
    injections: injection::Injections,
    listings: tables::listing::Listings,
    connections: RefCell<BTreeMap<ConnectionKey, Rc<Connection>>>,
    accepted: Cell<u32>,
    interfaces: RefCell<InterfaceTable>,
    /// The first snapshot of interfaces: sessions wait for it, because next hops are made of the interfaces' addresses.
    snapshot: InterfaceSnapshot,
    handover: handover::HandOver,
    /// The tasks that run while the process is registered.
    tasks: Tasks,
    entering: Point,
    /// The prefixes of neighbors, for the change of the configuration that is being prepared.
    surveyed: effects::Surveyed,
}

/// Control, and the tables that it tells what to do.
struct Core {
    driver: Driver<Control>,
    post: Arc<Mailboxes>,
    /// The tables' tasks, by number.
    tables: RefCell<Vec<oneshot::Receiver<tables::table::TableTask>>>,
    pool: RefCell<Rc<Pool>>,
    /// Threads change one time after the other.
    moving: tokio::sync::Mutex<()>,
}

/// Runs BGP until it is told to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move { Ok(BgpProcess::new(frame)) })
}

impl BgpProcess {
    /// The process's process, not yet registered nor configured.
    pub fn new(frame: Frame) -> Rc<Self> {
        let settings = RibOriginSettings {
            name: BgpProcess::CLASS.into(),
            table: frame.table,
            distance: Distance::EBGP,
            external: true,
            grace: GRACE,
            kinds: sluice_bgp::shard::RIB_KINDS.map(String::from).into(),
        };
        Rc::new_cyclic(|me| BgpProcess {
            me: me.clone(),
            core: RefCell::new(None),
            identity: RefCell::new(None),
            origin: RibOrigin::new(&frame.router, settings),
            entering: frame.profile.point("route_enters_bgp", "Entering BGP"),
            rib: RibSide::new(&frame),
            presence: PresenceSide::new(&frame),
            validation: validation::ValidationSide::new(&frame),
            redistribution: RibSubscription::new(&frame.router, frame.table),
            sockets: Sockets::new(&frame),
            listening: Listening::default(),
            bmp: bmp::BmpSide::new(&frame),
            mrt: mrt::MrtSide::default(),
            injections: injection::Injections::default(),
            listings: tables::listing::Listings::default(),
            connections: RefCell::default(),
            accepted: Cell::new(0),
            interfaces: RefCell::default(),
            snapshot: InterfaceSnapshot::new(),
            handover: handover::HandOver::default(),
            tasks: Tasks::default(),
            surveyed: effects::Surveyed::default(),
            frame,
        })
    }

    fn core(&self) -> Option<Rc<Core>> {
        self.core.borrow().clone()
    }

    /// Reads control's state; `None` before it is configured.
    fn read<R>(&self, read: impl FnOnce(&Control) -> R) -> Option<R> {
        self.core().map(|core| core.driver.read(read))
    }

    fn input(&self, input: Input) {
        if let Some(core) = self.core() {
            core.driver.input(input);
        }
    }

    fn connection(&self, address: IpAddr, id: ConnectionId) -> Option<Rc<Connection>> {
        self.connections.borrow().get(&(address, id)).cloned()
    }

    /// Tells control what a connection read and wrote since it was last told, and when.
    fn collect(&self, (address, id): ConnectionKey, connection: &Connection) {
        let Some(core) = self.core() else { return };
        if let Some((time, read)) = connection.heard.look(Option::take) {
            core.driver.input_at(time, Input::Heard(address, id, read));
        }
        if let Some((time, sent)) = connection.sent.look(Option::take) {
            core.driver.input_at(time, Input::Sent(address, id, sent));
        }
        let written = connection.backlog.since().unwrap_or_else(clock::now);
        core.driver.input_at(written, Input::Written(address, id));
    }

    /// Does so for the connections whose timers are due or soon will be: before a timer fires.
    fn collect_due(&self) {
        let soon = clock::now() + AHEAD;
        let due = self.read(|control| {
            let due = control.due(soon).into_iter();
            due.filter_map(|address| Some((address, control.established(address)?)))
                .collect::<Vec<ConnectionKey>>()
        });
        for (address, id) in due.unwrap_or_default() {
            if let Some(connection) = self.connection(address, id) {
                self.collect((address, id), &connection);
            }
        }
    }

    /// Does so for all connections: before somebody looks.
    fn collect_all(&self) {
        let all: Vec<(ConnectionKey, Rc<Connection>)> =
            self.connections.borrow().iter().map(|(name, c)| (*name, Rc::clone(c))).collect();
        for (name, connection) in all {
            self.collect(name, &connection);
        }
    }

    /// A connection is gone, or could not be made.
    fn lost(&self, neighbor: IpAddr, id: ConnectionId) {
        if let Some(connection) = self.connection(neighbor, id) {
            self.collect((neighbor, id), &connection);
            self.connections.borrow_mut().remove(&(neighbor, id));
            connection.close();
        }
        self.input(Input::Closed(neighbor, id));
    }

    /// A connection could not be made.
    fn not_connected(&self, neighbor: IpAddr, id: ConnectionId, error: &io::Error) {
        if let Some(connection) = self.connections.borrow_mut().remove(&(neighbor, id)) {
            connection.close();
        }
        self.input(Input::Failed(neighbor, id, transport::sockets::cause(error)));
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::Connect(address, id) => self.connect(address, id),
            Output::Close(address, id) => {
                if let Some(connection) = self.connections.borrow_mut().remove(&(address, id)) {
                    connection.close();
                }
            }
            Output::Send(address, id, octets) => {
                if let Some(connection) = self.connection(address, id) {
                    connection.note(WriterMessage::Octets(octets));
                }
            }
            Output::Up(address, id, link) => {
                if let Some(connection) = self.connection(address, id) {
                    connection.link.replace(Some(link));
                }
            }
            Output::Injecting(address, reading) => self.injections.begin_session(address, *reading),
            Output::Order(to, order) => {
                let Some(core) = self.core() else { return };
                match to {
                    Some(number) => core.post.tables[number].write(TableMessage::Order(order)),
                    None => {
                        core.post.tables.iter().for_each(|t| t.write(TableMessage::Order(order.clone())));
                    }
                }
            }
            Output::InterestIpv4(interest) => self.rib.ask_about(interest),
            Output::InterestIpv6(interest) => self.rib.ask_about(interest),
            Output::InterestXid(interest) => self.rib.ask_about(interest),
            Output::WatchPresence(questions) => self.presence.ask(questions, true),
            Output::UnwatchPresence(questions) => self.presence.ask(questions, false),
            Output::GatewayUsable(address, usable) => self.origin.set_usable(&[address], usable),
            Output::SessionsChanged => self.rib.sessions_changed(),
            Output::AllAnnounced => {
                self.rib.announced();
                self.rib.sessions_changed();
            }
            Output::Event(event) => self.report(&event),
        }
    }

    /// Reads what connections and tables write, as long as the process lives.
    async fn read_letters(self: Rc<Self>, mut letters: UnboundedReceiver<ControlMessage>) {
        while let Some(letter) = letters.recv().await {
            self.take_letter(letter);
        }
    }

    fn take_letter(&self, letter: ControlMessage) {
        match letter {
            ControlMessage::Message((address, id), message, reply) => {
                // A connection that is closed meanwhile gets no answer.
                let Some(connection) = self.connection(address, id) else { return };
                self.collect((address, id), &connection);
                self.input(Input::Message(address, id, message));
                if self.connection(address, id).is_none() {
                    return;
                }
                let reading = connection.link.take().map(|link| {
                    connection.note(WriterMessage::Open(link.writer, link.reading.life));
                    link.reading
                });
                let _ = reply.send(reading);
            }
            ControlMessage::Remark(address, what, noted) => {
                self.input(Input::Remark(address, what));
                let _ = noted.send(());
            }
            ControlMessage::Traced(traced) => {
                for (time, (prefix, withdrawn, provenance)) in traced.look(std::mem::take) {
                    self.entering.record_at(time, prefix, withdrawn, provenance);
                }
            }
            ControlMessage::Lost((address, id)) => self.lost(address, id),
            ControlMessage::Table(_, TableEvent::Monitored) => self.bmp.wake(),
            ControlMessage::Table(table, told) => self.input(Input::Table(table, told)),
            ControlMessage::Routes(table, routes) => self.rib.routes(table, routes),
            ControlMessage::Read(reply) => drop(reply.send(())),
        }
    }

    /// Returns true if every neighbor has announced all its routes, or the time for that is over.
    fn have_all_announced(&self) -> bool {
        // One whose UPDATEs control has not heard of would count as quiet.
        self.collect_all();
        self.read(|control| control.have_all_announced(clock::now())).unwrap_or(false)
    }

    /// A new connection, on the thread that has the fewest.
    fn new_connection(&self, name: ConnectionKey) -> Rc<Connection> {
        let threads = self.core().map_or(1, |core| core.pool.borrow().plan().threads.max(1));
        let mut connections = self.connections.borrow_mut();
        let mut busy = vec![0; threads];
        connections.values().for_each(|c| busy[c.place % threads] += 1);
        let place = (0..threads).min_by_key(|place| busy[*place]).unwrap_or(0);
        let connection = Rc::new(Connection::new(place));
        connections.insert(name, Rc::clone(&connection));
        connection
    }

    fn connect(self: &Rc<Self>, address: IpAddr, id: ConnectionId) {
        if self.handover.is_asleep() {
            return self.lost(address, id);
        }
        let connection = self.new_connection((address, id));
        let me = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            me.snapshot.known().await;
            let Some((config, internal)) = me.neighbor(address) else { return };
            match me.sockets.connect(&config, internal).await {
                Ok(stream) => me.opened(address, id, stream),
                Err(error) => {
                    debug!(%address, %error, "no connection");
                    me.not_connected(address, id, &error);
                }
            }
        });
        connection.connecting(task.abort_handle());
    }

    fn neighbor(&self, address: IpAddr) -> Option<(sluice_bgp::speaker::NeighborConfig, bool)> {
        let config = self.read(|control| control.neighbor_config(address).cloned())??;
        let internal = self.identity.borrow().as_ref().is_some_and(|i| i.local_as == config.peer_as);
        Some((config, internal))
    }

    /// A connection is there: made, or accepted.
    fn opened(self: &Rc<Self>, address: IpAddr, id: ConnectionId, stream: TcpStream) {
        let (Some(core), Some(connection)) = (self.core(), self.connection(address, id)) else { return };
        if self.handover.is_asleep() {
            return self.lost(address, id);
        }
        let (Ok(local), Ok(remote)) = (stream.local_addr(), stream.peer_addr()) else {
            return self.lost(address, id);
        };
        let endpoints = Endpoints::between(&self.interfaces.borrow(), local.ip().to_canonical(), address);
        let ports = Some(Ports { local: local.port(), remote: remote.port() });
        let endpoints = Endpoints { ports, ..endpoints };
        let pool = Rc::clone(&core.pool.borrow());
        let started = stream.into_std().and_then(|s| connection.start(&pool, (address, id), s, &core.post));
        if let Err(error) = started {
            debug!(%address, %error, "a connection broke at once");
            return self.lost(address, id);
        }
        self.input(match id.direction {
            sluice_bgp::session::Direction::Outgoing => Input::Connected(address, id, endpoints),
            sluice_bgp::session::Direction::Incoming => Input::Accepted(address, id, endpoints),
        });
    }

    /// Returns true if these are of another router than this process is.
    fn is_other(&self, settings: &Settings) -> bool {
        let wanted = (settings.local_as, settings.router_id, settings.codes());
        self.identity.borrow().as_ref().is_some_and(|i| (i.local_as, i.router_id, i.codes) != wanted)
    }

    fn start_core(self: &Rc<Self>, settings: &Settings, is_restarted: bool) -> Result<(), ConfigError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(ConfigError::Randomness)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = config::plan(settings);
        let tables = u16::try_from(cores.max(plan.threads)).unwrap_or(config::MOST_TABLES);
        let (seed, source) = (u64::from_ne_bytes(seed), self.frame.provenance.source());
        let identity = settings.identity(seed, tables.min(config::MOST_TABLES), source);
        let identity = Identity { started: clock::now(), is_restarted, ..identity };
        let control = Control::new(identity.clone(), clock::now());
        let tables = control.make_tables();
        self.identity.replace(Some(identity));
        self.set_core(control, tables, plan)?;
        // The RIB may have registered the process before there was anybody to hear it.
        if self.origin.is_registered() {
            self.learn_sessions_of_before();
            self.input(Input::RibRestarted);
        }
        self.give_origins();
        self.run_control();
        Ok(())
    }

    /// There are control and tables from now on; control's timers do not fire yet.
    fn set_core(self: &Rc<Self>, control: Control, made: Vec<Table>, plan: Plan) -> Result<(), ThreadsError> {
        let pool = Pool::start(plan).map_err(ThreadsError::Start)?;
        let (main, letters) = mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        let mut tables = Vec::new();
        for (number, table) in made.into_iter().enumerate() {
            let (post, address) = tables::table::TableTask::new(number, table, main.clone());
            tasks.push(pool.spawn(number, post.serve()));
            tables.push(address);
        }
        let me = self.me.clone();
        let effect = move |output| {
            if let Some(me) = me.upgrade() {
                me.carry_out(output);
            }
        };
        let (tracing, recording) = (self.entering.switch(), Arc::clone(&self.mrt.recording));
        let mirror = Arc::clone(&self.bmp.mirror);
        let core = Rc::new(Core {
            driver: Driver::new(control, effect),
            post: Arc::new(Mailboxes { tables, main, tracing, recording, mirror }),
            tables: RefCell::new(tasks),
            pool: RefCell::new(Rc::new(pool)),
            moving: tokio::sync::Mutex::new(()),
        });
        self.core.replace(Some(core));
        tokio::task::spawn_local(Rc::clone(self).read_letters(letters));
        Ok(())
    }
}

impl Component for BgpProcess {
    const CLASS: &'static str = "bgp";

    const STATE: u32 = 17;

    type Settings = Settings;

    type Error = ConfigError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            idl::bgp::v1::bgp_service(Rc::new(Served(Rc::clone(self)))),
            interface_observer_service(Rc::new(Served(Rc::clone(self)))),
            pb::interest_holder_service(Rc::new(Served(Rc::clone(self)))),
            pb::origin_owner_service(Rc::new(Served(Rc::clone(self)))),
            pb::presence_holder_service(Rc::new(Served(Rc::clone(self)))),
            pb::route_subscriber_service(Rc::new(Served(Rc::clone(self)))),
            idl::rpki::v1::vrp_subscriber_service(Rc::new(Served(Rc::clone(self)))),
        ]
    }

    async fn registered(self: Rc<Self>, instance: String) {
        let me = Rc::clone(&self);
        let changed = move |change| match change {
            RibChange::Registered => {
                me.rib.rib_started();
                me.presence.rib_started();
                me.learn_sessions_of_before();
                me.input(Input::RibRestarted);
                me.rib.announced();
            }
            RibChange::Died => {
                me.rib.rib_died();
                me.presence.rib_died();
            }
        };
        let (origin, router) = (Rc::clone(&self.origin), self.frame.router.clone());
        let (redistribution, me) = (Rc::clone(&self.redistribution), Rc::clone(&self));
        self.activate();
        let tasks = [
            tokio::task::spawn_local(origin.keep_registered(router.clone(), instance.clone(), changed)),
            tokio::task::spawn_local(redistribution.keep(router, instance.clone(), move |removed| {
                me.redistribute(removed);
            })),
            tokio::task::spawn_local(rib::ask(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(rib::remember(Rc::clone(&self))),
            tokio::task::spawn_local(presence::ask(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(validation::follow(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(rib::pump(Rc::clone(&self))),
            tokio::task::spawn_local(rib::refresh(Rc::clone(&self))),
            tokio::task::spawn_local(Rc::clone(&self).follow_fea(instance)),
        ];
        self.tasks.replace(tasks);
    }

    async fn hand_over(self: Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        self.hand_over_to(to).await
    }

    async fn resume(self: Rc<Self>, instance: Option<String>) {
        self.go_on().await;
        if let Some(instance) = instance {
            self.registered(instance).await;
        }
    }

    async fn take_over(self: Rc<Self>, settings: Settings, from: &mut Source) -> Result<(), HandOverError> {
        self.take_over_from(&settings, from).await
    }

    fn degraded(&self) -> Vec<String> {
        let problem = |ipv4: bool| {
            let family = if ipv4 { "IPv4" } else { "IPv6" };
            Some(format!("neighbors cannot connect over {family}: {}", self.listening.problem(ipv4)?))
        };
        let listening = [true, false].into_iter().filter_map(problem);
        listening
            .chain(self.origin.problem())
            .chain(self.redistribution.problem())
            .chain(self.presence.problem())
            .chain(self.mrt.problems())
            .chain(self.bmp.problems(&self.interfaces.borrow()))
            .collect()
    }

    async fn survey(self: Rc<Self>) {
        self.count_prefixes().await;
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, ConfigError> {
        let settings = config::settings(planned.whole())?;
        if let Some(itself) =
            self.read(|control| settings.itself(&control.config(), &self.interfaces.borrow()))
        {
            itself.map_or(Ok(()), Err)?;
        }
        let effects = if self.is_other(&settings) {
            vec![(EffectKind::ProcessRestart, vec![self.frame.name.clone()])]
        } else {
            self.effects(&settings)
        };
        Ok(Prepared::touching(settings, effects))
    }

    async fn apply(self: Rc<Self>, settings: Settings) -> Result<(), ConfigError> {
        if self.is_other(&settings) {
            return Err(ConfigError::OtherRouter);
        }
        match self.core() {
            None => self.start_core(&settings, self.is_restarted(&settings).await)?,
            Some(_) => self.change_threads(config::plan(&settings)).await?,
        }
        self.collect_all();
        self.input(Input::Configure(settings.config()));
        self.set_redistribution(&settings);
        self.set_monitoring(&settings);
        self.start_monitoring();
        self.configure_injections(settings);
        self.rib.announced();
        transport::listeners::refresh(&self).await;
        Ok(())
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        // Unless this is the end the RIB keeps what it has, until the next life tells it more or the grace time is over.
        self.rib.stop();
        if for_good {
            self.origin.unregister().await;
        }
        // Neighbors are told, and that is written, before the process ends.
        let open: Vec<Rc<Connection>> = self.connections.borrow().values().cloned().collect();
        self.input(Input::Configure(Config::default()));
        for connection in open {
            connection.closed().await;
        }
        self.end_monitoring().await;
    }
}

sluice_process::served!(BgpProcess);
