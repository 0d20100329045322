//! Every test in a single run, with last lines that count passed, failed, skipped and long tests.

pub mod cargo;
mod count;
mod doc_tests;
mod job;
mod modules;
mod programs;
mod progress;
mod record;
mod report;
mod run;
mod schedule;
mod weights;

use crate::metadata;
use anyhow::Result;
use job::{Counting, Job};
use report::{Phases, Totals};
use run::Limits;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use weights::Weights;

/// Processor time above which a module is no part of the quick tests, in seconds. Models with thousands of random cases
/// are: a minute has room for hundreds of other tests instead.
const QUICK_CPU_SECONDS: f64 = 12.0;

/// Options of the test run.
#[derive(clap::Args)]
pub struct Options {
    /// Fails if a test was skipped.
    #[arg(long)]
    no_skips: bool,
    /// Runs the tests of the given packages only; without the Python client's.
    #[arg(long, short)]
    package: Vec<String>,
    /// At most so many processes run beside each other (default: 4 for each processor).
    #[arg(long)]
    beside: Option<usize>,
    /// A shell command that runs beside the tests once they are built; its exit status counts. May be repeated.
    #[arg(long, value_name = "COMMAND")]
    also: Vec<String>,
    /// Wall time of a module in seconds above which the report marks the module.
    #[arg(long, default_value_t = 60.0)]
    budget: f64,
    /// Writes the times of this run to xtask/test-weights.json, for machines without an earlier run.
    #[arg(long)]
    save_weights: bool,
    /// Runs the quick part: without doc tests, and without modules that compute long.
    #[arg(skip)]
    is_quick: bool,
}

impl Options {
    /// Options for the quick tests of some packages.
    pub fn quick(package: Vec<String>) -> Self {
        let (beside, budget) = (None, 60.0);
        Self {
            no_skips: false,
            package,
            beside,
            also: Vec::new(),
            budget,
            save_weights: false,
            is_quick: true,
        }
    }

    /// Returns the selection of packages as arguments of cargo.
    fn packages(&self) -> Vec<&str> {
        if self.package.is_empty() {
            vec!["--workspace"]
        } else {
            self.package.iter().flat_map(|package| ["-p", package]).collect()
        }
    }
}

/// Builds and runs the tests, and prints the counts.
///
/// # Errors
///
/// If the tests cannot be built, or a process cannot be started.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let target = cargo::target(root);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = Limits { cores, beside: options.beside.unwrap_or(4 * cores) };
    let mut weights = Weights::read(root, &target);
    let mut phases = Phases::default();

    let begun = Instant::now();
    let programs = programs::build(root, &options.packages())?;
    phases.build = begun.elapsed();

    let begun = Instant::now();
    let mut jobs = programs::jobs(&programs, &weights, cores)?;
    if options.is_quick {
        jobs = leave_out_long(jobs, &weights);
    } else {
        jobs.extend(doc_tests(root, &options.package)?);
    }
    if options.package.is_empty() {
        jobs.push(python(root, &target));
    }
    jobs.extend(options.also.iter().map(|command| also(root, command)));
    let outcome = run::run(&jobs, &weights, limits, &mut std::io::stdout())?;
    phases.run = begun.elapsed();

    let is_whole = options.package.is_empty();
    weights.add(&outcome.weights, is_whole);
    weights.write(&target)?;
    if options.save_weights {
        weights.write_seed(root, &outcome.weights, is_whole)?;
    }
    write!(std::io::stdout(), "{}", report::report(&outcome, &phases, cores, options.budget))?;
    let totals = Totals::new(&outcome);
    let is_skip_a_failure = options.no_skips && totals.skipped > 0;
    if is_skip_a_failure {
        eprintln!(
            "a skipped test is a failure here: install what is missing (dist/setup), or run without --no-skips"
        );
    }
    Ok(if totals.failed > 0 || is_skip_a_failure { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the jobs without those that are known to compute long, and prints what is left out.
fn leave_out_long(jobs: Vec<Job>, weights: &Weights) -> Vec<Job> {
    let is_long = |job: &Job| weights.get(&job.key).is_some_and(|weight| weight.cpu > QUICK_CPU_SECONDS);
    let (long, quick): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_long);
    for job in long {
        println!("left to `make test`, more than {QUICK_CPU_SECONDS} s of a processor: {}", job.key);
    }
    quick
}

/// Returns the job of all doc tests, if a selected crate has any.
fn doc_tests(root: &Path, selected: &[String]) -> Result<Option<Job>> {
    let mut arguments = ["test", "--locked", "--no-fail-fast", "--doc"].map(String::from).to_vec();
    let before = arguments.len();
    for package in metadata::packages(root, &["--no-deps", "--offline"])? {
        let name = package["name"].as_str().unwrap_or_default();
        let is_selected = selected.is_empty() || selected.iter().any(|selected| selected == name);
        let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
        let mut targets = package["targets"].as_array().into_iter().flatten();
        let may_have = targets.any(|target| target["doctest"].as_bool() == Some(true));
        if is_selected && may_have && doc_tests::has_any(folder.unwrap_or(root))? {
            arguments.extend(["-p".to_owned(), name.to_owned()]);
        }
    }
    if arguments.len() == before {
        return Ok(None);
    }
    Ok(Some(Job {
        key: "doc tests".into(),
        program: "cargo".into(),
        arguments,
        folder: root.to_owned(),
        variables: Vec::new(),
        counting: Counting::Rust { tests: None },
        is_long_if_unknown: true,
        is_pure: true,
    }))
}

/// Returns the job of the Python client's tests, with the executable that the test programs were built with.
fn python(root: &Path, target: &Path) -> Job {
    Job {
        key: "sdk/python".into(),
        program: "python3".into(),
        arguments: ["-m", "unittest", "discover", "-s", "tests"].map(String::from).to_vec(),
        folder: root.join("sdk/python"),
        variables: vec![("SLUICE".into(), target.join("debug/sluice").into_os_string())],
        counting: Counting::Python,
        is_long_if_unknown: true,
        is_pure: false,
    }
}

/// Returns the job of a shell command.
fn also(root: &Path, command: &str) -> Job {
    Job {
        key: command.into(),
        program: "sh".into(),
        arguments: vec!["-c".into(), command.into()],
        folder: root.to_owned(),
        variables: Vec::new(),
        counting: Counting::Status,
        is_long_if_unknown: true,
        is_pure: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_is_recorded_is_counted() {
        let job = Job {
            key: "skip".into(),
            program: std::env::current_exe().unwrap(),
            arguments: ["--exact", "test::tests::skips_when_asked"].map(String::from).to_vec(),
            folder: "/".into(),
            // The variable belongs to a process of its own: tests of this program run beside each other.
            variables: vec![("SLUICE_SKIP_NOW".into(), "1".into())],
            counting: Counting::Rust { tests: Some(1) },
            is_long_if_unknown: false,
            is_pure: true,
        };
        // One test thread: libtest names a test's thread even then.
        let limits = Limits { cores: 1, beside: 1 };
        let outcome = run::run(&[job], &Weights::default(), limits, &mut std::io::sink()).unwrap();
        assert_eq!(outcome.records[0].1.skipped["test::tests::skips_when_asked"], "asked to");
        assert_eq!(Totals::new(&outcome), Totals { passed: 0, failed: 0, skipped: 1, long: 0 });
    }

    #[test]
    fn skips_when_asked() {
        if std::env::var_os("SLUICE_SKIP_NOW").is_some() {
            sluice_testkit::skipped("asked to");
        }
    }

    #[test]
    fn modules_that_compute_long_are_not_quick() {
        let root = Path::new("/w");
        let jobs = ["short", "long", "waits", "unknown"].map(|key| also(root, key)).to_vec();
        let weight = |wall, cpu| weights::Weight { wall, cpu };
        let mut weights = Weights::default();
        let measured =
            [("short", weight(3.0, 3.0)), ("long", weight(20.0, 40.0)), ("waits", weight(20.0, 1.0))];
        weights.add(&measured.map(|(key, weight)| (key.to_owned(), weight)), true);
        let quick: Vec<String> = leave_out_long(jobs, &weights).into_iter().map(|job| job.key).collect();
        assert_eq!(quick, ["short", "waits", "unknown"]);
    }

    #[test]
    fn packages_are_selected_for_cargo() {
        assert_eq!(Options::quick(vec![]).packages(), ["--workspace"]);
        assert_eq!(Options::quick(vec!["a".into(), "b".into()]).packages(), ["-p", "a", "-p", "b"]);
    }
}
