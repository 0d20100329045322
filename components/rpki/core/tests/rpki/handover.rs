//! A new process with the state of the old one: subscribers notice nothing, and caches are asked for changes.

use crate::world::{World, answer_of, cache, providers, seconds, sorted, vrp};
use sluice_base::Asn;
use sluice_machine::Machine;
use sluice_rpki::epoch::Missing;
use sluice_rpki::exceptions::{Exceptions, Filter};
use sluice_rpki::handover::OtherTables;
use sluice_rpki::serial::Serial;
use sluice_rpki::wire::{Pdu, Version};
use sluice_validation::AnyVrp;

fn one() -> AnyVrp {
    vrp("192.0.2.0/24", 24, 65001)
}

fn two() -> AnyVrp {
    vrp("2001:db8::/32", 48, 65002)
}

fn serial_query(name: char, version: u8, session: u16, serial: u32) -> (char, u8, Pdu) {
    (name, version, Pdu::SerialQuery { session, serial: Serial(serial) })
}

/// A world whose cache `a` has sent two VRPs and an ASPA with session 7 and serial number 100.
fn synchronized() -> World {
    let mut world = World::new(&[cache("a", 1), cache("b", 2)]);
    world.accept('a');
    let pdus =
        [Pdu::Prefix(one(), true), Pdu::Prefix(two(), true), Pdu::Aspa(Asn(65001), providers(&[65002]))];
    world.send('a', &answer_of(7, 100, &pdus));
    world.take_sent();
    world.take_events();
    world
}

#[test]
fn a_new_process_has_the_data_and_asks_for_changes() {
    let mut world = synchronized();
    let (epoch, aspas) = (world.machine.epochs().number(), world.aspas());
    world.pass(seconds(10));
    let before = world.machine.view(world.now);
    world.restart();
    assert_eq!((world.table(), world.aspas()), (sorted(&[one(), two()]), aspas));
    assert_eq!((world.machine.epochs().number(), world.changed), (epoch, 1), "the same epoch, unannounced");
    assert_eq!(world.machine.epochs().since(epoch), Missing::Nothing);
    assert_eq!((world.machine.source(), world.machine.is_settled()), (Some("a"), true));
    assert_eq!(world.take_events(), [] as [&str; 0]);
    let after = world.machine.view(world.now);
    let shown = |views: &[sluice_rpki::view::CacheView]| {
        let view = views[0].clone();
        (view.serial, view.vrps, view.aspas, view.age, view.expires_in, view.counters)
    };
    assert_eq!(shown(&after), shown(&before));
    assert_eq!(world.connected(), "a");
    world.accept('a');
    assert_eq!(world.take_sent(), [serial_query('a', 2, 7, 100)]);
    // Nothing changed.
    world.answer('a', 7, 100, &[]);
    assert_eq!((world.machine.epochs().number(), world.changed), (epoch, 1));
    let counters = world.machine.view(world.now)[0].counters;
    assert_eq!((counters.resets, counters.updates), (1, 1));
    // The next epoch is a difference to the old process's.
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    world.answer('a', 7, 101, &[(one(), false)]);
    let Missing::Changes(changes) = world.machine.epochs().since(epoch) else { panic!("a difference") };
    assert_eq!((changes.len(), world.changed, world.table()), (1, 2, sorted(&[two()])));
}

#[test]
fn the_age_of_the_data_counts_on() {
    let mut world = synchronized();
    world.pass(seconds(900));
    world.restart();
    // No cache answers any more: 5000 s after End of Data the data expire.
    let refuse_all = |world: &mut World| {
        for name in world.connected().chars() {
            world.refuse(name);
        }
    };
    for _ in 0..409 {
        refuse_all(&mut world);
        world.pass(seconds(10));
    }
    assert_eq!(world.table(), sorted(&[one(), two()]));
    refuse_all(&mut world);
    world.pass(seconds(10));
    assert_eq!(world.table(), None);
    let ends = world.take_events().into_iter().filter(|event| !event.ends_with("lost"));
    assert_eq!(ends.collect::<Vec<_>>(), ["rpki.cache.expired", "rpki.data.none"]);
}

#[test]
fn version_and_doubt_are_kept() {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.send_in('a', 1, &answer_of(7, 100, &[Pdu::Prefix(one(), true)]));
    world.restart();
    world.take_sent();
    world.accept('a');
    assert_eq!(world.take_sent(), [serial_query('a', 1, 7, 100)], "in the version of the data");
    // After a query without an answer, all data are asked for: by a new process too.
    world.hang_up('a');
    world.restart();
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', Version(1).0, Pdu::ResetQuery)]);
    assert_eq!(world.table(), sorted(&[one()]));
}

#[test]
fn exceptions_of_the_same_configuration_are_no_epoch() {
    let mut world = synchronized();
    let own = vrp("198.51.100.0/24", 24, 65003);
    let filters = [Filter { prefix: None, asn: Some(Asn(65001)) }].into();
    let exceptions = Exceptions { assertions: [own].into(), filters, ..Exceptions::default() };
    world.configure(&[cache("a", 1), cache("b", 2)], exceptions);
    let (epoch, changed) = (world.machine.epochs().number(), world.changed);
    world.restart();
    assert_eq!(world.table(), sorted(&[two(), own]));
    assert_eq!((world.machine.epochs().number(), world.changed), (epoch, changed));
}

#[test]
fn data_of_a_removed_cache_are_held_on() {
    let mut world = synchronized();
    world.configure(&[cache("c", 1)], Exceptions::default());
    let epoch = world.machine.epochs().number();
    world.restart();
    assert_eq!((world.table(), world.machine.epochs().number()), (sorted(&[one(), two()]), epoch));
    world.accept('c');
    world.answer('c', 9, 1, &[(two(), true)]);
    assert_eq!(world.table(), sorted(&[two()]));
}

#[test]
fn a_process_without_data_waits_on() {
    let mut world = World::new(&[cache("a", 1)]);
    world.pass(seconds(100));
    world.restart();
    assert_eq!((world.table(), world.machine.is_settled(), world.changed), (None, false, 0));
    world.pass(seconds(20));
    assert!(world.machine.is_settled(), "120 s after the first process began");
}

#[test]
fn tables_are_put_back_where_they_were() {
    let world = synchronized();
    let mut state = world.machine.export();
    let tables = state.take_tables();
    assert_eq!(tables.iter().map(|table| table.len()).collect::<Vec<_>>(), [2]);
    let fewer = state.put_tables(Vec::new());
    assert_eq!(fewer, Err(OtherTables { expected: 1, found: 0 }));
    assert_eq!(state.put_tables(tables), Ok(()));
}
