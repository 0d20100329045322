//! The interface `Sockets`: opens sockets for components without the right to open sockets, and hands the sockets over.
//!
//! A caller is identified by the process (reported by the kernel), the component by the Finder's list of targets, and the
//! permission by the manager's policy. A socket belongs to the requesting process, and to the successors with which the process shared the
//! socket, and is closed after their end. A listener stays with the FEA too, for keys set later; a socket of a further kind is the
//! component's alone after the fetch, so the component's close closes the socket.

pub mod broker;
pub mod descriptors;
pub mod relay;
mod service;

use crate::ffi;
use broker::{Kind, SocketRequest};
use descriptors::Descriptors;
use sluice_base::component_of;
use sluice_fea::socket::{Reception, SocketKind, SocketPolicy};
use sluice_process::successor_class;
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::idl::finder::v1::TargetInfo;
use sluice_xrl::{CallContext, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, info};

/// The most open sockets of a process.
const SOCKETS_PER_PROCESS: usize = 4096;

/// Errors of the operating system, named in the text.
const REFUSED: u32 = 1;

/// The broker.
pub struct Sockets {
    router: XrlEndpoint,
    /// The rights of components; unknown before the first configuration, which `configured` reports.
    policy: RefCell<Option<Rc<SocketPolicy>>>,
    configured: Notify,
    descriptors: Rc<Descriptors>,
    open: RefCell<BTreeMap<u64, Open>>,
    /// The components behind a connection, by name; a connection never changes hands.
    components: RefCell<BTreeMap<u64, Vec<String>>>,
    watched: RefCell<BTreeMap<u32, JoinHandle<()>>>,
    next: Cell<u64>,
}

/// An open socket.
struct Open {
    /// The owner.
    owners: BTreeSet<u32>,
    descriptor: Held,
    kind: Kind,
    relay: Option<JoinHandle<()>>,
}

/// The form in which the FEA holds a socket.
enum Held {
    /// The FEA keeps the socket.
    Kept(Rc<OwnedFd>),
    /// The socket leaves with the fetch; until then the socket waits with the descriptors.
    Offered(Weak<OwnedFd>),
}

impl Held {
    fn get(&self) -> Option<Rc<OwnedFd>> {
        match self {
            Held::Kept(descriptor) => Some(Rc::clone(descriptor)),
            Held::Offered(descriptor) => descriptor.upgrade(),
        }
    }
}

impl Open {
    /// Returns the number by which the kernel identifies sockets, if the FEA holds the socket.
    fn inode(&self) -> Option<u64> {
        let descriptor = self.descriptor.get()?;
        nix::sys::stat::fstat(&*descriptor).ok().map(|status| status.st_ino)
    }

    /// Removes a process from the holders; returns true after the last holder.
    fn leave(&mut self, pid: u32) -> bool {
        self.owners.remove(&pid) && self.owners.is_empty()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(relay) = &self.relay {
            relay.abort();
        }
    }
}

impl Sockets {
    /// The broker of this router. Requests wait for the rights: see [`Sockets::set_policy`].
    pub fn new(router: XrlEndpoint) -> Rc<Self> {
        Rc::new(Sockets {
            router,
            policy: RefCell::default(),
            configured: Notify::new(),
            descriptors: Rc::default(),
            open: RefCell::default(),
            components: RefCell::default(),
            watched: RefCell::default(),
            next: Cell::new(1),
        })
    }

    /// Serves descriptors in `run_dir`, in place of the former server. Needs a `LocalSet`.
    pub fn serve(&self, run_dir: &Path) -> std::io::Result<()> {
        self.descriptors.serve(run_dir)
    }

    /// Returns the reason why no component can have sockets; `None` without a failure.
    pub fn problem(&self) -> Option<String> {
        self.descriptors.problem()
    }

    /// The broker as a service.
    pub fn service(self: &Rc<Self>) -> Rc<impl pb::Sockets + use<>> {
        Rc::new(service::Served(Rc::clone(self)))
    }

    /// Sets the rights of components. Open sockets stay open.
    pub fn set_policy(&self, policy: SocketPolicy) {
        self.policy.replace(Some(Rc::new(policy)));
        self.configured.notify_waiters();
    }

    /// Returns the rights of components. A component may learn of a new FEA before the FEA is configured.
    async fn policy(&self) -> Rc<SocketPolicy> {
        loop {
            let configured = self.configured.notified();
            if let Some(policy) = self.policy.borrow().clone() {
                return policy;
            }
            configured.await;
        }
    }

    async fn open(
        self: &Rc<Self>,
        ctx: &CallContext,
        request: SocketRequest,
    ) -> Result<pb::OpenReply, XrlError> {
        let pid = caller(ctx)?;
        let component = self.permitted(ctx, pid, &request).await?;
        if let Kind::Udp { local, last: Some(last) } = request.kind
            && (local.port() == 0 || last < local.port())
        {
            return Err(bad("last_port is below port, or port is 0"));
        }
        self.room_for_one(pid)?;
        let descriptor = Rc::new(request.open().map_err(|e| refused(&request, &e))?);
        let offered = self.descriptors.offer(pid, Rc::clone(&descriptor));
        let token = offered.ok_or_else(too_many)?;
        let number = self.number();
        let held = match request.kind {
            Kind::TcpListener { .. } => Held::Kept(descriptor),
            _ => Held::Offered(Rc::downgrade(&descriptor)),
        };
        info!(component, pid, socket = number, "may {}", request.right());
        let owners = BTreeSet::from([pid]);
        let open = Open { owners, descriptor: held, kind: request.kind, relay: None };
        self.open.borrow_mut().insert(number, open);
        self.watch(pid);
        Ok(pb::OpenReply { socket: number, token: token.to_vec() })
    }

    /// Returns the number of the next socket.
    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Expects a listener opened for the caller by an earlier FEA. The kernel reports the descriptor's kind, so a component cannot
    /// have a socket adopted without the right to open such a socket.
    async fn adopt(self: &Rc<Self>, ctx: &CallContext) -> Result<pb::OpenReply, XrlError> {
        let pid = caller(ctx)?;
        let (policy, components) = (self.policy().await, self.components_of(ctx, pid).await?);
        self.room_for_one(pid)?;
        let number = self.number();
        let me = Rc::downgrade(self);
        let accept = move |descriptor: OwnedFd| {
            let Some(me) = me.upgrade() else { return false };
            let Ok(kind) = broker::listener(&descriptor) else { return false };
            let Kind::TcpListener { local, .. } = kind else { return false };
            let right = SocketKind::TcpListen(local.port());
            let is_allowed = |name: &&String| policy.check(name, right, &Reception::default()).is_ok();
            let Some(component) = components.iter().find(is_allowed) else {
                return false;
            };
            info!(component, pid, socket = number, "may go on to {right}");
            let descriptor = Held::Kept(Rc::new(descriptor));
            let open = Open { owners: BTreeSet::from([pid]), descriptor, kind, relay: None };
            me.replace(pid, number, open);
            me.watch(pid);
            true
        };
        let token = self.descriptors.request(pid, accept).ok_or_else(too_many)?;
        Ok(pb::OpenReply { socket: number, token: token.to_vec() })
    }

    /// Adds a listener of a process under a new number. An earlier number of the listener at the same process becomes void: the
    /// process may not have known which FEA opened the listener.
    fn replace(&self, pid: u32, number: u64, listener: Open) {
        let mut all = self.open.borrow_mut();
        let inode = listener.inode();
        all.retain(|_, open| inode.is_none() || open.inode() != inode || !open.leave(pid));
        all.insert(number, listener);
    }

    /// Returns the caller's process and the names of the process's components.
    pub(crate) async fn components_of_caller(
        &self,
        ctx: &CallContext,
    ) -> Result<(u32, Vec<String>), XrlError> {
        let pid = caller(ctx)?;
        // Rights are known only once there is a configuration.
        self.policy().await;
        Ok((pid, self.components_of(ctx, pid).await?))
    }

    /// Lets a process fetch a descriptor, once, with the returned token.
    pub(crate) fn offer(&self, pid: u32, descriptor: Rc<OwnedFd>) -> Result<Vec<u8>, XrlError> {
        self.descriptors.offer(pid, descriptor).map(Vec::from).ok_or_else(too_many)
    }

    fn room_for_one(&self, pid: u32) -> Result<(), XrlError> {
        let open = self.open.borrow().values().filter(|o| o.owners.contains(&pid)).count();
        match open >= SOCKETS_PER_PROCESS {
            true => Err(XrlError::Busy(format!("{open} sockets are open"))),
            false => Ok(()),
        }
    }

    /// Shares a socket with the caller's successor, which has the rights of the caller.
    async fn share(
        self: &Rc<Self>,
        ctx: &CallContext,
        request: &pb::ShareSocketRequest,
    ) -> Result<(), XrlError> {
        let pid = caller(ctx)?;
        let targets = self.router.targets().await?;
        let of = |pid: u32| targets.iter().filter(move |t| t.pid == pid);
        let succeeds = |name: &str| of(request.successor).any(|t| t.class == successor_class(name));
        if !of(pid).any(|t| succeeds(&component(t))) {
            let denied = format!("process {} does not take over from process {pid}", request.successor);
            return Err(XrlError::AccessDenied(denied));
        }
        self.room_for_one(request.successor)?;
        self.with_mine(ctx, request.socket, |open| {
            open.owners.insert(request.successor);
            Ok(())
        })?;
        self.watch(request.successor);
        Ok(())
    }

    /// Returns the names of the components behind a connection: classes, or instances of classes.
    async fn components_of(&self, ctx: &CallContext, pid: u32) -> Result<Vec<String>, XrlError> {
        let known = self.components.borrow().get(&ctx.connection).cloned();
        if let Some(components) = known {
            return Ok(components);
        }
        let targets = self.router.targets().await?;
        let components: Vec<String> = targets.iter().filter(|t| t.pid == pid).map(component).collect();
        if !components.is_empty() {
            self.components.borrow_mut().insert(ctx.connection, components.clone());
        }
        Ok(components)
    }

    /// Returns the caller's component that allows the request, or each component's reason.
    async fn permitted(
        &self,
        ctx: &CallContext,
        pid: u32,
        request: &SocketRequest,
    ) -> Result<String, XrlError> {
        let mut reasons = Vec::new();
        let policy = self.policy().await;
        for name in self.components_of(ctx, pid).await? {
            match policy.check(&name, request.right(), &request.reception) {
                Ok(()) => return Ok(name),
                Err(why) => reasons.push(why.to_string()),
            }
        }
        if reasons.is_empty() {
            reasons.push(format!("process {pid} is no registered component"));
        }
        let denied = reasons.join("; ");
        debug!(pid, denied, "refused");
        Err(XrlError::AccessDenied(denied))
    }

    /// Closes a process's sockets at the end of the process.
    fn watch(self: &Rc<Self>, pid: u32) {
        if self.watched.borrow().contains_key(&pid) {
            return;
        }
        let me = Rc::downgrade(self);
        let task = tokio::task::spawn_local(async move {
            ended(pid).await;
            if let Some(me) = me.upgrade() {
                me.close_all_of(pid);
            }
        });
        self.watched.borrow_mut().insert(pid, task);
    }

    fn close_all_of(&self, pid: u32) {
        self.open.borrow_mut().retain(|_, o| !o.leave(pid));
        self.watched.borrow_mut().remove(&pid);
        // Connections of processes that have ended are not reported here; the list is only a cache.
        self.components.borrow_mut().clear();
    }

    /// Does something with an open socket of the caller's.
    fn with_mine<R>(
        &self,
        ctx: &CallContext,
        number: u64,
        act: impl FnOnce(&mut Open) -> Result<R, XrlError>,
    ) -> Result<R, XrlError> {
        let pid = caller(ctx)?;
        match self.open.borrow_mut().get_mut(&number).filter(|o| o.owners.contains(&pid)) {
            Some(open) => act(open),
            None => Err(XrlError::BadArguments(format!("socket {number} is not open for process {pid}"))),
        }
    }

    fn start_relay(
        self: &Rc<Self>,
        ctx: &CallContext,
        request: &pb::StartRelayRequest,
    ) -> Result<(), XrlError> {
        let client = pb::PacketReceiverClient::new(&self.router, &request.target);
        self.with_mine(ctx, request.socket, |open| {
            let raw_ipv4 = match open.kind {
                Kind::Udp { .. } => false,
                Kind::Raw { ipv4, .. } => ipv4,
                _ => return Err(XrlError::BadArguments("only UDP and raw sockets are relayed".into())),
            };
            let taken = || XrlError::BadArguments("the socket was fetched already".into());
            let descriptor = open.descriptor.get().ok_or_else(taken)?;
            self.descriptors.withdraw(&descriptor);
            let socket = request.socket;
            let copy = descriptor.try_clone().and_then(ffi::watch).map_err(os_error)?;
            open.descriptor = Held::Kept(descriptor);
            let task = tokio::task::spawn_local(relay_packets(copy, raw_ipv4, socket, client));
            if let Some(before) = open.relay.replace(task) {
                before.abort();
            }
            Ok(())
        })
    }
}

/// Hands packets over, one call at a time: if the component is slow, the kernel drops packets, as for any process.
async fn relay_packets(
    watched: AsyncFd<OwnedFd>,
    raw_ipv4: bool,
    socket: u64,
    client: pb::PacketReceiverClient,
) {
    let mut buffer = vec![0; relay::PACKET];
    loop {
        let Ok(mut guard) = watched.readable().await else { return };
        let packet = match guard.try_io(|w| relay::receive(w.get_ref(), raw_ipv4, &mut buffer)) {
            Ok(Ok(packet)) => packet,
            // An error of the network, as a port that is not reachable: the next packet may be fine.
            Ok(Err(_)) | Err(_) => continue,
        };
        let request = pb::PacketReceivedRequest {
            socket,
            source: Some(packet.source.ip().into()),
            port: packet.source.port().into(),
            destination: Some(packet.destination.into()),
            interface: packet.interface,
            ttl: packet.ttl,
            payload: packet.payload,
        };
        if let Err(error) = client.packet_received(request).await {
            return debug!(%error, socket, "takes no packets any more");
        }
    }
}

/// Waits for the end of a process. Without a descriptor, the process has ended already.
pub(crate) async fn ended(pid: u32) {
    if let Ok(process) = process_descriptor(pid) {
        let _ = process.readable().await;
    }
}

fn process_descriptor(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(gone)?;
    ffi::watch(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Returns the caller's process. A socket can only be handed over on the same host, and only to a known process.
fn caller(ctx: &CallContext) -> Result<u32, XrlError> {
    ctx.pid.ok_or_else(|| XrlError::AccessDenied("only processes of this host, by Unix socket".into()))
}

/// Returns the name of a target for rights: the class, or the instance of the class.
fn component(target: &TargetInfo) -> String {
    component_of(&target.class, &target.instance)
}

fn refused(request: &SocketRequest, error: &io::Error) -> XrlError {
    XrlError::Application { code: REFUSED, message: format!("cannot {}: {error}", request.right()) }
}

fn os_error(error: io::Error) -> XrlError {
    XrlError::Application { code: REFUSED, message: error.to_string() }
}

fn too_many() -> XrlError {
    XrlError::Busy("too many descriptors wait".into())
}

fn bad(error: impl std::fmt::Display) -> XrlError {
    XrlError::BadArguments(error.to_string())
}
