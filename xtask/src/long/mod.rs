//! Long tests in campaigns: the oldest result first, for as long as there is time, with a record of each step.
//!
//! A long test is a test whose first statement is `sluice_testkit::long!`. The campaigns are data ([`campaigns`]). The
//! record is `docs/long-runs.json`, written after each step: an interrupted run loses the running step only.

mod bugs;
mod campaigns;
mod choice;
mod list;
mod page;
mod process;
mod record;
mod rules;
mod scan;
mod steps;
mod verdict;

pub use rules::check;

use crate::{fuzz_guided, mutate};
use anyhow::{Context, Result, ensure};
use bench_report::{commit, machine, now};
use record::{Outcome, Record, Run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use steps::{Parts, Step};
use verdict::Verdict;

/// The longest time of a build.
const BUILD_BOUND: Duration = Duration::from_secs(3600);
/// The folder of the outputs, below cargo's target folder.
const LOGS: &str = "long";

/// Options of a run. Without an option, the long tests are listed with their last results.
#[derive(clap::Args)]
pub struct Options {
    /// Runs the steps with the oldest results for this number of minutes.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Runs all steps of all campaigns.
    #[arg(long, conflicts_with_all = ["minutes", "only"])]
    all: bool,
    /// Runs the steps of this campaign only.
    #[arg(long, value_name = "CAMPAIGN")]
    only: Vec<String>,
    /// Runs only those steps of the named campaigns whose names begin with this text.
    #[arg(long, value_name = "TEXT", requires = "only")]
    step: Option<String>,
}

/// Lists or runs campaigns. The status is a failure if a step failed.
///
/// # Errors
///
/// If a source file or the record cannot be read, the record cannot be written, or a command cannot be started.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let is_listing = !options.all && options.minutes.is_none() && options.only.is_empty();
    for name in &options.only {
        ensure!(
            campaigns::named(name).is_some(),
            "no campaign is called `{name}`; `cargo xtask long` lists all"
        );
    }
    let (tests, _) = scan::scan(root)?;
    let parts = Parts {
        tests: &tests,
        targets: &fuzz_guided::names(root)?,
        bugs: &mutate::lists(),
        is_guided: is_listing || fuzz_guided::missing()?.is_none(),
    };
    let all = steps::all(&parts);
    let record = Record::read(root)?;
    if is_listing {
        list::print(&all, &record);
        return Ok(ExitCode::SUCCESS);
    }
    let is_wanted = |step: &&Step| {
        let is_named = options.step.as_ref().is_none_or(|text| step.name.starts_with(text));
        is_named && (options.only.is_empty() || options.only.iter().any(|only| only == step.campaign))
    };
    let mut wanted: Vec<Step> = all.iter().filter(is_wanted).cloned().collect();
    choice::oldest_first(&mut wanted, &record);
    let end = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    Runner::new(root, &all)?.run(&wanted, record, end)
}

/// The circumstances of a run.
struct Runner<'a> {
    root: &'a Path,
    /// All steps; the record keeps no others.
    all: &'a [Step],
    target: PathBuf,
    commit: String,
    /// The builds so far, with true for a success.
    built: BTreeMap<Vec<String>, bool>,
}

impl<'a> Runner<'a> {
    fn new(root: &'a Path, all: &'a [Step]) -> Result<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = std::path::absolute(target)?;
        Ok(Runner {
            root,
            all,
            target,
            commit: commit(root).context("the commit of the sources")?,
            built: BTreeMap::new(),
        })
    }

    /// Runs steps in their order as far as the time allows, and prints the results.
    fn run(&mut self, wanted: &[Step], mut record: Record, end: Option<Instant>) -> Result<ExitCode> {
        let (mut results, mut failed, mut left_out) = (Vec::new(), 0, 0);
        for step in wanted {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if !choice::fits(step, &record, left) {
                left_out += 1;
                continue;
            }
            let Some(run) = self.step(step)? else {
                failed += 1;
                results.push(format!("     - s  no build  {}: {}", step.campaign, step.name));
                continue;
            };
            failed += usize::from(matches!(run.outcome, Outcome::Failed | Outcome::Timeout));
            let (outcome, detail) = (run.outcome.name(), run.detail.as_deref().unwrap_or_default());
            results.push(format!(
                "{:>6} s  {outcome:<7}  {}: {}  {detail}",
                run.seconds, run.campaign, run.step
            ));
            let is_known = |campaign: &str, name: &str| {
                self.all.iter().any(|s| s.campaign == campaign && s.name == name)
            };
            record = Record::add(self.root, run, is_known)?;
            page::write(self.root, &record, &mutate::lists())?;
        }
        page::write(self.root, &record, &mutate::lists())?;
        println!();
        results.iter().for_each(|line| println!("{line}"));
        println!("{} steps run, {failed} failed, {left_out} left out for lack of time", results.len());
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Builds and runs a step. Returns `None` if a build fails: that is no result of the step, whose last result stays on record.
    fn step(&mut self, step: &Step) -> Result<Option<Run>> {
        println!("\n     Running {}: {}", step.campaign, step.name);
        let log =
            self.target.join(LOGS).join(format!("{}, {}.log", step.campaign, step.name).replace('/', "-"));
        let mut run = Run {
            campaign: step.campaign.to_owned(),
            step: step.name.clone(),
            commit: self.commit.clone(),
            date: now(),
            machine: machine(),
            seconds: 0,
            outcome: Outcome::Failed,
            caught: None,
            of: None,
            detail: None,
        };
        for build in &step.builds {
            if !self.built.contains_key(build) {
                let ended = process::run(build, self.root, &[], &log, BUILD_BOUND)?;
                self.built.insert(build.clone(), ended.success == Some(true));
            }
            if !self.built[build] {
                println!("     Ended: {} fails, {}", build.join(" "), log.display());
                return Ok(None);
            }
        }
        let records = self.target.join(LOGS).join("record");
        std::fs::create_dir_all(self.target.join(LOGS))?;
        std::fs::write(&records, "").context("the record of skipped tests")?;
        let release = self.target.join("release/sluice");
        let shared = crate::test::cargo::shared(self.root);
        let mut variables = vec![("SLUICE_RECORD", records.as_path()), ("SLUICE_SHARED", &shared)];
        if step.evidence == steps::Evidence::Test {
            variables.extend([("SLUICE_CAMPAIGN", Path::new(step.campaign)), ("SLUICE_RELEASE", &release)]);
        }
        let command = self.placed(&step.command);
        let ended = process::run(&command, self.root, &variables, &log, step.bound)?;
        let skips = std::fs::read_to_string(&records)?;
        let verdict = Verdict::of(step.evidence, &ended, &skips, self.root);
        (run.seconds, run.outcome, run.detail) = (ended.time.as_secs(), verdict.outcome, verdict.detail);
        (run.caught, run.of) = verdict.bugs.unzip();
        println!("     Ended: {}, {} s, {}", run.outcome.name(), run.seconds, log.display());
        Ok(Some(run))
    }

    /// Returns a command with cargo's target folder in place of `target`.
    fn placed(&self, command: &[String]) -> Vec<String> {
        let place = |word: &String| match word.strip_prefix("target/") {
            Some(rest) => self.target.join(rest).display().to_string(),
            None => word.clone(),
        };
        command.iter().map(place).collect()
    }
}
