//! The router manager: the process.
//!
//! The process reads the configuration, runs the Finder, and carries out the outputs of the core on component
//! processes. `state.json` records the running processes, so that the next life of the manager can adopt them.

mod audit;
mod commit;
mod configure;
#[cfg(test)]
mod golden;
mod packages;
mod revisions;
mod service;
mod start_error;
mod supervise;
mod version;

use crate::commit::carry::UnderWay;
use crate::commit::request::{CommitRequest, Done, Source};
use commit::editing::{EditError, Editing};

pub use crate::configure::builtin::Sharing;
pub use crate::configure::builtin::{Builtin, ConfigSource};
pub use audit::record as audit_record;
use commit::degraded::Degraded;
pub use configure::admission::check_package;
pub use configure::file::{check, read_configuration};
pub use configure::model::Model;
pub use configure::trial::run as try_packages;
pub use configure::upgrade::{UpgradeCheck, UpgradeError, upgrade_check};
pub use revisions::{Noted, Revision, Unconfirmed, Via, parse_copy, parse_revision, parse_unconfirmed};
pub use start_error::StartError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use supervise::confinement::Confinement;
pub use supervise::core_file;
use supervise::core_file::Cores;
pub use supervise::credentials::folder as credentials_folder;
use supervise::denials::{self, Denials};
use supervise::helper::Helpers;
pub use supervise::inherited::{close_inherited, permit_descriptors};
pub use supervise::left_behind::{LeftBehind, claim_network, is_manager_dead, left_behind, manager_pid};
use supervise::principal::{principal, random_secret};
use supervise::processes::{self, Processes};
use supervise::replace::handover::HandOvers;
use supervise::service_manager::{self, ServiceManager};
pub use supervise::state::{Recorded, operators_socket, parse as parse_state, text as state_text};
use supervise::{kept_files, left_behind, sole, state, watch};

use audit::Audit;
use audit::actions::SeenLately;
use audit::record::{Act, Who};
use commit::copy::Copies;
use commit::shared::Waiting;
use commit::steps::Stepping;
use configure::file::read_file;
use configure::model::check_network_rights;
use configure::people::People;
use configure::start::{self, Start};
use revisions::Revisions;
use service::configuration::Shown;
use sluice_base::{class_of, component_of};
use sluice_config::Tree;
use sluice_manager::commit::Input as CommitInput;
use sluice_manager::component::Phase;
use sluice_manager::event::Severity;
use sluice_manager::{End, Input, Manager, Output, Spec};
use sluice_process::Driver;
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::{Acl, LifeEvent, Principal, XrlEndpoint, XrlError};
use tokio::sync::Notify;
use tracing::{error, info, warn};

/// The longest wait for threads at the end.
const LAST_THREADS: Duration = Duration::from_secs(2);

/// Options of the manager.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The configuration and the schema's parts.
    pub source: ConfigSource,
    /// The router's run-time folder; made if it does not exist.
    pub run_dir: PathBuf,
    /// The first of the users that component classes get.
    pub first_user: u32,
}

/// The manager's process.
pub struct ManagerProcess {
    options: StartOptions,
    finder: Finder,
    router: XrlEndpoint,
    driver: Driver<Manager>,
    processes: Processes,
    cores: Cores,
    handovers: HandOvers,
    helpers: Helpers,
    me: Weak<ManagerProcess>,
    /// The schema and the packages; replaced as a whole when a package comes or goes.
    model: RefCell<Rc<Model>>,
    /// Grows with each replacement, so that clients know that theirs is old.
    schema_number: Cell<u64>,
    running: RefCell<Running>,
    revisions: RefCell<Revisions>,
    degraded: Degraded,
    denials: Denials,
    audit: Audit,
    seen_lately: SeenLately,
    copies: Copies,
    editing: Editing,
    people: Rc<People>,
    /// Held during a commit: commits run in sequence.
    turn: tokio::sync::Mutex<()>,
    /// Held while a package comes or goes; taken before the turn to commit.
    changing_packages: tokio::sync::Mutex<()>,
    under_way: RefCell<Option<UnderWay>>,
    /// Whether the commit under way waits for other elements.
    waiting: Waiting,
    /// Held from the last component's share of a change until the revision is on the disk or writing has failed.
    storing: tokio::sync::Mutex<()>,
    /// Held by whoever sends a component its whole configuration, by class.
    configuring: RefCell<BTreeMap<String, Rc<tokio::sync::Mutex<()>>>>,
    transactions: Cell<u64>,
    stepping: Stepping,
    /// The last text shown, for its next page.
    shown: RefCell<Option<Shown>>,
    started: Instant,
    service_manager: ServiceManager,
    stopped: Notify,
}

/// The running router.
struct Running {
    tree: Tree,
    revision: u64,
    /// True if the revision holds the running configuration. False if the disk had no space for a revision at the
    /// start.
    is_stored: bool,
}

/// Runs the router until it is asked to stop. Blocks.
pub fn start(mut options: StartOptions) -> anyhow::Result<()> {
    // Components may be in another folder than this process.
    options.run_dir = std::path::absolute(&options.run_dir)?;
    let model = Model::load(&options.source)?;
    if !Revisions::exist(&options.source.state_dir) {
        // Only the file can say what is to run: nothing is made before it is known to be valid.
        read_file(&options.source, &model)?;
    }
    check_network_rights()?;
    let _lock = state::lock(&options.run_dir)?;
    let recorded = left_behind::recorded(&options.run_dir)?;
    // An interrupted change of the packages: a package is installed when its folder has its name.
    if let Err(error) = sluice_package::Store::new(&options.source.packages_dir).clean() {
        warn!(%error, "what is not needed any more stays in the folder of packages");
    }
    let sole = sole::claim(sole::ROUTER)?;
    let mut revisions = Revisions::open(&options.source.state_dir, model.schema_json())?;
    let start = start::choose(&options.source, &model, &mut revisions)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let served = local.block_on(&runtime, async {
        if let Some(held) = sole {
            tokio::task::spawn_local(sole::answer(held));
        }
        serve(options, model, revisions, start, recorded).await
    });
    drop(local);
    // What a thread still does, nobody waits for.
    runtime.shutdown_timeout(LAST_THREADS);
    served
}

async fn serve(
    options: StartOptions,
    model: Model,
    revisions: Revisions,
    start: Start,
    recorded: state::Processes,
) -> anyhow::Result<()> {
    let own = random_secret()?;
    let mut acl = Acl::from([(own, Principal::all_powerful("manager"))]);
    let cores_folder = Cores::folder(&options.source.state_dir);
    let confinement = Confinement::prepare(
        &options.run_dir,
        &options.source.state_dir,
        options.first_user,
        cores_folder.clone(),
    )?;
    let cores = Cores::prepare(cores_folder, confinement.has_users());
    let processes = Processes::new(&options.run_dir, confinement, model.executables(), cores.environment());
    let adopted = processes.adoptable(recorded);
    // Known before the Finder opens: a process whose secret it does not know ends itself.
    for (class, secret) in &adopted {
        acl.insert(*secret, principal(class, &model, processes.confinement.user(class)?));
    }
    state::remove_orphaned_sockets(&options.run_dir);
    let people = Rc::new(People::new(&model, &start.tree));
    let (finder, router) = service::finder::open(&options, acl, own, Rc::clone(&people)).await?;
    let is_behind = start.is_behind;
    let process = Rc::new_cyclic(|me: &Weak<ManagerProcess>| {
        let effect = {
            let me = me.clone();
            move |output| {
                if let Some(me) = me.upgrade() {
                    me.carry_out(output);
                }
            }
        };
        ManagerProcess {
            driver: Driver::new(Manager::new(), effect),
            processes,
            cores,
            handovers: HandOvers::default(),
            helpers: Helpers::default(),
            finder,
            router,
            me: me.clone(),
            editing: Editing::new(&start.tree),
            people,
            model: RefCell::new(Rc::new(model)),
            schema_number: Cell::new(1),
            running: RefCell::new(Running {
                tree: start.tree,
                revision: start.revision,
                is_stored: start.is_stored,
            }),
            copies: Copies::default(),
            denials: Denials::default(),
            audit: Audit::open(&options.source.state_dir),
            seen_lately: SeenLately::default(),
            degraded: Degraded::at_start(start.trouble, start.before),
            revisions: RefCell::new(revisions),
            turn: tokio::sync::Mutex::new(()),
            changing_packages: tokio::sync::Mutex::default(),
            under_way: RefCell::new(None),
            waiting: Waiting::default(),
            storing: tokio::sync::Mutex::new(()),
            configuring: RefCell::default(),
            transactions: Cell::new(0),
            stepping: Stepping::from_environment(),
            shown: RefCell::new(None),
            options,
            started: Instant::now(),
            service_manager: ServiceManager::default(),
            stopped: Notify::new(),
        }
    });
    let _registered = service::register(&process).await?;
    process.begin(adopted, is_behind);
    process.wait_for_signals().await
}

impl ManagerProcess {
    /// Adopts the processes that run already, starts the missing ones, and starts the tasks that watch them all.
    fn begin(self: &Rc<Self>, adopted: Vec<(String, [u8; 16])>, is_file_behind: bool) {
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move { me.driver.run().await });
        self.adopt(adopted);
        self.adopt_helpers();
        self.want();
        tokio::task::spawn_local(watch::watch(Rc::clone(self)));
        tokio::task::spawn_local(kept_files::watch(Rc::clone(self)));
        tokio::task::spawn_local(service_manager::follow(Rc::clone(self)));
        tokio::task::spawn_local(denials::follow(Rc::clone(self)));
        let unconfirmed = self.revisions.borrow().unconfirmed();
        if let Some(unconfirmed) = unconfirmed {
            self.confirm_until(unconfirmed.revision, unconfirmed.until_unix_ms);
        }
        if is_file_behind {
            self.copy_later();
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move { me.processes.keep_written().await });
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::Spawn(class) => self.spawn(&class),
            Output::Configure(class) => {
                let me = Rc::clone(self);
                tokio::task::spawn_local(async move { me.configure(class).await });
            }
            Output::Terminate(class, end) => {
                let me = Rc::clone(self);
                tokio::task::spawn_local(async move { me.terminate(&class, end).await });
            }
            Output::Kill(class) => self.processes.kill(&class),
            Output::FallBack(class) => {
                if let Some(binary) = self.processes.fall_back(&class) {
                    info!(class, "{} is given up", binary.display());
                }
            }
            Output::UpgradeConfirmed(class) => self.processes.proven(&class),
            Output::AllStopped => self.stopped.notify_one(),
            Output::Event(event) => {
                report(&event);
                self.service_manager.look();
            }
        }
    }

    /// Returns the schema and the packages of now.
    fn model(&self) -> Rc<Model> {
        Rc::clone(&self.model.borrow())
    }

    /// Passes the components that the configuration names to the core.
    fn want(self: &Rc<Self>) {
        let classes = self.model().classes(&self.running.borrow().tree);
        self.want_these(&classes);
    }

    fn want_these(self: &Rc<Self>, classes: &[String]) {
        let specs = self.model().specs(classes);
        for spec in &specs {
            self.watch(&spec.name);
        }
        self.end_helpers_without(|component| specs.iter().any(|spec| spec.name == component));
        self.driver.input(Input::Want(specs));
    }

    /// The same after the core has returned.
    fn want_later(self: &Rc<Self>, classes: Vec<String>) {
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move { me.want_these(&classes) });
    }

    /// Returns a component's phase.
    fn phase(&self, class: &str) -> Option<Phase> {
        self.driver.read(|manager| manager.component(class).map(|c| c.phase))
    }

    /// Follows a component's registrations, once for each name.
    fn watch(self: &Rc<Self>, class: &str) {
        if !self.processes.first_watch(class) {
            return;
        }
        let (me, class) = (Rc::clone(self), class.to_string());
        tokio::task::spawn_local(async move {
            let Ok(mut lives) = me.router.watch_class(class_of(&class)).await else { return };
            while let Some(event) = lives.next().await {
                if let LifeEvent::Birth(life) = event
                    && component_of(&life.class, &life.instance) == class
                {
                    me.driver.input(Input::Registered(class.clone()));
                }
            }
        });
    }

    fn spawn(self: &Rc<Self>, class: &str) {
        // The router's own components remove what is too much themselves.
        let excess =
            Some(()).filter(|()| !self.processes.is_own(class)).and_then(|()| self.over_quota(class));
        if let Some(excess) = excess {
            return self.later_exit(class, format!("not started: {excess}"));
        }
        let rights = self.model().rights(class);
        let secret = match random_secret() {
            Ok(secret) => secret,
            Err(error) => return self.later_exit(class, error.to_string()),
        };
        let user = match self.processes.confinement.user(class) {
            Ok(user) => user,
            Err(error) => return self.later_exit(class, format!("cannot be started: {error}")),
        };
        self.finder.set_principal(secret, principal(class, &self.model(), user));
        let table = self.model().schema.table(class, &self.tree_for(class));
        match self.processes.spawn(class, table, &rights, &secret) {
            Ok(child) => {
                self.driver_later(Input::Spawned(class.into()));
                self.follow(secret, child);
            }
            Err(error) => {
                self.finder.remove_principal(&secret);
                self.later_exit(class, format!("cannot be started: {error}"));
            }
        }
    }

    /// Waits for the end of a process.
    fn follow(self: &Rc<Self>, secret: [u8; 16], mut child: tokio::process::Child) {
        let (me, pid) = (Rc::clone(self), child.id().unwrap_or(0));
        tokio::task::spawn_local(async move {
            let how = match child.wait().await {
                Ok(status) => me.processes.end_in_words(&me.cores, pid, status),
                Err(error) => error.to_string(),
            };
            me.ended(pid, secret, how);
        });
    }

    fn ended(&self, pid: u32, secret: [u8; 16], how: String) {
        self.finder.remove_principal(&secret);
        let class = self.processes.forget(pid);
        if let Some(class) = &class {
            // Its last words come before the report of its end.
            self.processes.outputs.ended(processes::component_name(class));
        }
        if self.handovers.ended(pid, &how) {
            return;
        }
        let Some(class) = class else { return };
        let (was_asked_to, wanted) = self.driver.read(|manager| {
            manager.component(&class).map_or((true, false), |c| (c.ends_on_request(), c.is_wanted()))
        });
        self.driver.input(Input::Exited(class.clone(), how.clone()));
        match (was_asked_to, wanted) {
            (true, true) => {} // it comes again
            (true, false) => self.notify_commit(CommitInput::Restored(class)),
            (false, _) => self.notify_commit(CommitInput::Failed(class, how)),
        }
    }

    /// An input that follows from an output: after the core has returned.
    fn driver_later(self: &Rc<Self>, input: Input) {
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move { me.driver.input(input) });
    }

    fn later_exit(self: &Rc<Self>, class: &str, how: String) {
        self.driver_later(Input::Exited(class.into(), how));
    }

    /// Adopts components started by an earlier life of the manager and still running.
    fn adopt(self: &Rc<Self>, adopted: Vec<(String, [u8; 16])>) {
        for (class, secret) in adopted {
            let rights = self.model().rights(&class);
            info!(event = "process.taken-over", class, "taken over from an earlier life of the manager");
            let me = Rc::clone(self);
            let spec = Spec { name: class.clone(), needs: rights.needs };
            self.driver.input(Input::Adopt(spec));
            if self.processes.is_on_trial(&class) {
                self.driver.input(Input::Upgraded(class.clone()));
            }
            self.watch(&class);
            self.follow_output(&class, self.processes.is_own(&class));
            tokio::task::spawn_local(async move {
                let pid = me.processes.pid(&class);
                me.processes.wait_for_adopted(&class).await;
                me.ended(pid, secret, "ended (adopted process)".into());
            });
        }
    }

    async fn configure(self: Rc<Self>, class: String) {
        match self.configure_whole(&class).await {
            Ok(()) => {
                self.driver.input(Input::Configured(class.clone()));
                self.check_confinement(&class);
                if self.driver.read(|manager| manager.is_ready()) {
                    self.degraded.back.take();
                }
                self.notify_commit(CommitInput::Ready(class));
            }
            Err(XrlError::Disconnected(_)) if self.processes.ends_soon(&class).await => {}
            Err(error) => {
                warn!(event = "config.part-refused", class, %error, "does not take its configuration");
                if let XrlError::Application { message, .. } = &error {
                    self.go_back(&class, message);
                    // A commit that waits for the component names the component's reason, not the signal that ends the process.
                    self.notify_commit(CommitInput::Failed(class.clone(), message.clone()));
                }
                self.driver.input(Input::ConfigureFailed(class, error.to_string()));
            }
        }
    }

    async fn terminate(self: Rc<Self>, class: &str, end: End) {
        self.handovers.cancel(class);
        // One that was taken over just now may not have come back to the Finder yet. Only a call confirms the take-over to it.
        let patience = Duration::from_secs(if end == End::ForGood { 4 } else { 2 });
        let client = common::ComponentClient::new(&self.router, class).with_deadline(patience);
        let confirmed = async {
            let request = common::ShutdownRequest { for_good: end == End::ForGood };
            while let Err(error) = client.shutdown(request).await {
                if !matches!(error, XrlError::UnknownTarget(_)) {
                    return Err(error);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        if !matches!(tokio::time::timeout(patience, confirmed).await, Ok(Ok(()))) {
            self.processes.terminate(class);
        }
    }

    /// Reads the configuration file again and commits its content.
    async fn reload(self: &Rc<Self>, allow_empty: bool) -> Result<Done, EditError> {
        let comment = "the configuration file was read again".into();
        let source = Source::File { allow_empty };
        let request = CommitRequest { source, comment, confirm_within: None, confirms: false };
        let done = self.commit(request).await;
        match &done {
            Ok(done) => {
                info!(revision = done.revision, changes = done.changes, "configuration read again");
            }
            Err(error) => {
                warn!(event = "config.refused", "the configuration stays as it is: {error}");
                self.degraded.refused.replace(Some(format!("the configuration file was not taken: {error}")));
            }
        }
        done
    }

    /// Reads the file again, and writes the record: the kernel does not say who sent a signal.
    async fn reload_by_signal(self: &Rc<Self>) {
        let (result, revision) = match self.reload(false).await {
            Ok(done) => ("done".to_owned(), Some(done.revision)),
            Err(error) => (error.to_string(), None),
        };
        self.audit.note(Who::default(), Act::Reload, vec!["SIGHUP".into()], result, revision).await;
    }

    /// Stops the router, and writes the record.
    fn stop_by_signal(self: &Rc<Self>, signal: &str) {
        let (me, lines) = (Rc::clone(self), vec![signal.to_owned()]);
        tokio::task::spawn_local(async move {
            me.audit.note(Who::default(), Act::Stop, lines, "done".into(), None).await;
        });
        self.stop();
    }

    /// Ends every component; the end of the last component ends the manager.
    fn stop(self: &Rc<Self>) {
        self.service_manager.stopping();
        self.driver.input(Input::StopAll);
    }

    async fn wait_for_signals(self: Rc<Self>) -> anyhow::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let mut hup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = term.recv() => self.stop_by_signal("SIGTERM"),
                _ = int.recv() => self.stop_by_signal("SIGINT"),
                _ = hup.recv() => {
                    let me = Rc::clone(&self);
                    // The log has the outcome.
                    tokio::task::spawn_local(async move { me.reload_by_signal().await });
                }
                () = self.stopped.notified() => {
                    self.stop_helpers().await;
                    self.copies.settled().await;
                    self.processes.outputs.all_ended();
                    info!("stopped");
                    self.processes.confinement.remove_groups();
                    state::clean(&self.options.run_dir);
                    return Ok(());
                }
            }
        }
    }
}

/// Puts what the core reports into the log.
fn report(event: &sluice_manager::Event) {
    let (id, class, reason) = (event.id(), event.class(), event.reason());
    match event.severity() {
        Severity::Info => info!(event = id, class, reason, "{event}"),
        Severity::Warn => warn!(event = id, class, reason, "{event}"),
        Severity::Error => error!(event = id, class, reason, "{event}"),
    }
}
