//! Redistribution into BGP: the selected routes of other origins at the RIB, which this router originates.
//!
//! The RIB selects one route a prefix, so that at most one origin has a prefix here. BGP's own routes never arrive: their origin
//! cannot be configured. Routes that BGP gave to another protocol can come back under that protocol's name; such routes
//! carry [`EXTERNAL_TAG`] and are not originated, because BGP would otherwise announce the routes of others as its own.

use super::control::{Control, Output};
use crate::table::Order;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::{Distance, IpPrefix, Metric, Tags};
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
    pub prefix: IpPrefix,
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
    /// Returns true unless the route came out of BGP, or another origin of external routes, before.
    fn may_be_originated(&self) -> bool {
        !self.tags.as_slice().contains(&EXTERNAL_TAG)
    }
}

/// The redistributed routes, by prefix.
#[derive(Debug, Default)]
pub(super) struct RedistributedRoutes(BTreeMap<IpPrefix, RedistributedRoute>);

impl RedistributedRoutes {
    /// Applies a change. Returns true if the prefix has a route now that BGP may originate.
    fn apply(&mut self, Redistributed { prefix, route }: Redistributed) -> bool {
        let is_originated = route.as_ref().is_some_and(RedistributedRoute::may_be_originated);
        match route {
            Some(route) => self.0.insert(prefix, route),
            None => self.0.remove(&prefix),
        };
        is_originated
    }

    /// Returns true if BGP originates a prefix because of its redistributed route.
    pub(super) fn originates(&self, prefix: IpPrefix) -> bool {
        self.0.get(&prefix).is_some_and(RedistributedRoute::may_be_originated)
    }

    /// Returns the routes as changes from none.
    pub(super) fn export(&self) -> Vec<Redistributed> {
        let all = self.0.iter();
        all.map(|(prefix, route)| Redistributed { prefix: *prefix, route: Some(route.clone()) }).collect()
    }
}

impl Control {
    /// Iterates over the prefixes of the redistributed routes.
    pub fn redistributed(&self) -> impl Iterator<Item = IpPrefix> {
        self.redistributed.0.keys().copied()
    }

    /// Originates redistributed routes, and ends the origination of routes that are gone.
    pub(super) fn redistribute(&mut self, changes: Vec<Redistributed>, out: &mut Outbox<Output>) {
        for change in changes {
            let prefix = change.prefix;
            let was_originated = self.originates(prefix);
            let is_originated = self.redistributed.apply(change) || self.networks.contains(&prefix);
            if was_originated != is_originated {
                self.originate(prefix, is_originated, out);
            }
        }
    }

    /// Returns true if BGP originates a prefix.
    pub(super) fn originates(&self, prefix: IpPrefix) -> bool {
        self.networks.contains(&prefix) || self.redistributed.originates(prefix)
    }

    /// Orders the prefix's table to originate the prefix, or to end that.
    pub(super) fn originate(&mut self, prefix: IpPrefix, wanted: bool, out: &mut Outbox<Output>) {
        let provenance = self.peers.draw_provenance();
        let table = match prefix {
            IpPrefix::V4(prefix) => self.spread().table(prefix),
            IpPrefix::V6(prefix) => self.spread().table(prefix),
        };
        out.push(Output::Order(Some(table), Order::Originate(prefix, wanted, provenance)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Config, Identity};
    use super::super::control::Input;
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;
    use serde::de::IntoDeserializer;
    use sluice_base::{Asn, Instant, RouterId};
    use sluice_machine::Machine;
    use std::collections::BTreeSet;

    fn control() -> Control {
        let identity = Identity { local_as: Asn(1), router_id: RouterId(1), seed: 7, tables: 2, source: 1 };
        Control::new(identity, Instant::ZERO)
    }

    fn prefix(n: u8) -> IpPrefix {
        let text = if n.is_multiple_of(2) { "10.0.N.0/24" } else { "2001:db8:N::/48" };
        text.replace('N', &n.to_string()).parse().unwrap()
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
            let (mut networks, mut routes) = (BTreeSet::new(), BTreeSet::new());
            let mut originated = BTreeSet::new();
            for step in steps {
                let input = match step {
                    Step::Networks(new) => {
                        networks = new.into_iter().map(prefix).collect();
                        let networks = networks.iter().copied().collect();
                        Input::Configure(Config { networks, ..Config::default() })
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
                    if let Output::Order(Some(_), Order::Originate(prefix, wanted, _)) = output {
                        let is_new = if wanted { originated.insert(prefix) } else { originated.remove(&prefix) };
                        prop_assert!(is_new, "{prefix} is ordered twice");
                    }
                }
                let expected: BTreeSet<IpPrefix> = networks.union(&routes).copied().collect();
                prop_assert_eq!(&originated, &expected);
            }
        }
    }
}
