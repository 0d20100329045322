//! Bugs seeded on purpose, to count the bugs that the tests find.
//!
//! The sources are copied into a separate folder below cargo's target folder. One build has all bugs, each behind a
//! switch ([`switches`]); the few that have none are built one by one. Each bug is shown to an *oracle*: a command of
//! cargo that is expected to fail. A bug that does not build is an error of the list, not a success. The lists are data
//! ([`list`], [`cores`]); a test checks that their code still exists.

mod cores;
mod list;
mod run;
mod switches;

use anyhow::{Context, Result, bail};
use bench_report::{Bar, Report, table};
use clap::{Args, ValueEnum};
use cores::{FEA_MUTATIONS, MANAGER_MUTATIONS, RIB_MUTATIONS};
use list::{MUTATIONS, Mutation, RULE_MUTATIONS};
use run::{Outcome, Workshop};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use switches::Switches;

/// The target share of caught bugs, in percent.
const TARGET: f64 = 90.0;
/// The shortest timeout of an oracle.
const LEAST_PATIENCE: Duration = Duration::from_secs(20);

/// The profile of the build.
const OPTIMIZED: &str = "profile.dev.opt-level=1";

/// The judge of a bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Judge {
    /// A fault campaign over small networks of whole routers.
    Campaign,
    /// BGP's own tests: random lives against a model, scenarios, announcements, and tests of single rules.
    Model,
    /// The tests of the RIB's core.
    Rib,
    /// The tests of the FEA's core.
    Fea,
    /// The tests of the manager's core.
    Manager,
}

impl Judge {
    /// The words for cargo. The one build is optimized a little: tests and campaigns take a fifth of the time.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Judge::Campaign => &[
                "run",
                "-q",
                "--config",
                OPTIMIZED,
                "-p",
                "sluice-sim",
                "--",
                "--campaign",
                "--as-found",
                "--seeds",
                "500",
            ],
            Judge::Model => &["test", "--config", OPTIMIZED, "-p", "sluice-bgp", "--lib", "--test", "bgp"],
            Judge::Rib => &["test", "--config", OPTIMIZED, "-p", "sluice-rib"],
            Judge::Fea => &["test", "--config", OPTIMIZED, "-p", "sluice-fea"],
            Judge::Manager => &["test", "--config", OPTIMIZED, "-p", "sluice-manager"],
        }
    }

    /// The name of the reported share.
    const fn bar(self) -> &'static str {
        match self {
            Judge::Campaign | Judge::Model => "sim.mutations_caught",
            Judge::Rib => "rib.mutations_caught",
            Judge::Fea => "fea.mutations_caught",
            Judge::Manager => "manager.mutations_caught",
        }
    }

    /// The bugs for the judge.
    fn mutations(self) -> impl Iterator<Item = &'static Mutation> {
        let (shown, rules): (&[Mutation], &[Mutation]) = match self {
            Judge::Campaign => (MUTATIONS, &[]),
            Judge::Model => (MUTATIONS, RULE_MUTATIONS),
            Judge::Rib => (RIB_MUTATIONS, &[]),
            Judge::Fea => (FEA_MUTATIONS, &[]),
            Judge::Manager => (MANAGER_MUTATIONS, &[]),
        };
        shown.iter().chain(rules)
    }
}

/// The bugs to seed, and their judge.
#[derive(Args)]
pub struct Options {
    /// Only bugs with one of the given texts in their name.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Only bugs with a number in this range, from 1, in the order of `--list`: `13-24`.
    #[arg(long, value_parser = numbers, value_name = "FIRST-LAST")]
    numbers: Option<RangeInclusive<usize>>,
    /// Only the bugs' names and files, with those that have a build of their own.
    #[arg(long)]
    list: bool,
    /// Seconds after which the oracle counts as hanging, which is a bug seen; five times as long as it takes without a bug if absent.
    #[arg(long)]
    timeout: Option<u64>,
    /// The judge.
    #[arg(long, value_enum, default_value = "campaign")]
    judge: Judge,
    /// A different oracle: words for cargo that begin with `test` or `run`.
    #[arg(last = true)]
    oracle: Vec<String>,
}

/// Reads the first and the last number of a range.
fn numbers(text: &str) -> Result<RangeInclusive<usize>, String> {
    let numbers =
        text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last) = numbers.ok_or("two numbers with `-` between them")?;
    Ok(first..=last)
}

/// Returns the judges by name, with the number of bugs of each.
pub fn lists() -> Vec<(String, usize)> {
    let name = |judge: &Judge| judge.to_possible_value().map(|value| value.get_name().to_owned());
    let judges = Judge::value_variants().iter();
    judges.filter_map(|judge| Some((name(judge)?, judge.mutations().count()))).collect()
}

/// Returns every bug once: the model's list has those of the campaign.
fn every() -> impl Iterator<Item = &'static Mutation> {
    [Judge::Model, Judge::Rib, Judge::Fea, Judge::Manager].into_iter().flat_map(Judge::mutations)
}

/// Seeds the bugs one by one and prints the caught bugs.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let wanted = |m: &&Mutation| {
        options.only.is_empty() || options.only.iter().any(|part| m.name.contains(part.as_str()))
    };
    let all = options.judge.mutations().enumerate();
    let numbered = all.filter(|(n, _)| options.numbers.as_ref().is_none_or(|range| range.contains(&(n + 1))));
    let mutations: Vec<&Mutation> = numbered.map(|(_, mutation)| mutation).filter(wanted).collect();
    if options.list {
        let switches = Switches::new(every());
        for mutation in mutations {
            let text = std::fs::read_to_string(root.join(mutation.file)).context(mutation.file)?;
            let own = if switches.number(mutation, &text)?.is_some() { "" } else { ", a build of its own" };
            println!("{:<36} {}{own}", mutation.name, mutation.file);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if mutations.is_empty() {
        bail!("no bug has such a name; `--list` names them");
    }
    let oracle = match &options.oracle[..] {
        [] => options.judge.words().iter().map(ToString::to_string).collect(),
        words => words.to_vec(),
    };
    let mut workshop = Workshop::open(root, oracle, Switches::new(every()))?;
    println!("{} bugs, judged by `cargo {}`", mutations.len(), workshop.oracle());
    match workshop.judge(0).context("without a bug")? {
        (Outcome::Passed, took) => {
            let patience = (took * 5).max(LEAST_PATIENCE);
            workshop.set_limit(options.timeout.map_or(patience, Duration::from_secs));
        }
        (outcome, _) => {
            bail!("the oracle does not pass without a bug: {}\n{}", outcome.name(), outcome.detail())
        }
    }
    let mut report = Report::begin("mutations");
    let (mut lines, mut not_built, mut caught) = (Vec::new(), Vec::new(), 0);
    for mutation in &mutations {
        let (outcome, took) = workshop.seed(mutation).with_context(|| mutation.name)?;
        println!("{:<36} {:<10} {:>5.1} s", mutation.name, outcome.name(), took.as_secs_f64());
        if matches!(outcome, Outcome::NotBuilt(_)) {
            println!("{}", outcome.detail());
            not_built.push(mutation.name);
            continue;
        }
        caught += usize::from(outcome != Outcome::Passed);
        report.row(json!({
            "name": mutation.name, "file": mutation.file, "outcome": outcome.name(),
            "seconds": took.as_secs_f64(), "oracle": workshop.oracle(),
        }));
        lines.push((mutation, outcome));
    }
    let missed: Vec<Vec<String>> = lines
        .iter()
        .filter(|(_, outcome)| *outcome == Outcome::Passed)
        .map(|(m, _)| vec![m.name.into(), m.file.into()])
        .collect();
    if !missed.is_empty() {
        println!("\n{}", table(&["not caught", "file"], &missed));
    }
    if !not_built.is_empty() {
        bail!("{} do not build", not_built.join(", "));
    }
    println!("{caught} of {} caught", lines.len());
    let share = 100.0 * caught as f64 / lines.len() as f64;
    report.bar(Bar::higher(options.judge.bar(), share, "%", TARGET));
    report.finish(&[])?;
    Ok(if share >= TARGET { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_numbers_has_two_ends() {
        assert_eq!(numbers("13-24"), Ok(13..=24));
        assert!(["", "3", "3-", "a-b", "1-2-3"].iter().all(|text| numbers(text).is_err()));
        let lists = lists();
        assert!(
            lists.len() == 5 && lists.iter().any(|(name, count)| name == "rib" && *count > 20),
            "{lists:?}"
        );
    }

    /// A judge whose program was renamed would judge no bug.
    #[test]
    fn every_judge_has_its_programs() {
        let packages = crate::metadata::packages(&crate::root(), &["--no-deps"]).unwrap();
        for judge in Judge::value_variants() {
            let after = |flag: &str| {
                let pairs = judge.words().windows(2).filter(|pair| pair[0] == flag);
                pairs.map(|pair| pair[1]).collect::<Vec<_>>()
            };
            let package = packages.iter().find(|package| package["name"] == after("-p")[0]).unwrap();
            for program in after("--test") {
                let mut targets = package["targets"].as_array().unwrap().iter();
                assert!(targets.any(|target| target["name"] == program), "{judge:?}: {program}");
            }
        }
    }

    /// A bug can be seeded only if its code still exists.
    #[test]
    fn every_mutation_finds_its_place_once() {
        let mut names = std::collections::BTreeSet::new();
        let mut wrong = Vec::new();
        for mutation in every() {
            assert!(names.insert(mutation.name), "{} comes twice", mutation.name);
            assert_ne!(mutation.find, mutation.replace, "{}", mutation.name);
            let text = std::fs::read_to_string(crate::root().join(mutation.file)).unwrap_or_default();
            let found = text.matches(mutation.find).count();
            if found != 1 {
                wrong.push(format!(
                    "{}: {found} times in {}: {}",
                    mutation.name, mutation.file, mutation.find
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for judge in Judge::value_variants() {
            assert!(judge.mutations().count() >= 12, "{judge:?}");
        }
    }
}
