//! Access to files by Landlock (landlock(7)): a process reads, executes and writes the files of its plan. A scoped process
//! sends signals to no process outside its confinement, and connects to no abstract Unix socket outside.

use crate::plan::Files;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use std::path::PathBuf;

/// The newest kernel interface in use; an older kernel restricts fewer kinds of access.
const NEWEST: ABI = ABI::V6;

/// Folders of every Linux system with programs and libraries.
pub const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Files read by starting programs of any language.
pub const COMMON: [&str; 12] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Opens the files of a plan. The process needs the right to reach the files only during this call.
///
/// # Errors
///
/// If the kernel refuses a ruleset.
pub fn prepare(files: &Files) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    let ruleset = if files.is_scoped { ruleset.scope(Scope::from_all(NEWEST))? } else { ruleset };
    let read = BitFlags::from(AccessFs::ReadFile) | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let write = all & !BitFlags::from(AccessFs::Execute);
    let sockets = read | AccessFs::MakeSock | AccessFs::RemoveFile;
    let mut created = ruleset.create()?;
    for (paths, access) in
        [(&files.read, read), (&files.execute, execute), (&files.write, write), (&files.sockets, sockets)]
    {
        created = allow(created, paths, access)?;
    }
    Ok(created)
}

fn allow(
    mut ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        // A path that does not exist gives nothing to access.
        let Ok(opened) = PathFd::new(path) else { continue };
        // Of a plain file only the rights of files have a meaning.
        let allowed = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, allowed))?;
    }
    Ok(ruleset)
}
