//! The reasons why the router does not start.

use sluice_config::package::Refused;
use sluice_config::{ConfigErrors, SchemaError};
use std::io;
use std::path::Path;
use thiserror::Error;

/// The reason why the router does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}; {}", read_advice(source))]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The configuration is not valid.
    #[error("{0}")]
    Config(Box<ConfigErrors>),
    /// The configuration is not valid, perhaps because of refused packages.
    #[error("{}{error}", reasons(refused))]
    WithoutPackages {
        /// The packages that were refused.
        refused: Vec<Refused>,
        /// The errors of the configuration.
        error: Box<ConfigErrors>,
    },
    /// The schema is not valid.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// A component's rights are not valid.
    #[error("rights of {class}: {reason}")]
    Rights {
        /// The component.
        class: String,
        /// The error.
        reason: String,
    },
    /// Something in the run-time folder cannot be made or written.
    #[error("cannot {act} {path}: {source}; {advice}")]
    Folder {
        /// The action that failed.
        act: &'static str,
        /// On what.
        path: String,
        /// The remedy.
        advice: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A later version recorded the running components.
    #[error(
        "cannot adopt the running components ({running}) by {path}: {reason}; start the router with the executable that wrote the \
         file, or remove the file, and all components start anew"
    )]
    OtherVersion {
        /// The running components.
        running: String,
        /// The record.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The process may not configure the network.
    #[error(
        "a router needs the right to configure the network (CAP_NET_ADMIN), which this process does not have; start it as root, \
         or in a network namespace of its own (`unshare --user --map-root-user --net`, or `sluice lab`)"
    )]
    NoNetworkRights,
}

/// Returns a line for each refused package.
fn reasons(refused: &[Refused]) -> String {
    refused.iter().map(|r| format!("package `{}` is refused: {}\n", r.name, r.reason)).collect()
}

fn read_advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "start as root, or name another with --config",
        _ => "name another with --config",
    }
}

/// Returns the reason why something in the run-time folder cannot be made, and what to do.
pub fn cannot(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StartError {
    let path = path.display().to_string();
    move |source| StartError::Folder { act, path, advice: advice(&source), source }
}

/// Returns the remedy for a folder or file that cannot be made or written.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "start as root, or name a folder of your own with --run-dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or name another folder with --run-dir"
        }
        _ => "name another folder with --run-dir",
    }
}
