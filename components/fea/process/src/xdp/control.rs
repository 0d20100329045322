//! Starts and stops the fast path as the configuration wants, and feeds the running one.

use super::chain::Chain;
use super::fast_path::{FastPath, FastPathError, ProgramWishes};
use super::selection::Selection;
use super::watch::{Sighting, Watch};
use crate::FeaProcess;
use crate::configuration::ForwardingEngine;
use sluice_base::{Family, InterfaceEvent, IpPrefix, TableId};
use sluice_fea::Input;
use sluice_fea::engine::BesideId;
use sluice_fea::xdp::{Grace, Promiscuity, XdpEngine};
use sluice_process::pins_mount;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

/// The wanted engines, and the fast path if it runs.
pub(crate) struct FastPathControl {
    configured: Cell<ForwardingEngine>,
    /// The engines to run: those of the configuration, or the kernel after a failure.
    wanted: watch::Sender<Option<ForwardingEngine>>,
    running: RefCell<Option<Running>>,
    /// The reason for which the fast path does not run although it is wanted.
    unavailable: RefCell<Option<String>>,
    /// True while interface events and grace periods are handled: both may lead here again.
    is_settling: Cell<bool>,
    /// The routes that the kernel takes.
    selection: Selection,
}

struct Running {
    path: FastPath,
    engine: BesideId,
    /// Dropped after the receiver of its sightings, which belongs to the task.
    _watch: Watch,
    task: tokio::task::AbortHandle,
}

/// The reason for which the fast path cannot start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the manager mounts no bpffs: {0}")]
    Pins(#[from] XrlError),
    #[error(transparent)]
    FastPath(#[from] FastPathError),
    #[error("netlink: {0}")]
    Watch(#[from] std::io::Error),
}

impl Default for FastPathControl {
    fn default() -> Self {
        FastPathControl {
            configured: Cell::default(),
            wanted: watch::Sender::new(None),
            running: RefCell::default(),
            unavailable: RefCell::default(),
            is_settling: Cell::new(false),
            selection: Selection::default(),
        }
    }
}

impl FastPathControl {
    /// Sets the wanted engines, and the external routes that the kernel has with any of them. Takes effect in the background.
    pub(crate) fn want(&self, process: &Rc<FeaProcess>, engine: ForwardingEngine, prefixes: Vec<IpPrefix>) {
        self.selection.set_prefixes(prefixes);
        self.configured.set(engine);
        self.change_engine(process, engine);
    }

    fn change_engine(&self, process: &Rc<FeaProcess>, engine: ForwardingEngine) {
        self.wanted.send_if_modified(|wanted| wanted.replace(engine) != Some(engine));
        self.select_routes(process);
    }

    /// Has the core follow the selection of the kernel's routes.
    fn select_routes(&self, process: &Rc<FeaProcess>) {
        let is_wanted = self.configured() == ForwardingEngine::Xdp && self.unavailable.borrow().is_none();
        let is_live = self.with(FastPath::is_live).unwrap_or_default();
        if let Some(routes) = self.selection.follow(is_wanted, is_live) {
            process.input(Input::SelectRoutes(routes));
        }
    }

    /// Notes that the owner has announced all routes of a table and family.
    pub(crate) fn note_resynced(&self, table: TableId, family: Family) {
        if table == TableId::MAIN {
            self.selection.note_resynced(family);
        }
    }

    /// Notes that the core has moved all routes to where the selection wants them.
    pub(crate) fn note_selected(&self) {
        self.selection.note_followed();
    }

    /// Returns the configured engines.
    pub(crate) fn configured(&self) -> ForwardingEngine {
        self.configured.get()
    }

    /// Looks at the running fast path.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&FastPath) -> R) -> Option<R> {
        self.running.borrow().as_ref().map(|running| look(&running.path))
    }

    /// Writes which programs of other components see the frames of which interfaces, and to which interfaces they send copies.
    pub(crate) fn refresh_ports(&self, process: &FeaProcess) {
        if let Some(running) = self.running.borrow_mut().as_mut() {
            let names = running.path.names();
            let wishes = names.into_iter().map(|name| {
                let wishes = process.programs.wishes(&name);
                (name, wishes)
            });
            let wishes = wishes.collect();
            // An interface that is not known yet gets its wishes when it comes.
            let elsewhere = ProgramWishes { promiscuity: Promiscuity::Kept, ..process.programs.wishes("") };
            running.path.set_program_wishes(wishes, elsewhere);
            process.programs.set_devices(&running.path);
        }
    }

    /// Carries on the audit of the running fast path. Returns true if the cycle goes on.
    pub(crate) fn audit_slice(&self) -> bool {
        self.running.borrow_mut().as_mut().is_some_and(|running| running.path.audit_slice())
    }

    /// Returns the reason for which the fast path does not run although it is wanted.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.unavailable.borrow().clone()
    }

    /// Follows a change of the interfaces.
    pub(crate) fn interface_event(&self, process: &FeaProcess, event: &InterfaceEvent) {
        if let Some(running) = self.running.borrow_mut().as_mut() {
            running.path.interface_event(event);
        }
        // A program sees the interfaces that its component named, whichever interface has the name now.
        self.refresh_ports(process);
    }

    /// Does what follows from the last operations of the engine.
    pub(crate) fn settle(&self, process: &Rc<FeaProcess>) {
        if self.is_settling.replace(true) {
            return;
        }
        // The kernel does not have the external routes of a process before: they come from the owner only.
        let may_go_live = self.configured() != ForwardingEngine::Xdp || self.selection.is_resynced();
        let settled = self.running.borrow_mut().as_mut().map(|running| running.path.settle(may_go_live));
        self.is_settling.set(false);
        match settled {
            Some(Ok(Some(grace))) => wait_for_grace(Rc::clone(process), grace),
            Some(Err(error)) => {
                error!(event = "forwarding.refused", %error, "the kernel refuses the program; it forwards alone");
                self.unavailable.replace(Some(error.to_string()));
            }
            Some(Ok(None)) | None => {}
        }
        self.select_routes(process);
    }
}

/// Waits until every program run that is under way has ended.
fn wait_for_grace(process: Rc<FeaProcess>, grace: Grace) {
    tokio::task::spawn_local(async move {
        let waited = tokio::task::spawn_blocking(sluice_bpf::run::wait_for_runs).await;
        match waited {
            Ok(Ok(())) => {
                if let Some(running) = process.fast_path.running.borrow_mut().as_mut() {
                    running.path.end_grace(grace);
                }
                process.fast_path.settle(&process);
            }
            // Without the wait, retired numbers are never used again; the tables fill up and the kernel forwards what has no room.
            Ok(Err(error)) => warn!(%error, "the kernel does not say when programs have ended"),
            Err(error) => warn!(%error, "the wait for programs failed"),
        }
    });
}

/// Acts on the wanted engines, for ever.
pub(crate) async fn follow(process: Rc<FeaProcess>) {
    let mut wanted = process.fast_path.wanted.subscribe();
    loop {
        let engine = *wanted.borrow_and_update();
        match engine {
            None => {}
            Some(ForwardingEngine::Kernel) => {
                tokio::select! {
                    // The kernel has all routes then.
                    () = process.fast_path.selection.followed() => stop(&process),
                    changed = wanted.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                }
            }
            Some(ForwardingEngine::Both | ForwardingEngine::Xdp) => {
                let is_running = process.fast_path.running.borrow().is_some();
                if !is_running && let Err(error) = start(&process).await {
                    warn!(event = "forwarding.unavailable", %error, "the kernel forwards alone: {error}");
                    process.fast_path.unavailable.replace(Some(error.to_string()));
                }
                process.fast_path.select_routes(&process);
            }
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

async fn start(process: &Rc<FeaProcess>) -> Result<(), StartError> {
    let client = manager::ManagerClient::new(&process.frame.router, "manager");
    client.mount_pins(manager::MountPinsRequest {}).await?;
    let mut path = FastPath::open(&pins_mount(&process.frame.run_dir), flow_seed(process))?;
    let (watch, sightings) = Watch::start()?;
    for interface in process.with_core(|core| core.interfaces()).unwrap_or_default() {
        path.interface_event(&InterfaceEvent::Changed(interface));
    }
    let engine = XdpEngine::new(Rc::clone(path.forwarder()));
    let engine = process.with_drive(|drive, _, _| drive.engine().join(Box::new(engine)));
    let task = tokio::task::spawn_local(feed(Rc::clone(process), sightings)).abort_handle();
    process.fast_path.running.replace(Some(Running { path, engine, _watch: watch, task }));
    process.fast_path.unavailable.replace(None);
    process.programs.found(|slot| process.fast_path.with(|path| path.chain().is_filled(slot)) == Some(true));
    process.fast_path.refresh_ports(process);
    process.subscribers.set_takes_programs(true);
    process.wake();
    Ok(())
}

/// Stops the fast path, removes what an earlier process left, and notifies the holders of programs, which put theirs again once the
/// fast path is back.
fn stop(process: &Rc<FeaProcess>) {
    if process.fast_path.configured() == ForwardingEngine::Kernel {
        process.fast_path.unavailable.replace(None);
    }
    let running = process.fast_path.running.borrow_mut().take();
    let was_running = running.is_some();
    if let Some(mut running) = running {
        running.task.abort();
        running.path.release();
        process.programs.clear();
        process.with_drive(|drive, _, _| drive.engine().leave(running.engine));
    }
    match Chain::remove(&pins_mount(&process.frame.run_dir)) {
        Ok(()) if was_running => info!(event = "forwarding.stopped", "the kernel forwards alone"),
        Ok(()) => {}
        Err(error) => warn!(%error, "the programs of the fast path stay attached"),
    }
    process.subscribers.set_takes_programs(false);
}

/// Gives what the watch sees to the running fast path.
async fn feed(process: Rc<FeaProcess>, mut sightings: mpsc::Receiver<Sighting>) {
    while let Some(sighting) = sightings.recv().await {
        let taken =
            process.fast_path.running.borrow_mut().as_mut().map(|running| running.path.sighted(sighting));
        if let Some(Err(error)) = taken {
            error!(event = "forwarding.blind", %error, "the fast path ends: the kernel does not say what the host does");
            process.fast_path.unavailable.replace(Some(format!("netlink: {error}")));
            process.fast_path.change_engine(&process, ForwardingEngine::Kernel);
            return;
        }
        process.fast_path.settle(&process);
    }
}

/// Returns the seed of the flow hash: the router's own, and the same after a restart, so that flows keep their members.
fn flow_seed(process: &FeaProcess) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Without the number of the boot, routers in a row differ by their folders or not at all.
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    process.frame.run_dir.hash(&mut hasher);
    hasher.finish()
}
