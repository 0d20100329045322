//! The list of all campaigns with their last results.

use super::bugs::by_judge;
use super::campaigns::{CAMPAIGNS, Campaign};
use super::record::{Outcome, Record, Run};
use super::steps::Step;
use bench_report::Machine;
use std::collections::BTreeSet;

/// Prints the long tests and the other campaigns with their last results, and the share of caught bugs.
pub fn print(steps: &[Step], record: &Record) {
    for campaign in CAMPAIGNS {
        println!("{}: {}", campaign.name, campaign.description);
        rows(campaign, steps, record).iter().for_each(|row| println!("    {row}"));
    }
    println!();
    for (number, machine) in machines(record).iter().enumerate() {
        println!("machine {}: {}, {} cores, Linux {}", number + 1, machine.0, machine.1, machine.2);
    }
    for (judge, caught) in by_judge(record) {
        println!("seeded bugs, {judge}: {} of {} caught ({:.1} %)", caught.caught, caught.of, caught.share());
    }
    let recorded = steps.iter().filter(|step| record.last(step.campaign, &step.name).is_some()).count();
    println!("{recorded} of {} steps have a result", steps.len());
}

/// Returns the machines of the record: processor, cores, kernel.
fn machines(record: &Record) -> Vec<(&str, usize, &str)> {
    let all: BTreeSet<_> = record.runs().map(|run| key(&run.machine)).collect();
    all.into_iter().collect()
}

fn key(machine: &Machine) -> (&str, usize, &str) {
    (&machine.cpu, machine.cores, &machine.kernel)
}

/// Returns a row for each long test. The steps of a command have a common row, and a row for each that did not pass.
fn rows(campaign: &Campaign, steps: &[Step], record: &Record) -> Vec<String> {
    let own: Vec<&Step> = steps.iter().filter(|step| step.campaign == campaign.name).collect();
    let last = |step: &Step| record.last(step.campaign, &step.name);
    if campaign.kind.has_tests() {
        return own.iter().map(|step| row(&step.name, last(step), record)).collect();
    }
    let runs: Vec<&Run> = own.iter().filter_map(|step| last(step)).collect();
    let passed = runs.iter().filter(|run| run.outcome == Outcome::Passed).count();
    let mut rows = vec![format!("{} steps, {} with a result, {passed} passed", own.len(), runs.len())];
    if let (Some(first), Some(last)) =
        (runs.iter().map(|run| &run.date).min(), runs.iter().map(|run| &run.date).max())
    {
        let seconds: u64 = runs.iter().map(|run| run.seconds).sum();
        rows[0] += &format!(", {first} to {last}, {seconds} s");
    }
    let others = runs.iter().filter(|run| run.outcome != Outcome::Passed || run.detail.is_some());
    rows.extend(others.map(|run| row(&run.step, Some(run), record)));
    rows
}

fn row(step: &str, last: Option<&Run>, record: &Record) -> String {
    let Some(run) = last else { return format!("never run  {step}") };
    let machine =
        machines(record).iter().position(|machine| *machine == key(&run.machine)).map_or(0, |n| n + 1);
    let detail = run.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!(
        "{:<9}  {step}  ({}, {}, {} s, machine {machine}){detail}",
        run.outcome.name(),
        run.date,
        run.commit,
        run.seconds
    )
}

#[cfg(test)]
mod tests {
    use super::super::campaigns::named;
    use super::super::record::tests::run;
    use super::*;

    #[test]
    fn tests_have_a_row_each_and_commands_one_for_all_steps() {
        let steps = ["a", "b"].map(|name| Step::named("same octets", name));
        let targets = ["x", "y", "z"].map(|name| Step::named("fuzz", name));
        let all = [&steps[..], &targets[..]].concat();
        let mut record = Record::default();
        record.put(run("same octets", "b", "2026-01-01", 7));
        record.put(run("fuzz", "x", "2026-01-03", 8));
        let mut failed = run("fuzz", "z", "2026-01-02", 9);
        (failed.outcome, failed.detail) = (Outcome::Failed, Some("why".into()));
        record.put(failed);
        let of_tests = rows(named("same octets").unwrap(), &all, &record);
        let passed = "passed     b  (2026-01-01, 0123456789ab, 7 s, machine 1)";
        assert_eq!(of_tests, ["never run  a", passed]);
        let of_targets = rows(named("fuzz").unwrap(), &all, &record);
        let sum = "3 steps, 2 with a result, 1 passed, 2026-01-02 to 2026-01-03, 17 s";
        assert_eq!(of_targets, [sum, "failed     z  (2026-01-02, 0123456789ab, 9 s, machine 1): why"]);
    }
}
