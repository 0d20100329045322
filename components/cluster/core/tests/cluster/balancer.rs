//! The balancer's machine: the words that it stores, and the decisions that follow from them.

use crate::world::{World, frame4, id};
use sluice_base::Instant;
use sluice_cluster::balancer::{Balancer, Input, Output};
use sluice_cluster::decision::{Arrival, Decision, Turns, decide};
use sluice_cluster::frame::{InnerMac, Mac};
use sluice_cluster::inventory::PortNumber;
use sluice_cluster::inventory::Role;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Mirror, Place, Store};
use sluice_machine::{Machine, Outbox};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn stores_lead_from_any_words_to_those_of_a_fresh_machine() {
    let fresh = World::standard(Policy::default());
    // An earlier process left words of ports, neighbors and elements that do not exist any more.
    let junk = (0..3000u32).map(|number| {
        let map = Map::WRITTEN[number as usize % Map::WRITTEN.len()];
        let place = Place::new(map, number % map.entries(), (number / 7 % u32::from(map.words())) as u16);
        Store { place, value: u64::from(number) << 32 | 7 }
    });
    let mirror = Mirror::found(junk);
    let mut words: BTreeMap<Place, u64> = mirror.iter().map(|store| (store.place, store.value)).collect();
    let mut world = World::of(mirror);
    world.fill(Policy::default());
    world.input(Input::Complete);
    for output in world.outputs {
        let Output::Store(Store { place, value }) = output else { panic!("{output:?}") };
        words.insert(place, value);
    }
    words.retain(|_, value| *value != 0);
    // The places of neighbors and addresses may differ, but not their contents.
    let (mut expected, mut found) = (vec![], vec![]);
    for Store { place, value } in fresh.balancer.mirror().iter() {
        expected.push((if place.map < Map::Neighbors { Some(place) } else { None }, place.map, value));
    }
    for (place, value) in words {
        found.push((if place.map < Map::Neighbors { Some(place) } else { None }, place.map, value));
    }
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(expected, found);
}

#[test]
fn an_unchanged_input_stores_nothing() {
    let mut world = World::standard(Policy::default());
    world.outputs.clear();
    world.fill(Policy::default());
    assert_eq!(world.outputs, []);
}

#[test]
fn a_lost_router_moves_its_own_flows_only() {
    let mut world = World::standard(Policy::default());
    let flows: Vec<Vec<u8>> = (0..2000u32).map(|flow| frame4(flow, 0)).collect();
    let before: Vec<u16> = flows.iter().map(|frame| world.element(frame)).collect();
    world.input(Input::InService([1, 2, 4, 9].map(id).into()));
    let after: Vec<u16> = flows.iter().map(|frame| world.element(frame)).collect();
    let (mut own, mut others) = (0, 0);
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(*after, 3);
        own += u32::from(*before == 3);
        others += u32::from(*before != 3 && before != after);
    }
    assert!(own > 400 && others < 150, "{own} and {others}");
}

#[test]
fn a_class_without_elements_drops_and_a_class_that_is_off_is_class_0() {
    let filter = ClassPolicy { mode: Mode::Flow, role: Role::Filter };
    let router = ClassPolicy { mode: Mode::RoundRobin, role: Role::Router };
    let mut world = World::standard(Policy::new([(0, router), (1, filter)], [(10, 1)]).unwrap());
    let arrival = |frame| Arrival { interface: 10, frame, now: 1 << 40 };
    let (plain, marked) = (frame4(1, 0), frame4(1, 10 << 2));
    let decide =
        |world: &World, frame| decide(world.balancer.mirror(), &mut Turns::default(), arrival(frame));
    assert!(matches!(decide(&world, &plain), Decision::Send { reason: Reason::Balanced, .. }));
    assert_eq!(decide(&world, &marked), Decision::Drop(Reason::NoRouter));
    world.input(Input::Policy(Policy::new([(0, router)], []).unwrap()));
    assert!(matches!(decide(&world, &marked), Decision::Send { reason: Reason::Balanced, .. }));
}

#[test]
fn drained_elements_and_weights_of_0_get_nothing() {
    let weighted = ClassPolicy { mode: Mode::Weighted, role: Role::Router };
    let mut world = World::standard(Policy::new([(0, weighted)], []).unwrap());
    let count = |world: &World| {
        let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
        (0..3000).for_each(|flow| *counts.entry(world.element(&frame4(flow, 0))).or_default() += 1);
        counts
    };
    // The weights are 1, 2 and 3 for the elements 2, 3 and 4.
    let counts = count(&world);
    assert!(counts[&3] > counts[&2] + 300 && counts[&4] > counts[&3] + 300, "{counts:?}");
    world.input(Input::InService([1, 2, 4, 9].map(id).into()));
    assert_eq!(count(&world).keys().copied().collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn neighbors_with_addresses_of_elements_are_not_taken_in() {
    let mut world = World::standard(Policy::default());
    world.outputs.clear();
    let port = PortNumber::new(1).unwrap();
    world.input(Input::Neighbor(InnerMac { element: id(2), port: 1 }.mac(), [port].into()));
    world.input(Input::Neighbor(Mac([0xff; 6]), [port].into()));
    assert_eq!(world.outputs, []);
}

#[test]
fn a_full_table_of_neighbors_is_reported() {
    let mut balancer = Balancer::new(id(1), 7, Mirror::default());
    let mut out = Outbox::new();
    let port: BTreeSet<PortNumber> = PortNumber::new(1).into_iter().collect();
    for number in 0..20_000u32 {
        let [a, b, c, d] = number.to_be_bytes();
        balancer.handle(Instant::ZERO, Input::Neighbor(Mac([2, 1, a, b, c, d]), port.clone()), &mut out);
    }
    let refused = out.as_slice().iter().position(|output| matches!(output, Output::NoRoomForNeighbor(_)));
    // 16384 places: with two lines a neighbor, the first refusal comes late.
    assert!(refused.is_some_and(|at| at > 12_000), "{refused:?}");
}
