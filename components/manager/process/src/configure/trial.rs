//! Packages are tried out in a process of their own.
//!
//! libyang expands groupings and looks into conditions (`must`, `when`) while reading a module, and a module of a few lines can
//! take hours and all memory. Nothing ends a thread inside libyang. Therefore another process with bounds reads a package's modules
//! first, before the manager reads the modules and before a lock is taken.

use crate::configure::builtin::{Builtin, ReadPackage, of_builtin};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use sluice_config::Schema;
use sluice_config::package::{self, Package, Refused};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The executable's command for a trial of the packages in folders.
pub const COMMAND: &str = "try-packages";
/// The most processor time, in seconds. The router's own modules take less than a second.
const PROCESSOR_S: u64 = 10;
/// The most memory. The router's own modules take less than a tenth.
const MEMORY: u64 = 256 << 20;
/// The longest wait: on a busy machine a process waits for its processor time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at the process.
const LOOK: Duration = Duration::from_millis(5);

/// The reason why packages are not taken after a trial.
#[derive(Debug, Error)]
pub enum TrialError {
    /// The modules need too much.
    #[error(
        "its YANG modules take more than {PROCESSOR_S} s of a processor or {} MiB of memory to read: see nested `must` and `when`, and \
         groupings that use groupings",
        MEMORY >> 20
    )]
    Bounds,
    /// The process does not start.
    #[error("the process that tries it out does not start: {0}")]
    Start(#[from] io::Error),
}

/// Reads the packages in folders together with the router's own modules, after bounding the process. Faults of a package are left to the
/// manager, except a need for too much.
///
/// # Errors
/// If the process cannot be bounded, or the modules take nearly all permitted memory.
pub fn run(builtins: &'static [Builtin], folders: &[PathBuf]) -> io::Result<()> {
    for (resource, bound) in
        [(Resource::RLIMIT_CPU, PROCESSOR_S), (Resource::RLIMIT_DATA, MEMORY), (Resource::RLIMIT_CORE, 0)]
    {
        setrlimit(resource, bound, bound)?;
    }
    let own = builtins.iter().map(of_builtin);
    let packages: Vec<Package> =
        own.chain(folders.iter().filter_map(|folder| package::read_before_install(folder).ok())).collect();
    drop(Schema::load(packages));
    // libyang reports that memory is short like any other fault of a module.
    let peak = getrusage(UsageWho::RUSAGE_SELF)?.max_rss();
    let is_near_bound = u64::try_from(peak).is_ok_and(|kib| kib.saturating_mul(1024) > MEMORY / 4 * 3);
    if is_near_bound { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
}

/// Tries out packages together by an executable of the router.
///
/// # Errors
/// The packages need too much, or the process does not start.
pub fn together(executable: &Path, folders: &[PathBuf]) -> Result<(), TrialError> {
    let mut command = Command::new(executable);
    command.arg(COMMAND).args(folders).env_clear();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { Err(TrialError::Bounds) };
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Err(TrialError::Bounds);
        }
        std::thread::sleep(LOOK);
    }
}

/// Tries out packages. Returns the refused packages by place, with the reasons.
fn each(executable: &Path, folders: &[PathBuf]) -> Vec<(usize, TrialError)> {
    if folders.is_empty() || together(executable, folders).is_ok() {
        return Vec::new();
    }
    // One may need the modules of another: each is added to those that were taken.
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for (place, folder) in folders.iter().enumerate() {
        taken.push(folder.clone());
        if let Err(error) = together(executable, &taken) {
            taken.pop();
            refused.push((place, error));
        }
    }
    refused
}

/// Tries packages out, and refuses packages with modules that need too much.
pub fn tried(executable: Option<&Path>, mut packages: Vec<ReadPackage>) -> Vec<ReadPackage> {
    let Some(executable) = executable else { return packages };
    let has_modules =
        |package: &ReadPackage| package.1.as_ref().is_ok_and(|package| !package.modules.is_empty());
    let places: Vec<usize> = (0..packages.len()).filter(|place| has_modules(&packages[*place])).collect();
    let folders: Vec<PathBuf> = places.iter().map(|place| packages[*place].0.clone()).collect();
    for (place, error) in each(executable, &folders) {
        let (_, package) = &mut packages[places[place]];
        if let Ok(Package { name, .. }) = package {
            *package = Err(Refused { name: std::mem::take(name), reason: error.to_string() });
        }
    }
    packages
}
