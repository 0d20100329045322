//! The forwarding engine abstraction: the process, driven by calls and by the kernel's notices.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink.
//! * [`sockets`]: sockets for components without the right to open sockets.

pub mod comparison;
pub mod configuration;
mod feed;
mod ffi;
mod fib;
mod filter;
mod interfaces;
mod links;
pub mod linux;
mod pages;
pub mod sockets;
pub mod xdp;

use interfaces::Subscribers;
use links::Links;
use linux::LinuxEngine;
use pages::Streams;
use sluice_base::{Instant, InterfaceEvent, TableId};
use sluice_fea::engine::{Engine, RouteReader};
use sluice_fea::{Drive, Effect, EngineSet, Fea, Input};
use sluice_machine::{Budget, Progress};
use sluice_process::part::Planned;
use sluice_process::{Component, EffectKind, Frame, Point, Prepared, RunOptions, clock};
use sluice_xrl::idl::fea::v1::{
    self as pb, fib_service, forwarding_service, interfaces_service, links_service, programs_service,
    sockets_service,
};
use sluice_xrl::{Service, XrlError};
use sockets::Sockets;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};
use tracing::{error, info, warn};
use xdp::audit;
use xdp::control::{self, FastPathControl};
use xdp::programs::{self, Programs};

/// The answer to the callers that wait for the end of a resync: the numbers of kept and swept routes, and of unfinished families.
pub(crate) struct ResyncWait {
    pub(crate) families: usize,
    pub(crate) kept: u64,
    pub(crate) swept: u64,
    pub(crate) reply: Option<oneshot::Sender<(u64, u64)>>,
}

/// A descriptor of an engine, readable when the engine has notices.
type Watched = AsyncFd<OwnedFd>;

/// The FEA's process.
pub struct FeaProcess {
    pub(crate) frame: Frame,
    drive: RefCell<Drive<EngineSet>>,
    spare: RefCell<Vec<Effect>>,
    pub(crate) subscribers: Subscribers,
    pub(crate) owner: RefCell<Option<pb::FibOwnerClient>>,
    pub(crate) resyncs: RefCell<BTreeMap<TableId, ResyncWait>>,
    pub(crate) streams: Streams,
    pub(crate) sockets: Rc<Sockets>,
    /// The programs of components in the path of packets.
    pub(crate) programs: Programs,
    /// The virtual links of components.
    pub(crate) links: Links,
    /// True if timers and background work are looked after already.
    works: Cell<bool>,
    wake: Notify,
    /// True if routes go into the engine; not known before the first configuration, see `configured`.
    installs_routes: Cell<Option<bool>>,
    configured: Notify,
    /// The control of the fast path.
    pub(crate) fast_path: FastPathControl,
    pub(crate) arrives: Point,
    pub(crate) enters: Point,
}

/// Runs the FEA until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| anyhow::anyhow!("no randomness: {e}"))?;
        let engine = LinuxEngine::open().map_err(|e| {
            anyhow::anyhow!(
                "the kernel's forwarding table cannot be written ({e}); the FEA needs CAP_NET_ADMIN"
            )
        })?;
        let watched = vec![register(engine.descriptor())?];
        keep_network_rights_only();
        let process = Rc::new(FeaProcess {
            drive: RefCell::new(Drive::new(
                Fea::new(u64::from_ne_bytes(seed)),
                EngineSet::new(Box::new(engine)),
            )),
            spare: RefCell::default(),
            subscribers: Subscribers::default(),
            owner: RefCell::default(),
            resyncs: RefCell::default(),
            streams: Streams::default(),
            sockets: Sockets::new(frame.router.clone()),
            works: Cell::new(false),
            wake: Notify::new(),
            installs_routes: Cell::new(None),
            configured: Notify::new(),
            fast_path: FastPathControl::default(),
            programs: Programs::default(),
            links: Links::default(),
            arrives: frame.profile.point("route_arrives_fea", "Arriving at FEA"),
            enters: frame.profile.point("route_enters_kernel", "Entering kernel"),
            frame,
        });
        process.first_snapshot(watched).await?;
        Ok(process)
    })
}

/// Drops root's rights but the rights over the network and over XDP programs. No effect without rights to give up, as in a user namespace
/// with fewer rights.
fn keep_network_rights_only() {
    use caps::{CapSet, Capability, CapsHashSet};
    let kept: CapsHashSet = [
        Capability::CAP_NET_ADMIN,
        Capability::CAP_NET_RAW,
        Capability::CAP_NET_BIND_SERVICE,
        Capability::CAP_BPF,
        Capability::CAP_PERFMON,
    ]
    .into();
    for set in [CapSet::Inheritable, CapSet::Ambient, CapSet::Effective, CapSet::Permitted] {
        let wanted =
            if matches!(set, CapSet::Effective | CapSet::Permitted) { &kept } else { &CapsHashSet::new() };
        if let Err(error) = caps::set(None, set, wanted) {
            warn!(%error, "the FEA keeps more rights than it needs");
        }
    }
}

impl FeaProcess {
    /// Reads the kernel's objects before serving clients: objects of an earlier process are reconciled, never flushed.
    async fn first_snapshot(self: &Rc<Self>, watched: Vec<Watched>) -> anyhow::Result<()> {
        loop {
            self.poll();
            if self.drive.borrow_mut().core().interfaces().is_some() {
                break;
            }
            wait_readable(&watched).await?;
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                match wait_readable(&watched).await {
                    Ok(()) => me.poll(),
                    Err(error) => return warn!(%error, "the kernel sends no more notices"),
                }
            }
        });
        Ok(())
    }

    /// Has the background work go on, as after an engine joined.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Hands the core an input; returns after the kernel has carried out the immediate operations.
    pub(crate) fn input(self: &Rc<Self>, input: Input) {
        self.with_drive(|drive, now, effects| drive.handle(now, input, effects));
        self.wake.notify_one();
    }

    fn poll(self: &Rc<Self>) {
        while self.with_drive(|drive, now, effects| drive.poll(now, effects)) == Progress::More {}
        self.wake.notify_one();
    }

    pub(crate) fn with_drive<R>(
        self: &Rc<Self>,
        act: impl FnOnce(&mut Drive<EngineSet>, Instant, &mut Vec<Effect>) -> R,
    ) -> R {
        let mut effects = self.spare.take();
        let result = act(&mut self.drive.borrow_mut(), clock::now(), &mut effects);
        fib::report_rejected(self, &effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Interface(event) => {
                    self.fast_path.interface_event(self, &event);
                    self.links.note_interface();
                    self.notify_interface(event);
                }
                Effect::Resynced { table, family, kept, swept } => {
                    fib::note_resynced(self, table, kept, swept);
                    self.fast_path.note_resynced(table, family);
                }
                Effect::RoutesSelected => self.fast_path.note_selected(),
                Effect::Event(event) => info!(event = event.id(), "{event}"),
                Effect::Rejected { .. } => {}
            }
        }
        self.spare.replace(effects);
        self.fast_path.settle(self);
        result
    }

    /// Returns true if routes go into the engine, once configured.
    pub(crate) async fn installs_routes(&self) -> bool {
        loop {
            let configured = self.configured.notified();
            if let Some(installs) = self.installs_routes.get() {
                return installs;
            }
            configured.await;
        }
    }

    /// Applies whether routes go into the engine. After a change of that, the owner begins anew.
    fn install_routes(&self, installs: bool) {
        let before = self.installs_routes.replace(Some(installs));
        self.configured.notify_waiters();
        if before.is_none_or(|before| before == installs) {
            return;
        }
        let Some(owner) = self.owner.borrow().clone() else { return };
        tokio::task::spawn_local(async move {
            if let Err(error) = owner.engine_changed(pb::EngineChangedRequest {}).await {
                warn!(%error, "the owner of the routes was not notified whether they are wanted");
            }
        });
    }

    /// Looks at the core.
    pub(crate) fn with_core<R>(&self, look: impl FnOnce(&mut Fea) -> R) -> R {
        look(self.drive.borrow_mut().core())
    }

    /// Returns a reader of the engine's own routes.
    pub(crate) fn reader(&self) -> Result<Box<dyn RouteReader>, XrlError> {
        let reader = self.drive.borrow_mut().engine().reader();
        reader.ok_or_else(|| XrlError::Internal("the engine forwards no unicast".into()))
    }

    /// Returns the names of the engines, for people.
    pub(crate) fn engine_name(&self) -> String {
        self.drive.borrow_mut().engine().names().join(", ")
    }

    /// Returns the numbers of operations refused by engines beside the authority.
    pub(crate) fn refused_beside(&self) -> Vec<pb::RefusedBeside> {
        fib::refused_beside(self.drive.borrow_mut().engine())
    }

    fn notify_interface(self: &Rc<Self>, event: InterfaceEvent) {
        self.subscribers.notify(self, event);
    }

    /// Timers and background work, for ever.
    async fn work(self: Rc<Self>) {
        let slice = || self.with_drive(|drive, now, effects| drive.run_slice(now, Budget::SLICE, effects));
        let deadline = || self.drive.borrow().next_deadline();
        let fire = || self.with_drive(|drive, now, effects| drive.on_deadline(now, effects));
        sluice_process::work(&self.wake, slice, deadline, fire).await;
    }
}

/// A copy of a descriptor for the event loop.
fn register(descriptor: BorrowedFd<'_>) -> anyhow::Result<Watched> {
    Ok(crate::ffi::watch(descriptor.try_clone_to_owned()?)?)
}

/// Waits until an engine has notices.
async fn wait_readable(watched: &[Watched]) -> std::io::Result<()> {
    std::future::poll_fn(|context| {
        for descriptor in watched {
            if let Poll::Ready(guard) = descriptor.poll_read_ready(context) {
                guard?.clear_ready();
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    })
    .await
}

impl Component for FeaProcess {
    const CLASS: &'static str = "fea";

    type Settings = configuration::Read;

    type Error = configuration::ConfigurationError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            fib_service(Rc::new(fib::Served(Rc::clone(self)))),
            programs_service(Rc::new(programs::Served(Rc::clone(self)))),
            links_service(Rc::new(links::Served(Rc::clone(self)))),
            forwarding_service(Rc::new(crate::xdp::service::Served(Rc::clone(self)))),
            interfaces_service(Rc::new(crate::interfaces::Served(Rc::clone(self)))),
            sockets_service(self.sockets.service()),
        ]
    }

    async fn registered(self: Rc<Self>, _instance: String) {
        if let Err(error) = self.sockets.serve(&self.frame.run_dir) {
            error!(event = "socket.no-broker", %error, "no component can have sockets; see what is wrong with the run-time folder and restart fea");
        }
        if !self.works.replace(true) {
            tokio::task::spawn_local(control::follow(Rc::clone(&self)));
            tokio::task::spawn_local(audit::run(Rc::clone(&self)));
            tokio::task::spawn_local(comparison::run(Rc::clone(&self)));
            tokio::task::spawn_local(programs::expire(Rc::clone(&self)));
            tokio::task::spawn_local(links::follow(Rc::clone(&self)));
            tokio::task::spawn_local(self.work());
        }
    }

    fn degraded(&self) -> Vec<String> {
        let unavailable = self.fast_path.unavailable().map(|reason| format!("XDP does not run: {reason}"));
        let problems = self.with_core(|core| core.problems());
        self.with_core(|core| core.totals())
            .degraded()
            .into_iter()
            .chain(problems)
            .chain(unavailable)
            .chain(self.sockets.problem())
            .collect()
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<configuration::Read>, Self::Error> {
        let read = configuration::read(&planned.whole())?;
        let interrupted = self.with_core(|core| core.interrupted_by(&read.configuration));
        let mut remarks = self.with_core(|core| core.remarks(&read.configuration));
        remarks.extend(read.remarks(|addr| self.with_core(|core| core.has_address(addr))));
        let effects = vec![(EffectKind::Interrupted, interrupted), (EffectKind::Noted, remarks)];
        Ok(Prepared::touching(read, effects))
    }

    async fn apply(self: Rc<Self>, settings: configuration::Read) -> Result<(), Self::Error> {
        let configuration::Read {
            configuration,
            policy,
            programs,
            links,
            installs_routes,
            engine,
            kernel_prefixes,
            sources,
        } = settings;
        self.sockets.set_policy(policy);
        self.programs.set_rights(programs);
        self.links.set_rights(links);
        self.input(Input::Configure(configuration));
        self.input(Input::SetSources(sources));
        // Before the RIB's routes come: those that the kernel is not to have never enter it.
        self.fast_path.want(&self, engine, kernel_prefixes);
        self.install_routes(installs_routes);
        Ok(())
    }
}
