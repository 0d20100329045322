//! The shared configuration: offers, decisions and keepers, and a world of elements that are killed at any moment.

mod world;

use proptest::prelude::*;
use sluice_base::Instant;
use sluice_cluster::configuration::decision::{ATTEMPTS, Decision, Outcome, Step as DecisionStep, Written};
use sluice_cluster::configuration::keeper::{Keeper, Step};
use sluice_cluster::configuration::offer::{self, Absence, Answer, Offer};
use sluice_cluster::configuration::shared::{
    Author, DecisionId, MOST_TEXT, MOST_WORDS, Proposal, REMEMBERED, Shared, SharedError,
};
use sluice_cluster::inventory::ElementId;
use std::time::Duration;
use world::{Event, World};

fn element(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn id(count: u64) -> DecisionId {
    DecisionId { element: element(21), epoch: 1, count }
}

fn proposal(count: u64, text: &str, within_s: Option<u32>) -> Proposal {
    let author = Author { user: "ann".into(), comment: String::new(), time_ms: 7 };
    Proposal { id: id(count), text: text.into(), author, within_s, confirms: false }
}

fn shared(before: Option<&Shared>, count: u64, text: &str) -> Shared {
    Shared::following(before, proposal(count, text, None)).unwrap()
}

#[test]
fn values_are_read_as_written_and_are_bounded() {
    let mut value = shared(None, 1, "first");
    for count in 2..40 {
        value = shared(Some(&value), count, "next");
    }
    assert_eq!((value.number, value.element()), (39, Some(element(21))));
    assert!(value.follows(id(39)) && value.follows(id(40 - REMEMBERED as u64)) && !value.follows(id(23)));
    let octets = value.encode();
    assert_eq!(Shared::decode(&octets).unwrap(), value);
    for end in 0..octets.len() {
        assert!(Shared::decode(&octets[..end]).is_err());
    }
    let long = "x".repeat(MOST_TEXT + 1);
    let refused = Shared::following(None, proposal(1, &long, None));
    assert_eq!(refused.unwrap_err(), SharedError::Long(MOST_TEXT + 1));
    let mut wordy = proposal(1, "text", None);
    wordy.author.comment = "ä".repeat(MOST_WORDS);
    let cut = Shared::following(None, wordy).unwrap();
    assert!(cut.author.comment.len() <= MOST_WORDS && Shared::decode(&cut.encode()).is_ok());
}

#[test]
fn two_commits_without_a_confirmation_go_back_to_what_held() {
    let first = shared(None, 1, "first");
    let second = Shared::following(Some(&first), proposal(2, "second", Some(60))).unwrap();
    let third = Shared::following(Some(&second), proposal(3, "third", Some(30))).unwrap();
    let back = third.reverted(id(4), 8).unwrap();
    assert_eq!((back.text.as_str(), back.number, back.back.is_none()), ("first", 4, true));
    assert!(back.author.comment.contains("back to configuration 1"));
    let confirmed = shared(Some(&third), 4, "third");
    assert!(confirmed.reverted(id(5), 8).is_none() && first.reverted(id(5), 8).is_none());
}

#[test]
fn another_change_does_not_confirm_what_waits() {
    let first = shared(None, 1, "first");
    let second = Shared::following(Some(&first), proposal(2, "second", Some(60))).unwrap();
    let other = proposal(3, "second and third", None);
    let refused = Shared::following(Some(&second), other.clone()).unwrap_err();
    assert_eq!(refused, SharedError::Unconfirmed(2));
    let both = Shared::following(Some(&second), Proposal { confirms: true, ..other }).unwrap();
    assert!(both.back.is_none());
    // The way back needs no confirmation.
    assert!(Shared::following(Some(&second), proposal(3, "first", None)).unwrap().back.is_none());
}

#[test]
fn an_offer_ends_with_a_refusal_or_when_all_have_answered() {
    let mut offer = Offer::new([element(1), element(2), element(3)]);
    offer.answered(element(9), Answer::Refused("a stranger".into()));
    offer.answered(element(1), Answer::Prepared);
    offer.answered(element(2), Answer::Away("silent".into()));
    assert_eq!(offer.outcome(), None);
    let mut refused = offer.clone();
    offer.answered(element(3), Answer::Apart);
    offer.answered(element(3), Answer::Refused("late".into()));
    let absent = [(element(2), Absence::Away("silent".into())), (element(3), Absence::Apart)];
    assert_eq!(offer.outcome(), Some(offer::Outcome::Accepted(absent.into())));
    refused.answered(element(3), Answer::Refused("no such interface".into()));
    assert_eq!(refused.outcome(), Some(offer::Outcome::Refused(element(3), "no such interface".into())));
    assert_eq!(Offer::new([]).outcome(), Some(offer::Outcome::Accepted([].into())));
}

/// Returns a decision after its first write got no answer.
fn unanswered() -> (Decision, Shared, Shared) {
    let before = shared(None, 1, "before");
    let after = shared(Some(&before), 2, "after");
    let mut decision = Decision::new(id(2), 5, after.clone());
    assert_eq!(decision.step(), DecisionStep::Write(after.clone(), 5));
    decision.written(Written::Unknown);
    assert_eq!(decision.step(), DecisionStep::Read);
    (decision, before, after)
}

#[test]
fn a_write_without_an_answer_is_found_out() {
    let (mut decision, before, after) = unanswered();
    let later = shared(Some(&after), 3, "later");
    let mut done = decision.clone();
    done.found(Some((Some(&later), 9)));
    assert_eq!(done.step(), DecisionStep::Over(Outcome::Decided));
    let mut overtaken = decision.clone();
    let other =
        Shared::following(Some(&before), Proposal { id: id(7), ..proposal(7, "other", None) }).unwrap();
    overtaken.found(Some((Some(&other), 6)));
    assert_eq!(overtaken.step(), DecisionStep::Over(Outcome::Overtaken));
    // The write may still be on its way: of both, one is carried out.
    decision.found(Some((Some(&before), 5)));
    assert_eq!(decision.step(), DecisionStep::Write(after.clone(), 5));
    let mut late = decision.clone();
    late.written(Written::Conflict);
    late.found(Some((Some(&after), 6)));
    assert_eq!(late.step(), DecisionStep::Over(Outcome::Decided));
    decision.written(Written::Done);
    assert_eq!(decision.step(), DecisionStep::Over(Outcome::Decided));
}

#[test]
fn a_decision_without_answers_ends() {
    let (mut decision, ..) = unanswered();
    for _ in 1..ATTEMPTS {
        assert_eq!(decision.step(), DecisionStep::Read);
        decision.found(None);
    }
    decision.found(None);
    assert_eq!(decision.step(), DecisionStep::Over(Outcome::Unknown));
    decision.written(Written::Done);
    assert_eq!(decision.step(), DecisionStep::Over(Outcome::Unknown));
}

fn after(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn a_keeper_takes_each_configuration_once() {
    let mut keeper = Keeper::default();
    let step = |keeper: &Keeper, seconds, leads| keeper.step(after(seconds), leads, id(90), 0);
    assert_eq!((step(&keeper, 0, false), step(&keeper, 0, true)), (Step::Wait(None), Step::Seed));
    let first = shared(None, 1, "first");
    keeper.seen(after(1), Some(first.clone()), 3);
    assert_eq!(step(&keeper, 1, true), Step::Take(Box::new(first.clone())));
    // A configuration that cannot be taken is tried again, later each time.
    let mut now = after(1);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        keeper.took(now, 1, Some("no such interface".into()));
        let Step::Wait(Some(again)) = keeper.step(now, false, id(90), 0) else { panic!("it waits") };
        pauses.push(again.saturating_since(now).as_millis());
        now = again;
        assert!(matches!(keeper.step(now, false, id(90), 0), Step::Take(_)));
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    assert_eq!(keeper.problem(), Some("no such interface"));
    // The answer about an earlier configuration counts for nothing.
    let second = shared(Some(&first), 2, "second");
    keeper.seen(now, Some(second.clone()), 4);
    keeper.took(now, 1, None);
    assert_eq!((keeper.taken(), keeper.problem()), (None, None));
    assert_eq!(keeper.step(now, false, id(90), 0), Step::Take(Box::new(second.clone())));
    keeper.took(now, 2, None);
    assert_eq!((keeper.taken(), keeper.step(now, false, id(90), 0)), (Some(2), Step::Wait(None)));
    // The same value at another revision is no other configuration; another one of the same number is.
    keeper.seen(now, Some(second), 5);
    assert_eq!(keeper.taken(), Some(2));
    keeper.seen(now, Some(shared(Some(&first), 8, "of another store")), 6);
    assert!(matches!(keeper.step(now, false, id(90), 0), Step::Take(_)));
    keeper.took(now, 2, None);
    keeper.recheck();
    assert!(matches!(keeper.step(now, false, id(90), 0), Step::Take(_)));
}

#[test]
fn a_keeper_reverts_what_nobody_confirms() {
    let first = shared(None, 1, "first");
    let second = Shared::following(Some(&first), proposal(2, "second", Some(60))).unwrap();
    let mut keeper = Keeper::default();
    keeper.seen(after(10), Some(second.clone()), 4);
    keeper.took(after(10), 2, None);
    assert_eq!(keeper.step(after(10), false, id(90), 0), Step::Wait(Some(after(70))));
    // The wait is not prolonged by a second look.
    keeper.seen(after(40), Some(second.clone()), 4);
    assert_eq!(keeper.step(after(69), false, id(90), 0), Step::Wait(Some(after(70))));
    let Step::Revert(reverted, 4) = keeper.step(after(70), false, id(90), 0) else { panic!("it reverts") };
    assert_eq!((reverted.text.as_str(), reverted.number), ("first", 3));
    keeper.seen(after(71), Some(shared(Some(&second), 3, "second")), 5);
    keeper.took(after(71), 3, None);
    assert_eq!(keeper.step(after(200), false, id(90), 0), Step::Wait(None));
}

fn event() -> impl Strategy<Value = Event> {
    let who = 0..world::ELEMENTS;
    prop_oneof![
        3 => (who.clone(), any::<bool>()).prop_map(|(who, confirmed)| Event::Commit(who, confirmed)),
        12 => who.clone().prop_map(Event::Step),
        2 => who.clone().prop_map(Event::Kill),
        3 => who.clone().prop_map(Event::Start),
        2 => Just(Event::LoseAnswers),
        1 => Just(Event::Deliver),
        1 => who.prop_map(Event::Refuses),
        1 => (1..200u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Elements commit, die and return at any moment, and the store's answers are lost. After all elements have returned, all run the value of the
    /// store. Commits reported as decided were decided, and commits reported as refused never run anywhere.
    #[test]
    fn elements_agree(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::default();
        for event in events {
            world.happens(event);
        }
        world.settle();
        world.check();
    }

    #[test]
    fn any_value_is_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let _either = Shared::decode(&octets);
    }
}

/// Each element dies before each step of a commit of the first one.
#[test]
fn a_kill_at_each_step_leaves_old_or_new_everywhere() {
    for victim in 0..world::ELEMENTS {
        for is_lost in [false, true] {
            for at in 0..12 {
                let mut world = World::default();
                world.settle();
                world.happens(Event::Commit(0, false));
                for step in 0..12 {
                    if step == at {
                        if is_lost {
                            world.happens(Event::LoseAnswers);
                        }
                        world.happens(Event::Kill(victim));
                    }
                    (0..world::ELEMENTS).for_each(|who| world.happens(Event::Step(who)));
                }
                world.settle();
                world.check();
            }
        }
    }
}
