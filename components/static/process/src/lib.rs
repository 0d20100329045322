//! Static routes: the process.

pub mod config;

use sluice_base::Distance;
use sluice_process::part::Planned;
use sluice_process::{
    Component, Driver, EffectKind, Frame, Prepared, RibChange, RibOrigin, RibOriginSettings, RunOptions,
    Tasks, follow_fea,
};
use sluice_static::{GRACE, Input, Output, Static};
use sluice_xrl::idl::fea::v1::{self as fea, interface_observer_service};
use sluice_xrl::idl::rib::v1::{self as rib, origin_owner_service};
use sluice_xrl::{CallContext, Service, XrlError};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use tracing::warn;

/// The process of static routes.
pub struct StaticProcess {
    frame: Frame,
    driver: Driver<Static>,
    origin: Rc<RibOrigin>,
    configured: Cell<bool>,
    interfaces_known: Cell<bool>,
    /// The tasks that run while the process is registered.
    tasks: Tasks,
}

sluice_process::served!(StaticProcess);

/// Runs static routes until told to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let settings = RibOriginSettings {
            name: StaticProcess::CLASS.into(),
            table: frame.table,
            distance: Distance::STATIC,
            external: false,
            grace: GRACE,
            kinds: Vec::new(),
        };
        let origin = RibOrigin::new(&frame.router, settings);
        Ok(Rc::new_cyclic(|me: &Weak<StaticProcess>| {
            let me = me.clone();
            let effect = move |output| {
                if let Some(me) = me.upgrade() {
                    match output {
                        Output::V4(batch) => me.origin.send(&batch),
                        Output::V6(batch) => me.origin.send(&batch),
                        Output::Xid(batch) => me.origin.send(&batch),
                    }
                }
            };
            let machine = Static::new(frame.provenance.source());
            StaticProcess {
                driver: Driver::new(machine, effect),
                frame,
                origin,
                tasks: Tasks::default(),
                configured: Cell::new(false),
                interfaces_known: Cell::new(false),
            }
        }))
    })
}

impl StaticProcess {
    /// Once configuration and interfaces are known, announces the end of the refresh.
    fn announce_end(self: &Rc<Self>) {
        if self.configured.get() && self.interfaces_known.get() {
            self.origin.end_refresh();
        }
    }
}

impl Component for StaticProcess {
    const CLASS: &'static str = "static";

    type Settings = Input;

    type Error = config::ConfigError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            interface_observer_service(Rc::new(Served(Rc::clone(self)))),
            origin_owner_service(Rc::new(Served(Rc::clone(self)))),
        ]
    }

    async fn registered(self: Rc<Self>, instance: String) {
        let me = Rc::clone(&self);
        let changed = move |change| {
            if change == RibChange::Registered {
                me.driver.input(Input::RibRestarted);
                me.announce_end();
            }
        };
        let (origin, router) = (Rc::clone(&self.origin), self.frame.router.clone());
        let tasks = [
            tokio::task::spawn_local(origin.keep_registered(router, instance.clone(), changed)),
            tokio::task::spawn_local(follow_fea(self.frame.router.clone(), instance, async |_| {})),
        ];
        self.tasks.replace(tasks);
    }

    fn degraded(&self) -> Vec<String> {
        self.origin.problem().into_iter().collect()
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Input>, Self::Error> {
        let input = config::input(planned.change)?;
        // The first configuration is the stored one: what became of interfaces meanwhile is no remark on a change.
        let remarks = match self.configured.get() {
            true => self.driver.read(|machine| machine.remarks(&input)),
            false => Vec::new(),
        };
        Ok(Prepared::touching(input, vec![(EffectKind::Noted, remarks)]))
    }

    async fn apply(self: Rc<Self>, input: Input) -> Result<(), Self::Error> {
        self.driver.input(input);
        self.configured.set(true);
        self.announce_end();
        Ok(())
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        if for_good {
            self.origin.unregister().await;
        }
    }
}

impl fea::InterfaceObserver for Served {
    async fn interface_changed(
        &self,
        _ctx: &CallContext,
        request: fea::InterfaceChangedRequest,
    ) -> Result<fea::InterfaceChangedReply, XrlError> {
        for event in request.events {
            let event = sluice_base::InterfaceEvent::try_from(&event)
                .map_err(|e| XrlError::BadArguments(format!("events: {e}")))?;
            let is_end = event == sluice_base::InterfaceEvent::SnapshotEnd;
            self.driver.input(Input::Interface(event));
            if is_end {
                self.interfaces_known.set(true);
                self.announce_end();
            }
        }
        Ok(fea::InterfaceChangedReply {})
    }
}

impl rib::OriginOwner for Served {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: rib::RoutesRejectedRequest,
    ) -> Result<rib::RoutesRejectedReply, XrlError> {
        for route in request.routes {
            if let Some(Ok(prefix)) = route.net.as_ref().map(sluice_base::AnyPrefix::try_from) {
                warn!(event = "static.route.refused", %prefix, reason = route.reason, "static route refused by whoever forwards it");
            }
        }
        Ok(rib::RoutesRejectedReply {})
    }
}
