//! A large cluster in virtual time: balancers with a port each, as many routers and a control plane find each other, and a tenth of them is
//! lost. 16 of each; 64 of each in the long test.

use crate::switch;
use crate::switch::Switch;
use sluice_base::InterfaceAddress;
use sluice_cluster::event::Event;
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::io::{NeighborState, WantedNeighbor};
use sluice_cluster::mac::Mac;
use sluice_cluster::neighbors::NeighborKey;
use sluice_cluster::settings::Settings;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// The number before that of the first balancer, and of the first router.
const BASES: [u16; 2] = [0, 100];
const CONTROL: u16 = 200;
/// The numbers that end with this digit belong to the elements that are lost.
const LOST_DIGIT: u16 = 7;

/// Returns the numbers of as many balancers and as many routers as in `count`.
fn numbers(count: u16) -> [Range<u16>; 2] {
    BASES.map(|base| base + 1..base + 1 + count)
}

fn all(count: u16) -> Vec<u16> {
    numbers(count).into_iter().flatten().chain([CONTROL]).collect()
}

fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

/// Returns the number of the port of a balancer.
fn port(balancer: u16) -> PortNumber {
    PortNumber::new(balancer).unwrap()
}

/// Returns a neighbor behind the port of a balancer.
fn neighbor(balancer: u16) -> NeighborKey {
    NeighborKey { port: port(balancer), address: [10, 0, balancer as u8, 2].into() }
}

fn settings<const COUNT: u16>(element: u16) -> Settings {
    let mut inventory = Inventory::default();
    for number in all(COUNT) {
        let (role, ports) = match number {
            CONTROL => (Role::Control, vec![]),
            number if number > BASES[1] => (Role::Router, vec![]),
            number => {
                let mac = Mac([2, 0, 0, 0, 1, number as u8]);
                (Role::Balancer, vec![OuterPort { number: port(number), interface: "out".into(), mac }])
            }
        };
        let name = number.to_string();
        inventory.put(Element { id: id(number), name, roles: [role].into(), weight: 1, ports }).unwrap();
    }
    let [balancers, _] = numbers(COUNT);
    let addresses = balancers.map(|number| {
        let addr = [10, 0, number as u8, 1].into();
        (port(number), [InterfaceAddress { addr, prefix_len: 24, peer: None }].into())
    });
    switch::settings(id(element), inventory, addresses.collect())
}

/// Each balancer leads packets to these routers, by equal weights.
fn check_shares(switch: &Switch, balancers: &BTreeSet<u16>, routers: &BTreeSet<u16>) {
    let expected: Vec<_> = routers.iter().map(|router| (id(*router), 1)).collect();
    for balancer in balancers {
        assert_eq!(switch.elements[balancer].balancer().unwrap().members(0), expected, "{balancer}");
    }
}

#[test]
fn a_tenth_of_many_elements_is_lost_and_comes_back() {
    lose_a_tenth::<16>();
}

#[test]
fn a_tenth_of_64_balancers_and_64_routers_is_lost_and_comes_back() {
    sluice_testkit::long!("many elements");
    lose_a_tenth::<64>();
}

/// Cuts a tenth of the elements off, and starts half of them anew.
fn lose_a_tenth<const COUNT: u16>() {
    let all = all(COUNT);
    let mut switch = Switch::new(&all, settings::<COUNT>);
    switch.run(Duration::from_secs(2));
    let [balancers, routers] = numbers(COUNT).map(Iterator::collect::<BTreeSet<u16>>);
    check_shares(&switch, &balancers, &routers);

    // What one router wants is resolved by the control plane, and known everywhere.
    let (near, mac) = (neighbor(3), Mac([2, 0, 0, 0, 9, 3]));
    switch.neighbor(101, near, NeighborState::Wanted);
    assert_eq!(switch.neighbors(CONTROL), [(near, WantedNeighbor::Resolved)]);
    switch.neighbor(CONTROL, near, NeighborState::Known(mac));
    assert!(switch.elements.values().all(|element| element.neighbors() == [(near, mac)]));

    let is_lost = |number: &u16| number % 10 == LOST_DIGIT;
    let lost: BTreeSet<u16> = all.iter().copied().filter(is_lost).collect();
    assert!(lost.len() * 20 > all.len(), "{lost:?}");
    switch.cut_off.clone_from(&lost);
    switch.run(Duration::from_secs(5));
    let stays = |numbers: &BTreeSet<u16>| numbers.difference(&lost).copied().collect::<BTreeSet<u16>>();
    check_shares(&switch, &stays(&balancers), &stays(&routers));
    let events = switch.events(CONTROL);
    assert!(lost.iter().all(|number| events.contains(&Event::ElementLost(id(*number)))));
    // The others know of neighbors as before.
    switch.neighbor(CONTROL, neighbor(4), NeighborState::Known(mac));
    let knows = |switch: &Switch, number: &u16| switch.elements[number].neighbors().len();
    assert!(all.iter().all(|number| knows(&switch, number) == if is_lost(number) { 1 } else { 2 }));

    // Half of the lost elements were only cut off; the other half starts anew.
    switch.cut_off.clear();
    for number in lost.iter().step_by(2) {
        switch.start(*number, 2);
    }
    switch.run(Duration::from_secs(3));
    check_shares(&switch, &balancers, &routers);
    assert!(all.iter().all(|number| knows(&switch, number) == 2));
}
