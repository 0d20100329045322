//! The stream of the RIB on this element: the leader writes its RIB's routes to the store, a router announces to its RIB what it
//! reads there.
//!
//! A task ([`run`]) keeps a session with one of the store's servers at a time, and asks the next one when a session ends. In a session, the
//! element leads ([`term`]) or follows ([`reader`]). The state outlives sessions: a leader that reconnects while its lease lasts
//! goes on where it was, and a follower reads what changed.

pub(crate) mod announcer;
mod reader;
mod subscription;
mod term;

use crate::ClusterProcess;
use crate::store::{Client, Connector, Found, StoreError, server};
use announcer::Announcer;
use sluice_cluster::io::Input;
use sluice_cluster::settings::{Settings, StoreSettings};
use sluice_cluster::stream::follower::Follower;
use sluice_cluster::stream::loader::Loaded;
use sluice_process::{Frame, RibSubscription};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use term::Term;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The time until the next server is asked.
const RETRY: Duration = Duration::from_millis(500);

/// The time in another store for the candidate that led in the store before: other candidates wait, because their RIBs lack routes.
const FORMER_LEADER: Duration = Duration::from_secs(15);
/// The time in another store for the leader to write all routes anew: routers keep their routes.
const REWRITING: Duration = Duration::from_secs(30);

/// What this element knows of the store.
#[derive(Clone, Default)]
pub(crate) struct StoreView {
    /// The server of the present session.
    pub(crate) endpoint: Option<SocketAddr>,
    /// The reason why there is no session.
    pub(crate) problem: Option<String>,
    /// The leader.
    pub(crate) leader: Option<Found>,
    /// The revision of the store.
    pub(crate) revision: u64,
    /// The octets of the store.
    pub(crate) octets: u64,
    /// The revision up to which the log was read.
    pub(crate) followed: u64,
    /// The time from the leader's entry to its arrival here, of the last entry.
    pub(crate) lag_ms: Option<u64>,
}

/// Returns the milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The stream on this element.
pub(crate) struct Stream {
    view: RefCell<StoreView>,
    term: RefCell<Option<Term>>,
    follower: RefCell<Follower>,
    announcer: Announcer,
    /// The routes of the RIB, while this element leads.
    pub(crate) subscription: Rc<RibSubscription>,
    /// The settings changed.
    changed: Notify,
    /// Changes wait for the writer.
    due: Notify,
    /// The writer has taken changes.
    room: Notify,
    instance: RefCell<String>,
    session: RefCell<Option<Client>>,
    /// The next term writes all routes anew.
    rewrites: Cell<bool>,
    /// The time when the settings named another store.
    moved: Cell<Option<Instant>>,
    /// The time when this element found a store that began anew, until its routes are taken.
    began_anew: Cell<Option<Instant>>,
    /// The time until which the last term of this element kept routes of the leader before; the next term goes on with it.
    held_until: Cell<Option<sluice_base::Instant>>,
    /// True if this element led in the store before.
    has_led: Cell<bool>,
}

impl Stream {
    pub(crate) fn new(frame: &Frame) -> Self {
        Stream {
            view: RefCell::default(),
            term: RefCell::default(),
            follower: RefCell::default(),
            announcer: Announcer::default(),
            subscription: RibSubscription::announced(&frame.router),
            changed: Notify::new(),
            due: Notify::new(),
            room: Notify::new(),
            instance: RefCell::default(),
            session: RefCell::default(),
            rewrites: Cell::new(false),
            moved: Cell::default(),
            began_anew: Cell::default(),
            held_until: Cell::default(),
            has_led: Cell::new(false),
        }
    }

    /// Returns what is known of the store.
    pub(crate) fn view(&self) -> StoreView {
        self.view.borrow().clone()
    }

    /// Returns the client of the last session with the store.
    pub(crate) fn session(&self) -> Option<Client> {
        self.session.borrow().clone()
    }

    /// Reads the follower's copy.
    pub(crate) fn with_follower<T>(&self, read: impl FnOnce(&Follower) -> T) -> T {
        read(&self.follower.borrow())
    }

    /// Reads the leader's state, if this element leads.
    pub(crate) fn with_term<T>(&self, read: impl FnOnce(&Term) -> T) -> Option<T> {
        self.term.borrow().as_ref().map(read)
    }

    /// Notes changed settings.
    pub(crate) fn configured(&self) {
        self.changed.notify_one();
    }

    /// Returns the reasons for which the stream does not work as configured.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = self.view.borrow().problem.clone();
        let problem = problem.map(|problem| {
            format!("no store: {problem}; packets are forwarded by the routes that are known")
        });
        problem.into_iter().chain(self.announcer.problems()).chain(self.subscription.problem()).collect()
    }

    /// Notes the interfaces of this machine.
    pub(crate) fn interfaces_changed(&self, process: &ClusterProcess) {
        let all = process.protocol.interfaces.all();
        if let Some(term) = &mut *self.term.borrow_mut() {
            term.leader.set_interfaces(all.clone());
        }
        let by_name = all.into_iter().map(|(index, name)| (name, index)).collect();
        self.follower.borrow_mut().set_interfaces(by_name);
        self.due.notify_one();
        self.announcer.wake();
    }

    /// Ends: the leader's key goes at once, and with `for_good` the routes in the RIB too.
    pub(crate) async fn end(&self, for_good: bool) {
        let session = self.session.borrow().clone();
        let lease = self.term.borrow().as_ref().map(|term| term.lease);
        self.step_down();
        if let Some((client, lease)) = session.zip(lease) {
            client.revoke(lease).await;
        }
        if for_good {
            self.announcer.stop().await;
        }
    }

    fn lost(&self, error: &StoreError, endpoint: SocketAddr) {
        let text = format!("{endpoint}: {error}");
        let mut view = self.view.borrow_mut();
        view.endpoint = None;
        if view.problem.replace(text.clone()).is_none() {
            warn!(event = "cluster.store.lost", "no store: {text}; routes stay as they are");
        }
    }

    fn connected(&self, endpoint: SocketAddr) {
        let mut view = self.view.borrow_mut();
        view.endpoint = Some(endpoint);
        view.problem = None;
        info!(event = "cluster.store.connected", "the store answers at {endpoint}");
    }

    /// Notes the revision and the octets of the store.
    fn looked(&self, revision: u64, octets: u64) {
        let mut view = self.view.borrow_mut();
        (view.revision, view.octets) = (revision, octets);
    }

    fn set_leader(&self, process: &ClusterProcess, found: Option<Found>, revision: u64) {
        let mut view = self.view.borrow_mut();
        view.leader = found;
        view.revision = view.revision.max(revision);
        drop(view);
        if let Some(element) = found.and_then(|found| found.element) {
            process.input(Input::Leader(element));
        }
    }

    /// Forgets revisions, epoch and leader: the settings name another store.
    fn move_on(&self) {
        self.has_led.set(self.term.borrow().is_some());
        self.moved.set(Some(Instant::now()));
        self.step_down();
        self.follower.borrow_mut().lost();
        self.view.borrow_mut().leader = None;
    }

    fn moved_within(&self, time: Duration) -> bool {
        self.moved.get().is_some_and(|moved| moved.elapsed() < time)
    }

    /// Returns true while another candidate goes first.
    fn waits_to_lead(&self) -> bool {
        !self.has_led.get() && self.moved_within(FORMER_LEADER)
    }

    /// Returns true if the routes of this element's RIB stay as they are.
    fn holds_routes(&self) -> bool {
        let is_rewritten = self.began_anew.get().is_some_and(|found| found.elapsed() < REWRITING);
        is_rewritten || self.moved_within(REWRITING)
    }

    /// Returns true if routes that were read are of a store that began anew: they are not taken before its leader had the time to write all.
    fn waits_for_all(&self, loaded: &Loaded) -> bool {
        let waits = self.began_anew.get().is_none() && self.follower.borrow().began_anew(loaded);
        self.began_anew.set(waits.then(Instant::now));
        waits
    }

    /// Subscribes to the routes that the store distributes; `None`: to none.
    fn subscribe(&self, store: Option<&StoreSettings>) {
        let origins = store.into_iter().flat_map(|store| store.origins.iter().cloned());
        self.subscription.set_origins(origins.collect());
    }

    /// Ends this element's time as the leader.
    fn step_down(&self) {
        if let Some(term) = self.term.take() {
            self.held_until.set(term.leader.holds_until());
            self.subscribe(None);
            self.room.notify_waiters();
        }
    }
}

/// Keeps the stream, for ever.
pub(crate) async fn run(process: Rc<ClusterProcess>, instance: String) {
    let stream = &process.stream;
    stream.instance.replace(instance);
    // Origins of an earlier registration have another instance's name.
    stream.announcer.restart();
    let connector =
        Connector::start(process.protocol.frame.router.clone(), process.protocol.frame.run_dir.clone());
    let (mut place, mut sealed_by, mut origins, mut which) = (0, None, None, None);
    loop {
        let settings = process.settings.borrow().clone();
        let store = settings.as_ref().and_then(|settings| settings.store.clone());
        let Some((settings, store)) = settings.zip(store) else {
            stream.step_down();
            stream.announcer.stop().await;
            stream.view.take();
            stream.follower.take();
            stream.changed.notified().await;
            continue;
        };
        // Values under a key that is going to be removed are written anew.
        let key = settings.keys.current.clone();
        if sealed_by.replace(key.clone()).is_some_and(|before| before != key)
            && stream.term.borrow().is_some()
        {
            stream.step_down();
            stream.rewrites.set(true);
        }
        let store_now = (store.name.clone(), store.members.clone(), store.generation);
        if which.replace(store_now.clone()).is_some_and(|before| before != store_now) {
            stream.move_on();
        }
        // Routes of origins that are not named any more are no part of the next dump.
        if origins.replace(store.origins.clone()).is_some_and(|before| before != store.origins)
            && stream.term.borrow().is_some()
        {
            stream.subscribe(Some(&store));
        }
        if !settings.takes_routes() {
            stream.announcer.stop().await;
        }
        let endpoint = store.endpoints[place % store.endpoints.len()];
        let session = session(&process, &connector, &settings, &store, endpoint);
        let ended = tokio::select! {
            ended = session => ended,
            () = stream.changed.notified() => continue,
        };
        let Err(error) = ended;
        stream.lost(&error, endpoint);
        place += 1;
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stream.changed.notified() => {}
        }
    }
}

/// Leads or follows, until the store does not answer.
async fn session(
    process: &Rc<ClusterProcess>,
    connector: &Connector,
    settings: &Settings,
    store: &StoreSettings,
    endpoint: SocketAddr,
) -> Result<Infallible, StoreError> {
    let stream = &process.stream;
    let tls = match store.is_authenticated {
        true => Some(server::tls(&process.protocol.frame, settings).await?),
        false => None,
    };
    let connecting = (connector.clone(), tls);
    let client = Client::connect(connecting, endpoint, &store.name, settings.keys.clone()).await?;
    let (mut leader, mut revision) = client.leader().await?;
    stream.session.replace(Some(client.clone()));
    stream.connected(endpoint);
    process.roster.changed.notify_one();
    process.configuration.changed.notify_one();
    loop {
        stream.set_leader(process, leader, revision);
        let own = stream.with_term(|term| (term.epoch, term.lease));
        let is_own_life = leader.is_some_and(|leader| own.is_some_and(|(epoch, _)| epoch == leader.epoch));
        if !is_own_life {
            stream.step_down();
        }
        let is_earlier_life = leader.is_some_and(|leader| leader.element == Some(settings.element));
        match own.filter(|_| is_own_life) {
            Some((_, lease)) if !settings.is_candidate() => {
                stream.step_down();
                client.revoke(lease).await;
            }
            Some((_, lease)) => term::lead(process, &client, lease).await?,
            None if settings.is_candidate() && leader.is_none() && stream.waits_to_lead() => {
                tokio::time::sleep(RETRY).await;
            }
            None if settings.is_candidate() && (leader.is_none() || is_earlier_life) => {
                let lease = client.grant(term::LEASE_SECONDS).await?;
                match client.campaign(settings.element, lease, leader).await? {
                    Some(epoch) => term::begin(process, &client, settings.element, epoch, lease).await?,
                    None => client.revoke(lease).await,
                }
            }
            None => reader::follow(process, &client, settings, revision).await?,
        }
        (leader, revision) = client.leader().await?;
    }
}
