//! Next hops that no route can have, which are refused, and next hops that nothing resolves at present, which are remarked.
//!
//! Interfaces and routes of other protocols come and go after a commit. A route that depends on interfaces or on other routes is
//! therefore never refused.

use crate::machine::{Input, Static};
use crate::route::{RouteKind, StaticNextHop, StaticRoute};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{Address, AnyPrefix, Interface, IpPrefix, Prefix, Xid, XidPrefix};

/// An impossible next hop of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextHopError {
    /// The route's gateway is exactly the route's destination: no more specific route can exist.
    Itself(AnyPrefix, Address),
    /// A link-local gateway without an interface.
    NoInterface(AnyPrefix, Address),
}

impl fmt::Display for NextHopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NextHopError::Itself(prefix, gateway @ Address::Identifier(_)) => {
                write!(f, "xid-route {prefix} gateway {gateway}: expected another XID than that of the route")
            }
            NextHopError::Itself(prefix, gateway) => write!(
                f,
                "route {prefix} next-hop {gateway}: expected a gateway outside of the route, or its `interface`: the route leads to its own gateway"
            ),
            NextHopError::NoInterface(prefix, gateway) => {
                write!(
                    f,
                    "route {prefix} next-hop {gateway}: expected its `interface`, as for each link-local address"
                )
            }
        }
    }
}

impl core::error::Error for NextHopError {}

impl StaticRoute {
    /// Checks the next hops.
    ///
    /// # Errors
    /// A next hop is impossible.
    pub fn check(&self) -> Result<(), NextHopError> {
        let RouteKind::NextHops(hops) = &self.kind else { return Ok(()) };
        for gateway in hops.iter().filter(|hop| hop.interface.is_none()).filter_map(|hop| hop.gateway) {
            if Some(self.prefix) == host(gateway) {
                return Err(NextHopError::Itself(self.prefix, gateway));
            }
            if matches!(gateway, Address::Ip(IpAddr::V6(v6)) if v6.is_unicast_link_local()) {
                return Err(NextHopError::NoInterface(self.prefix, gateway));
            }
        }
        Ok(())
    }
}

/// Returns the prefix of one address; `None` for an identifier of a family without routes.
fn host(address: Address) -> Option<AnyPrefix> {
    match address {
        Address::Ip(ip) => within(ip, if ip.is_ipv4() { 32 } else { 128 }),
        Address::Identifier(_) => Some(AnyPrefix::of(XidPrefix::host(Xid::try_from(address).ok()?))),
    }
}

/// Returns the prefix of this length around an address; `None` if the length is more than the family's.
fn within(address: IpAddr, len: u8) -> Option<AnyPrefix> {
    IpPrefix::new(address, len).map(AnyPrefix::from)
}

/// A next hop that is unusable at present.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Remark {
    /// The router has no interface of this name.
    NoInterface(String),
    /// The gateway is an address of this router.
    Own(IpAddr),
    /// The only route to the gateway is the route with the next hop.
    Itself(IpAddr),
    /// No route leads to the gateway.
    Unresolved(IpAddr),
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::NoInterface(name) => write!(f, "the router has no interface `{name}` at present"),
            Remark::Own(gateway) => write!(f, "next-hop {gateway} is this router's own address"),
            Remark::Itself(gateway) => write!(
                f,
                "next-hop {gateway} is inside the route itself: no connected subnet and no other static route is nearer to it at present"
            ),
            Remark::Unresolved(gateway) => write!(
                f,
                "next-hop {gateway} is on no connected subnet and in no other static route at present: only a route of another protocol can lead to it"
            ),
        }
    }
}

impl Static {
    /// Returns remarks on the next hops of a change that are unusable at present; none without known interfaces.
    pub fn remarks(&self, change: &Input) -> Vec<String> {
        if self.interfaces().iter().next().is_none() {
            return Vec::new();
        }
        let planned = self.planned(change);
        let mut all: BTreeMap<Remark, (AnyPrefix, usize)> = BTreeMap::new();
        for (prefix, route) in planned.changed() {
            let RouteKind::NextHops(hops) = &route.kind else { continue };
            for remark in hops.iter().filter_map(|hop| self.remark(&planned, prefix, hop)) {
                all.entry(remark).and_modify(|(_, others)| *others += 1).or_insert((prefix, 0));
            }
        }
        let text = |(remark, (first, others)): (Remark, (AnyPrefix, usize))| {
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            let list = if first.ip().is_some() { "route" } else { "xid-route" };
            format!("{list} {first}{others}: {remark}")
        };
        all.into_iter().map(text).collect()
    }

    /// Returns the routes after a change.
    fn planned<'a>(&'a self, change: &'a Input) -> Planned<'a> {
        match change {
            Input::Configure(routes) => {
                Planned { stays: None, changes: routes.iter().map(|r| (r.prefix, Some(r))).collect() }
            }
            Input::Change(changes) => Planned {
                stays: Some(self.configured()),
                changes: changes.iter().map(|(prefix, route)| (*prefix, route.as_ref())).collect(),
            },
            Input::Interface(_) | Input::RibRestarted => {
                Planned { stays: Some(self.configured()), changes: BTreeMap::new() }
            }
        }
    }

    fn remark(&self, planned: &Planned<'_>, prefix: AnyPrefix, hop: &StaticNextHop) -> Option<Remark> {
        if let Some(name) = &hop.interface {
            let is_known = self.interfaces().iter().any(|interface| interface.name == *name);
            return (!is_known).then(|| Remark::NoInterface(name.clone()));
        }
        let Some(Address::Ip(gateway)) = hop.gateway else { return None };
        let addresses = || self.interfaces().iter().flat_map(|interface: &Interface| &interface.addresses);
        if addresses().any(|address| address.addr == gateway) {
            return Some(Remark::Own(gateway));
        }
        let is_connected = addresses().any(|address| {
            let subnet = address.peer.unwrap_or(address.addr);
            subnet.is_ipv4() == gateway.is_ipv4()
                && within(subnet, address.prefix_len) == within(gateway, address.prefix_len)
        });
        if is_connected {
            return None;
        }
        let width: u8 = if gateway.is_ipv4() { 32 } else { 128 };
        // The longest matching prefix forwards packets to the gateway.
        let nearest =
            (0..=width).rev().filter_map(|len| within(gateway, len)).find(|around| planned.has(*around));
        match nearest {
            Some(nearest) if nearest == prefix => Some(Remark::Itself(gateway)),
            Some(_) => None,
            None => Some(Remark::Unresolved(gateway)),
        }
    }
}

/// The routes after a change.
struct Planned<'a> {
    /// The routes before the change; `None` if the change replaces all routes.
    stays: Option<&'a BTreeMap<AnyPrefix, StaticRoute>>,
    changes: BTreeMap<AnyPrefix, Option<&'a StaticRoute>>,
}

impl<'a> Planned<'a> {
    /// Iterates over the added and replaced routes.
    fn changed(&self) -> impl Iterator<Item = (AnyPrefix, &'a StaticRoute)> {
        self.changes.iter().filter_map(|(prefix, route)| Some((*prefix, (*route)?)))
    }

    /// Returns true if a route has exactly this prefix.
    fn has(&self, prefix: AnyPrefix) -> bool {
        match self.changes.get(&prefix) {
            Some(route) => route.is_some(),
            None => self.stays.is_some_and(|stays| stays.contains_key(&prefix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use sluice_base::{Instant, InterfaceAddress, InterfaceEvent, InterfaceIndex, Metric, Tags};
    use sluice_machine::{Machine, Outbox};

    fn route(prefix: &str, gateway: Option<&str>, interface: Option<&str>) -> StaticRoute {
        let gateway = gateway.map(|text| match text.parse() {
            Ok(ip) => Address::Ip(ip),
            Err(_) => text.parse::<Xid>().unwrap().into(),
        });
        let prefix = match prefix.parse::<IpPrefix>() {
            Ok(prefix) => prefix.into(),
            Err(_) => AnyPrefix::of::<XidPrefix>(prefix.parse().unwrap()),
        };
        let hop = StaticNextHop { gateway, interface: interface.map(Into::into), weight: 1 };
        let kind = RouteKind::NextHops(vec![hop]);
        StaticRoute { prefix, kind, distance: None, metric: Metric(0), tags: Tags::NONE }
    }

    #[test]
    fn next_hops_that_can_never_be_used_are_refused() {
        let check = |prefix, gateway, interface, expected: Option<&str>| {
            let error = route(prefix, Some(gateway), interface).check().err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{prefix} {gateway}: {error:?}");
            let expected = expected.unwrap_or_default();
            assert!(error.unwrap_or_default().contains(expected), "{expected}");
        };
        let outside = "expected a gateway outside of the route";
        check("10.0.0.1/32", "10.0.0.1", None, Some(outside));
        check("2001:db8::1/128", "2001:db8::1", None, Some(outside));
        check("10.0.0.1/32", "10.0.0.1", Some("eth0"), None);
        check("10.0.0.1/32", "10.0.0.2", None, None);
        // Another route inside, or a connected subnet, may lead to the gateway.
        check("10.0.0.0/8", "10.0.0.1", None, None);
        check("0.0.0.0/0", "10.0.0.1", None, None);
        check(
            "2001:db8::/32",
            "fe80::1",
            None,
            Some("route 2001:db8::/32 next-hop fe80::1: expected its `interface`"),
        );
        check("2001:db8::/32", "fe80::1", Some("eth0"), None);
        let xid = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
        check(xid, xid, None, Some("expected another XID"));
    }

    /// A machine with an interface `eth0` that has 192.0.2.1/24.
    fn machine(routes: Vec<StaticRoute>) -> Static {
        let mut machine = Static::new(1);
        let mut out = Outbox::new();
        let address = InterfaceAddress { addr: [192, 0, 2, 1].into(), prefix_len: 24, peer: None };
        let interface = Interface {
            index: InterfaceIndex::new(1).unwrap(),
            name: "eth0".into(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![],
            addresses: vec![address],
        };
        machine.handle(Instant::ZERO, Input::Interface(InterfaceEvent::Changed(interface)), &mut out);
        machine.handle(Instant::ZERO, Input::Configure(routes), &mut out);
        machine
    }

    #[test]
    fn next_hops_that_nothing_resolves_are_remarked() {
        let machine = machine(vec![route("10.0.0.0/8", Some("192.0.2.9"), None)]);
        let remarks = |routes: &[StaticRoute]| {
            machine.remarks(&Input::Change(routes.iter().map(|r| (r.prefix, Some(r.clone()))).collect()))
        };
        let check = |prefix, gateway, interface, expected: &str| {
            let found = remarks(&[route(prefix, gateway, interface)]);
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{prefix}: {found:?}");
            assert!(found.concat().contains(expected), "{prefix}: {found:?}");
        };
        check("198.51.100.0/24", Some("192.0.2.9"), None, "");
        check("198.51.100.0/24", Some("10.1.1.1"), None, "");
        check("198.51.100.0/24", None, Some("eth0"), "");
        check("198.51.100.0/24", None, Some("eth9"), "no interface `eth9`");
        check("198.51.100.0/24", Some("203.0.113.1"), None, "on no connected subnet");
        check("198.51.100.0/24", Some("198.51.100.1"), None, "inside the route itself");
        check("198.51.100.0/24", Some("192.0.2.1"), None, "this router's own address");
        check("0.0.0.0/0", Some("203.0.113.1"), None, "inside the route itself");
        check("0.0.0.0/0", Some("192.0.2.9"), None, "");
        // The route that leads to the gateway comes with the same change, or goes with it.
        let both =
            [route("203.0.113.0/24", Some("192.0.2.9"), None), route("0.0.0.0/0", Some("203.0.113.1"), None)];
        assert_eq!(remarks(&both), [""; 0]);
        let change = vec![
            ("10.0.0.0/8".parse::<IpPrefix>().unwrap().into(), None),
            (both[1].prefix, Some(route("172.16.0.0/12", Some("10.1.1.1"), None))),
        ];
        assert_eq!(machine.remarks(&Input::Change(change)).len(), 1);
        // Many routes of one kind are one remark.
        let many: Vec<StaticRoute> =
            (0..100).map(|n| route(&format!("100.64.{n}.0/24"), None, Some("eth9"))).collect();
        assert_eq!(
            remarks(&many),
            ["route 100.64.0.0/24 and 99 more: the router has no interface `eth9` at present"]
        );
        let unknown = Static::new(1);
        assert_eq!(unknown.remarks(&Input::Configure(many)), [""; 0]);
    }
}
