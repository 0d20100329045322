//! Test programs: built by cargo, run several beside each other.

use super::RECORD;
use super::count::Count;
use anyhow::Context;
use serde::Deserialize;
use std::collections::VecDeque;
use std::io::Write;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A test program as cargo has built it.
pub struct Program {
    /// The source file below the package's folder, and the package.
    name: String,
    executable: PathBuf,
    /// The package's folder, in which cargo runs tests.
    folder: PathBuf,
    /// The place in the order: programs of many files take longest and begin, what is short fills the end.
    place: u8,
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
fn program(line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    let (target, executable) = (message.target?, message.executable?);
    let folder = message.manifest_path?.parent()?.to_owned();
    let source = target.src_path.strip_prefix(&folder).unwrap_or(&target.src_path);
    let place = match (target.kind.iter().any(|kind| kind == "test"), source.ends_with("main.rs")) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let package = folder.file_name().unwrap_or_default().display();
    let name = format!("{} ({package})", source.display());
    message.profile?.test.then_some(Program { name, executable, folder, place })
}

/// Builds the test programs of `packages` (arguments of cargo), in the order in which they begin.
///
/// # Errors
///
/// If cargo cannot be started, or a program cannot be built.
pub fn build(root: &Path, packages: &[&str]) -> anyhow::Result<VecDeque<Program>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args([
        "test",
        "--locked",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let built = cargo.args(packages).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    anyhow::ensure!(built.status.success(), "the tests cannot be built; see above");
    let mut programs: Vec<Program> =
        String::from_utf8_lossy(&built.stdout).lines().filter_map(program).collect();
    programs.sort_by_key(|program| program.place);
    Ok(programs.into())
}

/// What a run of all programs brought.
#[derive(Default)]
pub struct Outcome {
    pub count: Count,
    /// A program ended with an error.
    pub has_failed: bool,
    /// How long each program ran.
    pub times: Vec<(String, Duration)>,
}

impl Outcome {
    /// Prints and counts what a program has written.
    fn take(&mut self, program: Program, output: &Output, time: Duration) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n     Ended {}: {:.1} s, {}", program.name, time.as_secs_f64(), output.status)?;
        out.write_all(&output.stdout)?;
        out.write_all(&output.stderr)?;
        String::from_utf8_lossy(&output.stdout).lines().for_each(|line| self.count.rust(line));
        self.has_failed |= !output.status.success();
        self.times.push((program.name, time));
        Ok(())
    }
}

/// Runs the programs, `beside` of them at a time. What a program writes comes when it has ended.
///
/// # Errors
///
/// If a program cannot be started.
pub fn run(programs: VecDeque<Program>, record: &Path, beside: usize) -> anyhow::Result<Outcome> {
    let (queue, outcome) = (Mutex::new(programs), Mutex::new(Outcome::default()));
    let work = || -> anyhow::Result<()> {
        loop {
            let Some(program) = locked(&queue).pop_front() else { return Ok(()) };
            writeln!(std::io::stdout(), "     Running {}", program.name)?;
            let begun = Instant::now();
            let mut command = Command::new(&program.executable);
            command
                .current_dir(&program.folder)
                .env("CARGO_MANIFEST_DIR", &program.folder)
                .env(RECORD, record);
            let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
            locked(&outcome).take(program, &output, begun.elapsed())?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..beside).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    Ok(outcome)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let line = |kind: &str, source: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/apps/sluice/Cargo.toml","target":{{"kind":["{kind}"],
                "src_path":"/w/apps/sluice/{source}"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
            )
        };
        let found = program(&line("test", "tests/cluster/main.rs", true)).unwrap();
        assert_eq!((found.name.as_str(), found.place), ("tests/cluster/main.rs (sluice)", 0));
        assert_eq!(found.folder, Path::new("/w/apps/sluice"));
        assert_eq!(program(&line("test", "tests/bmp.rs", true)).unwrap().place, 1);
        assert_eq!(program(&line("lib", "src/lib.rs", true)).unwrap().place, 2);
        assert!(program(&line("bin", "src/main.rs", false)).is_none());
        assert!(program(r#"{"reason":"build-finished","success":true}"#).is_none());
        assert!(program("running 3 tests").is_none());
    }

    #[test]
    fn programs_run_beside_each_other_are_all_counted() {
        let program = |name: &str, executable: &str| Program {
            name: name.into(),
            executable: executable.into(),
            folder: "/".into(),
            place: 0,
        };
        let programs = VecDeque::from([program("a", "true"), program("b", "false"), program("c", "true")]);
        let outcome = run(programs, Path::new("/dev/null"), 2).unwrap();
        assert!(outcome.has_failed);
        assert_eq!(outcome.times.len(), 3);
        assert!(run(VecDeque::from([program("d", "/no/such/program")]), Path::new("/dev/null"), 2).is_err());
    }
}
