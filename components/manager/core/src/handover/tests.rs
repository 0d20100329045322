use super::*;
use alloc::format;
use alloc::vec::Vec;

/// An input, or so many seconds that pass.
#[derive(Clone)]
enum Event {
    In(Input),
    Wait(u64),
}

const BEGIN: Event = Event::In(Input::Begin);
const READY: Event = Event::In(Input::Ready);
const GIVEN: Event = Event::In(Input::HandedOver(Ok(())));
const LEFT: Event = Event::In(Input::Released(Ok(())));
const TAKEN: Event = Event::In(Input::TookOver(Ok(())));

fn old_ends() -> Event {
    Event::In(Input::OldEnded("old".into()))
}

fn new_ends() -> Event {
    Event::In(Input::NewEnded("new".into()))
}

/// Checks the effects of events, in short words.
fn check(events: &[Event], expected: &str) {
    let mut machine = HandOver::new();
    let mut now = Instant::ZERO;
    let mut out = Outbox::new();
    let mut said: Vec<String> = Vec::new();
    for event in events {
        match event {
            Event::In(input) => machine.handle(now, input.clone(), &mut out),
            Event::Wait(seconds) => {
                now = now + Duration::from_secs(*seconds);
                machine.on_deadline(now, &mut out);
            }
        }
        said.extend(out.drain().map(|output| match output {
            Output::Died(how) => format!("Died({how})"),
            Output::Done(Ok(())) => "Done".into(),
            Output::Done(Err(reason)) => format!("Failed({reason})"),
            other => format!("{other:?}"),
        }));
    }
    assert_eq!(said.join(" "), expected);
    // Where it is over nothing more is waited for, and else something is.
    assert_eq!(machine.next_deadline().is_none(), machine.step() == Step::Over);
}

#[test]
fn step_by_step() {
    check(&[BEGIN, READY, GIVEN, LEFT, TAKEN, old_ends()], "Start HandOver Release TakeOver Done Over");
    // What comes late, or twice, changes nothing.
    check(&[BEGIN, READY, READY, GIVEN, GIVEN, LEFT, TAKEN, TAKEN], "Start HandOver Release TakeOver Done");
    // A successor that dies after it took over is the component that died: not a matter of the hand-over.
    check(
        &[BEGIN, READY, GIVEN, LEFT, TAKEN, new_ends(), old_ends()],
        "Start HandOver Release TakeOver Done Over",
    );
}

#[test]
fn the_new_process_ends_at_each_step() {
    check(&[BEGIN, new_ends()], "Start Failed(the new process ended: new) Over");
    let refused = Event::In(Input::HandedOver(Err("refused".into())));
    check(&[BEGIN, READY, new_ends(), refused.clone()], "Start HandOver Failed(refused) Over");
    check(&[BEGIN, READY, refused, new_ends()], "Start HandOver KillNew Failed(refused) Over");
    check(
        &[BEGIN, READY, new_ends(), Event::Wait(15)],
        "Start HandOver Failed(the new process ended: new) Over",
    );
    check(&[BEGIN, READY, new_ends(), GIVEN], "Start HandOver Failed(the new process ended: new) Over");
    check(
        &[BEGIN, READY, GIVEN, new_ends()],
        "Start HandOver Release Failed(the new process ended: new) Over",
    );
    check(
        &[BEGIN, READY, GIVEN, LEFT, new_ends()],
        "Start HandOver Release TakeOver Return Failed(the new process ended: new) Over",
    );
}

#[test]
fn the_old_process_ends_at_each_step() {
    let failed = "KillNew Died(old) Failed(the old process ended by itself) Over";
    check(&[BEGIN, old_ends(), new_ends()], &format!("Start {failed}"));
    check(&[BEGIN, READY, old_ends(), new_ends()], &format!("Start HandOver {failed}"));
    check(
        &[BEGIN, READY, new_ends(), old_ends()],
        "Start HandOver Died(old) Failed(both processes ended) Over",
    );
    // From here on the successor has everything.
    check(&[BEGIN, READY, GIVEN, old_ends(), TAKEN], "Start HandOver Release TakeOver Done Over");
    check(&[BEGIN, READY, GIVEN, LEFT, old_ends(), TAKEN], "Start HandOver Release TakeOver Done Over");
    check(
        &[BEGIN, READY, GIVEN, LEFT, old_ends(), new_ends()],
        "Start HandOver Release TakeOver Return Died(old) Failed(the new process ended: new) Over",
    );
}

#[test]
fn whoever_falls_silent() {
    let failed = |reason: &str| format!("KillNew Failed({reason}) Over");
    check(
        &[BEGIN, Event::Wait(9), Event::Wait(1), new_ends()],
        &format!("Start {}", failed("the new process did not come up in time")),
    );
    check(
        &[BEGIN, READY, Event::Wait(15), new_ends()],
        &format!("Start HandOver {}", failed("the state was not handed over in time")),
    );
    check(
        &[BEGIN, READY, GIVEN, Event::Wait(5), new_ends()],
        &format!("Start HandOver Release {}", failed("the old process did not give up its name in time")),
    );
    check(
        &[BEGIN, READY, GIVEN, LEFT, Event::Wait(5), TAKEN, Event::Wait(5), new_ends()],
        "Start HandOver Release TakeOver Return KillNew KillNew Failed(the new process did not take over in time) Over",
    );
    check(
        &[BEGIN, READY, GIVEN, LEFT, TAKEN, Event::Wait(5), old_ends()],
        "Start HandOver Release TakeOver Done KillOld Over",
    );
}

#[test]
fn the_router_ends_meanwhile() {
    let cancel = || Event::In(Input::Cancel("bgp ends".into()));
    check(&[BEGIN, cancel(), new_ends()], "Start KillNew Failed(bgp ends) Over");
    check(
        &[BEGIN, READY, cancel(), old_ends(), new_ends()],
        "Start HandOver KillNew Died(old) Failed(bgp ends) Over",
    );
    // Too late.
    check(
        &[BEGIN, READY, GIVEN, LEFT, cancel(), TAKEN, old_ends()],
        "Start HandOver Release TakeOver Done Over",
    );
}
