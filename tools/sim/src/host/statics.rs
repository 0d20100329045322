//! The process of static routes, with a part of an IGP: a route's cost is the cost of its link.

use super::Configuration;
use super::announcer::{Announcer, start};
use super::messages::ToRib;
use super::process::Class;
use crate::network;
use crate::world::Fabric;
use sluice_base::{Distance, InterfaceEvent, Metric, RouteBatch};
use sluice_rib::OriginSettings;
use sluice_static::route::StaticRoute;
use sluice_static::{GRACE, Input, Output, Static};

pub(super) const CLASS: Class =
    Class { name: "static", start: start::<Statics>, is_in_light_worlds: false, has_connections: false };

struct Statics;

impl Announcer for Statics {
    type Core = Static;

    fn new() -> (Static, OriginSettings) {
        let (name, distance) = (CLASS.name.into(), Distance::STATIC);
        (Static::new(3), OriginSettings { name, distance, external: false, grace: GRACE, kinds: Vec::new() })
    }

    fn configure(configuration: &Configuration) -> Input {
        Input::Configure(configuration.get::<Vec<StaticRoute>>().cloned().unwrap_or_default())
    }

    fn interface(event: InterfaceEvent) -> Input {
        Input::Interface(event)
    }

    fn rib_restarted() -> Input {
        Input::RibRestarted
    }

    fn routes(fabric: &Fabric, output: Output) -> ToRib {
        match output {
            Output::V4(batch) => ToRib::UpdateIpv4(with_costs(fabric, batch)),
            Output::V6(batch) => ToRib::UpdateIpv6(with_costs(fabric, batch)),
            Output::Xid(batch) => ToRib::UpdateXids(batch),
        }
    }
}

/// Sets the costs of routes by the links of their gateways.
fn with_costs<P>(fabric: &Fabric, mut batch: RouteBatch<P>) -> RouteBatch<P> {
    for set in &mut batch.sets {
        let gateway = set.forwarding.next_hops().first().and_then(|hop| hop.gateway?.ip());
        let link = gateway.and_then(network::place).map(|(link, _)| link as usize);
        set.metric = Metric(link.map_or(0, |link| fabric.links[link].cost));
    }
    batch
}
