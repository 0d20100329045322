//! A host of a page's own: namespaces for network, mounts and processes, and a shell in them. All of it ends with the value, and with
//! the test if that is killed.

use crate::compare::is_like;
use crate::page::Command;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a command may take, and how long is waited for what should come.
const PATIENCE: Duration = Duration::from_secs(75);

/// How long is waited at the end of a page for what runs on.
const SHORT: Duration = Duration::from_secs(5);

/// How long until a command is done again whose output is waited for.
const AGAIN: Duration = Duration::from_millis(200);

/// What makes namespaces.
const UNSHARE: [&str; 6] = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Nothing that is written in the usual places is left on the machine.
const PRELUDE: &str = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && cp -a /etc /run/.etc && \
    mount --bind /run/.etc /etc && mkdir -p /etc/sluice && mount -t tmpfs tmpfs /var/lib && ip link set lo up\n";

/// What a command's output ends with, before its status.
const END: char = '\u{1}';

/// Whether a host can be made here that has these programs; the error says why not.
pub fn possible(needs: &[&str]) -> Result<(), String> {
    let output = std::process::Command::new("unshare")
        .args(UNSHARE)
        .args(["mount", "-t", "tmpfs", "tmpfs", "/run"])
        .output();
    let output = output.map_err(|e| format!("unshare: {e}"))?;
    if !output.status.success() {
        return Err(format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    for program in needs {
        let is_there = match program.starts_with('/') {
            true => Path::new(program).exists(),
            false => std::process::Command::new(program).arg("--version").output().is_ok(),
        };
        if !is_there {
            return Err(format!("{program} is not installed"));
        }
    }
    Ok(())
}

/// Whether what was to come out of a command that runs on has come.
pub fn came(command: &Command, file: &Path) -> Result<(), String> {
    compare(command, SHORT, || Ok((std::fs::read_to_string(file).unwrap_or_default(), command.status)))
}

/// Compares what comes out with what should, until it is so or patience ends.
fn compare(
    command: &Command,
    patience: Duration,
    mut output: impl FnMut() -> Result<(String, i32), String>,
) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let (said, status) = output()?;
        if is_like(&command.expected, &said) && status == command.status {
            return Ok(());
        }
        if begun.elapsed() >= patience {
            return Err(format!(
                "`{}` printed, with status {status}:\n{said}\nand not, with status {}:\n{}\n",
                command.text,
                command.status,
                command.expected.join("\n")
            ));
        }
        std::thread::sleep(AGAIN); // there is nothing to wait on: who types it would look again
    }
}

/// The host.
pub struct Host {
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    folder: tempfile::TempDir,
    backgrounds: usize,
}

impl Host {
    /// Makes one.
    pub fn new() -> Self {
        let executable = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().unwrap();
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .prefix("guide")
            .tempdir()
            .unwrap();
        let path = format!("{}:{}", executable.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = std::process::Command::new("unshare");
        shell.args(UNSHARE).arg("bash").env("PATH", path).env("HOME", folder.path()).env("LC_ALL", "C");
        for name in ["SLUICE_RUN_DIR", "SLUICE_LOG", "SSH_CONNECTION", "JOURNAL_STREAM", "NO_COLOR"] {
            shell.env_remove(name);
        }
        shell.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let input = shell.stdin.take().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let mut host = Host { shell, input, output, folder, backgrounds: 0 };
        let (said, status) = host.shell(PRELUDE).unwrap();
        assert_eq!(status, 0, "{said}");
        host
    }

    /// Writes a file.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        // By the shell, which sees other folders than this process.
        let quoted = text.replace('\'', r"'\''");
        match self.shell(&format!("printf %s '{quoted}' > '{path}'"))? {
            (_, 0) => Ok(()),
            (said, _) => Err(said),
        }
    }

    /// Runs a command and compares.
    pub fn run(&mut self, command: &Command) -> Result<(), String> {
        let patience = if command.is_awaited { PATIENCE } else { Duration::ZERO };
        compare(command, patience, || self.shell(&command.text))
    }

    /// Starts a command that goes on; what it prints is in the file.
    pub fn start(&mut self, text: &str) -> Result<PathBuf, String> {
        self.backgrounds += 1;
        let file = self.folder.path().join(format!(".background-{}", self.backgrounds));
        let line = format!("eval {} </dev/null >{} 2>&1 &\n", quote(text), file.display());
        self.input.write_all(line.as_bytes()).map_err(|e| format!("the shell has ended: {e}"))?;
        Ok(file)
    }

    /// Runs a command to its end: what it printed, and its status.
    fn shell(&mut self, text: &str) -> Result<(String, i32), String> {
        let line = format!("eval {} </dev/null 2>&1; printf '\\n{END}%s\\n' $?\n", quote(text));
        self.input.write_all(line.as_bytes()).map_err(|e| format!("the shell has ended: {e}"))?;
        let mut said = String::new();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let next = self.output.recv_timeout(left);
            let next =
                next.map_err(|_| format!("`{text}` does not end, or ends the shell; it printed:\n{said}"))?;
            if let Some(status) = next.strip_prefix(END) {
                // The end is a line of its own.
                said.truncate(said.len().saturating_sub(1));
                return Ok((said, status.trim().parse().unwrap_or(-1)));
            }
            said += &next;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // With the first process of its namespace all others end.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
