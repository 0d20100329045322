//! Elements that receive from each other: the control plane's neighbors at routers and balancers, elements that start, fall silent and lie.

use crate::switch;
use crate::switch::{HELLO, Switch, interface};
use sluice_base::{InterfaceEvent, InterfaceIndex};
use sluice_cluster::event::Event;
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::io::{Input, NeighborState, Output, WantedNeighbor};
use sluice_cluster::mac::Mac;
use sluice_cluster::machine::{Cluster, HELLO_TIME};
use sluice_cluster::neighbors::NeighborKey;
use sluice_cluster::settings::Settings;
use sluice_cluster::words::Mirror;
use sluice_machine::{Machine, Outbox};
use std::time::Duration;

const BALANCER: u16 = 1;
const ROUTER: u16 = 11;
const CONTROL: u16 = 21;
const NEIGHBOR: Mac = Mac([2, 0, 0, 0, 9, 1]);

fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn key(last: u8) -> NeighborKey {
    NeighborKey { port: PortNumber::new(1).unwrap(), address: [10, 0, 1, last].into() }
}

fn settings(element: u16) -> Settings {
    let port = OuterPort { number: key(1).port, interface: "out1".into(), mac: Mac([2, 0, 0, 0, 1, 1]) };
    let mut inventory = Inventory::default();
    for (number, role) in [(BALANCER, Role::Balancer), (ROUTER, Role::Router), (CONTROL, Role::Control)] {
        let ports = if role == Role::Balancer { vec![port.clone()] } else { vec![] };
        let element =
            Element { id: id(number), name: number.to_string(), roles: [role].into(), weight: 1, ports };
        inventory.put(element).unwrap();
    }
    let address = sluice_base::InterfaceAddress { addr: [10, 0, 1, 1].into(), prefix_len: 24, peer: None };
    switch::settings(id(element), inventory, [(port.number, [address].into())].into())
}

/// Starts a balancer, a router and a control plane.
fn up() -> Switch {
    Switch::new(&[BALANCER, ROUTER, CONTROL], settings)
}

#[test]
fn a_router_s_wanted_neighbor_is_resolved_and_known_everywhere() {
    let mut switch = up();
    switch.run(Duration::from_secs(3));
    switch.neighbor(ROUTER, key(2), NeighborState::Wanted);
    assert_eq!(switch.neighbors(CONTROL), [(key(2), WantedNeighbor::Resolved)]);
    switch.neighbor(CONTROL, key(2), NeighborState::Known(NEIGHBOR));
    assert_eq!(switch.neighbors(ROUTER), [(key(2), WantedNeighbor::At(NEIGHBOR))]);
    for element in switch.elements.values() {
        assert_eq!(element.neighbors(), [(key(2), NEIGHBOR)]);
    }
    // An element that starts later has the neighbors from the next round.
    switch.start(ROUTER, 2);
    switch.run(Duration::from_secs(2));
    assert_eq!(switch.elements[&ROUTER].neighbors(), [(key(2), NEIGHBOR)]);
    switch.neighbor(CONTROL, key(2), NeighborState::Gone);
    assert_eq!(switch.neighbors(ROUTER).last(), Some(&(key(2), WantedNeighbor::Removed)));
    switch.run(Duration::from_secs(12));
    assert_eq!(switch.neighbors(CONTROL).last(), Some(&(key(2), WantedNeighbor::Removed)));
    // Addresses elsewhere are nobody's neighbors.
    let elsewhere = NeighborKey { address: [10, 9, 9, 9].into(), ..key(2) };
    switch.neighbor(ROUTER, elsewhere, NeighborState::Wanted);
    switch.neighbor(CONTROL, elsewhere, NeighborState::Known(NEIGHBOR));
    assert!(
        switch.elements[&ROUTER].neighbors().is_empty() && switch.elements[&CONTROL].neighbors().is_empty()
    );
}

#[test]
fn a_lost_change_is_made_up_by_the_next_round() {
    let mut switch = up();
    switch.run(Duration::from_secs(3));
    switch.cut_off = [ROUTER].into();
    switch.neighbor(CONTROL, key(2), NeighborState::Known(NEIGHBOR));
    assert!(switch.elements[&ROUTER].neighbors().is_empty());
    switch.cut_off.clear();
    switch.run(Duration::from_secs(3));
    assert_eq!(switch.elements[&ROUTER].neighbors(), [(key(2), NEIGHBOR)]);
}

#[test]
fn elements_without_announcements_lose_their_shares() {
    let mut switch = up();
    switch.run(Duration::from_secs(2));
    let members = |switch: &Switch| switch.elements[&BALANCER].balancer().unwrap().members(0);
    assert_eq!(members(&switch), [(id(ROUTER), 1)]);
    switch.cut_off = [ROUTER].into();
    switch.run(Duration::from_secs(6));
    assert!(members(&switch).is_empty());
    assert!(switch.events(BALANCER).contains(&Event::ElementLost(id(ROUTER))));
    switch.cut_off.clear();
    switch.run(Duration::from_secs(2));
    assert_eq!(members(&switch), [(id(ROUTER), 1)]);
}

#[test]
fn a_new_process_changes_nothing_in_the_maps_of_the_one_before() {
    let mut switch = up();
    switch.run(Duration::from_secs(3));
    switch.neighbor(CONTROL, key(2), NeighborState::Known(NEIGHBOR));
    let words: Vec<_> = switch.elements[&BALANCER].balancer().unwrap().mirror().iter().collect();
    switch.elements.insert(BALANCER, Cluster::new(2));
    let settings = settings(BALANCER);
    let interfaces = [interface(2, "eth0", &settings), interface(3, "out1", &settings)];
    switch.input(BALANCER, Input::Configure(Box::new(settings)));
    interfaces.into_iter().for_each(|input| switch.input(BALANCER, input));
    switch.outputs.clear();
    switch.input(BALANCER, Input::Maps(Some(Mirror::found(words.clone()))));
    switch.run(Duration::from_secs(5));
    let stores = switch.outputs.iter().filter(|(_, output)| matches!(output, Output::Store(_)));
    assert_eq!(stores.count(), 0);
    assert_eq!(switch.elements[&BALANCER].balancer().unwrap().mirror().iter().collect::<Vec<_>>(), words);
}

#[test]
fn a_new_router_process_keeps_the_kernel_s_neighbors_until_it_knows_all() {
    let mut switch = up();
    switch.run(Duration::from_secs(3));
    switch.neighbor(CONTROL, key(2), NeighborState::Known(NEIGHBOR));
    switch.cut_off = [ROUTER].into();
    switch.start(ROUTER, 2);
    assert_eq!(switch.elements[&ROUTER].wanted_neighbors(), None);
    switch.cut_off.clear();
    switch.run(Duration::from_secs(3));
    let wanted = switch.elements[&ROUTER].wanted_neighbors();
    assert_eq!(wanted, Some(vec![(key(2), WantedNeighbor::At(NEIGHBOR))]));
    assert!(switch.outputs.contains(&(ROUTER, Output::NeighborsKnown)));
}

#[test]
fn hello_frames_wait_for_the_links_of_ports() {
    let mut switch = up();
    let removed = InterfaceEvent::Removed(InterfaceIndex::new(3).unwrap());
    switch.input(ROUTER, Input::Interface(removed));
    switch.run(Duration::from_millis(200));
    let hellos = |switch: &Switch, of: u16| {
        switch.frames.iter().filter(|(from, octets)| *from == of && octets[1] == HELLO).count()
    };
    assert_eq!((hellos(&switch, ROUTER), hellos(&switch, BALANCER)), (0, 0));
    let input = interface(3, "port1", &settings(ROUTER));
    switch.input(ROUTER, input);
    let before = switch.now;
    switch.run(Duration::from_millis(200));
    let expected = (switch.now.saturating_since(before).as_millis() / HELLO_TIME.as_millis()) as usize;
    assert!(hellos(&switch, ROUTER).abs_diff(expected) <= 1, "{}", hellos(&switch, ROUTER));
}

#[test]
fn forged_old_foreign_and_own_frames_are_counted_and_ignored() {
    let mut switch = up();
    switch.run(Duration::from_secs(1));
    let frame = |switch: &Switch, of: u16| {
        let all = switch.frames.iter().rev();
        all.filter(|(from, octets)| *from == of && octets[1] == 2)
            .map(|(_, octets)| octets.clone())
            .next()
            .unwrap()
    };
    let (own, other) = (frame(&switch, ROUTER), frame(&switch, BALANCER));
    let mut forged = other.clone();
    forged[20] ^= 1;
    for octets in [forged, other.clone(), own, vec![], vec![1], other[..40].to_vec()] {
        switch.input(ROUTER, Input::Frame(octets));
    }
    let ignored = switch.elements[&ROUTER].ignored();
    assert_eq!(
        (ignored.forged, ignored.replayed, ignored.own_number, ignored.malformed),
        (1, 1, 1, 3),
        "{ignored:?}"
    );
    assert!(switch.events(ROUTER).iter().all(|event| !event.is_warning()));
    // Another machine with the same number, and an element that nobody has configured.
    let mut twin = Cluster::new(9);
    let mut stranger = Cluster::new(9);
    let mut out = Outbox::new();
    twin.handle(switch.now, Input::Configure(Box::new(settings(ROUTER))), &mut out);
    twin.on_deadline(switch.now, &mut out);
    let mut elsewhere = settings(ROUTER);
    elsewhere.element = id(99);
    let element =
        Element { id: id(99), name: "99".into(), roles: [Role::Router].into(), weight: 1, ports: vec![] };
    elsewhere.inventory.put(element).unwrap();
    stranger.handle(switch.now, Input::Configure(Box::new(elsewhere)), &mut out);
    stranger.on_deadline(switch.now, &mut out);
    let sent: Vec<Output> = out.drain().collect();
    for output in sent {
        if let Output::Send(octets) = output {
            switch.input(ROUTER, Input::Frame(octets));
        }
    }
    assert!(switch.events(ROUTER).contains(&Event::ElementTwice(id(ROUTER))));
    assert_eq!(switch.elements[&ROUTER].ignored().foreign, 1);
}

#[test]
fn only_the_control_plane_announces_neighbors() {
    let mut switch = up();
    switch.run(Duration::from_secs(1));
    // The router believes that it is the control plane.
    let mut liar = Cluster::new(5);
    let mut other = settings(ROUTER);
    other.drained = [id(CONTROL)].into();
    let element = Element {
        id: id(ROUTER),
        name: "liar".into(),
        roles: [Role::Router, Role::Control].into(),
        weight: 1,
        ports: vec![],
    };
    other.inventory.put(element).unwrap();
    let mut out = Outbox::new();
    liar.handle(switch.now, Input::Configure(Box::new(other)), &mut out);
    let states = vec![(key(2), NeighborState::Known(NEIGHBOR))];
    liar.handle(switch.now, Input::Neighbors { states, is_whole: false }, &mut out);
    liar.on_deadline(switch.now, &mut out);
    let sent: Vec<Output> = out.drain().collect();
    for output in sent {
        if let Output::Send(octets) = output {
            switch.input(BALANCER, Input::Frame(octets));
        }
    }
    assert!(switch.elements[&BALANCER].neighbors().is_empty());
    assert!(switch.elements[&BALANCER].ignored().unentitled >= 1);
    assert!(switch.events(BALANCER).contains(&Event::ElementDiffers(id(ROUTER))));
}

/// The settings of another cluster with the same numbers, and another key.
fn settings_of_another(element: u16) -> Settings {
    let keys = sluice_cluster::key::KeyRing::of(sluice_cluster::key::ClusterKey([8; 32]));
    Settings { keys, ..settings(element) }
}

#[test]
fn two_clusters_on_one_interconnect_count_and_ignore_each_other() {
    let all = [BALANCER, ROUTER, CONTROL];
    let mut clusters = [Switch::new(&all, settings), Switch::new(&all, settings_of_another)];
    let other_neighbor = Mac([2, 0, 0, 0, 9, 2]);
    for (cluster, mac) in clusters.iter_mut().zip([NEIGHBOR, other_neighbor]) {
        cluster.run(Duration::from_secs(1));
        cluster.neighbor(CONTROL, key(2), NeighborState::Known(mac));
    }
    let mut seen = [0, 0];
    for _ in 0..50 {
        for (from, to) in [(0, 1), (1, 0)] {
            let frames: Vec<_> = clusters[from].frames[seen[from]..].to_vec();
            seen[from] = clusters[from].frames.len();
            for (_, octets) in frames.into_iter().filter(|(_, octets)| octets[1] != HELLO) {
                all.iter().for_each(|element| clusters[to].input(*element, Input::Frame(octets.clone())));
            }
        }
        clusters.iter_mut().for_each(|cluster| cluster.run(Duration::from_millis(100)));
    }
    for (cluster, mac) in clusters.iter().zip([NEIGHBOR, other_neighbor]) {
        for element in cluster.elements.values() {
            assert_eq!(element.neighbors(), [(key(2), mac)]);
            let ignored = element.ignored();
            assert!(ignored.forged > 10, "{ignored:?}");
            assert_eq!((ignored.replayed, ignored.foreign, ignored.malformed), (0, 0, 0), "{ignored:?}");
        }
        let members = cluster.elements[&BALANCER].balancer().unwrap().members(0);
        assert_eq!(members, [(id(ROUTER), 1)]);
        let all_events: Vec<_> = all.iter().flat_map(|element| cluster.events(*element)).collect();
        assert!(!all_events.iter().any(|event| matches!(event, Event::ElementLost(_))), "{all_events:?}");
    }
}
