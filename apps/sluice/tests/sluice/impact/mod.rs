//! The impact class of every leaf, checked on the wire: each leaf is changed and changed back in a running router between real neighbors.
//! The class, the words of `commit check` and the observed effect have to agree. An unchanged configuration touches nothing.

mod cases;
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
use sluice_config::Impact;
use std::collections::BTreeSet;
use std::time::Instant;
use touched::{Reported, Touched};

/// The share of each of the two tests, so that both run in parallel.
fn is_of_a_neighbor(case: &Case) -> bool {
    case.name.starts_with("protocols/bgp/neighbor/")
}

#[test]
fn every_leaf_of_a_neighbor_tells_the_truth() {
    if sluice_router_lab::possible() {
        tells_the_truth(is_of_a_neighbor);
    }
}

#[test]
fn every_other_leaf_tells_the_truth() {
    if sluice_router_lab::possible() {
        tells_the_truth(|case| !is_of_a_neighbor(case));
    }
}

/// Changes every leaf of the running router's schema in the given share of the work.
fn tells_the_truth(is_mine: impl Fn(&Case) -> bool) {
    let network = Network::up();
    let cases = cases::all(&network.schema());
    assert!(cases.len() > 40, "the schema is lost");
    let mut lies = Vec::new();
    for case in cases.iter().filter(|case| is_mine(case)) {
        let there = take(&network, &case.forward, case, &mut lies);
        if !case.proof.is_none_or(|proof| network.until(|| proof(&network))) {
            lies.push(format!("{}: the new value does not hold", case.name));
        }
        assert!(network.settle(&case.forward.down), "{}: no rest: {}", case.name, network.summary());
        let back = take(&network, &case.back, case, &mut lies);
        // What a class announces happens in one direction at least: an address that comes interrupts nothing, one that goes does.
        if let (Some(there), Some(back)) = (there, back)
            && !there.shows(case.impact) & !back.shows(case.impact)
        {
            lies.push(format!("{}: nothing of `{}` was seen", case.name, case.impact));
        }
    }
    assert!(lies.is_empty(), "{} lies:\n{}\n{}", lies.len(), lies.join("\n"), network.log());
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
    // The neighbour hears of a new password only when the router is seen to have dropped the session for its own part.
    let announced = network.until(|| {
        let touched = network.touched(&before);
        reported.is_seen_in(&touched)
            && touched.has_told(&step.told)
            && step.kernel.is_subset(&touched.kernel)
    });
    network.partner(&step.partner);
    let settled = network.settle(&step.down);
    let touched = network.touched(&before);
    println!("{name}: {:?}\n  said {reported:?}\n  seen {touched:?}", began.elapsed());
    if !announced {
        let Step { told, kernel, .. } = step;
        lies.push(format!(
            "{name}: said {reported:?}, to tell {told:?}, to change {kernel:?}; seen {touched:?}"
        ));
    }
    if !settled {
        lies.push(format!("{name}: does not come to rest: {}", network.summary()));
    }
    lies.extend(judge(case, step, &reported, &touched).into_iter().map(|lie| format!("{name}: {lie}")));
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
    // A leaf of the whole router says by itself which sessions end.
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
        // Who is told something, beyond what follows from a neighbour's routes going and coming back.
        let mut expected = none.clone();
        for (neighbor, prefixes) in &touched.told {
            let of_touched = touched.sessions.iter().flat_map(|n| network::routes_of(n));
            let follows: BTreeSet<String> = of_touched.map(|p| p.to_string()).collect();
            let is_own_session = touched.sessions.contains(neighbor);
            if !is_own_session && prefixes.iter().any(|p| !follows.contains(p) && !step.told.contains(p)) {
                expected.insert(neighbor.clone());
            }
        }
        same("neighbors that are told again", &reported.refiltered, &expected);
    }
    let mut kernel: BTreeSet<String> = step.kernel.union(&step.may).cloned().collect();
    kernel.extend(touched.sessions.iter().flat_map(|n| network::routes_of(n)).map(|p| p.to_string()));
    let beyond: BTreeSet<String> = touched.kernel.difference(&kernel).cloned().collect();
    same("routes of the kernel", &none, &beyond);
    lies
}
