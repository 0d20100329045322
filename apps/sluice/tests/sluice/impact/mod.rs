//! The impact class of every leaf, checked on the wire: each leaf is changed and changed back in a running router between real neighbors.
//! The class, the words of `commit check` and the observed effect have to agree. An unchanged configuration touches nothing.

mod cases;
mod elsewhere;
mod kernel;
mod network;
mod particulars;
mod proofs;
mod special;
mod touched;
mod unchanged;
mod wire;

use cases::{Case, Step};
use network::Network;
use sluice_config::{Impact, Node};
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use touched::{Reported, Touched};

/// Networks in which leaves are changed at the same time: a network mostly waits.
const NETWORKS: usize = 6;
/// Lies after which no further leaf is changed.
const ENOUGH: usize = 10;

/// Cases that no network has taken yet, the most expensive last, and the lies so far.
struct Work {
    cases: Vec<Case>,
    lies: Vec<String>,
}

impl Work {
    /// Plans all cases of a schema, and prints the kind of proof of each leaf.
    fn plan(schema: &[Node]) -> Work {
        let mut cases = cases::all(schema);
        assert!(cases.len() > 40, "the schema is lost");
        let in_lab: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
        elsewhere::list(schema, |leaf| in_lab.contains(leaf));
        println!("{} changes in {NETWORKS} networks", cases.len());
        cases.sort_by_key(|case| match case.impact {
            Impact::None | Impact::Soft => 0,
            Impact::Refilter => 1,
            Impact::Reset => 2,
            Impact::Restart => 3,
        });
        Work { cases, lies: Vec::new() }
    }
}

#[test]
fn every_leaf_has_its_stated_impact() {
    if !sluice_router_lab::possible() {
        return;
    }
    let work: OnceLock<Mutex<Work>> = OnceLock::new();
    std::thread::scope(|threads| {
        for _ in 0..NETWORKS {
            threads.spawn(|| {
                let network = Network::up();
                let work = work.get_or_init(|| Mutex::new(Work::plan(&network.schema())));
                loop {
                    let mut all = work.lock().unwrap();
                    let Some(case) = (all.lies.len() < ENOUGH).then(|| all.cases.pop()).flatten() else {
                        break;
                    };
                    drop(all);
                    let result = tells_the_truth(&network, &case);
                    let is_unusable = result.is_err();
                    work.lock().unwrap().lies.extend(result.unwrap_or_else(|lies| lies));
                    if is_unusable {
                        break;
                    }
                }
            });
        }
    });
    let Work { cases, lies } = work.into_inner().unwrap().into_inner().unwrap();
    assert!(lies.is_empty(), "{} lies:\n{}", lies.len(), lies.join("\n"));
    assert!(cases.is_empty(), "{} leaves were not changed", cases.len());
}

/// Changes a leaf there and back, and returns the lies; an error if the network does not come to rest.
fn tells_the_truth(network: &Network, case: &Case) -> Result<Vec<String>, Vec<String>> {
    let mut lies = Vec::new();
    let before = network.configuration();
    let there = take(network, &case.forward, case, &mut lies);
    if let Some(proof) = case.proof {
        if !network.until(|| proof(network)) {
            lies.push(format!("{}: the new value does not hold", case.name));
        }
        if !network.settle(&case.forward.down) {
            lies.push(format!("{}: no rest: {}\n{}", case.name, network.summary(), network.log()));
        }
    }
    let back = take(network, &case.back, case, &mut lies);
    // What a class announces happens in one direction at least: an address that comes interrupts nothing, one that goes does.
    if let (Some(there), Some(back)) = (&there, &back)
        && !there.shows(case.impact) & !back.shows(case.impact)
    {
        lies.push(format!("{}: nothing of `{}` was seen", case.name, case.impact));
    }
    // The next case begins as this one.
    let after = network.configuration();
    if before != after {
        lies.push(format!("{}: leaves {after} instead of {before}", case.name));
    }
    if !lies.is_empty() {
        lies.push(network.log());
    }
    let is_at_rest = there.is_some() && back.is_some() && network.settle(&case.back.down);
    if is_at_rest { Ok(lies) } else { Err(lies) }
}

/// Commits a step of a case and compares `commit check` with the observed effect.
fn take(network: &Network, step: &Step, case: &Case, lies: &mut Vec<String>) -> Option<Touched> {
    let name = format!("{} ({}; {})", case.name, case.impact, step.statements.join("; "));
    let (before, began) = (network.now(), Instant::now());
    let reported = match network.commit(&step.statements) {
        Ok(reported) => reported,
        Err(error) => {
            lies.push(format!("{name}: {error}"));
            return None;
        }
    };
    // The neighbor gets the new password only when the router is seen to have dropped the session for its own part.
    let announced = network.until(|| {
        let touched = match reported.components.is_empty() {
            true => network.events_since(&before),
            false => network.touched(&before),
        };
        reported.is_seen_in(&touched)
            && touched.has_sent(&step.sent)
            && step.kernel.is_subset(&touched.kernel)
    });
    network.partner(&step.partner);
    let settled = network.settle(&step.down);
    let touched = network.touched(&before);
    println!("{name}: {:?}\n  said {reported:?}\n  seen {touched:?}", began.elapsed());
    if !announced {
        let Step { sent, kernel, .. } = step;
        lies.push(format!(
            "{name}: said {reported:?}, to send {sent:?}, to change {kernel:?}; seen {touched:?}"
        ));
    }
    if !settled {
        lies.push(format!("{name}: does not come to rest: {}", network.summary()));
    }
    let judged = judge(case, step, &reported, &touched);
    if !judged.is_empty() {
        lies.extend(judged.into_iter().map(|lie| format!("{name}: {lie}")));
        lies.push(network.packets_since(&before));
    }
    Some(touched)
}

/// Returns the contradictions between a class, the announced effect and the observed effect.
fn judge(case: &Case, step: &Step, reported: &Reported, touched: &Touched) -> Vec<String> {
    let mut lies = Vec::new();
    if case.impact == Impact::None && touched.any {
        lies.push(format!("something happened: {touched:?}"));
    }
    let mut same = |what: &str, expected: &BTreeSet<String>, got: &BTreeSet<String>| {
        if expected != got {
            lies.push(format!("{what}: said or allowed {expected:?}, seen {got:?}"));
        }
    };
    let none = BTreeSet::new();
    let restarts = !reported.components.is_empty();
    same("processes", &reported.components, &touched.processes);
    same("interfaces", &reported.interfaces, &touched.interfaces);
    if !restarts {
        same("sessions", &reported.sessions, &touched.sessions);
    }
    let mut subjects: BTreeSet<String> = BTreeSet::new();
    // A leaf of the whole router determines by itself which sessions end.
    subjects
        .extend(case.subject.clone().map_or_else(|| reported.sessions.clone(), |subject| [subject].into()));
    match case.impact {
        Impact::None | Impact::Soft | Impact::Refilter => {
            same("sessions of its class", &none, &touched.sessions);
            same("interfaces of its class", &none, &touched.interfaces);
            same("processes of its class", &none, &touched.processes);
        }
        Impact::Reset => {
            same("processes of its class", &none, &touched.processes);
            let others = |seen: &BTreeSet<String>| seen.difference(&subjects).cloned().collect();
            same("other sessions", &none, &others(&touched.sessions));
            same("other interfaces", &none, &others(&touched.interfaces));
        }
        Impact::Restart => same("interfaces of its class", &none, &touched.interfaces),
    }
    if !restarts {
        // Who is sent something, beyond what follows from a neighbor's routes going and coming back.
        let mut expected = none.clone();
        for (neighbor, prefixes) in &touched.sent {
            let of_touched = touched.sessions.iter().flat_map(|n| network::routes_of(n));
            let follows: BTreeSet<String> = of_touched.map(|p| p.to_string()).collect();
            let is_own_session = touched.sessions.contains(neighbor);
            if !is_own_session && prefixes.iter().any(|p| !follows.contains(p) && !step.sent.contains(p)) {
                expected.insert(neighbor.clone());
            }
        }
        same("neighbors that are sent routes again", &reported.refiltered, &expected);
    }
    let mut kernel: BTreeSet<String> = step.kernel.union(&step.may).cloned().collect();
    kernel.extend(touched.sessions.iter().flat_map(|n| network::routes_of(n)).map(|p| p.to_string()));
    let beyond: BTreeSet<String> = touched.kernel.difference(&kernel).cloned().collect();
    same("routes of the kernel", &none, &beyond);
    lies
}
