//! Small worlds: they converge, every router knows every prefix, and a seed has a single history.

use sluice_base::TableId;
use sluice_sim::host::ProcessId;
use sluice_sim::network::{Link, Network, Node};
use sluice_sim::scenario::{Step, What};
use sluice_sim::simulate::{self, Plan};
use sluice_sim::world::{SECOND, Settings, World};

/// Routers in a ring, each in an AS of its own, with `networks` prefixes each.
fn ring(count: u32, networks: u32) -> Network {
    let nodes = (0..count).map(|n| Node::new(65000 + n)).collect();
    let links = (0..count).map(|a| Link {
        bandwidth: 1_250_000,
        ..Link::new(a, (a + 1) % count, 2_000_000 + u64::from(a) * 300_000)
    });
    let mut network = Network { nodes, links: links.collect() };
    simulate::originate(&mut network, networks);
    network
}

fn bgp() -> ProcessId {
    ProcessId::named("bgp").unwrap()
}

fn plan(network: Network, settings: Settings, seed: u64) -> Plan {
    Plan { network, seed, settings, until: 600, boot_spread: SECOND }
}

fn routes_in_kernel(world: &mut World, node: usize) -> usize {
    world.hosts[node].look_at_kernel().unwrap().routes.keys().filter(|(t, _)| *t == TableId::MAIN).count()
}

#[test]
fn light_routers_learn_everything() {
    let (summary, _) = simulate::run(plan(ring(8, 3), Settings::light(), 1), |_| {});
    assert!(summary.quiet, "{summary:?}");
    assert_eq!((summary.sessions, summary.complete, summary.routes), (8, 8, 8 * 24));
}

#[test]
fn full_routers_forward_everything() {
    for ipv6 in [false, true] {
        let (summary, mut world) =
            simulate::run(plan(ring(6, 3), Settings { ipv6, ..Settings::full() }, 1), |_| {});
        assert!(summary.quiet, "{summary:?}");
        world.run_until(60 * SECOND);
        assert_eq!(world.established(), 12);
        for node in 0..6 {
            assert_eq!(routes_in_kernel(&mut world, node), 15);
            assert!(world.hosts[node].is_settled());
        }
    }
}

#[test]
fn one_seed_has_one_history() {
    for settings in
        [Settings::light(), Settings::full(), Settings { ipv6: true, slice: 3, ..Settings::full() }]
    {
        let history = |seed| {
            let (_, mut world) = simulate::run(plan(ring(7, 2), settings.clone(), seed), |world| {
                let degrade = What::Degrade { link: 0, loss: 100_000, reorder: 100_000, delay: 4_000_000 };
                world.schedule(Step { at_ms: 10, what: degrade });
                world.schedule(Step { at_ms: 5_000, what: What::Kill { node: 2, process: bgp() } });
                world.schedule(Step { at_ms: 6_000, what: What::Start { node: 2, process: bgp() } });
                world.schedule(Step { at_ms: 7_000, what: What::CrashNode { node: 3 } });
            });
            world.run_until(200 * SECOND);
            (world.fabric.history.hash(), world.fabric.history.events)
        };
        assert_eq!(history(5), history(5));
        assert_ne!(history(5).0, history(6).0);
    }
}

#[test]
fn processes_die_alone() {
    let (_, mut world) = simulate::run(plan(ring(5, 2), Settings::full(), 3), |_| {});
    world.run_until(30 * SECOND);
    for process in ProcessId::single() {
        let at = world.fabric.now / 1_000_000 + 1;
        world.schedule(Step { at_ms: at, what: What::Kill { node: 1, process } });
        world.schedule(Step { at_ms: at + 500, what: What::Start { node: 1, process } });
        let now = world.fabric.now;
        // While it is gone, and after it is back, packets are forwarded.
        for millis in [200, 600, 1000, 5000, 20_000, 60_000, 170_000] {
            world.run_until(now + millis * 1_000_000);
            assert_eq!(routes_in_kernel(&mut world, 1), 8, "{process:?} {millis} ms after its death");
        }
        assert_eq!(world.established(), 10, "{process:?}");
    }
}

#[test]
fn a_cut_is_noticed_when_the_hold_time_is_over() {
    let (_, mut world) = simulate::run(plan(ring(4, 1), Settings::light(), 3), |_| {});
    world.schedule(Step { at_ms: 10_000, what: What::Cut { link: 0 } });
    world.run_until(60 * SECOND);
    assert_eq!(world.established(), 8);
    world.run_until(110 * SECOND);
    assert_eq!(world.established(), 6);
    world.schedule(Step { at_ms: 120_000, what: What::Heal { link: 0 } });
    world.run_until(400 * SECOND);
    assert_eq!(world.established(), 8);
    // A short one is bridged by TCP.
    world.schedule(Step { at_ms: 400_000, what: What::Cut { link: 1 } });
    world.schedule(Step { at_ms: 430_000, what: What::Heal { link: 1 } });
    world.run_until(600 * SECOND);
    let flaps: u64 = world.hosts.iter().map(|h| h.bgp().unwrap().flaps.1).sum();
    assert_eq!((world.established(), flaps), (8, 2));
}
