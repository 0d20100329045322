//! Test programs as cargo has built them, and their jobs.

use super::cargo;
use super::job::{Counting, Job};
use super::modules;
use super::weights::Weights;
use crate::layers;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program of unit tests is divided into modules if its last run took longer, in seconds. Shorter programs gain
/// nothing: each process costs some milliseconds.
const UNDIVIDED_SECONDS: f64 = 4.0;

/// A test program.
#[derive(Clone)]
pub struct Program {
    /// The package's folder below the root, and the source file below that folder.
    pub key: String,
    executable: PathBuf,
    /// The package's folder, in which cargo runs tests.
    folder: PathBuf,
    /// Integration tests, not the unit tests of a library or an executable.
    is_integration: bool,
    /// A package without processes and labs: its tests compute, they never wait.
    is_pure: bool,
}

/// A message of `cargo build --message-format json` (The Cargo Book, External Tools); other messages have other fields.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Returns the test program that a line of cargo's output is about.
fn program(root: &Path, line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    let (target, executable) = (message.target?, message.executable?);
    let folder = message.manifest_path?.parent()?.to_owned();
    let below_root = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
    let source = target.src_path.strip_prefix(&folder).or_else(|_| target.src_path.strip_prefix(root));
    let source = source.unwrap_or(&target.src_path).display();
    let found = Program {
        key: format!("{below_root} {source}"),
        executable,
        is_integration: target.kind.iter().any(|kind| kind == "test"),
        is_pure: layers::is_pure(&below_root),
        folder,
    };
    message.profile?.test.then_some(found)
}

/// Builds the test programs of `packages` (arguments of cargo).
///
/// # Errors
///
/// If cargo cannot be started, or a program cannot be built.
pub fn build(root: &Path, packages: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = cargo::command(root);
    cargo.args(["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]);
    let built = cargo.args(packages).stderr(Stdio::inherit()).output().context("cargo does not start")?;
    anyhow::ensure!(built.status.success(), "the tests cannot be built; see above");
    Ok(String::from_utf8_lossy(&built.stdout).lines().filter_map(|line| program(root, line)).collect())
}

impl Program {
    /// Lists the tests.
    fn tests(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).args(["--list", "--format", "terse"]);
        let listed = command.output().with_context(|| format!("cannot run {}", self.executable.display()))?;
        anyhow::ensure!(listed.status.success(), "{}: --list: {}", self.key, listed.status);
        Ok(modules::tests(&String::from_utf8_lossy(&listed.stdout)))
    }

    /// Divides the program into jobs: a job a module for integration tests and for long unit tests.
    fn jobs(&self, tests: Vec<String>, weights: &Weights) -> Vec<Job> {
        if tests.is_empty() {
            return Vec::new();
        }
        if !self.is_integration && weights.program_wall(&self.key) < UNDIVIDED_SECONDS {
            return vec![self.job("", &[], tests.len())];
        }
        modules::group(tests).iter().map(|(module, tests)| self.job(module, tests, tests.len())).collect()
    }

    /// Returns the job that runs the tests `only`, or all tests.
    fn job(&self, module: &str, only: &[String], tests: usize) -> Job {
        let mut arguments: Vec<String> = Vec::new();
        if !only.is_empty() {
            arguments.push("--exact".into());
            arguments.extend_from_slice(only);
        }
        Job {
            key: format!("{} {module}", self.key).trim_end().to_owned(),
            program: self.executable.clone(),
            arguments,
            folder: self.folder.clone(),
            variables: vec![("CARGO_MANIFEST_DIR".into(), self.folder.clone().into_os_string())],
            counting: Counting::Rust { tests: Some(tests as u64) },
            is_long_if_unknown: self.is_integration,
            is_pure: self.is_pure || !self.is_integration,
        }
    }
}

/// Lists the tests of all programs, `threads` programs at a time, and divides the programs into jobs.
///
/// # Errors
///
/// If a program cannot be started, or cannot list its tests.
pub fn jobs(programs: &[Program], weights: &Weights, threads: usize) -> Result<Vec<Job>> {
    let divide = |programs: &[Program]| -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for program in programs {
            jobs.extend(program.jobs(program.tests()?, weights));
        }
        Ok(jobs)
    };
    let divide = &divide;
    let size = programs.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = programs.chunks(size).map(|chunk| scope.spawn(move || divide(chunk))).collect();
        let mut jobs = Vec::new();
        for worker in workers {
            jobs.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(jobs)
    })
}

#[cfg(test)]
mod tests {
    use super::super::weights::Weight;
    use super::*;

    fn line(folder: &str, kind: &str, source: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/w/{folder}/Cargo.toml","target":{{"kind":["{kind}"],
            "src_path":"/w/{source}"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
        )
    }

    fn found(folder: &str, kind: &str, source: &str, test: bool) -> Option<Program> {
        program(Path::new("/w"), &line(folder, kind, source, test))
    }

    #[test]
    fn test_programs_are_found_in_the_output_of_cargo() {
        let lab = found("apps/sluice", "test", "apps/sluice/tests/sluice/main.rs", true).unwrap();
        assert_eq!(lab.key, "apps/sluice tests/sluice/main.rs");
        assert_eq!(lab.folder, Path::new("/w/apps/sluice"));
        assert!(lab.is_integration && !lab.is_pure);
        let shared =
            found("components/bgp/variant", "test", "components/bgp/core/tests/model.rs", true).unwrap();
        assert_eq!(shared.key, "components/bgp/variant components/bgp/core/tests/model.rs");
        assert!(shared.is_pure);
        assert!(!found("base", "lib", "base/src/lib.rs", true).unwrap().is_integration);
        assert!(found("xtask", "bin", "xtask/src/main.rs", false).is_none());
        assert!(program(Path::new("/w"), r#"{"reason":"build-finished","success":true}"#).is_none());
        assert!(program(Path::new("/w"), "running 3 tests").is_none());
    }

    #[test]
    fn integration_tests_and_long_unit_tests_are_divided() {
        let tests = || vec!["a::one".to_owned(), "a::two".to_owned(), "b::three".to_owned()];
        let mut weights = Weights::default();
        let integration = found("apps/sluice", "test", "apps/sluice/tests/sluice/main.rs", true).unwrap();
        let jobs = integration.jobs(tests(), &weights);
        let keys: Vec<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
        assert_eq!(keys, ["apps/sluice tests/sluice/main.rs a", "apps/sluice tests/sluice/main.rs b"]);
        assert_eq!(jobs[0].arguments, ["--exact", "a::one", "a::two"]);

        let unit = found("base", "lib", "base/src/lib.rs", true).unwrap();
        let jobs = unit.jobs(tests(), &weights);
        assert_eq!((jobs.len(), jobs[0].key.as_str()), (1, "base src/lib.rs"));
        assert!(jobs[0].arguments.is_empty() && !jobs[0].is_long_if_unknown);
        weights.add(&[("base src/lib.rs".into(), Weight { wall: 9.0, cpu: 9.0 })], false);
        assert_eq!(unit.jobs(tests(), &weights).len(), 2);
        assert!(unit.jobs(vec![], &weights).is_empty());
    }
}
