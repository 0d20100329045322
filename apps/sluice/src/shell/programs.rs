//! Programs run by the interactive shell: the tools of the executable, and tools of the host.

use crate::output::{Failure, Output};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};

/// The host's programs, with their Debian packages.
const PACKAGES: [(&str, &str); 2] = [("ping", "iputils-ping"), ("traceroute", "traceroute")];

/// A program to run. Its output goes through the filters of the line.
pub struct Program {
    command: Command,
    name: String,
}

impl Program {
    /// Returns a tool of the executable, for the router of a run-time folder.
    pub fn own(run_dir: &Path, words: Vec<String>) -> Result<Self, Failure> {
        let own = sluice_process::own_executable().map_err(|e| Failure::io("this executable", &e))?;
        let name = words.first().cloned().unwrap_or_default();
        let mut command = Command::new(own);
        command.args(words).env("SLUICE_RUN_DIR", run_dir);
        Ok(Program { command, name })
    }

    /// Returns a program of the host.
    pub fn of_host(name: &str, words: &[String]) -> Self {
        let mut command = Command::new(name);
        command.args(words);
        Program { command, name: name.into() }
    }

    /// Runs the program to its end and returns the exit status.
    pub async fn run(self, out: &mut Output) -> Result<u8, Failure> {
        let Program { mut command, name } = self;
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| missing(&name, &error))?;
        let output = child.stdout.take();
        let (sender, mut lines) = tokio::sync::mpsc::channel(64);
        let reading = tokio::task::spawn_blocking(move || {
            for line in output.into_iter().flat_map(|o| BufReader::new(o).lines()).map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
            child.wait()
        });
        while let Some(line) = lines.recv().await {
            out.line(&line);
            out.flush();
        }
        let ended = reading.await.map_err(|e| Failure::failed(e.to_string()))?;
        let status = ended.map_err(|e| Failure::io(&name, &e))?;
        Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(Failure::FAILED))
    }
}

/// Explains why a program cannot be run, and names its package.
fn missing(name: &str, error: &std::io::Error) -> Failure {
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some((_, package))) => Failure::failed(format!(
            "`{name}` is not installed; it is in the package {package} (`apt install {package}`)"
        )),
        _ => Failure::io(name, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_has_its_package() {
        let error = std::io::Error::from(ErrorKind::NotFound);
        assert!(missing("ping", &error).message.contains("apt install iputils-ping"));
        assert!(missing("traceroute", &error).message.contains("apt install traceroute"));
    }
}
