//! ASPAs of version 2 (draft-ietf-sidrops-8210bis): announced, replaced and withdrawn; epochs; older versions; caches that break the rules.

use crate::world::{World, answer, answer_of, cache, providers, seconds, sorted, vrp};
use proptest::prelude::*;
use sluice_base::Asn;
use sluice_rpki::epoch::Missing;
use sluice_rpki::exceptions::{Exceptions, Filter};
use sluice_rpki::serial::Serial;
use sluice_rpki::wire::{ErrorCode, ErrorReport, Pdu};
use sluice_validation::AspaSet;

fn set(aspas: &[(u32, &[u32])]) -> AspaSet {
    AspaSet::new(aspas.iter().filter_map(|(customer, asns)| Some((Asn(*customer), providers(asns)?))))
}

fn announced(customer: u32, asns: &[u32]) -> Pdu {
    Pdu::Aspa(Asn(customer), providers(asns))
}

fn withdrawn(customer: u32) -> Pdu {
    Pdu::Aspa(Asn(customer), None)
}

/// A world whose cache `a` has sent these PDUs with session 7 and this serial number.
fn synchronized_at(serial: u32, pdus: &[Pdu]) -> World {
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
    world.send('a', &answer_of(7, serial, pdus));
    assert_eq!(world.take_events(), ["rpki.cache.synchronized", "rpki.data.source"]);
    world
}

fn synchronized() -> World {
    synchronized_at(100, &[announced(10, &[1, 2]), announced(20, &[0])])
}

/// The cache notifies of a serial number and answers the query.
fn change(world: &mut World, serial: u32, pdus: &[Pdu]) {
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(serial) }]);
    world.take_sent();
    world.send('a', &answer_of(7, serial, pdus));
}

#[test]
fn an_answer_takes_effect_as_a_whole() {
    let mut world = synchronized();
    assert_eq!(world.aspas(), set(&[(10, &[1, 2]), (20, &[0])]));
    let epoch = world.machine.epochs().number();
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(101) }]);
    let pdus = answer_of(7, 101, &[announced(10, &[3]), withdrawn(20), announced(30, &[10])]);
    world.send('a', &pdus[..4]);
    assert_eq!((world.aspas(), world.machine.epochs().number()), (set(&[(10, &[1, 2]), (20, &[0])]), epoch));
    world.send('a', &pdus[4..]);
    assert_eq!(world.aspas(), set(&[(10, &[3]), (30, &[10])]));
    let Missing::Changes(changes) = world.machine.epochs().since(epoch) else { panic!("a difference") };
    let expected = [(Asn(10), providers(&[3])), (Asn(20), None), (Asn(30), providers(&[10]))];
    assert_eq!(changes.aspas.into_iter().collect::<Vec<_>>(), expected);
    let view = world.machine.view(world.now).remove(0);
    assert_eq!((view.version, view.aspas, view.vrps), (2, 2, (0, 0)));
    assert_eq!(world.machine.epochs().number(), epoch + 1);
}

#[test]
fn the_last_word_on_a_customer_counts() {
    let mut world = synchronized();
    let epoch = world.machine.epochs().number();
    change(&mut world, 101, &[withdrawn(10), announced(10, &[5]), announced(10, &[6])]);
    assert_eq!(world.aspas(), set(&[(10, &[6]), (20, &[0])]));
    // The same again is no epoch, and so is an ASPA that comes and goes.
    change(&mut world, 102, &[announced(10, &[6])]);
    change(&mut world, 103, &[announced(40, &[1]), withdrawn(40)]);
    assert_eq!(world.machine.epochs().number(), epoch + 1);
    // Differences over several epochs lead to the present one.
    change(&mut world, 104, &[withdrawn(20)]);
    change(&mut world, 105, &[announced(20, &[9]), announced(10, &[7])]);
    let Missing::Changes(changes) = world.machine.epochs().since(epoch) else { panic!("a difference") };
    assert_eq!(set(&[(10, &[1, 2]), (20, &[0])]).changed(&changes.aspas), world.aspas());
}

#[test]
fn serial_numbers_wrap_and_resets_bring_all_anew() {
    let mut world = synchronized_at(u32::MAX, &[announced(10, &[1])]);
    change(&mut world, 1, &[announced(20, &[2])]);
    assert_eq!(world.aspas(), set(&[(10, &[1]), (20, &[2])]));
    world.send('a', &[Pdu::SerialNotify { session: 7, serial: Serial(9) }]);
    world.take_sent();
    world.send('a', &[Pdu::CacheReset]);
    assert_eq!(world.take_sent(), [('a', 2, Pdu::ResetQuery)]);
    assert_eq!(world.aspas().len(), 2, "old data count until End of Data");
    world.send('a', &answer_of(8, 1, &[announced(30, &[3])]));
    assert_eq!(world.aspas(), set(&[(30, &[3])]));
    // A reset in the middle of an answer changes nothing.
    world.send('a', &[Pdu::SerialNotify { session: 8, serial: Serial(2) }]);
    world.take_sent();
    world.send('a', &[Pdu::CacheResponse { session: 8 }, withdrawn(30), Pdu::CacheReset]);
    assert_eq!((world.aspas(), world.closed.clone()), (set(&[(30, &[3])]), vec!['a']));
}

#[test]
fn caches_that_break_the_rules_are_refused() {
    for (pdus, code) in [
        (vec![withdrawn(99)], ErrorCode::UNKNOWN_RECORD),
        (vec![withdrawn(10), withdrawn(10)], ErrorCode::UNKNOWN_RECORD),
    ] {
        let mut world = synchronized();
        change(&mut world, 101, &pdus);
        let sent = world.take_sent();
        let [(_, 2, Pdu::ErrorReport(report))] = &sent[..] else { panic!("{pdus:?}: {sent:?}") };
        assert_eq!(report.code, code, "{pdus:?}");
        assert_eq!(world.aspas(), set(&[(10, &[1, 2]), (20, &[0])]), "data stay");
    }
    // In the answer to a reset query nothing goes.
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.send('a', &answer_of(7, 1, &[announced(10, &[1]), withdrawn(10)]));
    assert!(
        matches!(world.take_sent().pop(), Some((_, _, Pdu::ErrorReport(r))) if r.code == ErrorCode::UNKNOWN_RECORD)
    );
    // Outside of an answer.
    let mut world = synchronized();
    world.send('a', &[announced(10, &[1])]);
    assert!(
        matches!(world.take_sent().pop(), Some((_, _, Pdu::ErrorReport(r))) if r.code == ErrorCode::CORRUPT_DATA)
    );
    // In version 1 there are none.
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.send_in('a', 1, &answer_of(7, 1, &[announced(10, &[1])]));
    assert!(
        matches!(world.take_sent().pop(), Some((_, 1, Pdu::ErrorReport(r))) if r.code == ErrorCode::UNSUPPORTED_TYPE)
    );
}

#[test]
fn versions_are_negotiated_down_one_by_one() {
    let one = vrp("192.0.2.0/24", 24, 65001);
    let unsupported = |code| Pdu::ErrorReport(ErrorReport { code, pdu: vec![], text: String::new() });
    // Each older version is offered once, and the data of the older version are asked for as a whole.
    let mut world = World::new(&[cache("a", 1)]);
    for (asked, answered) in [(2, 1), (1, 0)] {
        world.accept('a');
        assert_eq!(world.take_sent(), [('a', asked, Pdu::ResetQuery)]);
        world.send_in('a', answered, &[unsupported(ErrorCode::UNSUPPORTED_VERSION)]);
    }
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 0, Pdu::ResetQuery)]);
    world.send_in('a', 0, &answer(7, 100, &[(one, true)]));
    assert_eq!(world.table(), sorted(&[one]));
    // A cache of version 1 answers in its version.
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.take_sent();
    world.send_in('a', 1, &answer(7, 100, &[(one, true)]));
    world.pass(seconds(1000));
    assert_eq!(world.take_sent(), [('a', 1, Pdu::SerialQuery { session: 7, serial: Serial(100) })]);
    // A cache that came back with an older version: its serial numbers are others.
    let mut world = synchronized();
    world.hang_up('a');
    world.pass(seconds(3));
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 2, Pdu::SerialQuery { session: 7, serial: Serial(100) })]);
    world.send_in('a', 1, &[Pdu::CacheResponse { session: 7 }]);
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 1, Pdu::ResetQuery)]);
    world.send_in('a', 1, &answer(7, 100, &[(one, true)]));
    assert_eq!((world.table(), world.aspas()), (sorted(&[one]), AspaSet::default()));
}

/// Caches with an earlier draft of version 2 write ASPAs otherwise. Their VRPs still count.
#[test]
fn a_cache_with_an_earlier_draft_is_asked_in_version_1() {
    let one = vrp("192.0.2.0/24", 24, 65001);
    // Draft 10: flags, address family, number of providers, customer, providers.
    let older = [2, 11, 0, 0, 0, 0, 0, 24, 1, 0, 0, 2, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut world = World::new(&[cache("a", 1)]);
    world.accept('a');
    world.take_sent();
    world.send('a', &answer(7, 100, &[(one, true)])[..2]);
    world.octets('a', &older);
    let sent = world.take_sent();
    assert!(
        matches!(&sent[..], [(_, 2, Pdu::ErrorReport(r))] if r.code == ErrorCode::PROVIDER_LIST),
        "{sent:?}"
    );
    world.pass(seconds(3));
    world.accept('a');
    assert_eq!(world.take_sent(), [('a', 1, Pdu::ResetQuery)]);
    world.send_in('a', 1, &answer(7, 100, &[(one, true)]));
    assert_eq!(world.table(), sorted(&[one]));
    // Once the cache was away, it may know the present draft.
    world.hang_up('a');
    world.pass(seconds(3));
    world.refuse('a');
    world.pass(seconds(10));
    world.accept('a');
    assert_eq!(world.take_sent().pop(), Some(('a', 2, Pdu::ResetQuery)));
}

#[test]
fn exceptions_for_origins_leave_aspas_alone() {
    let mut world = synchronized();
    let filters = vec![Filter { prefix: None, asn: Some(Asn(10)) }];
    let assertions = vec![vrp("192.0.2.0/24", 24, 1)];
    world.configure(&[cache("a", 1)], Exceptions { assertions, filters, ..Exceptions::default() });
    assert_eq!(world.aspas(), set(&[(10, &[1, 2]), (20, &[0])]));
}

#[test]
fn exceptions_for_aspas_hold_at_once_and_for_later_answers() {
    let mut world = synchronized();
    let epoch = world.machine.epochs().number();
    let own = |customer: u32, asns: &[u32]| (Asn(customer), providers(asns).expect("providers"));
    let exceptions = Exceptions {
        aspa_assertions: vec![own(10, &[9]), own(30, &[8])],
        aspa_filters: vec![Asn(20)],
        ..Exceptions::default()
    };
    world.configure(&[cache("a", 1)], exceptions.clone());
    assert_eq!(world.aspas(), set(&[(10, &[1, 2, 9]), (30, &[8])]));
    let Missing::Changes(changes) = world.machine.epochs().since(epoch) else { panic!("a difference") };
    assert_eq!(changes.aspas.len(), 3);
    change(&mut world, 101, &[announced(10, &[3]), announced(20, &[4]), announced(30, &[5])]);
    assert_eq!(world.aspas(), set(&[(10, &[3, 9]), (30, &[5, 8])]));
    change(&mut world, 102, &[withdrawn(10)]);
    assert_eq!(world.aspas(), set(&[(10, &[9]), (30, &[5, 8])]));
    // Without exceptions what the cache said counts.
    world.configure(&[cache("a", 1)], Exceptions::default());
    assert_eq!(world.aspas(), set(&[(20, &[4]), (30, &[5])]));
    // Without a cache those of the operator are all there is.
    let mut world = World::new(&[]);
    world.configure(&[], exceptions);
    assert_eq!(world.aspas(), set(&[(10, &[9]), (30, &[8])]));
}

proptest! {
    /// Answers after answers, beside a map: the ASPAs in effect, and the difference since the first answer.
    #[test]
    fn answers_lead_where_the_model_does(
        answers in proptest::collection::vec(
            proptest::collection::vec((1u32..5, proptest::option::of(0u32..4)), 0..6), 1..6
        )
    ) {
        let mut world = synchronized();
        let first = world.aspas();
        let known = world.machine.epochs().number();
        let mut model: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
        model.extend([(1, 9), (2, 9)]);
        change(&mut world, 101, &[withdrawn(10), withdrawn(20), announced(1, &[9]), announced(2, &[9])]);
        for (serial, changes) in (102u32..).zip(&answers) {
            let mut pdus = Vec::new();
            for (customer, provider) in changes {
                match provider {
                    Some(provider) => drop(model.insert(*customer, *provider)),
                    None if model.remove(customer).is_none() => continue,
                    None => {}
                }
                pdus.push(provider.map_or(withdrawn(*customer), |provider| announced(*customer, &[provider])));
            }
            change(&mut world, serial, &pdus);
            let expected = AspaSet::new(
                model.iter().filter_map(|(customer, provider)| Some((Asn(*customer), providers(&[*provider])?))),
            );
            prop_assert_eq!(&world.aspas(), &expected);
            let Missing::Changes(changes) = world.machine.epochs().since(known) else {
                return Err(TestCaseError::fail("the difference is in the log"));
            };
            prop_assert_eq!(first.changed(&changes.aspas), expected);
        }
    }
}
