//! A commit for all elements, disturbed at any of its steps: a process of any element, or a whole element, is killed just before the step.
//! The final configuration is the old or the new one on all elements.

use crate::cluster::configuration::{ELEMENTS, Elements, possible_with_elements};
use crate::cluster::own_store::pid;
use sluice_load::wide;
use sluice_router_lab::steps::Steps;
use sluice_router_lab::xip::at;
use sluice_router_lab::{executable, share, wrapper_of};
use std::cell::Cell;

/// The element with the editor.
const EDITOR: &str = "sluice";
/// The other candidate for the control plane.
const OTHER: &str = "c2";

/// The router's name and a static route: what all elements have, and what a component of the control plane applies.
struct Configured {
    name: &'static str,
    route: &'static str,
}

const OLD: Configured = Configured { name: "old", route: "198.51.100.0/24" };
const NEW: Configured = Configured { name: "new", route: "203.0.113.0/24" };

impl Configured {
    fn statements(&self) -> [String; 4] {
        [
            "set protocols static".into(),
            "delete protocols static".into(),
            format!("set protocols static route {} discard", self.route),
            format!("set system host-name {}", self.name),
        ]
    }

    fn commit(&self, elements: &Elements) {
        let statements = self.statements();
        // A commit that is disturbed has no answer, or any.
        let _any = elements.commit(EDITOR, &statements.each_ref().map(String::as_str));
    }

    /// Returns true if all elements run the configuration, by the same number, and the control plane has the route.
    fn runs(&self, elements: &Elements) -> bool {
        let nodes = ELEMENTS.map(|(node, ..)| node);
        let numbers = at(&elements.lab, "r1", &["show", "cluster"]);
        let all = numbers["elements"].as_array().into_iter().flatten();
        let numbers: Vec<Option<u64>> = all.map(|element| wide(&element["configuration"])).collect();
        let has_route = |node: &&str| {
            let kernel = elements.lab.lab.exec(node, "ip", ["route"]).unwrap();
            let others = [OLD.route, NEW.route].into_iter().filter(|route| *route != self.route);
            kernel.contains(self.route) && others.into_iter().all(|route| !kernel.contains(route))
        };
        numbers.len() == 3
            && numbers.iter().all(|number| number.is_some() && *number == numbers[0])
            && elements.say(&nodes, &format!("host-name {};", self.name))
            && elements.say(&nodes, self.route)
            && [EDITOR, OTHER].iter().all(has_route)
            && nodes.iter().all(|node| at(&elements.lab, node, &["status"])["ready"] == true)
    }
}

/// The victim of a disturbance.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Process(&'static str, &'static str),
    /// The processes of an element, the server of the store included.
    Element(&'static str),
}

impl Victim {
    /// Kills, without a wait.
    fn kill(self, elements: &Elements) {
        let pids: Vec<u64> = match self {
            Victim::Process(node, component) => pid(&elements.lab, node, component).into_iter().collect(),
            Victim::Element(node) => {
                let all = at(&elements.lab, node, &["show", "processes"]);
                all["processes"].as_array().into_iter().flatten().filter_map(|p| wide(&p["pid"])).collect()
            }
        };
        pids.into_iter().filter(|pid| *pid > 0).for_each(|pid| elements.lab.kill(pid));
    }

    /// Returns the element whose manager has to be started again.
    fn without_manager(self) -> Option<&'static str> {
        match self {
            Victim::Process(node, "manager") | Victim::Element(node) => Some(node),
            Victim::Process(..) => None,
        }
    }
}

/// Commits the old configuration, disturbs the commit of the new one before a step, and waits until all elements have either.
fn disturbed(elements: &mut Elements, steps: &Steps, victim: Victim, before: &str) {
    let what = format!("{victim:?} killed before `{before}`");
    std::thread::scope(|scope| {
        let shared = &*elements;
        let committing = scope.spawn(|| OLD.commit(shared));
        let is_old = steps.ends_with(|| OLD.runs(shared));
        assert!(is_old, "never: the old configuration, before: {what}\n{}", shared.report());
        committing.join().unwrap();
    });
    let is_hurt = Cell::new(false);
    let seen = std::thread::scope(|scope| {
        let shared = &*elements;
        scope.spawn(|| NEW.commit(shared));
        steps.follow(|_, step| {
            if step == before && !is_hurt.replace(true) {
                victim.kill(shared);
            }
            !is_hurt.get() || victim.without_manager() != Some(EDITOR)
        })
    });
    assert!(is_hurt.get(), "{what}: {seen:?}");
    if let Some(node) = victim.without_manager() {
        elements.lab.lab.stop(node, true).unwrap();
        // The next manager takes a decided configuration at once, perhaps before all components are ready, and asks before each step.
        steps.go_on_during(|| elements.lab.lab.start(node)).unwrap();
    }
    let shared = &*elements;
    let is_either = steps.ends_with(|| OLD.runs(shared) || NEW.runs(shared));
    assert!(is_either, "never: the old or the new configuration everywhere: {what}\n{}", shared.report());
    println!("{what}: {} {seen:?}", if NEW.runs(shared) { "new" } else { "old" });
}

/// Brings the elements up, with a listener for the steps of the element with the editor.
fn up(executable: &std::path::Path, folder: &std::path::Path) -> (Elements, Steps) {
    // The third word of `start --config FILE`: each node has a socket of its own.
    let program = wrapper_of(executable, folder, "SLUICE_COMMIT_STEPS=\"$3.steps\"");
    let elements = Elements::up(&program);
    let steps = Steps::listen(&elements.lab.lab.dir(EDITOR).join("config.steps"));
    (elements, steps)
}

#[test]
fn a_commit_for_all_elements_survives_kills_around_its_decision() {
    let _share = share();
    if !possible_with_elements() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut elements, steps) = up(executable(), folder.path());
    for (victim, before) in [
        (Victim::Process(EDITOR, "manager"), "store"),
        (Victim::Process(EDITOR, "cluster"), "decide"),
        (Victim::Process(OTHER, "manager"), "decide"),
        (Victim::Element(OTHER), "offer"),
    ] {
        disturbed(&mut elements, &steps, victim, before);
    }
}

/// Runs the test at each step, with each kind of victim.
#[test]
fn a_commit_for_all_elements_survives_kills_at_each_step() {
    let executable = sluice_testkit::long!("cluster commit steps");
    let _share = share();
    if !possible_with_elements() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut elements, steps) = up(&executable, folder.path());
    let all = std::thread::scope(|scope| {
        scope.spawn(|| OLD.commit(&elements));
        steps.follow(|_, _| true)
    });
    assert_eq!(all.last().map(String::as_str), Some("done"), "{all:?}");
    for before in ["prepare static", "offer", "apply static", "decide", "store", "done"] {
        for victim in [
            Victim::Process(EDITOR, "manager"),
            Victim::Process(EDITOR, "cluster"),
            Victim::Process(EDITOR, "static"),
            Victim::Process(EDITOR, "cluster.store"),
            Victim::Element(EDITOR),
            Victim::Process(OTHER, "manager"),
            Victim::Process(OTHER, "cluster"),
            Victim::Process(OTHER, "static"),
            Victim::Element(OTHER),
            Victim::Element("r1"),
        ] {
            disturbed(&mut elements, &steps, victim, before);
        }
    }
}
