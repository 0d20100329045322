//! Route origin validation by RPKI caches: the process. The process connects to the configured caches by sockets of the FEA, and serves the
//! data in effect to validating components. The rules are in the core (`sluice_rpki`).

pub mod config;
mod connections;
mod handover;
mod service;
mod subscribers;
mod tls;
pub mod transfer;

sluice_xrl::include_idl!();

use config::ConfigError;
use connections::{Connections, Target};
use sluice_process::part::Planned;
use sluice_process::{
    Component, Driver, Frame, HandOverError, Prepared, Rest, RunOptions, Sink, Source, StatePart, Tasks,
};
use sluice_rpki::machine::{Input, Output, Rpki};
use sluice_rpki::settings::Settings;
use sluice_xrl::Service;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::SystemTime;
use subscribers::Subscribers;
use tracing::{info, warn};
use transfer::Transfer;

/// The process of the component.
pub struct RpkiProcess {
    frame: Frame,
    me: Weak<RpkiProcess>,
    driver: Driver<Rpki>,
    connections: Connections,
    subscribers: Subscribers,
    /// The pages for subscribers.
    transfer: RefCell<Option<Transfer>>,
    /// Effects to carry out once the process is registered; `None` when effects are carried out at once.
    waiting: RefCell<Option<Vec<Output>>>,
    tasks: Tasks,
    rest: Rest,
}

sluice_process::served!(RpkiProcess);

/// Runs the component until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first_epoch = since_epoch.as_millis() as u64;
        Ok(Rc::new_cyclic(|me: &Weak<RpkiProcess>| {
            let process = me.clone();
            let effect = move |output| {
                if let Some(process) = process.upgrade() {
                    process.carry_out(output);
                }
            };
            RpkiProcess {
                driver: Driver::new(Rpki::new(first_epoch), effect),
                me: me.clone(),
                frame,
                connections: Connections::default(),
                subscribers: Subscribers::default(),
                transfer: RefCell::default(),
                waiting: RefCell::default(),
                tasks: Tasks::default(),
                rest: Rest::default(),
            }
        }))
    })
}

impl RpkiProcess {
    /// Fires the core's timers until the process ends, hands over or is registered anew.
    fn run_timers(&self) {
        let Some(me) = self.me.upgrade() else { return };
        self.tasks.replace([tokio::task::spawn_local(async move { me.driver.run().await })]);
    }

    fn carry_out(&self, output: Output) {
        if let Some(waiting) = self.waiting.borrow_mut().as_mut() {
            return waiting.push(output);
        }
        match output {
            Output::Connect { connection, address, port, local_address, tls } => {
                let target = Target { address, port, local: local_address, tls };
                self.connections.open(self.me.clone(), connection, target);
            }
            Output::Send(connection, octets) => self.connections.send(connection, octets),
            Output::Close(connection) => self.connections.close(connection),
            Output::Changed => {
                self.transfer.take();
                self.subscribers.notify();
            }
            Output::Event(event) => {
                let cache = event.cache().unwrap_or_default();
                if event.is_warning() {
                    warn!(event = event.id(), cache, "{event}");
                } else {
                    info!(event = event.id(), cache, "{event}");
                }
            }
        }
    }
}

impl Component for RpkiProcess {
    const CLASS: &'static str = "rpki";

    const PARTS: &'static [StatePart] = &[handover::CACHES];

    type Settings = Settings;

    type Error = ConfigError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![idl::rpki::v1::rpki_service(Rc::new(Served(Rc::clone(self))))]
    }

    async fn registered(self: Rc<Self>, _instance: String) {
        self.run_timers();
        self.waiting.take().into_iter().flatten().for_each(|output| self.carry_out(output));
    }

    fn degraded(&self) -> Vec<String> {
        self.driver.read(|machine| {
            let is_configured = !machine.settings().caches.is_empty();
            let has_none = machine.is_settled() && machine.epochs().table().is_none();
            let why =
                (is_configured && has_none).then(|| "no cache has data: routes are not validated".into());
            why.into_iter().collect()
        })
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, ConfigError> {
        config::settings(planned.whole()).map(Prepared::quiet)
    }

    async fn apply(self: Rc<Self>, settings: Settings) -> Result<(), ConfigError> {
        self.driver.input(Input::Configure(settings));
        Ok(())
    }

    async fn hand_over(self: Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        self.hand_over_to(to).await
    }

    async fn resume(self: Rc<Self>, instance: Option<String>) {
        self.rest.set(false);
        match instance {
            Some(instance) => self.registered(instance).await,
            None => self.run_timers(),
        }
    }

    async fn take_over(self: Rc<Self>, settings: Settings, from: &mut Source) -> Result<(), HandOverError> {
        self.waiting.replace(Some(Vec::new()));
        if let Some(state) = handover::read(from).await? {
            self.driver.import(state);
        }
        self.driver.input(Input::Configure(settings));
        Ok(())
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        // Without the component nothing is validated; else subscribers keep what they have until the next process has data.
        if for_good {
            self.driver.input(Input::Configure(Settings::default()));
            self.subscribers.notified().await;
        }
    }
}
