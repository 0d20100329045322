//! The workshop: a copy of the sources where bugs are put in, built and judged.

use super::list::Mutation;
use super::switches::{Switches, VARIABLE, place};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a build; the first build compiles the whole workspace.
const BUILD_TIME: Duration = Duration::from_secs(1800);
/// Timeout of an oracle before its duration is known.
const FIRST_TIME: Duration = Duration::from_secs(1200);
/// The interval at which is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Memory limit of an oracle in KiB: a bug may allocate without end.
const MOST_MEMORY: u64 = 8 << 20;

/// The outcome of an oracle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The oracle did not find the bug.
    Passed,
    /// The oracle failed.
    Failed,
    /// The oracle did not end in time.
    Hung,
    /// The oracle did not build; the compiler's message.
    NotBuilt(String),
}

impl Outcome {
    /// In a word.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "NOT CAUGHT",
            Outcome::Failed => "caught",
            Outcome::Hung => "hangs",
            Outcome::NotBuilt(_) => "not built",
        }
    }

    /// Further details.
    pub fn detail(&self) -> &str {
        match self {
            Outcome::NotBuilt(text) => text,
            _ => "",
        }
    }
}

/// A copy of the sources with switches for their bugs, and the judge of its changes.
pub struct Workshop {
    switches: Switches,
    root: PathBuf,
    sources: PathBuf,
    target: PathBuf,
    shared: PathBuf,
    oracle: Vec<String>,
    limit: Duration,
}

impl Workshop {
    /// Copies the sources of `root` from the working tree to below cargo's target folder. Unchanged files keep their
    /// time stamps, so that little is built again.
    pub fn open(root: &Path, oracle: Vec<String>, switches: Switches) -> Result<Self> {
        if !matches!(oracle.first().map(String::as_str), Some("test" | "run")) {
            bail!("an oracle begins with `test` or `run`");
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = std::path::absolute(target)?.join("mutants");
        let sources = folder.join("source");
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git does not start")?;
        if !listed.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
        }
        let listed = String::from_utf8(listed.stdout)?;
        let files: Vec<&str> = listed.split('\0').filter(|f| !f.is_empty()).collect();
        for file in &files {
            // A file that git knows may have been removed and not committed.
            if root.join(file).is_file() {
                let mut octets = fs::read(root.join(file)).with_context(|| (*file).to_owned())?;
                if switches.has(file) {
                    octets = switches.switched(file, &String::from_utf8(octets)?)?.into_bytes();
                }
                write_if_other(&octets, &root.join(file), &sources.join(file))?;
            }
        }
        remove_others(&sources, &sources, &files)?;
        let shared = std::env::var_os("SLUICE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
        let shared = std::path::absolute(shared)?;
        let (root, target) = (root.to_owned(), folder.join("target"));
        Ok(Workshop { switches, root, sources, target, shared, oracle, limit: FIRST_TIME })
    }

    /// Sets the oracle's timeout.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The oracle's words.
    pub fn oracle(&self) -> String {
        self.oracle.join(" ")
    }

    /// Judges with a bug; returns the oracle's duration. A bug without a switch is built, and removed again in every case.
    pub fn seed(&self, mutation: &Mutation) -> Result<(Outcome, Duration)> {
        let original = self.root.join(mutation.file);
        let text = fs::read_to_string(&original).with_context(|| original.display().to_string())?;
        if let Some(number) = self.switches.number(mutation, &text)? {
            return self.judge(number);
        }
        let file = self.sources.join(mutation.file);
        let switched = fs::read_to_string(&file)?;
        let mut changed = text;
        changed.replace_range(place(&changed, mutation)?, mutation.replace);
        fs::write(&file, self.switches.rooted(mutation.file, changed))?;
        let judged = self.judge(0);
        fs::write(&file, switched)?;
        judged
    }

    /// Builds the oracle and judges the bug of a switch, none if 0; returns the oracle's duration without the build.
    pub fn judge(&self, number: usize) -> Result<(Outcome, Duration)> {
        let words: Vec<&str> = self.oracle.iter().map(String::as_str).collect();
        // What is behind `--` is for the program and not for cargo.
        let own = words.split(|w| *w == "--").next().unwrap_or_default();
        let mut build = own.to_vec();
        match build[0] {
            "test" => build.push("--no-run"),
            _ => build[0] = "build",
        }
        let (built, message) = self.cargo(&build, number, BUILD_TIME)?;
        match built {
            Some(true) => {}
            Some(false) => return Ok((Outcome::NotBuilt(message), Duration::ZERO)),
            None => bail!("the build takes longer than {} s", BUILD_TIME.as_secs()),
        }
        let start = Instant::now();
        let (passed, _) = self.cargo(&words, number, self.limit)?;
        let outcome = match passed {
            Some(true) => Outcome::Passed,
            Some(false) => Outcome::Failed,
            None => Outcome::Hung,
        };
        Ok((outcome, start.elapsed()))
    }

    /// Runs cargo in the copy; returns true for success (`None`: it did not end in time) and its standard error.
    fn cargo(&self, words: &[&str], bug: usize, limit: Duration) -> Result<(Option<bool>, String)> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {MOST_MEMORY}; exec \"$0\" \"$@\"");
        command
            .arg("-c")
            .arg(if words.contains(&"--no-run") || words[0] == "build" {
                "exec \"$0\" \"$@\""
            } else {
                &script
            })
            .arg(&cargo)
            .args(words)
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("SLUICE_SHARED", &self.shared)
            .env(VARIABLE, bug.to_string())
            // One build of each program: nothing to keep for the next one.
            .env("CARGO_INCREMENTAL", "0")
            // The same cases for every bug, and no search for the smallest one: that it fails is all one wants to know.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // What cargo passes to the processes that it runs is not for another cargo.
        for (name, _) in std::env::vars_os() {
            let is_inner =
                name.to_str().is_some_and(|n| n.starts_with("CARGO_PKG_") || n == "CARGO_MANIFEST_DIR");
            if is_inner {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn().context("sh does not start")?;
        let has_failed = Arc::new(AtomicBool::new(false));
        let watcher = child.stdout.take().map(|output| {
            let has_failed = Arc::clone(&has_failed);
            std::thread::spawn(move || watch(output, &has_failed))
        });
        let mut stderr = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            stderr.as_mut().map(|s| s.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        });
        let success = wait(&mut child, limit, &has_failed)?;
        let said = reader.join().unwrap_or_default();
        watcher.map(std::thread::JoinHandle::join);
        Ok((success, said))
    }
}

/// Notes the first failed test in the output of a test program.
fn watch(output: impl Read, has_failed: &AtomicBool) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        if line.starts_with(b"test ") && line.ends_with(b" ... FAILED") {
            has_failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Waits for a process, but not longer than `limit`, nor after a test has failed: then the process and its children are killed.
fn wait(child: &mut Child, limit: Duration, has_failed: &AtomicBool) -> Result<Option<bool>> {
    let end = Instant::now() + limit;
    while Instant::now() < end && !has_failed.load(Ordering::Relaxed) {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        std::thread::sleep(LOOK);
    }
    Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
    child.wait()?;
    Ok(has_failed.load(Ordering::Relaxed).then_some(false))
}

/// Writes the octets of a file to its copy, with the modes of the file.
fn write_if_other(octets: &[u8], from: &Path, to: &Path) -> Result<()> {
    if fs::read(to).is_ok_and(|known| known == octets) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, octets).with_context(|| to.display().to_string())?;
    let mode = fs::metadata(from)?.permissions();
    Ok(fs::set_permissions(to, mode)?)
}

/// Removes old files of earlier copies.
fn remove_others(root: &Path, folder: &Path, files: &[&str]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(root)?.as_os_str();
        if path.is_dir() {
            remove_others(root, &path, files)?;
        } else if !files.iter().any(|file| OsStr::new(file) == name) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let goes_on = AtomicBool::new(false);
        assert_eq!(wait(&mut started("exit 0"), FIRST_TIME, &goes_on).unwrap(), Some(true));
        assert_eq!(wait(&mut started("exit 3"), FIRST_TIME, &goes_on).unwrap(), Some(false));
        let mut hanging = started("sleep 600 & wait");
        assert_eq!(wait(&mut hanging, Duration::from_millis(100), &goes_on).unwrap(), None);
        let has_failed = AtomicBool::new(false);
        watch("running 2 tests\ntest a::b ... ok\n".as_bytes(), &has_failed);
        assert!(!has_failed.load(Ordering::Relaxed));
        watch("test a::c ... FAILED\n".as_bytes(), &has_failed);
        assert_eq!(wait(&mut started("sleep 600 & wait"), FIRST_TIME, &has_failed).unwrap(), Some(false));
    }

    #[test]
    fn a_copy_has_what_is_there_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/b"), "new").unwrap();
        fs::create_dir_all(to.join("old")).unwrap();
        fs::write(to.join("old/file"), "old").unwrap();
        write_if_other(b"new", &from.join("a/b"), &to.join("a/b")).unwrap();
        let before = fs::metadata(to.join("a/b")).unwrap().modified().unwrap();
        write_if_other(b"new", &from.join("a/b"), &to.join("a/b")).unwrap();
        assert_eq!(fs::metadata(to.join("a/b")).unwrap().modified().unwrap(), before);
        remove_others(&to, &to, &["a/b"]).unwrap();
        assert!(to.join("a/b").exists() && !to.join("old/file").exists());
    }
}
