//! The roster: changes that lose packets are refused, and elements work by the roster and the configuration together.

use proptest::prelude::*;
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::key::{ClusterKey, KeyRing};
use sluice_cluster::mac::Mac;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster::roster::{AdminState, Change, Roster, RosterError};
use sluice_cluster::settings::{Settings, StoreSettings};
use sluice_cluster::stream::wire::DecodeError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Two balancers, the second one without ports; two routers; two candidates for the control plane.
const ELEMENTS: [(u16, Role); 6] = [
    (1, Role::Balancer),
    (2, Role::Balancer),
    (11, Role::Router),
    (12, Role::Router),
    (21, Role::Control),
    (22, Role::Control),
];

fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn address(number: u16) -> IpAddr {
    [10, 9, 0, number as u8].into()
}

fn settings(element: u16, servers: &[u16]) -> Settings {
    let mut inventory = Inventory::default();
    for (number, role) in ELEMENTS {
        let port = OuterPort {
            number: PortNumber::new(1).unwrap(),
            interface: "out1".into(),
            mac: Mac([2, 0, 0, 0, 1, 1]),
        };
        let ports = if number == 1 { vec![port] } else { vec![] };
        let element =
            Element { id: id(number), name: number.to_string(), roles: [role].into(), weight: 1, ports };
        inventory.put(element).unwrap();
    }
    Settings {
        element: id(element),
        interconnect: vec!["eth0".into()],
        inventory,
        drained: BTreeSet::new(),
        reached: ELEMENTS.map(|(number, _)| (id(number), address(number))).into(),
        addresses: BTreeMap::new(),
        mtus: BTreeMap::new(),
        more_addresses: BTreeSet::new(),
        policy: Policy::default(),
        keys: KeyRing::of(ClusterKey([7; 32])),
        store: Some(StoreSettings {
            endpoints: servers.iter().map(|number| SocketAddr::new(address(*number), 2379)).collect(),
            is_authenticated: true,
            members: servers.iter().map(|number| (id(*number), address(*number))).collect(),
            removed: BTreeSet::new(),
            generation: 1,
            name: "cluster".into(),
            origins: BTreeSet::new(),
        }),
        shares_configuration: false,
        leader: None,
    }
}

/// Returns the elements that get packets if all run.
fn in_service(settings: &Settings) -> BTreeSet<ElementId> {
    settings.inventory.iter().map(|element| element.id).filter(|id| !settings.drained.contains(id)).collect()
}

/// A cluster whose elements all run.
struct World {
    configured: Settings,
    roster: Roster,
}

impl World {
    fn new(servers: &[u16]) -> Self {
        World { configured: settings(1, servers), roster: Roster::default() }
    }

    fn change(&mut self, element: u16, change: Change) -> Result<(), RosterError> {
        let running = in_service(&self.roster.applied(&self.configured, None));
        self.roster = self.roster.changed(&self.configured, &running, id(element), change)?;
        Ok(())
    }
}

#[test]
fn a_drained_element_is_removed_and_another_machine_takes_its_place() {
    let mut world = World::new(&[11, 21, 22]);
    assert_eq!(world.change(11, Change::Remove), Err(RosterError::InService(id(11))));
    assert_eq!(world.change(11, Change::Replace), Err(RosterError::InService(id(11))));
    world.change(11, Change::Drain).unwrap();
    world.change(11, Change::Drain).unwrap();
    let applied = world.roster.applied(&world.configured, None);
    assert!(applied.drained.contains(&id(11)) && applied.inventory.get(id(11)).is_some());
    world.change(11, Change::Remove).unwrap();
    for change in [Change::Drain, Change::Undrain] {
        assert_eq!(world.change(11, change), Err(RosterError::Removed(id(11))));
    }
    let applied = world.roster.applied(&world.configured, None);
    let store = applied.store.as_ref().unwrap();
    assert!(applied.inventory.get(id(11)).is_none() && applied.reached.len() == 5);
    assert!(store.removed.contains(&id(11)) && store.endpoints.len() == 2 && store.members.len() == 3);

    world.change(11, Change::Replace).unwrap();
    let state = AdminState { drained: true, removed: false, machine: 2 };
    assert_eq!(world.roster.state(id(11)), state);
    // The machine before is no element, by its certificate.
    let of_machine = |machine| world.roster.applied(&settings(11, &[11, 21, 22]), machine).inventory;
    assert!(of_machine(Some(1)).get(id(11)).is_none());
    assert!(of_machine(Some(2)).get(id(11)).is_some() && of_machine(None).get(id(11)).is_some());
    world.change(11, Change::Undrain).unwrap();
    assert_eq!(world.roster.state(id(11)), AdminState { machine: 2, ..AdminState::default() });
    world.change(12, Change::Drain).unwrap();
    world.change(12, Change::Undrain).unwrap();
    assert_eq!(world.roster.iter().count(), 1, "the initial state is no entry");
}

#[test]
fn changes_by_which_packets_are_lost_are_refused() {
    let mut world = World::new(&[21]);
    assert_eq!(world.change(9, Change::Drain), Err(RosterError::Unknown(id(9))));
    for change in [Change::Drain, Change::Remove] {
        assert_eq!(world.change(1, change), Err(RosterError::HasPorts(id(1))));
    }
    assert_eq!(world.change(1, Change::Replace), Err(RosterError::InService(id(1))));
    world.change(2, Change::Remove).unwrap();
    world.change(12, Change::Drain).unwrap();
    assert_eq!(world.change(11, Change::Drain), Err(RosterError::Last(id(11), Role::Router)));
    world.change(21, Change::Drain).unwrap();
    assert_eq!(world.change(22, Change::Drain), Err(RosterError::Last(id(22), Role::Control)));
    assert_eq!(world.change(21, Change::Remove), Err(RosterError::LastServer(id(21))));
    world.configured.drained.insert(id(12));
    assert_eq!(world.change(12, Change::Undrain), Err(RosterError::Configured(id(12))));
    // A router that is silent anyway may be drained as the last one.
    let none = BTreeSet::new();
    assert!(world.roster.changed(&world.configured, &none, id(11), Change::Drain).is_ok());
    // A balancer with ports that has failed is replaced, and serves without further ado.
    let replaced = world.roster.changed(&world.configured, &none, id(1), Change::Replace).unwrap();
    assert_eq!(replaced.state(id(1)), AdminState { machine: 2, ..AdminState::default() });
}

#[test]
fn the_last_filter_is_drained_only_if_no_class_needs_it() {
    let mut world = World::new(&[21]);
    let (filter, ports) = (id(31), vec![]);
    let element = Element { id: filter, name: "31".into(), roles: [Role::Filter].into(), weight: 1, ports };
    world.configured.inventory.put(element).unwrap();
    let class = |role| ClassPolicy { mode: Mode::Flow, role };
    world.configured.policy = Policy::new([(1, class(Role::Filter))], [(46, 1)]).unwrap();
    assert_eq!(world.change(31, Change::Drain), Err(RosterError::Last(filter, Role::Filter)));
    world.configured.policy = Policy::default();
    world.change(31, Change::Drain).unwrap();
}

#[test]
fn values_of_other_versions_and_damaged_values_are_refused() {
    let mut world = World::new(&[21]);
    world.change(11, Change::Drain).unwrap();
    let octets = world.roster.encode();
    assert_eq!(Roster::decode(&octets), Ok(world.roster));
    for length in 0..octets.len() {
        assert!(Roster::decode(&octets[..length]).is_err(), "{length}");
    }
    assert_eq!(Roster::decode(&[&[2], &octets[1..]].concat()), Err(DecodeError::Version(2)));
    assert_eq!(Roster::decode(&[&octets[..], &[0]].concat()), Err(DecodeError::Trailing(1)));
}

fn changes() -> impl Strategy<Value = Vec<(u16, Change)>> {
    let change =
        prop_oneof![Just(Change::Drain), Just(Change::Undrain), Just(Change::Remove), Just(Change::Replace)];
    let element = prop_oneof![Just(9), proptest::sample::select(ELEMENTS.map(|(number, _)| number).to_vec())];
    proptest::collection::vec((element, change), 0..40)
}

proptest! {
    #[test]
    fn each_role_stays_in_service_and_the_store_keeps_a_server(changes in changes()) {
        let mut world = World::new(&[11, 21, 22]);
        for (element, change) in changes {
            let before = world.roster.clone();
            let machine = before.state(id(element)).machine;
            if world.change(element, change).is_err() {
                prop_assert_eq!(&world.roster, &before);
                continue;
            }
            let applied = world.roster.applied(&world.configured, None);
            let running = in_service(&applied);
            for role in [Role::Balancer, Role::Router, Role::Control] {
                prop_assert!(applied.inventory.with_role(role).any(|element| running.contains(&element.id)));
            }
            let store = applied.store.as_ref().unwrap();
            prop_assert!(store.removed.len() < store.members.len() && !store.endpoints.is_empty());
            prop_assert!(world.roster.state(id(element)).machine >= machine, "machines are not numbered again");
            prop_assert_eq!(Roster::decode(&world.roster.encode()), Ok(world.roster.clone()));
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(roster) = Roster::decode(&octets) {
            prop_assert_eq!(Roster::decode(&roster.encode()), Ok(roster));
        }
    }
}
