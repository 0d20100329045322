//! Rules about long tests, for `cargo xtask tidy`.

use super::campaigns::{CAMPAIGNS, named};
use super::page;
use super::record::Record;
use super::scan::{LongTest, scan};
use crate::mutate;
use crate::tidy::walk;
use anyhow::Result;
use std::path::Path;

/// The only files that may have the variables of a running campaign.
const OWNERS: [&str; 2] = ["testkit/src/long.rs", "xtask/src/long/"];

/// Returns the broken rules: undeclared campaigns, campaigns without a test, further ways to make a
/// test long, and a page that differs from the record.
///
/// # Errors
///
/// If a source file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let (tests, mut found) = scan(root)?;
    compare(&tests, &mut found);
    found.extend(page::check(root, &Record::read(root)?, &mutate::lists())?);
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    for file in files {
        if let Ok(text) = std::fs::read_to_string(root.join(&file)) {
            variables(&file, &text, &mut found);
        }
    }
    Ok(found)
}

/// Compares the campaigns of the tests with the declared ones.
fn compare(tests: &[LongTest], found: &mut Vec<String>) {
    for test in tests {
        match named(&test.campaign) {
            None => found.push(format!(
                "{}: no campaign is called `{}`; xtask/src/long/campaigns.rs has all",
                test.place, test.campaign
            )),
            Some(campaign) if !campaign.kind.has_tests() => {
                found.push(format!("{}: the campaign `{}` has no tests", test.place, test.campaign));
            }
            Some(_) => {}
        }
    }
    for campaign in CAMPAIGNS.iter().filter(|campaign| campaign.kind.has_tests()) {
        if !tests.iter().any(|test| test.campaign == campaign.name) {
            found
                .push(format!("xtask/src/long/campaigns.rs: no test is in the campaign `{}`", campaign.name));
        }
    }
}

/// Looks for environment variables that make a test long.
fn variables(file: &Path, text: &str, found: &mut Vec<String>) {
    let is_code = file.extension().is_some_and(|e| e == "rs" || e == "py" || e == "sh")
        || file.file_name().is_some_and(|name| name == "Makefile");
    let former = ["SLUICE", "LONG"].join("_");
    if (is_code || file.extension().is_some_and(|e| e == "md")) && text.contains(&former) {
        found.push(format!(
            "{}: {former} does not exist; `sluice_testkit::long!` makes a test long",
            file.display()
        ));
    }
    let is_owner = OWNERS.iter().any(|owner| file.to_string_lossy().starts_with(owner));
    let own = ["CAMPAIGN", "RELEASE"].map(|name| format!("SLUICE_{name}"));
    if is_code && !is_owner && own.iter().any(|name| text.contains(name)) {
        found.push(format!(
            "{}: only `sluice_testkit::long!` reads the variables of a campaign",
            file.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::Program;
    use super::*;

    fn test(campaign: &str) -> LongTest {
        LongTest {
            campaign: campaign.into(),
            package: "a".into(),
            program: Program::Library,
            path: "one".into(),
            place: "a/src/lib.rs:7".into(),
        }
    }

    #[test]
    fn campaigns_and_tests_need_each_other() {
        let of_tests = CAMPAIGNS.iter().filter(|campaign| campaign.kind.has_tests());
        let mut tests: Vec<LongTest> = of_tests.map(|campaign| test(campaign.name)).collect();
        let problems = |tests: &[LongTest]| {
            let mut found = Vec::new();
            compare(tests, &mut found);
            found.len()
        };
        assert_eq!(problems(&tests), 0);
        tests.push(test("no campaign"));
        tests.push(test("fuzz"));
        assert_eq!(problems(&tests), 2);
        assert_eq!(problems(&tests[1..]), 3);
    }

    #[test]
    fn variables_are_for_the_macro_alone() {
        let problems = |file: &str, text: &str| {
            let mut found = Vec::new();
            variables(Path::new(file), text, &mut found);
            found.len()
        };
        let former = ["SLUICE", "LONG"].join("_");
        assert_eq!(problems("a/tests/x.rs", &format!("var_os(\"{former}\")")), 1);
        assert_eq!(problems("docs/x.md", &format!("{former}=1 cargo test")), 1);
        assert_eq!(problems("Makefile", &format!("{former}=1 cargo test")), 1);
        assert_eq!(problems("a/tests/x.rs", "var_os(\"SLUICE_CAMPAIGN\")"), 1);
        assert_eq!(problems("testkit/src/long.rs", "var_os(\"SLUICE_CAMPAIGN\")"), 0);
        assert_eq!(problems("docs/x.md", "SLUICE_CAMPAIGN"), 0);
        assert_eq!(problems("a/tests/x.rs", "long!(\"fuzz\")"), 0);
    }
}
