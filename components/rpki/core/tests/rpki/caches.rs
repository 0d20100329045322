//! Several caches: which are connected, and whose data are in effect.

use crate::world::{World, cache, seconds, sorted, vrp};
use sluice_rpki::exceptions::Exceptions;
use sluice_rpki::machine::SETTLE_TIME;
use sluice_rpki::serial::Serial;
use sluice_rpki::wire::{ErrorCode, ErrorReport, Pdu};

fn a() -> sluice_validation::AnyVrp {
    vrp("192.0.2.0/24", 24, 65001)
}

fn b() -> sluice_validation::AnyVrp {
    vrp("198.51.100.0/24", 24, 65002)
}

#[test]
fn the_second_cache_takes_over_and_gives_back() {
    // The order is by preference, not by name.
    let mut world = World::new(&[cache("a", 2), cache("b", 1)]);
    assert_eq!((world.machine.order(), world.connected().as_str()), (vec!["b".into(), "a".into()], "b"));
    world.accept('b');
    world.answer('b', 1, 1, &[(b(), true)]);
    assert_eq!(world.connected(), "b");
    world.take_events();
    world.hang_up('b');
    assert_eq!(world.connected(), "a", "the next one is asked at once");
    assert_eq!(world.table(), sorted(&[b()]), "data of the lost cache");
    world.accept('a');
    world.answer('a', 2, 9, &[(a(), true)]);
    assert_eq!((world.table(), world.machine.source()), (sorted(&[a()]), Some("a")));
    assert_eq!(world.take_events(), ["rpki.cache.lost", "rpki.cache.synchronized", "rpki.data.source"]);
    // The preferred one is back: its data count from End of Data on, and the other connection ends.
    world.pass(seconds(5));
    assert_eq!(world.connected(), "ab");
    world.accept('b');
    assert_eq!(world.take_sent().pop(), Some(('b', 2, Pdu::SerialQuery { session: 1, serial: Serial(1) })));
    assert_eq!(world.machine.source(), Some("a"));
    world.answer('b', 1, 2, &[]);
    assert_eq!((world.table(), world.machine.source()), (sorted(&[b()]), Some("b")));
    assert_eq!((world.connected().as_str(), world.closed.clone()), ("b", vec!['a']));
}

#[test]
fn without_connections_the_newest_data_count_until_they_expire() {
    let mut world = World::new(&[cache("a", 1), cache("b", 2)]);
    world.accept('a');
    world.answer('a', 1, 1, &[(a(), true)]);
    world.pass(seconds(100));
    world.hang_up('a');
    world.accept('b');
    world.answer('b', 1, 1, &[(b(), true)]);
    world.hang_up('b');
    assert_eq!((world.table(), world.machine.source()), (sorted(&[b()]), Some("b")));
    // The data of `a` expire first, without effect.
    for (wait, expected) in [(4950, sorted(&[b()])), (200, None)] {
        for _ in 0..wait / 10 {
            world.pass(seconds(10));
            for name in world.connected().chars() {
                world.refuse(name);
            }
        }
        assert_eq!(world.table(), expected);
    }
}

#[test]
fn a_cache_without_data_is_asked_again_while_the_next_one_serves() {
    let mut world = World::new(&[cache("a", 1), cache("b", 2)]);
    world.accept('a');
    let report = ErrorReport { code: ErrorCode::NO_DATA, pdu: vec![], text: String::new() };
    world.send('a', &[Pdu::ErrorReport(report.clone())]);
    assert_eq!(world.connected(), "ab", "the connection stays");
    world.accept('b');
    world.answer('b', 1, 1, &[(b(), true)]);
    world.take_events();
    world.take_sent();
    for _ in 0..3 {
        world.pass(seconds(60));
        assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
        world.send('a', &[Pdu::ErrorReport(report.clone())]);
    }
    assert_eq!(world.take_events(), [] as [&str; 0], "it was said once");
    world.pass(seconds(60));
    world.answer('a', 1, 1, &[(a(), true)]);
    assert_eq!((world.table(), world.connected().as_str()), (sorted(&[a()]), "a"));
}

#[test]
fn a_configuration_without_the_cache_keeps_its_data_until_another_has_sent_all() {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.answer('a', 1, 1, &[(a(), true)]);
    world.configure(&[cache("b", 1)], Exceptions::default());
    assert_eq!((world.connected().as_str(), world.table()), ("b", sorted(&[a()])));
    world.pass(seconds(4000));
    assert_eq!(world.table(), sorted(&[a()]));
    // The connection of before fails by itself meanwhile.
    let mut other = World::new(&[cache("a", 1)]);
    other.accept('a');
    other.answer('a', 1, 1, &[(a(), true)]);
    other.configure(&[cache("b", 1)], Exceptions::default());
    other.accept('b');
    other.answer('b', 1, 1, &[(b(), true)]);
    assert_eq!(other.table(), sorted(&[b()]));
    world.pass(seconds(1000));
    assert_eq!(world.table(), None, "held data expire too");
    assert!(world.take_events().contains(&"rpki.cache.expired"));
    // Preference and times change without an end of the session.
    let mut settings = cache("b", 9);
    settings.refresh = Some(seconds(7));
    other.configure(&[settings], Exceptions::default());
    assert_eq!((other.connected().as_str(), other.table()), ("b", sorted(&[b()])));
    // No caches: no data.
    other.configure(&[], Exceptions::default());
    assert_eq!((other.connected().as_str(), other.table()), ("", None));
}

#[test]
fn the_absence_of_data_is_final_after_a_while() {
    let mut world = World::new(&[cache("a", 1)]);
    world.refuse('a');
    assert!(!world.machine.is_settled());
    world.pass(SETTLE_TIME);
    assert!(world.machine.is_settled());
    assert_eq!((world.changed, world.table()), (1, None));
    let none = World::new(&[]);
    assert!(none.machine.is_settled());
}

#[test]
fn connections_that_ended_have_no_effect() {
    let mut world = World::new(&[cache("a", 1)]);
    let first = world.connection('a');
    world.refuse('a');
    world.pass(seconds(3));
    assert_ne!(world.connection('a'), first);
    for input in [
        sluice_rpki::machine::Input::Connected(first),
        sluice_rpki::machine::Input::Received(first, vec![1; 100]),
        sluice_rpki::machine::Input::Closed(first),
    ] {
        world.input(input);
    }
    assert_eq!((world.take_sent(), world.connected().as_str()), (vec![], "a"));
}
