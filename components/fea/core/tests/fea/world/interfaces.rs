//! Interfaces and their addresses: reported, configured, and taken back.

use super::*;

#[test]
fn an_address_that_was_taken_away_is_reported() {
    let mut world = World::new();
    let address = InterfaceAddress { addr: gateway(1, 1, true), prefix_len: 64, peer: None };
    world.effects.clear();
    let notice = sluice_fea::Notice::AddressGone(index(1), address);
    world.drive.handle(world.now, Input::Notice(notice), &mut world.effects);
    let without = |e: &Effect| match e {
        Effect::Interface(InterfaceEvent::Changed(i)) => {
            i.index == index(1) && !i.addresses.contains(&address)
        }
        _ => false,
    };
    assert!(world.effects.iter().any(without), "{:?}", world.effects);
}

#[test]
fn an_interface_that_does_not_exist_is_remarked_when_it_is_configured() {
    let mut world = World::new();
    let of = |names: &[&str]| {
        let interfaces = names.iter().map(|name| (name.to_string(), LinkConfiguration::default())).collect();
        Configuration { interfaces, ..Configuration::default() }
    };
    world.drive.handle(world.now, Input::Configure(of(&["eth1"])), &mut world.effects);
    assert_eq!(world.drive.core().remarks(&of(&["eth1", "eth2"])), [""; 0]);
    let expected = ["interface eth9: the router has no interface `eth9` at present"];
    assert_eq!(world.drive.core().remarks(&of(&["eth1", "eth9"])), expected);
    // What was remarked before is not repeated.
    world.drive.handle(world.now, Input::Configure(of(&["eth9"])), &mut world.effects);
    assert_eq!(world.drive.core().remarks(&of(&["eth9", "eth2"])), [""; 0]);
}

#[test]
fn an_interface_that_vanished_while_notices_were_lost_is_reported() {
    let mut world = World::new();
    world.drive.engine().links.remove(&index(3));
    world.drive.engine().overrun();
    world.quiet();
    assert_eq!(world.drive.core().interfaces().unwrap().len(), 2);
    assert!(world.effects.contains(&Effect::Interface(InterfaceEvent::Removed(index(3)))));
}

/// The kernel drops IPv6 addresses when a link goes down.
#[test]
fn an_address_is_set_again_when_its_link_is_up_again() {
    let mut world = World::new();
    let address = InterfaceAddress { addr: "2001:db8::1".parse().unwrap(), prefix_len: 64, peer: None };
    let link = LinkConfiguration { addresses: [address].into(), ..LinkConfiguration::default() };
    let configuration =
        Configuration { interfaces: [("eth1".into(), link)].into(), ..Configuration::default() };
    world.drive.handle(world.now, Input::Configure(configuration), &mut world.effects);
    world.quiet();
    let engine = world.drive.engine();
    engine.set_up(index(1), false);
    engine.links.get_mut(&index(1)).unwrap().1.remove(&address);
    world.quiet();
    let notice = sluice_fea::Notice::AddressGone(index(1), address);
    world.drive.handle(world.now, Input::Notice(notice), &mut world.effects);
    world.drive.engine().set_up(index(1), true);
    world.quiet();
    assert!(world.drive.engine().links[&index(1)].1.contains(&address));
}

#[test]
fn the_snapshot_of_interfaces_ends() {
    let mut world = World::new();
    assert_eq!(world.drive.core().interfaces().unwrap().len(), 3);
    let ends = world.effects.iter().filter(|e| matches!(e, Effect::Interface(InterfaceEvent::SnapshotEnd)));
    assert_eq!(ends.count(), 1);
    world.drive.engine().request_snapshot();
    world.effects.clear();
    world.quiet();
    assert!(world.effects.is_empty(), "nothing changed: {:?}", world.effects);
}

/// An address is taken back before the engine has shown that it is there.
#[test]
fn an_address_that_was_asked_for_and_not_seen_goes_too() {
    let mut world = World::new();
    let name = world.drive.core().interfaces().unwrap()[0].name.clone();
    let address = InterfaceAddress { addr: "192.0.2.1".parse().unwrap(), prefix_len: 24, peer: None };
    let has = |world: &mut World| {
        let all = world.drive.core().interfaces().unwrap();
        all.iter().any(|i| i.addresses.contains(&address))
    };
    let mut configuration = Configuration::default();
    let link = LinkConfiguration { addresses: [address].into(), ..LinkConfiguration::default() };
    configuration.interfaces.insert(name.clone(), link);
    let now = world.now;
    world.drive.handle(now, Input::Configure(configuration.clone()), &mut world.effects);
    assert!(!has(&mut world), "the core was not notified yet");
    configuration.interfaces.clear();
    world.drive.handle(now, Input::Configure(configuration.clone()), &mut world.effects);
    world.quiet();
    assert!(!has(&mut world), "the address stayed");
    // And once more, to an address that somebody else has taken away meanwhile: nothing to report.
    world.effects.clear();
    world.drive.handle(now, Input::Configure(configuration), &mut world.effects);
    assert_eq!(world.effects, []);
}

/// A life that ended before it was notified that an address is not wanted after all: the next one takes it back, and leaves those of others.
#[test]
fn the_next_life_takes_back_what_the_last_one_gave() {
    let mut world = World::new();
    let name = world.drive.core().interfaces().unwrap()[0].name.clone();
    let given = InterfaceAddress { addr: "192.0.2.1".parse().unwrap(), prefix_len: 24, peer: None };
    let link = LinkConfiguration { addresses: [given].into(), ..LinkConfiguration::default() };
    let configuration = Configuration { interfaces: [(name, link)].into(), ..Configuration::default() };
    let now = world.now;
    world.drive.handle(now, Input::Configure(configuration), &mut world.effects);
    world.quiet();
    let addresses = |world: &mut World| -> Vec<InterfaceAddress> {
        world.drive.core().interfaces().unwrap().into_iter().flat_map(|i| i.addresses).collect()
    };
    let others = addresses(&mut world).iter().filter(|a| **a != given).count();
    world.step(Step::FeaRestarts);
    assert!(addresses(&mut world).contains(&given), "nobody took it away");
    world.drive.handle(now, Input::Configure(Configuration::default()), &mut world.effects);
    world.quiet();
    let left = addresses(&mut world);
    assert!(!left.contains(&given) && left.len() == others, "{left:?}");
}

#[test]
fn routes_have_the_preferred_source_while_the_host_has_the_address() {
    let mut world = World::new();
    world.configure();
    world.group(1, hop(1, 2));
    world.route(1, Some(1));
    world.route(2, Some(1));
    world.quiet();
    let sources = |world: &mut World| -> Vec<Option<IpAddr>> {
        let engine = world.drive.engine();
        engine.routes.keys().map(|key| engine.route_sources.get(key).copied()).collect()
    };
    let source: IpAddr = "192.0.2.1".parse().unwrap();
    assert_eq!(sources(&mut world), [None, None]);
    let wanted = Input::SetSources([(sluice_base::Family::Ipv4, source)].into());
    world.drive.handle(world.now, wanted, &mut world.effects);
    world.quiet();
    // The host lacks the address: the engine would refuse the routes.
    assert_eq!(sources(&mut world), [None, None]);
    assert!(world.drive.core().problems()[0].contains("no interface has the preferred source 192.0.2.1"));
    let address = InterfaceAddress { addr: source, prefix_len: 32, peer: None };
    let give = |world: &mut World| {
        world.drive.engine().links.get_mut(&index(2)).unwrap().1.insert(address);
        let notice = sluice_fea::Notice::AddressIs(index(2), address, false);
        world.drive.handle(world.now, Input::Notice(notice), &mut world.effects);
        world.quiet();
    };
    give(&mut world);
    assert_eq!(sources(&mut world), [Some(source); 2]);
    assert_eq!(world.drive.core().problems(), [""; 0]);
    world.route(3, Some(1));
    world.quiet();
    assert_eq!(sources(&mut world), [Some(source); 3]);
    // The engine removes the routes with the address; they are there again without a source address.
    world.drive.engine().take_address(index(2), address);
    world.quiet();
    assert_eq!(sources(&mut world), [None, None, None]);
    give(&mut world);
    assert_eq!(sources(&mut world), [Some(source); 3]);
    world.drive.handle(world.now, Input::SetSources(Default::default()), &mut world.effects);
    world.quiet();
    assert_eq!(sources(&mut world), [None, None, None]);
    let repaired = |e: &Effect| matches!(e, Effect::Event(sluice_fea::event::Event::RouteRepaired(..)));
    assert!(!world.effects.iter().any(repaired), "{:?}", world.effects);
}

/// An address of eth1's configuration, by its number.
fn own_address(host: u8) -> InterfaceAddress {
    InterfaceAddress { addr: format!("198.51.100.{host}").parse().unwrap(), prefix_len: 24, peer: None }
}

/// A configuration of eth1: up, with an MTU and addresses.
fn configured(mtu: u32, hosts: &[u8]) -> Configuration {
    let addresses = hosts.iter().map(|host| own_address(*host)).collect();
    let link = LinkConfiguration { enabled: Some(true), mtu: Some(mtu), addresses };
    Configuration { interfaces: [("eth1".into(), link)].into(), ..Configuration::default() }
}

impl World {
    /// Gives the core a configuration of eth1, and handles what follows.
    fn configure_eth1(&mut self, mtu: u32, hosts: &[u8]) {
        let configuration = configured(mtu, hosts);
        self.drive.handle(self.now, Input::Configure(configuration), &mut self.effects);
    }

    /// Returns the MTU of eth1 if it is up, and the hosts of its own addresses.
    fn eth1(&mut self) -> (Option<u32>, Vec<u8>) {
        let (link, addresses) = &self.drive.engine().links[&index(1)];
        let hosts = (0..=255).filter(|host| addresses.contains(&own_address(*host))).collect();
        (link.admin_up.then_some(link.mtu), hosts)
    }
}

/// The usual renumbering: the kernel takes the other addresses of a subnet with the first one.
#[test]
fn the_other_addresses_of_a_subnet_stay_when_the_first_one_goes() {
    let mut world = World::new();
    world.configure_eth1(1400, &[1, 2, 3]);
    world.quiet();
    world.configure_eth1(1400, &[2, 3]);
    world.quiet();
    assert_eq!(world.eth1(), (Some(1400), vec![2, 3]));
    assert_eq!(world.drive.core().problems(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_set_is_a_problem() {
    let mut world = World::new();
    let mut configuration = configured(1400, &[1]);
    configuration.interfaces.insert("eth9".into(), LinkConfiguration::default());
    world.drive.handle(world.now, Input::Configure(configuration), &mut world.effects);
    let missing = "interface eth9 is configured and does not exist".to_owned();
    assert_eq!(world.drive.core().problems(), std::slice::from_ref(&missing), "the rest was asked for");
    world.quiet();
    assert_eq!(world.drive.core().problems(), std::slice::from_ref(&missing));
    // Somebody holds on to another state, and the kernel refuses to change it.
    let engine = world.drive.engine();
    let link = engine.links[&index(1)].0.clone();
    engine.set_link(sluice_fea::engine::Link { mtu: 9000, ..link });
    engine.take_address(index(1), own_address(1));
    let mut notices = Vec::new();
    while engine.poll(&mut notices) {}
    let mut machine = world.drive.core().clone();
    let mut out = sluice_machine::Outbox::default();
    for notice in notices {
        sluice_machine::Machine::handle(&mut machine, world.now, Input::Notice(notice), &mut out);
    }
    let refusal = sluice_fea::Refusal { kind: sluice_fea::RefusalKind::Invalid, reason: "Busy".into() };
    let asked = out.drain().filter_map(|output| match output {
        sluice_fea::Output::Engine(op) => Some((op, refusal.clone())),
        _ => None,
    });
    let refused = Input::Refused(asked.collect());
    sluice_machine::Machine::handle(&mut machine, world.now, refused, &mut out);
    let without = "interface eth1 is without its address 198.51.100.1/24: Busy".to_owned();
    let mtu = "interface eth1 has the MTU 9000 instead of 1400: Busy".to_owned();
    assert_eq!(machine.problems(), [mtu, without, missing]);
}

/// A change of eth1 that the core did not ask for, or another configuration.
#[derive(Clone, Debug)]
enum Change {
    Up(bool),
    Mtu(u32),
    Take(u8),
    Configure(u32, BTreeSet<u8>),
    Overrun,
    Quiet,
}

fn change() -> impl Strategy<Value = Change> {
    let mtu = || prop_oneof![Just(1400_u32), Just(1500), Just(9000)];
    prop_oneof![
        any::<bool>().prop_map(Change::Up),
        mtu().prop_map(Change::Mtu),
        (1..6u8).prop_map(Change::Take),
        (mtu(), proptest::collection::btree_set(1..6u8, 0..5)).prop_map(|(m, a)| Change::Configure(m, a)),
        Just(Change::Overrun),
        Just(Change::Quiet),
    ]
}

proptest! {
    /// After any changes, by anybody, and any notices to the core, in the end an interface is as configured.
    #[test]
    fn an_interface_is_as_configured_in_the_end(changes in proptest::collection::vec(change(), 1..30)) {
        let mut world = World::new();
        let mut wanted = (1400, BTreeSet::from([1, 2, 3]));
        world.configure_eth1(1400, &[1, 2, 3]);
        for change in changes {
            let engine = world.drive.engine();
            match change {
                Change::Up(up) => engine.set_up(index(1), up),
                Change::Mtu(mtu) => {
                    let link = engine.links[&index(1)].0.clone();
                    engine.set_link(sluice_fea::engine::Link { mtu, ..link });
                }
                Change::Take(host) => drop(engine.take_address(index(1), own_address(host))),
                Change::Configure(mtu, hosts) => {
                    let all: Vec<u8> = hosts.iter().copied().collect();
                    wanted = (mtu, hosts);
                    world.configure_eth1(mtu, &all);
                }
                Change::Overrun => engine.overrun(),
                Change::Quiet => world.quiet(),
            }
        }
        world.quiet();
        prop_assert_eq!(world.eth1(), (Some(wanted.0), wanted.1.into_iter().collect()));
        prop_assert_eq!(world.drive.core().problems(), Vec::<String>::new());
    }
}
