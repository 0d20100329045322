use super::*;
use alloc::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// The configuration that a component runs with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Runs {
    Nothing,
    Old,
    New,
}

/// A router whose components follow every output, except for a single fault.
struct World {
    runs: BTreeMap<String, Runs>,
    alive: BTreeMap<String, bool>,
    stored: bool,
    decided: bool,
    pending: VecDeque<Input<u8>>,
    outcome: Option<Result<BTreeMap<String, Vec<u8>>, String>>,
    /// The outputs so far.
    outputs: Vec<Output<u8>>,
}

/// The fault at the output of this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    /// The component refuses, or the disk is full.
    Refuses(usize),
    /// The component dies during the call.
    Dies(usize),
    /// Another component dies then.
    OtherDies(usize, usize),
}

fn plan() -> Plan {
    let names = |list: &[&str]| list.iter().map(|n| (*n).into()).collect();
    let changed = names(&["fea", "rib"]);
    Plan { changed, restarted: names(&["bgp"]), started: names(&["static"]), is_shared: false }
}

impl World {
    fn new() -> Self {
        let runs = [("fea", Runs::Old), ("rib", Runs::Old), ("bgp", Runs::Old), ("static", Runs::Nothing)];
        World {
            runs: runs.into_iter().map(|(n, r)| (n.into(), r)).collect(),
            alive: BTreeMap::from(["fea", "rib", "bgp"].map(|n| (n.into(), true))),
            stored: false,
            decided: false,
            pending: VecDeque::new(),
            outcome: None,
            outputs: Vec::new(),
        }
    }

    /// Ends a process; the supervisor starts the component again with the commit's configuration.
    fn dies(&mut self, class: &str) {
        if self.alive.get(class) == Some(&true) {
            self.alive.insert(class.into(), false);
            self.pending.push_back(Input::Failed(class.into(), "killed".into()));
        }
    }

    fn does(&mut self, commit: &Commit<u8>, output: Output<u8>, fault: Fault) {
        let number = self.outputs.len();
        self.outputs.push(output.clone());
        if let Fault::OtherDies(at, which) = fault
            && at == number
        {
            let class = ["fea", "rib", "bgp", "static"][which];
            self.dies(class);
        }
        let refuses = fault == Fault::Refuses(number);
        let dies = fault == Fault::Dies(number);
        let refusal = || String::from("no");
        match output {
            Output::Prepare(class) | Output::Apply(class) if dies => self.dies(&class),
            Output::Prepare(class) => {
                let reply = if refuses { Err(refusal()) } else { Ok(vec![1]) };
                self.pending.push_back(Input::Prepared(class, reply));
            }
            Output::Apply(class) => {
                if refuses {
                    return self.pending.push_back(Input::Applied(class, Err(refusal())));
                }
                self.runs.insert(class.clone(), Runs::New);
                self.pending.push_back(Input::Applied(class, Ok(())));
            }
            Output::Abandon(_) => {}
            Output::Restart(class) | Output::Start(class) => {
                let new = commit.takes_new(&class);
                self.runs.insert(class.clone(), if new { Runs::New } else { Runs::Old });
                self.alive.insert(class.clone(), true);
                if refuses || dies {
                    return self.dies(&class);
                }
                self.pending.push_back(Input::Ready(class));
            }
            Output::Stop(class) => {
                self.runs.insert(class.clone(), Runs::Nothing);
                self.alive.insert(class.clone(), false);
                self.pending.push_back(Input::Restored(class));
            }
            Output::Restore(class) => {
                self.runs.insert(class.clone(), Runs::Old);
                self.pending.push_back(Input::Restored(class));
            }
            Output::Offer => {
                self.pending.push_back(Input::Offered(if refuses { Err(refusal()) } else { Ok(()) }));
            }
            Output::Decide => {
                self.decided = !refuses;
                self.pending.push_back(Input::Decided(if refuses { Err(refusal()) } else { Ok(()) }));
            }
            Output::Store => {
                self.stored = !refuses;
                self.pending.push_back(Input::Stored(if refuses { Err(refusal()) } else { Ok(()) }));
            }
            Output::Done(outcome) => self.outcome = Some(outcome),
        }
    }

    /// Runs a change to its end. Returns the number of outputs.
    fn run(&mut self, check_only: bool, fault: Fault) -> usize {
        self.run_plan(plan(), check_only, fault)
    }

    fn run_plan(&mut self, plan: Plan, check_only: bool, fault: Fault) -> usize {
        let mut out = Vec::new();
        let mut commit = Commit::begin(plan, check_only, &mut out);
        for _ in 0..200 {
            for output in core::mem::take(&mut out) {
                self.does(&commit, output, fault);
            }
            // The supervisor brings back who died, with the commit's present result.
            for (class, alive) in self.alive.clone() {
                if !alive && self.runs[&class] != Runs::Nothing {
                    let new = self.stored || commit.takes_new(&class);
                    self.runs.insert(class, if new { Runs::New } else { Runs::Old });
                }
            }
            let Some(input) = self.pending.pop_front() else { break };
            commit.handle(input, &mut out);
        }
        assert!(commit.is_over(), "{fault:?}: {:?}", self.outputs);
        assert!(out.is_empty());
        self.outputs.len()
    }

    fn check(&self, fault: Fault) {
        let all =
            |wanted: &dyn Fn(&str) -> Runs| self.runs.iter().all(|(class, runs)| *runs == wanted(class));
        let old = |class: &str| if class == "static" { Runs::Nothing } else { Runs::Old };
        match &self.outcome {
            Some(Ok(_)) => assert!(self.stored && all(&|_| Runs::New), "{fault:?}: {:?}", self.runs),
            Some(Err(_)) => {
                assert!(!self.stored && all(&old), "{fault:?}: {:?} {:?}", self.runs, self.outputs)
            }
            None => panic!("{fault:?}: no end"),
        }
    }
}

#[test]
fn takes_hold_in_order() {
    let mut world = World::new();
    world.run(false, Fault::Nothing);
    world.check(Fault::Nothing);
    let words: Vec<String> = world.outputs.iter().map(|o| format!("{o:?}")).collect();
    assert_eq!(
        words[..8],
        [
            "Prepare(\"fea\")",
            "Prepare(\"rib\")",
            "Prepare(\"bgp\")",
            "Apply(\"fea\")",
            "Apply(\"rib\")",
            "Restart(\"bgp\")",
            "Start(\"static\")",
            "Store"
        ]
    );
    let Some(Ok(effects)) = world.outcome else { panic!("it took hold") };
    assert_eq!(effects.keys().collect::<Vec<_>>(), ["bgp", "fea", "rib"]);
}

/// A component restarting during a step before its own step still gets the old configuration.
#[test]
fn a_component_gets_the_new_configuration_from_its_own_step_on() {
    let mut out = Vec::new();
    let mut commit: Commit<u8> = Commit::begin(plan(), false, &mut out);
    for class in ["fea", "rib", "bgp"] {
        commit.handle(Input::Prepared(class.into(), Ok(vec![])), &mut out);
    }
    assert_eq!(out.last(), Some(&Output::Apply("fea".into())));
    assert_eq!(["fea", "bgp", "static"].map(|class| commit.takes_new(class)), [false; 3]);
    for class in ["fea", "rib"] {
        commit.handle(Input::Applied(class.into(), Ok(())), &mut out);
    }
    assert_eq!(["fea", "bgp", "static"].map(|class| commit.takes_new(class)), [false, true, false]);
    commit.handle(Input::Ready("bgp".into()), &mut out);
    assert_eq!(["fea", "bgp", "static"].map(|class| commit.takes_new(class)), [false, true, true]);
}

/// Components are undone in the reverse order: a component is undone before its needs.
#[test]
fn a_failed_change_is_undone_last_step_first() {
    let mut out = Vec::new();
    let mut commit: Commit<u8> = Commit::begin(plan(), false, &mut out);
    for class in ["fea", "rib", "bgp"] {
        commit.handle(Input::Prepared(class.into(), Ok(vec![])), &mut out);
    }
    for class in ["fea", "rib"] {
        commit.handle(Input::Applied(class.into(), Ok(())), &mut out);
    }
    commit.handle(Input::Ready("bgp".into()), &mut out);
    out.clear();
    commit.handle(Input::Failed("static".into(), "exit 1".into()), &mut out);
    let undone = [
        Output::Stop("static".into()),
        Output::Restart("bgp".into()),
        Output::Restore("rib".into()),
        Output::Restore("fea".into()),
    ];
    assert_eq!(out, undone);
}

#[test]
fn a_check_changes_nothing() {
    let mut world = World::new();
    world.run(true, Fault::Nothing);
    assert!(matches!(world.outcome, Some(Ok(ref effects)) if effects.len() == 3));
    assert!(
        world.outputs.iter().all(|o| matches!(o, Output::Prepare(_) | Output::Abandon(_) | Output::Done(_)))
    );
    assert_eq!(world.runs, World::new().runs);
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let mut out = Vec::new();
    let mut commit: Commit<u8> = Commit::begin(Plan::default(), false, &mut out);
    assert_eq!(out, [Output::Store]);
    commit.handle(Input::Stored(Ok(())), &mut out);
    assert_eq!(out[1], Output::Done(Ok(BTreeMap::new())));
}

#[test]
fn every_fault_at_every_step_leaves_old_or_new_everywhere() {
    let steps = World::new().run(false, Fault::Nothing);
    for at in 0..steps {
        let others = (0..4).map(|which| Fault::OtherDies(at, which));
        for fault in [Fault::Refuses(at), Fault::Dies(at)].into_iter().chain(others) {
            let mut world = World::new();
            world.run(false, fault);
            world.check(fault);
        }
    }
}

fn shared_plan() -> Plan {
    Plan { is_shared: true, ..plan() }
}

/// Nothing changes here before the other machines accept the change, and nothing is stored here before the change is decided.
#[test]
fn a_shared_change_is_offered_and_decided() {
    let mut world = World::new();
    world.run_plan(shared_plan(), false, Fault::Nothing);
    world.check(Fault::Nothing);
    let place = |wanted: &Output<u8>| {
        world.outputs.iter().position(|output| output == wanted).expect("it was emitted")
    };
    let [prepare, offer, apply] =
        [Output::Prepare("bgp".into()), Output::Offer, Output::Apply("fea".into())].each_ref().map(place);
    let [start, decide, store] =
        [Output::Start("static".into()), Output::Decide, Output::Store].each_ref().map(place);
    assert!(prepare < offer && offer < apply && start < decide && decide < store, "{:?}", world.outputs);
    let mut checked = World::new();
    checked.run_plan(shared_plan(), true, Fault::Nothing);
    assert!(checked.outputs.contains(&Output::Offer) && !checked.outputs.contains(&Output::Decide));
}

/// A change that is decided, and could not be stored here, is undone here: the decided configuration is taken later, as on other machines.
#[test]
fn every_fault_of_a_shared_change_leaves_old_or_new_everywhere() {
    let steps = World::new().run_plan(shared_plan(), false, Fault::Nothing);
    for at in 0..steps {
        let others = (0..4).map(|which| Fault::OtherDies(at, which));
        for fault in [Fault::Refuses(at), Fault::Dies(at)].into_iter().chain(others) {
            let mut world = World::new();
            world.run_plan(shared_plan(), false, fault);
            world.check(fault);
            assert!(world.decided || !world.stored, "{fault:?}: stored, and not decided");
        }
    }
}

proptest! {
    /// Any inputs in any order lead to an end as reported, without a panic.
    #[test]
    fn any_inputs(
        inputs in proptest::collection::vec((0..9_u8, 0..4_usize, any::<bool>()), 0..60),
        check_only: bool,
        is_shared: bool,
    ) {
        let mut out = Vec::new();
        let mut commit: Commit<u8> = Commit::begin(Plan { is_shared, ..plan() }, check_only, &mut out);
        for (kind, which, good) in inputs {
            let class = String::from(["fea", "rib", "bgp", "static"][which]);
            let result = if good { Ok(()) } else { Err(String::new()) };
            commit.handle(match kind {
                0 => Input::Prepared(class, result.map(|()| vec![])),
                1 => Input::Applied(class, result),
                2 => Input::Ready(class),
                3 => Input::Failed(class, String::new()),
                4 => Input::Restored(class),
                5 => Input::Offered(result),
                6 => Input::Decided(result),
                _ => Input::Stored(result),
            }, &mut out);
        }
        let ends = out.iter().filter(|o| matches!(o, Output::Done(_))).count();
        prop_assert_eq!(ends, usize::from(commit.is_over()));
        let stores = out.iter().filter(|o| matches!(o, Output::Store)).count();
        prop_assert!(stores <= 1);
    }
}
