//! A router with two instances of BGP and of static routes, each in a table of its own.

use sluice_base::{IpPrefix, Metric, TableId};
use sluice_bgp::speaker::Config;
use sluice_sim::host::{BgpProcess, Configuration, ProcessId};
use sluice_sim::network::{Link, Network, Node};
use sluice_sim::scenario::{Step, What};
use sluice_sim::simulate::{self, Plan};
use sluice_sim::world::{SECOND, Settings, World};
use sluice_static::route::{RouteKind, StaticRoute};
use std::collections::BTreeSet;

const RED: TableId = TableId(101);

/// Router 0 between routers 1 and 2, which originate a prefix each.
fn network() -> Network {
    let nodes = (0..3).map(|n| Node::new(65000 + n)).collect();
    let mut network = Network { nodes, links: vec![Link::new(0, 1, 2_000_000), Link::new(0, 2, 3_000_000)] };
    simulate::originate(&mut network, 1);
    network
}

/// Has router 0 speak with router 2 in an instance.
fn split(world: &mut World) {
    let host = &mut world.hosts[0];
    let mut config = host.configuration.get::<Config>().unwrap().clone();
    let second = config.neighbors.split_off(1);
    host.configuration.change(|bgp: &mut Config| *bgp = config);
    let mut red = Configuration::default();
    red.change(|bgp: &mut Config| *bgp = Config { neighbors: second, ..Config::default() });
    red.change(|routes: &mut Vec<StaticRoute>| {
        let prefix = "203.0.113.0/24".parse::<IpPrefix>().unwrap().into();
        let kind = RouteKind::Discard;
        routes.push(StaticRoute { prefix, kind, distance: None, metric: Metric(0), tags: Vec::new().into() });
    });
    let names: Vec<String> =
        host.add_instance(&["static", "bgp"], red).unwrap().into_iter().map(ProcessId::name).collect();
    assert_eq!(names, ["static@1", "bgp@1"]);
}

fn prefixes(world: &mut World, table: TableId) -> BTreeSet<IpPrefix> {
    let routes = &world.hosts[0].look_at_kernel().unwrap().routes;
    routes.keys().filter(|(at, _)| *at == table).map(|(_, prefix)| *prefix).collect()
}

#[test]
fn instances_have_tables_and_lives_of_their_own() {
    let plan =
        Plan { network: network(), seed: 7, settings: Settings::full(), until: 60, boot_spread: SECOND };
    let (_, mut world) = simulate::run(plan, split);
    world.run_until(60 * SECOND);
    let of_main = prefixes(&mut world, TableId::MAIN);
    let of_red = prefixes(&mut world, RED);
    let announced = |world: &World, node: usize| world.hosts[node].networks()[0];
    let (one, two) = (announced(&world, 1), announced(&world, 2));
    assert!(of_main.contains(&one) && !of_main.contains(&two), "{of_main:?}");
    assert_eq!(of_red, BTreeSet::from([two, "203.0.113.0/24".parse().unwrap()]));
    // Every process dies and comes back; the routes of both tables stay.
    for name in ["static@1", "bgp@1", "bgp", "rib", "fea"] {
        let process = ProcessId::named(name).unwrap();
        let at = world.fabric.now / 1_000_000 + 1;
        world.schedule(Step { at_ms: at, what: What::Kill { node: 0, process } });
        world.schedule(Step { at_ms: at + 500, what: What::Start { node: 0, process } });
        let now = world.fabric.now;
        for seconds in [1, 5, 20, 170] {
            world.run_until(now + seconds * SECOND);
            assert_eq!(prefixes(&mut world, TableId::MAIN), of_main, "{name} after {seconds} s");
            assert_eq!(prefixes(&mut world, RED), of_red, "{name} after {seconds} s");
        }
        assert!(world.hosts[0].is_settled(), "{name}");
    }
    // The session with router 2 is the instance's.
    let flaps = |world: &World, node: usize| world.hosts[node].get::<BgpProcess>().unwrap().flaps;
    let before = flaps(&world, 2);
    let process = ProcessId::named("bgp").unwrap();
    let at = world.fabric.now / 1_000_000 + 1;
    world.schedule(Step { at_ms: at, what: What::Kill { node: 0, process } });
    world.run_until(world.fabric.now + 10 * SECOND);
    assert_eq!(flaps(&world, 2), before);
    assert!(flaps(&world, 1).1 > 0);
}
