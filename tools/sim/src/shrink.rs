//! Reduces a failing scenario to the parts that are needed for the failure.

use crate::fabric::WHOLE_WINDOW;
use crate::scenario::{Scenario, Step, What};

/// Tries at most; each is a whole run.
const TRIES: usize = 2000;

/// The smallest scenario found that still fails: phases, steps, routers, links and prefixes are left out as long as `fails`.
pub fn shrink(mut scenario: Scenario, fails: impl Fn(&Scenario) -> bool) -> Scenario {
    let mut tries = 0;
    loop {
        let mut smaller = false;
        for candidate in candidates(&scenario).into_iter().filter(is_sound) {
            tries += 1;
            if tries > TRIES {
                return scenario;
            }
            if fails(&candidate) {
                scenario = candidate;
                smaller = true;
                break;
            }
        }
        if !smaller {
            return scenario;
        }
    }
}

/// Returns true if every dead process is restarted in the same phase. The manager guarantees restarts, and no
/// condition holds without them.
fn is_sound(scenario: &Scenario) -> bool {
    let restarted = |phase: &[Step], killed: &Step| {
        let What::Kill { node, process } = killed.what else { return true };
        let start = What::Start { node, process };
        phase.iter().any(|s| s.at_ms >= killed.at_ms && s.what == start)
    };
    scenario.phases.iter().all(|phase| phase.iter().all(|step| restarted(phase, step)))
}

/// Slightly smaller scenarios, the smallest first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    for phases in 1..scenario.phases.len() {
        all.push(with(scenario, |s| s.phases.truncate(phases)));
    }
    for node in (0..scenario.network.nodes.len() as u32).rev() {
        all.push(without_node(scenario, node));
    }
    for link in (0..scenario.network.links.len() as u32).rev() {
        all.push(without_link(scenario, link));
    }
    for phase in 0..scenario.phases.len() {
        for step in (0..scenario.phases[phase].len()).rev() {
            all.push(with(scenario, |s| {
                s.phases[phase].remove(step);
            }));
            if let What::Bulk { node, count: count @ 2.. } = scenario.phases[phase][step].what {
                let what = What::Bulk { node, count: count / 2 };
                all.push(with(scenario, |s| s.phases[phase][step].what = what));
            }
            if let What::Policy { rules, .. } = &scenario.phases[phase][step].what {
                for rule in 0..rules.len() {
                    all.push(with(scenario, |s| {
                        if let What::Policy { rules, .. } = &mut s.phases[phase][step].what {
                            rules.remove(rule);
                        }
                    }));
                }
            }
        }
    }
    for node in 0..scenario.network.nodes.len() {
        for place in 0..scenario.network.nodes[node].networks.len() {
            all.push(with(scenario, |s| {
                s.network.nodes[node].networks.remove(place);
            }));
        }
    }
    let plain = with(scenario, |s| {
        for node in &mut s.network.nodes {
            (node.clock_offset, node.clock_ppm) = (0, 0);
        }
        for link in &mut s.network.links {
            (link.bandwidth, link.rewrites) = (0, Default::default());
        }
        (s.tables, s.slice, s.fill, s.window) = (1, 1024, 65_536, WHOLE_WINDOW);
    });
    if plain != *scenario {
        all.push(plain);
    }
    all
}

fn with(scenario: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut smaller = scenario.clone();
    change(&mut smaller);
    smaller
}

/// A number after `gone` was removed; `None` for `gone` itself.
fn after(number: u32, gone: u32) -> Option<u32> {
    (number != gone).then(|| number - u32::from(number > gone))
}

fn without_link(scenario: &Scenario, gone: u32) -> Scenario {
    with(scenario, |s| {
        s.network.links.remove(gone as usize);
        renumber(s, |what| {
            link_of(what).is_none_or(|link| match after(*link, gone) {
                Some(number) => {
                    *link = number;
                    true
                }
                None => false,
            })
        });
    })
}

fn without_node(scenario: &Scenario, gone: u32) -> Scenario {
    let mut smaller = scenario.clone();
    for link in (0..smaller.network.links.len() as u32).rev() {
        let l = &smaller.network.links[link as usize];
        if l.a == gone || l.b == gone {
            smaller = without_link(&smaller, link);
        }
    }
    smaller.network.nodes.remove(gone as usize);
    for link in &mut smaller.network.links {
        link.a -= u32::from(link.a > gone);
        link.b -= u32::from(link.b > gone);
    }
    renumber(&mut smaller, |what| {
        node_of(what).is_none_or(|node| match after(*node, gone) {
            Some(number) => {
                *node = number;
                true
            }
            None => false,
        })
    });
    smaller
}

fn renumber(scenario: &mut Scenario, mut keep: impl FnMut(&mut What) -> bool) {
    for phase in &mut scenario.phases {
        *phase = std::mem::take(phase)
            .into_iter()
            .filter_map(|mut step: Step| keep(&mut step.what).then_some(step))
            .collect();
    }
}

fn link_of(what: &mut What) -> Option<&mut u32> {
    match what {
        What::Cut { link }
        | What::Heal { link }
        | What::CarrierDown { link }
        | What::CarrierUp { link }
        | What::Degrade { link, .. }
        | What::RemoveNeighbor { link, .. }
        | What::AddNeighbor { link, .. }
        | What::Enable { link, .. }
        | What::NextHopSelf { link, .. }
        | What::Policy { link, .. }
        | What::Reset { link, .. }
        | What::Refresh { link, .. } => Some(link),
        _ => None,
    }
}

fn node_of(what: &mut What) -> Option<&mut u32> {
    match what {
        What::Boot { node }
        | What::Bulk { node, .. }
        | What::CrashNode { node }
        | What::Kill { node, .. }
        | What::Start { node, .. }
        | What::Announce { node, .. }
        | What::Withdraw { node, .. } => Some(node),
        _ => None,
    }
}
