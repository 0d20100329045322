//! Leaves that no lab of this test changes, because another test proves their class.

use sluice_config::{Impact, Node};
use std::collections::BTreeMap;
use std::path::Path;

/// A test, by the folder of its crate and the name of its function.
pub struct Test {
    pub folder: &'static str,
    pub name: &'static str,
}

/// The kind of a leaf's proof.
pub enum Proof {
    /// A test of a core, without a router.
    Core(Test),
    /// A test in a lab of its own.
    Lab(Test),
    /// The leaf of the same name below another path: one grouping of the schema defines both.
    SameAs(&'static str),
}

const fn core(folder: &'static str, name: &'static str) -> Proof {
    Proof::Core(Test { folder, name })
}

const fn lab(name: &'static str) -> Proof {
    Proof::Lab(Test { folder: "apps/sluice", name })
}

const BGP: &str = "components/bgp/core";
const TOUCHED: Proof = core(BGP, "who_is_touched");

/// By path, without keys; the longest path that contains a leaf counts.
pub const ELSEWHERE: &[(&str, Proof)] = &[
    // The element has no store.
    ("cluster/shared-configuration", lab("a_commit_on_one_element_is_for_all")),
    ("instance", lab("instances_live_beside_each_other")),
    ("instance/protocols", Proof::SameAs("protocols")),
    // The class of the subtree is up to each component that takes the subtree.
    ("policy", lab("a_changed_policy_touches_the_routes_whose_outcome_changes")),
    // There are no clients.
    (
        "protocols/bgp/client-to-client-reflection",
        core(BGP, "meshed_clients_receive_no_routes_of_each_other"),
    ),
    ("protocols/bgp/group", Proof::SameAs("protocols/bgp/neighbor")),
    // No router connects from a range.
    ("protocols/bgp/listen-range", core(BGP, "a_changed_configuration_is_that_of_the_neighbors")),
    // No neighbor receives several paths.
    (
        "protocols/bgp/neighbor/add-path/paths",
        core(BGP, "the_number_of_paths_and_policies_change_without_a_reset"),
    ),
    (
        "protocols/bgp/neighbor/add-path/policy",
        core(BGP, "the_number_of_paths_and_policies_change_without_a_reset"),
    ),
    // No sites are of one AS, and no neighbor knows the router by another AS.
    ("protocols/bgp/neighbor/as-override", TOUCHED),
    ("protocols/bgp/neighbor/local-as", TOUCHED),
    // Routes that are filtered again at import go to other neighbors.
    ("protocols/bgp/neighbor/import", lab("a_changed_policy_touches_the_routes_whose_outcome_changes")),
    // Routes without communities are not sent again without them.
    ("protocols/bgp/neighbor/send-community", TOUCHED),
    // Soft leaves.
    ("protocols/bgp/neighbor/connect-retry-time", TOUCHED),
    ("protocols/bgp/neighbor/delay-open-time", TOUCHED),
    ("protocols/bgp/neighbor/send-hold-time", TOUCHED),
    ("protocols/bgp/neighbor/keepalive-time", TOUCHED),
    ("protocols/bgp/neighbor/ipv4-unicast/maximum-prefixes", TOUCHED),
    ("protocols/bgp/neighbor/ipv6-unicast/maximum-prefixes", TOUCHED),
    ("protocols/bgp/neighbor/xid/maximum-prefixes", TOUCHED),
    ("protocols/bgp/neighbor/damping", core(BGP, "changes_of_the_configuration_and_operators_end_it")),
    ("protocols/bgp/neighbor/keep-rejected", core(BGP, "routes_that_are_not_stored_are_asked_for")),
];

/// Returns the proof of a leaf, or of all leaves below a path; `None` if a lab of this test changes the leaf.
pub fn proof_of(path: &str) -> Option<&'static Proof> {
    let contains =
        |of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let all = ELSEWHERE.iter().filter(|(of, _)| contains(of));
    all.max_by_key(|(of, _)| of.len()).map(|(_, proof)| proof)
}

/// Returns all leaves of a schema with their classes.
pub fn leaves(schema: &[Node]) -> BTreeMap<String, Impact> {
    fn collect(node: &Node, within: &str, leaves: &mut BTreeMap<String, Impact>) {
        use sluice_config::NodeKind::{Leaf, LeafList};
        let name = format!("{within}{}", node.name);
        if let Leaf(value) | LeafList(value) = &node.kind {
            leaves.insert(name.clone(), value.impact);
        }
        node.children.iter().for_each(|child| collect(child, &format!("{name}/"), leaves));
    }
    let mut found = BTreeMap::new();
    schema.iter().for_each(|node| collect(node, "", &mut found));
    found
}

/// Prints the kind of proof of each leaf, and the number of leaves of each kind.
///
/// # Panics
///
/// If a named test does not exist, or a named path has no leaf.
pub fn list(schema: &[Node], is_in_lab: impl Fn(&str) -> bool) {
    let leaves = leaves(schema);
    for (path, proof) in ELSEWHERE {
        let below = |leaf: &String| leaf == path || leaf.starts_with(&format!("{path}/"));
        assert!(leaves.keys().any(below), "the schema has no leaf {path}");
        match proof {
            Proof::Core(test) | Proof::Lab(test) => {
                assert!(exists(test), "{path}: no test `{}` below {}", test.name, test.folder);
            }
            Proof::SameAs(other) => assert!(proof_of(other).is_none(), "{path}: {other} is proven elsewhere"),
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (leaf, impact) in &leaves {
        let (kind, by) = match proof_of(leaf) {
            None => {
                assert!(is_in_lab(leaf), "{leaf}: no proof");
                ("lab", "this test".to_owned())
            }
            Some(Proof::Core(test)) => ("core test", format!("{}, {}", test.name, test.folder)),
            Some(Proof::Lab(test)) => ("other lab", test.name.to_owned()),
            Some(Proof::SameAs(other)) => ("same as another leaf", format!("below {other}")),
        };
        *counts.entry(kind).or_default() += 1;
        println!("{leaf} ({impact}): {kind}: {by}");
    }
    println!("{} leaves, by kind of proof: {counts:?}", leaves.len());
}

/// Returns true if a crate's sources or tests have a test of the name.
fn exists(test: &Test) -> bool {
    fn any(path: &Path, name: &str) -> bool {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            return entries.into_iter().any(|entry| any(&entry.unwrap().path(), name));
        }
        path.extension().is_some_and(|e| e == "rs") && has_test(&std::fs::read_to_string(path).unwrap(), name)
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(test.folder);
    ["src", "tests"].iter().any(|part| any(&root.join(part), test.name))
}

/// Returns true if a source has a test of the name that runs without being asked for.
fn has_test(source: &str, name: &str) -> bool {
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "#[test]" {
            continue;
        }
        let mut is_ignored = false;
        let function = lines.by_ref().find(|line| {
            is_ignored |= line.starts_with("#[ignore");
            !line.starts_with(['#', '/'])
        });
        let begin = format!("fn {name}(");
        if !is_ignored && function.is_some_and(|line| line.trim_start_matches("pub ").starts_with(&begin)) {
            return true;
        }
    }
    false
}

#[test]
fn a_test_is_found_by_its_name() {
    let source = "fn helper() {}\n    #[test]\n    // Why.\n    fn one() {}\n#[test]\n#[ignore]\nfn two() {}\n#[test]\nfn four_more() {}\n";
    for (name, expected) in
        [("one", true), ("helper", false), ("two", false), ("four", false), ("four_more", true)]
    {
        assert_eq!(has_test(source, name), expected, "{name}");
    }
}

#[test]
fn the_longest_path_counts() {
    assert!(matches!(proof_of("instance/protocols/bgp/local-as"), Some(Proof::SameAs("protocols"))));
    assert!(matches!(proof_of("instance/name"), Some(Proof::Lab(_))));
    assert!(proof_of("protocols/bgp/neighbor/imported").is_none());
}
