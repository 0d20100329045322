//! All configured caches: which are connected, and whose data are in effect.
//!
//! Caches are ordered by preference, then by name. A cache is *synchronized* when the present connection has brought complete data. The
//! router connects to the first cache, and to the next cache while the connection fails or brings no data. Connections to caches behind a
//! synchronized cache end. The first synchronized cache has the data in effect; without a synchronized cache the newest unexpired data are
//! in effect.

use crate::epoch::Epochs;
use crate::event::{Event, Failure};
use crate::handover::{CacheState, Held, RpkiState};
use crate::session::{Action, CacheData, Session, SessionState};
use crate::settings::{CacheSettings, Settings, TlsSettings};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use serde::Serialize;
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};
use sluice_validation::VrpTable;

/// The time after the start until the absence of data is final.
pub const SETTLE_TIME: Duration = Duration::from_secs(120);

/// The number of a connection, unique in the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct ConnectionId(pub u32);

/// An event for the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum Input {
    /// The configuration.
    Configure(Settings),
    /// A connection was made.
    Connected(ConnectionId),
    /// Octets came.
    Received(ConnectionId, Vec<u8>),
    /// The cache closed a connection.
    Closed(ConnectionId),
    /// A connection could not be made: the system's reason.
    NotConnected(ConnectionId, String),
}

/// An effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Make a connection.
    Connect {
        /// The connection's number.
        connection: ConnectionId,
        /// The cache's address.
        address: IpAddr,
        /// The cache's TCP port.
        port: u16,
        /// The address to connect from; `None` for the system's choice.
        local_address: Option<IpAddr>,
        /// The protection by TLS.
        tls: Option<TlsSettings>,
    },
    /// Send octets.
    Send(ConnectionId, Vec<u8>),
    /// Close a connection once everything is sent.
    Close(ConnectionId),
    /// Notify subscribers: the data in effect changed, or the absence of data is final.
    Changed,
    /// Report an event.
    Event(Event),
}

/// A cache with its connection.
#[derive(Debug)]
pub(crate) struct Cache {
    pub session: Session,
    connection: Option<ConnectionId>,
    /// The last reported failure since the last End of Data.
    reported: Option<Failure>,
}

/// The machine of all caches.
#[derive(Debug)]
pub struct Rpki {
    settings: Settings,
    pub(crate) caches: BTreeMap<String, Cache>,
    held: Option<Held>,
    next_connection: u32,
    epochs: Epochs,
    /// The cache whose data are in effect.
    source: Option<String>,
    /// The cache's table behind the data in effect.
    origin: Option<Arc<VrpTable>>,
    settle_at: Option<Instant>,
    is_settled: bool,
    /// The caches of an earlier process, until the configuration comes.
    imported: BTreeMap<String, SessionState>,
}

impl Rpki {
    /// Makes the machine without caches. The numbers of its epochs grow from `first_epoch` on.
    pub fn new(first_epoch: u64) -> Self {
        Rpki {
            settings: Settings::default(),
            caches: BTreeMap::new(),
            held: None,
            next_connection: 0,
            epochs: Epochs::new(first_epoch),
            source: None,
            origin: None,
            settle_at: None,
            is_settled: false,
            imported: BTreeMap::new(),
        }
    }

    /// Returns the configuration.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the data in effect and the latest differences.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Returns the name of the cache whose data are in effect.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Returns true if the absence of data is final: caches had the time to send some.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns the number of synchronized caches.
    pub fn synchronized(&self) -> usize {
        self.caches.values().filter(|cache| cache.session.is_synchronized()).count()
    }

    /// Returns the names of the caches by preference.
    pub fn order(&self) -> Vec<String> {
        let mut names: Vec<(u8, &String)> =
            self.caches.iter().map(|(name, cache)| (cache.session.settings().preference, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name.clone()).collect()
    }

    fn configure(&mut self, now: Instant, settings: Settings, out: &mut Outbox<Output>) {
        let has_other_exceptions = self.settings.exceptions != settings.exceptions;
        let is_kept = |session: &Session| {
            let same = settings.caches.iter().find(|new| new.name == session.settings().name);
            same.is_some_and(|new| !new.is_elsewhere(session.settings()))
        };
        let gone: Vec<String> = self
            .caches
            .iter()
            .filter(|(_, cache)| !is_kept(&cache.session))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(mut cache) = self.caches.remove(&name) {
                self.hold(&name, &cache.session);
                let mut actions = Vec::new();
                cache.session.close(&mut actions);
                if let (Some(connection), false) = (cache.connection, actions.is_empty()) {
                    out.push(Output::Close(connection));
                }
            }
        }
        for new in &settings.caches {
            match self.caches.get_mut(&new.name) {
                Some(cache) => cache.session.set_settings(now, new.clone()),
                None => self.add(now, new.clone()),
            }
        }
        self.imported.clear();
        if self.caches.is_empty() {
            (self.held, self.settle_at, self.is_settled) = (None, None, true);
        } else if !self.is_settled && self.settle_at.is_none() {
            self.settle_at = Some(now + SETTLE_TIME);
        }
        self.settings = settings;
        self.reconcile(has_other_exceptions, out);
    }

    fn add(&mut self, now: Instant, settings: CacheSettings) {
        let name = settings.name.clone();
        let mut session = Session::new(settings);
        if let Some(state) = self.imported.remove(&name) {
            session.import(now, state);
        }
        self.caches.insert(name, Cache { session, connection: None, reported: None });
    }

    /// Keeps the data in effect of a removed cache.
    fn hold(&mut self, name: &str, session: &Session) {
        if let Some(data) = session.data().filter(|_| self.source.as_deref() == Some(name)) {
            self.held = Some(Held { cache: name.into(), data: data.clone(), until: session.expires_at() });
        }
    }

    /// Carries out a step of a connection's session.
    fn step(
        &mut self,
        connection: ConnectionId,
        out: &mut Outbox<Output>,
        step: impl FnOnce(&mut Session, &mut Vec<Action>),
    ) {
        let known = self.caches.iter_mut().find(|(_, cache)| cache.connection == Some(connection));
        let Some((name, cache)) = known else { return };
        let mut actions = Vec::new();
        step(&mut cache.session, &mut actions);
        let has_news = actions.iter().any(|action| !matches!(action, Action::Send(_)));
        carry_out(name, cache, &mut self.next_connection, actions, out);
        if has_news {
            self.reconcile(false, out);
        }
    }

    /// Opens and closes connections as the state of the caches wants, and puts the right data into effect.
    fn reconcile(&mut self, has_other_exceptions: bool, out: &mut Outbox<Output>) {
        let order = self.order();
        let is_first = |name: &&String| self.caches[*name].session.is_synchronized();
        let first = order.iter().position(|name| is_first(&name));
        let mut is_open = true;
        for (place, name) in order.iter().enumerate() {
            let Some(cache) = self.caches.get_mut(name) else { continue };
            let mut actions = Vec::new();
            if first.is_some_and(|first| place > first) {
                cache.session.close(&mut actions);
            } else if is_open {
                cache.session.open(&mut actions);
                is_open = cache.session.is_hopeless();
            }
            carry_out(name, cache, &mut self.next_connection, actions, out);
        }
        if first.is_some() {
            self.held = None;
        }
        self.publish(first.map(|first| order[first].clone()), has_other_exceptions, out);
    }

    /// Returns the newest unexpired data with the cache's name.
    fn newest(&self) -> Option<(String, &CacheData)> {
        let of_caches = self.caches.iter().filter_map(|(name, cache)| Some((name, cache.session.data()?)));
        let held = self.held.iter().map(|held| (&held.cache, &held.data));
        let newest = of_caches.chain(held).max_by_key(|(_, data)| data.received);
        newest.map(|(name, data)| (name.clone(), data))
    }

    fn publish(
        &mut self,
        synchronized: Option<String>,
        has_other_exceptions: bool,
        out: &mut Outbox<Output>,
    ) {
        let source = match synchronized.and_then(|name| Some((self.caches.get(&name)?.session.data()?, name)))
        {
            Some((data, name)) => Some((name, data)),
            None => self.newest(),
        };
        let (name, origin) = match source {
            Some((name, data)) => (Some(name), Some(data.table.clone())),
            None => (None, None),
        };
        let exceptions = &self.settings.exceptions;
        let is_local = origin.is_none() && self.caches.is_empty() && exceptions.asserts();
        let origin = if is_local { Some(Arc::default()) } else { origin };
        let is_same = !self.epochs.is_resumed()
            && match (&self.origin, &origin) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new) || is_local && old.is_empty(),
                (old, new) => old.is_none() && new.is_none(),
            };
        let had_source = (self.source.clone(), self.epochs.has_data());
        if !is_same || has_other_exceptions {
            let table = origin.as_ref().map(|origin| match exceptions.is_empty() {
                true => origin.clone(),
                false => Arc::new(exceptions.applied(origin)),
            });
            self.origin = origin;
            if self.epochs.set(table).is_some() {
                out.push(Output::Changed);
            }
        }
        self.source = name;
        let has_data = self.epochs.table().is_some();
        self.is_settled |= has_data;
        if had_source != (self.source.clone(), has_data) {
            out.push(Output::Event(match has_data {
                true => Event::Source { cache: self.source.clone() },
                false => Event::NoData,
            }));
        }
    }
}

/// Carries out the effects of a session.
fn carry_out(
    name: &str,
    cache: &mut Cache,
    next_connection: &mut u32,
    actions: Vec<Action>,
    out: &mut Outbox<Output>,
) {
    for action in actions {
        match action {
            Action::Connect => {
                let connection = ConnectionId(*next_connection);
                *next_connection = next_connection.wrapping_add(1);
                cache.connection = Some(connection);
                let CacheSettings { address, port, local_address, tls, .. } =
                    cache.session.settings().clone();
                out.push(Output::Connect { connection, address, port, local_address, tls });
            }
            Action::Send(octets) => {
                if let Some(connection) = cache.connection {
                    out.push(Output::Send(connection, octets));
                }
            }
            Action::Close => {
                if let Some(connection) = cache.connection.take() {
                    out.push(Output::Close(connection));
                }
            }
            Action::Failed(failure) => {
                if cache.reported.as_ref() != Some(&failure) {
                    cache.reported = Some(failure.clone());
                    out.push(Output::Event(Event::Lost { cache: name.into(), failure }));
                }
            }
            Action::Synchronized => {
                let is_first = cache.session.is_first_answer();
                cache.reported = None;
                if is_first {
                    let vrps = cache.session.data().map_or(0, |data| data.table.len());
                    let version = cache.session.version();
                    out.push(Output::Event(Event::Synchronized { cache: name.into(), version, vrps }));
                }
            }
            Action::Expired => out.push(Output::Event(Event::Expired { cache: name.into() })),
        }
    }
}

impl Machine for Rpki {
    type Input = Input;
    type Output = Output;
    type State = RpkiState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Configure(settings) => self.configure(now, settings, out),
            Input::Connected(connection) => {
                self.step(connection, out, |session, actions| session.connected(now, actions));
            }
            Input::Received(connection, octets) => {
                self.step(connection, out, |session, actions| session.receive(now, &octets, actions));
            }
            Input::Closed(connection) => {
                self.step(connection, out, |session, actions| session.closed(now, Failure::Closed, actions));
            }
            Input::NotConnected(connection, error) => {
                let failure = Failure::Connect(error);
                self.step(connection, out, |session, actions| session.closed(now, failure, actions));
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.caches.values().filter_map(|cache| cache.session.next_deadline());
        let held = self.held.as_ref().and_then(|held| held.until);
        sessions.chain(held).chain(self.settle_at).min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        for (name, cache) in &mut self.caches {
            let mut actions = Vec::new();
            cache.session.on_deadline(now, &mut actions);
            carry_out(name, cache, &mut self.next_connection, actions, out);
        }
        if let Some(held) = self.held.take_if(|held| held.until.is_some_and(|until| until <= now)) {
            out.push(Output::Event(Event::Expired { cache: held.cache }));
        }
        if self.settle_at.take_if(|at| *at <= now).is_some() && !self.is_settled {
            self.is_settled = true;
            out.push(Output::Changed);
        }
        self.reconcile(false, out);
    }

    fn export(&self) -> RpkiState {
        let cache = |(name, cache): (&String, &Cache)| CacheState {
            name: name.clone(),
            session: cache.session.export(),
        };
        RpkiState {
            epochs: self.epochs.export(),
            source: self.source.clone(),
            is_settled: self.is_settled,
            settle_at: self.settle_at,
            caches: self.caches.iter().map(cache).collect(),
            held: self.held.clone(),
        }
    }

    fn import(&mut self, _: Instant, state: RpkiState, _: &mut Outbox<Output>) {
        let RpkiState { epochs, source, is_settled, settle_at, caches, held } = state;
        self.epochs.import(epochs);
        (self.source, self.held) = (source, held);
        (self.is_settled, self.settle_at) = (is_settled, settle_at);
        self.imported = caches.into_iter().map(|cache| (cache.name, cache.session)).collect();
    }
}
