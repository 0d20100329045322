//! The end of a run in words: times, failures, skipped and long tests, and the counts.

use super::run::Outcome;
use super::weights::Weight;
use std::fmt::Write;
use std::time::Duration;

/// So many modules are named with their times, the longest first.
const SHOWN: usize = 20;

/// Wall times of the parts of a run.
#[derive(Default)]
pub struct Phases {
    pub build: Duration,
    pub run: Duration,
}

/// Numbers of the last line.
#[derive(PartialEq, Eq, Debug)]
pub struct Totals {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    pub long: u64,
}

impl Totals {
    /// Adds up the jobs' counts and records.
    pub fn new(outcome: &Outcome) -> Self {
        let sum = |count: fn(&super::record::Record) -> usize| -> u64 {
            outcome.records.iter().map(|(_, record)| count(record) as u64).sum()
        };
        Self {
            passed: outcome.count.passed,
            failed: outcome.count.failed,
            skipped: outcome.count.ignored + sum(|record| record.skipped.len()),
            long: sum(|record| record.long.len()),
        }
    }
}

/// Returns the report.
pub fn report(outcome: &Outcome, phases: &Phases, cores: usize, budget: f64) -> String {
    let mut text = String::from("\n");
    times(&mut text, outcome, phases, cores, budget);
    text.push('\n');
    for test in &outcome.count.failures {
        let _ = writeln!(text, "failed:  {test}");
    }
    for (key, record) in &outcome.records {
        for (test, reason) in &record.skipped {
            let _ = writeln!(text, "skipped: {test}: {reason} ({key})");
        }
    }
    for test in outcome.records.iter().flat_map(|(_, record)| record.long.keys()) {
        let _ = writeln!(text, "long: {test}");
    }
    let Totals { passed, failed, skipped, long } = Totals::new(outcome);
    let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped, {long} long not run");
    // The counters of CI recognize a line of exactly these three numbers.
    let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
    text
}

fn times(text: &mut String, outcome: &Outcome, phases: &Phases, cores: usize, budget: f64) {
    let mut weights: Vec<&(String, Weight)> = outcome.weights.iter().collect();
    weights.sort_by(|(_, a), (_, b)| b.wall.total_cmp(&a.wall));
    let _ = writeln!(text, "    wall  processors");
    for (key, Weight { wall, cpu }) in weights.iter().take(SHOWN) {
        let mark = if *wall > budget { "  over budget" } else { "" };
        let _ = writeln!(text, "{wall:>6.1} s {cpu:>9.1} s  {key}{mark}");
    }
    let over = weights.iter().filter(|(_, weight)| weight.wall > budget).count();
    let cpu: f64 = weights.iter().map(|(_, weight)| weight.cpu).sum();
    let _ = writeln!(
        text,
        "build {:.1} s, run {:.1} s with {cpu:.1} s of {cores} processors; {} processes, {over} over {budget:.0} s",
        phases.build.as_secs_f64(),
        phases.run.as_secs_f64(),
        weights.len(),
    );
    for beside in ["doc tests", "sdk/python"] {
        if let Some((_, weight)) = weights.iter().find(|(key, _)| key == beside) {
            let _ = writeln!(text, "{beside} {:.1} s, beside the test programs", weight.wall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::count::Count;
    use super::super::record::Record;
    use super::*;

    fn outcome() -> Outcome {
        let count =
            Count { passed: 7, failed: 1, ignored: 1, results: 2, failures: vec!["p m: signal".into()] };
        let record = Record::parse("skipped\ta: no BIRD\nlong\tb\tkills\nlong\tc\tkills\n");
        let weights = vec![
            ("sdk/python".into(), Weight { wall: 3.0, cpu: 1.0 }),
            ("p m".into(), Weight { wall: 61.0, cpu: 20.5 }),
        ];
        Outcome { count, records: vec![("p m".into(), record)], weights }
    }

    #[test]
    fn four_numbers_are_followed_by_the_three_of_ci() {
        let text = report(&outcome(), &Phases::default(), 2, 60.0);
        let end: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(end, ["7 passed, 1 failed, 2 skipped", "7 passed, 1 failed, 2 skipped, 2 long not run"]);
    }

    #[test]
    fn slow_modules_failures_and_tests_that_did_not_run_are_named() {
        let text = report(&outcome(), &Phases::default(), 2, 60.0);
        for line in [
            "  61.0 s      20.5 s  p m  over budget",
            "   3.0 s       1.0 s  sdk/python",
            "build 0.0 s, run 0.0 s with 21.5 s of 2 processors; 2 processes, 1 over 60 s",
            "sdk/python 3.0 s, beside the test programs",
            "failed:  p m: signal",
            "skipped: a: no BIRD (p m)",
            "long: b",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
    }
}
