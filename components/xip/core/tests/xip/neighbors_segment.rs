//! Hosts on a segment find each other, probe each other and prove their HIDs.

mod segment;

use crate::neighbors_world::{LINK, frame, handle, host, link, mac, neighbor};
use segment::World;
use sluice_base::Duration;
use sluice_machine::{Machine, Outbox};
use sluice_xip::neighbors::{Event, Input, Limits, LinkProof, Output};
use sluice_xip::wire::nwp::{Form, Message, Probe, ProbeKind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn hosts_find_each_other_at_their_first_announcements() {
    for form in [Form::Basic, Form::Monitoring] {
        let mut world = World::new(4, form, LinkProof::Off);
        world.pass(SECOND);
        for n in 1..=4 {
            let others: Vec<u8> = (1..=4).filter(|other| *other != n).collect();
            assert_eq!(world.usable(n), others);
        }
    }
}

#[test]
fn a_late_host_learns_the_others_within_a_tick_or_two() {
    let mut world = World::new(5, Form::Basic, LinkProof::Off);
    world.dead = vec![5];
    world.pass(SECOND);
    world.dead.clear();
    world.pass(SECOND * 60);
    assert_eq!(world.usable(5), [1, 2, 3, 4]);
    assert_eq!(world.usable(1), [2, 3, 4, 5]);
}

#[test]
fn a_late_host_of_a_small_segment_learns_the_others_at_its_first_announcement() {
    for form in [Form::Basic, Form::Monitoring] {
        let mut world = World::new(4, form, LinkProof::Off);
        world.dead = vec![4];
        world.pass(SECOND);
        world.dead.clear();
        // A tick, and the time to an introduction.
        world.pass(SECOND * 6);
        assert_eq!(world.usable(4), [1, 2, 3]);
    }
}

#[test]
fn a_segment_carries_few_announcements_however_many_hosts_it_has() {
    let mut world = World::new(40, Form::Basic, LinkProof::Off);
    world.pass(SECOND * 30);
    let before = world.frames;
    world.pass(SECOND * 500);
    // 100 ticks with one announcement and one list on average, where lists of 39 neighbors fit a frame.
    assert!((100..350).contains(&(world.frames - before)), "{}", world.frames - before);
}

#[test]
fn a_silent_neighbor_fails_and_is_removed_and_comes_back() {
    let mut world = World::new(4, Form::Monitoring, LinkProof::Off);
    world.pass(SECOND);
    world.dead = vec![4];
    world.pass(SECOND * 300);
    for n in 1..=3 {
        assert!(!world.usable(n).contains(&4));
        assert_eq!(world.usable(n).len(), 2, "{n}: the others stay");
        assert!(world.hosts[usize::from(n) - 1].get(neighbor(4)).is_none());
    }
    let has_failed = world
        .reports
        .iter()
        .any(|(n, report)| *n < 4 && *report == Output::Event(Event::Failed(LINK, mac(4))));
    let is_lost = world.reports.iter().any(|(n, report)| *n < 4 && *report == Output::Lost(neighbor(4)));
    assert!(has_failed && is_lost);
    let is_isolated = |report: &Output| matches!(report, Output::Event(Event::Isolated(..)));
    assert!(!world.reports.iter().any(|(n, report)| *n < 4 && is_isolated(report)), "investigators answered");
    world.dead.clear();
    world.pass(SECOND * 120);
    assert!(world.usable(1).contains(&4));
}

#[test]
fn a_host_that_hears_nobody_suspects_its_own_link_first() {
    let mut world = World::new(3, Form::Monitoring, LinkProof::Off);
    world.pass(SECOND);
    world.dead = vec![1];
    world.pass(SECOND * 60);
    let first = world.reports.iter().filter(|(n, _)| *n == 1).find_map(|(_, report)| match report {
        Output::Event(event @ (Event::Isolated(..) | Event::Failed(..))) => Some(*event),
        _ => None,
    });
    assert!(matches!(first, Some(Event::Isolated(..))), "{first:?}");
}

#[test]
fn an_investigators_answer_keeps_a_neighbor_that_cannot_be_reached_directly() {
    let mut world = World::new(3, Form::Monitoring, LinkProof::Off);
    world.pass(SECOND);
    // Host 1 loses all answers; its requests to investigators are answered by hand.
    let now = world.now;
    let one = &mut world.hosts[0];
    let (mut at, mut target) = (now, None);
    for _ in 0..40 {
        at = one.next_deadline().unwrap();
        let mut out = Outbox::new();
        one.on_deadline(at, &mut out);
        for output in out.drain().collect::<Vec<_>>() {
            let Output::Send { octets, .. } = output else { continue };
            if let Ok(Message::Probe(probe)) = Message::decode(&octets, Form::Monitoring)
                && probe.kind == ProbeKind::RequestPing
            {
                target = Some(probe);
            }
        }
        if target.is_some() {
            break;
        }
    }
    let request = target.unwrap();
    let answer =
        Probe { kind: ProbeKind::RequestAck, source: request.destination, destination: mac(1), ..request };
    let mut octets = vec![];
    Message::Probe(answer).put(&mut octets);
    frame(one, at, request.destination, &octets);
    let lost = one.iter().filter(|(_, entry)| !entry.is_usable).count();
    assert_eq!(lost, 0);
    assert_eq!(one.drops().of("unsolicited-ack"), 0);
    frame(one, at, request.destination, &octets);
    assert_eq!(one.drops().of("unsolicited-ack"), 1, "the same answer once more");
}

#[test]
fn neighbors_are_usable_once_they_have_proven_their_hids() {
    let mut world = World::new(3, Form::Basic, LinkProof::Required);
    world.pass(SECOND);
    for n in 1..=3 {
        assert_eq!(world.usable(n).len(), 2);
        assert_eq!(world.hosts[usize::from(n) - 1].drops().iter().map(|(_, count)| count).sum::<u64>(), 0);
    }
    let proven = world.reports.iter().filter(|(_, report)| matches!(report, Output::Event(Event::Proven(_))));
    assert_eq!(proven.count(), 6);
}

#[test]
fn proven_neighbors_survive_a_hand_over() {
    let mut world = World::new(2, Form::Basic, LinkProof::Required);
    world.pass(SECOND);
    let state = world.hosts[0].export();
    let mut next = host(1, Limits::default());
    let mut out = Outbox::new();
    next.import(world.now, state.clone(), &mut out);
    assert_eq!(next.export(), state);
    let outputs = handle(&mut next, world.now, Input::SetLink(link(1, Form::Basic, LinkProof::Required)));
    assert_eq!(outputs, [Output::Learned(neighbor(2))]);
}
