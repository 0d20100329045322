//! Modules of a test program: groups of tests that run in a process of their own.

use std::collections::BTreeMap;

/// Returns the tests in the output of `PROGRAM --list --format terse`.
pub fn tests(listing: &str) -> Vec<String> {
    listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Groups tests by the first segment of their paths; tests without a module have the empty module.
pub fn group(tests: Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests {
        let module = test.split_once("::").map_or("", |(module, _)| module).to_owned();
        modules.entry(module).or_default().push(test);
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_a_listing() {
        let listing =
            "cluster::kills::a_member: test\nbenches::b: benchmark\nalone: test\n\n2 tests, 1 benchmark\n";
        assert_eq!(tests(listing), ["cluster::kills::a_member", "alone"]);
    }

    #[test]
    fn tests_are_grouped_by_the_first_segment() {
        let names = ["b::x::one", "a::two", "three", "b::y::four"].map(String::from);
        let groups = group(names.into());
        let groups: Vec<(&str, Vec<&str>)> = groups
            .iter()
            .map(|(module, tests)| (module.as_str(), tests.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            groups,
            [("", vec!["three"]), ("a", vec!["a::two"]), ("b", vec!["b::x::one", "b::y::four"])]
        );
    }
}
