//! Redistribution into BGP: the selected routes of other origins at the RIB, which this router originates.
//!
//! Each origin is a source of the router's own, with policies of its own. The RIB selects one route a prefix, so that at most one origin has
//! a prefix here. BGP's own routes never arrive: their origin
//! cannot be configured. Routes that BGP gave to another protocol can come back under that protocol's name; such routes
//! carry [`EXTERNAL_TAG`] and are not originated, because BGP would otherwise announce the routes of others as its own.

use super::control::{Control, Output};
use crate::attributes::Origin;
use crate::shard::{OwnRoute, PeerIndex};
use crate::table::{Order, Origination};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::{AnyPrefix, Distance, Metric, Tags};
use sluice_clients::EXTERNAL_TAG;
use sluice_machine::Outbox;

/// The name of BGP's own origin at the RIB.
const OWN_ORIGIN: &str = "bgp";

/// An entry of `redistribute`: an origin of routes at the RIB, and the policies for its routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redistribute {
    /// The origin's name at the RIB.
    #[serde(deserialize_with = "other_origin")]
    pub origin: String,
    /// The names of the policies for the origin's routes, in order.
    #[serde(default)]
    pub policy: Vec<String>,
}

fn other_origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let origin = String::deserialize(deserializer)?;
    if origin == OWN_ORIGIN {
        return Err(D::Error::custom(
            "redistribute bgp: BGP has its own routes already; expected another origin, such as static or connected",
        ));
    }
    Ok(origin)
}

/// A change of the RIB's selected route of a prefix, as far as configured origins are concerned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redistributed {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The prefix's route now; `None`: no configured origin has the selected route.
    pub route: Option<RedistributedRoute>,
}

/// A route of another origin, without its prefix.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RedistributedRoute {
    /// The origin's name at the RIB.
    pub origin: String,
    /// The name of the route's kind within its origin, such as `inter-area`.
    pub kind: Option<String>,
    /// The origin's cost.
    pub metric: Metric,
    /// The administrative distance.
    pub distance: Distance,
    /// Marks for policy.
    pub tags: Tags,
    /// The name of the first next hop's interface, if the origin named one.
    pub interface: Option<String>,
    /// The gateway of the first next hop.
    pub next_hop: Option<IpAddr>,
}

impl RedistributedRoute {
    /// Returns the route as BGP originates it.
    fn own(&self) -> OwnRoute {
        OwnRoute {
            origin: Origin::Incomplete,
            metric: Some(self.metric.0),
            tags: self.tags.as_slice().iter().map(|tag| tag.0).collect(),
            aggregate: None,
        }
    }

    /// Returns true unless the route came out of BGP, or another origin of external routes, before.
    fn may_be_originated(&self) -> bool {
        !self.tags.as_slice().contains(&EXTERNAL_TAG)
    }
}

/// The redistributed routes, by prefix, and the numbers of their origins among the sources of the router's own.
#[derive(Debug, Default)]
pub(super) struct RedistributedRoutes {
    routes: BTreeMap<AnyPrefix, RedistributedRoute>,
    sources: BTreeMap<String, PeerIndex>,
    /// The configuration.
    pub redistribute: Vec<Redistribute>,
}

impl RedistributedRoutes {
    /// Returns the source of a route that BGP may originate.
    fn source(&self, route: &RedistributedRoute) -> Option<PeerIndex> {
        self.sources.get(&route.origin).copied().filter(|_| route.may_be_originated())
    }

    /// Returns the source of an origin.
    pub(super) fn source_of(&self, origin: &str) -> Option<PeerIndex> {
        self.sources.get(origin).copied()
    }

    /// Returns the lowest number that no origin has; `None` if there are too many origins.
    fn free_source(&self) -> Option<PeerIndex> {
        let mut numbers = (1..PeerIndex::DEFAULT.0).map(PeerIndex);
        numbers.find(|number| !self.sources.values().any(|used| used == number))
    }

    /// Returns the routes as changes from none.
    pub(super) fn export(&self) -> Vec<Redistributed> {
        let all = self.routes.iter();
        all.map(|(prefix, route)| Redistributed { prefix: *prefix, route: Some(route.clone()) }).collect()
    }
}

impl Control {
    /// Iterates over the prefixes of the redistributed routes.
    pub fn redistributed(&self) -> impl Iterator<Item = AnyPrefix> {
        self.redistributed.routes.keys().copied()
    }

    /// Configures origins and their policies: routes of origins that are not configured any more are withdrawn.
    pub(super) fn configure_redistribution(&mut self, config: Vec<Redistribute>, out: &mut Outbox<Output>) {
        let is_configured = |origin: &String| config.iter().any(|entry| entry.origin == *origin);
        let known: Vec<String> = self.redistributed.sources.keys().cloned().collect();
        for origin in known.into_iter().filter(|origin| !is_configured(origin)) {
            for (prefix, source, _) in self.routes_of(&origin) {
                self.originate(source, prefix, None, out);
            }
            self.redistributed.sources.remove(&origin);
        }
        for entry in &config {
            let known = self.redistributed.sources.get(&entry.origin).copied();
            let Some(source) = known.or_else(|| self.redistributed.free_source()) else { continue };
            self.redistributed.sources.insert(entry.origin.clone(), source);
            let identity = &self.peers.identity;
            let import = self.peers.bindings.source(&entry.policy, identity.local_as);
            out.push(Output::Order(None, Order::SetSource(source, Arc::from(&*entry.origin), import)));
            if known.is_none() {
                for (prefix, source, route) in self.routes_of(&entry.origin) {
                    self.originate(source, prefix, Some(route), out);
                }
            }
        }
        self.redistributed.redistribute = config;
    }

    /// Returns the routes of an origin that BGP originates.
    fn routes_of(&self, origin: &str) -> Vec<(AnyPrefix, PeerIndex, OwnRoute)> {
        let all = self.redistributed.routes.iter().filter(|(_, route)| route.origin == origin);
        all.filter_map(|(prefix, route)| Some((*prefix, self.redistributed.source(route)?, route.own())))
            .collect()
    }

    /// Originates redistributed routes, and ends the origination of routes that are gone.
    pub(super) fn redistribute(&mut self, changes: Vec<Redistributed>, out: &mut Outbox<Output>) {
        for Redistributed { prefix, route } in changes {
            let before = match route.clone() {
                Some(route) => self.redistributed.routes.insert(prefix, route),
                None => self.redistributed.routes.remove(&prefix),
            };
            let source = |route: &RedistributedRoute| self.redistributed.source(route);
            let old = before.as_ref().and_then(source);
            let new = route.as_ref().and_then(|route| Some((source(route)?, route.own())));
            if let Some(old) = old.filter(|old| new.as_ref().is_none_or(|(new, _)| new != old)) {
                self.originate(old, prefix, None, out);
            }
            if let Some((source, route)) = new {
                self.originate(source, prefix, Some(route), out);
            }
        }
    }

    /// Orders the prefix's table to originate a route of a source, or to end that.
    pub(super) fn originate(
        &mut self,
        source: PeerIndex,
        prefix: AnyPrefix,
        route: Option<OwnRoute>,
        out: &mut Outbox<Output>,
    ) {
        let provenance = self.peers.draw_provenance();
        let table = self.spread().table_of(prefix);
        let origination = Box::new(Origination { source, prefix, route, provenance });
        out.push(Output::Order(Some(table), Order::Originate(origination)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Identity};
    use super::super::control::Input;
    use super::*;
    use crate::family::FamilyCodes;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;
    use serde::de::IntoDeserializer;
    use sluice_base::{Asn, Instant, IpPrefix, Prefix, RouterId, Xid, XidPrefix, XidType};
    use sluice_machine::Machine;
    use std::collections::BTreeSet;

    fn control() -> Control {
        let codes = FamilyCodes::DEFAULT;
        let identity = Identity {
            started: Instant::ZERO,
            is_restarted: false,
            local_as: Asn(1),
            router_id: RouterId(1),
            seed: 7,
            tables: 2,
            source: 1,
            codes,
            decision: Default::default(),
        };
        Control::new(identity, Instant::ZERO)
    }

    fn prefix(n: u8) -> AnyPrefix {
        let text = if n.is_multiple_of(2) { "10.0.N.0/24" } else { "2001:db8:N::/48" };
        match n % 3 {
            2 => AnyPrefix::of(XidPrefix::host(Xid { kind: XidType::AD, id: [n; 20] })),
            _ => text.replace('N', &n.to_string()).parse::<IpPrefix>().unwrap().into(),
        }
    }

    fn route(is_external: bool) -> RedistributedRoute {
        RedistributedRoute {
            origin: "static".into(),
            kind: None,
            metric: Metric(0),
            distance: Distance::STATIC,
            tags: is_external.then_some(EXTERNAL_TAG).into_iter().collect(),
            interface: None,
            next_hop: None,
        }
    }

    #[test]
    fn the_own_origin_is_refused() {
        let read = |origin: &'static str| {
            other_origin(IntoDeserializer::<serde::de::value::Error>::into_deserializer(origin))
        };
        assert_eq!(read("static").as_deref(), Ok("static"));
        assert!(read("bgp").unwrap_err().to_string().contains("expected another origin"));
    }

    /// A change of the origination.
    #[derive(Clone, Debug)]
    enum Step {
        Networks(BTreeSet<u8>),
        /// Prefixes with a route, which came out of BGP or not, or without one.
        Routes(Vec<(u8, Option<bool>)>),
        /// Another process takes over.
        Import,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => prop::collection::btree_set(0u8..6, 0..4).prop_map(Step::Networks),
            3 => prop::collection::vec((0u8..6, any::<Option<bool>>()), 0..5).prop_map(Step::Routes),
            1 => Just(Step::Import),
        ]
    }

    proptest! {
        /// Exactly the networks, and the redistributed routes that did not come out of BGP, are originated; each once.
        #[test]
        fn networks_and_redistributed_routes_are_originated(steps in prop::collection::vec(step(), 0..20)) {
            let (mut control, mut out) = (control(), Outbox::new());
            let (mut networks, mut routes) = (BTreeSet::<AnyPrefix>::new(), BTreeSet::new());
            let mut is_configured = false;
            let mut originated = BTreeSet::new();
            for step in steps {
                let input = match step {
                    Step::Networks(new) => {
                        networks = new.into_iter().map(prefix).collect();
                        let networks = networks.iter().copied().collect();
                        let redistribute = vec![Redistribute { origin: "static".into(), policy: vec![] }];
                        is_configured = true;
                        Input::Configure(Config { networks, redistribute, ..Config::default() })
                    }
                    Step::Routes(changes) => {
                        let changes = changes.into_iter().map(|(n, change)| {
                            let is_originated = change == Some(false);
                            let _ = if is_originated { routes.insert(prefix(n)) } else { routes.remove(&prefix(n)) };
                            Redistributed { prefix: prefix(n), route: change.map(route) }
                        });
                        Input::Redistributed(changes.collect())
                    }
                    Step::Import => {
                        let state = control.export();
                        control = self::control();
                        originated.clear();
                        control.import(Instant::ZERO, state, &mut out);
                        Input::Redistributed(vec![])
                    }
                };
                control.handle(Instant::ZERO, input, &mut out);
                for output in out.drain() {
                    if let Output::Order(Some(_), Order::Originate(change)) = output {
                        let key = (change.source.0, change.prefix);
                        if change.route.is_some() {
                            originated.insert(key);
                        } else {
                            prop_assert!(originated.remove(&key), "{key:?} is withdrawn and was not there");
                        }
                    }
                }
                let redistributed = routes.iter().filter(|_| is_configured).map(|prefix| (1, *prefix));
                let expected: BTreeSet<(u16, AnyPrefix)> =
                    networks.iter().map(|prefix| (0, *prefix)).chain(redistributed).collect();
                prop_assert_eq!(&originated, &expected);
            }
        }
    }
}
