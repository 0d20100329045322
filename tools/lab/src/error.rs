//! What can go wrong with a lab.

use std::io;
use std::path::PathBuf;

/// The reason why a lab could not be read, built, used or taken down.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The topology file is not TOML of the right shape.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The place and the reason.
        source: Box<toml::de::Error>,
    },
    /// The topology contradicts itself.
    #[error("topology: {0}")]
    Topology(String),
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program that builds the lab failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// The program and its arguments.
        program: String,
        /// The program's output.
        message: String,
    },
    /// A daemon ended, or did not answer in time.
    #[error("{daemon} on {node} is not ready: {message}")]
    NotReady {
        /// The node.
        node: String,
        /// The daemon.
        daemon: String,
        /// The end of its log, or the output of its control program.
        message: String,
    },
    /// A lab of this name is up already.
    #[error("lab {0} is up already")]
    Exists(String),
    /// No lab of this name is up.
    #[error("there is no lab {0}")]
    NoLab(String),
    /// The lab has no such node.
    #[error("lab {lab} has no node {node}")]
    NoNode {
        /// The lab.
        lab: String,
        /// The node asked for.
        node: String,
    },
    /// Neither root nor a user namespace is to be had.
    #[error("no right to make network namespaces: {0}; run this as root, or let users make namespaces")]
    NoRights(String),
    /// An end of a link with `xdp = true` does not take the settings.
    #[error("{end} does not take the settings for XDP: {source}; links with `xdp = true` need root")]
    XdpLink {
        /// The end of the link.
        end: crate::topology::End,
        /// The system's error.
        source: io::Error,
    },
    /// A daemon changes its user, but the user namespace of a lab without root has only one.
    #[error("{node}: {daemon:?} changes its user, which a lab without root does not allow; run this as root")]
    NeedsRoot {
        /// The node.
        node: String,
        /// The daemon.
        daemon: crate::topology::Daemon,
    },
}

/// Adds the file's name to an I/O error.
pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(io::Error) -> LabError {
    let path = path.to_owned();
    move |source| LabError::File { path, source }
}
