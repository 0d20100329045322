//! The router manager: the process.
//!
//! It reads the configuration, runs the Finder, and does to processes what the core says. What it knows of running processes is
//! in `state.json`, so that its next life can take them over.

mod configuration;
mod handover;
mod processes;
mod service;
mod state;

pub use configuration::{Builtin, ConfigSource, StartError};

use configuration::Loaded;
use processes::Processes;
use sluice_config::Impact;
use sluice_manager::{End, Input, Manager, Output, Spec};
use sluice_shell::Driver;
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::manager::v1::manager_service;
use sluice_xrl::{Acl, LifeEvent, Principal, Router, RouterOptions, Target};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::{info, warn};

/// What the manager is started with.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The configuration and the schema's parts.
    pub source: ConfigSource,
    /// The router's run-time folder; made if it does not exist.
    pub run_dir: PathBuf,
}

/// The manager's process.
pub struct ManagerShell {
    options: StartOptions,
    finder: Finder,
    router: Router,
    driver: Driver<Manager>,
    processes: Processes,
    handovers: handover::HandOvers,
    loaded: RefCell<Loaded>,
    started: Instant,
    stopped: Notify,
}

/// How long a component may take to answer a configuration.
const CONFIGURE_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the router until it is told to stop. Blocks.
pub fn start(options: StartOptions) -> anyhow::Result<()> {
    let loaded = configuration::load(&options.source)?;
    configuration::check_network_rights()?;
    let _lock = state::lock(&options.run_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(options, loaded))
}

async fn serve(options: StartOptions, loaded: Loaded) -> anyhow::Result<()> {
    let own = random_secret()?;
    let operator = random_secret()?;
    let mut acl = Acl::from([
        (own, Principal::all_powerful("manager")),
        (operator, Principal::all_powerful("operator")),
    ]);
    let processes = Processes::new(&options.run_dir);
    let adopted = processes.adoptable();
    // Known before the Finder opens: a process whose secret it does not know ends itself.
    for (class, secret) in &adopted {
        acl.insert(*secret, principal(&loaded.rights(class)));
    }
    state::remove_orphaned_sockets(&options.run_dir);
    let socket = options.run_dir.join("finder.sock");
    let finder = Finder::bind(&socket, acl).await.map_err(state::cannot("make the socket", &socket))?;
    state::open_to_components(&options.run_dir, &socket)
        .map_err(state::cannot("open the socket", &socket))?;
    state::write_secret(&options.run_dir, &operator)?;
    let router = Router::connect(RouterOptions::new(&socket, own, options.run_dir.join("xrl"))).await?;
    let shell = Rc::new_cyclic(|me: &Weak<ManagerShell>| {
        let effect = {
            let me = me.clone();
            move |output| {
                if let Some(me) = me.upgrade() {
                    me.carry_out(output);
                }
            }
        };
        ManagerShell {
            driver: Driver::new(Manager::new(), effect),
            processes,
            handovers: handover::HandOvers::default(),
            finder,
            router,
            loaded: RefCell::new(loaded),
            options,
            started: Instant::now(),
            stopped: Notify::new(),
        }
    });
    let service = manager_service(Rc::new(service::Served(Rc::clone(&shell))));
    let _registered = shell.router.register(Target::new("manager", vec![service]).singleton()).await?;
    {
        let me = Rc::clone(&shell);
        tokio::task::spawn_local(async move { me.driver.run().await });
    }
    shell.adopt(adopted);
    shell.want();
    {
        let me = Rc::clone(&shell);
        tokio::task::spawn_local(async move { me.processes.keep_written().await });
    }
    shell.wait_for_signals().await
}

impl ManagerShell {
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
            Output::AllStopped => self.stopped.notify_one(),
            Output::Event(event) => info!("{event}"),
        }
    }

    /// Tells the core which components the configuration names.
    fn want(self: &Rc<Self>) {
        let specs: Vec<Spec> = self.loaded.borrow().specs();
        for spec in &specs {
            self.watch(&spec.class);
        }
        self.driver.input(Input::Want(specs));
    }

    /// Follows a component's registrations, once for each class.
    fn watch(self: &Rc<Self>, class: &str) {
        if !self.processes.first_watch(class) {
            return;
        }
        let (me, class) = (Rc::clone(self), class.to_string());
        tokio::task::spawn_local(async move {
            let Ok(mut lives) = me.router.watch_class(&class).await else { return };
            while let Some(event) = lives.next().await {
                if matches!(event, LifeEvent::Birth(_)) {
                    me.driver.input(Input::Registered(class.clone()));
                }
            }
        });
    }

    fn spawn(self: &Rc<Self>, class: &str) {
        let rights = self.loaded.borrow().rights(class);
        let secret = match random_secret() {
            Ok(secret) => secret,
            Err(error) => return self.later_exit(class, error.to_string()),
        };
        self.finder.set_principal(secret, principal(&rights));
        match self.processes.spawn(class, &rights, &secret) {
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
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            me.ended(pid, secret, how);
        });
    }

    fn ended(&self, pid: u32, secret: [u8; 16], how: String) {
        self.finder.remove_principal(&secret);
        let class = self.processes.forget(pid);
        if self.handovers.ended(pid, &how) {
            return;
        }
        if let Some(class) = class {
            self.driver.input(Input::Exited(class, how));
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

    /// Takes over what an earlier life of the manager started and what still runs.
    fn adopt(self: &Rc<Self>, adopted: Vec<(String, [u8; 16])>) {
        for (class, secret) in adopted {
            let rights = self.loaded.borrow().rights(&class);
            info!(class, "taken over from an earlier life of the manager");
            let me = Rc::clone(self);
            let spec = Spec { class: class.clone(), needs: rights.needs };
            self.driver.input(Input::Adopt(spec));
            self.watch(&class);
            tokio::task::spawn_local(async move {
                let pid = me.processes.pid(&class);
                me.processes.wait_for_adopted(&class).await;
                me.ended(pid, secret, "ended (adopted process)".into());
            });
        }
    }

    async fn configure(self: Rc<Self>, class: String) {
        let change = self.loaded.borrow().part_change(&class);
        let client = common::ComponentClient::new(&self.router, &class).with_deadline(CONFIGURE_DEADLINE);
        let prepare = common::PrepareRequest { transaction: 0, change };
        let outcome = match client.prepare(prepare).await {
            Ok(_) => client.apply(common::ApplyRequest { transaction: 0 }).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(_) => self.driver.input(Input::Configured(class)),
            Err(error) => {
                warn!(class, %error, "does not take its configuration");
                self.driver.input(Input::ConfigureFailed(class, error.to_string()));
            }
        }
    }

    async fn terminate(self: Rc<Self>, class: &str, end: End) {
        self.handovers.cancel(class);
        let client = common::ComponentClient::new(&self.router, class).with_deadline(Duration::from_secs(2));
        if client.shutdown(common::ShutdownRequest { for_good: end == End::ForGood }).await.is_err() {
            self.processes.terminate(class);
        }
    }

    /// Reads the configuration again; what is wrong in it changes nothing.
    async fn reload(self: &Rc<Self>) {
        let loaded = match configuration::load(&self.options.source) {
            Ok(loaded) => loaded,
            Err(error) => return warn!("the configuration stays as it is: {error}"),
        };
        let changed: Vec<(String, Option<Impact>)> = {
            let before = self.loaded.borrow();
            let changed = loaded.classes().filter(|c| before.part(c) != loaded.part(c));
            changed.map(|c| (c.to_string(), loaded.cost_since(&before, c))).collect()
        };
        self.loaded.replace(loaded);
        self.want();
        for (class, cost) in changed {
            let ready = self
                .driver
                .with(|m| m.component(&class).is_some_and(|c| c.phase == sluice_manager::Phase::Ready));
            if ready && cost == Some(Impact::Restart) {
                info!(class, "started anew: what changed holds for the life of a process");
                self.driver.input(Input::Restart(class));
            } else if ready {
                Rc::clone(self).configure(class).await;
            }
        }
        info!("configuration read again");
    }

    async fn wait_for_signals(self: Rc<Self>) -> anyhow::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let mut hup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = term.recv() => self.driver.input(Input::StopAll),
                _ = int.recv() => self.driver.input(Input::StopAll),
                _ = hup.recv() => self.reload().await,
                () = self.stopped.notified() => {
                    info!("stopped");
                    state::clean(&self.options.run_dir);
                    return Ok(());
                }
            }
        }
    }
}

fn principal(rights: &sluice_shell::rights::Rights) -> Principal {
    Principal {
        name: rights.class.clone(),
        may_register: vec![rights.class.clone()],
        may_call: rights.call_patterns(),
    }
}

fn random_secret() -> anyhow::Result<[u8; 16]> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|e| anyhow::anyhow!("no randomness: {e}"))?;
    Ok(secret)
}

/// Checks a configuration file; the error says where and what is wrong.
pub fn check(source: &ConfigSource) -> Result<(), StartError> {
    configuration::load(source).map(|_| ())
}

/// The folder of a run-time folder's secret for the CLI.
pub fn operator_secret(run_dir: &Path) -> anyhow::Result<[u8; 16]> {
    state::read_secret(run_dir)
}
