//! Redistribution into BGP: passes the RIB's routes of the configured origins to control.

use crate::{BgpProcess, Served};
use sluice_base::{Address, AnyPrefix, NextHop};
use sluice_bgp::speaker::control::Input;
use sluice_bgp::speaker::{Redistributed, RedistributedRoute, Settings};
use sluice_clients::InterfaceTable;
use sluice_process::{SubscribedChange, SubscribedRoute};
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::{CallContext, XrlError};

impl BgpProcess {
    /// Subscribes to exactly the configured origins.
    pub(crate) fn set_redistribution(&self, settings: &Settings) {
        let origins = settings.redistribute.iter().map(|entry| entry.origin.clone());
        self.redistribution.set_origins(origins.collect());
    }

    /// Gives control the changes of redistributed routes.
    pub(crate) fn redistribute(&self, changes: Vec<SubscribedChange<AnyPrefix>>) {
        if changes.is_empty() {
            return;
        }
        let interfaces = self.interfaces.borrow();
        let change = |change: SubscribedChange<AnyPrefix>| Redistributed {
            prefix: change.prefix,
            route: change.route.map(|route| redistributed(&route, &interfaces)),
        };
        let changes = changes.into_iter().map(change).collect();
        drop(interfaces);
        self.input(Input::Redistributed(changes));
    }
}

/// Returns a route of the RIB in control's form.
fn redistributed(route: &SubscribedRoute, interfaces: &InterfaceTable) -> RedistributedRoute {
    let hop: Option<&NextHop<Address>> = route.set.forwarding.next_hops().first();
    let interface = hop.and_then(|hop| interfaces.get(hop.interface?));
    RedistributedRoute {
        origin: route.origin.clone(),
        kind: route.kind.clone(),
        metric: route.set.metric,
        distance: route.distance,
        tags: route.set.tags.clone(),
        interface: interface.map(|interface| interface.name.clone()),
        next_hop: hop.and_then(|hop| hop.gateway?.ip()),
    }
}

impl rib::RouteSubscriber for Served {
    async fn subscribed_routes(
        &self,
        _ctx: &CallContext,
        request: rib::SubscribedRoutesRequest,
    ) -> Result<rib::SubscribedRoutesReply, XrlError> {
        self.handover.awake().await;
        let changes = self.redistribution.receive(&request).await?;
        self.redistribute(changes);
        Ok(rib::SubscribedRoutesReply {})
    }
}
