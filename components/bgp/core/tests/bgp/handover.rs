//! A live upgrade of a router: neighbors do not notice.

use crate::world::World;
use proptest::prelude::*;
use sluice_base::{AnyPrefix, Duration, FamilyId, Ipv4Prefix, Ipv6Prefix, XidPrefix};
use sluice_bgp::shard::RouteView;
use sluice_bgp::speaker::{Identity, Output, Speaker};
use sluice_bgp::table::Sharded;
use sluice_machine::{Machine, Outbox};

const SECOND: Duration = Duration::from_secs(1);

/// Addresses of the sessions: router 1's towards neighbors, and the neighbors'.
struct Addresses {
    own: [&'static str; 3],
    neighbors: [&'static str; 3],
    /// Addresses of the second family, by router: next hops of routes.
    others: [&'static str; 4],
}

const IPV4: Addresses = Addresses {
    own: ["10.0.0.2", "10.0.1.2", "10.0.2.2"],
    neighbors: ["10.0.0.1", "10.0.1.1", "10.0.2.1"],
    others: ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"],
};
const IPV6: Addresses = Addresses {
    own: ["2001:db8::2", "2001:db8:0:1::2", "2001:db8:0:2::2"],
    neighbors: ["2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:2::1"],
    others: ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"],
};
/// The routers around router 1: two outside, one inside.
const AROUND: [usize; 3] = [0, 2, 3];

/// Two neighbors outside and one inside, around router 1.
fn around(addresses: &Addresses) -> World {
    let Addresses { own, neighbors: [a, c, d], others } = addresses;
    let center = [own[0], own[1], own[2], others[1]];
    let mut world = World::new(&[
        (65001, &[a, others[0]]),
        (65002, &center),
        (65003, &[c, others[2]]),
        (65002, &[d, others[3]]),
    ]);
    let ends = || AROUND.into_iter().zip(addresses.neighbors).zip(addresses.own);
    for ((n, neighbor), own) in ends() {
        world.peer((n, neighbor), (1, own), |_| {});
    }
    world.cut_messages = true;
    world.configure_all();
    for ((n, neighbor), own) in ends() {
        world.until_up((n, neighbor), (1, own), SECOND * 30);
    }
    world
}

fn content<P: Sharded>(speaker: &Speaker) -> Vec<RouteView<P>> {
    let mut all: Vec<RouteView<P>> = speaker.tables().routes::<P>().collect();
    all.sort_by_key(|r| r.prefix);
    all
}

/// Replaces a router's process by one with a different number of tables.
fn hand_over(world: &mut World, router: usize, tables: u16, neighbors: &[&str]) {
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
    assert_eq!(content::<XidPrefix>(before), content::<XidPrefix>(&after));
    for neighbor in neighbors {
        let address = neighbor.parse().unwrap();
        let view = |speaker: &Speaker| speaker.neighbor(address).unwrap();
        let (old, new) = (view(before), view(&after));
        assert_eq!((old.state, old.established_at, old.flaps), (new.state, new.established_at, new.flaps));
        assert_eq!((old.sent, old.received), (new.sent, new.received));
        let mut octets = vec![];
        assert!(
            !after.fill(now, address, 100_000, &mut octets) && octets.is_empty(),
            "{neighbor} is sent routes again"
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

/// Lets routers announce one thing after the other; `hand_overs` selects the steps before which router 1 is taken over. Returns
/// every router's routes in the end, and the number of UPDATEs of router 1 to each neighbor.
fn live(
    addresses: &Addresses,
    steps: &[Step],
    hand_overs: &[(usize, u16)],
) -> (Vec<Vec<AnyPrefix>>, Vec<u64>) {
    let mut world = around(addresses);
    for (number, (router, networks, wait)) in steps.iter().enumerate() {
        for (_, tables) in hand_overs.iter().filter(|(at, _)| *at == number) {
            hand_over(&mut world, 1, *tables, &addresses.neighbors);
        }
        let networks = networks.iter().flat_map(|n| {
            let texts = [
                format!("192.{n}.0.0/16"),
                format!("2001:db8:{n:x}::/48"),
                format!("ad-{n:02x}00000000000000000000000000000000000000"),
            ];
            texts.map(|text| text.parse().unwrap())
        });
        world.routers[*router].config.networks = networks.collect();
        world.configure(*router);
        world.pass(Duration::from_millis(*wait));
    }
    world.pass(SECOND * 200);
    world.check();
    for router in AROUND {
        assert_eq!(world.ups(router), 1, "a session went down");
    }
    let ribs = world.routers.iter().map(|r| r.rib.keys().copied().collect()).collect();
    let speaker = &world.routers[1].speaker;
    let sent = addresses.neighbors.map(|n| speaker.neighbor(n.parse().unwrap()).unwrap().sent.update);
    (ribs, sent.to_vec())
}

/// Checks that routes of each family went through router 1.
fn has_all(rib: &[AnyPrefix]) -> bool {
    let families = [FamilyId::IPV4, FamilyId::IPV6, FamilyId::XID];
    families.into_iter().all(|family| rib.iter().any(|prefix| prefix.family() == family))
}

fn no_neighbor_receives_anything_again(addresses: &Addresses) {
    let steps = [(0, vec![1, 2], 1000), (2, vec![2, 3], 1000), (3, vec![4], 1000), (0, vec![2], 1000)];
    let expected = live(addresses, &steps, &[]);
    assert!(expected.0.iter().all(|rib| has_all(rib)), "{expected:?}");
    assert_eq!(live(addresses, &steps, &[(1, 2), (2, 1), (3, 5)]), expected);
    // While messages are on their way, cut in two.
    let steps = steps.map(|(router, networks, _)| (router, networks, 7));
    let (ribs, _) = live(addresses, &steps, &[]);
    assert_eq!(live(addresses, &steps, &[(1, 2), (2, 1), (3, 5)]).0, ribs);
}

#[test]
fn no_neighbor_receives_anything_again_over_ipv4() {
    no_neighbor_receives_anything_again(&IPV4);
}

#[test]
fn no_neighbor_receives_anything_again_over_ipv6() {
    no_neighbor_receives_anything_again(&IPV6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_makes_no_difference(
        steps in prop::collection::vec(
            (prop::sample::select(AROUND.to_vec()), prop::collection::vec(1..9_u8, 0..6), 1..40_u64), 1..8),
        at in prop::collection::vec((0..8_usize, 1..4_u16), 1..4),
    ) {
        for addresses in [&IPV4, &IPV6] {
            let (expected, _) = live(addresses, &steps, &[]);
            prop_assert_eq!(live(addresses, &steps, &at).0, expected);
        }
    }
}
