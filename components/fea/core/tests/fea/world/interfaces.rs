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
    assert!(!has(&mut world), "nobody has told the core yet");
    configuration.interfaces.clear();
    world.drive.handle(now, Input::Configure(configuration.clone()), &mut world.effects);
    world.quiet();
    assert!(!has(&mut world), "the address stayed");
    // And once more, to an address that somebody else has taken away meanwhile: nothing to report.
    world.effects.clear();
    world.drive.handle(now, Input::Configure(configuration), &mut world.effects);
    assert_eq!(world.effects, []);
}

/// A life that ended before it was told that an address is not wanted after all: the next one takes it back, and leaves those of others.
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
