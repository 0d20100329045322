//! Flap damping (RFC 2439): penalties, suppressed routes, bounds, changes of the configuration and live upgrades, in virtual time.

use crate::world::World;
use proptest::prelude::*;
use serde_json::json;
use sluice_base::{AnyPrefix, Asn, Duration, Instant, Ipv4Prefix, RouterId};
use sluice_bgp::attributes::private::{self, Private};
use sluice_bgp::family::{FamilyCodes, FamilyIndex};
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::{DampedView, DampingRules};
use sluice_bgp::speaker::{Config, DefaultPolicy, Identity, Input, NeighborConfig, Output, Speaker};
use sluice_machine::{Machine, Outbox};
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const A: &str = "10.0.0.1";
const B: [&str; 2] = ["10.0.0.2", "10.0.1.2"];
const C: &str = "10.0.1.3";
const NET: &str = "172.16.0.0/24";

/// Routers in a row: the first one announces, the second one damps its routes, the third one receives.
fn row(rules: DampingRules) -> World {
    let mut world = World::new(&[(65001, &[A]), (65002, &B), (65003, &[C])]);
    world.peer((0, A), (1, B[0]), |_| {});
    world.peer((1, B[1]), (2, C), |_| {});
    for neighbor in &mut world.routers[1].config.neighbors {
        neighbor.damping = neighbor.peer_as == Asn(65001);
    }
    world.routers[1].config.damping = rules;
    world.configure_all();
    world.until_up((0, A), (1, B[0]), SECOND * 30);
    world.until_up((1, B[1]), (2, C), SECOND * 30);
    world
}

fn originate(world: &mut World, networks: &[&str]) {
    world.routers[0].config.networks = networks.iter().map(|text| text.parse().unwrap()).collect();
    world.configure(0);
    world.pass(SECOND / 10);
}

/// Withdraws and announces the prefix.
fn flap(world: &mut World) {
    originate(world, &[]);
    originate(world, &[NET]);
}

fn damped(world: &World) -> Vec<DampedView<Ipv4Prefix>> {
    let tables = world.routers[1].speaker.tables();
    tables.damped::<Ipv4Prefix>(world.now, 100, false)
}

fn is_used(world: &World) -> bool {
    let used =
        [1, 2].map(|router| world.routers[router].rib.contains_key(&NET.parse::<AnyPrefix>().unwrap()));
    assert_eq!(used[0], used[1], "the next router receives what is used");
    used[0]
}

/// The RFC's arithmetic.
fn decayed(penalty: f64, seconds: f64, half_life: f64) -> f64 {
    penalty * (-(seconds / half_life)).exp2()
}

#[test]
fn a_route_that_flaps_is_suppressed_until_its_penalty_has_decayed() {
    let mut world = row(DampingRules::DEFAULT);
    originate(&mut world, &[NET]);
    let mut penalty = 0.0;
    // 0.2 s from one withdrawal to the next.
    for flaps in 1..=6 {
        flap(&mut world);
        penalty = decayed(penalty, 0.2, 900.0) + 1000.0;
        assert!(is_used(&world), "{flaps} flaps: {penalty}");
    }
    assert!(penalty < 6000.0);
    flap(&mut world);
    penalty = decayed(penalty, 0.2, 900.0) + 1000.0;
    assert!(!is_used(&world));
    let [view] = <[_; 1]>::try_from(damped(&world)).expect("one history");
    assert_eq!((view.flaps, view.prefix.to_string()), (7, NET.to_string()));
    assert!((f64::from(view.penalty) - penalty).abs() <= 2.0, "{view:?} {penalty}");
    let expected = 900.0 * (penalty / 750.0).log2();
    let left = view.suppressed_for.unwrap().as_millis() as f64 / 1000.0;
    assert!((left - expected).abs() <= 1.0, "{left} {expected}");
    // The route stays known, and the operator learns for how long.
    let route = world.routers[1].speaker.tables().route(NET.parse::<Ipv4Prefix>().unwrap()).unwrap();
    let shown = route.paths[0].suppressed_for.unwrap();
    let difference = shown.as_millis().abs_diff(view.suppressed_for.unwrap().as_millis());
    assert!(route.paths[0].rejected_by.is_some() && difference <= 200, "{difference} ms");
    let until = left as u64;
    world.pass(SECOND * (until as u32 - 1));
    assert!(!is_used(&world));
    world.pass(SECOND * 3);
    assert!(is_used(&world));
    // The history is forgotten at half the reuse threshold, a half-life later.
    world.pass(MINUTE * 15 - SECOND * 5);
    assert_eq!(damped(&world).len(), 1);
    world.pass(SECOND * 10);
    assert_eq!(damped(&world), []);
    world.check();
}

#[test]
fn a_route_is_suppressed_no_longer_than_the_longest_time() {
    let mut world = row(DampingRules { max_suppress_time: 20, suppress: 1500, ..DampingRules::DEFAULT });
    originate(&mut world, &[NET]);
    for _ in 0..100 {
        flap(&mut world);
    }
    assert!(!is_used(&world));
    let [view] = <[_; 1]>::try_from(damped(&world)).expect("one history");
    assert!(view.suppressed_for.unwrap() <= MINUTE * 20 + SECOND, "{view:?}");
    world.pass(MINUTE * 20 - SECOND * 2);
    assert!(!is_used(&world));
    world.pass(SECOND * 4);
    assert!(is_used(&world));
}

#[test]
fn other_attributes_cost_half_and_the_end_of_a_session_costs_nothing() {
    let mut world = row(DampingRules::DEFAULT);
    originate(&mut world, &[NET]);
    world.pass(SECOND);
    // Routes of the same attributes are no change.
    world.input(1, Input::Refresh(A.parse().unwrap()));
    world.pass(SECOND);
    assert_eq!(damped(&world), []);
    for shutdown in [true, false] {
        world.routers[0].config.neighbors[0].graceful_shutdown = shutdown;
        world.configure(0);
        world.pass(SECOND);
    }
    let [view] = <[_; 1]>::try_from(damped(&world)).expect("one history");
    assert!(view.flaps == 2 && (998..=1000).contains(&view.penalty), "{view:?}");
    world.sever(A, B[0]);
    world.pass(SECOND * 5);
    world.mend();
    world.until_up((0, A), (1, B[0]), MINUTE * 3);
    world.pass(SECOND * 5);
    assert_eq!(damped(&world)[0].flaps, 2);
    assert!(is_used(&world));
}

#[test]
fn changes_of_the_configuration_and_operators_end_it() {
    let ends: [fn(&mut World); 3] = [
        |world| {
            world.routers[1].config.neighbors[0].damping = false;
            world.configure(1);
        },
        |world| world.input(1, Input::ClearDamping(Some(NET.parse().unwrap()))),
        |world| world.input(1, Input::ClearDamping(None)),
    ];
    for end in ends {
        let mut world = row(DampingRules::DEFAULT);
        originate(&mut world, &[NET]);
        (0..8).for_each(|_| flap(&mut world));
        assert!(!is_used(&world));
        // A policy that decides again does not use the route.
        world.routers[1].config.neighbors[0].default_policy = Some(DefaultPolicy::Reject);
        world.configure(1);
        world.pass(SECOND);
        world.routers[1].config.neighbors[0].default_policy = Some(DefaultPolicy::Accept);
        world.configure(1);
        world.input(1, Input::ClearDamping(Some("172.17.0.0/24".parse().unwrap())));
        world.pass(SECOND);
        assert!(!is_used(&world));
        let ups = world.ups(1);
        end(&mut world);
        world.pass(SECOND);
        assert!(is_used(&world) && damped(&world).is_empty());
        assert_eq!(world.ups(1), ups);
        world.check();
    }
    // A lower reuse threshold holds for routes that are suppressed.
    let mut world = row(DampingRules::DEFAULT);
    originate(&mut world, &[NET]);
    (0..8).for_each(|_| flap(&mut world));
    world.routers[1].config.damping =
        DampingRules { half_life: 1, max_suppress_time: 10, ..DampingRules::DEFAULT };
    world.configure(1);
    world.pass(MINUTE * 4);
    assert!(is_used(&world));
}

#[test]
fn a_live_upgrade_keeps_histories() {
    let mut world = row(DampingRules::DEFAULT);
    originate(&mut world, &[NET]);
    (0..8).for_each(|_| flap(&mut world));
    let before = damped(&world);
    world.rest(1);
    let state = world.routers[1].speaker.export();
    let identity = Identity {
        started: Instant::ZERO,
        is_restarted: false,
        local_as: Asn(65002),
        router_id: RouterId(2),
        seed: 2,
        tables: 2,
        source: 2,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
    };
    let now = world.now;
    let (mut next, mut out) = (Speaker::starting_at(identity, now), Outbox::new());
    next.import(now, state, &mut out);
    let outputs: Vec<Output> = out.drain().collect();
    world.replace(1, next, outputs);
    assert_eq!(damped(&world), before);
    world.pass(SECOND * 10);
    assert!(!is_used(&world));
    world.pass(MINUTE * 60);
    assert!(is_used(&world));
    world.check();
}

/// Policies of the router in the middle: a choice of parameters for the prefix, by name; all other routes have the router's.
fn choose(world: &mut World, damping: &str, quick: serde_json::Value) {
    let source = json!({
        "prefix-list": [{"name": "net", "prefix": [NET]}],
        "damping": [quick],
        "policy-statement": [
            {"name": "choice", "term": [
                {"name": "net", "from": {"prefix-list": ["net"]}, "then": {"damping": damping, "accept": [null]}},
            ]},
        ],
    });
    let config = &mut world.routers[1].config;
    config.policies = Policies::compile(serde_json::from_value(source).unwrap()).unwrap();
    config.neighbors[0].import = vec!["choice".into()];
    world.configure(1);
    world.pass(SECOND);
}

fn quick() -> serde_json::Value {
    json!({"name": "quick", "half-life": 2, "suppress": 1500, "max-suppress-time": 10})
}

#[test]
fn policies_choose_the_parameters_of_routes() {
    const OTHER: &str = "172.16.1.0/24";
    let mut world = row(DampingRules::DEFAULT);
    choose(&mut world, "quick", quick());
    for networks in [&[NET, OTHER][..], &[], &[NET, OTHER], &[], &[NET, OTHER]] {
        originate(&mut world, networks);
    }
    // Two withdrawals are enough for the chosen parameters, and not for the router's.
    assert!(!is_used(&world) && world.routers[1].rib.contains_key(&OTHER.parse::<AnyPrefix>().unwrap()));
    let of = |world: &World, prefix: &str| {
        damped(world).into_iter().find(|view| view.prefix.to_string() == prefix).unwrap()
    };
    let (chosen, other) = (of(&world, NET), of(&world, OTHER));
    assert_eq!((chosen.damping.as_deref(), other.damping), (Some("quick"), None));
    // From 2000 to 750 in a little less than three minutes.
    let left = chosen.suppressed_for.unwrap();
    assert!(left > MINUTE * 2 && left < MINUTE * 3, "{left:?}");
    let route = world.routers[1].speaker.tables().route(OTHER.parse::<Ipv4Prefix>().unwrap()).unwrap();
    assert!(!private::is_in(&route.paths[0].attributes));
    // A live upgrade keeps the parameters.
    world.rest(1);
    let identity = Identity { seed: 9, tables: 3, ..world.routers[1].speaker.export().control.identity };
    let (now, state) = (world.now, world.routers[1].speaker.export());
    let (mut next, mut out) = (Speaker::starting_at(identity, now), Outbox::new());
    next.import(now, state, &mut out);
    world.replace(1, next, out.drain().collect());
    assert_eq!(of(&world, NET).damping.as_deref(), Some("quick"));
    world.pass(left - SECOND * 2);
    assert!(!is_used(&world));
    world.pass(SECOND * 4);
    assert!(is_used(&world));
    let route = world.routers[1].speaker.tables().route(NET.parse::<Ipv4Prefix>().unwrap()).unwrap();
    assert_eq!(Private::of(&route.paths[0].attributes).damping.map(|d| d.to_string()), Some("quick".into()));
    world.check();
}

#[test]
fn another_choice_holds_at_once() {
    let suppressed = || {
        let mut world = row(DampingRules::DEFAULT);
        choose(&mut world, "quick", quick());
        originate(&mut world, &[NET]);
        (0..2).for_each(|_| flap(&mut world));
        assert!(!is_used(&world));
        world
    };
    // No damping: the route is used, and its flaps are not counted.
    let mut world = suppressed();
    let ups = world.ups(1);
    choose(&mut world, "none", quick());
    assert!(is_used(&world) && damped(&world).is_empty());
    (0..9).for_each(|_| flap(&mut world));
    assert!(is_used(&world) && damped(&world).is_empty());
    assert_eq!(world.ups(1), ups);
    // Other figures under the same name: a higher reuse threshold is reached at once.
    let mut world = suppressed();
    choose(&mut world, "quick", json!({"name": "quick", "half-life": 10, "reuse": 2500}));
    world.pass(SECOND * 2);
    assert!(is_used(&world));
    // The router's parameters: the penalty of before counts on.
    let mut world = suppressed();
    world.routers[1].config.neighbors[0].import.clear();
    world.configure(1);
    world.pass(SECOND);
    let [view] = <[_; 1]>::try_from(damped(&world)).expect("one history");
    assert_eq!((view.damping, view.flaps), (None, 2));
    let left = view.suppressed_for.unwrap();
    assert!(left > MINUTE * 20 && left < MINUTE * 22, "from 2000 to 750 in 1.4 half-lives: {left:?}");
    // What policy rejects keeps its parameters.
    let mut world = suppressed();
    world.routers[1].config.neighbors[0].import = vec![];
    world.routers[1].config.neighbors[0].default_policy = Some(DefaultPolicy::Reject);
    world.configure(1);
    world.pass(SECOND);
    assert_eq!(damped(&world)[0].damping.as_deref(), Some("quick"));
    world.check();
}

#[test]
fn histories_are_bounded() {
    let mut world = row(DampingRules { histories: 6, ..DampingRules::DEFAULT });
    let networks: Vec<String> = (0..20).map(|n| format!("172.16.{n}.0/24")).collect();
    let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
    originate(&mut world, &networks);
    originate(&mut world, &[]);
    // All of them are in one of the router's two tables.
    assert_eq!(damped(&world).len(), 3);
    let counts = world.routers[1].speaker.tables().damping_counts(FamilyIndex::IPV4);
    assert_eq!((counts.histories, counts.suppressed, counts.untracked), (3, 0, 17));
}

#[test]
fn internal_neighbors_are_not_damped() {
    let own: NeighborConfig =
        NeighborConfig { damping: true, ..NeighborConfig::new(A.parse().unwrap(), Asn(65002)) };
    let mut world = World::new(&[(65002, &[A]), (65002, &B)]);
    world.peer((0, A), (1, B[0]), |_| {});
    world.routers[1].config.neighbors[0].damping = own.damping;
    world.configure_all();
    world.until_up((0, A), (1, B[0]), SECOND * 30);
    originate(&mut world, &[NET]);
    (0..10).for_each(|_| flap(&mut world));
    assert!(damped(&world).is_empty());
    assert_eq!(Config::default().damping, DampingRules::DEFAULT);
}

/// The state of a route by the RFC.
#[derive(Default, Clone)]
struct Model {
    penalty: f64,
    at: f64,
    suppressed: bool,
    announced: bool,
    /// True if the penalty is so near a threshold that both sides of it are right.
    unsure: bool,
}

impl Model {
    fn at(&mut self, now: f64, rules: &DampingRules) {
        let half_life = f64::from(rules.half_life) * 60.0;
        self.penalty = decayed(self.penalty, now - self.at, half_life);
        self.at = now;
        let reuse = f64::from(rules.reuse);
        let threshold = if self.suppressed { reuse } else { reuse / 2.0 };
        // Within a second and a half.
        self.unsure |= half_life * (self.penalty / threshold).log2().abs() <= 1.5;
        if self.suppressed && self.penalty <= reuse {
            self.suppressed = false;
        }
        if !self.suppressed && self.penalty <= reuse / 2.0 {
            self.penalty = 0.0;
        }
    }

    fn flap(&mut self, rules: &DampingRules) {
        self.penalty = (self.penalty + 1000.0).min(f64::from(rules.ceiling()));
        self.unsure |= (self.penalty - f64::from(rules.suppress)).abs() <= 3.0;
        self.suppressed |= self.penalty > f64::from(rules.suppress);
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, u32)>> {
    // Which route changes sides, and after which time in tenths of a second.
    proptest::collection::vec((0_usize..3, prop_oneof![3 => 1_u32..300, 1 => 1_u32..6000]), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn routes_are_used_when_the_rfc_uses_them(
        steps in steps(), half_life in 1_u8..10, suppress in 1000_u32..4000, max_suppress_time in 10_u8..30,
    ) {
        let rules = DampingRules { half_life, suppress, max_suppress_time, ..DampingRules::DEFAULT };
        prop_assume!(rules.ceiling() > suppress);
        let mut world = row(rules);
        let networks = [NET, "172.16.1.0/24", "172.16.2.0/24"];
        let mut models: [Model; 3] = Default::default();
        let start = world.now;
        let seconds = |world: &World| world.now.saturating_since(start).as_millis() as f64 / 1000.0;
        for (place, wait) in steps {
            world.pass(Duration::from_millis(u64::from(wait) * 100));
            let model = &mut models[place];
            model.at(seconds(&world), &rules);
            if model.announced {
                model.flap(&rules);
            }
            model.announced = !model.announced;
            let all: Vec<&str> = networks.iter().zip(&models).filter(|(_, m)| m.announced).map(|(n, _)| *n).collect();
            originate(&mut world, &all);
            let views: BTreeMap<String, DampedView<Ipv4Prefix>> =
                damped(&world).into_iter().map(|view| (view.prefix.to_string(), view)).collect();
            for (network, model) in networks.iter().zip(&mut models) {
                model.at(seconds(&world), &rules);
                let prefix: AnyPrefix = network.parse().unwrap();
                let is_used = world.routers[1].rib.contains_key(&prefix);
                let view = views.get(*network);
                if std::mem::take(&mut model.unsure) {
                    model.suppressed = view.is_some_and(|view| view.suppressed_for.is_some());
                    model.penalty = view.map_or(0.0, |view| f64::from(view.penalty));
                    continue;
                }
                prop_assert_eq!(is_used, model.announced && !model.suppressed, "{} {}", network, model.penalty);
                prop_assert_eq!(view.is_some(), model.penalty > 0.0, "{} {}", network, model.penalty);
                let Some(view) = view else { continue };
                let difference = (f64::from(view.penalty) - model.penalty).abs();
                prop_assert!(difference <= 3.0 + model.penalty / 200.0, "{:?} {}", view, model.penalty);
                if let Some(found) = view.suppressed_for {
                    let found = found.as_millis() as f64 / 1000.0;
                    let left = f64::from(half_life) * 60.0 * (model.penalty / f64::from(rules.reuse)).log2();
                    prop_assert!((found - left).abs() <= 1.0, "{} {}", found, left);
                }
            }
        }
        // In the end all is forgotten.
        world.pass(MINUTE * (u32::from(max_suppress_time) + u32::from(half_life) * 4));
        prop_assert_eq!(damped(&world), []);
        world.check();
    }
}
