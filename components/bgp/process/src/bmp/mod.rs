//! Monitoring stations (BMP, RFC 7854), each with a task and a TCP connection.
//!
//! A station's task asks the tables for the next routes after the station's socket has taken the previous routes
//! ([`connection`]). So a slow station holds back no neighbor, and a station that does not read costs a bounded log in each
//! table, after which the connection ends. Stations are no part of a live upgrade: stations are notified of the connection's end,
//! and receive every route from the new process.

use crate::BgpProcess;
use connection::Ended;
use mirror::Mirror;
use sluice_base::Instant;
use sluice_bgp::bmp::{
    Instance, StationCounters, StationEvent, StationFailure, StationSettings, Termination,
};
use sluice_bgp::shard::MonitorId;
use sluice_bgp::speaker::Config;
use sluice_clients::InterfaceTable;
use sluice_process::{Frame, clock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

mod connection;
pub mod mirror;
pub mod view;

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The state of a station's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StationState {
    /// The next attempt to connect is due later.
    #[default]
    Waiting,
    /// An attempt to connect is under way.
    Connecting,
    /// The station is sent the routes from before.
    Synchronizing,
    /// The station is sent changes.
    Up,
}

impl StationState {
    /// Returns the name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            StationState::Waiting => "waiting",
            StationState::Connecting => "connecting",
            StationState::Synchronizing => "synchronizing",
            StationState::Up => "up",
        }
    }
}

/// The state of a station, for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StationStatus {
    /// The state.
    pub state: StationState,
    /// The beginning of the state.
    pub since: Instant,
    /// The number of connections so far.
    pub connections: u64,
    /// The number of ends of connections and failed attempts so far.
    pub failures: u64,
    /// The latest failure, in words; empty without a failure since the latest synchronized connection.
    pub problem: String,
    /// Messages of earlier connections.
    before: StationCounters,
    /// Messages of the present connection.
    present: StationCounters,
    /// Peers known to the station.
    pub peers: usize,
    /// Changes in the tables for the station.
    pub behind: u64,
}

impl StationStatus {
    fn new() -> Self {
        StationStatus {
            state: StationState::Waiting,
            since: clock::now(),
            connections: 0,
            failures: 0,
            problem: String::new(),
            before: StationCounters::default(),
            present: StationCounters::default(),
            peers: 0,
            behind: 0,
        }
    }

    /// Returns the counts, summed over connections.
    pub const fn counters(&self) -> StationCounters {
        self.before.plus(self.present)
    }

    fn enter(&mut self, state: StationState) {
        if self.state != state {
            (self.state, self.since) = (state, clock::now());
        }
    }
}

/// A configured station.
struct Entry {
    settings: StationSettings,
    status: Rc<RefCell<StationStatus>>,
    /// Orders the task to end, with the reason.
    stop: watch::Sender<Option<Termination>>,
    task: JoinHandle<()>,
}

/// The stations of the process.
pub struct BmpSide {
    /// The configured stations.
    wanted: RefCell<Vec<StationSettings>>,
    stations: RefCell<BTreeMap<String, Entry>>,
    /// Changes when tables or control have something for stations.
    news: watch::Sender<()>,
    next_monitor: Cell<MonitorId>,
    instance: Instance,
    /// Malformed UPDATEs, from the readers.
    pub mirror: Arc<Mirror>,
}

impl BmpSide {
    /// Makes the side without stations.
    pub fn new(frame: &Frame) -> Self {
        // The default instance has no name of its own; the others have tables of their own.
        let instance = match frame.name.split_once('@') {
            Some((_, name)) => Instance { name: name.into(), distinguisher: frame.table.0.into() },
            None => Instance { name: "global".into(), distinguisher: 0 },
        };
        BmpSide {
            wanted: RefCell::default(),
            stations: RefCell::default(),
            news: watch::Sender::new(()),
            next_monitor: Cell::new(1),
            instance,
            mirror: Arc::default(),
        }
    }

    /// Wakes the stations' tasks to look for new messages.
    pub fn wake(&self) {
        self.news.send_replace(());
    }

    /// Returns the configured stations.
    pub fn settings(&self) -> Vec<StationSettings> {
        self.wanted.borrow().clone()
    }

    /// Returns the reasons why stations cannot be connected: local addresses missing on the interfaces.
    pub fn problems(&self, interfaces: &InterfaceTable) -> Vec<String> {
        Config::default().address_remarks(&self.wanted.borrow(), interfaces)
    }

    /// Sets the stations, whose connections begin with [`BmpSide::start`].
    pub fn set(&self, stations: &[StationSettings]) {
        self.wanted.replace(stations.to_vec());
    }

    /// Begins connections to new stations, and ends connections to stations with changed or removed configuration.
    pub fn start(&self, process: &Weak<BgpProcess>) {
        let wanted = self.wanted.borrow();
        let mut stations = self.stations.borrow_mut();
        stations.retain(|name, entry| {
            let configured = wanted.iter().find(|settings| settings.name == *name);
            if configured == Some(&entry.settings) {
                return true;
            }
            let is_gone = configured.is_none();
            let reason = if is_gone { Termination::PermanentlyClosed } else { Termination::Closed };
            entry.stop.send_replace(Some(reason));
            false
        });
        for settings in wanted.iter() {
            stations.entry(settings.name.clone()).or_insert_with(|| {
                let stop = watch::Sender::new(None);
                let status = Rc::new(RefCell::new(StationStatus::new()));
                let station = Running {
                    process: process.clone(),
                    settings: settings.clone(),
                    status: Rc::clone(&status),
                };
                let task = tokio::task::spawn_local(station.run(stop.subscribe()));
                Entry { settings: settings.clone(), status, stop, task }
            });
        }
    }

    /// Ends the connections until [`BmpSide::start`]. Stations are notified later.
    pub fn stop(&self) {
        let _ = self.stop_tasks();
    }

    /// Ends the connections, and waits at most a second until stations are notified.
    pub async fn end(&self) {
        for task in self.stop_tasks() {
            let _ = task.await;
        }
    }

    fn stop_tasks(&self) -> Vec<JoinHandle<()>> {
        let stop = |entry: Entry| {
            entry.stop.send_replace(Some(Termination::Closed));
            entry.task
        };
        self.stations.take().into_values().map(stop).collect()
    }

    /// Returns the stations and states, by name.
    pub fn stations(&self) -> Vec<(StationSettings, StationStatus)> {
        let stations = self.stations.borrow();
        stations.values().map(|entry| (entry.settings.clone(), entry.status.borrow().clone())).collect()
    }

    fn draw_monitor(&self) -> MonitorId {
        let id = self.next_monitor.get();
        self.next_monitor.set(id.wrapping_add(1));
        id
    }
}

/// The task of a station.
struct Running {
    process: Weak<BgpProcess>,
    settings: StationSettings,
    status: Rc<RefCell<StationStatus>>,
}

impl Running {
    async fn run(self, mut stop: watch::Receiver<Option<Termination>>) {
        let mut wait = self.settings.retry_interval;
        loop {
            let ended = self.connect(&mut stop).await;
            let Ended::Lost(failure, was_synchronized) = ended else { return };
            self.failed(failure);
            if was_synchronized {
                wait = self.settings.retry_interval;
            }
            let pause = tokio::time::sleep(Duration::from_secs(wait.into()));
            tokio::select! {
                _ = stop.wait_for(Option::is_some) => return,
                () = pause => {}
            }
            wait = wait.saturating_mul(2).min(StationSettings::LONGEST_RETRY);
        }
    }

    /// Makes a connection, and serves the connection to the end.
    async fn connect(&self, stop: &mut watch::Receiver<Option<Termination>>) -> Ended {
        let Some(process) = self.process.upgrade() else { return Ended::Stopped };
        self.status.borrow_mut().enter(StationState::Connecting);
        let StationSettings { address, port, local_address, .. } = self.settings;
        let connecting = process.sockets.connect_to((address, port).into(), local_address);
        let connected = tokio::select! {
            _ = stop.wait_for(Option::is_some) => return Ended::Stopped,
            connected = timeout(CONNECT, connecting) => connected,
        };
        let stream = match connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(error) => return Ended::Lost(StationFailure::Connect(error.to_string()), false),
        };
        {
            let mut status = self.status.borrow_mut();
            status.connections += 1;
            status.enter(StationState::Synchronizing);
        }
        self.report(&StationEvent::Connected);
        let ended = connection::serve(self, &process, stream, stop).await;
        let mut status = self.status.borrow_mut();
        status.before = status.counters();
        status.present = StationCounters::default();
        (status.peers, status.behind) = (0, 0);
        ended
    }

    /// Notes a failure. The same failure is reported once.
    fn failed(&self, failure: StationFailure) {
        let text = failure.to_string();
        let is_new = {
            let mut status = self.status.borrow_mut();
            status.enter(StationState::Waiting);
            status.failures += 1;
            std::mem::replace(&mut status.problem, text.clone()) != text
        };
        if is_new {
            self.report(&StationEvent::Lost(failure));
        }
    }

    fn report(&self, event: &StationEvent) {
        let station = &*self.settings.name;
        match event {
            StationEvent::Lost(_) => warn!(event = event.id(), station, "{event}"),
            _ => info!(event = event.id(), station, "{event}"),
        }
    }
}
