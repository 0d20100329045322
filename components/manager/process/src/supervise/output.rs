//! The standard output and standard error of the manager's child processes.
//!
//! Each component writes into a named pipe of its own, and the manager writes the lines into the log: no component holds the
//! log's file. A named pipe outlives the manager: a component holds the pipe open for reading too, and the next manager finds the
//! pipe with all lines since. Without a manager a full pipe makes a package wait for the
//! next manager, and the router's own components leave lines out.

use crate::ManagerProcess;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sluice_manager::output::{Allowance, Lines};
use sluice_process::clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tracing::warn;

/// The folder of the pipes, in the run-time folder.
const FOLDER: &str = "output";
/// The octets in a full pipe, where the kernel allows so many.
const CAPACITY: i32 = 1 << 20;
/// The most octets of one read.
const PIECE: usize = 64 << 10;

/// Takes a component's name and a line of the component.
type Write = fn(&str, &str);

/// The pipes of all processes.
pub struct Outputs {
    folder: PathBuf,
    write: Write,
    read: RefCell<BTreeMap<String, Rc<Reader>>>,
}

/// The manager's end of a pipe.
struct Reader {
    name: String,
    receiver: pipe::Receiver,
    lines: RefCell<Lines>,
    write: Write,
}

impl Outputs {
    /// Makes no pipe yet. `write` takes the lines.
    pub fn new(run_dir: &Path, write: Write) -> Self {
        Outputs { folder: run_dir.join(FOLDER), write, read: RefCell::default() }
    }

    /// Leads the standard output and standard error of a process to the log, by the pipe of a component or helper.
    pub fn lead(&self, name: &str, is_own: bool, command: &mut Command) {
        let made = self.writer(name, is_own).and_then(|out| Ok((out.try_clone()?, out)));
        let (out, error) = match made {
            Ok((out, error)) => (Stdio::from(out), Stdio::from(error)),
            Err(error) => {
                warn!(name, %error, "what {name} writes to its standard output and standard error is lost");
                (Stdio::null(), Stdio::null())
            }
        };
        command.stdout(out).stderr(error);
    }

    fn writer(&self, name: &str, is_own: bool) -> io::Result<fs::File> {
        self.make(name)?;
        self.follow(name, is_own)?;
        // For reading too: a process whose pipe nobody else reads is not ended by SIGPIPE.
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if is_own {
            options.custom_flags(OFlag::O_NONBLOCK.bits());
        }
        let file = options.open(self.path(name))?;
        // A smaller pipe does too.
        let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(CAPACITY));
        Ok(file)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn make(&self, name: &str) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match mkfifo(&self.path(name), Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(()) => Ok(()),
            Err(Errno::EEXIST) if fs::symlink_metadata(self.path(name))?.file_type().is_fifo() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the pipe of a component from now on, if it is not read yet.
    ///
    /// # Errors
    ///
    /// If the pipe does not exist: the component's manager had an earlier version.
    pub fn follow(&self, name: &str, is_own: bool) -> io::Result<()> {
        if self.read.borrow().contains_key(name) {
            return Ok(());
        }
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(self.path(name))?;
        let lines = Lines::new(if is_own { Allowance::OWN } else { Allowance::OTHER });
        let (name, lines) = (name.to_owned(), RefCell::new(lines));
        let reader = Rc::new(Reader { name: name.clone(), receiver, lines, write: self.write });
        self.read.borrow_mut().insert(name, Rc::clone(&reader));
        tokio::task::spawn_local(async move {
            while reader.receiver.readable().await.is_ok() {
                reader.read_piece();
                // A component that writes all the time leaves time for all else.
                tokio::task::yield_now().await;
            }
        });
        Ok(())
    }

    /// Writes the last lines of an ended process.
    pub fn ended(&self, name: &str) {
        let reader = self.read.borrow().get(name).cloned();
        if let Some(reader) = reader {
            reader.read_rest();
        }
    }

    /// Writes the last lines of all processes.
    pub(crate) fn all_ended(&self) {
        let all: Vec<Rc<Reader>> = self.read.borrow().values().cloned().collect();
        all.iter().for_each(|reader| reader.read_rest());
    }
}

impl Reader {
    /// Reads octets and writes the ended lines. Returns false without octets.
    fn read_piece(&self) -> bool {
        let mut octets = vec![0; PIECE];
        let Ok(length @ 1..) = self.receiver.try_read(&mut octets) else { return false };
        let lines = self.lines.borrow_mut().take(clock::now(), &octets[..length]);
        self.write(&lines);
        true
    }

    fn read_rest(&self) {
        // A process beside the ended one may write without end: a pipe's content is enough.
        let pieces = CAPACITY.unsigned_abs() as usize / PIECE;
        let _all_read = (0..pieces).all(|_| self.read_piece());
        let lines = self.lines.borrow_mut().end(clock::now());
        self.write(&lines);
    }

    fn write(&self, lines: &[String]) {
        lines.iter().for_each(|line| (self.write)(&self.name, line));
    }
}

/// Removes the pipes, after an orderly end.
pub fn clean(run_dir: &Path) {
    let _ = fs::remove_dir_all(run_dir.join(FOLDER));
}

impl ManagerProcess {
    /// Reads the output of a process from an earlier life of the manager.
    pub(crate) fn follow_output(&self, name: &str, is_own: bool) {
        if let Err(error) = self.processes.outputs.follow(name, is_own)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(name, %error, "what {name} writes to its standard output and standard error is not read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;

    thread_local! {
        static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn see(name: &str, line: &str) {
        SEEN.with_borrow_mut(|seen| seen.push(format!("{name}: {line}")));
    }

    async fn until_seen(lines: &[&str]) {
        let seen = async {
            while SEEN.with_borrow(|seen| seen != lines) {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let done = tokio::time::timeout(Duration::from_secs(30), seen).await;
        assert!(done.is_ok(), "{:?}", SEEN.with_borrow(Clone::clone));
    }

    fn shell(outputs: &Outputs, is_own: bool, script: &str) -> tokio::process::Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        outputs.lead("x", is_own, &mut command);
        command.spawn().expect("a shell")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn lines_outlive_the_manager_and_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = tokio::task::LocalSet::new();
        let mut child = work
            .run_until(async {
                let outputs = Outputs::new(folder.path(), see);
                let child = shell(&outputs, false, "echo one; read go; echo two; printf last >&2; read go");
                until_seen(&["x: one"]).await;
                child
            })
            .await;
        // The manager is gone, with its ends of pipes; the process goes on.
        drop(work);
        let mut stdin = child.stdin.take().expect("a pipe");
        let next = tokio::task::LocalSet::new();
        next.run_until(async {
            stdin.write_all(b"go\n").await.expect("it is read");
            let outputs = Outputs::new(folder.path(), see);
            outputs.follow("x", false).expect("the pipe is there");
            drop(stdin);
            assert!(child.wait().await.expect("a child").code().is_some(), "no signal ended it");
            outputs.ended("x");
            until_seen(&["x: one", "x: two", "x: last"]).await;
        })
        .await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn nobody_waits_for_a_full_pipe_of_the_routers_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let outputs = Outputs::new(folder.path(), see);
        let work = tokio::task::LocalSet::new();
        work.run_until(async {
            // Nothing is read meanwhile: the pipe is full after half of it.
            let mut child = shell(&outputs, true, "head -c 2097152 /dev/zero; exit 0");
            drop(child.stdin.take());
            let ended = std::thread::spawn(move || {
                loop {
                    match child.try_wait() {
                        Ok(Some(status)) => return status.success(),
                        _ => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
            assert!(ended.join().expect("the thread"));
        })
        .await;
    }
}
