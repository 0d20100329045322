//! Tests of the networks and redistributed routes that the tables are ordered to originate.

use super::super::{Control, Input, Output};
use crate::family::FamilyCodes;
use crate::speaker::{Config, Identity, Redistribute, Redistributed, RedistributedRoute};
use crate::table::Order;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;
use sluice_base::{
    AnyPrefix, Asn, Distance, Instant, IpPrefix, Metric, Prefix, RouterId, Xid, XidPrefix, XidType,
};
use sluice_clients::EXTERNAL_TAG;
use sluice_machine::{Machine, Outbox};

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
                    control = super::origination::control();
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
