//! A target that stands still for a while.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{read_dir, read_to_string};
use std::time::{Duration, Instant};

/// The time that the threads of a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which the threads are checked.
const GLANCE: Duration = Duration::from_millis(1);

/// Stops a target, so that the target reads no input, and releases it.
pub trait Brake: Sync {
    /// Returns when the target stands still.
    ///
    /// # Errors
    /// If the target does not stop.
    fn stop(&self) -> Result<()>;

    /// Returns at once. Not an error if the target does not stand still.
    ///
    /// # Errors
    /// If the target does not exist any more.
    fn release(&self) -> Result<()>;
}

/// A process, named by its number: stopped by SIGSTOP, released by SIGCONT.
#[derive(Clone, Copy, Debug)]
pub struct ProcessBrake(pub u32);

impl ProcessBrake {
    fn signal(self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.0).ok().filter(|pid| *pid > 0).context("no number of a process")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("process {pid} does not take {signal}"))
    }

    /// Returns true if every thread of the process is stopped.
    fn is_stopped(self) -> Result<bool> {
        let tasks = read_dir(format!("/proc/{}/task", self.0)).context("the process has ended")?;
        let states = tasks.filter_map(|task| {
            let stat = read_to_string(task.ok()?.path().join("stat")).ok()?;
            // The name in parentheses may hold anything; the state follows it.
            stat.rsplit_once(')')?.1.trim_start().chars().next()
        });
        Ok(states.into_iter().all(|state| state == 'T'))
    }
}

impl Brake for ProcessBrake {
    fn stop(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let begin = Instant::now();
        while !self.is_stopped()? {
            ensure!(begin.elapsed() < PATIENCE, "process {} does not stop", self.0);
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    fn release(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }
}

/// A target that stands still until the value is dropped, on any path.
pub struct Standstill<'a>(&'a dyn Brake);

impl<'a> Standstill<'a> {
    /// Stops a target.
    ///
    /// # Errors
    /// If the target does not stop; the target is released then.
    pub fn of(brake: &'a dyn Brake) -> Result<Self> {
        let standstill = Standstill(brake);
        brake.stop()?;
        Ok(standstill)
    }
}

impl Drop for Standstill<'_> {
    fn drop(&mut self) {
        // Who is not there any more does not stand still either.
        let _ = self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }

    #[test]
    fn a_process_stands_still_and_goes_on() {
        let child = Killed(Command::new("sleep").arg("60").spawn().expect("there is a program `sleep`"));
        let brake = ProcessBrake(child.0.id());
        for _ in 0..3 {
            let standstill = Standstill::of(&brake).expect("it stops");
            assert!(brake.is_stopped().expect("it is there"));
            drop(standstill);
            let begin = Instant::now();
            while brake.is_stopped().expect("it is there") {
                assert!(begin.elapsed() < PATIENCE, "it does not go on");
                std::thread::yield_now();
            }
        }
        drop(child);
        assert!(Standstill::of(&brake).is_err());
        assert!(Standstill::of(&ProcessBrake(0)).is_err(), "0 would be this process and its like");
    }
}
