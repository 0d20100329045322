//! The process of static routes, which has a part of an IGP: what its routes cost is the cost of their links.

use super::Base;
use super::ipc::{Message, Process};
use crate::network;
use crate::world::Fabric;
use sluice_base::{Distance, Duration, InterfaceEvent, Metric, RouteSet};
use sluice_machine::{Machine, Outbox};
use sluice_rib::OriginSettings;
use sluice_static::route::StaticRoute;
use sluice_static::{Input, Output, Static};

/// How long static routes outlive their process.
const GRACE: Duration = Duration::from_secs(60);

/// The process.
pub struct StaticProcess {
    core: Static,
    registered: bool,
    interfaces_known: bool,
}

/// What a route costs by the link of its gateway.
fn cost(fabric: &Fabric, set: &RouteSet) -> Metric {
    let gateway = set.forwarding.next_hops().first().and_then(|hop| hop.gateway);
    let link = gateway.and_then(network::place).map(|(link, _)| link as usize);
    Metric(link.map_or(0, |link| fabric.links[link].cost))
}

impl StaticProcess {
    /// The process as it starts, before it is configured.
    pub fn new(_base: &Base) -> Self {
        StaticProcess { core: Static::new(3), registered: false, interfaces_known: false }
    }

    /// Takes a configuration.
    pub fn configure(&mut self, base: &Base, fabric: &mut Fabric, routes: Vec<StaticRoute>) {
        self.input(base, fabric, Input::Configure(routes));
    }

    fn input(&mut self, base: &Base, fabric: &mut Fabric, input: Input) {
        let mut out = Outbox::new();
        self.core.handle(base.now(fabric), input, &mut out);
        for output in out.drain() {
            // A RIB that does not know the origin is told everything when it does.
            if self.registered {
                let message = match output {
                    Output::V4(mut batch) => {
                        batch.sets.iter_mut().for_each(|set| set.metric = cost(fabric, set));
                        Message::RoutesIpv4(Process::Static, batch)
                    }
                    Output::V6(mut batch) => {
                        batch.sets.iter_mut().for_each(|set| set.metric = cost(fabric, set));
                        Message::RoutesIpv6(Process::Static, batch)
                    }
                };
                base.tell(fabric, Process::Rib, message);
            }
        }
    }

    fn announce_end(&self, base: &Base, fabric: &mut Fabric) {
        if self.registered && self.interfaces_known {
            base.tell(fabric, Process::Rib, Message::EndOfRefresh(Process::Static));
        }
    }

    /// A message of another process.
    pub fn message(&mut self, base: &Base, fabric: &mut Fabric, message: Message) {
        let life = base.life(Process::Static);
        match message {
            Message::Born(Process::Rib, _) => {
                let settings = OriginSettings {
                    name: Process::Static.name().into(),
                    distance: Distance::STATIC,
                    external: false,
                    grace: GRACE,
                };
                base.tell(fabric, Process::Rib, Message::RegisterOrigin(Process::Static, life, settings));
            }
            Message::Died(Process::Rib, _) => self.registered = false,
            Message::Registered => {
                self.registered = true;
                self.input(base, fabric, Input::RibRestarted);
                self.announce_end(base, fabric);
            }
            Message::Born(Process::Fea, _) => {
                base.tell(fabric, Process::Fea, Message::Subscribe(Process::Static, life));
            }
            Message::Interfaces(events) => {
                for event in events {
                    let is_end = event == InterfaceEvent::SnapshotEnd;
                    self.input(base, fabric, Input::Interface(event));
                    if is_end {
                        self.interfaces_known = true;
                        self.announce_end(base, fabric);
                    }
                }
            }
            _ => {}
        }
    }
}
