//! A process's endpoint: its targets, its resolved methods, and its connections.

use super::channel::Channel;
use super::connection::Connection;
use super::link::{LinkState, ask};
use super::lives::WatchState;
use super::options::EndpointOptions;
use super::registered::Registered;
use super::relay::{Relay, RelayedMethod};
use super::route::{LocalMethod, Route};
use super::udp::UdpCaller;
use crate::finder;
use crate::idl::finder::v1 as wire;
use crate::server::registry::{ANY_INSTANCE, Registry};
use crate::server::service::nobody;
use crate::wire::denied::Denied;
use crate::wire::dial::dial;
use crate::wire::frame::Key;
use crate::wire::kill;
use crate::wire::seal::Credential;
use crate::{Family, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use tokio::sync::watch as signal;
use tokio::task::AbortHandle;
use tokio::time::Instant;

fn key_of(octets: &[u8]) -> Result<Key, XrlError> {
    octets.try_into().map_err(|_| XrlError::Protocol(format!("a key of {} octets", octets.len())))
}

/// A process's endpoint. Clones are the same endpoint. The endpoint needs a `LocalSet`.
#[derive(Clone)]
pub struct XrlEndpoint(pub(crate) Rc<Inner>);

/// A process and its user, as the kernel reports them to the Finder.
#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    uid: u32,
}

/// Target and forced family.
type ChannelKey = (String, Option<Family>);

pub(crate) struct Inner {
    pub(crate) options: EndpointOptions,
    pub(crate) registry: Rc<Registry>,
    pub(crate) link: signal::Sender<LinkState>,
    pub(crate) targets: RefCell<BTreeMap<u64, Registered>>,
    pub(crate) watches: RefCell<Vec<Weak<WatchState>>>,
    /// The name by which the Finder knows the process.
    pub(crate) principal: RefCell<Rc<str>>,
    /// The time since which the process is connected to the Finder.
    pub(crate) linked: Cell<Option<Instant>>,
    channels: RefCell<HashMap<ChannelKey, Weak<Channel>>>,
    connections: RefCell<HashMap<(Family, String), Rc<Connection>>>,
    udp: RefCell<HashMap<SocketAddr, Weak<UdpCaller>>>,
    pub(crate) endpoints: RefCell<BTreeMap<Family, wire::Endpoint>>,
    pub(crate) tasks: RefCell<Vec<AbortHandle>>,
    pub(crate) sockets: RefCell<Vec<PathBuf>>,
    /// The sockets of targets, for a process that reads without a Finder.
    direct: Option<BTreeMap<String, PathBuf>>,
    /// Carries all calls out, for a process that calls targets of another router.
    pub(crate) relay: Option<Rc<dyn Relay>>,
}

impl Inner {
    pub(crate) fn new(
        options: EndpointOptions,
        direct: Option<BTreeMap<String, PathBuf>>,
        relay: Option<Rc<dyn Relay>>,
    ) -> Self {
        let registry = Rc::new(Registry::default());
        registry.max_frame.set(options.max_frame);
        Inner {
            options,
            registry,
            link: signal::Sender::new(LinkState::Down(XrlError::NoFinder)),
            targets: RefCell::default(),
            watches: RefCell::default(),
            principal: RefCell::new(nobody()),
            linked: Cell::default(),
            channels: RefCell::default(),
            connections: RefCell::default(),
            udp: RefCell::default(),
            endpoints: RefCell::default(),
            tasks: RefCell::default(),
            sockets: RefCell::default(),
            direct,
            relay,
        }
    }
}

impl XrlEndpoint {
    pub(crate) fn channel(&self, target: &str, family: Option<Family>) -> Rc<Channel> {
        let mut channels = self.0.channels.borrow_mut();
        let key = (target.to_owned(), family);
        if let Some(channel) = channels.get(&key).and_then(Weak::upgrade) {
            return channel;
        }
        channels.retain(|_, c| c.strong_count() > 0);
        let channel = Channel::new(self.clone(), target, family);
        channels.insert(key, Rc::downgrade(&channel));
        channel
    }

    /// Finds the way to a method, `path` being INTERFACE/METHOD.
    pub(crate) async fn resolve(
        &self,
        target: &str,
        path: &str,
        family: Option<Family>,
    ) -> Result<Route, XrlError> {
        let inner = &self.0;
        if let Some(relay) = &inner.relay {
            let (relay, target, path) = (Rc::clone(relay), target.to_owned(), path.to_owned());
            return Ok(Route::Relay(Rc::new(RelayedMethod { relay, target, path })));
        }
        if let Some(targets) = &inner.direct {
            let address = targets.get(target).ok_or(XrlError::NoFinder)?.to_string_lossy();
            let path = format!("{ANY_INSTANCE}/{path}");
            return inner.route(Family::Unix, &address, &path, Credential::none(), None).await;
        }
        // Calls fail at once while there is no Finder: what is cached goes on without it.
        let connection = inner.current_link()?;
        if target == finder::TARGET {
            let number = connection.bind(&format!("{target}/{path}"), &Credential::none())?;
            return Ok(Route::Stream { version: connection.version(), connection, number });
        }
        let reply: wire::ResolveReply = ask(&connection, "Resolve", &resolve_request(target, path)).await?;
        let principal = Rc::clone(&inner.principal.borrow());
        let credential = |key: &[u8]| {
            let principal = Rc::clone(&principal);
            key_of(key).map(|key| Credential { key, grant: reply.grant, principal })
        };
        let (local, network) = (credential(&reply.key)?, credential(&reply.network_key)?);
        let registered = Process { pid: reply.pid, uid: reply.uid };
        let path = format!("{}/{path}", reply.instance);
        if family.is_none_or(|f| f == Family::InProcess)
            && let Some(entry) = inner.registry.local(&path)
        {
            return Ok(Route::Local(Rc::new(LocalMethod { entry, principal })));
        }
        let mut endpoints: Vec<(Family, String)> = reply
            .endpoints
            .into_iter()
            .filter_map(|e| Family::from_wire(e.family).map(|f| (f, e.address)))
            .filter(|(f, _)| family.is_none_or(|wanted| wanted == *f))
            .collect();
        endpoints.sort_by_key(|(f, _)| *f);
        let mut error = XrlError::NoFamily(family.map_or("any".to_owned(), |f| f.to_string()));
        for (family, address) in endpoints {
            let credential = if family == Family::Unix { &local } else { &network };
            let route = inner.route(family, &address, &path, credential.clone(), Some(registered));
            match route.await {
                Ok(route) => return Ok(route),
                Err(e) => error = e,
            }
        }
        Err(error)
    }
}

pub(crate) fn resolve_request(target: &str, path: &str) -> wire::ResolveRequest {
    let (interface, method) = path.split_once('/').unwrap_or((path, ""));
    wire::ResolveRequest {
        target: target.to_owned(),
        interface: interface.to_owned(),
        method: method.to_owned(),
    }
}

impl Inner {
    /// The current connection to the Finder, if any.
    pub(crate) fn current_link(&self) -> Result<Rc<Connection>, XrlError> {
        self.link.borrow().connection()
    }

    /// The connection to the Finder; waits for the connection if necessary.
    pub(crate) async fn link(&self) -> Result<Rc<Connection>, XrlError> {
        let mut changes = self.link.subscribe();
        let up = changes.wait_for(|state| state.connection().is_ok() || state.is_final());
        match tokio::time::timeout(self.options.patience, up).await {
            Ok(Ok(state)) => state.connection(),
            _ => Err(self.current_link().err().unwrap_or(XrlError::NoFinder)),
        }
    }

    /// Drops the resolution of a name.
    pub(crate) fn invalidate(&self, name: &str) {
        for channel in self.channels.borrow().values().filter_map(Weak::upgrade) {
            if channel.target() == name {
                channel.invalidate();
            }
        }
    }

    /// Finds the way to a method at an address. At a Unix socket `registered` must answer, if given.
    async fn route(
        &self,
        family: Family,
        address: &str,
        path: &str,
        credential: Credential,
        registered: Option<Process>,
    ) -> Result<Route, XrlError> {
        match family {
            Family::Unix | Family::Tcp => {
                let connection = self.connection(family, address).await?;
                if let (Family::Unix, Some(registered)) = (family, registered) {
                    self.check_peer(&connection, address, registered)?;
                }
                let number = connection.bind(path, &credential)?;
                Ok(Route::Stream { version: connection.version(), connection, number })
            }
            Family::Udp => {
                let caller = self.udp_caller(parse(address)?).await?;
                Ok(Route::Udp { caller, path: path.into(), credential })
            }
            Family::Kill if path.ends_with(&format!("/{}/{}", kill::INTERFACE, kill::METHOD)) => {
                Ok(Route::Kill { pid: parse(address)? })
            }
            Family::Kill | Family::InProcess => Err(XrlError::NoFamily(family.to_string())),
        }
    }

    /// Refuses a socket at which another process listens than the one that registered the target: neither a key nor an
    /// argument is sent to it.
    fn check_peer(
        &self,
        connection: &Rc<Connection>,
        address: &str,
        registered: Process,
    ) -> Result<(), XrlError> {
        let (pid, uid) = connection.peer();
        if pid == Some(registered.pid) && uid == Some(registered.uid) {
            return Ok(());
        }
        let (found, expected) = (pid.unwrap_or(0), registered.pid);
        self.registry.refusals.note(Denied::Impostor, "", address, (pid, uid));
        let why = XrlError::Disconnected(format!(
            "{address}: process {found} listens there, not the target's process {expected}"
        ));
        connection.close(why.clone());
        self.connections.borrow_mut().retain(|_, c| c.is_open());
        Err(why)
    }

    /// Returns the caller of an address. Calls to an address share a caller: at most one call is in flight.
    async fn udp_caller(&self, address: SocketAddr) -> Result<Rc<UdpCaller>, XrlError> {
        let known = |map: &HashMap<_, Weak<UdpCaller>>| map.get(&address).and_then(Weak::upgrade);
        if let Some(caller) = known(&self.udp.borrow()).filter(|c| c.is_valid()) {
            return Ok(caller);
        }
        let made = UdpCaller::new(address).await.map_err(|e| XrlError::Disconnected(e.to_string()))?;
        let mut callers = self.udp.borrow_mut();
        if let Some(caller) = known(&callers).filter(|c| c.is_valid()) {
            return Ok(caller);
        }
        callers.retain(|_, c| c.strong_count() > 0);
        let caller = Rc::new(made);
        callers.insert(address, Rc::downgrade(&caller));
        Ok(caller)
    }

    async fn connection(&self, family: Family, address: &str) -> Result<Rc<Connection>, XrlError> {
        let key = (family, address.to_owned());
        let open = |map: &HashMap<_, Rc<Connection>>| map.get(&key).filter(|c| c.is_open()).cloned();
        if let Some(connection) = open(&self.connections.borrow()) {
            return Ok(connection);
        }
        let stream =
            dial(family, address).await.map_err(|e| XrlError::Disconnected(format!("{address}: {e}")))?;
        let mut connections = self.connections.borrow_mut();
        // Another call may have been faster; all have to share one connection for their order.
        if let Some(connection) = open(&connections) {
            return Ok(connection);
        }
        connections.retain(|_, c| c.is_open());
        let connection = Connection::start(stream, self.options.window);
        connections.insert(key, Rc::clone(&connection));
        Ok(connection)
    }
}

fn parse<T: std::str::FromStr>(address: &str) -> Result<T, XrlError> {
    address.parse().map_err(|_| XrlError::Protocol(format!("the Finder sent the address `{address}`")))
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.borrow().iter().for_each(AbortHandle::abort);
        let ended = || XrlError::Disconnected("the endpoint was dropped".to_owned());
        self.connections.borrow().values().for_each(|c| c.close(ended()));
        if let Ok(connection) = self.current_link() {
            connection.close(ended());
        }
        self.watches.borrow().iter().filter_map(Weak::upgrade).for_each(|w| w.end());
        for path in self.sockets.borrow().iter() {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}
