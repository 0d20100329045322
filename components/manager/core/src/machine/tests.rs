use super::*;
use crate::backoff::Backoff;
use crate::crash_budget::CrashBudget;
use alloc::format;
use alloc::vec;
use proptest::prelude::*;

fn spec(name: &str, needs: &[&str]) -> Spec {
    Spec { name: name.into(), needs: needs.iter().map(|n| (*n).into()).collect() }
}

fn router() -> Vec<Spec> {
    vec![spec("bgp", &["rib", "fea"]), spec("fea", &[]), spec("rib", &["fea"])]
}

struct World {
    manager: Manager,
    now: Instant,
    said: Vec<String>,
    ended: Vec<(String, Why)>,
}

impl World {
    fn new() -> Self {
        World { manager: Manager::new(), now: Instant::ZERO, said: vec![], ended: vec![] }
    }

    fn input(&mut self, input: Input) -> &mut Self {
        let mut out = Outbox::new();
        self.manager.handle(self.now, input, &mut out);
        self.take(out);
        self
    }

    fn wait(&mut self, by: Duration) -> &mut Self {
        self.now = self.now + by;
        let mut out = Outbox::new();
        self.manager.on_deadline(self.now, &mut out);
        self.take(out);
        self
    }

    fn take(&mut self, mut out: Outbox<Output>) {
        for output in out.drain() {
            if let Output::Event(Event::Stopping { class, why }) = output {
                self.ended.push((class, why));
                continue;
            }
            self.said.push(match output {
                Output::Spawn(c) => format!("spawn {c}"),
                Output::Configure(c) => format!("configure {c}"),
                Output::Terminate(c, End::ForNow) => format!("terminate {c}"),
                Output::Terminate(c, End::ForGood) => format!("terminate {c} for good"),
                Output::Kill(c) => format!("kill {c}"),
                Output::FallBack(c) => format!("{c} falls back"),
                Output::UpgradeConfirmed(c) => format!("{c} is proven"),
                Output::AllStopped => "stopped".into(),
                Output::Event(Event::Ready(c)) => format!("ready {c}"),
                Output::Event(e) => format!("{e}"),
            });
        }
    }

    fn said(&mut self) -> Vec<String> {
        core::mem::take(&mut self.said)
    }

    fn up(&mut self, class: &str) -> &mut Self {
        self.input(Input::Registered(class.into())).input(Input::Configured(class.into()))
    }
}

#[test]
fn starts_in_order_of_need_and_ends_in_reverse() {
    let mut w = World::new();
    w.input(Input::Want(router())).up("fea").up("rib").up("bgp");
    assert_eq!(
        w.said(),
        [
            "spawn fea",
            "configure fea",
            "ready fea",
            "spawn rib",
            "configure rib",
            "ready rib",
            "spawn bgp",
            "configure bgp",
            "ready bgp"
        ]
    );
    assert!(w.manager.is_ready());
    w.input(Input::StopAll);
    for class in ["bgp", "rib", "fea"] {
        w.input(Input::Exited(class.into(), "exit 0".into()));
    }
    assert_eq!(w.said(), ["terminate bgp", "terminate rib", "terminate fea", "stopped"]);
}

#[test]
fn a_death_is_answered_after_a_growing_wait() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("fea", &[])])).up("fea").said();
    for wait in [100, 200, 400] {
        w.input(Input::Exited("fea".into(), "signal 9".into()));
        assert_eq!(w.said(), [format!("fea ended (signal 9); it is started again in {wait} ms")]);
        w.wait(Duration::from_millis(wait - 1));
        assert!(w.said().is_empty());
        w.wait(Duration::from_millis(1)).up("fea");
        assert_eq!(w.said(), ["spawn fea", "configure fea", "ready fea"]);
    }
    w.wait(Backoff::SOUND_LIFE).input(Input::Exited("fea".into(), "signal 9".into()));
    assert_eq!(w.said(), ["fea ended (signal 9); it is started again in 100 ms"]);
    assert_eq!(w.manager.component("fea").unwrap().restarts, 4);
}

/// The wait doubles up to its bound, which the tenth death reaches.
#[test]
fn a_wait_is_never_longer_than_its_bound() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("fea", &[])])).up("fea").said();
    let mut last = vec![];
    for _ in 0..CrashBudget::DEATHS {
        w.input(Input::Exited("fea".into(), "signal 9".into()));
        last = w.said();
        w.wait(Backoff::LONGEST).up("fea").said();
    }
    let bound = Backoff::LONGEST.as_millis();
    assert_eq!(last, [format!("fea ended (signal 9); it is started again in {bound} ms")]);
}

#[test]
fn a_component_that_cannot_be_configured_is_killed_and_the_reason_is_kept() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("fea", &[])])).input(Input::Registered("fea".into())).said();
    w.input(Input::ConfigureFailed("fea".into(), "no such interface".into()));
    assert_eq!(w.said(), ["kill fea"]);
    w.input(Input::Exited("fea".into(), "signal 9".into()));
    assert_eq!(w.manager.component("fea").unwrap().last_exit, "no such interface; signal 9");
    w.input(Input::ConfigureFailed("fea".into(), "late".into())).said();
    assert_eq!(w.manager.component("fea").unwrap().phase, Phase::BackingOff);
}

/// Lets a component die so often, after so long a ready life each. Returns the number of fall-backs and the number of deaths before the
/// first.
fn falls_back(w: &mut World, deaths: usize, lived: Duration) -> Vec<usize> {
    let mut when = vec![];
    for number in 1..=deaths {
        w.wait(lived).input(Input::Exited("bgp".into(), "signal 11".into()));
        when.extend(w.said().iter().any(|s| s == "bgp falls back").then_some(number));
        w.wait(Backoff::LONGEST).up("bgp").said();
    }
    when
}

#[test]
fn who_keeps_dying_since_its_upgrade_falls_back() {
    let second = Duration::from_secs(1);
    let up = || {
        let mut w = World::new();
        w.input(Input::Want(vec![spec("bgp", &[])])).up("bgp").said();
        w
    };
    let upgraded = || {
        let mut w = up();
        // It has lived long before, as another executable.
        w.wait(CrashBudget::SOUND_LIFE).input(Input::Upgraded("bgp".into())).said();
        w
    };
    assert_eq!(falls_back(&mut up(), 8, second), []);
    let mut w = upgraded();
    assert_eq!(falls_back(&mut w, 8, second), [3], "once, and never behind what ran before");
    // Deaths before an upgrade are none of the new executable's, nor does a restart by somebody end its trial.
    let mut w = up();
    assert_eq!(falls_back(&mut w, 2, second), []);
    w.input(Input::Upgraded("bgp".into()));
    assert_eq!(falls_back(&mut w, 2, second), []);
    w.input(Input::ResetBackoff("bgp".into()));
    assert_eq!(falls_back(&mut w, 3, second), [3]);
    // It has proven itself, or dies too seldom.
    let mut w = upgraded();
    w.wait(CrashBudget::SOUND_LIFE).input(Input::Exited("bgp".into(), "signal 11".into()));
    assert_eq!(w.said(), ["bgp ended (signal 11); it is started again in 100 ms", "bgp is proven"]);
    w.wait(Backoff::FIRST).up("bgp").said();
    assert_eq!(falls_back(&mut w, 8, second), []);
    assert_eq!(falls_back(&mut upgraded(), 8, Duration::from_secs(290)), []);
}

#[test]
fn falling_back_is_said_and_the_next_try_comes_soon() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("bgp", &[])])).up("bgp").input(Input::Upgraded("bgp".into())).said();
    for _ in 0..2 {
        w.input(Input::Exited("bgp".into(), "exit 7".into())).wait(Backoff::LONGEST).said();
    }
    w.input(Input::Exited("bgp".into(), "exit 7".into()));
    assert_eq!(
        w.said(),
        [
            "bgp ended (exit 7); it is started again in 100 ms",
            "bgp falls back",
            "bgp ended 3 times since it was upgraded, the last time so: exit 7; its executable from before runs again"
        ]
    );
    let bgp = w.manager.component("bgp").unwrap();
    assert_eq!(bgp.last_exit, "exit 7; its upgrade is undone: the executable from before runs again");
    w.wait(Backoff::FIRST).up("bgp");
    assert_eq!(w.said(), ["spawn bgp", "configure bgp", "ready bgp"]);
}

#[test]
fn a_component_that_is_no_longer_wanted_ends_and_the_others_go_on() {
    let mut w = World::new();
    w.input(Input::Want(router())).up("fea").up("rib").up("bgp").said();
    w.input(Input::Want(vec![spec("fea", &[]), spec("rib", &["fea"])]));
    assert_eq!(w.said(), ["terminate bgp for good"]);
    w.wait(STOP_TIMEOUT);
    assert_eq!(w.said(), ["bgp did not end in time and is killed", "kill bgp"]);
    w.input(Input::Exited("bgp".into(), "signal 9".into()));
    assert!(w.manager.is_ready());
    for restart in [Input::Restart("rib".into(), End::ForNow), Input::Renew("rib".into())] {
        w.input(restart).input(Input::Exited("rib".into(), "exit 0".into())).up("rib");
    }
    w.input(Input::StopAll);
    let whys = [
        ("bgp", Why::NotConfigured),
        ("rib", Why::ConfigurationChanged),
        ("rib", Why::Asked),
        ("rib", Why::RouterStops),
    ];
    assert_eq!(w.ended, whys.map(|(class, why)| (class.into(), why)));
}

#[test]
fn a_restart_is_no_death() {
    let mut w = World::new();
    w.input(Input::Want(router())).up("fea").up("rib").up("bgp").said();
    w.input(Input::Restart("bgp".into(), End::ForNow));
    assert_eq!(w.said(), ["terminate bgp"]);
    w.input(Input::Restart("bgp".into(), End::ForNow))
        .input(Input::Exited("bgp".into(), "exit 0".into()))
        .up("bgp");
    assert_eq!(w.said(), ["spawn bgp", "configure bgp", "ready bgp"]);
    assert_eq!(w.manager.component("bgp").unwrap().restarts, 0);
    w.input(Input::Exited("bgp".into(), "signal 9".into()));
    assert_eq!(w.said(), ["bgp ended (signal 9); it is started again in 100 ms"]);
    // One that has no process takes the new configuration when it starts.
    w.input(Input::Restart("bgp".into(), End::ForNow));
    assert!(w.said().is_empty());
}

#[test]
fn one_that_never_registers_is_killed_and_tried_again() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("fea", &[])])).wait(START_TIMEOUT);
    assert_eq!(w.said(), ["spawn fea", "fea did not come up in time and is started again", "kill fea"]);
    w.input(Input::Exited("fea".into(), "signal 9".into())).wait(Backoff::FIRST);
    assert!(w.said().contains(&"spawn fea".into()));
}

/// Kills a component until its budget is spent.
fn spend(w: &mut World, class: &str) {
    for _ in 0..=CrashBudget::DEATHS {
        w.input(Input::Exited(class.into(), "signal 11".into())).wait(Backoff::LONGEST);
    }
}

#[test]
fn one_that_dies_too_often_is_tried_seldom_until_somebody_looks_at_it() {
    let mut w = World::new();
    let phase = |w: &World| w.manager.component("fea").unwrap().phase;
    w.input(Input::Want(vec![spec("fea", &[])]));
    spend(&mut w, "fea");
    let said = w.said();
    let count =
        said.iter().filter(|s| s.starts_with("fea ended more than 10 times within 10 minutes")).count();
    assert_eq!((count, phase(&w)), (1, Phase::Failing), "{said:?}");
    assert!(said.contains(&"fea ended (signal 11); it is started again in 300000 ms".into()), "{said:?}");
    w.wait(CrashBudget::WAIT - Backoff::LONGEST);
    assert_eq!(w.said(), ["spawn fea"]);
    w.input(Input::Exited("fea".into(), "signal 11".into()));
    assert_eq!(w.said(), ["fea ended (signal 11); it is started again in 300000 ms"], "reported once");
    // A pardon: it is tried at once, and waits as at first.
    w.input(Input::ResetBackoff("fea".into()));
    assert_eq!(w.said(), ["spawn fea"]);
    w.input(Input::Exited("fea".into(), "signal 11".into()));
    assert_eq!(
        (w.said(), phase(&w)),
        (vec!["fea ended (signal 11); it is started again in 100 ms".into()], Phase::BackingOff)
    );
    w.input(Input::ResetBackoff("fea".into()));
    assert_eq!(w.said(), ["spawn fea"]);
    // So does a sound life.
    spend(&mut w, "fea");
    w.input(Input::ResetBackoff("fea".into())).up("fea").said();
    spend(&mut w, "fea");
    w.wait(CrashBudget::WAIT).up("fea").wait(CrashBudget::SOUND_LIFE).said();
    w.input(Input::Exited("fea".into(), "signal 11".into()));
    assert_eq!(w.said(), ["fea ended (signal 11); it is started again in 100 ms"]);
    // One that runs is left alone.
    w.wait(Backoff::FIRST).up("fea").said();
    w.input(Input::ResetBackoff("fea".into())).input(Input::ResetBackoff("nobody".into()));
    assert_eq!((w.said(), phase(&w)), (vec![], Phase::Ready));
}

#[test]
fn what_the_manager_ends_has_a_reason() {
    let mut w = World::new();
    let last = |w: &World| w.manager.component("fea").unwrap().last_exit.clone();
    let kill = || Input::Exited("fea".into(), "signal 9".into());
    w.input(Input::Want(vec![spec("fea", &[])])).wait(START_TIMEOUT).input(kill());
    assert_eq!(last(&w), "it did not come up within 15 s; signal 9");
    w.wait(Backoff::LONGEST).input(Input::Registered("fea".into()));
    w.input(Input::ConfigureFailed("fea".into(), "no such table".into())).input(kill());
    assert_eq!(last(&w), "no such table; signal 9");
    w.wait(Backoff::LONGEST).up("fea");
    w.input(Input::Killed("fea".into(), "it does nothing".into())).input(kill());
    assert_eq!(last(&w), "it does nothing; signal 9");
    // Where there is no process there is nothing to end, and the next death has its own reason.
    w.input(Input::Killed("fea".into(), "it does nothing".into())).wait(Backoff::LONGEST).input(kill());
    assert_eq!(last(&w), "signal 9");
}

#[test]
fn adopted_processes_are_configured_again_and_not_started_twice() {
    let mut w = World::new();
    w.input(Input::Want(vec![spec("fea", &[])])).up("fea").said();
    let state = w.manager.export();
    let mut next = World::new();
    let mut out = Outbox::new();
    next.manager.import(Instant::ZERO, state, &mut out);
    next.take(out);
    next.input(Input::Want(vec![spec("fea", &[])])).up("fea");
    assert_eq!(next.said(), ["configure fea", "ready fea"]);
}

proptest! {
    /// Whatever happens in whatever order: no component has two processes, and everything comes up once deaths stop.
    #[test]
    fn any_order_of_events_ends_with_all_ready(events in proptest::collection::vec((0usize..3, 0u8..9), 0..200)) {
        let names = ["fea", "rib", "bgp"];
        let mut w = World::new();
        w.input(Input::Want(router()));
        let mut running = [false; 3];
        let step = |w: &mut World, running: &mut [bool; 3]| {
            for said in w.said() {
                let Some((verb, class)) = said.split_once(' ') else { continue };
                let Some(index) = names.iter().position(|n| *n == class) else { continue };
                match verb {
                    "spawn" => {
                        assert!(!running[index], "{class} was started twice");
                        running[index] = true;
                    }
                    "kill" if running[index] => {
                        running[index] = false;
                        w.input(Input::Exited(class.into(), "signal 9".into()));
                    }
                    _ => {}
                }
            }
        };
        step(&mut w, &mut running);
        for (index, what) in events {
            let class: String = names[index].into();
            match what {
                0 if running[index] => { w.input(Input::Registered(class)); }
                1 if running[index] => { w.input(Input::Configured(class)); }
                2 if running[index] => {
                    running[index] = false;
                    w.input(Input::Exited(class, "signal 11".into()));
                }
                3 => { w.wait(Duration::from_millis(70)); }
                5 => { w.input(Input::Restart(class, End::ForNow)); }
                6 => { w.input(Input::ResetBackoff(class)); }
                7 => { w.input(Input::Upgraded(class)); }
                8 => { w.input(Input::Renew(class)); }
                4 if running[index] => { w.input(Input::ConfigureFailed(class, "refused".into())); }
                _ => {}
            }
            step(&mut w, &mut running);
        }
        for _ in 0..100 {
            w.wait(CrashBudget::WAIT);
            step(&mut w, &mut running);
            for (index, name) in names.iter().enumerate() {
                if running[index] {
                    w.up(name);
                }
                step(&mut w, &mut running);
            }
        }
        prop_assert!(w.manager.is_ready());
    }
}
