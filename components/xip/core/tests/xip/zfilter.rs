//! zFilters: matches, copies, the rate of false positives, and features of the original that carry over (LIPSIN, SIGCOMM 2009).

use crate::world::{Dag, World, exact, of, xid};
use sluice_base::{Rng, Xid, XidType};
use sluice_xip::answer::{Action, Answer, NeighborId};
use sluice_xip::counters::Reason;
use sluice_xip::ports::Port;
use sluice_xip::principals::zf::{Shape, ZfPrincipal};
use sluice_xip::registry::Registered;
use sluice_xip::route::{ChangeError, Route};
use sluice_xip::router::Limits;
use sluice_xip::row::{Edge, Row};
use sluice_xip::walk::Routed;
use std::collections::BTreeSet;

/// The link IDs of the original, in the bits of an XID: 5 one-bits of 160.
const SHAPE: Shape = Shape { bits: 160, ones: Some(5) };
/// Links of a router.
const LINKS: u32 = 400;

fn filter(kind: XidType, links: &[[u8; 20]]) -> Xid {
    let mut id = [0; 20];
    for link in links {
        id.iter_mut().zip(link).for_each(|(octet, link)| *octet |= link);
    }
    Xid { kind, id }
}

/// Draws a link ID: `ones` different bits of the first `bits`.
fn link_id(rng: &mut Rng, shape: Shape) -> [u8; 20] {
    let (mut id, mut left) = ([0_u8; 20], shape.ones.unwrap());
    while left > 0 {
        let bit = rng.below(u64::from(shape.bits)) as usize;
        let (octet, mask) = (&mut id[bit / 8], 0x80 >> (bit % 8));
        left -= u8::from(*octet & mask == 0);
        *octet |= mask;
    }
    id
}

/// A router whose links lead to neighbors 0, 1, ... over hosts.
fn router_with(kind: XidType, shape: Shape, links: &[[u8; 20]]) -> World {
    let mut world = World::new(Limits { copies: 1_000, ..Limits::default() });
    world.register(Registered::Inside(Box::new(ZfPrincipal::new(kind, shape))));
    for (place, id) in (0_u32..).zip(links) {
        let mut gateway = of(XidType::HID, 0);
        gateway.id[..4].copy_from_slice(&place.to_be_bytes());
        world.route(gateway, Route::Neighbor(NeighborId(place)));
        world.route(Xid { kind, id: *id }, Route::Redirect(gateway));
    }
    world
}

fn row_to(xid: Xid, is_sink: bool) -> Row {
    Row { edges: [Edge { xid, is_sink }].into_iter().collect(), is_input: true }
}

/// Returns the neighbors that get a copy.
fn copies(world: &mut World, row: &Row) -> BTreeSet<u32> {
    match world.answer(row) {
        Some(Answer::Chosen { action: Action::Replicate { ports, .. }, .. }) => {
            let number = |port: &Port| match port {
                Port::Neighbor(neighbor) => neighbor.0,
                Port::Tunnel(_) => panic!("no tunnels here"),
            };
            world.router.ports().set(ports).unwrap().iter().map(number).collect()
        }
        Some(Answer::Unreachable) => BTreeSet::new(),
        other => panic!("{other:?}"),
    }
}

/// Returns the share of links outside of a tree over which a router sends copies: the filter has `members` links of `SHAPE`.
fn false_positives(rng: &mut Rng, world: &mut World, members: usize, filters: usize) -> f64 {
    let mut copied = 0;
    for _ in 0..filters {
        let tree: Vec<_> = (0..members).map(|_| link_id(rng, SHAPE)).collect();
        copied += copies(world, &row_to(filter(XidType::ZF, &tree), false)).len();
    }
    copied as f64 / (filters as f64 * f64::from(LINKS))
}

/// Returns the probability that a link outside of a tree is in the tree's filter: all its bits are set by `members` links.
fn theory(members: i32, shape: Shape) -> f64 {
    let (ones, bits) = (f64::from(shape.ones.unwrap()), f64::from(shape.bits));
    (1.0 - (1.0 - ones / bits).powi(members)).powf(ones)
}

#[test]
fn false_positives_are_as_rare_as_in_theory_and_rarer_with_two_filters() {
    let mut rng = Rng::from_seed(11);
    let links: Vec<_> = (0..LINKS).map(|_| link_id(&mut rng, SHAPE)).collect();
    let mut world = router_with(XidType::ZF, SHAPE, &links);
    let mut rates = Vec::new();
    for members in [32, 24, 16] {
        let (measured, expected) =
            (false_positives(&mut rng, &mut world, members, 1_500), theory(members as i32, SHAPE));
        println!(
            "{members} links in a filter: {measured:.5} of the links outside get a copy, in theory {expected:.5}"
        );
        assert!((measured / expected - 1.0).abs() < 0.1, "{measured} {expected}");
        rates.push(measured);
    }
    // The same tree of 32 links in two filters, one behind the other: each router sees the filter of its half only.
    let two = rates[2];
    println!("32 links in one filter: {:.5}, in two filters: {two:.5}", rates[0]);
    assert!(two < rates[0] / 3.0);
}

#[test]
fn an_address_may_hold_several_filters_one_for_each_part_of_the_tree() {
    let mut rng = Rng::from_seed(5);
    let links: Vec<_> = (0..6).map(|_| link_id(&mut rng, SHAPE)).collect();
    let text = |xid: Xid| xid.to_string();
    let first = filter(XidType::ZF, &links[..3]);
    let second = filter(XidType::ZF, &links[3..]);
    let address =
        format!("{}-1:{}-2:xdp-d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1-0", text(first), text(second));
    let mut upper = router_with(XidType::ZF, SHAPE, &links[..2]);
    let mut packet = Dag::new(&address);
    assert!(matches!(upper.packet(&mut packet), Routed::Replicate { local: None, .. }));
    // The router between both parts is the last link of the first filter, and has links of the second.
    let mut middle = router_with(XidType::ZF, SHAPE, &links[3..]);
    middle.route(Xid { kind: XidType::ZF, id: links[2] }, Route::Local);
    assert!(matches!(middle.packet(&mut packet), Routed::Replicate { local: None, hop_limit: 127, .. }));
    assert_eq!(packet.last_node, 0, "the first filter is reached, the second is not");
}

#[test]
fn links_match_if_all_their_bits_are_in_the_filter() {
    let long = |text: &str| xid(&format!("{text:0<43}"));
    for (link, matches) in [("zf-01", true), ("zf-0010", true), ("zf-0120", false), ("zf-", true)] {
        let mut world = World::new(Limits::default());
        world.route(long(link), Route::Redirect(of(XidType::HID, 1)));
        world.route(of(XidType::HID, 1), Route::Neighbor(NeighborId(1)));
        assert_eq!(copies(&mut world, &row_to(long("zf-0110"), false)).len(), usize::from(matches), "{link}");
    }
}

#[test]
fn the_form_of_link_ids_is_enforced_where_it_is_set() {
    let shape = Shape { bits: 132, ones: Some(2) };
    let mut world = World::new(Limits::default());
    world.register(Registered::Inside(Box::new(ZfPrincipal::new(XidType::ZF, shape))));
    let with_bits = |bits: &[usize]| {
        let mut xid = of(XidType::ZF, 0);
        bits.iter().for_each(|bit| xid.id[bit / 8] |= 0x80 >> (bit % 8));
        xid
    };
    for (bits, expected) in [
        (vec![0, 131], Ok(1)),
        (vec![0, 132], Err(ChangeError::IllFormed)),
        (vec![0], Err(ChangeError::IllFormed)),
        (vec![0, 1, 2], Err(ChangeError::IllFormed)),
        (vec![], Err(ChangeError::IllFormed)),
    ] {
        let changed = world.router.change(exact(with_bits(&bits)), Some(Route::Local));
        assert_eq!(changed.map(|touched| touched.len()), expected, "{bits:?}");
    }
}

#[test]
fn this_node_gets_a_copy_that_goes_on_and_gateways_are_resolved_by_their_principals() {
    let mut world = World::new(Limits::default());
    let link = |n| of(XidType::ZF, n);
    let row = row_to(link(7), false);
    world.route(link(1), Route::Redirect(of(XidType::AD, 1)));
    assert_eq!(
        world.answer(&row),
        Some(Answer::Unreachable),
        "a link whose gateway leads nowhere is no way out"
    );
    world.route(of(XidType::AD, 1), Route::Redirect(of(XidType::HID, 1)));
    world.route(of(XidType::HID, 1), Route::Neighbor(NeighborId(1)));
    assert_eq!(copies(&mut world, &row), BTreeSet::from([1]));
    world.route(link(2), Route::Redirect(of(XidType::HID, 2)));
    world.route(of(XidType::HID, 2), Route::Neighbor(NeighborId(2)));
    assert_eq!(copies(&mut world, &row), BTreeSet::from([1, 2]));
    world.set_neighbor(NeighborId(1), false);
    assert_eq!(copies(&mut world, &row), BTreeSet::from([2]));
    world.set_neighbor(NeighborId(1), true);
    world.route(link(4), Route::Local);
    for (is_sink, wanted) in [(false, true), (true, false)] {
        let Some(Answer::Chosen { action: Action::Replicate { local, .. }, .. }) =
            world.answer(&row_to(link(7), is_sink))
        else {
            panic!("not copied");
        };
        assert_eq!(local, wanted, "this node's copy needs a row behind the filter");
    }
    world.change(exact(link(1)), None);
    world.change(exact(link(2)), None);
    assert_eq!(world.answer(&row), Some(Answer::Chosen { edge: 0, action: Action::Dig }));
    let before = world.flushed;
    world.route(link(8), Route::Local);
    assert_eq!(world.flushed, before, "a link that is in no filter touches nothing");
    world.check();
}

#[test]
fn a_filter_alone_reaches_two_receivers_by_redirects_alone() {
    let address = "zf-0110000000000000000000000000000000000000-0";
    let links = [1_u8, 0x10].map(|bits| {
        let mut id = [0; 20];
        id[usize::from(bits == 0x10)] = bits;
        id
    });
    let mut router = router_with(XidType::ZF, Shape::default(), &links);
    let mut packet = Dag::new(address);
    assert!(matches!(router.packet(&mut packet), Routed::Replicate { local: None, .. }));
    let mut receiver = World::new(Limits::default());
    let socket = of(XidType::XDP, 1);
    receiver.route(Xid { kind: XidType::ZF, id: links[0] }, Route::Redirect(socket));
    receiver.route(socket, Route::Local);
    assert_eq!(receiver.packet(&mut packet), Routed::Deliver(0));
    assert_eq!(receiver.router.receiver(xid(&address[..43])), Some(socket));
}

#[test]
fn more_gateways_than_the_limit_are_refused() {
    let mut world = World::new(Limits { copies: 2, ..Limits::default() });
    for n in [1, 2, 4] {
        world.route(of(XidType::ZF, n), Route::Redirect(of(XidType::HID, n)));
        world.route(of(XidType::HID, n), Route::Neighbor(NeighborId(u32::from(n))));
    }
    let full = row_to(of(XidType::ZF, 0xff), false);
    assert_eq!(world.answer(&full), Some(Answer::Chosen { edge: 0, action: Action::Drop }));
    assert_eq!(world.router.counters().by_reason(Reason::TooManyCopies), 1);
    assert_eq!(copies(&mut world, &row_to(of(XidType::ZF, 3), false)).len(), 2);
}

/// Link ID tags: each link has several link IDs, and the maker of a packet chooses the table with the fewest false positives. A table is
/// an instance of the principal under a type of its own.
#[test]
fn link_id_tags_carry_over_as_instances_of_the_principal() {
    let mut rng = Rng::from_seed(21);
    let tables: Vec<XidType> = (0..8).map(|table| XidType(0x60 + table)).collect();
    let mut draw = |count: usize| -> Vec<Vec<[u8; 20]>> {
        (0..8).map(|_| (0..count).map(|_| link_id(&mut rng, SHAPE)).collect()).collect()
    };
    let foreign = draw(100);
    let mut worlds: Vec<World> =
        tables.iter().zip(&foreign).map(|(kind, links)| router_with(*kind, SHAPE, links)).collect();
    let (mut first, mut best) = (0, 0);
    for _ in 0..60 {
        let tree = draw(24);
        let filters = tables.iter().zip(&tree).map(|(kind, tree)| row_to(filter(*kind, tree), false));
        let counts: Vec<usize> =
            filters.zip(&mut worlds).map(|(row, world)| copies(world, &row).len()).collect();
        first += counts[0];
        best += counts.iter().min().unwrap();
    }
    println!("copies to links outside of the trees: {first} with one table, {best} with the best of eight");
    assert!(best * 2 < first);
}

/// Virtual links: one link ID for a path of several links, which each router of the path knows as its own.
#[test]
fn virtual_links_carry_over_as_link_ids_of_several_routers() {
    let mut rng = Rng::from_seed(31);
    let path = link_id(&mut rng, SHAPE);
    let others: Vec<_> = (0..3).map(|_| link_id(&mut rng, SHAPE)).collect();
    let row = row_to(filter(XidType::ZF, &[path]), false);
    for other in &others {
        let mut router = router_with(XidType::ZF, SHAPE, &[path, *other]);
        assert_eq!(copies(&mut router, &row), BTreeSet::from([0]), "the path's link, and no link beside it");
    }
}

/// zFormation: link IDs are computed from a key that changes with time, so that filters cannot be kept and replayed.
#[test]
fn keyed_link_ids_carry_over_and_filters_of_an_old_key_are_worth_nothing() {
    let keyed = |key: u64, link: u64| link_id(&mut Rng::from_seed(key ^ (link << 32)), SHAPE);
    let links = |key| (0..3).map(|link| keyed(key, link)).collect::<Vec<_>>();
    let mut world = router_with(XidType::ZF, SHAPE, &links(1));
    let old = row_to(filter(XidType::ZF, &links(1)), false);
    let new = row_to(filter(XidType::ZF, &links(2)), false);
    assert_eq!((copies(&mut world, &old).len(), copies(&mut world, &new).len()), (3, 0));
    for (place, id) in (0_u32..).zip(links(2)) {
        let mut gateway = of(XidType::HID, 0);
        gateway.id[..4].copy_from_slice(&place.to_be_bytes());
        world.change(exact(Xid { kind: XidType::ZF, id: links(1)[place as usize] }), None);
        world.change(exact(Xid { kind: XidType::ZF, id }), Some(Route::Redirect(gateway)));
    }
    assert_eq!((copies(&mut world, &old).len(), copies(&mut world, &new).len()), (0, 3));
    world.check();
}
