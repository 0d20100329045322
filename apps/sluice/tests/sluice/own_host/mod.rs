//! A host for a test: namespaces for network, mounts and processes, with a shell. The namespaces end with the value, or when the test
//! is killed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The longest run of a command, and the longest wait for expected output.
pub const PATIENCE: Duration = Duration::from_secs(75);

/// The program that makes namespaces.
const UNSHARE: [&str; 6] = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Mounts over the usual folders, so that no file of a test stays on the machine.
const PRELUDE: &str = "mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && cp -a /etc /run/.etc && \
    mount --bind /run/.etc /etc && mkdir -p /etc/sluice && mount -t tmpfs tmpfs /var/lib && ip link set lo up\n";

/// The end of a command's output, before the status.
const END: char = '\u{1}';

/// Returns an error with the reason unless a host with the given programs can be made here.
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

/// The host.
pub struct Host {
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    folder: tempfile::TempDir,
    backgrounds: usize,
}

impl Host {
    /// Makes a host.
    pub fn new() -> Self {
        let executable = Path::new(crate::SLUICE).parent().unwrap();
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .prefix("host")
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

    /// Starts a command in the background; the file has the output.
    pub fn start(&mut self, text: &str) -> Result<PathBuf, String> {
        self.backgrounds += 1;
        let file = self.folder.path().join(format!(".background-{}", self.backgrounds));
        let line = format!("eval {} </dev/null >{} 2>&1 &\n", quote(text), file.display());
        self.input.write_all(line.as_bytes()).map_err(|e| format!("the shell has ended: {e}"))?;
        Ok(file)
    }

    /// Runs a command to its end and returns output and status.
    pub fn shell(&mut self, text: &str) -> Result<(String, i32), String> {
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
