//! The process of any protocol that announces routes and watches interfaces, and has no neighbors of its own.

use super::messages::{FromFea, ToRib};
use super::process::Process;
use super::{Base, Configuration, OriginClient};
use crate::fabric::ipc::{Instance, Life, Message, word};
use crate::world::Fabric;
use sluice_base::InterfaceEvent;
use sluice_machine::{Machine, Outbox};
use sluice_rib::OriginSettings;

/// A protocol whose core takes a configuration and interfaces, and puts out routes.
pub trait Announcer: 'static {
    /// The protocol's core.
    type Core: Machine + Send;

    /// Returns a core and its origin's settings.
    fn new() -> (Self::Core, OriginSettings);
    /// Returns the input for the router's configuration.
    fn configure(configuration: &Configuration) -> <Self::Core as Machine>::Input;
    /// Returns the input for a change of an interface.
    fn interface(event: InterfaceEvent) -> <Self::Core as Machine>::Input;
    /// Returns the input upon which the core announces everything.
    fn rib_restarted() -> <Self::Core as Machine>::Input;
    /// Returns the routes in an output.
    fn routes(fabric: &Fabric, output: <Self::Core as Machine>::Output) -> ToRib;
}

struct AnnouncerProcess<A: Announcer> {
    core: A::Core,
    origin: OriginClient,
    is_snapshot_complete: bool,
}

/// Starts the process of an announcer.
pub fn start<A: Announcer>(
    base: &mut Base,
    fabric: &mut Fabric,
    configuration: &Configuration,
) -> Box<dyn Process> {
    let (core, settings) = A::new();
    let origin = OriginClient::new(settings);
    let mut process = AnnouncerProcess::<A> { core, origin, is_snapshot_complete: false };
    process.configure(base, fabric, configuration);
    Box::new(process)
}

impl<A: Announcer> AnnouncerProcess<A> {
    fn input(&mut self, base: &Base, fabric: &mut Fabric, input: <A::Core as Machine>::Input) {
        let mut out = Outbox::new();
        self.core.handle(base.now(fabric), input, &mut out);
        for output in out.drain() {
            let routes = A::routes(fabric, output);
            self.origin.send(base, fabric, routes);
        }
    }
}

impl<A: Announcer> Process for AnnouncerProcess<A> {
    fn configure(&mut self, base: &mut Base, fabric: &mut Fabric, configuration: &Configuration) {
        self.input(base, fabric, A::configure(configuration));
    }

    fn life(&mut self, base: &mut Base, fabric: &mut Fabric, life: Life) {
        self.origin.life(base, fabric, life);
        base.subscribe_to_interfaces(fabric, life);
    }

    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, _from: Instance, message: Box<dyn Message>) {
        match word(message) {
            Ok(reply) if self.origin.reply(&reply) => self.input(base, fabric, A::rib_restarted()),
            Ok(_) => {}
            Err(message) => {
                let Ok(FromFea::Interfaces(events)) = word(message) else { return };
                for event in events {
                    self.is_snapshot_complete |= event == InterfaceEvent::SnapshotEnd;
                    self.input(base, fabric, A::interface(event));
                }
            }
        }
        self.origin.end_refresh(base, fabric, self.is_snapshot_complete);
    }
}
