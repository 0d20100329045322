//! BGP-4: the process.
//!
//! Sockets come from the FEA. A reader and a writer serve each socket ([`transport`]), and a task serves each table ([`tables`]);
//! these tasks carry the routes, on the configured number of threads ([`executor`]). The process's own thread runs control, which
//! decides on sessions and sees no route. The same thread sends best routes to the RIB, asks the RIB about next hops ([`rib`]),
//! and answers operators ([`service`]). The rules of the protocol are in `sluice_bgp`.

use error::{ConfigError, ThreadsError};
use exchange::messages::ConnectionKey;
use executor::pool::{Plan, Pool};
use rib::client::RibSide;
use rib::presence::PresenceSide;
use sluice_base::{AnyPrefix, Distance};
use sluice_bgp::session::ConnectionId;
use sluice_bgp::speaker::control::{Control, GRACE, Input};
use sluice_bgp::speaker::{Identity, Settings};
use sluice_bgp::table::Table;
use sluice_clients::InterfaceTable;
use sluice_process::{
    Component, Driver, Frame, InterfaceSnapshot, Point, RibOrigin, RibOriginSettings, RibSubscription,
    RunOptions, Tasks, clock,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use tokio::sync::mpsc::{self};
use tokio::sync::oneshot;
use transport::connection::Connection;
use transport::listeners::Listening;
use transport::reader::Mailboxes;
use transport::sockets::Sockets;

mod bmp;
mod component;
pub mod config;
mod connections;
mod effects;
pub mod error;
mod exchange;
mod executor;
mod ffi;
mod handover;
mod injection;
mod monitoring;
mod mrt;
mod notices;
mod rib;
mod service;
mod tables;
mod threads;
mod transport;
mod validation;
mod values;

sluice_xrl::include_idl!();

/// The process of BGP.
pub struct BgpProcess {
    frame: Frame,
    me: Weak<BgpProcess>,
    /// The part made when AS and identifier are configured.
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
    listings: service::listing::Listings,
    connections: RefCell<BTreeMap<ConnectionKey, Rc<Connection>>>,
    accepted: Cell<u32>,
    interfaces: RefCell<InterfaceTable>,
    /// The first snapshot of interfaces. Sessions wait for the snapshot, because next hops are made of the interfaces' addresses.
    snapshot: InterfaceSnapshot,
    handover: handover::HandOver,
    /// The tasks of the registered process.
    tasks: Tasks,
    entering: Point,
    /// The prefixes of neighbors, for the prepared change of the configuration.
    surveyed: effects::Surveyed,
}

/// Control, and the tables.
struct Core {
    driver: Driver<Control>,
    post: Arc<Mailboxes>,
    /// The tables' tasks, by number.
    tables: RefCell<Vec<oneshot::Receiver<tables::table::TableTask>>>,
    pool: RefCell<Rc<Pool>>,
    /// The lock that serializes changes of threads.
    moving: tokio::sync::Mutex<()>,
}

/// Runs BGP until a request to end.
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
            listings: service::listing::Listings::default(),
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

    /// Reads control's state; `None` before the configuration.
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

    /// Returns true if the settings are of a different router than the process's.
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
        // The RIB may have registered the process before there was a receiver.
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
        let (main, messages) = mpsc::unbounded_channel();
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
        tokio::task::spawn_local(Rc::clone(self).read_messages(messages));
        Ok(())
    }
}

sluice_process::served!(BgpProcess);
