//! Roles of people: the calls that a role allows, and the statements of the configuration that its holders may read and change.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The calls of every role, beside those of each method that only reads: those by which `sluice monitor` receives routes.
const READING: [&str; 2] = ["rib/rib.v1.Rib/Subscribe", "rib/rib.v1.Rib/Unsubscribe"];
/// The calls of an operator beside those that read: `clear`, `request`, `restart` and draining.
const OPERATING: [&str; 8] = [
    "*/*/Clear*",
    "*/*/Reset*",
    "*/*/Refresh*",
    "*/*/Ping",
    "*/*/Drain",
    "*/*/Undrain",
    // On another element of a cluster, which decides by the role of its own user of the same name.
    "*/*/CallElement",
    "manager/manager.v1.Manager/Restart",
];
/// The calls by which a configuration is edited and committed.
const EDITING: [&str; 9] = [
    "manager/manager.v1.Configuration/Open",
    "manager/manager.v1.Configuration/Close",
    "manager/manager.v1.Configuration/Renew",
    "manager/manager.v1.Configuration/Edit",
    "manager/manager.v1.Configuration/Load",
    "manager/manager.v1.Configuration/Update",
    "manager/manager.v1.Configuration/Check",
    "manager/manager.v1.Configuration/Commit",
    "manager/manager.v1.Configuration/Rollback",
];
/// The classes that readers register: those by which `sluice monitor` receives routes.
const MONITORS: [&str; 1] = ["monitor"];

/// The words of a path of the configuration. `*` stands for any one word.
pub type PathPattern = Vec<String>;

/// A role. Every role may call each method that only reads, as its interface states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// Patterns of the calls that do more than read, as `rights.toml` writes them: `TARGET/INTERFACE/METHOD`.
    pub calls: Vec<String>,
    /// Patterns of classes that the role may register.
    pub targets: Vec<String>,
    /// The statements that the role may read.
    pub reads: Statements,
    /// The statements that the role may change.
    pub writes: Statements,
}

/// A part of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Statements {
    /// Every statement.
    Everything,
    /// The statements at or below one of the paths; without a path none.
    Below(Vec<PathPattern>),
}

impl Statements {
    /// No statement.
    pub const NONE: Statements = Statements::Below(Vec::new());

    /// Returns true if the statement at a path belongs to the part. A statement above a pattern does not: statements beside
    /// the pattern are below it too.
    pub fn allow(&self, path: &[&str]) -> bool {
        match self {
            Statements::Everything => true,
            Statements::Below(patterns) => patterns.iter().any(|pattern| is_at_or_below(path, pattern)),
        }
    }
}

fn is_at_or_below(path: &[&str], pattern: &[String]) -> bool {
    !pattern.is_empty()
        && path.len() >= pattern.len()
        && pattern.iter().zip(path).all(|(expected, word)| expected == "*" || expected == word)
}

impl Role {
    /// The administrators' role: everything.
    pub fn admin() -> Self {
        Role {
            calls: texts(&["*"]),
            targets: texts(&["*"]),
            reads: Statements::Everything,
            writes: Statements::Everything,
        }
    }

    /// The readers' role: everything that reads, but no secret.
    pub fn read_only() -> Self {
        Role {
            calls: texts(&READING),
            targets: texts(&MONITORS),
            reads: Statements::Everything,
            writes: Statements::NONE,
        }
    }

    /// The operators' role: reads, clears, restarts components, and drains the router by the statements at `drains`.
    pub fn operator(drains: Vec<PathPattern>) -> Self {
        Role::own(texts(&OPERATING), drains)
    }

    /// A role that reads everything, makes further calls, and changes the statements at or below paths.
    pub fn own(calls: Vec<String>, writes: Vec<PathPattern>) -> Self {
        let reader = Role::read_only();
        let editing: &[&str] = if writes.is_empty() { &[] } else { &EDITING };
        let calls = reader.calls.iter().cloned().chain(calls).chain(texts(editing)).collect();
        Role { calls, writes: Statements::Below(writes), ..reader }
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn pattern(text: &str) -> PathPattern {
        text.split(' ').map(ToString::to_string).collect()
    }

    fn allows(writes: &Statements, path: &str) -> bool {
        writes.allow(&path.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn statements_at_and_below_a_path_may_change() {
        let writes =
            Statements::Below(vec![pattern("protocols static"), pattern("instance * protocols bgp")]);
        assert!(allows(&writes, "protocols static"));
        assert!(allows(&writes, "protocols static route 192.0.2.0/24 discard"));
        assert!(allows(&writes, "instance red protocols bgp local-as"));
        assert!(!allows(&writes, "protocols"));
        assert!(!allows(&writes, "protocols bgp local-as"));
        assert!(!allows(&writes, "instance red table"));
        assert!(!allows(&writes, "instance red"));
    }

    #[test]
    fn readers_change_nothing_and_administrators_everything() {
        assert!(!Role::read_only().writes.allow(&["system"]));
        assert!(Role::admin().writes.allow(&["system"]));
        // An empty pattern names no statement, not the whole configuration.
        assert!(!Statements::Below(vec![Vec::new()]).allow(&["system"]));
    }

    #[test]
    fn a_role_that_changes_nothing_cannot_edit() {
        let commits = |role: &Role| role.calls.iter().any(|call| call.ends_with("/Commit"));
        assert!(!commits(&Role::own(vec!["bgp/bgp.v1.Bgp/ResetNeighbor".into()], Vec::new())));
        assert!(commits(&Role::own(Vec::new(), vec![pattern("protocols static")])));
        assert!(commits(&Role::operator(vec![pattern("protocols bgp graceful-shutdown")])));
        assert!(!commits(&Role::operator(Vec::new())));
    }

    proptest! {
        #[test]
        fn what_is_allowed_at_a_path_is_allowed_below(
            words in proptest::collection::vec("[a-c]", 1..5),
            length in 1..5usize,
            more in "[a-c]",
        ) {
            let pattern: Vec<_> = words.iter().take(length).cloned().collect();
            let writes = Statements::Below(vec![pattern.clone()]);
            let path: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert!(writes.allow(&path));
            let below: Vec<&str> = path.iter().copied().chain([more.as_str()]).collect();
            prop_assert!(writes.allow(&below));
            prop_assert!(!writes.allow(&path[..pattern.len() - 1]));
        }
    }
}
