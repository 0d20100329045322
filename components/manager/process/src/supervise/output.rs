//! The standard output and standard error of the processes that the manager starts.
//!
//! Each component writes into a named pipe of its own, and the manager writes the lines into the log: no component holds the
//! log's file. The pipe has a name so that it outlives the manager: a component holds its pipe open for reading too, and the
//! next manager finds the pipe, with the lines that came meanwhile. Without a manager a full pipe makes a package wait for the
//! next manager, and the router's own components leave lines out.

use crate::ManagerProcess;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sluice_manager::output::{Allowance, Lines};
use sluice_process::{clock, events};
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
/// The octets that a pipe holds, where the kernel allows so many.
const CAPACITY: i32 = 1 << 20;
/// The octets that are read at once.
const PIECE: usize = 64 << 10;

/// The pipes of all processes.
pub struct Outputs {
    folder: PathBuf,
    read: RefCell<BTreeMap<String, Rc<Reader>>>,
}

/// The manager's end of a pipe.
struct Reader {
    name: String,
    receiver: pipe::Receiver,
    lines: RefCell<Lines>,
}

impl Outputs {
    /// Makes no pipe yet.
    pub fn new(run_dir: &Path) -> Self {
        Outputs { folder: run_dir.join(FOLDER), read: RefCell::default() }
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
    /// If there is no pipe: an earlier version of the manager started the component.
    pub fn follow(&self, name: &str, is_own: bool) -> io::Result<()> {
        if self.read.borrow().contains_key(name) {
            return Ok(());
        }
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(self.path(name))?;
        let lines = Lines::new(if is_own { Allowance::OWN } else { Allowance::OTHER });
        let reader = Rc::new(Reader { name: name.into(), receiver, lines: RefCell::new(lines) });
        self.read.borrow_mut().insert(name.into(), Rc::clone(&reader));
        tokio::task::spawn_local(async move {
            while reader.receiver.readable().await.is_ok() {
                reader.read_piece();
                // A component that writes all the time leaves time for all else.
                tokio::task::yield_now().await;
            }
        });
        Ok(())
    }

    /// Writes the last lines of a process that has ended.
    pub fn ended(&self, name: &str) {
        let reader = self.read.borrow().get(name).cloned();
        if let Some(reader) = reader {
            reader.read_rest();
        }
    }

    /// Writes the last lines of all processes.
    pub fn all_ended(&self) {
        let all: Vec<Rc<Reader>> = self.read.borrow().values().cloned().collect();
        all.iter().for_each(|reader| reader.read_rest());
    }
}

impl Reader {
    /// Writes lines that came. Returns false if nothing came.
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
        lines.iter().for_each(|line| events::relay(&self.name, line));
    }
}

/// Removes the pipes, after an orderly end.
pub fn clean(run_dir: &Path) {
    let _ = fs::remove_dir_all(run_dir.join(FOLDER));
}

impl ManagerProcess {
    /// Reads the output of a process that an earlier life of the manager started.
    pub fn follow_output(&self, name: &str, is_own: bool) {
        if let Err(error) = self.processes.outputs.follow(name, is_own)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(name, %error, "what {name} writes to its standard output and standard error is not read");
        }
    }
}
