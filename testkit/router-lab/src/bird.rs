//! A router whose neighbor is the BIRD of node `bird`, in its protocol `sluice`: changes of the router, and what BIRD has of it.

use super::RouterLab;
use std::collections::BTreeSet;

/// The prefixes that BIRD has from the router.
pub fn at_bird(lab: &RouterLab) -> BTreeSet<String> {
    let shown = lab.birdc("bird", "show route protocol sluice");
    let prefixes = shown.lines().filter_map(|line| line.split_whitespace().next());
    prefixes.filter(|word| word.contains('/')).map(String::from).collect()
}

/// Waits until BIRD has exactly these prefixes.
pub fn until_at_bird(lab: &RouterLab, what: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
    lab.until(what, |lab| at_bird(lab) == expected);
}

/// The number of withdrawals that BIRD has from the router in this session.
pub fn withdrawals(lab: &RouterLab) -> u32 {
    let shown = lab.birdc("bird", "show protocols all sluice");
    let counts = shown.lines().filter(|line| line.contains("Import withdraws"));
    counts.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok()).sum()
}

/// Commits a statement.
pub fn commit(lab: &RouterLab, statement: &str) {
    let done = lab.cli(&["configure", statement, "commit"]);
    assert!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stdout));
}

/// Kills a component, and waits for the next process.
pub fn kill(lab: &RouterLab, component: &str) {
    let pid = lab.pid(component).unwrap();
    lab.kill(pid);
    lab.until("there is another process", |l| l.pid(component).is_some_and(|new| new != 0 && new != pid));
    lab.until("the router is ready", RouterLab::ready);
}
