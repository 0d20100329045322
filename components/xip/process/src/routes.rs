//! The RIB's routes as the core takes them, and reports to the RIB about routes that no principal takes.

use crate::XipProcess;
use sluice_base::{Address, AnyPrefix, FamilyId, Forwarding, Xid, XidPrefix};
use sluice_process::SubscribedChange;
use sluice_xip::io::{Gateway, Input, RibRoute};
use sluice_xrl::idl::rib::v1 as rib;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::debug;

/// The time for which reports are gathered.
const GATHER: Duration = Duration::from_millis(20);
/// The most routes of a report.
const REPORT: usize = 1_000;

/// Routes whose refusal began (with the reason) or ended, and is not reported yet. Bounded by the routes that the RIB sends.
#[derive(Default)]
pub(crate) struct Refusals {
    waiting: RefCell<BTreeMap<XidPrefix, Option<String>>>,
    changed: Notify,
}

impl Refusals {
    /// Notes the begin or the end of a route's refusal.
    pub(crate) fn note(&self, prefix: XidPrefix, reason: Option<String>) {
        self.waiting.borrow_mut().insert(prefix, reason);
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<(XidPrefix, Option<String>)> {
        let mut waiting = self.waiting.borrow_mut();
        (0..REPORT).map_while(|_| waiting.pop_first()).collect()
    }
}

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

    /// Reports all refused routes: a RIB that has sent all routes knows of no refusal.
    pub(crate) fn report_all_refusals(&self) {
        self.driver.read(|xip| {
            let refused = xip.routes().filter_map(|(prefix, _, problem)| Some((prefix, problem?)));
            refused.for_each(|(prefix, problem)| self.refusals.note(prefix, Some(problem.to_string())));
        });
    }

    /// Reports to the RIB which routes no principal takes. For ever.
    pub(crate) async fn report_refusals(self: Rc<Self>) {
        loop {
            self.refusals.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            loop {
                let changes = self.refusals.take();
                if changes.is_empty() {
                    break;
                }
                let (mut routes, mut accepted) = (Vec::new(), Vec::new());
                for (prefix, reason) in changes {
                    let net = AnyPrefix::of(prefix).into();
                    match reason {
                        Some(reason) => {
                            routes.push(rib::RejectedRoute { net: Some(net), provenance: 0, reason });
                        }
                        None => accepted.push(net),
                    }
                }
                if let Err(error) = self.subscription.reject(FamilyId::XID, routes, accepted).await {
                    // The next subscription begins with a report on all routes.
                    debug!(%error, "refused routes are not reported");
                }
            }
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
