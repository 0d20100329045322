//! Several paths of a prefix (ADD-PATH, RFC 7911) between whole routers: a reflector, originators of the same prefixes, and receivers.

use crate::world::World;
use proptest::prelude::*;
use serde_json::json;
use sluice_base::{AnyPrefix, Asn, Duration, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::{PathView, PolicyUse};
use sluice_bgp::speaker::{AddPath, DefaultPolicy, Identity, Input, OriginData, Output, SendPaths, Speaker};
use sluice_bgp::table::Sharded;
use sluice_bgp::wire::attribute::code;
use sluice_machine::{Machine, Outbox};
use sluice_validation::{AnyVrp, ChangedPrefixes, VrpTable};
use std::net::IpAddr;
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);
const REFLECTOR: usize = 0;
/// Routers that originate prefixes.
const ORIGINATORS: [usize; 3] = [1, 2, 3];
/// A receiver of every path.
const ALL: usize = 4;
/// A receiver of the two best paths.
const BEST: usize = 5;
/// A receiver of the best path.
const ONE: usize = 6;
const ROUTERS: usize = 7;

/// The address of a router on the link with the reflector, and the reflector's.
fn link(router: usize) -> (String, String) {
    (format!("10.0.{router}.2"), format!("10.0.{router}.1"))
}

fn ipv6(router: usize) -> String {
    format!("2001:db8:{router}::2")
}

fn add_path(router: usize) -> AddPath {
    match router {
        ALL => AddPath { send: Some(SendPaths::All), ..AddPath::NONE },
        BEST => AddPath { send: Some(SendPaths::Best), paths: Some(2), ..AddPath::NONE },
        _ => AddPath::NONE,
    }
}

/// The reflector and its clients; originators are in the reflector's AS, or each in a separate AS.
fn network(is_internal: bool) -> World {
    let addresses: Vec<Vec<String>> = (0..ROUTERS)
        .map(|router| match router {
            REFLECTOR => (1..ROUTERS).map(|n| link(n).1).chain(["2001:db8::1".into()]).collect(),
            router => vec![link(router).0, ipv6(router)],
        })
        .collect();
    let texts: Vec<Vec<&str>> = addresses.iter().map(|all| all.iter().map(|a| &**a).collect()).collect();
    let asn = |router: usize| match router {
        1..=3 if !is_internal => 65100 + router as u32,
        _ => 65001,
    };
    let routers: Vec<(u32, &[&str])> = (0..ROUTERS).map(|n| (asn(n), &*texts[n])).collect();
    let mut world = World::new(&routers);
    for router in 1..ROUTERS {
        let (own, reflectors) = link(router);
        world.peer((REFLECTOR, &reflectors), (router, &own), |config| {
            let address: IpAddr = own.parse().unwrap();
            if config.address == address {
                config.route_reflector_client = true;
                config.add_path = add_path(router);
            } else {
                config.add_path.receive = [ALL, BEST].contains(&router);
            }
        });
    }
    world.cut_messages = true;
    world.configure_all();
    for router in 1..ROUTERS {
        let (own, reflectors) = link(router);
        world.until_up((REFLECTOR, &reflectors), (router, &own), SECOND * 30);
    }
    world
}

fn prefixes(number: u8) -> [AnyPrefix; 2] {
    [format!("192.{number}.0.0/16"), format!("2001:db8:{number:x}00::/48")].map(|text| text.parse().unwrap())
}

fn originate(world: &mut World, router: usize, number: u8, is_on: bool) {
    for prefix in prefixes(number) {
        let networks = &mut world.routers[router].config.networks;
        networks.retain(|known| *known != prefix);
        if is_on {
            networks.push(prefix);
        }
    }
    world.configure(router);
}

fn paths<P: Sharded>(world: &World, router: usize, number: u8) -> Vec<PathView> {
    let mut all = prefixes(number).into_iter().filter_map(|prefix| prefix.to::<P>());
    let route = all.next().and_then(|prefix| world.routers[router].speaker.tables().route::<P>(prefix));
    route.map(|route| route.paths).unwrap_or_default()
}

/// Returns the originators of a router's paths of a prefix.
fn origins<P: Sharded>(world: &World, router: usize, number: u8) -> Vec<usize> {
    let of = |path: PathView| {
        if path.peer.is_own() {
            return router;
        }
        let hop = path.next_hop.address.to_string();
        (0..ROUTERS).find(|router| [link(*router).0, ipv6(*router)].contains(&hop)).expect("a router")
    };
    let mut all: Vec<usize> = paths::<P>(world, router, number).into_iter().map(of).collect();
    all.sort_unstable();
    all
}

/// Compares receivers' paths of a prefix with the expected originators.
fn check(world: &World, number: u8, expected: &[usize]) {
    let few = |most: usize| &expected[..expected.len().min(most)];
    for (router, expected) in [(ALL, expected), (BEST, few(2)), (ONE, few(1))] {
        assert_eq!(origins::<Ipv4Prefix>(world, router, number), expected, "IPv4 of {router}");
        assert_eq!(origins::<Ipv6Prefix>(world, router, number), expected, "IPv6 of {router}");
        let ids: Vec<Option<u32>> =
            paths::<Ipv4Prefix>(world, router, number).iter().map(|p| p.path_id).collect();
        assert!(ids.iter().all(|id| id.is_some() == (router != ONE)), "{ids:?}");
    }
}

#[test]
fn receivers_have_the_paths_that_they_are_sent() {
    let mut world = network(true);
    for router in ORIGINATORS {
        originate(&mut world, router, 1, true);
        world.pass(SECOND);
    }
    check(&world, 1, &ORIGINATORS);
    // Each path has its own originator (RFC 4456, section 8).
    for path in paths::<Ipv4Prefix>(&world, ALL, 1) {
        let originator = canonical::find(&path.attributes, code::ORIGINATOR_ID).unwrap();
        let hop = path.next_hop.address.to_string();
        let router = ORIGINATORS.into_iter().find(|router| link(*router).0 == hop).unwrap();
        assert_eq!(originator, (router as u32 + 1).to_be_bytes());
    }
    // The reflector shows what it sends, with the identifiers that the receivers have.
    let sent = |world: &World, router: usize| {
        let speaker = &world.routers[REFLECTOR].speaker;
        let peer = speaker.neighbor(link(router).0.parse().unwrap()).unwrap().index;
        let prefix = prefixes(1)[0].to::<Ipv4Prefix>().unwrap();
        let route = speaker.tables().advertised_route(peer, prefix);
        let mut ids: Vec<Option<u32>> =
            route.map(|r| r.paths.iter().map(|p| p.path_id).collect()).unwrap_or_default();
        ids.sort_unstable();
        ids
    };
    for router in [ALL, BEST, ONE] {
        let mut ids: Vec<Option<u32>> =
            paths::<Ipv4Prefix>(&world, router, 1).iter().map(|p| p.path_id).collect();
        ids.sort_unstable();
        assert_eq!(sent(&world, router), ids);
    }
    let counts = |world: &World, router: usize| {
        let address = link(router).0.parse().unwrap();
        let view = world.routers[REFLECTOR].speaker.neighbor(address).unwrap();
        view.prefixes.sent[<Ipv4Prefix as Sharded>::INDEX]
    };
    assert_eq!([ALL, BEST, ONE].map(|router| counts(&world, router)), [3, 2, 1]);
    // An originator is not sent its own path.
    assert_eq!(origins::<Ipv4Prefix>(&world, 2, 1), [1, 2]);
    originate(&mut world, 1, 1, false);
    world.pass(SECOND);
    check(&world, 1, &[2, 3]);
    let (own, reflectors) = link(2);
    world.sever(&own, &reflectors);
    world.pass(SECOND);
    check(&world, 1, &[3]);
    world.mend();
    world.until_up((REFLECTOR, &reflectors), (2, &own), SECOND * 60);
    world.pass(SECOND);
    check(&world, 1, &[2, 3]);
    world.check();
}

#[test]
fn the_number_of_paths_and_policies_change_without_a_reset() {
    let mut world = network(false);
    ORIGINATORS.iter().for_each(|router| originate(&mut world, *router, 1, true));
    world.pass(SECOND);
    let ups = world.ups(REFLECTOR);
    // External originators: the next hop stays, as it is not this router.
    check(&world, 1, &ORIGINATORS);
    let neighbor = |world: &mut World, router: usize| {
        let address: IpAddr = link(router).0.parse().unwrap();
        world.routers[REFLECTOR].config.neighbors.iter().position(|n| n.address == address).unwrap()
    };
    let best = neighbor(&mut world, BEST);
    world.routers[REFLECTOR].config.neighbors[best].add_path.paths = Some(3);
    world.configure(REFLECTOR);
    world.pass(SECOND);
    assert_eq!(origins::<Ipv4Prefix>(&world, BEST, 1), ORIGINATORS);
    world.routers[REFLECTOR].config.neighbors[best].add_path.paths = Some(1);
    let all = neighbor(&mut world, ALL);
    world.routers[REFLECTOR].config.neighbors[all].default_policy = Some(DefaultPolicy::Reject);
    world.configure(REFLECTOR);
    world.pass(SECOND);
    assert_eq!(origins::<Ipv4Prefix>(&world, BEST, 1), [1]);
    assert!(origins::<Ipv4Prefix>(&world, ALL, 1).is_empty());
    world.routers[REFLECTOR].config.neighbors[all].default_policy = Some(DefaultPolicy::Accept);
    world.configure(REFLECTOR);
    world.pass(SECOND);
    assert_eq!(origins::<Ipv4Prefix>(&world, ALL, 1), ORIGINATORS);
    assert_eq!(world.ups(REFLECTOR), ups);
    // Without the capability on the other side one path is sent, in a session that begins anew.
    world.routers[ALL].config.neighbors[0].add_path = AddPath::NONE;
    world.configure(ALL);
    world.pass(SECOND * 30);
    assert_eq!(origins::<Ipv4Prefix>(&world, ALL, 1), [1]);
    assert_eq!(paths::<Ipv4Prefix>(&world, ALL, 1)[0].path_id, None);
    world.check();
}

/// Policies that choose paths: paths of the originator `second`, paths of the third originator, and paths with a valid origin.
fn policies(second: usize) -> Policies {
    let accept = json!({"accept": [null]});
    let source = json!({
        "as-path": [
            {"name": "second", "expression": format!("{}", 65100 + second)},
            {"name": "third", "expression": "65103"},
        ],
        "policy-statement": [
            {"name": "second", "term": [{"name": "second", "from": {"as-path": ["second"]}, "then": accept}]},
            {"name": "third", "term": [
                {"name": "third", "from": {"as-path": ["third"]}, "then": accept},
                {"name": "others", "then": {"reject": [null], "reason": "no backup"}},
            ]},
            {"name": "valid", "term": [{"name": "valid", "from": {"validation": ["valid"]}, "then": accept}]},
        ],
    });
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}

/// Sets receivers' policies for the choice of paths, by name.
fn choose(world: &mut World, choices: [(usize, &str); 2]) {
    for (router, policy) in choices {
        let address: IpAddr = link(router).0.parse().unwrap();
        let neighbors = &mut world.routers[REFLECTOR].config.neighbors;
        let neighbor = neighbors.iter_mut().find(|neighbor| neighbor.address == address).unwrap();
        neighbor.add_path.policy = policy.split_whitespace().map(String::from).collect();
    }
    world.configure(REFLECTOR);
    world.pass(SECOND);
}

fn both(world: &World, router: usize) -> Vec<usize> {
    let origins = [origins::<Ipv4Prefix>(world, router, 1), origins::<Ipv6Prefix>(world, router, 1)];
    assert_eq!(origins[0], origins[1], "IPv4 and IPv6 of {router}");
    origins[0].clone()
}

#[test]
fn policies_choose_paths_beside_the_best_one() {
    let mut world = network(false);
    ORIGINATORS.iter().for_each(|router| originate(&mut world, *router, 1, true));
    world.routers[REFLECTOR].config.policies = policies(2);
    world.configure(REFLECTOR);
    world.pass(SECOND);
    check(&world, 1, &ORIGINATORS);
    let ups = world.ups(REFLECTOR);
    choose(&mut world, [(ALL, "second"), (BEST, "third")]);
    assert_eq!((both(&world, ALL), both(&world, BEST), both(&world, ONE)), (vec![1, 2], vec![1, 3], vec![1]));
    // The reasons for the paths that are not sent.
    let index = |world: &World, router: usize| {
        world.routers[REFLECTOR].speaker.neighbor(link(router).0.parse().unwrap()).unwrap().index
    };
    let reasons = |world: &World, router: usize| -> Vec<(usize, String)> {
        let tables = world.routers[REFLECTOR].speaker.tables();
        let prefix = prefixes(1)[0].to::<Ipv4Prefix>().unwrap();
        let not_sent = tables.paths_not_sent(index(world, router), prefix);
        let of = |peer| ORIGINATORS.into_iter().find(|router| index(world, *router) == peer).unwrap();
        not_sent.into_iter().map(|(peer, _, cause)| (of(peer), cause.to_string())).collect()
    };
    let none = "no term of the policies of add-path accepts the path";
    assert_eq!(reasons(&world, ALL), [(3, none.to_string())]);
    let rejected = "not chosen by add-path: policy third, term others: no backup";
    assert_eq!(reasons(&world, BEST), [(2, rejected.to_string())]);
    assert_eq!(reasons(&world, ONE), []);
    // Hits: the paths beside the best one come to the policy.
    let hits = world.routers[REFLECTOR].speaker.tables().policy_hits::<Ipv4Prefix>("third", 3);
    let counts = &hits[&PolicyUse::FurtherPaths(vec![index(&world, BEST)])];
    let terms: Vec<(&str, u64)> = counts.terms.iter().map(|(term, count)| (&**term, *count)).collect();
    assert_eq!((counts.routes, terms), (2, vec![("others", 1), ("third", 1)]));
    // The best path needs no choice, whichever it is.
    originate(&mut world, 1, 1, false);
    world.pass(SECOND);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![2], vec![2, 3]));
    originate(&mut world, 1, 1, true);
    world.pass(SECOND);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1, 2], vec![1, 3]));
    // Another definition of the policy, then another policy.
    world.routers[REFLECTOR].config.policies = policies(3);
    world.configure(REFLECTOR);
    world.pass(SECOND);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1, 3], vec![1, 3]));
    // Paths that are chosen and beyond the number of `send best`.
    choose(&mut world, [(ALL, "second third"), (BEST, "")]);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1, 3], vec![1, 2]));
    assert_eq!(reasons(&world, BEST), [(3, "not one of the 2 best paths that are sent".to_string())]);
    // Chosen paths follow the validation of their origins.
    choose(&mut world, [(ALL, "valid"), (BEST, "valid")]);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1], vec![1]));
    let vrp = |prefix: AnyPrefix| AnyVrp::new(prefix.ip().unwrap(), prefix.len(), Asn(65102)).unwrap();
    let table = Some(Arc::new(VrpTable::new(prefixes(1).map(vrp))));
    world.input(REFLECTOR, Input::Origins(OriginData { table, changed: ChangedPrefixes::All }));
    world.pass(SECOND);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1, 2], vec![1, 2]));
    world.input(REFLECTOR, Input::Origins(OriginData { table: None, changed: ChangedPrefixes::All }));
    world.pass(SECOND);
    assert_eq!((both(&world, ALL), both(&world, BEST)), (vec![1], vec![1]));
    choose(&mut world, [(ALL, ""), (BEST, "")]);
    check(&world, 1, &ORIGINATORS);
    assert_eq!(world.ups(REFLECTOR), ups, "no session was reset");
    world.check();
}

/// Replaces a router's process by one with a different number of tables.
fn hand_over(world: &mut World, router: usize, tables: u16) {
    world.rest(router);
    let now = world.now;
    let before = &world.routers[router].speaker;
    let state = before.export();
    let seed = state.control.identity.seed.wrapping_add(tables.into());
    let identity = Identity { seed, tables, source: 77, ..state.control.identity.clone() };
    let mut after = Speaker::starting_at(identity, now);
    let mut out = Outbox::new();
    after.import(now, state, &mut out);
    let content = |speaker: &Speaker| {
        let mut all: Vec<_> = speaker.tables().routes::<Ipv4Prefix>().collect();
        all.sort_by_key(|route| route.prefix);
        all
    };
    assert_eq!(content(before), content(&after));
    for neighbor in before.neighbors() {
        let mut octets = vec![];
        assert!(
            !after.fill(now, neighbor, 100_000, &mut octets) && octets.is_empty(),
            "{neighbor} is sent routes again"
        );
    }
    let said: Vec<Output> = out.drain().collect();
    assert!(!said.iter().any(|o| matches!(o, Output::Send(..) | Output::Close(..) | Output::Transmit(..))));
    world.replace(router, after, said);
}

#[derive(Clone, Debug)]
enum Step {
    /// An originator begins or ends to originate a prefix.
    Originate(usize, u8, bool),
    /// The session of an originator or a receiver breaks, and comes up again.
    Flap(usize),
    /// A receiver requests the routes again.
    Refresh(usize),
    /// The reflector or a receiver is replaced by a new process with a number of tables.
    HandOver(usize, u16),
    /// Time passes, in milliseconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..=3_usize, 0..4_u8, any::<bool>()).prop_map(|(router, n, is_on)| Step::Originate(router, n, is_on)),
        1 => (1..ROUTERS).prop_map(Step::Flap),
        1 => (ALL..ROUTERS).prop_map(Step::Refresh),
        1 => (prop::sample::select(&[REFLECTOR, ALL, BEST][..]), 1..4_u16)
            .prop_map(|(router, tables)| Step::HandOver(router, tables)),
        4 => (0..40_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// After any changes of originators and sessions, receivers finally have the expected paths.
    #[test]
    fn random_lives(is_internal in any::<bool>(), steps in prop::collection::vec(step(), 1..40)) {
        let mut world = network(is_internal);
        for step in steps {
            match step {
                Step::Originate(router, number, is_on) => originate(&mut world, router, number, is_on),
                Step::Flap(router) => {
                    let (own, reflectors) = link(router);
                    world.sever(&own, &reflectors);
                    world.pass(SECOND);
                    world.mend();
                    world.until_up((REFLECTOR, &reflectors), (router, &own), SECOND * 60);
                }
                Step::Refresh(router) => {
                    let reflectors: IpAddr = link(router).1.parse().unwrap();
                    world.input(router, Input::Refresh(reflectors));
                }
                Step::HandOver(router, tables) => hand_over(&mut world, router, tables),
                Step::Wait(time) => world.pass(Duration::from_millis(time)),
            }
        }
        world.pass(SECOND * 10);
        for number in 0..4 {
            let is_on = |router: &usize| world.routers[*router].config.networks.contains(&prefixes(number)[0]);
            let expected: Vec<usize> = ORIGINATORS.into_iter().filter(is_on).collect();
            check(&world, number, &expected);
        }
        world.check();
        for number in 0..4 {
            ORIGINATORS.iter().for_each(|router| originate(&mut world, *router, number, false));
        }
        world.pass(SECOND * 10);
        for router in [REFLECTOR, ALL, BEST, ONE] {
            let view = world.routers[router].speaker.tables().view(<Ipv4Prefix as Sharded>::INDEX);
            assert_eq!((view.prefixes, view.attribute_sets), (0, 0), "{router}");
        }
    }
}
