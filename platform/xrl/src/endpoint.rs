//! A process's endpoint: its targets, its resolved methods, and its connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch as signal;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::Instant;

use crate::channel::{Channel, LocalMethod, Route};
use crate::connection::Connection;
use crate::dial::dial;
use crate::finder::acl::Secret;
use crate::finder::core::Subject;
use crate::finder::denials::Denied;
use crate::finder::{self, random_key};
use crate::frame::Key;
use crate::idl::finder::v1 as wire;
use crate::link::{self, LinkState, ask};
use crate::registry::{self, ANY_INSTANCE, MethodEntry, Registry};
use crate::relay::{Relay, RelayedMethod};
use crate::seal::{Credential, Seal, Seals};
use crate::server::{self, Listener};
use crate::service::nobody;
use crate::target::{Target, offer};
use crate::udp::{self, UdpCaller};
use crate::watch::{LifeWatch, WatchState};
use crate::{Family, XrlError, kill, refusals};

/// Calls that may be outstanding on a connection.
pub const DEFAULT_WINDOW: usize = 256;

/// The address of the Finder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FinderAddress {
    /// A Unix socket of the host.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// Options of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The address of the Finder.
    pub finder: FinderAddress,
    /// The process's own secret; `None`: the process has the rights of its user.
    pub secret: Option<Secret>,
    /// The folder for the process's own Unix socket.
    pub socket_dir: PathBuf,
    /// The address that targets listen on by TCP and UDP.
    pub listen: IpAddr,
    /// Calls that may be outstanding on a connection; further calls wait in their order.
    pub window: usize,
    /// The longest wait of calls for the Finder.
    pub patience: Duration,
    /// The longest frame of callers other than root and the operator, in octets.
    pub max_frame: usize,
}

impl EndpointOptions {
    /// The usual choices for a process of the Finder's host.
    pub fn new(
        finder: impl Into<PathBuf>,
        secret: impl Into<Option<Secret>>,
        socket_dir: impl Into<PathBuf>,
    ) -> Self {
        EndpointOptions {
            finder: FinderAddress::Unix(finder.into()),
            secret: secret.into(),
            socket_dir: socket_dir.into(),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            window: DEFAULT_WINDOW,
            patience: Duration::from_secs(5),
            max_frame: registry::MAX_FRAME,
        }
    }
}

/// A target as stored by the endpoint, for registration with every new Finder.
pub(crate) struct Registered {
    pub(crate) request: wire::RegisterRequest,
    pub(crate) paths: Vec<String>,
    seals: Rc<Seals>,
}

impl Registered {
    /// Takes what the Finder told of a registration: from now on keys of the new seal are valid.
    pub(crate) fn take_seal(&mut self, reply: wire::RegisterReply) -> Result<(), XrlError> {
        self.request.cookie = reply.cookie;
        self.seals.add(Seal::read(&reply.seal)?);
        Ok(())
    }
}

fn key_of(octets: &[u8]) -> Result<Key, XrlError> {
    octets.try_into().map_err(|_| XrlError::Protocol(format!("a key of {} octets", octets.len())))
}

/// A registered target, unregistered on drop; until then its endpoint lives.
pub struct TargetHandle {
    router: XrlEndpoint,
    id: u64,
    instance: String,
}

impl TargetHandle {
    /// The target's name.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl Drop for TargetHandle {
    fn drop(&mut self) {
        self.router.0.unregister(self.id);
    }
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
    endpoints: RefCell<BTreeMap<Family, wire::Endpoint>>,
    tasks: RefCell<Vec<AbortHandle>>,
    sockets: RefCell<Vec<PathBuf>>,
    /// The sockets of targets, for a process that reads without a Finder.
    direct: Option<BTreeMap<String, PathBuf>>,
    /// Carries all calls out, for a process that calls targets of another router.
    pub(crate) relay: Option<Rc<dyn Relay>>,
}

impl Inner {
    fn new(
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
    /// Connects to the Finder; fails if the options' time is over before.
    pub async fn connect(options: EndpointOptions) -> Result<Self, XrlError> {
        let inner = Rc::new(Inner::new(options, None, None));
        let task = spawn_local(link::keep(Rc::downgrade(&inner)));
        inner.tasks.borrow_mut().push(task.abort_handle());
        let task = spawn_local(refusals::report(Rc::downgrade(&inner)));
        inner.tasks.borrow_mut().push(task.abort_handle());
        inner.link().await?;
        Ok(XrlEndpoint(inner))
    }

    /// Returns an endpoint that calls the targets at the given Unix sockets without a Finder. The receivers let root
    /// and the operator call reading methods, and refuse further methods with [`XrlError::BadKey`]; calls for the
    /// Finder fail at once.
    pub fn direct(targets: BTreeMap<String, PathBuf>) -> Self {
        let mut options = EndpointOptions::new(PathBuf::new(), None, PathBuf::new());
        options.patience = Duration::ZERO;
        XrlEndpoint(Rc::new(Inner::new(options, Some(targets), None)))
    }

    /// Returns an endpoint whose calls a relay carries out, those to the Finder too.
    pub fn through(relay: Rc<dyn Relay>) -> Self {
        let mut options = EndpointOptions::new(PathBuf::new(), None, PathBuf::new());
        options.patience = Duration::ZERO;
        XrlEndpoint(Rc::new(Inner::new(options, None, Some(relay))))
    }

    /// Waits until the Finder refuses the process's secret, as does a replacing manager's Finder without the secret.
    pub async fn refused(&self) {
        let mut link = self.0.link.subscribe();
        // An error means that the endpoint is gone, which this reference to it excludes.
        let _ = link.wait_for(LinkState::is_final).await;
    }

    /// Registers a target. After the return, the target can be called.
    pub async fn register(&self, target: Target) -> Result<TargetHandle, XrlError> {
        let mut endpoints = Vec::new();
        for family in &target.families {
            endpoints.extend(self.0.listen(*family).await?);
        }
        let connection = self.0.link().await?;
        let incarnation = random_key();
        let [high, ..] = incarnation.as_chunks::<8>().0 else {
            return Err(XrlError::Internal("a key is 16 octets".to_owned()));
        };
        let mut request = wire::RegisterRequest {
            class: target.class,
            instance: target.instance.unwrap_or_default(),
            singleton: target.singleton,
            endpoints,
            interfaces: target.services.iter().map(offer).collect(),
            cookie: Vec::new(),
            incarnation: u64::from_be_bytes(*high),
        };
        let reply: wire::RegisterReply = ask(&connection, "Register", &request).await?;
        request.instance.clone_from(&reply.instance);
        let mut registered = Registered { request, paths: Vec::new(), seals: Rc::default() };
        let instance = reply.instance.clone();
        registered.take_seal(reply)?;
        for service in target.services {
            for method in service.methods {
                let path = format!("{instance}/{}/{}", service.name, method.name);
                let seals = &registered.seals;
                let entry = MethodEntry::new(&instance, method, seals);
                self.0.registry.insert(path.clone(), Rc::new(entry));
                registered.paths.push(path);
            }
        }
        let id = self.0.insert(registered);
        let handle = TargetHandle { router: self.clone(), id, instance: instance.clone() };
        let _enabled: wire::EnableReply =
            ask(&connection, "Enable", &wire::EnableRequest { instance }).await?;
        Ok(handle)
    }

    /// Watches the instances of a class.
    pub async fn watch_class(&self, class: &str) -> Result<LifeWatch, XrlError> {
        self.watch(Subject::Class(class.to_owned())).await
    }

    /// Watches a single instance.
    pub async fn watch_instance(&self, instance: &str) -> Result<LifeWatch, XrlError> {
        self.watch(Subject::Instance(instance.to_owned())).await
    }

    async fn watch(&self, subject: Subject) -> Result<LifeWatch, XrlError> {
        let connection = self.0.link().await?;
        let state = WatchState::new(subject);
        {
            let mut watches = self.0.watches.borrow_mut();
            watches.retain(|w| w.strong_count() > 0);
            watches.push(Rc::downgrade(&state));
        }
        let _watching: wire::WatchReply = ask(&connection, "Watch", &state.request()).await?;
        Ok(LifeWatch { state, endpoint: Rc::downgrade(&self.0) })
    }

    /// The description of a target's interface: an encoded `FileDescriptorSet`.
    pub async fn descriptors(&self, target: &str, interface: &str) -> Result<Vec<u8>, XrlError> {
        let request =
            wire::GetDescriptorsRequest { target: target.to_owned(), interface: interface.to_owned() };
        let reply: wire::GetDescriptorsReply = self.ask_finder("GetDescriptors", &request).await?;
        Ok(reply.descriptors)
    }

    /// Returns true if a method only reads, as its target says; `path` is INTERFACE/METHOD.
    pub async fn reads(&self, target: &str, path: &str) -> Result<bool, XrlError> {
        if target == finder::TARGET {
            return Ok(wire::FinderClient::READING.contains(&path));
        }
        let reply: wire::ResolveReply = self.ask_finder("Resolve", &resolve_request(target, path)).await?;
        Ok(reply.reads)
    }

    /// Waits until the Finder is connected, for as long as the options say.
    pub async fn finder_connected(&self) -> Result<(), XrlError> {
        self.0.link().await.map(|_| ())
    }

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

fn resolve_request(target: &str, path: &str) -> wire::ResolveRequest {
    let (interface, method) = path.split_once('/').unwrap_or((path, ""));
    wire::ResolveRequest {
        target: target.to_owned(),
        interface: interface.to_owned(),
        method: method.to_owned(),
    }
}

impl Inner {
    /// The current connection to the Finder, if any.
    fn current_link(&self) -> Result<Rc<Connection>, XrlError> {
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

    fn insert(&self, registered: Registered) -> u64 {
        let mut targets = self.targets.borrow_mut();
        let id = targets.last_key_value().map_or(0, |(id, _)| id + 1);
        targets.insert(id, registered);
        id
    }

    fn unregister(&self, id: u64) {
        let Some(registered) = self.targets.borrow_mut().remove(&id) else {
            return;
        };
        self.registry.remove(&registered.paths);
        if let Ok(connection) = self.current_link() {
            let request = wire::UnregisterRequest { instance: registered.request.instance };
            spawn_local(async move {
                // The Finder forgets it at the latest when the process ends.
                let _gone: Result<wire::UnregisterReply, _> = ask(&connection, "Unregister", &request).await;
            });
        }
    }

    /// Ends a watch at the Finder, unless another one of this process has the same subject. Nobody waits for the answer.
    pub(crate) fn unwatch(&self, state: &Rc<WatchState>) {
        let mut watches = self.watches.borrow_mut();
        watches.retain(|w| w.upgrade().is_some_and(|w| !Rc::ptr_eq(&w, state)));
        let is_shared = watches.iter().filter_map(Weak::upgrade).any(|w| w.subject == state.subject);
        if let (false, Ok(connection)) = (is_shared, self.current_link()) {
            link::tell(&connection, "Unwatch", &state.request());
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

    /// Listens by a family, unless done already. In-process and kill need no socket.
    async fn listen(&self, family: Family) -> Result<Option<wire::Endpoint>, XrlError> {
        let known = self.endpoints.borrow().get(&family).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let failed = |e: io::Error| XrlError::Internal(format!("listening by {family}: {e}"));
        let (address, task) = match family {
            Family::InProcess | Family::Kill => return Ok(None),
            Family::Unix => {
                let name: String = random_key()[..4].iter().map(|b| format!("{b:02x}")).collect();
                let path = self.options.socket_dir.join(format!("{}-{name}.xrl", std::process::id()));
                let listener = crate::listen::unix(&path).map_err(|e| {
                    XrlError::Internal(format!("cannot make the socket {}: {e}", path.display()))
                })?;
                self.sockets.borrow_mut().push(path.clone());
                // The user who started the router owns the Finder's socket.
                if let FinderAddress::Unix(finder) = &self.options.finder
                    && let Ok(finder) = std::fs::metadata(finder)
                {
                    self.registry.set_operator(finder.uid());
                }
                let task = spawn_local(server::serve(Listener::Unix(listener), Rc::clone(&self.registry)));
                (path.to_string_lossy().into_owned(), task)
            }
            Family::Tcp => {
                let listener = TcpListener::bind((self.options.listen, 0)).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?.to_string();
                (address, spawn_local(server::serve(Listener::Tcp(listener), Rc::clone(&self.registry))))
            }
            Family::Udp => {
                let socket = UdpSocket::bind((self.options.listen, 0)).await.map_err(failed)?;
                let address = socket.local_addr().map_err(failed)?.to_string();
                (address, spawn_local(udp::serve(socket, Rc::clone(&self.registry))))
            }
        };
        self.tasks.borrow_mut().push(task.abort_handle());
        let endpoint = wire::Endpoint { family: family.to_wire().into(), address };
        self.endpoints.borrow_mut().insert(family, endpoint.clone());
        Ok(Some(endpoint))
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
    address.parse().map_err(|_| XrlError::Protocol(format!("the Finder told the address `{address}`")))
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
