//! The verdict on an ended step: outcome, counts of caught bugs, and the reason of a failure.

use super::process::Ended;
use super::record::Outcome;
use super::steps::Evidence;
use std::path::Path;

/// The longest detail, in characters.
const LONGEST: usize = 240;

/// The verdict on a step.
#[derive(PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason of a failure or of a skip, or the names of missed bugs.
    pub detail: Option<String>,
    /// Caught bugs, and all bugs.
    pub bugs: Option<(u64, u64)>,
}

impl Verdict {
    /// Judges an ended command. `record` has the lines of skipped tests and of tests that did not run.
    pub fn of(evidence: Evidence, ended: &Ended, record: &str, root: &Path) -> Self {
        let verdict = |outcome, detail: Option<String>| Verdict {
            outcome,
            detail: detail.map(|detail| short(&detail, root)).filter(|detail| !detail.is_empty()),
            bugs: None,
        };
        let failed = || verdict(Outcome::Failed, Some(reason(&ended.output)));
        let Some(success) = ended.success else {
            return verdict(Outcome::Timeout, last_line(&ended.output).map(ToOwned::to_owned));
        };
        match evidence {
            Evidence::Exit | Evidence::Test if !success => failed(),
            Evidence::Exit => match ended.output.lines().find_map(|line| line.strip_prefix("skipped: ")) {
                Some(reason) => verdict(Outcome::Skipped, Some(reason.to_owned())),
                None => verdict(Outcome::Passed, None),
            },
            Evidence::Test => {
                if let Some(line) = record.lines().find_map(|line| line.strip_prefix("skipped\t")) {
                    return verdict(Outcome::Skipped, Some(line.replace('\t', " ")));
                }
                if record.lines().any(|line| line.starts_with("long\t")) {
                    return verdict(Outcome::Failed, Some("the test belongs to a different campaign".into()));
                }
                if !ended.output.contains("test result: ok. 1 passed") {
                    return verdict(Outcome::Failed, Some("the test program has no such test".into()));
                }
                verdict(Outcome::Passed, None)
            }
            Evidence::Caught => match caught(&ended.output) {
                Some(bugs) => {
                    let missed = missed(&ended.output);
                    let detail = (!missed.is_empty()).then(|| format!("not caught: {}", missed.join(", ")));
                    Verdict { bugs: Some(bugs), detail, ..verdict(Outcome::Passed, None) }
                }
                None => failed(),
            },
        }
    }
}

/// Returns the counts in a line like `67 of 69 caught`.
fn caught(output: &str) -> Option<(u64, u64)> {
    let line = output.lines().rev().find_map(|line| line.strip_suffix(" caught"))?;
    let (caught, of) = line.split_once(" of ")?;
    Some((caught.parse().ok()?, of.parse().ok()?))
}

/// Returns the names of the bugs that were not caught.
fn missed(output: &str) -> Vec<&str> {
    let names = output.lines().filter(|line| line.contains(" NOT CAUGHT "));
    names.filter_map(|line| line.split_whitespace().next()).collect()
}

fn last_line(output: &str) -> Option<&str> {
    output.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Returns the message of the first panic, or the last line.
fn reason(output: &str) -> String {
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at "));
    let panic = lines.next().and_then(|line| line.split_once("panicked at "));
    match (panic, lines.next()) {
        (Some((_, place)), Some(message)) => format!("{place} {message}"),
        _ => last_line(output).unwrap_or_default().to_owned(),
    }
}

/// Returns a text of limited length on a single line, without the path of the workspace.
fn short(text: &str, root: &Path) -> String {
    let text = text.replace(&format!("{}/", root.display()), "").replace(['\n', '\t'], " ");
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push_str(" ...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(evidence: Evidence, success: Option<bool>, output: &str, record: &str) -> (Outcome, String) {
        let ended = Ended { success, output: output.into(), time: Duration::ZERO };
        let verdict = Verdict::of(evidence, &ended, record, Path::new("/a/root"));
        (verdict.outcome, verdict.detail.unwrap_or_default())
    }

    #[test]
    fn a_test_passes_only_if_it_ran() {
        let fine = "running 1 test\ntest result: ok. 1 passed; 0 failed\n";
        let none = "running 0 tests\ntest result: ok. 0 passed; 0 failed\n";
        let record = "skipped\tmain: BIRD is not installed\n";
        assert_eq!(of(Evidence::Test, Some(true), fine, "").0, Outcome::Passed);
        assert_eq!(of(Evidence::Test, Some(true), none, "").0, Outcome::Failed);
        assert_eq!(of(Evidence::Test, Some(true), fine, "long\ta::b\tother\n").0, Outcome::Failed);
        let skipped = (Outcome::Skipped, "main: BIRD is not installed".to_owned());
        assert_eq!(of(Evidence::Test, Some(true), fine, record), skipped);
        let panic = "x\nthread 'main' panicked at /a/root/tests/x.rs:1:2:\nnever: ready\nnote: run with\n";
        let failed = (Outcome::Failed, "tests/x.rs:1:2: never: ready".to_owned());
        assert_eq!(of(Evidence::Test, Some(false), panic, record), failed);
    }

    #[test]
    fn a_command_passes_by_its_status() {
        assert_eq!(of(Evidence::Exit, Some(true), "done\n", "").0, Outcome::Passed);
        let skipped = "skipped: fuzz-guided: no C++ compiler\n";
        assert_eq!(of(Evidence::Exit, Some(true), skipped, "").0, Outcome::Skipped);
        assert_eq!(of(Evidence::Exit, Some(false), "a\nb\n\n", ""), (Outcome::Failed, "b".to_owned()));
        assert_eq!(of(Evidence::Exit, None, "step 7\n", ""), (Outcome::Timeout, "step 7".to_owned()));
        let long = "x".repeat(1000);
        assert_eq!(of(Evidence::Exit, Some(false), &long, "").1.len(), LONGEST + 4);
    }

    #[test]
    fn seeded_bugs_are_counted() {
        let output = "a-bug   caught   1.0 s\nb-bug   NOT CAUGHT   2.0 s\n1 of 2 caught\n";
        let ended = |success, output: &str| Ended { success, output: output.into(), time: Duration::ZERO };
        let verdict = |ended: &Ended| Verdict::of(Evidence::Caught, ended, "", Path::new("/"));
        let found = verdict(&ended(Some(false), output));
        assert_eq!((found.outcome, found.bugs), (Outcome::Passed, Some((1, 2))));
        assert_eq!(found.detail.as_deref(), Some("not caught: b-bug"));
        assert_eq!(verdict(&ended(Some(true), "3 of 3 caught\n")).detail, None);
        let not_built = verdict(&ended(Some(false), "Error: c-bug do not build\n"));
        assert_eq!((not_built.outcome, not_built.bugs), (Outcome::Failed, None));
    }
}
