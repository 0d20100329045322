//! Commits and changes of packages of a router in a lab, step by step.

use sluice_lab::until;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The listener that a manager asks before each step of a change.
pub struct Steps {
    steps: Receiver<(String, Sender<()>)>,
}

impl Steps {
    /// Listens at a socket, which `SLUICE_COMMIT_STEPS` names.
    pub fn listen(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (sender, steps) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut line = String::new();
                let _ = BufReader::new(&stream).read_line(&mut line);
                let (go, wait) = channel::<()>();
                if sender.send((line.trim().into(), go)).is_err() {
                    return; // the test is over
                }
                let _ = wait.recv(); // who does not answer has let go of it
                let _ = stream.write_all(b"\n"); // a manager that was killed does not read it
            }
        });
        Steps { steps }
    }

    /// Lets a commit go on to its end, and calls `at` before each step. Returns the steps.
    pub fn follow(&self, mut at: impl FnMut(usize, &str) -> bool) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok((step, go)) = self.steps.recv_timeout(Duration::from_secs(60)) {
            let goes_on = at(seen.len(), &step);
            let is_last = step == "done" || step == "undone";
            seen.push(step);
            drop(go);
            if is_last || !goes_on {
                break;
            }
        }
        seen
    }

    /// Lets all commits go on while `work` runs. Returns the result of `work`.
    pub fn go_on_during<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            while !working.is_finished() {
                let _goes_on = self.steps.recv_timeout(Duration::from_millis(20));
            }
            working.join().unwrap()
        })
    }

    /// Lets the commit go on until `so` returns true and the commit has ended.
    pub fn follow_until(&self, what: &str, so: impl FnMut() -> bool) {
        assert!(self.ends_with(so), "never: {what}");
    }

    /// Lets the commit go on until `so` returns true and the commit has ended. Returns false if that does not happen within a minute.
    pub fn ends_with(&self, mut so: impl FnMut() -> bool) -> bool {
        let mut last = None;
        until(Duration::from_secs(60), || {
            last = self.steps.try_iter().map(|(step, _goes_on)| step).last().or(last.take());
            so() && last.as_ref().is_none_or(|last| last == "done" || last == "undone")
        })
    }
}
