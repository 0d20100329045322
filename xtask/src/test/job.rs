//! A job: a process that tests, from its start to its counts.

use super::count::Count;
use super::record::{self, Record};
use super::weights::Weight;
use anyhow::{Context, Result};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Environment variable with the folder of real tables and captures.
const SHARED: &str = "SLUICE_SHARED";

/// Form of the counts in a process's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// Lines of a Rust test program, with as many tests as it has listed.
    Rust { tests: Option<u64> },
    /// Lines of Python's unittest.
    Python,
    /// No counts: the exit status alone.
    Status,
}

/// A process that tests.
#[derive(Clone)]
pub struct Job {
    /// Name in messages, and key of the weight.
    pub key: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub folder: PathBuf,
    pub variables: Vec<(String, OsString)>,
    pub counting: Counting,
    /// Without a weight, the job counts as long and begins early.
    pub is_long_if_unknown: bool,
    /// The tests compute and never wait.
    pub is_pure: bool,
}

/// A running job.
pub struct Running {
    child: Child,
    begun: Instant,
    output: File,
    record: PathBuf,
}

/// An ended job.
pub struct Ended {
    pub output: String,
    pub status: ExitStatus,
    pub weight: Weight,
    pub record: Record,
    pub count: Count,
}

impl Job {
    /// Starts the process with `threads` test threads. Both outputs go into one file: unlike a pipe, the file has an end
    /// even if a daemon of a lab outlives the process.
    pub fn start(&self, threads: usize, record: &Path) -> Result<Running> {
        let output = tempfile::tempfile().context("no temporary file")?;
        let mut command = Command::new(&self.program);
        super::cargo::clean(&mut command);
        command.args(&self.arguments).current_dir(&self.folder).env(record::VARIABLE, record);
        command.env("RUST_TEST_THREADS", threads.to_string());
        command.env(SHARED, super::cargo::shared(&crate::root()));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        Ok(Running { child, begun, output, record: record.to_owned() })
    }

    /// Counts the tests in the output. A process that died without a result is a failure by its name, and so is a
    /// process that ran fewer tests than it had listed.
    fn count(&self, output: &str, status: ExitStatus) -> Count {
        let mut count = Count::default();
        match self.counting {
            Counting::Rust { .. } => output.lines().for_each(|line| count.rust(line)),
            Counting::Python => output.lines().for_each(|line| count.python(line)),
            Counting::Status => count.results = 1,
        }
        let ran = count.passed + count.failed + count.ignored;
        let problem = match self.counting {
            _ if count.results == 0 => Some(format!("ended without a result ({status})")),
            _ if !status.success() && count.failed == 0 => Some(status.to_string()),
            Counting::Rust { tests: Some(listed) } if ran != listed => {
                Some(format!("ran {ran} of {listed} listed tests"))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            count.failed += 1;
            count.failures.push(format!("{}: {problem}", self.key));
        }
        count
    }
}

impl Running {
    /// Returns the process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reaps the exited process. The processor time of reaped children grows by exactly this process's time: no other
    /// thread of xtask may reap meanwhile.
    pub fn end(mut self, job: &Job) -> Result<Ended> {
        let before = cpu_of_children()?;
        let status = self.child.wait()?;
        let weight = Weight { wall: self.begun.elapsed().as_secs_f64(), cpu: cpu_of_children()? - before };
        let mut bytes = Vec::new();
        self.output.rewind()?;
        self.output.read_to_end(&mut bytes)?;
        let output = String::from_utf8_lossy(&bytes).into_owned();
        let record = Record::parse(&std::fs::read_to_string(&self.record).unwrap_or_default());
        let mut count = job.count(&output, status);
        count.passed = count.passed.saturating_sub(record.not_run(&count.failures));
        Ok(Ended { output, status, weight, record, count })
    }
}

fn cpu_of_children() -> Result<f64> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A job that runs a script.
    pub fn script(key: &str, script: &str, counting: Counting) -> Job {
        Job {
            key: key.into(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            folder: "/".into(),
            variables: Vec::new(),
            counting,
            is_long_if_unknown: true,
            is_pure: true,
        }
    }

    /// Runs the script to its end.
    fn ended(job: &Job) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        job.start(1, &folder.path().join("record")).unwrap().end(job).unwrap()
    }

    const RESULT: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";

    #[test]
    fn a_process_without_a_result_is_a_failure_by_its_name() {
        for script_text in ["kill -KILL $$", "exit 0"] {
            let job = script("p m", script_text, Counting::Rust { tests: Some(1) });
            let count = ended(&job).count;
            assert_eq!((count.passed, count.failed), (0, 1));
            assert!(count.failures[0].starts_with("p m: ended without a result ("), "{:?}", count.failures);
        }
    }

    #[test]
    fn a_process_that_runs_fewer_tests_than_listed_fails() {
        let run = |tests| ended(&script("p", RESULT, Counting::Rust { tests })).count;
        assert_eq!((run(Some(2)).failed, run(None).failed), (0, 0));
        assert_eq!(run(Some(3)).failures, ["p: ran 2 of 3 listed tests"]);
    }

    #[test]
    fn a_status_alone_decides_for_a_command() {
        assert_eq!(ended(&script("lint", "true", Counting::Status)).count.failed, 0);
        assert_eq!(
            ended(&script("lint", "exit 3", Counting::Status)).count.failures,
            ["lint: exit status: 3"]
        );
    }

    #[test]
    fn tests_that_return_early_are_not_passed() {
        let text = format!("printf 'skipped\\ta: no BIRD\\nlong\\tb\\tkills\\n' >$SLUICE_RECORD; {RESULT}");
        let ended = ended(&script("p", &text, Counting::Rust { tests: Some(2) }));
        assert_eq!((ended.count.passed, ended.count.failed), (0, 0));
        assert_eq!((ended.record.skipped.len(), ended.record.long.len()), (1, 1));
    }

    #[test]
    fn processor_time_and_both_outputs_are_measured() {
        let busy = script(
            "p",
            "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo a; echo b >&2",
            Counting::Status,
        );
        let ended = ended(&busy);
        assert!(ended.weight.cpu > 0.01 && ended.weight.wall > 0.01, "{:?}", ended.weight);
        assert_eq!(ended.output, "a\nb\n");
    }
}
