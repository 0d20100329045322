//! The ways in which sending and counting fail.

use crate::capture::CaptureError;
use sluice_bpf::BpfError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A failure of this crate.
#[derive(Debug, Error)]
pub enum PktgenError {
    /// An argument, or the combination of arguments, has no meaning.
    #[error("{0}")]
    Usage(String),
    /// A line of a file of destinations is neither an address nor a prefix.
    #[error(
        "{}:{line}: `{text}` is neither an address nor a prefix; write one such as 10.1.0.0/16 a line",
        path.display()
    )]
    Destination {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// The interface is not one of a lab, and the operator did not name it again.
    #[error(
        "{interface} is not an interface of a lab ({because}); to send packets there all the same, repeat its name: \
         `--yes-send-on {interface}`"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
        /// The reason, in words.
        because: String,
    },
    /// No interface of that name is in this network namespace, or its kind has no hardware address.
    #[error("{interface} has no Ethernet address in this network namespace; `ip link` lists the interfaces")]
    NoInterface {
        /// The interface.
        interface: String,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A capture cannot be replayed.
    #[error("{}: {source}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: CaptureError,
    },
    /// A file of hexadecimal digits is no frame.
    #[error("{}: {reason}", path.display())]
    Raw {
        /// The file.
        path: PathBuf,
        /// The reason, in words.
        reason: String,
    },
    /// The kernel lacks something, or refuses.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The call and its purpose.
        call: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The generator's program sends nothing although packets are due.
    #[error("the generator stopped at {sent} packets for no known reason; report this with the command line")]
    Stalled {
        /// The packets sent.
        sent: u64,
    },
}

impl PktgenError {
    /// Returns a function that wraps the error of the call named `call`.
    pub(crate) fn call(call: &'static str) -> impl FnOnce(io::Error) -> PktgenError {
        move |source| PktgenError::Call { call, source }
    }
}
