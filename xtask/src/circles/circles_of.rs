//! The circles of a graph: its strongly connected parts of more than one node.

use super::Uses;
use std::collections::BTreeSet;

/// Returns the modules of each circle, the largest circle first.
pub fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut placed = BTreeSet::new();
    for module in uses.keys() {
        if placed.contains(module) {
            continue;
        }
        let there = reached(uses, module);
        let circle: Vec<String> =
            there.iter().filter(|other| reached(uses, other).contains(module)).cloned().collect();
        if circle.len() > 1 {
            placed.extend(circle.iter().cloned());
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Returns the modules that one uses, directly or through others; with itself if it is on a circle.
fn reached(uses: &Uses, module: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for used in uses.get(next).into_iter().flatten() {
            if seen.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    seen
}
