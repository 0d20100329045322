//! The life of a component's process: the process shows its secret to the Finder, registers, takes its configuration,
//! ends in order; or takes over from a predecessor, and hands over to a successor (`succession.rs`).

use crate::clock;
use crate::handover::{HandOverError, Sink, Source};
use crate::part::{Change, Part, Planned};
use crate::profile::Profile;
use crate::succession::{PREDECESSOR, Succession};
use crate::{RunOptions, socket_folder};
use sluice_base::{Instant, Provenance, TableId, component_name};
use sluice_xrl::idl::common::v1::{self as pb, Effect, EffectKind};
use sluice_xrl::{CallContext, EndpointOptions, Service, Target, TargetHandle, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use tokio::sync::Notify;
use tracing::{error, info};

/// With 1: a process killed by a signal may leave its memory in a file.
pub const CORES: &str = "SLUICE_CORES";
/// The folder for core files, where the kernel leaves the choice to the process.
pub const CORES_DIR: &str = "SLUICE_CORES_DIR";

/// The most reasons of a degraded component in a reply.
const DEGRADED: usize = 16;

/// The services of the frame for a component.
#[derive(Clone)]
pub struct Frame {
    /// The way to other components.
    pub router: XrlEndpoint,
    /// The process's profiling points.
    pub profile: Profile,
    /// The router's run-time folder.
    pub run_dir: PathBuf,
    /// The component's name: the class, or an instance of the class (`bgp@red`).
    pub name: String,
    /// The routing table of the instance.
    pub table: TableId,
    /// The first provenance id of this life; ids go on from here.
    pub provenance: Provenance,
}

/// A component's shell.
#[allow(async_fn_in_trait)] // everything here is one thread
pub trait Component: 'static {
    /// The class of the component's target.
    const CLASS: &'static str;

    /// A change of its configuration, ready to be applied.
    type Settings: 'static;

    /// The reasons for which a change is refused, or cannot be applied.
    type Error: std::error::Error + 'static;

    /// Returns the component's own services.
    fn services(self: &Rc<Self>) -> Vec<Service>;

    /// Called when the component is registered under the name `instance`.
    async fn registered(self: Rc<Self>, _instance: String) {}

    /// Collects from other threads what [`Component::prepare`] names effects by. Called before it.
    async fn survey(self: Rc<Self>) {}

    /// The first half of a change of configuration: accepts or refuses the change, and names its effects. Changes
    /// nothing. The error names the fault of the change.
    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Self::Settings>, Self::Error>;

    /// The second half: what was prepared holds from now on.
    async fn apply(self: Rc<Self>, settings: Self::Settings) -> Result<(), Self::Error>;

    /// Returns the reasons why the component runs without a part of its configuration, a sentence each; empty while all
    /// is well. `sluice status` and the metrics show the reasons.
    fn degraded(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called when the process is about to end. With `for_good` the router goes on without the component, and its
    /// announcements must be withdrawn; else the component returns, or the whole router ends, and its announcements
    /// stay.
    async fn shutdown(self: Rc<Self>, _for_good: bool) {}

    /// The version of the values of [`Component::hand_over`]. Increase with every change of the values; a successor of
    /// a different version refuses, and the old process goes on.
    const STATE: u32 = 1;

    /// Hands over to a successor, which has the same configuration already: comes to rest, as quickly as possible
    /// without losing anything, and sends its state. From then on the process has no visible effect, until the process
    /// ends silently or is told to resume. A process whose hand-over ended early, or with an error, is told to resume
    /// too. A component without state of its own has nothing to do here.
    async fn hand_over(self: Rc<Self>, _to: &mut Sink) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Resumes: there is no successor after all. A process that had given up its name has a name again, as `instance`,
    /// and counted as dead meanwhile.
    async fn resume(self: Rc<Self>, instance: Option<String>) {
        if let Some(instance) = instance {
            self.registered(instance).await;
        }
    }

    /// The counterpart of [`Component::hand_over`]: takes the configuration and the predecessor's state, and checks the
    /// state for completeness. Has no visible effect before the registration.
    async fn take_over(
        self: Rc<Self>,
        settings: Self::Settings,
        _from: &mut Source,
    ) -> Result<(), HandOverError> {
        self.apply(settings).await.map_err(HandOverError::component)
    }
}

/// A prepared change of a component's configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepared<S> {
    /// The settings to apply.
    pub settings: S,
    /// The effects of the change.
    pub effects: Vec<Effect>,
}

impl<S> Prepared<S> {
    /// Returns a change without outside effects.
    pub fn quiet(settings: S) -> Self {
        Prepared { settings, effects: Vec::new() }
    }

    /// Returns a change with effects, named as operators know the affected objects; empty lists are dropped.
    pub fn touching(settings: S, effects: Vec<(EffectKind, Vec<String>)>) -> Self {
        let effects = effects.into_iter().filter(|(_, subjects)| !subjects.is_empty());
        let effects = effects.map(|(kind, subjects)| Effect { kind: kind.into(), subjects }).collect();
        Prepared { settings, effects }
    }
}

/// Runs a component until told to end. Blocks; the process has nothing else to do.
pub fn run<C, F, Fut>(mut options: RunOptions, make: F) -> anyhow::Result<()>
where
    C: Component,
    F: FnOnce(Frame) -> Fut,
    Fut: Future<Output = anyhow::Result<Rc<C>>>,
{
    let secret = read_secret()?;
    // Its folder may be another one from here on.
    options.run_dir = std::path::absolute(&options.run_dir)?;
    confine()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Background slices are ready all the time; sockets must not wait for many of them.
        .event_interval(3)
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let finder = options.run_dir.join("finder.sock");
        let name = component_name(C::CLASS, options.instance.as_deref());
        let sockets = socket_folder(&options.run_dir, &name);
        let router = XrlEndpoint::connect(EndpointOptions::new(finder, secret, sockets)).await?;
        let frame = Frame {
            router: router.clone(),
            profile: Profile::default(),
            run_dir: options.run_dir,
            name,
            table: options.table,
            provenance: first_provenance(),
        };
        let place = frame.clone();
        let component = make(frame).await?;
        let life = Life::new(component, place);
        match predecessor() {
            None => life.begin().await?,
            Some(predecessor) => life.succeed(predecessor).await?,
        }
        tokio::select! {
            () = wait_for_end(&life) => {}
            // The manager was started anew and does not know of this process: it starts another one in its place.
            () = router.refused() => {
                anyhow::bail!("the router manager does not know this process any more; it ends");
            }
        }
        Rc::clone(&life.component).shutdown(life.for_good.get()).await;
        life.registered.take();
        // The reply to the call that ended the process goes out first.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        Ok(())
    })
}

/// Returns the predecessor, as named by the manager in the environment.
fn predecessor() -> Option<u32> {
    std::env::var(PREDECESSOR).ok()?.parse().ok()
}

/// Confines the process further than its launcher did, now that its program runs: no further program, no process
/// without rights over its memory by others of the same user, unless cores are wanted.
fn confine() -> anyhow::Result<()> {
    if std::env::var(CORES).is_ok_and(|v| v == "1") {
        let _ = nix::sys::prctl::set_dumpable(true);
        if let Some(folder) = std::env::var_os(CORES_DIR) {
            // The manager has told already what is in the way, if anything is.
            let _ = std::env::set_current_dir(folder);
        }
    } else if !nix::unistd::geteuid().is_root() {
        let _ = nix::sys::prctl::set_dumpable(false);
    }
    // Started by hand, as tests do: nothing was confined.
    if nix::sys::prctl::get_no_new_privs()? {
        sluice_sandbox::calls::forbid_programs()?;
    }
    Ok(())
}

/// The 16 octets that the manager writes to a component's standard input, as hex.
fn read_secret() -> anyhow::Result<[u8; 16]> {
    let mut text = [0; 32];
    std::io::stdin().read_exact(&mut text).map_err(|e| {
        anyhow::anyhow!("no secret on standard input ({e}); components are started by `sluice start`")
    })?;
    let mut secret = [0; 16];
    for (index, octet) in secret.iter_mut().enumerate() {
        let pair = std::str::from_utf8(&text[index * 2..index * 2 + 2])?;
        *octet = u8::from_str_radix(pair, 16)?;
    }
    Ok(secret)
}

/// A source number that is unlikely to repeat among the lives of a router's components.
fn first_provenance() -> Provenance {
    let mut bits = [0; 2];
    // Without randomness the process number tells lives apart well enough.
    if getrandom::fill(&mut bits).is_err() {
        bits = (std::process::id() as u16).to_ne_bytes();
    }
    Provenance::new(u16::from_ne_bytes(bits).max(1), 0)
}

async fn wait_for_end<C: Component>(life: &Life<C>) {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut term), Ok(mut int)) => {
            tokio::select! {
                () = life.end.notified() => {}
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        }
        _ => life.end.notified().await,
    }
}

/// The services that every component has.
pub(crate) struct Life<C: Component> {
    pub(crate) me: Weak<Life<C>>,
    pub(crate) component: Rc<C>,
    /// The component's name.
    pub(crate) name: String,
    profile: Rc<Profile>,
    pub(crate) router: XrlEndpoint,
    /// The folder of the component's sockets.
    pub(crate) sockets: PathBuf,
    started: Instant,
    pub(crate) readiness: Cell<pb::Readiness>,
    reason: RefCell<String>,
    end: Notify,
    for_good: Cell<bool>,
    pub(crate) part: RefCell<Part>,
    /// The last prepared change, and its transaction.
    prepared: RefCell<Option<(u64, Change, C::Settings)>>,
    /// The pieces received so far of a change.
    pieces: RefCell<Option<(u64, Change)>>,
    /// The registration with the Finder, if there is one.
    pub(crate) registered: Cell<Option<TargetHandle>>,
    pub(crate) succession: Succession,
}

impl<C: Component> Life<C> {
    fn new(component: Rc<C>, frame: Frame) -> Rc<Self> {
        Rc::new_cyclic(|me| Life {
            me: me.clone(),
            component,
            sockets: socket_folder(&frame.run_dir, &frame.name),
            name: frame.name,
            profile: Rc::new(frame.profile),
            router: frame.router,
            started: clock::now(),
            readiness: Cell::new(pb::Readiness::Starting),
            reason: RefCell::new(String::new()),
            end: Notify::new(),
            for_good: Cell::new(false),
            part: RefCell::default(),
            prepared: RefCell::new(None),
            pieces: RefCell::new(None),
            registered: Cell::default(),
            succession: Succession::default(),
        })
    }

    /// Registers under the component's class. Returns the instance's name.
    pub(crate) async fn register(self: &Rc<Self>) -> Result<String, XrlError> {
        let mut services = self.component.services();
        services.extend(self.common_services());
        let target = Target::new(C::CLASS, services).named(&self.name).singleton();
        let handle = self.router.register(target).await?;
        let instance = handle.instance().to_string();
        self.registered.set(Some(handle));
        info!(event = "process.registered", name = self.name, "registered");
        Ok(instance)
    }

    /// Returns the services that every component has.
    pub(crate) fn common_services(self: &Rc<Self>) -> [Service; 3] {
        [
            pb::component_service(Rc::clone(self)),
            pb::profile_service(Rc::clone(&self.profile)),
            crate::events::service(),
        ]
    }

    async fn begin(self: &Rc<Self>) -> Result<(), XrlError> {
        let instance = self.register().await?;
        Rc::clone(&self.component).registered(instance).await;
        Ok(())
    }
}

impl<C: Component> pb::Component for Life<C> {
    async fn get_status(
        &self,
        _ctx: &CallContext,
        _request: pb::GetStatusRequest,
    ) -> Result<pb::GetStatusReply, XrlError> {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).ok();
        let cpu_ms = usage.map_or(0, |u| {
            let ms = |t: nix::sys::time::TimeVal| t.tv_sec() * 1000 + t.tv_usec() / 1000;
            u64::try_from(ms(u.user_time()) + ms(u.system_time())).unwrap_or(0)
        });
        Ok(pb::GetStatusReply {
            class: C::CLASS.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            readiness: self.readiness.get().into(),
            reason: self.reason.borrow().clone(),
            uptime_ms: u64::try_from(clock::now().saturating_since(self.started).as_millis()).unwrap_or(0),
            memory_bytes: resident_bytes(),
            cpu_ms,
            degraded: self.component.degraded().into_iter().take(DEGRADED).collect(),
        })
    }

    async fn prepare(
        &self,
        _ctx: &CallContext,
        request: pb::PrepareRequest,
    ) -> Result<pb::PrepareReply, XrlError> {
        if self.succession.is_under_way() {
            return Err(XrlError::Busy("it is handed over to another process; try again".into()));
        }
        let change: Change = serde_json::from_str(&request.change)
            .map_err(|e| XrlError::BadArguments(format!("change: {e}")))?;
        let change = {
            let mut pieces = self.pieces.borrow_mut();
            let begun = pieces.take().filter(|(number, _)| *number == request.transaction);
            let whole = match begun {
                Some((_, begun)) => begun.followed_by(change),
                None => change,
            };
            if request.more {
                *pieces = Some((request.transaction, whole));
                return Ok(pb::PrepareReply::default());
            }
            whole
        };
        Rc::clone(&self.component).survey().await;
        let outcome = self.component.prepare(&Planned { part: &self.part.borrow(), change: &change });
        match outcome {
            Ok(Prepared { settings, effects }) => {
                self.prepared.replace(Some((request.transaction, change, settings)));
                Ok(pb::PrepareReply { effects })
            }
            Err(error) => {
                self.prepared.take();
                let reason = error.to_string();
                error!(event = "config.part-refused", reason, "configuration refused");
                Err(XrlError::application(1, reason))
            }
        }
    }

    async fn apply(&self, _ctx: &CallContext, request: pb::ApplyRequest) -> Result<pb::ApplyReply, XrlError> {
        let prepared = self.prepared.take();
        let Some((_, change, settings)) = prepared.filter(|(number, ..)| *number == request.transaction)
        else {
            return Err(XrlError::application(1, "this change was not prepared; prepare it first"));
        };
        Rc::clone(&self.component).apply(settings).await.map_err(|error| {
            let reason = error.to_string();
            error!(event = "config.part-not-applied", reason, "configuration could not be applied");
            XrlError::application(1, reason)
        })?;
        self.part.borrow_mut().apply(change);
        self.readiness.set(pb::Readiness::Ready);
        self.reason.borrow_mut().clear();
        Ok(pb::ApplyReply {})
    }

    async fn abandon(
        &self,
        _ctx: &CallContext,
        request: pb::AbandonRequest,
    ) -> Result<pb::AbandonReply, XrlError> {
        let mut prepared = self.prepared.borrow_mut();
        if prepared.as_ref().is_some_and(|(number, ..)| *number == request.transaction) {
            *prepared = None;
        }
        Ok(pb::AbandonReply {})
    }

    async fn shutdown(
        &self,
        _ctx: &CallContext,
        request: pb::ShutdownRequest,
    ) -> Result<pb::ShutdownReply, XrlError> {
        self.for_good.set(request.for_good);
        self.readiness.set(pb::Readiness::Draining);
        self.end.notify_one();
        Ok(pb::ShutdownReply {})
    }

    async fn hand_over(
        &self,
        _ctx: &CallContext,
        request: pb::HandOverRequest,
    ) -> Result<pb::HandOverReply, XrlError> {
        let (octets, descriptors) = self.hand_over_to(request.successor).await?;
        Ok(pb::HandOverReply { octets, descriptors })
    }

    async fn release(
        &self,
        _ctx: &CallContext,
        _request: pb::ReleaseRequest,
    ) -> Result<pb::ReleaseReply, XrlError> {
        self.give_name_up()?;
        Ok(pb::ReleaseReply {})
    }

    async fn take_over(
        &self,
        _ctx: &CallContext,
        _request: pb::TakeOverRequest,
    ) -> Result<pb::TakeOverReply, XrlError> {
        self.take_over_now().await?;
        Ok(pb::TakeOverReply { version: env!("CARGO_PKG_VERSION").into() })
    }
}

/// The process's resident set.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Sends what the process of a component reports to the journal or to standard error: text for people, or JSON lines with
/// `SLUICE_LOG_JSON=1`. `SLUICE_LOG` filters (`info`, `debug`, `bgp=debug`).
pub fn start_log(component: &str) {
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let filter = EnvFilter::try_from_env("SLUICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second start in one process (as tests do) keeps the first log.
    let _ = tracing_subscriber::registry().with(filter).with(crate::events::Log::new(component)).try_init();
}
