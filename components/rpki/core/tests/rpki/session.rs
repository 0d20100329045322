//! A session with one cache: sequences of RFC 8210, section 8, versions, timers, and caches that break the rules.

use crate::world::{World, answer, cache, seconds, sorted, vrp};
use sluice_rpki::exceptions::{Exceptions, Filter};
use sluice_rpki::serial::Serial;
use sluice_rpki::wire::{ErrorCode, ErrorReport, Pdu};

/// A world whose cache `a` has sent these VRPs with session 7 and serial number 100.
fn synchronized(vrps: &[sluice_validation::AnyVrp]) -> World {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
    let all: Vec<_> = vrps.iter().map(|vrp| (*vrp, true)).collect();
    world.answer('a', 7, 100, &all);
    assert_eq!(world.table(), sorted(vrps));
    assert_eq!(world.take_events(), ["rpki.cache.synchronized", "rpki.data.source"]);
    world
}

fn one() -> sluice_validation::AnyVrp {
    vrp("192.0.2.0/24", 24, 65001)
}

fn two() -> sluice_validation::AnyVrp {
    vrp("2001:db8::/32", 48, 65002)
}

fn serial_query(serial: u32) -> (char, u8, Pdu) {
    ('a', 2, Pdu::SerialQuery { session: 7, serial: Serial(serial) })
}

#[test]
fn data_take_effect_as_a_whole() {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    let pdus = answer(7, 1, &[(one(), true), (two(), true)]);
    for pdu in &pdus[..3] {
        world.send('a', std::slice::from_ref(pdu));
        assert_eq!((world.table(), world.changed), (None, 0));
    }
    // The last PDU comes octet by octet.
    let mut octets = Vec::new();
    pdus[3].encode(sluice_rpki::wire::NEWEST, &mut octets);
    for octet in &octets {
        assert_eq!(world.table(), None);
        world.octets('a', &[*octet]);
    }
    assert_eq!((world.table(), world.changed), (sorted(&[one(), two()]), 1));
    assert!(world.machine.is_settled());
}

#[test]
fn changes_come_by_notify_and_by_refresh() {
    let mut world = synchronized(&[one()]);
    let epoch = world.machine.epochs().number();
    // A notification of another serial number is answered by a query at once; one of the same number is not.
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(100) }]);
    assert_eq!(world.take_sent(), []);
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    assert_eq!(world.take_sent(), [serial_query(100)]);
    world.answer('a', 7, 101, &[(one(), false), (two(), true)]);
    assert_eq!((world.table(), world.machine.epochs().number()), (sorted(&[two()]), epoch + 1));
    world.pass(seconds(999));
    assert_eq!(world.take_sent(), []);
    world.pass(seconds(1));
    assert_eq!(world.take_sent(), [serial_query(101)]);
    // Nothing changed: no epoch.
    world.answer('a', 7, 101, &[]);
    assert_eq!(world.machine.epochs().number(), epoch + 1);
    // A VRP that goes and comes within an answer changes nothing.
    world.pass(seconds(1000));
    world.answer('a', 7, 102, &[(two(), false), (two(), true)]);
    assert_eq!(world.machine.epochs().number(), epoch + 1);
    assert_eq!(world.take_events(), [] as [&str; 0]);
}

#[test]
fn serial_numbers_wrap() {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.answer('a', 7, u32::MAX, &[(one(), true)]);
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(2) }]);
    assert_eq!(world.take_sent().pop(), Some(serial_query(u32::MAX)));
    world.answer('a', 7, 2, &[(two(), true)]);
    assert_eq!(world.table(), sorted(&[one(), two()]));
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(3) }]);
    world.answer('a', 7, u32::MAX, &[]);
    assert_eq!(world.take_events().last(), Some(&"rpki.cache.lost"), "the number went back");
    assert_eq!(world.table(), sorted(&[one(), two()]), "data stay");
}

#[test]
fn a_cache_reset_brings_all_data_anew() {
    let mut world = synchronized(&[one()]);
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(500) }]);
    world.take_sent();
    world.send('a', &[Pdu::CacheReset]);
    assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
    assert_eq!(world.table(), sorted(&[one()]), "old data count until End of Data");
    // Another session is allowed in the answer to a reset query.
    let pdus = answer(8, 1, &[(two(), true)]);
    world.send('a', &pdus[..2]);
    assert_eq!(world.table(), sorted(&[one()]));
    world.send('a', &pdus[2..]);
    assert_eq!(world.table(), sorted(&[two()]));
    assert_eq!(world.take_events(), [] as [&str; 0], "no session ended");
}

#[test]
fn a_reset_in_the_middle_of_an_answer_is_refused() {
    let mut world = synchronized(&[one()]);
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    world.take_sent();
    world.send('a', &[Pdu::CacheResponse { session: 7 }, Pdu::Prefix(two(), true), Pdu::CacheReset]);
    let sent = world.take_sent();
    let [('a', 2, Pdu::ErrorReport(report))] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(report.code, ErrorCode::CORRUPT_DATA);
    assert_eq!((world.table(), world.closed.clone()), (sorted(&[one()]), vec!['a']));
}

#[test]
fn a_new_session_number_voids_the_data() {
    for pdu in [Pdu::SerialNotify { session: 8, serial: Serial(1) }, Pdu::CacheResponse { session: 8 }] {
        let mut world = synchronized(&[one()]);
        if matches!(pdu, Pdu::CacheResponse { .. }) {
            world.pass(seconds(1000));
        }
        world.send('a', &[pdu]);
        assert_eq!(world.table(), None);
        assert_eq!(world.take_events(), ["rpki.cache.lost", "rpki.data.none"]);
        world.pass(seconds(10));
        world.accept('a');
        assert_eq!(world.take_sent().pop(), Some(('a', 2, Pdu::ResetQuery)));
        world.answer('a', 8, 1, &[(two(), true)]);
        assert_eq!(world.table(), sorted(&[two()]));
    }
}

#[test]
fn a_lost_cache_keeps_its_data_until_they_expire() {
    let mut world = synchronized(&[one()]);
    world.hang_up('a');
    assert_eq!(world.take_events(), ["rpki.cache.lost"]);
    // Each attempt fails; the waits grow up to the retry interval, and one event covers all.
    let mut attempts = 0;
    for _ in 0..400 {
        world.pass(seconds(10));
        if !world.connections.is_empty() {
            attempts += 1;
            world.refuse('a');
        }
    }
    assert!((100..150).contains(&attempts), "{attempts} in 4000 s");
    assert_eq!(world.take_events(), ["rpki.cache.lost"], "the reason is another one, once");
    assert_eq!(world.table(), sorted(&[one()]));
    for _ in 0..100 {
        world.pass(seconds(10));
        if !world.connections.is_empty() {
            world.refuse('a');
        }
    }
    assert_eq!(world.table(), None, "5000 s after End of Data");
    assert_eq!(world.take_events(), ["rpki.cache.expired", "rpki.data.none"]);
    // A cache that is back is asked for all data.
    world.pass(seconds(31));
    world.accept('a');
    assert_eq!(world.take_sent().pop(), Some(('a', 2, Pdu::ResetQuery)));
}

#[test]
fn a_cache_that_is_back_is_asked_for_changes() {
    let mut world = synchronized(&[one()]);
    world.hang_up('a');
    world.pass(seconds(3));
    world.accept('a');
    assert_eq!(world.take_sent(), [serial_query(100)]);
    world.answer('a', 7, 101, &[(two(), true)]);
    assert_eq!(world.table(), sorted(&[one(), two()]));
}

#[test]
fn after_an_error_all_data_are_asked_for_and_the_old_ones_stay() {
    // Every code of RFC 8210, section 12, a later one, and one that IANA has not assigned.
    for code in (0..10).chain([999]) {
        let mut world = synchronized(&[one()]);
        // The cache restarts: it has another session, and reports an error for the query for changes.
        world.hang_up('a');
        world.pass(seconds(10));
        world.accept('a');
        assert_eq!(world.take_sent(), [serial_query(100)]);
        let report = ErrorReport { code: ErrorCode(code), pdu: vec![], text: String::new() };
        world.send('a', &[Pdu::ErrorReport(report)]);
        assert_eq!(world.table(), sorted(&[one()]), "code {code}: data stay");
        world.pass(seconds(60));
        // A cache without data keeps its connection; others are connected to again.
        if world.closed.last() == Some(&'a') {
            world.accept('a');
        }
        let (_, version, query) = world.take_sent().pop().expect("a query");
        assert_eq!(query, Pdu::ResetQuery, "code {code}");
        let pdus = answer(8, 1, &[(two(), true)]);
        world.send_in('a', version, &pdus[..2]);
        // A notification of the new session in the middle of the answer ends nothing.
        world.send_in('a', version, &[Pdu::SerialNotify { session: 8, serial: Serial(1) }]);
        assert_eq!(world.table(), sorted(&[one()]), "code {code}: until End of Data");
        world.send_in('a', version, &pdus[2..]);
        assert_eq!(world.table(), sorted(&[two()]), "code {code}");
        // From then on changes are asked for again.
        world.pass(seconds(3600));
        let last = world.take_sent().pop().expect("a query");
        assert_eq!(last, ('a', version, Pdu::SerialQuery { session: 8, serial: Serial(1) }), "code {code}");
    }
}

#[test]
fn after_an_error_of_the_cache_all_data_are_asked_for() {
    let response = Pdu::CacheResponse { session: 7 };
    for pdus in [
        vec![response.clone(), Pdu::Prefix(one(), true)],
        vec![response.clone(), Pdu::Prefix(two(), false)],
        vec![response.clone(), response],
        vec![Pdu::ResetQuery],
    ] {
        let mut world = synchronized(&[one()]);
        world.pass(seconds(1000));
        world.send('a', &pdus);
        assert_eq!((world.table(), world.closed.clone()), (sorted(&[one()]), vec!['a']), "{pdus:?}");
        world.pass(seconds(10));
        world.accept('a');
        assert_eq!(world.take_sent().pop(), Some(('a', 2, Pdu::ResetQuery)), "{pdus:?}");
    }
}

#[test]
fn a_query_for_changes_without_an_answer_is_not_repeated() {
    for is_closed in [true, false] {
        let mut world = synchronized(&[one()]);
        world.pass(seconds(1000));
        assert_eq!(world.take_sent(), [serial_query(100)]);
        if is_closed {
            world.hang_up('a');
        } else {
            world.pass(seconds(60));
        }
        world.pass(seconds(10));
        world.accept('a');
        assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
        assert_eq!(world.table(), sorted(&[one()]));
    }
}

#[test]
fn configured_times_take_the_place_of_the_caches() {
    let mut settings = cache("a", 1);
    settings.refresh = Some(seconds(20));
    settings.expire = Some(seconds(50));
    let mut world = World::new(&[settings.clone()]);
    world.accept('a');
    world.answer('a', 7, 1, &[(one(), true)]);
    world.take_sent();
    world.pass(seconds(20));
    assert_eq!(world.take_sent().len(), 1);
    world.hang_up('a');
    world.pass(seconds(29));
    assert!(world.table().is_some());
    // A longer time while the data count is a longer life; the cache's own bound stays.
    settings.expire = Some(seconds(1_000_000));
    world.configure(&[settings], Exceptions::default());
    world.connections.clear();
    world.pass(seconds(1000));
    assert!(world.table().is_some());
    world.pass(seconds(5000));
    assert_eq!(world.table(), None);
}

#[test]
fn a_silent_cache_is_lost() {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.pass(seconds(50));
    // Whatever comes starts the wait anew.
    world.send('a', &[Pdu::CacheResponse { session: 7 }]);
    world.pass(seconds(50));
    world.send('a', &[Pdu::Prefix(one(), true)]);
    world.pass(seconds(59));
    assert_eq!(world.closed, []);
    world.pass(seconds(1));
    assert_eq!((world.closed.clone(), world.table()), (vec!['a'], None));
}

#[test]
fn older_versions_are_spoken_with_older_caches() {
    // The cache answers in version 0.
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.take_sent();
    world.send_in('a', 0, &[Pdu::SerialNotify { session: 1, serial: Serial(1) }]);
    world.send_in('a', 0, &answer(7, 100, &[(one(), true)]));
    assert_eq!(world.table(), sorted(&[one()]));
    world.pass(seconds(3600));
    assert_eq!(world.take_sent(), [('a', 0, Pdu::SerialQuery { session: 7, serial: Serial(100) })]);
    // The cache reports that it does not know the version.
    let unsupported = |code| Pdu::ErrorReport(ErrorReport { code, pdu: vec![], text: String::new() });
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.take_sent();
    world.send_in('a', 0, &[unsupported(ErrorCode::UNSUPPORTED_VERSION)]);
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 0, Pdu::ResetQuery)]);
    world.send_in('a', 0, &answer(7, 100, &[(one(), true)]));
    assert_eq!((world.table(), world.take_events()[0]), (sorted(&[one()]), "rpki.cache.synchronized"));
    // The version stays for the session.
    world.send_in('a', 1, &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    let sent = world.take_sent();
    assert!(
        matches!(&sent[..], [('a', 0, Pdu::ErrorReport(r))] if r.code == ErrorCode::UNEXPECTED_VERSION),
        "{sent:?}"
    );
    // A cache that knows no version that this router knows is lost, and not asked in a loop.
    let mut world = World::new(&[cache("a", 1)]);
    for _ in 0..2 {
        world.accept('a');
        world.send_in('a', 0, &[unsupported(ErrorCode::UNSUPPORTED_VERSION)]);
    }
    assert_eq!((world.connected(), world.take_events()), (String::new(), vec!["rpki.cache.lost"]));
    // A cache that closes the connection without a word.
    let mut world = World::new(&[cache("a", 1)]);
    for _ in 0..3 {
        world.accept('a');
        world.hang_up('a');
        world.pass(seconds(10));
    }
    world.accept('a');
    assert_eq!(world.take_sent().pop(), Some(('a', 0, Pdu::ResetQuery)));
}

#[test]
fn caches_that_break_the_rules_are_refused() {
    let end = |session| Pdu::EndOfData { session, serial: Serial(200), intervals: None };
    let response = Pdu::CacheResponse { session: 7 };
    for (pdus, code) in [
        (vec![response.clone(), Pdu::Prefix(one(), true)], ErrorCode::DUPLICATE),
        (vec![response.clone(), Pdu::Prefix(two(), false)], ErrorCode::UNKNOWN_RECORD),
        (vec![response.clone(), Pdu::Prefix(two(), true), Pdu::Prefix(two(), true)], ErrorCode::DUPLICATE),
        (vec![response.clone(), response.clone()], ErrorCode::CORRUPT_DATA),
        (vec![response, end(9)], ErrorCode::CORRUPT_DATA),
        (vec![end(7)], ErrorCode::CORRUPT_DATA),
        (vec![Pdu::Prefix(two(), true)], ErrorCode::CORRUPT_DATA),
        (vec![Pdu::ResetQuery], ErrorCode::CORRUPT_DATA),
    ] {
        let mut world = synchronized(&[one()]);
        world.pass(seconds(1000));
        world.take_sent();
        world.send('a', &pdus);
        let sent = world.take_sent();
        let [(_, _, Pdu::ErrorReport(report))] = &sent[..] else { panic!("{pdus:?}: {sent:?}") };
        assert_eq!((report.code, report.text.is_empty()), (code, false), "{pdus:?}");
        assert_eq!(world.closed, ['a'], "{pdus:?}");
    }
    let mut world = synchronized(&[one()]);
    world.octets('a', &[2, 99, 0, 0, 0, 0, 0, 8]);
    let sent = world.take_sent();
    assert!(matches!(&sent[..], [(_, _, Pdu::ErrorReport(r))] if r.code == ErrorCode::UNSUPPORTED_TYPE));
    // All data: nothing may go, nothing may come twice.
    for (changes, code) in [
        ([(one(), true), (one(), true)], ErrorCode::DUPLICATE),
        ([(one(), true), (one(), false)], ErrorCode::UNKNOWN_RECORD),
    ] {
        let mut world = World::new(&[cache("a", 1)]);
        world.accept('a');
        world.take_sent();
        world.answer('a', 7, 1, &changes);
        let sent = world.take_sent();
        assert!(matches!(&sent[..], [(_, _, Pdu::ErrorReport(r))] if r.code == code), "{sent:?}");
    }
    // No report answers a report.
    let mut world = synchronized(&[one()]);
    let report = ErrorReport { code: ErrorCode::INTERNAL_ERROR, pdu: vec![], text: "out of luck".into() };
    world.send('a', &[Pdu::ErrorReport(report)]);
    assert_eq!((world.take_sent(), world.closed.clone()), (vec![], vec!['a']));
    let view = world.machine.view(world.now).remove(0);
    assert_eq!(view.problem.as_deref(), Some("the cache reports: Internal Error: out of luck"));
    assert_eq!((view.state, view.vrps, view.serial), ("waiting", (1, 0), Some((7, 100))));
}

#[test]
fn exceptions_change_the_data_at_once() {
    let mut world = synchronized(&[one(), two()]);
    let own = vrp("198.51.100.0/24", 24, 65009);
    let filters = vec![Filter { prefix: None, asn: Some(sluice_base::Asn(65001)) }];
    let exceptions = Exceptions { assertions: vec![own], filters, ..Exceptions::default() };
    world.configure(&[cache("a", 1)], exceptions.clone());
    assert_eq!(world.table(), sorted(&[two(), own]));
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    world.answer('a', 7, 101, &[(two(), false)]);
    assert_eq!(world.table(), sorted(&[own]));
    // Without caches the operator's own VRPs are all there is.
    world.configure(&[], exceptions);
    assert_eq!((world.table(), world.closed.clone()), (sorted(&[own]), vec!['a']));
    world.configure(&[], Exceptions::default());
    assert_eq!(world.table(), None);
    assert!(world.machine.is_settled());
}
