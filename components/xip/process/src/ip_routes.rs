//! IPv4 routes of the RIB as routes of the principal LPM: a prefix is the beginning of an ID, and next hops are XIDs.
//!
//! The routes are announced to the RIB as those of an origin of their own, as all routes of XIDs: a route that the operator
//! configures for the same prefix wins, and `show routes --xid` has them. LPM has no form for IPv6 prefixes.

use sluice_base::{
    Address, Distance, Duration, Forwarding, Ipv4Prefix, NextHop, Prefix, Provenance, RouteAction,
    RouteBatch, RouteSet, RouteUpdate, Xid, XidPrefix, XidType,
};
use sluice_process::{
    Frame, RibOrigin, RibOriginSettings, RibSubscription, SubscribedChange, SubscribedRoute,
};
use sluice_xip::wire::udp;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::ops::Bound;
use std::rc::Rc;

/// The name of the origin.
pub(crate) const ORIGIN: &str = "lpm";
/// The distance: behind routes of XIDs that a protocol or the operator announces.
const DISTANCE: Distance = Distance(240);
/// The time for which the RIB keeps the routes of a dead process.
const GRACE: Duration = Duration::from_secs(60);
/// Routes of a batch.
const BATCH: usize = 4_096;

/// The IPv4 routes to take, and the XIDs of their next hops.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IpRouteSettings {
    /// The origins of the routes.
    pub origins: Vec<String>,
    /// Next hops with their HIDs.
    pub neighbors: BTreeMap<Ipv4Addr, Xid>,
    /// The UDP port of tunnels to all other next hops; `None`: routes through other next hops are left out.
    pub tunnel_port: Option<u16>,
}

impl IpRouteSettings {
    /// Returns the XID of a next hop; `None` for an unknown next hop.
    fn gateway(&self, address: Address) -> Option<Xid> {
        let IpAddr::V4(address) = IpAddr::try_from(address).ok()? else { return None };
        let neighbor = self.neighbors.get(&address).copied();
        neighbor.or_else(|| Some(udp::u4id(SocketAddrV4::new(address, self.tunnel_port?))))
    }

    /// Returns the route of an LPM prefix; `None` if no next hop has an XID.
    fn forwarding(&self, of_ip: &Forwarding<Address>) -> Option<Forwarding<Address>> {
        match of_ip {
            Forwarding::NextHops(hops) => {
                let hop = |hop: &NextHop<Address>| {
                    let gateway = self.gateway(hop.gateway?)?;
                    let weight = hop.weight;
                    Some(NextHop { weight, ..NextHop::new(Some(Address::from(gateway)), None) })
                };
                Forwarding::many(hops.iter().filter_map(hop))
            }
            Forwarding::Local | Forwarding::Discard | Forwarding::Reject => Some(of_ip.clone()),
        }
    }
}

/// Returns the prefix of LPM IDs that begin with an IPv4 prefix.
fn lpm(prefix: Ipv4Prefix) -> Option<XidPrefix> {
    let mut id = [0; 20];
    id.iter_mut().zip(prefix.addr().0.octets()).for_each(|(to, from)| *to = from);
    XidPrefix::of_type(XidType::LPM, id, prefix.len())
}

/// The IPv4 routes, and the routes of LPM prefixes made from the IPv4 routes.
pub(crate) struct IpRoutes {
    origin: Rc<RibOrigin>,
    subscription: Rc<RibSubscription<Ipv4Prefix>>,
    /// `None` before the first configuration.
    settings: RefCell<Option<IpRouteSettings>>,
    routes: RefCell<BTreeMap<Ipv4Prefix, Rc<SubscribedRoute>>>,
    /// Routes without a next hop that has an XID.
    left_out: RefCell<BTreeSet<Ipv4Prefix>>,
    /// True once the RIB has sent the routes that it had at the subscription.
    is_complete: Cell<bool>,
    /// The provenance of the last change.
    provenance: Cell<Provenance>,
}

impl IpRoutes {
    pub(crate) fn new(frame: &Frame) -> Self {
        let settings = RibOriginSettings::new(ORIGIN, frame.table, DISTANCE, GRACE);
        IpRoutes {
            origin: RibOrigin::new(&frame.router, settings),
            subscription: RibSubscription::new(&frame.router, frame.table),
            settings: RefCell::default(),
            routes: RefCell::default(),
            left_out: RefCell::default(),
            is_complete: Cell::new(false),
            provenance: Cell::new(frame.provenance),
        }
    }

    pub(crate) fn origin(&self) -> &Rc<RibOrigin> {
        &self.origin
    }

    pub(crate) fn subscription(&self) -> &Rc<RibSubscription<Ipv4Prefix>> {
        &self.subscription
    }

    /// Returns the number of routes without a next hop that has an XID.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out.borrow().len()
    }

    /// Sets the routes to take and their next hops; `None`: no routes.
    pub(crate) fn configure(self: &Rc<Self>, settings: Option<IpRouteSettings>) {
        let settings = settings.unwrap_or_default();
        if self.settings.borrow().as_ref() == Some(&settings) {
            return;
        }
        if self.settings.borrow().as_ref().is_none_or(|before| before.origins != settings.origins) {
            self.is_complete.set(false);
        }
        self.subscription.set_origins(settings.origins.clone());
        self.settings.replace(Some(settings));
        tokio::task::spawn_local(Rc::clone(self).announce_all());
    }

    /// Returns when the RIB has room for further changes. `is_complete`: the RIB has sent the routes that it had at the subscription.
    pub(crate) async fn received(&self, is_complete: bool) {
        self.origin.room().await;
        if is_complete && self.subscription.is_complete() {
            self.is_complete.set(true);
            self.finish();
        }
    }

    pub(crate) fn changed(&self, changes: Vec<SubscribedChange<Ipv4Prefix>>) {
        let mut prefixes = Vec::with_capacity(changes.len());
        let mut routes = self.routes.borrow_mut();
        for SubscribedChange { prefix, route } in changes {
            prefixes.push(prefix);
            match route {
                Some(route) => routes.insert(prefix, route),
                None => routes.remove(&prefix),
            };
        }
        drop(routes);
        self.send(&prefixes);
    }

    /// Announces all routes, to a new RIB or with other next hops.
    pub(crate) async fn announce_all(self: Rc<Self>) {
        let mut after = Bound::Unbounded;
        loop {
            let prefixes: Vec<Ipv4Prefix> = {
                let routes = self.routes.borrow();
                routes.range((after, Bound::Unbounded)).take(BATCH).map(|(prefix, _)| *prefix).collect()
            };
            let Some(last) = prefixes.last() else { break };
            after = Bound::Excluded(*last);
            self.send(&prefixes);
            self.origin.room().await;
        }
        self.finish();
    }

    /// Lets the RIB sweep routes of an earlier process, once all routes have been announced.
    fn finish(&self) {
        let settings = self.settings.borrow();
        if settings.as_ref().is_some_and(|settings| settings.origins.is_empty() || self.is_complete.get()) {
            self.origin.end_refresh();
        }
    }

    /// Announces or withdraws the routes of IPv4 prefixes.
    fn send(&self, prefixes: &[Ipv4Prefix]) {
        let (settings, routes) = (self.settings.borrow(), self.routes.borrow());
        let Some(settings) = settings.as_ref() else { return };
        let mut left_out = self.left_out.borrow_mut();
        let mut batch = RouteBatch::<XidPrefix>::default();
        self.provenance.set(self.provenance.get().next());
        for prefix in prefixes {
            let route = routes.get(prefix);
            let forwarding = route.and_then(|route| settings.forwarding(&route.set.forwarding));
            if route.is_some() && forwarding.is_none() {
                left_out.insert(*prefix);
            } else {
                left_out.remove(prefix);
            }
            let action = match forwarding.map(RouteSet::plain) {
                None => RouteAction::Delete,
                Some(set) => {
                    // Neighboring prefixes mostly have the same next hops.
                    if batch.sets.last() != Some(&set) {
                        batch.sets.push(set);
                    }
                    RouteAction::Set(batch.sets.len() as u32 - 1)
                }
            };
            // Every IPv4 prefix has at most 32 bits, fewer than an ID.
            if let Some(prefix) = lpm(*prefix) {
                batch.updates.push(RouteUpdate { prefix, action, provenance: self.provenance.get() });
            }
        }
        if !batch.updates.is_empty() {
            self.origin.send(&batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HID: &str = "hid-1111111111111111111111111111111111111111";

    fn through(gateways: &[&str]) -> Forwarding<Address> {
        let hop = |text: &&str| {
            let address: IpAddr = text.parse().expect("an address");
            NextHop::via(Address::from(address))
        };
        Forwarding::many(gateways.iter().map(hop)).expect("next hops")
    }

    fn names(forwarding: Option<Forwarding<Address>>) -> Vec<String> {
        let Some(Forwarding::NextHops(hops)) = forwarding else { return Vec::new() };
        let names = hops.iter().filter_map(|hop| Some(Xid::try_from(hop.gateway?).ok()?.to_string()));
        names.collect()
    }

    #[test]
    fn a_prefix_is_the_beginning_of_an_id() {
        let text = |prefix: &str| lpm(prefix.parse().expect("a prefix")).expect("short").to_string();
        assert_eq!(text("10.1.0.0/16"), "lpm-0a01000000000000000000000000000000000000/16");
        assert_eq!(text("0.0.0.0/0"), format!("lpm-{}/0", "0".repeat(40)));
        assert!(text("192.0.2.1/32").starts_with("lpm-c0000201"));
    }

    #[test]
    fn next_hops_are_listed_neighbors_or_tunnels_or_left_out() {
        let neighbors = [("10.0.0.2".parse().expect("an address"), HID.parse().expect("an XID"))].into();
        let mut settings = IpRouteSettings { neighbors, ..IpRouteSettings::default() };
        assert_eq!(names(settings.forwarding(&through(&["10.0.0.2", "10.0.0.3"]))), [HID]);
        assert_eq!(settings.forwarding(&through(&["10.0.0.3"])), None);
        assert_eq!(settings.forwarding(&through(&["2001:db8::1"])), None);
        settings.tunnel_port = Some(13781);
        let both = names(settings.forwarding(&through(&["10.0.0.2", "10.0.0.3"])));
        let tunnel = "u4id-0a00000335d50000000000000000000000000000".to_owned();
        assert!(both.len() == 2 && both.contains(&HID.to_owned()) && both.contains(&tunnel), "{both:?}");
        assert_eq!(settings.forwarding(&Forwarding::Discard), Some(Forwarding::Discard));
    }
}
