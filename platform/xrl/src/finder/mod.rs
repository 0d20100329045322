//! The Finder: live targets, their addresses, and the rights to call them (XORP, section 6.2).
//!
//! The Finder runs inside of the router manager. Every process keeps a connection to it; the end of the connection
//! ends its registrations at once. The Finder gives keys only to callers permitted by the access list. A key is made for
//! a single caller, and receivers refuse calls without such a key. Therefore no caller can bypass the Finder.

pub mod acl;
pub mod actions;
mod admission;
pub(crate) mod core;
pub mod denials;
pub mod life;
mod limits;
mod offers;
pub(crate) mod records;

use self::acl::{Acl, Peer, People, Principal, Secret};
use self::actions::PeoplesActions;
use self::core::Core;
use self::denials::Denial;
use self::records::{ClientId, Subject};
use crate::idl::finder::v1::{self as wire, finder_service};
use crate::server::listener::{Listener, serve};
use crate::server::registry::{MethodEntry, Registry};
use crate::wire::frame::Key;
use crate::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

/// The Finder's own name as a target.
pub const TARGET: &str = "finder";

/// A running Finder, ended on drop.
pub struct Finder {
    state: Rc<State>,
    path: PathBuf,
    apart: Option<PathBuf>,
    tasks: Vec<AbortHandle>,
}

struct State {
    core: RefCell<Core>,
    waiting: RefCell<HashMap<ClientId, Rc<Notify>>>,
    registry: RefCell<Option<Rc<Registry>>>,
    people: RefCell<Option<People>>,
}

impl Finder {
    /// Listens on a Unix socket at `path`; an existing socket is replaced.
    pub async fn bind(path: impl AsRef<Path>, acl: Acl) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        let listener = crate::wire::listen::unix(&path)?;
        let state = Rc::new(State {
            core: RefCell::new(Core::new(acl, &mut random_key)),
            waiting: RefCell::default(),
            registry: RefCell::default(),
            people: RefCell::default(),
        });
        let (known, on_close) = (Rc::downgrade(&state), Rc::downgrade(&state));
        let principal_of = move |connection| {
            let state = known.upgrade()?;
            let core = state.core.borrow();
            core.client(connection).ok().map(|(_, principal)| principal.name.as_str().into())
        };
        let registry = Rc::new(Registry::open(principal_of, move |connection| {
            if let Some(state) = on_close.upgrade() {
                state.closed(connection);
            }
        }));
        registry.max_frame.set(limits::MAX_FRAME);
        registry.set_operator(std::fs::metadata(&path)?.uid());
        let service = finder_service(Rc::new(Served(Rc::downgrade(&state))));
        let seals = Rc::default();
        for method in service.methods {
            let path = format!("{TARGET}/{}/{}", service.name, method.name);
            registry.insert(path, Rc::new(MethodEntry::new(TARGET, method, &seals)));
        }
        *state.registry.borrow_mut() = Some(Rc::clone(&registry));
        let mut finder = Finder { state, path, apart: None, tasks: Vec::new() };
        finder.listen(Listener::Unix(listener), registry);
        Ok(finder)
    }

    /// Listens on a second Unix socket too, with a queue of its own: who cannot reach the folder of the socket cannot fill the queue.
    pub async fn bind_apart(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        let listener = crate::wire::listen::unix(path.as_ref())?;
        let registry = self.state.registry.borrow().clone();
        if let Some(registry) = registry {
            self.listen(Listener::Unix(listener), registry);
        }
        self.apart = Some(path.as_ref().to_owned());
        Ok(())
    }

    fn listen(&mut self, listener: Listener, registry: Rc<Registry>) {
        self.tasks.push(spawn_local(serve(listener, registry)).abort_handle());
    }

    /// Returns the path of the Unix socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the rights of the owner of `secret`. Earlier resolutions are declared invalid; if a right is lost, earlier
    /// keys are refused everywhere.
    pub fn set_principal(&self, secret: Secret, principal: Principal) {
        self.state.change(|core| core.set_principal(secret, principal, &mut random_key));
    }

    /// Lets users of this host in without a secret, with the rights that `people` returns at each connection.
    pub fn set_people(&self, people: People) {
        self.state.people.replace(Some(people));
    }

    /// Asks `people` again for the rights of each connected user: rights that a user lost end at once.
    pub fn review_people(&self) {
        let people = self.state.people.borrow();
        if let Some(people) = &*people {
            self.state.change(|core| core.review_people(people, &mut random_key));
        }
    }

    /// Takes the connections and the actions of people since the last call.
    pub fn take_actions(&self) -> PeoplesActions {
        self.state.core.borrow_mut().take_actions()
    }

    /// Takes the refusals since the last call with the number of each, and the number of further refusals, which were
    /// counted together.
    pub fn take_denials(&self) -> (Vec<(Denial, u64)>, u64) {
        let mut core = self.state.core.borrow_mut();
        if let Some(registry) = &*self.state.registry.borrow() {
            core.refused(registry.refusals.take());
        }
        core.take_denials()
    }

    /// Revokes a secret: its owner loses every right, and receivers refuse the owner's keys.
    pub fn remove_principal(&self, secret: &Secret) {
        self.state.change(|core| core.remove_principal(secret));
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        for path in [Some(&self.path), self.apart.as_ref()].into_iter().flatten() {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

impl State {
    /// Changes the state, and wakes the affected clients.
    fn change<R>(&self, change: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        let result = change(&mut core);
        let waiting = self.waiting.borrow();
        for client in core.take_woken() {
            if let Some(notify) = waiting.get(&client) {
                notify.notify_one();
            }
        }
        result
    }

    fn closed(&self, connection: u64) {
        self.waiting.borrow_mut().remove(&connection);
        self.change(|core| core.closed(connection));
    }
}

/// The interface, for the connections. Does not keep the Finder alive.
struct Served(std::rc::Weak<State>);

impl Served {
    fn change<R>(&self, change: impl FnOnce(&mut Core) -> Result<R, XrlError>) -> Result<R, XrlError> {
        self.0.upgrade().ok_or(XrlError::NoFinder)?.change(change)
    }
}

/// 16 random octets from the system.
pub(crate) fn random_key() -> Key {
    let mut key = Key::default();
    if let Err(e) = getrandom::fill(&mut key) {
        // A key that can be guessed is worse than no Finder.
        tracing::error!(%e, "the system has no randomness");
        std::process::abort();
    }
    key
}

fn subject(request: wire::WatchRequest) -> Result<Subject, XrlError> {
    match (request.class.is_empty(), request.instance.is_empty()) {
        (false, true) => Ok(Subject::Class(request.class)),
        (true, false) => Ok(Subject::Instance(request.instance)),
        _ => Err(XrlError::BadArguments("class, instance: exactly one is needed".to_owned())),
    }
}

impl wire::Finder for Served {
    async fn hello(
        &self,
        ctx: &CallContext,
        request: wire::HelloRequest,
    ) -> Result<wire::HelloReply, XrlError> {
        let peer = Peer { pid: ctx.pid.unwrap_or(0), uid: ctx.uid.unwrap_or(u32::MAX) };
        let state = self.0.upgrade().ok_or(XrlError::NoFinder)?;
        let person = match &*state.people.borrow() {
            Some(people) if request.secret.is_empty() && ctx.uid.is_some() => people(peer),
            _ => None,
        };
        let hello =
            |core: &mut Core| core.hello(ctx.connection, peer, &request.secret, person, &mut random_key);
        let principal = state.change(hello)?;
        state.waiting.borrow_mut().entry(ctx.connection).or_default();
        Ok(wire::HelloReply { principal })
    }

    async fn register(
        &self,
        ctx: &CallContext,
        request: wire::RegisterRequest,
    ) -> Result<wire::RegisterReply, XrlError> {
        self.change(|core| core.register(ctx.connection, request, &mut random_key))
    }

    async fn enable(
        &self,
        ctx: &CallContext,
        request: wire::EnableRequest,
    ) -> Result<wire::EnableReply, XrlError> {
        self.change(|core| core.enable(ctx.connection, &request.instance)).map(|()| wire::EnableReply {})
    }

    async fn unregister(
        &self,
        ctx: &CallContext,
        request: wire::UnregisterRequest,
    ) -> Result<wire::UnregisterReply, XrlError> {
        self.change(|core| core.unregister(ctx.connection, &request.instance))
            .map(|()| wire::UnregisterReply {})
    }

    async fn resolve(
        &self,
        ctx: &CallContext,
        request: wire::ResolveRequest,
    ) -> Result<wire::ResolveReply, XrlError> {
        self.change(|core| core.resolve(ctx.connection, &request.target, &request.interface, &request.method))
    }

    async fn watch(
        &self,
        ctx: &CallContext,
        request: wire::WatchRequest,
    ) -> Result<wire::WatchReply, XrlError> {
        let subject = subject(request)?;
        self.change(|core| core.watch(ctx.connection, subject)).map(|()| wire::WatchReply {})
    }

    async fn unwatch(
        &self,
        ctx: &CallContext,
        request: wire::WatchRequest,
    ) -> Result<wire::WatchReply, XrlError> {
        let subject = subject(request)?;
        self.change(|core| core.unwatch(ctx.connection, &subject)).map(|()| wire::WatchReply {})
    }

    async fn next_events(
        &self,
        ctx: &CallContext,
        _request: wire::NextEventsRequest,
    ) -> Result<wire::NextEventsReply, XrlError> {
        loop {
            let events = self.change(|core| core.take_events(ctx.connection))?;
            if !events.is_empty() {
                return Ok(wire::NextEventsReply { events });
            }
            let state = self.0.upgrade().ok_or(XrlError::NoFinder)?;
            let notify = state.waiting.borrow().get(&ctx.connection).cloned().ok_or(XrlError::NoFinder)?;
            drop(state);
            notify.notified().await;
        }
    }

    async fn report_refusals(
        &self,
        ctx: &CallContext,
        request: wire::ReportRefusalsRequest,
    ) -> Result<wire::ReportRefusalsReply, XrlError> {
        self.change(|core| core.report(ctx.connection, request.refusals, request.others))
            .map(|()| wire::ReportRefusalsReply {})
    }

    async fn list_targets(
        &self,
        ctx: &CallContext,
        _request: wire::ListTargetsRequest,
    ) -> Result<wire::ListTargetsReply, XrlError> {
        let targets = self.change(|core| core.list(ctx.connection))?;
        Ok(wire::ListTargetsReply { targets })
    }

    async fn get_target(
        &self,
        ctx: &CallContext,
        request: wire::GetTargetRequest,
    ) -> Result<wire::GetTargetReply, XrlError> {
        let target = self.change(|core| core.target(ctx.connection, &request.instance))?;
        Ok(wire::GetTargetReply { target: Some(target) })
    }

    async fn get_descriptors(
        &self,
        ctx: &CallContext,
        request: wire::GetDescriptorsRequest,
    ) -> Result<wire::GetDescriptorsReply, XrlError> {
        if request.target == TARGET {
            self.change(|core| core.check(ctx.connection))?;
            return Ok(wire::GetDescriptorsReply { descriptors: crate::idl::DESCRIPTORS.to_vec() });
        }
        let found =
            self.change(|core| core.descriptors(ctx.connection, &request.target, &request.interface))?;
        Ok(wire::GetDescriptorsReply { descriptors: found.to_vec() })
    }
}
