//! The routing information base: the process.
//!
//! XRL handlers feed the core, outputs become calls to clients, and two kinds of pumps pull: the pump for the
//! forwarding engine ([`fib`]) and a pump for each subscriber ([`clients`]). No decision about a route is made here.

mod clients;
mod comparison;
pub mod configuration;
mod convert;
mod fib;
mod handover;
mod service;
mod stages;

use clients::Clients;
use configuration::RibSettings;
use fib::FibPump;
use service::Served;
use sluice_base::{AnyPrefix, Provenance, TableId};
use sluice_process::part::Planned;
use sluice_process::{
    Component, Driver, Frame, HandOverError, InterfaceSnapshot, Point, Prepared, Rest, RunOptions, Sink,
    Source, StatePart, Tasks,
};
use sluice_rib::request::SetPolicies;
use sluice_rib::rights::RoutePolicy;
use sluice_rib::{Input, Output, Rib};
use sluice_xrl::Service;
use sluice_xrl::idl::fea::v1::{fib_owner_service, interface_observer_service};
use sluice_xrl::idl::rib::v1 as pb;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};
use tracing::{info, warn};

/// The RIB's process.
pub struct RibProcess {
    frame: Frame,
    /// Never dropped: the process ends with it, and the kernel takes whole pages back where a drop looks at every route.
    driver: ManuallyDrop<Driver<Rib>>,
    clients: Clients,
    fib: FibPump,
    interfaces: InterfaceSnapshot,
    instance: RefCell<String>,
    rest: Rest,
    /// Who may announce which routes; nobody is answered about it before the first configuration.
    policy: tokio::sync::watch::Sender<Option<Rc<RoutePolicy>>>,
    /// The tasks that run while the process is registered.
    tasks: Tasks,
    arriving: Point,
    queued: Point,
}

/// Runs the RIB until a request to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| anyhow::anyhow!("no randomness: {e}"))?;
        let source = frame.provenance.source();
        let process = Rc::new_cyclic(|me: &Weak<RibProcess>| {
            let effect = {
                let me = me.clone();
                move |output| {
                    if let Some(me) = me.upgrade() {
                        me.carry_out(output);
                    }
                }
            };
            RibProcess {
                driver: ManuallyDrop::new(Driver::new(Rib::new(u64::from_ne_bytes(seed), source), effect)),
                clients: Clients::new(&frame.router),
                interfaces: InterfaceSnapshot::new(),
                instance: RefCell::new(String::new()),
                rest: Rest::default(),
                policy: tokio::sync::watch::Sender::new(None),
                tasks: Tasks::default(),
                arriving: frame.profile.point("route_arrives_rib", "Arriving at the RIB"),
                queued: frame.profile.point("route_queued_fea", "Queued for transmission to the FEA"),
                fib: FibPump::new(&frame),
                frame,
            }
        });
        Ok(process)
    })
}

impl RibProcess {
    /// Gives the core an input and lets the pumps look whether there is something to pull.
    fn input(&self, input: Input) {
        self.driver.input(input);
        self.pass_on();
    }

    fn set_rights(&self, rights: RoutePolicy) {
        self.policy.send_replace(Some(Rc::new(rights)));
    }

    /// Returns who may announce which routes, as soon as the configuration is known.
    pub(crate) async fn policy(&self) -> Rc<RoutePolicy> {
        if let Some(policy) = &*self.policy.borrow() {
            return Rc::clone(policy);
        }
        let mut changes = self.policy.subscribe();
        match changes.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(policy)) => Rc::clone(policy),
            // The sender lives as long as the process.
            _ => Rc::default(),
        }
    }

    /// Sends the core's messages to clients and the FEA, as far as there is room.
    fn pass_on(&self) {
        if fib::send(self) {
            self.fib.wake();
        }
        self.clients.wake();
    }

    fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::InterestInvalid(watcher, table, ranges) => {
                let Some(client) = self.clients.by_watcher(watcher) else { return };
                let request = pb::InterestInvalidRequest {
                    table: table.0,
                    valid: ranges.into_iter().map(Into::into).collect(),
                };
                clients::detach("interest", client.interest_invalid(request));
            }
            Output::Presence(watcher, table, changes) => self.send_presence(watcher, table, changes),
            Output::Rejected(table, origin, routes) => self.report_rejected(table, &origin, routes),
            Output::Event(event) => info!(event = event.id(), "{event}"),
        }
    }

    fn report_rejected(&self, table: TableId, origin: &str, routes: Vec<(AnyPrefix, Provenance, String)>) {
        if let Some((prefix, _, reason)) = routes.first() {
            warn!(event = "rib.routes.refused", %prefix, reason, count = routes.len(), "routes of {origin} were refused by whoever forwards them");
        }
        let Some(client) = self.clients.by_origin(table, origin) else { return };
        let routes = routes.into_iter().map(|(prefix, provenance, reason)| pb::RejectedRoute {
            net: Some(prefix.into()),
            provenance: provenance.bits(),
            reason,
        });
        let request =
            pb::RoutesRejectedRequest { origin: origin.into(), table: table.0, routes: routes.collect() };
        clients::detach("rejection", client.routes_rejected(request));
    }
}

impl Component for RibProcess {
    const CLASS: &'static str = "rib";
    const PARTS: &'static [StatePart] = &[handover::ROUTES];

    const STATE: u32 = 2;

    type Settings = RibSettings;

    type Error = configuration::ConfigurationError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            pb::rib_service(Rc::new(Served(Rc::clone(self)))),
            interface_observer_service(Rc::new(Served(Rc::clone(self)))),
            fib_owner_service(Rc::new(Served(Rc::clone(self)))),
        ]
    }

    async fn registered(self: Rc<Self>, instance: String) {
        self.instance.replace(instance);
        let me = Rc::clone(&self);
        let tasks = [
            tokio::task::spawn_local(async move { me.driver.run_notifying(|| me.pass_on()).await }),
            tokio::task::spawn_local(fib::follow_fea(Rc::clone(&self))),
            tokio::task::spawn_local(fib::pump(Rc::clone(&self))),
            tokio::task::spawn_local(comparison::run(Rc::clone(&self))),
        ];
        self.tasks.replace(tasks);
    }

    async fn hand_over(self: Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        self.hand_over_to(to).await
    }

    async fn resume(self: Rc<Self>, instance: Option<String>) {
        self.rest.set(false);
        if let Some(instance) = instance {
            self.registered(instance).await;
        }
    }

    async fn take_over(
        self: Rc<Self>,
        settings: RibSettings,
        from: &mut Source,
    ) -> Result<(), HandOverError> {
        // The routes pass the policies as they come.
        self.driver.request(SetPolicies(settings.policies));
        self.take_over_from(from).await?;
        self.set_rights(settings.rights);
        Ok(())
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<RibSettings>, Self::Error> {
        configuration::read(&planned.whole()).map(Prepared::quiet)
    }

    async fn apply(self: Rc<Self>, settings: RibSettings) -> Result<(), Self::Error> {
        self.driver.request(SetPolicies(settings.policies));
        self.set_rights(settings.rights);
        self.pass_on();
        Ok(())
    }
}
