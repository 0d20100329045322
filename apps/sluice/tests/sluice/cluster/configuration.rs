//! One configuration of three elements with a store of their own: a commit on any element is for all, or for none.

use crate::cluster::network::inner;
use crate::cluster::own_store::pid;
use crate::cluster::stream::has_store;
use serde_json::Value;
use sluice_load::wide;
use sluice_router_lab::xip::{at, commit_at, run};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;
use std::time::Duration;

/// The nodes, with the numbers and roles of their elements. All run a server of the store.
pub const ELEMENTS: [(&str, u16, &str); 3] =
    [("sluice", 21, "control"), ("c2", 22, "control"), ("r1", 11, "router")];

/// A further router, which starts later with a file of its own that has only what leads to the store.
const NEW: (&str, u16) = ("r2", 12);

/// Three elements that share their configuration.
pub struct Elements {
    pub lab: RouterLab,
    /// The element that leads at first.
    pub leader: &'static str,
}

fn topology() -> String {
    let member =
        |number: u16, role: &str| format!("member {number} {{ role {role}; address {}; }} ", inner(number));
    let members: String = ELEMENTS.iter().map(|(_, number, role)| member(*number, role)).collect();
    let mut text = String::from("[nodes.s]\ndaemon = 'switch'\n");
    let mut node = |node: &str, number: u16, more: &str| {
        text += &format!(
            "[nodes.{node}]\ndaemon = 'sluice'\nconfig = '''cluster {{ element {number}; interconnect eth0; key {}; {members} \
             store {{ member [ 11 21 22 ]; }} {more} }}\n'''\n[[links]]\na = '{node}:eth0'\nb = 's:{node}'\na_addresses = ['{}/24']\n",
            "5a".repeat(32),
            inner(number)
        );
    };
    ELEMENTS.iter().for_each(|(name, number, _)| node(name, *number, ""));
    node(NEW.0, NEW.1, &format!("{} shared-configuration true;", member(NEW.1, "router")));
    text
}

impl Elements {
    /// Brings the elements up with an executable, and has them share the leader's configuration.
    pub fn up(program: &Path) -> Self {
        let lab = RouterLab::up(&topology().parse().unwrap(), program);
        let done = |node: &str, words: &[&str]| {
            let output = run(&lab, node, &[&["cluster"], words].concat());
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        };
        done("sluice", &["init", "21", "--address", &inner(21)]);
        let others = ELEMENTS[1..].iter().map(|(node, number, _)| (*node, *number));
        for (node, number) in others.chain([NEW]) {
            let file = lab.lab.dir(node).join("invitation").display().to_string();
            done("sluice", &["invite", &number.to_string(), "--address", &inner(number), "--into", &file]);
            done(node, &["join", &file]);
        }
        let mut elements = Elements { lab, leader: "" };
        elements.lab.lab.stop(NEW.0, false).unwrap();
        let leads =
            |lab: &RouterLab, node: &str| at(lab, node, &["show", "cluster", "store"])["state"] == "leads";
        elements.until("an element leads", |lab| ["sluice", "c2"].iter().any(|node| leads(lab, node)));
        elements.leader = if leads(&elements.lab, "sluice") { "sluice" } else { "c2" };
        let first =
            ["set system host-name first".to_owned(), "set cluster shared-configuration true".to_owned()];
        commit_at(&elements.lab, elements.leader, &first);
        for (node, ..) in ELEMENTS.iter().filter(|(node, ..)| *node != elements.leader) {
            commit_at(&elements.lab, node, &first[1..]);
        }
        elements.until_all_say("host-name first");
        elements
    }

    pub fn until(&self, what: &str, mut so: impl FnMut(&RouterLab) -> bool) {
        let is_so = sluice_lab::until(Duration::from_secs(60), || so(&self.lab));
        assert!(is_so, "never: {what}\n{}", self.report());
    }

    /// Returns the state and the log of each element.
    pub fn report(&self) -> String {
        let shown = |(node, ..): &(&str, u16, &str)| {
            let ask = |words: &[&str]| at(&self.lab, node, words).to_string();
            let log = self.lab.lab.log(node, "sluice");
            format!("{node}: {}\n{}\n{log}\n", ask(&["status"]), ask(&["show", "cluster"]))
        };
        ELEMENTS.iter().map(shown).collect()
    }

    /// Returns what runs on a node.
    pub fn configuration(&self, node: &str) -> String {
        at(&self.lab, node, &["call", "manager/manager.v1.Configuration/Show"])["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns true if words are in the configurations of nodes.
    pub fn say(&self, nodes: &[&str], words: &str) -> bool {
        nodes.iter().all(|node| self.configuration(node).contains(words))
    }

    /// Waits until all elements have words in their configurations, and report the same number.
    pub fn until_all_say(&self, words: &str) {
        let nodes = ELEMENTS.map(|(node, ..)| node);
        self.until(&format!("all say {words}"), |lab| {
            let numbers = at(lab, "r1", &["show", "cluster"]);
            let of = |element: &Value| wide(&element["configuration"]);
            let numbers: Vec<Option<u64>> =
                numbers["elements"].as_array().into_iter().flatten().map(of).collect();
            let is_same =
                numbers.len() == 3 && numbers.iter().all(|number| number.is_some() && *number == numbers[0]);
            is_same && self.say(&nodes, words)
        });
    }

    /// Commits statements on a node, and returns the reply or the error.
    pub fn commit(&self, node: &str, statements: &[&str]) -> Result<Value, String> {
        let output = run(&self.lab, node, &[&["configure"], statements, &["commit"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => {
                let said: Value = serde_json::from_str(&said).unwrap_or_default();
                Ok(said["results"]
                    .as_array()
                    .and_then(|all| all.last())
                    .map(|last| last["result"].clone())
                    .unwrap_or_default())
            }
            false => Err(said),
        }
    }

    /// Commits statements that have to be confirmed within seconds.
    fn commit_confirmed(&self, node: &str, statement: &str, seconds: u32) {
        let call = |method: &str| {
            at(&self.lab, node, &["call", &format!("manager/manager.v1.Configuration/{method}")])
        };
        let editor = wide(&call("Open?user:txt=test")["editor"]).unwrap();
        let statement = statement.replace(' ', "%20");
        call(&format!("Edit?editor:u64={editor}&statements:list<txt>={statement}"));
        let done = call(&format!("Commit?editor:u64={editor}&confirm_within_s:u32={seconds}"));
        assert!(wide(&done["changes"]) == Some(1), "{done}");
    }

    fn runs(&self, node: &str, component: &str) -> bool {
        pid(&self.lab, node, component).is_some_and(|pid| pid > 0)
    }
}

/// Returns true if labs with a store of their own are possible.
pub fn possible_with_elements() -> bool {
    possible() && has_store()
}

#[test]
fn a_commit_on_one_element_is_for_all() {
    let _share = share();
    if !possible_with_elements() {
        return;
    }
    let mut elements = Elements::up(Path::new(crate::SLUICE));
    // A router commits what only the control plane runs.
    let done = elements.commit(
        "r1",
        &[
            "set protocols bgp local-as 64500",
            "set protocols bgp router-id 10.0.0.1",
            "set protocols static route 198.51.100.0/24 discard",
        ],
    );
    assert!(done.as_ref().is_ok_and(|done| done["absent"] == serde_json::json!([])), "{done:?}");
    let of = |done: &Value, element: u16| {
        let elements = done["elements"].as_array().cloned().unwrap_or_default();
        elements.iter().find(|of| of["element"] == element).map(|of| of["effects"].to_string())
    };
    for element in [21, 22] {
        let effects = of(done.as_ref().unwrap(), element).unwrap_or_default();
        assert!(effects.contains("\"started\"") && effects.contains("bgp"), "{done:?}");
    }
    elements.until_all_say("local-as 64500");
    elements.until("the control plane runs the protocols", |_| {
        ["sluice", "c2"].iter().all(|node| elements.runs(node, "bgp") && elements.runs(node, "static"))
    });
    assert!(!elements.runs("r1", "bgp") && !elements.runs("r1", "static"));
    elements.until("the router has the route of the control plane", |lab| {
        lab.lab.exec("r1", "ip", ["route"]).unwrap().contains("198.51.100.0/24")
    });
    let revisions = at(&elements.lab, "c2", &["show", "revisions"]);
    let newest = &revisions["revisions"][0];
    assert!(
        newest["via"] == "shared" && newest["comment"].as_str().unwrap().contains("by element 11"),
        "{newest}"
    );
    // An element's own statements stay its own, and members and modes are of all.
    elements.commit("r1", &["set cluster store origin static"]).unwrap();
    assert!(elements.say(&["r1"], "origin static") && !elements.say(&["c2"], "origin static"));
    elements.commit("r1", &["delete cluster store origin"]).unwrap();
    the_cluster_is_of_all(&mut elements);
    effects_on_other_elements(&elements);
    refusals_change_nothing(&elements);
    commits_at_once(&elements);
    confirmations(&elements);
    absent_elements(&mut elements);
}

/// Members, ports, mode and silence are statements of all elements. What would cut an element off is refused.
fn the_cluster_is_of_all(elements: &mut Elements) {
    elements.commit("r1", &["set cluster mode weighted", "set cluster silence 50"]).unwrap();
    elements.until_all_say("mode weighted");
    elements
        .commit("c2", &["set cluster member 12 role router", "set cluster member 12 address 10.9.0.12"])
        .unwrap();
    elements.until("all elements know the new one", |lab| {
        let knows = |node: &str| at(lab, node, &["show", "cluster"])["elements"].as_array().map(Vec::len);
        ELEMENTS.iter().all(|(node, ..)| knows(node) == Some(4))
    });
    // The new element starts with its own file, and takes all else from the others.
    let (new, _) = NEW;
    elements.lab.lab.start(new).unwrap();
    elements.until("the new element has the configuration of all", |_| {
        ["mode weighted", "host-name first", "local-as 64500", "silence 50"]
            .iter()
            .all(|words| elements.say(&[new], words))
    });
    elements.until("the new element has the routes", |lab| {
        lab.lab.exec(new, "ip", ["route"]).unwrap().contains("198.51.100.0/24")
    });
    elements.lab.lab.stop(new, false).unwrap();
    // An element that is away is removed. The elements of the store stay, at their addresses.
    let done = elements.commit("sluice", &["delete cluster member 12"]).unwrap();
    assert!(done["absent"].to_string().contains("element 12"), "{done}");
    let (node, other) = ("r1", "sluice");
    for (statement, reason) in [
        ("delete cluster member 11", "member"),
        ("set cluster member 22 address 10.9.0.99", "server of the store"),
    ] {
        let refused = elements.commit(other, &[statement]).unwrap_err();
        assert!(refused.contains(reason), "{statement}: {refused}");
    }
    assert!(elements.say(&ELEMENTS.map(|(node, ..)| node), "address 10.9.0.22"));
    // What runs was read from each element's own disk at a start.
    let killed = pid(&elements.lab, node, "cluster").unwrap();
    elements.lab.kill(killed);
    elements.until("the element knows all members", |lab| {
        at(lab, node, &["show", "cluster"])["elements"].as_array().is_some_and(|all| all.len() == 3)
    });
    elements.until_all_say("mode weighted");
}

/// A check on a router, where no protocol runs, names the sessions that the commit resets on the candidates.
fn effects_on_other_elements(elements: &Elements) {
    elements.commit("r1", &["set protocols bgp neighbor 10.9.0.99 peer-as 64501"]).unwrap();
    elements.until_all_say("neighbor 10.9.0.99");
    elements.until("the candidates have the neighbor", |lab| {
        ["sluice", "c2"]
            .iter()
            .all(|node| at(lab, node, &["show", "bgp", "neighbor", "10.9.0.99"])["neighbors"][0].is_object())
    });
    let change = "set protocols bgp neighbor 10.9.0.99 peer-as 64502";
    let checked = run(&elements.lab, "r1", &["configure", change, "commit check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let result = &said["results"].as_array().unwrap().last().unwrap()["result"];
    for element in [21, 22] {
        let of = result["elements"].as_array().unwrap().iter().find(|of| of["element"] == element);
        let effects = of.unwrap_or_else(|| panic!("{said}"))["effects"].to_string();
        assert!(effects.contains("session-reset") && effects.contains("10.9.0.99"), "{said}");
    }
    assert_eq!(result["absent"], serde_json::json!([]), "{said}");
    assert!(!result["effects"].to_string().contains("10.9.0.99"), "{said}");
    elements.commit("r1", &["delete protocols bgp neighbor 10.9.0.99"]).unwrap();
}

/// An element that refuses a commit, or the component of this one, changes nothing anywhere.
fn refusals_change_nothing(elements: &Elements) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/filter").display().to_string();
    let installed = run(&elements.lab, "r1", &["package", "install", &package, "--unsigned"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stdout));
    let refused = elements.commit("r1", &["set system host-name other", "set filter rule x action drop"]);
    let refused = refused.unwrap_err();
    assert!(
        refused.contains("element 2") && refused.contains("filter") && refused.contains("nothing changed"),
        "{refused}"
    );
    let checked = run(&elements.lab, "r1", &["configure", "set filter rule x action drop", "commit check"]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains("element 2"), "a check asks all elements");
    // The statements of a component that runs elsewhere are checked here.
    let refused = elements
        .commit(
            "r1",
            &[
                "set protocols bgp neighbor 10.0.0.1 peer-as 64501",
                "set protocols bgp neighbor 10.0.0.1 import nowhere",
            ],
        )
        .unwrap_err();
    assert!(refused.contains("neighbor 10.0.0.1"), "{refused}");
    let nodes = ELEMENTS.map(|(node, ..)| node);
    assert!(elements.say(&nodes, "host-name first"));
    // The calls between elements and their managers are nobody else's.
    for words in [
        &["call", "manager/manager.v1.SharedConfiguration/Export"][..],
        &["call", "cluster/manager.v1.ConfigurationOwner/Confirm"],
        &["call", "manager/manager.v1.SharedConfiguration/Prepare", "--element", "21"],
    ] {
        let output = run(&elements.lab, "r1", words);
        assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Refused commits among simultaneous commits leave no trace.
fn commits_at_once(elements: &Elements) {
    let names = ["one", "two", "three"];
    let statements = names.map(|name| format!("set system host-name {name}"));
    let done = std::thread::scope(|scope| {
        let commit = |index: usize| {
            let statement = statements[index].as_str();
            scope.spawn(move || elements.commit(ELEMENTS[index].0, &[statement]))
        };
        [0, 1, 2].map(commit).map(|commit| commit.join().unwrap())
    });
    let accepted: Vec<&str> = (0..3).filter(|index| done[*index].is_ok()).map(|index| names[index]).collect();
    assert!(!accepted.is_empty(), "{done:?}");
    let nodes = ELEMENTS.map(|(node, ..)| node);
    elements.until("all say the same", |_| {
        accepted.iter().any(|name| elements.say(&nodes, &format!("host-name {name};")))
    });
    println!("of {names:?} accepted: {accepted:?}");
}

/// A commit that nobody confirms is taken back everywhere; any element confirms.
fn confirmations(elements: &Elements) {
    elements.commit("sluice", &["set system host-name kept"]).unwrap();
    elements.until_all_say("host-name kept");
    elements.commit_confirmed("sluice", "set system host-name passing", 2);
    let nodes = ELEMENTS.map(|(node, ..)| node);
    elements.until("all say what is not confirmed", |_| elements.say(&nodes, "host-name passing"));
    elements.until_all_say("host-name kept");
    elements.commit_confirmed("sluice", "set system host-name confirmed", 10);
    elements.until_all_say("host-name confirmed");
    let confirmed = elements.commit("r1", &[]).unwrap();
    assert!(wide(&confirmed["confirmed"]) > Some(0), "{confirmed}");
    let again = elements.commit("c2", &[]).unwrap();
    assert!(wide(&again["confirmed"]) == Some(0), "{again}");
    // A commit of an element's own statements goes back alone, whatever all elements commit meanwhile.
    elements.commit_confirmed("r1", "set cluster store origin static", 3);
    elements.commit("sluice", &["set system host-name meanwhile"]).unwrap();
    elements.until_all_say("host-name meanwhile");
    elements.until("the own statement is taken back", |_| !elements.say(&["r1"], "origin static"));
    assert!(elements.say(&["r1"], "host-name meanwhile"));
}

/// An element that was away takes the newest configuration when it is back. Without most servers of the store nothing is decided.
fn absent_elements(elements: &mut Elements) {
    elements.lab.lab.stop("c2", true).unwrap();
    let done = elements.commit("r1", &["set system host-name without"]).unwrap();
    let absent = done["absent"].to_string();
    assert!(absent.contains("element 22"), "{done}");
    elements.until("the others say it", |_| elements.say(&["sluice", "r1"], "host-name without"));
    // A file that was edited meanwhile does not count for what all elements share.
    let file = elements.lab.lab.dir("c2").join("config");
    let text = std::fs::read_to_string(&file).unwrap();
    let edited = text.replace("host-name meanwhile", "host-name edited");
    assert_ne!(text, edited);
    std::fs::write(&file, edited).unwrap();
    elements.lab.lab.start("c2").unwrap();
    elements.until_all_say("host-name without");

    elements.lab.lab.exec("s", "ip", ["link", "set", "dev", "r1", "down"]).unwrap();
    let refused = elements.commit("r1", &["set system host-name alone"]).unwrap_err();
    assert!(
        refused.contains("no server of the store answers") && refused.contains("nothing changed"),
        "{refused}"
    );
    let done = elements.commit("sluice", &["set system host-name cut-off"]).unwrap();
    assert!(done["absent"].to_string().contains("element 11"), "{done}");
    assert!(elements.lab.lab.exec("r1", "ip", ["route"]).unwrap().contains("198.51.100.0/24"));
    elements.lab.lab.exec("s", "ip", ["link", "set", "dev", "r1", "up"]).unwrap();
    elements.until_all_say("host-name cut-off");
}
