//! Neighbors' HIDs as routes of the origin `nwp`.

use crate::Served;
use sluice_base::{
    Address, Distance, Duration, Forwarding, NextHop, Provenance, RouteAction, RouteBatch, RouteSet,
    RouteUpdate, Xid, XidPrefix,
};
use sluice_process::RibOrigin;
use sluice_xip::links::Station;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The name of the origin.
pub(crate) const ORIGIN: &str = "nwp";
/// The distance of neighbors: behind what the operator says.
pub(crate) const DISTANCE: Distance = Distance(5);
/// The time for which the RIB keeps neighbors of a dead process: two announcements of each neighbor.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// The neighbors' routes.
pub(crate) struct NeighborRoutes {
    origin: Rc<RibOrigin>,
    stations: RefCell<BTreeMap<Xid, BTreeSet<Station>>>,
    /// The provenance of the last change.
    provenance: Cell<Provenance>,
}

impl NeighborRoutes {
    pub(crate) fn new(origin: Rc<RibOrigin>, provenance: Provenance) -> Self {
        NeighborRoutes { origin, stations: RefCell::default(), provenance: Cell::new(provenance) }
    }

    fn next_provenance(&self) -> Provenance {
        self.provenance.set(self.provenance.get().next());
        self.provenance.get()
    }

    pub(crate) fn origin(&self) -> &Rc<RibOrigin> {
        &self.origin
    }

    /// Announces or withdraws a way to a host.
    pub(crate) fn changed(&self, xid: Xid, station: Station, is_learned: bool) {
        let mut stations = self.stations.borrow_mut();
        let ways = stations.entry(xid).or_default();
        if is_learned {
            ways.insert(station);
        } else {
            ways.remove(&station);
        }
        let batch = batch(self.next_provenance(), [(xid, &*ways)]);
        if ways.is_empty() {
            stations.remove(&xid);
        }
        drop(stations);
        self.origin.send(&batch);
    }

    /// Announces all neighbors to a new RIB.
    pub(crate) fn announce_all(&self) {
        let stations = self.stations.borrow();
        let routes = stations.iter().map(|(xid, ways)| (*xid, ways));
        self.origin.send(&batch(self.next_provenance(), routes));
        self.origin.end_refresh();
    }
}

fn batch<'a>(
    provenance: Provenance,
    routes: impl IntoIterator<Item = (Xid, &'a BTreeSet<Station>)>,
) -> RouteBatch<XidPrefix> {
    let mut batch = RouteBatch::default();
    for (xid, ways) in routes {
        let hop = |station: &Station| {
            let gateway = Address::from(Xid::of_link_address(station.mac.0));
            NextHop::new(Some(gateway), Some(station.interface))
        };
        let action = match Forwarding::many(ways.iter().map(hop)) {
            Some(forwarding) => {
                batch.sets.push(RouteSet::plain(forwarding));
                RouteAction::Set(batch.sets.len() as u32 - 1)
            }
            None => RouteAction::Delete,
        };
        let prefix = sluice_base::Prefix::host(xid);
        batch.updates.push(RouteUpdate { prefix, action, provenance });
    }
    batch
}

impl rib::OriginOwner for Served {
    /// Reports refused routes of neighbors. Refused routes of LPM prefixes are refused here: `show xip routes` has them.
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: rib::RoutesRejectedRequest,
    ) -> Result<rib::RoutesRejectedReply, XrlError> {
        let is_of_neighbors = request.origin == ORIGIN;
        for route in request.routes.into_iter().filter(|_| is_of_neighbors) {
            tracing::warn!(
                event = "xip.neighbor.refused",
                reason = route.reason,
                "a neighbor's route is refused"
            );
        }
        Ok(rib::RoutesRejectedReply {})
    }
}
