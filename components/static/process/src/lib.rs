//! Static routes: the process.

pub mod config;

use sluice_base::{AnyPrefix, Distance, InterfaceEvent};
use sluice_process::part::Planned;
use sluice_process::{
    Driver, EffectKind, Prepared, Protocol, ProtocolFrame, RibOrigin, RibOriginSettings, RunOptions,
};
use sluice_static::{GRACE, Input, Output, Static};
use sluice_xrl::idl::rib::v1 as rib;
use std::rc::Rc;
use tracing::warn;

/// The process of static routes.
pub struct StaticProcess {
    protocol: ProtocolFrame,
    driver: Driver<Static>,
}

/// Runs static routes until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let settings = RibOriginSettings::new(StaticProcess::CLASS, frame.table, Distance::STATIC, GRACE);
        let origin = RibOrigin::new(&frame.router, settings);
        let machine = Static::new(frame.provenance.source());
        let protocol = ProtocolFrame::new(frame).with_interfaces().with_origin(&origin);
        let carry_out = move |output| match output {
            Output::V4(batch) => origin.send(&batch),
            Output::V6(batch) => origin.send(&batch),
            Output::Xid(batch) => origin.send(&batch),
        };
        Ok(Rc::new(StaticProcess { protocol, driver: Driver::new(machine, carry_out) }))
    })
}

impl Protocol for StaticProcess {
    const CLASS: &'static str = "static";

    type Settings = Input;

    type Error = config::ConfigError;

    fn protocol(&self) -> &ProtocolFrame {
        &self.protocol
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Input>, Self::Error> {
        let input = config::input(planned.change)?;
        // The first configuration is the stored one: what became of interfaces meanwhile is no remark on a change.
        let remarks = match self.protocol.is_configured() {
            true => self.driver.read(|machine| machine.remarks(&input)),
            false => Vec::new(),
        };
        Ok(Prepared::touching(input, vec![(EffectKind::Noted, remarks)]))
    }

    async fn configure(self: &Rc<Self>, input: Input) -> Result<(), Self::Error> {
        self.driver.input(input);
        Ok(())
    }

    fn interfaces_changed(self: &Rc<Self>, events: Vec<InterfaceEvent>) {
        events.into_iter().for_each(|event| self.driver.input(Input::Interface(event)));
    }

    fn announce_all(self: &Rc<Self>, _: &RibOrigin) {
        self.driver.input(Input::RibRestarted);
    }

    fn routes_rejected(self: &Rc<Self>, request: rib::RoutesRejectedRequest) {
        for route in request.routes {
            if let Some(Ok(prefix)) = route.net.as_ref().map(AnyPrefix::try_from) {
                warn!(event = "static.route.refused", %prefix, reason = route.reason, "static route refused by whoever forwards it");
            }
        }
    }
}
