//! The launcher: applies a plan to its own process and executes the program.

use crate::calls::{self, CallError};
use crate::files;
use crate::plan::{Limits, Network, Plan};
use crate::view;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use thiserror::Error;

/// The exit status of a launcher that started nothing.
pub const FAILED: u8 = 126;

/// The reason why a launcher started nothing.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The process cannot enter a control group.
    #[error("cannot enter the control group {}: {source}", path.display())]
    Group {
        /// The group's file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A step that the kernel refuses.
    #[error("cannot {step}: {source}")]
    Step {
        /// The step.
        step: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A capability of the plan has a name that the kernel's headers do not have.
    #[error("there is no capability `{0}`")]
    Capability(String),
    /// Capabilities cannot be given up.
    #[error("cannot give up capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
    /// Landlock refuses the files.
    #[error("cannot restrict files: {0}")]
    Files(#[from] landlock::RulesetError),
    /// Seccomp refuses the filter.
    #[error(transparent)]
    Calls(#[from] CallError),
    /// The program cannot be executed.
    #[error("cannot execute {}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> LaunchError {
    move |source| LaunchError::Step { step, source: source.into() }
}

/// Applies a plan and executes a program with its arguments in place of the launcher. Must be called by a process of one
/// thread. Returns only an error; the process is partly confined then and has to end.
pub fn launch(plan: &Plan, program: PathBuf, arguments: Vec<OsString>) -> Result<Infallible, LaunchError> {
    for group in &plan.groups {
        fs::write(group, "0").map_err(|source| LaunchError::Group { path: group.clone(), source })?;
    }
    limit(&plan.limits)?;
    leave_network(plan.network)?;
    if let Some(view) = &plan.view {
        view::enter(&view.hidden, &view.kept).map_err(step("make a view of the files"))?;
    }
    // Entered and opened with the launcher's rights: the process's user may not reach every file by its path.
    if let Some(folder) = &plan.folder {
        std::env::set_current_dir(folder).map_err(step("enter the component's folder"))?;
    }
    let prepared = plan.files.as_ref().map(files::prepare).transpose()?;
    become_user(plan)?;
    nix::sys::prctl::set_no_new_privs().map_err(step("give up new privileges"))?;
    if let Some(ruleset) = prepared {
        ruleset.restrict_self()?;
    }
    if let Some(list) = plan.calls {
        calls::restrict(list)?;
    }
    let source = Command::new(&program).args(arguments).exec();
    Err(LaunchError::Program { program, source })
}

fn limit(limits: &Limits) -> Result<(), LaunchError> {
    let bounds = [
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_AS, limits.address_space),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_FSIZE, limits.file_size),
    ];
    for (resource, bound) in bounds {
        let Some(bound) = bound else { continue };
        let (_, hard) = getrlimit(resource).map_err(step("read a limit"))?;
        let bound = bound.min(hard);
        setrlimit(resource, bound, bound).map_err(step("set a limit"))?;
    }
    if let Some(nice) = limits.nice {
        rustix::process::setpriority_process(None, i32::from(nice)).map_err(step("set the nice value"))?;
    }
    Ok(())
}

fn leave_network(network: Network) -> Result<(), LaunchError> {
    let empty = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    match network {
        Network::Kept => Ok(()),
        Network::Empty => unshare(empty).map_err(step("make an empty network namespace")),
        Network::EmptyInUserNamespace => {
            let (user, group) = (geteuid(), getegid());
            unshare(CloneFlags::CLONE_NEWUSER | empty).map_err(step("make a user namespace"))?;
            // The process keeps its user: the map names only that one (user_namespaces(7)).
            fs::write("/proc/self/setgroups", "deny")
                .map_err(step("close the groups of a user namespace"))?;
            fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(step("map the user"))?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(step("map the group"))
        }
    }
}

/// Changes the user, and keeps the plan's capabilities only. Nothing of the bounding set but those remains.
fn become_user(plan: &Plan) -> Result<(), LaunchError> {
    let named = |name: &String| Capability::from_str(name).map_err(|_| LaunchError::Capability(name.clone()));
    let kept: CapsHashSet = plan.capabilities.iter().map(named).collect::<Result<_, _>>()?;
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)?.difference(&kept) {
            caps::drop(None, CapSet::Bounding, *capability)?;
        }
    }
    if let Some(user) = plan.user {
        caps::securebits::set_keepcaps(true)?;
        setgroups(&[]).map_err(step("leave the launcher's groups"))?;
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
        setresgid(group, group, group).map_err(step("change the group"))?;
        setresuid(user, user, user).map_err(step("change the user"))?;
    }
    let had = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = kept.intersection(&had).copied().collect();
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::set(None, set, &kept)?;
    }
    // Executed programs of a user other than root have the ambient capabilities (capabilities(7)).
    if geteuid().is_root() { Ok(()) } else { Ok(caps::set(None, CapSet::Ambient, &kept)?) }
}
