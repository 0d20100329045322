//! A router that is taken over by another process in the middle of its life: neighbours cannot tell.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so

#[allow(dead_code)] // each test uses a part of it
mod world;

use proptest::prelude::*;
use sluice_base::{Duration, IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::shard::RouteView;
use sluice_bgp::speaker::{Identity, Output, Speaker};
use sluice_bgp::table::Sharded;
use sluice_machine::{Machine, Outbox};
use world::World;

const A: &str = "10.0.0.1";
const B: [&str; 3] = ["10.0.0.2", "10.0.1.2", "10.0.2.2"];
const C: &str = "10.0.1.1";
const D: &str = "10.0.2.1";
const SECOND: Duration = Duration::from_secs(1);

/// Two neighbours outside and one inside, around router 1.
fn around() -> World {
    let b = [B[0], B[1], B[2], "2001:db8::2"];
    let mut world = World::new(&[(65001, &[A]), (65002, &b), (65003, &[C]), (65002, &[D])]);
    world.peer((0, A), (1, B[0]), |_| {});
    world.peer((1, B[1]), (2, C), |_| {});
    world.peer((1, B[2]), (3, D), |_| {});
    world.cut_messages = true;
    world.configure_all();
    for (n, own, there) in [(0, A, B[0]), (2, C, B[1]), (3, D, B[2])] {
        world.until_up((n, own), (1, there), SECOND * 30);
    }
    world
}

fn content<P: Sharded>(speaker: &Speaker) -> Vec<RouteView<P>> {
    let mut all: Vec<RouteView<P>> = speaker.tables().routes::<P>().collect();
    all.sort_by_key(|r| r.prefix);
    all
}

/// Puts another process in the place of a router's, with another number of tables.
fn hand_over(world: &mut World, router: usize, tables: u16) {
    world.rest(router);
    let now = world.now;
    let before = &world.routers[router].speaker;
    let state = before.export();
    let seed = state.control.identity.seed.wrapping_add(tables.into());
    let identity = Identity { seed, tables, source: 77, ..state.control.identity.clone() };
    let mut after = Speaker::starting_at(identity, now);
    after.check(true);
    let mut out = Outbox::new();
    after.import(now, state, &mut out);
    assert_eq!(content::<Ipv4Prefix>(before), content::<Ipv4Prefix>(&after));
    assert_eq!(content::<Ipv6Prefix>(before), content::<Ipv6Prefix>(&after));
    for neighbor in [A, C, D] {
        let address = neighbor.parse().unwrap();
        let view = |speaker: &Speaker| speaker.neighbor(address).unwrap();
        let (old, new) = (view(before), view(&after));
        assert_eq!((old.state, old.established_at, old.flaps), (new.state, new.established_at, new.flaps));
        assert_eq!((old.sent, old.received), (new.sent, new.received));
        let mut octets = vec![];
        assert!(
            !after.fill(now, address, 100_000, &mut octets) && octets.is_empty(),
            "{neighbor} is told again"
        );
    }
    let said: Vec<Output> = out.drain().collect();
    let speaks = |o: &Output| {
        matches!(o, Output::Connect(..) | Output::Close(..) | Output::Send(..) | Output::Transmit(..))
    };
    assert!(!said.iter().any(speaks), "{said:?}");
    world.replace(router, after, said);
}

/// Networks that routers announce at some time, and which of the three.
type Step = (usize, Vec<u8>, u64);

/// Lets routers announce one thing after the other; `hand_overs` says before which step router 1 is taken over. What every
/// router has in the end, and how many UPDATEs router 1 sent to each neighbour.
fn live(steps: &[Step], hand_overs: &[(usize, u16)]) -> (Vec<Vec<IpPrefix>>, Vec<u64>) {
    let mut world = around();
    for (number, (router, networks, wait)) in steps.iter().enumerate() {
        for (_, tables) in hand_overs.iter().filter(|(at, _)| *at == number) {
            hand_over(&mut world, 1, *tables);
        }
        let networks = networks.iter().flat_map(|n| {
            [format!("192.{n}.0.0/16").parse().unwrap(), format!("2001:db8:{n:x}::/48").parse().unwrap()]
        });
        world.routers[*router].config.networks = networks.collect();
        world.configure(*router);
        world.pass(Duration::from_millis(*wait));
    }
    world.pass(SECOND * 200);
    world.check();
    for router in [0, 2, 3] {
        assert_eq!(world.ups(router), 1, "a session went down");
    }
    let ribs = world.routers.iter().map(|r| r.rib.keys().copied().collect()).collect();
    let sent = [A, C, D].map(|n| world.routers[1].speaker.neighbor(n.parse().unwrap()).unwrap().sent.update);
    (ribs, sent.to_vec())
}

#[test]
fn nobody_is_told_anything_again() {
    let steps = [(0, vec![1, 2], 1000), (2, vec![2, 3], 1000), (3, vec![4], 1000), (0, vec![2], 1000)];
    let expected = live(&steps, &[]);
    assert_eq!(live(&steps, &[(1, 2), (2, 1), (3, 5)]), expected);
    // While messages are on their way, cut in two.
    let steps = steps.map(|(router, networks, _)| (router, networks, 7));
    let (ribs, _) = live(&steps, &[]);
    assert_eq!(live(&steps, &[(1, 2), (2, 1), (3, 5)]).0, ribs);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_makes_no_difference(
        steps in prop::collection::vec(
            (prop::sample::select(vec![0_usize, 2, 3]), prop::collection::vec(1..9_u8, 0..6), 1..40_u64), 1..8),
        at in prop::collection::vec((0..8_usize, 1..4_u16), 1..4),
    ) {
        let (expected, _) = live(&steps, &[]);
        prop_assert_eq!(live(&steps, &at).0, expected);
    }
}
