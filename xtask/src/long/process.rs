//! Commands with a bound: the command's whole process group ends with the bound, or with this process.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The interval at which the end of the command is polled.
const POLL: Duration = Duration::from_millis(100);
/// The time for the last output of an ended command. A process that outlives the command may keep the pipe open.
const REST: Duration = Duration::from_secs(2);

/// Runs the command in `$@`, and kills the process group when the pipe of standard input closes: this process has
/// dropped the pipe, or has died.
const GUARDED: &str = "exec 3<&0; (cat <&3; kill -KILL 0) >/dev/null 2>&1 & exec \"$@\" </dev/null 3<&- 2>&1";

/// An ended command.
pub struct Ended {
    /// True for success; `None` if the command exceeded the bound.
    pub success: Option<bool>,
    /// Standard output and standard error.
    pub output: String,
    /// The duration.
    pub time: Duration,
}

/// Runs a command in a folder, prints its output, and writes the output to `log`.
///
/// # Errors
///
/// If the command cannot be started, or the log cannot be written.
pub fn run(
    words: &[String],
    folder: &Path,
    variables: &[(&str, &Path)],
    log: &Path,
    bound: Duration,
) -> Result<Ended> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut log = File::create(log).with_context(|| log.display().to_string())?;
    let begun = Instant::now();
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARDED, "sh"])
        .args(words)
        .current_dir(folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0);
    // Cargo's variables for this process are not for the command.
    for (name, _) in std::env::vars_os() {
        let is_inner =
            name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR");
        if is_inner {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn().context("sh does not start")?;
    let lines = reader(&mut child);
    let mut output = String::new();
    let mut take = |line: Vec<u8>| -> Result<()> {
        let line = String::from_utf8_lossy(&line);
        writeln!(std::io::stdout(), "{line}")?;
        writeln!(log, "{line}")?;
        output.push_str(&line);
        output.push('\n');
        Ok(())
    };
    let success = loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => take(line)?,
            // The output is at its end, which comes a moment before the command's end.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(status) = child.try_wait()? {
            break Some(status.success());
        }
        if begun.elapsed() > bound {
            break None;
        }
    };
    let time = begun.elapsed();
    // The guard kills the rest of the group.
    drop(child.stdin.take());
    child.wait()?;
    let end = Instant::now() + REST;
    while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        take(line)?;
    }
    Ok(Ended { success, output, time })
}

/// Reads the lines of a child's output in a thread.
fn reader(child: &mut Child) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
            lines.into_iter().try_for_each(|line| sender.send(line).ok())
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str, bound: Duration) -> (Option<bool>, String) {
        let folder = tempfile::tempdir().unwrap();
        let words = ["sh", "-c", script].map(ToOwned::to_owned);
        let log = folder.path().join("logs/log");
        let ended = run(&words, folder.path(), &[("WORD", Path::new("said"))], &log, bound).unwrap();
        assert_eq!(std::fs::read_to_string(log).unwrap(), ended.output);
        (ended.success, ended.output)
    }

    #[test]
    fn a_command_ends_with_its_output_or_with_the_bound() {
        let long = Duration::from_secs(60);
        assert_eq!(of("echo $WORD; echo too >&2", long), (Some(true), "said\ntoo\n".to_owned()));
        assert_eq!(of("exit 3", long), (Some(false), String::new()));
        let begun = Instant::now();
        let short = Duration::from_millis(300);
        assert_eq!(of("echo begun; sleep 600 & wait", short), (None, "begun\n".to_owned()));
        assert!(begun.elapsed() < long, "the group was not killed");
    }

    #[test]
    fn processes_that_a_command_leaves_behind_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let (success, _) = of(&format!("sleep 600 & echo $! > {}", file.display()), Duration::from_secs(60));
        assert_eq!(success, Some(true));
        let pid = std::fs::read_to_string(file).unwrap();
        let ended = Instant::now() + Duration::from_secs(60);
        // A killed process whose parent has died is gone, or a zombie.
        let runs = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            !status.is_empty() && !status.contains(") Z ")
        };
        while runs() {
            assert!(Instant::now() < ended, "{pid} is left");
            std::thread::sleep(POLL);
        }
    }
}
