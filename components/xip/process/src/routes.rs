//! The RIB's routes as the core takes them.

use crate::XipProcess;
use sluice_base::{Address, Forwarding, Xid, XidPrefix};
use sluice_process::SubscribedChange;
use sluice_xip::io::{Gateway, Input, RibRoute};

impl XipProcess {
    /// Hands changes of the RIB to the core.
    pub(crate) fn routes_changed(&self, changes: Vec<SubscribedChange<XidPrefix>>) {
        let changes = changes.into_iter().map(|change| {
            let route = change.route.map(|route| of_forwarding(&route.set.forwarding));
            (change.prefix, route)
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            self.input(Input::Routes(changes));
        }
    }
}

fn of_forwarding(forwarding: &Forwarding<Address>) -> RibRoute {
    match forwarding {
        Forwarding::Local => RibRoute::Local,
        Forwarding::Discard | Forwarding::Reject => RibRoute::Discard,
        Forwarding::NextHops(hops) => {
            let gateway = |hop: &sluice_base::NextHop<Address>| {
                let xid = Xid::try_from(hop.gateway?).ok()?;
                Some(Gateway { xid, interface: hop.interface, weight: hop.weight.into() })
            };
            RibRoute::Gateways(hops.iter().filter_map(gateway).collect())
        }
    }
}
