//! The run of all jobs: starts, progress, ends.

use super::count::Count;
use super::job::{Ended, Job, Running};
use super::progress::Progress;
use super::record::Record;
use super::schedule::{Estimate, Schedule};
use super::weights::{Weight, Weights};
use anyhow::Result;
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval of progress lines while no job ends.
const PROGRESS: Duration = Duration::from_secs(30);

/// Limits of a run.
#[derive(Clone, Copy)]
pub struct Limits {
    pub cores: usize,
    /// At most so many processes run at a time.
    pub beside: usize,
}

impl Limits {
    /// Returns the test threads of a job. Modules that compute get one thread if there are enough of them for all
    /// processors; a module of labs mostly waits.
    fn threads(self, job: &Job, pure_jobs: usize) -> usize {
        if job.is_pure && pure_jobs >= self.cores { 1 } else { self.cores }
    }
}

/// Results of all jobs.
#[derive(Default)]
pub struct Outcome {
    pub count: Count,
    /// Skipped tests with their reasons, and long tests, by job key.
    pub records: Vec<(String, Record)>,
    pub weights: Vec<(String, Weight)>,
}

impl Outcome {
    fn add(&mut self, job: &Job, ended: Ended) {
        self.count.add(ended.count);
        self.records.push((job.key.clone(), ended.record));
        self.weights.push((job.key.clone(), ended.weight));
    }
}

/// Runs the jobs, and writes the output of each job to `out` when the job has ended.
///
/// # Errors
///
/// If a process cannot be started or waited for. Jobs that run end first.
pub fn run(jobs: &[Job], weights: &Weights, limits: Limits, out: &mut dyn Write) -> Result<Outcome> {
    let records = tempfile::tempdir()?;
    let estimates: Vec<Estimate> = jobs
        .iter()
        .map(|job| Estimate::new(weights.get(&job.key), job.is_long_if_unknown, job.is_pure))
        .collect();
    let mut schedule = Schedule::new(&estimates, limits.cores, limits.beside);
    let pure_jobs = jobs.iter().filter(|job| job.is_pure).count();
    let mut running: BTreeMap<usize, Running> = BTreeMap::new();
    let mut outcome = Outcome::default();
    let mut progress = Progress::new(jobs.len());
    let (exited, exits) = mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        while !schedule.is_done() {
            while let Some(number) = schedule.start() {
                let record = records.path().join(number.to_string());
                let process = jobs[number].start(limits.threads(&jobs[number], pure_jobs), &record)?;
                let (id, exited) = (process.id(), exited.clone());
                running.insert(number, process);
                // Nobody receives if the main thread met an error.
                scope.spawn(move || exited.send((number, wait_for_exit(id))).ok());
            }
            progress.show(out, schedule.running().map(|number| jobs[number].key.as_str()))?;
            let (number, waited) = match exits.recv_timeout(PROGRESS) {
                Ok(exit) => exit,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("no process is waited for"),
            };
            waited?;
            schedule.end(number);
            let Some(process) = running.remove(&number) else { continue };
            let ended = process.end(&jobs[number])?;
            progress.clear(out)?;
            print(out, &jobs[number], &ended)?;
            progress.end();
            outcome.add(&jobs[number], ended);
        }
        progress.clear(out)?;
        Ok(())
    })?;
    Ok(outcome)
}

/// Waits until a process has exited. The process stays a zombie, for its owner to reap.
fn wait_for_exit(id: u32) -> Result<()> {
    let id = Pid::from_raw(i32::try_from(id)?);
    loop {
        match waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn print(out: &mut dyn Write, job: &Job, ended: &Ended) -> Result<()> {
    let Weight { wall, cpu } = ended.weight;
    writeln!(out, "\n     Ended {}: {wall:.1} s, {cpu:.1} s of processors, {}", job.key, ended.status)?;
    out.write_all(ended.output.as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::super::job::Counting;
    use super::super::job::tests::script;
    use super::*;

    const LIMITS: Limits = Limits { cores: 2, beside: 4 };

    #[test]
    fn jobs_beside_each_other_are_all_counted() {
        let result = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'";
        let jobs = [
            script("a", result, Counting::Rust { tests: None }),
            script("b", "kill -SEGV $$", Counting::Rust { tests: None }),
            script("c", result, Counting::Rust { tests: None }),
            script("d", "printf 'skipped\\tx: no FRR\\n' >$SLUICE_RECORD", Counting::Status),
        ];
        let mut out = Vec::new();
        let outcome = run(&jobs, &Weights::default(), LIMITS, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("     Ended b: "));
        assert_eq!((outcome.count.passed, outcome.count.failed, outcome.count.ignored), (6, 1, 2));
        assert_eq!(outcome.weights.len(), 4);
        assert!(outcome.count.failures[0].starts_with("b: "), "{:?}", outcome.count.failures);
        assert!(outcome.records.iter().any(|(key, record)| key == "d" && record.skipped.contains_key("x")));
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let mut job = script("a", "true", Counting::Status);
        job.program = "/no/such/program".into();
        assert!(run(&[job], &Weights::default(), LIMITS, &mut std::io::sink()).is_err());
    }

    #[test]
    fn computing_modules_share_the_processors() {
        let mut job = script("a", "true", Counting::Status);
        assert_eq!(LIMITS.threads(&job, 2), 1);
        assert_eq!(LIMITS.threads(&job, 1), 2);
        job.is_pure = false;
        assert_eq!(LIMITS.threads(&job, 20), 2);
    }
}
