//! Reasons for which a process is not replaced, or not started again.

use sluice_xrl::XrlError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a component, or the manager, was not put into a new process.
#[derive(Debug, Error)]
pub enum ReplaceError {
    /// No component has this name.
    #[error("there is no component {0}")]
    Unknown(String),
    /// The component is in a phase without a process to replace.
    #[error("{component} is {phase}; only one that runs is replaced")]
    NotRunning {
        /// The component.
        component: String,
        /// The name of the phase.
        phase: &'static str,
    },
    /// A replacement of the component is under way.
    #[error("{0} is being replaced already")]
    UnderWay(String),
    /// The component serves no hand-over, so that a new executable cannot take over.
    #[error(
        "{0} hands nothing over: put the new executable in the place of its old one, then tell `sluice restart {0}`"
    )]
    NoHandOver(String),
    /// The component does not leave its phase.
    #[error("{0} cannot be restarted now")]
    NotNow(String),
    /// The component left the configuration meanwhile.
    #[error("{0} is not configured any more")]
    NotConfigured(String),
    /// The new process ended.
    #[error("{component} was started and ended again: {how}")]
    Ended {
        /// The component.
        component: String,
        /// The end in words.
        how: String,
    },
    /// Components that the component needs do not run.
    #[error("{component} is started as soon as {needs} runs, which it needs; see `sluice show processes`")]
    Waiting {
        /// The component.
        component: String,
        /// The components that do not run, separated by commas.
        needs: String,
    },
    /// The new process does not become ready.
    #[error("{0} was started and does not come up; see `sluice show processes`")]
    Silent(String),
    /// The machine of the replacement ended with a reason, perhaps the reason of a further process.
    #[error("{0}")]
    Failed(String),
    /// The manager ends.
    #[error("the router manager ends")]
    ManagerEnds,
    /// A commit or a replacement keeps the manager.
    #[error("a commit or a hand-over is under way; try again when it is over")]
    Busy,
    /// The manager's own executable is unknown.
    #[error(transparent)]
    Executable(#[from] io::Error),
    /// An executable prints no version in time.
    #[error("{} does not say its version", .0.display())]
    NoVersion(PathBuf),
    /// An executable cannot be started.
    #[error("{} cannot be started: {error}", executable.display())]
    NotStarted {
        /// The executable.
        executable: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// An executable is another program.
    #[error("{} is no sluice", .0.display())]
    OtherProgram(PathBuf),
}

/// The reason why the process of a replacement was not started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The Finder refuses to watch the new name.
    #[error(transparent)]
    Watch(#[from] XrlError),
    /// No secret could be drawn.
    #[error(transparent)]
    Secret(io::Error),
    /// The other executable cannot be started.
    #[error("{} cannot be started: {error}", executable.display())]
    Other {
        /// The executable.
        executable: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The component's own executable cannot be started.
    #[error("a new process cannot be started: {0}")]
    Own(io::Error),
}
