//! Principals at run time: registered, replaced, side by side, decided for from outside, independent of each other.

use crate::world::{World, exact, forward, inside, of, row_of, xid};
use proptest::prelude::*;
use sluice_base::{Duration, Instant, Rng, Xid, XidPrefix, XidType};
use sluice_xip::anchor::{Deps, Token};
use sluice_xip::answer::{Action, Answer, NeighborId};
use sluice_xip::outside::{AnswerError, OutsideAnswer, OutsideLimits, OutsidePrincipal};
use sluice_xip::principals::catalog::CATALOG;
use sluice_xip::principals::{Actions, Treatment};
use sluice_xip::registry::{RegisterError, Registered, Registry};
use sluice_xip::route::{ChangeError, Route};
use sluice_xip::router::{Limits, Outcome};
use sluice_xip::row::{Edge, Row};
use std::path::Path;

const CID: XidType = XidType(0x12);

#[test]
fn no_principal_names_another_one_or_a_cache() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/principals");
    let names: Vec<&str> = XidType::named().map(|(name, _)| name).collect();
    let machinery = ["cache", "forest", "registry", "router", "catalog"];
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["mod", "catalog"].contains(&stem.as_str()) {
            continue; // the trait, which describes the router to its readers, and the rows of all principals
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines() {
            let is_comment = line.trim_start().starts_with("//");
            for word in line.split(|c: char| !c.is_ascii_alphanumeric()) {
                let word = word.to_ascii_lowercase();
                assert!(word == stem || !names.contains(&word.as_str()), "{stem} names {word}");
                assert!(is_comment || !machinery.contains(&word.as_str()), "{stem} uses {word}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, CATALOG.len() + 3, "nine principals, two shared kinds and their table");
}

#[test]
fn an_empty_set_of_principals_routes_nothing_and_each_may_come_and_go() {
    let mut world = World::empty(Limits::default());
    let rows: Vec<_> =
        CATALOG.iter().map(|row| row_of(&[of(row.number, 1), of(XidType(0x999), 1)])).collect();
    for row in &rows {
        assert_eq!(world.answer(row), Some(Answer::Unreachable));
    }
    for (place, principal) in CATALOG.iter().enumerate() {
        let before = world.flushed;
        world.register(inside(principal.name, principal.number));
        assert_eq!(world.flushed - before, 1, "{} reaches its own row only", principal.name);
        assert!(world.answer(&rows[place]).is_some());
        world.check();
    }
    for principal in CATALOG {
        let before = world.flushed;
        world.unregister(principal.number);
        assert_eq!(world.flushed - before, 1);
        world.check();
    }
    assert_eq!(
        world.router.change(exact(of(CID, 1)), Some(Route::Local)),
        Err(ChangeError::UnknownPrincipal)
    );
}

#[test]
fn two_versions_of_a_principal_stand_side_by_side() {
    let v2 = XidType(0x53);
    let mut world = World::new(Limits::default());
    world.register(inside("hid", v2));
    let row = row_of(&[of(v2, 1), of(XidType::HID, 1)]);
    world.route(of(XidType::HID, 1), Route::Neighbor(NeighborId(1)));
    assert_eq!(world.answer(&row), Some(forward(1, 1)));
    world.route(of(v2, 1), Route::Neighbor(NeighborId(2)));
    assert_eq!(world.answer(&row), Some(forward(0, 2)));
    world.unregister(v2);
    assert_eq!(world.answer(&row), Some(forward(1, 1)));
    // Replacing a principal empties its table, and is one touch.
    world.register(inside("hid", XidType::HID));
    assert_eq!(world.answer(&row), Some(Answer::Unreachable));
}

#[test]
fn the_registry_is_bounded_and_refuses_the_type_of_no_principal() {
    let mut world = World::empty(Limits::default());
    for number in 1..=Registry::MOST as u32 {
        world.register(inside("ad", XidType(number)));
    }
    assert_eq!(world.router.register(inside("ad", XidType(0x100))), Err(RegisterError::Full));
    assert_eq!(world.router.register(inside("ad", XidType::NAT)), Err(RegisterError::NotAType));
}

#[test]
fn routes_that_a_principal_does_not_know_are_refused() {
    let mut world = World::new(Limits::default());
    let neighbor = Some(Route::Neighbor(NeighborId(1)));
    let redirect = Some(Route::Redirect(of(XidType::HID, 1)));
    let short = XidPrefix::of_type(XidType::AD, [0; 20], 8).unwrap();
    for (prefix, route, error) in [
        (exact(of(XidType::AD, 1)), neighbor, ChangeError::WrongRoute),
        (exact(of(XidType::XDP, 1)), neighbor, ChangeError::WrongRoute),
        (exact(of(XidType::ETHER, 1)), redirect, ChangeError::WrongRoute),
        (exact(of(XidType::ZF, 1)), neighbor, ChangeError::WrongRoute),
        (exact(of(XidType::ZF, 1)), Some(Route::Redirect(of(XidType::ZF, 2))), ChangeError::SameTypeGateway),
        (exact(of(XidType::U4ID, 1)), Some(Route::Local), ChangeError::IllFormed),
        (exact(of(XidType::UNI4ID, 1)), Some(Route::Local), ChangeError::NoTable),
        (exact(of(XidType::HID, 1)), Some(Route::Tunnel { no_check: true }), ChangeError::WrongRoute),
        (short, Some(Route::Local), ChangeError::NotExact),
        ("xid/0".parse().unwrap(), Some(Route::Local), ChangeError::WrongType),
    ] {
        assert_eq!(world.router.change(prefix, route), Err(error), "{prefix}");
    }
}

#[test]
fn the_longest_prefix_decides_from_0_to_160_bits() {
    let mut world = World::new(Limits { consultations: 3, ..Limits::default() });
    let id = xid("lpm-0a024702c3d7ffffffffffffffffffffffffffff").id;
    let row = row_of(&[Xid { kind: XidType::LPM, id }]);
    for bits in 0..=160_u8 {
        let gateway = of(XidType::HID, bits);
        world.route(gateway, Route::Neighbor(NeighborId(u32::from(bits))));
        let prefix = XidPrefix::of_type(XidType::LPM, id, bits).unwrap();
        world.change(prefix, Some(Route::Redirect(gateway)));
        assert_eq!(world.answer(&row), Some(forward(0, u32::from(bits))));
    }
    // A prefix beside the XID touches nothing; removing any but the longest neither.
    let before = world.flushed;
    world.change(XidPrefix::of_type(XidType::LPM, [0x55; 20], 20).unwrap(), Some(Route::Local));
    world.change(XidPrefix::of_type(XidType::LPM, id, 50).unwrap(), None);
    assert_eq!(world.flushed, before);
    world.change(XidPrefix::of_type(XidType::LPM, id, 160).unwrap(), None);
    assert_eq!((world.flushed - before, world.answer(&row)), (1, Some(forward(0, 159))));
    world.check();
}

fn outside(world: &mut World) -> &mut OutsidePrincipal {
    world.router.registry_mut().outside_mut(CID).unwrap()
}

const MS: u64 = 1_000_000;

fn asked_world(questions: usize, answers: usize) -> World {
    let mut world = World::new(Limits::default());
    let limits = OutsideLimits { questions, answers, patience: Duration::from_millis(50) };
    world.register(Registered::Outside(Box::new(OutsidePrincipal::new(CID, limits, 1))));
    world.route(of(XidType::HID, 1), Route::Neighbor(NeighborId(1)));
    world
}

#[test]
fn questions_go_outside_in_batches_and_answers_may_be_taken_back() {
    let mut world = asked_world(100, 100);
    let row = |n| row_of(&[of(CID, n), of(XidType::HID, 1)]);
    assert_eq!(world.answer(&row(1)), Some(forward(1, 1)), "an absent process is passed over at once");
    let touched = outside(&mut world).set_present(true);
    world.flush(&touched);
    for n in [1, 2, 1, 3] {
        assert_eq!(world.answer(&row(n)), None, "the answer is awaited");
    }
    let questions = [outside(&mut world).take_questions(2), outside(&mut world).take_questions(2)];
    assert_eq!(questions, [vec![of(CID, 1), of(CID, 2)], vec![of(CID, 3)]]);
    let to = OutsideAnswer::Forward(Actions::both(Treatment::Forward(NeighborId(9))));
    for (n, token, answer) in [(1, 1, to), (2, 1, OutsideAnswer::NextEdge), (3, 2, to)] {
        let touched = outside(&mut world).answer(of(CID, n), Token(token), answer).unwrap();
        world.flush(&touched);
    }
    let answers = [1, 2, 3].map(|n| world.answer(&row(n)).unwrap());
    assert_eq!(answers, [forward(0, 9), forward(1, 1), forward(0, 9)]);
    let before = world.flushed;
    let touched = outside(&mut world).take_back(Token(1));
    world.flush(&touched);
    assert_eq!(world.flushed - before, 2, "the answer with another token stands");
    assert_eq!([1, 3].map(|n| world.answer(&row(n))), [None, Some(forward(0, 9))]);
    assert_eq!(outside(&mut world).take_questions(9), [of(CID, 1)]);
    let unasked = outside(&mut world).answer(of(CID, 77), Token(1), to);
    assert_eq!(unasked, Err(AnswerError::NotAsked));
    let redirect = OutsideAnswer::Redirect(of(XidType::HID, 1));
    let touched = outside(&mut world).answer(of(CID, 3), Token(5), redirect).unwrap();
    world.flush(&touched);
    assert_eq!(world.answer(&row(3)), Some(forward(0, 1)));
    world.check();
}

#[test]
fn a_slow_process_is_passed_over_after_the_limit_and_its_late_answer_counts() {
    let mut world = asked_world(2, 2);
    let row = |n| row_of(&[of(CID, n), of(XidType::HID, 1)]);
    let _ = outside(&mut world).set_present(true);
    assert_eq!([1, 2].map(|n| world.answer(&row(n))), [None, None]);
    let mut deps = Deps::default();
    let Outcome::Decided { answer, is_cacheable: false, .. } =
        world.router.decide(Instant::ZERO, &row(3), &mut deps)
    else {
        panic!("a third question does not wait");
    };
    assert_eq!(answer, forward(1, 1));
    assert_eq!(outside(&mut world).next_deadline(), Some(Instant::from_nanos(50 * MS)));
    assert!(outside(&mut world).on_deadline(Instant::from_nanos(50 * MS - 1)).is_empty());
    let late = outside(&mut world).on_deadline(Instant::from_nanos(50 * MS));
    assert_eq!((late.len(), outside(&mut world).counts()), (2, (0, 2, 0)));
    world.flush(&late);
    assert_eq!(world.answer(&row(1)), Some(forward(1, 1)));
    let to = OutsideAnswer::Forward(Actions::both(Treatment::Deliver));
    let touched = outside(&mut world).answer(of(CID, 1), Token(1), to).unwrap();
    world.flush(&touched);
    assert_eq!(world.answer(&row(1)), Some(Answer::Chosen { edge: 0, action: Action::Deliver }));
    // More answers than the bound: the oldest is forgotten, and the decision that rests on it too.
    world.now = Instant::from_nanos(60 * MS);
    for n in [4, 5] {
        assert_eq!(world.answer(&row(n)), None);
        let touched = outside(&mut world).answer(of(CID, n), Token(2), to).unwrap();
        world.flush(&touched);
    }
    assert_eq!(outside(&mut world).counts().2, 2);
    assert_eq!(world.answer(&row(1)), None);
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn cached_answers_are_true_after_any_input_of_a_process(seed in any::<u64>(), bound in 1..6_usize) {
        let mut world = asked_world(bound, bound);
        let mut rng = Rng::from_seed(seed);
        for _ in 0..200 {
            world.now = world.now + Duration::from_millis(rng.below(20));
            let (n, now) = (rng.below(8) as u8, world.now);
            let token = Token(rng.below(4) as u32);
            let answer = match rng.below(4) {
                0 => OutsideAnswer::NextEdge,
                1 => OutsideAnswer::Redirect(of(XidType::HID, 1)),
                2 => OutsideAnswer::Redirect(of(CID, 3)),
                _ => OutsideAnswer::Forward(Actions::both(Treatment::Forward(NeighborId(2)))),
            };
            let touched = match rng.below(30) {
                0 => outside(&mut world).set_present(false).to_vec(),
                1..=3 => outside(&mut world).set_present(true).to_vec(),
                4..=6 => outside(&mut world).take_back(token).to_vec(),
                7..=11 => outside(&mut world).on_deadline(now),
                12..=18 => outside(&mut world).answer(of(CID, n), token, answer).map_or_else(|_| Vec::new(), |touched| touched.to_vec()),
                _ => {
                    let row = row_of(&[of(CID, n), of(XidType::HID, 1)]);
                    world.answer(&row);
                    Vec::new()
                }
            };
            world.flush(&touched);
            world.check();
            let (waiting, late, answered) = outside(&mut world).counts();
            prop_assert!(waiting <= bound && late <= bound && answered <= bound, "{waiting} {late} {answered}");
        }
    }

    #[test]
    fn no_row_of_a_packet_is_too_strange(octets in any::<[[u8; 24]; 4]>(), kind in 0..CATALOG.len(), is_sink in any::<bool>()) {
        let mut world = World::new(Limits::default());
        world.route(of(XidType::ZF, 0), Route::Redirect(of(XidType::HID, 1)));
        world.change(XidPrefix::of_type(XidType::LPM, [0; 20], 0).unwrap(), Some(Route::Local));
        let edge = |octets: [u8; 24]| {
            let xid = Xid::from_octets(octets);
            Edge { xid: Xid { kind: CATALOG[(kind + usize::from(octets[5])) % CATALOG.len()].number, ..xid }, is_sink }
        };
        let row = Row { edges: octets.into_iter().map(edge).collect(), is_input: true };
        prop_assert!(world.answer(&row).is_some());
        world.check();
    }
}

#[test]
fn an_operator_sees_entries_page_by_page() {
    let mut world = World::new(Limits::default());
    for n in 0..10_u8 {
        world.route(of(XidType::HID, n), Route::Neighbor(NeighborId(u32::from(n))));
        world.route(of(XidType::ZF, n), Route::Local);
    }
    for kind in [XidType::HID, XidType::ZF] {
        let principal = world.router.registry().get(kind).unwrap();
        let (mut after, mut seen) = (None, Vec::new());
        while let Some(last) = principal.view(after, 3).last() {
            seen.extend(principal.view(after, 3).iter().map(|entry| entry.prefix));
            after = Some(last.prefix);
        }
        let expected: Vec<_> = (0..10_u8).map(|n| exact(of(kind, n))).collect();
        assert_eq!((seen, principal.entry_count()), (expected, 10));
    }
}
