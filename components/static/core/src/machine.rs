//! Configured routes and interfaces in, announcements out.

use crate::route::StaticRoute;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{
    AnyPrefix, Instant, InterfaceEvent, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, RouteAction,
    RouteBatch, RouteSet, RouteUpdate, XidPrefix,
};
use sluice_clients::InterfaceTable;
use sluice_machine::{Machine, Outbox};

/// An event for the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The new set of configured routes. A prefix that occurs twice keeps its last route.
    Configure(Vec<StaticRoute>),
    /// Routes to add or replace (`Some`) or to remove (`None`). Unnamed routes stay unchanged.
    Change(Vec<(AnyPrefix, Option<StaticRoute>)>),
    /// An interface changed.
    Interface(InterfaceEvent),
    /// The RIB restarted and has lost the announced routes.
    RibRestarted,
}

/// A batch for the RIB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Changes of IPv4 routes.
    V4(RouteBatch<Ipv4Prefix>),
    /// Changes of IPv6 routes.
    V6(RouteBatch<Ipv6Prefix>),
    /// Changes of routes of XIDs.
    Xid(RouteBatch<XidPrefix>),
}

/// Static routes.
pub struct Static {
    configured: BTreeMap<AnyPrefix, StaticRoute>,
    interfaces: InterfaceTable,
    announced: BTreeMap<AnyPrefix, RouteSet>,
    provenance: Provenance,
}

impl Static {
    /// No routes. `source` marks the events that configuration and interfaces cause here.
    pub fn new(source: u16) -> Self {
        Static {
            configured: BTreeMap::new(),
            interfaces: InterfaceTable::default(),
            announced: BTreeMap::new(),
            provenance: Provenance::new(source, 0),
        }
    }

    /// The configured routes, and whether each can be used now.
    pub fn routes(&self) -> impl Iterator<Item = (&StaticRoute, bool)> {
        self.configured.values().map(|r| (r, self.announced.contains_key(&r.prefix)))
    }

    pub(crate) fn configured(&self) -> &BTreeMap<AnyPrefix, StaticRoute> {
        &self.configured
    }

    pub(crate) fn interfaces(&self) -> &InterfaceTable {
        &self.interfaces
    }

    /// Announces every route that differs from its last announcement.
    fn announce(&mut self, out: &mut Outbox<Output>) {
        let all: BTreeSet<AnyPrefix> = self.configured.keys().chain(self.announced.keys()).copied().collect();
        self.announce_of(all, out);
    }

    /// Announces the differing routes of the given prefixes.
    fn announce_of(&mut self, prefixes: impl IntoIterator<Item = AnyPrefix>, out: &mut Outbox<Output>) {
        self.provenance = self.provenance.next();
        let (mut v4, mut v6, mut xids) =
            (RouteBatch::default(), RouteBatch::default(), RouteBatch::default());
        for prefix in prefixes {
            let route = self.configured.get(&prefix);
            let now = route.and_then(|r| r.usable(|name| self.interfaces.running(name).map(|i| i.index)));
            let before = match now.clone() {
                Some(set) => self.announced.insert(prefix, set),
                None => self.announced.remove(&prefix),
            };
            if before == now {
                continue;
            }
            match prefix.ip() {
                Some(IpPrefix::V4(p)) => push(&mut v4, p, now, self.provenance),
                Some(IpPrefix::V6(p)) => push(&mut v6, p, now, self.provenance),
                None => {
                    if let Some(p) = prefix.to() {
                        push(&mut xids, p, now, self.provenance);
                    }
                }
            }
        }
        if !v4.is_empty() {
            out.push(Output::V4(v4));
        }
        if !v6.is_empty() {
            out.push(Output::V6(v6));
        }
        if !xids.is_empty() {
            out.push(Output::Xid(xids));
        }
    }
}

fn push<P>(batch: &mut RouteBatch<P>, prefix: P, set: Option<RouteSet>, provenance: Provenance) {
    let action = match set {
        Some(set) => {
            let known = batch.sets.iter().position(|s| *s == set);
            let index = known.unwrap_or_else(|| {
                batch.sets.push(set);
                batch.sets.len() - 1
            });
            RouteAction::Set(u32::try_from(index).expect("fewer sets than addresses"))
        }
        None => RouteAction::Delete,
    };
    batch.updates.push(RouteUpdate { prefix, action, provenance });
}

impl Machine for Static {
    type Input = Input;
    type Output = Output;
    type State = Vec<StaticRoute>;

    fn handle(&mut self, _now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Configure(routes) => {
                self.configured = routes.into_iter().map(|r| (r.prefix, r)).collect();
            }
            Input::Change(changes) => {
                let prefixes: Vec<AnyPrefix> = changes.iter().map(|(prefix, _)| *prefix).collect();
                for (prefix, route) in changes {
                    match route {
                        Some(route) => self.configured.insert(prefix, route),
                        None => self.configured.remove(&prefix),
                    };
                }
                return self.announce_of(prefixes, out);
            }
            Input::Interface(event) => {
                if !self.interfaces.apply(event) {
                    return;
                }
            }
            Input::RibRestarted => self.announced.clear(),
        }
        self.announce(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn on_deadline(&mut self, _now: Instant, _out: &mut Outbox<Output>) {}

    fn export(&self) -> Self::State {
        self.configured.values().cloned().collect()
    }

    fn import(&mut self, now: Instant, state: Self::State, out: &mut Outbox<Output>) {
        self.handle(now, Input::Configure(state), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{RouteKind, StaticNextHop};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use sluice_base::{Address, Interface, InterfaceIndex, Metric, Tags, Xid};

    fn key(text: &str) -> AnyPrefix {
        let ip = text.parse::<IpPrefix>().map(AnyPrefix::from);
        ip.unwrap_or_else(|_| AnyPrefix::of::<XidPrefix>(text.parse().unwrap()))
    }

    fn gateway(text: &str) -> Address {
        match text.parse() {
            Ok(ip) => Address::Ip(ip),
            Err(_) => text.parse::<Xid>().unwrap().into(),
        }
    }

    fn route(prefix: &str, kind: RouteKind) -> StaticRoute {
        StaticRoute { prefix: key(prefix), kind, distance: None, metric: Metric(0), tags: Tags::NONE }
    }

    fn hop(gateway: Option<&str>, interface: Option<&str>, weight: u8) -> StaticNextHop {
        StaticNextHop { gateway: gateway.map(self::gateway), interface: interface.map(Into::into), weight }
    }

    fn interface(name: &str, index: u32, running: bool) -> Input {
        Input::Interface(InterfaceEvent::Changed(Interface {
            index: InterfaceIndex::new(index).unwrap(),
            name: name.into(),
            admin_up: true,
            running,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![],
            addresses: vec![],
        }))
    }

    /// Compares the announcements after each input, as text.
    fn check(inputs: Vec<Input>, expected: &[&str]) {
        let mut machine = Static::new(1);
        let mut out = Outbox::new();
        let mut got = vec![];
        for input in inputs {
            machine.handle(Instant::ZERO, input, &mut out);
            for output in out.drain() {
                let text = |p: AnyPrefix, a: RouteAction, sets: &[RouteSet]| match a {
                    RouteAction::Delete => format!("-{p}"),
                    RouteAction::Set(i) => {
                        let hops = sets[i as usize].forwarding.next_hops();
                        let hops: Vec<String> = hops
                            .iter()
                            .map(|h| format!(" {:?}*{}", h.interface.map(|i| i.number()), h.weight))
                            .collect();
                        format!("+{p}{}", hops.concat())
                    }
                };
                match output {
                    Output::Xid(b) => {
                        got.extend(b.updates.iter().map(|u| text(AnyPrefix::of(u.prefix), u.action, &b.sets)))
                    }
                    Output::V4(b) => {
                        got.extend(b.updates.iter().map(|u| text(AnyPrefix::of(u.prefix), u.action, &b.sets)))
                    }
                    Output::V6(b) => {
                        got.extend(b.updates.iter().map(|u| text(AnyPrefix::of(u.prefix), u.action, &b.sets)))
                    }
                }
            }
            got.push(".".into());
        }
        assert_eq!(got, expected);
    }

    #[test]
    fn follows_interfaces() {
        for prefix in ["192.0.2.0/24", "2001:db8::/32"] {
            let both = RouteKind::NextHops(vec![hop(None, Some("a"), 1), hop(None, Some("b"), 3)]);
            check(
                vec![
                    Input::Configure(vec![route(prefix, both)]),
                    interface("a", 1, true),
                    interface("b", 2, true),
                    interface("a", 1, false),
                    Input::Interface(InterfaceEvent::Removed(InterfaceIndex::new(2).unwrap())),
                ],
                &[
                    ".",
                    &format!("+{prefix} Some(1)*1"),
                    ".",
                    &format!("+{prefix} Some(1)*1 Some(2)*3"),
                    ".",
                    &format!("+{prefix} Some(2)*3"),
                    ".",
                    &format!("-{prefix}"),
                    ".",
                ],
            );
        }
    }

    #[test]
    fn announces_only_what_changes() {
        let a = || route("10.0.0.0/8", RouteKind::Discard);
        let b = || route("2001:db8::/32", RouteKind::NextHops(vec![hop(Some("fe80::1"), None, 1)]));
        check(
            vec![
                Input::Configure(vec![a()]),
                Input::Configure(vec![a(), b()]),
                Input::Configure(vec![b()]),
                Input::RibRestarted,
            ],
            &[
                "+10.0.0.0/8",
                ".",
                "+2001:db8::/32 None*1",
                ".",
                "-10.0.0.0/8",
                ".",
                "+2001:db8::/32 None*1",
                ".",
            ],
        );
    }

    #[test]
    fn xids_are_routes_beside_those_of_ip() {
        let hid = "hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2";
        let ad = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
        let lpm = "lpm-0a00000000000000000000000000000000000000/8";
        let ether = "ether-0200000000010000000000000000000000000000";
        let neighbor = route(hid, RouteKind::NextHops(vec![hop(Some(ether), Some("a"), 1)]));
        let redirect = route(ad, RouteKind::NextHops(vec![hop(Some(hid), None, 2)]));
        let routes =
            vec![neighbor, redirect, route(lpm, RouteKind::Local), route("10.0.0.0/8", RouteKind::Discard)];
        check(
            vec![
                Input::Configure(routes),
                interface("a", 1, true),
                interface("a", 1, false),
                Input::Change(vec![(key(lpm), None)]),
            ],
            &[
                "+10.0.0.0/8",
                &format!("+{ad} None*2"),
                &format!("+{lpm}"),
                ".",
                &format!("+{hid} Some(1)*1"),
                ".",
                &format!("-{hid}"),
                ".",
                &format!("-{lpm}"),
                ".",
            ],
        );
    }
}
