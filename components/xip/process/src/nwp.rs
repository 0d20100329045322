//! Routes of the origin `nwp`: neighbors' HIDs, and the router's own HIDs with keys.

use sluice_base::{
    Address, Distance, Duration, Forwarding, NextHop, Prefix as _, Provenance, RouteAction, RouteBatch,
    RouteSet, RouteUpdate, Xid, XidPrefix,
};
use sluice_process::RibOrigin;
use sluice_xip::links::Station;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::time::Instant;

/// The name of the origin.
pub(crate) const ORIGIN: &str = "nwp";
/// The distance of neighbors: behind the operator's statements.
pub(crate) const DISTANCE: Distance = Distance(5);
/// The time for which the RIB keeps neighbors of a dead process until the next one registers.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
/// The time in which a new process learns its neighbors anew. Until then, the RIB keeps the neighbors of the process before.
///
/// A host of a link of two announces itself at every second tick of 5 s, by chance: of 12 ticks it misses all once in 4,096 times.
const LEARNING: std::time::Duration = std::time::Duration::from_secs(60);

/// The neighbors' routes.
pub(crate) struct NeighborRoutes {
    origin: Rc<RibOrigin>,
    stations: RefCell<BTreeMap<Xid, BTreeSet<Station>>>,
    /// The router's own HIDs. A neighbor's claim of an own HID changes nothing.
    own: RefCell<BTreeSet<Xid>>,
    /// The provenance of the last change.
    provenance: Cell<Provenance>,
    /// The end of the time in which neighbors are learned anew.
    learned: Instant,
}

impl NeighborRoutes {
    pub(crate) fn new(origin: Rc<RibOrigin>, provenance: Provenance) -> Self {
        NeighborRoutes {
            origin,
            stations: RefCell::default(),
            own: RefCell::default(),
            provenance: Cell::new(provenance),
            learned: Instant::now() + LEARNING,
        }
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
        if ways.is_empty() {
            stations.remove(&xid);
        }
        drop(stations);
        self.announce([xid]);
    }

    /// Announces the router's own HIDs, and withdraws the former ones.
    pub(crate) fn set_own(&self, own: BTreeSet<Xid>) {
        let before = self.own.replace(own);
        let changed: Vec<Xid> = before.symmetric_difference(&self.own.borrow()).copied().collect();
        self.announce(changed);
    }

    /// Announces all HIDs at a new registration. The RIB drops all other routes once the neighbors are learned.
    pub(crate) fn announce_all(&self) {
        let all: BTreeSet<Xid> =
            self.stations.borrow().keys().chain(self.own.borrow().iter()).copied().collect();
        self.announce(all);
        let (origin, learned) = (Rc::clone(&self.origin), self.learned);
        tokio::task::spawn_local(async move {
            // Without routes of a process before, there is nothing to keep, and others wait for all routes.
            if origin.kept().await.routes > 0 {
                tokio::time::sleep_until(learned).await;
            }
            origin.end_refresh();
        });
    }

    /// Announces or withdraws the routes of some HIDs.
    fn announce(&self, xids: impl IntoIterator<Item = Xid>) {
        let (stations, own) = (self.stations.borrow(), self.own.borrow());
        let provenance = self.next_provenance();
        let mut batch = RouteBatch::default();
        for xid in xids {
            let ways = || stations.get(&xid).and_then(|ways| Forwarding::many(ways.iter().map(next_hop)));
            let forwarding = if own.contains(&xid) { Some(Forwarding::Local) } else { ways() };
            let action = match forwarding {
                Some(forwarding) => {
                    batch.sets.push(RouteSet::plain(forwarding));
                    RouteAction::Set(batch.sets.len() as u32 - 1)
                }
                None => RouteAction::Delete,
            };
            batch.updates.push(RouteUpdate { prefix: XidPrefix::host(xid), action, provenance });
        }
        if !batch.updates.is_empty() {
            self.origin.send(&batch);
        }
    }
}

fn next_hop(station: &Station) -> NextHop<Address> {
    let gateway = Address::from(Xid::of_link_address(station.mac.0));
    NextHop::new(Some(gateway), Some(station.interface))
}
