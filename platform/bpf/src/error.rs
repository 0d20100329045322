//! The ways in which loading, attaching and pinning fail.

use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A failure of this crate.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The host or the build lacks something; forwarding in the kernel's own way still works.
    #[error("{feature} is not available, because {because}")]
    NotAvailable {
        /// The missing feature.
        feature: &'static str,
        /// The reason, in words.
        because: String,
    },
    /// An embedded object cannot be read; the build is damaged.
    #[error("the object of the program {program} cannot be used: {reason}; build it again")]
    Object {
        /// The program's name.
        program: &'static str,
        /// The reason, in words.
        reason: String,
    },
    /// The kernel's verifier refused a program.
    #[error("the kernel refuses the program {program}: {source}; the verifier's last lines: {verifier}")]
    Refused {
        /// The program's name.
        program: String,
        /// The kernel's error.
        source: io::Error,
        /// The last lines of the verifier's log.
        verifier: VerifierLines,
    },
    /// No interface of that name is in this network namespace.
    #[error("there is no interface {0} in this network namespace; `ip link` lists the interfaces")]
    NoInterface(String),
    /// Another XDP program is attached to the interface; it stays.
    #[error(
        "another XDP program is attached to {0} and stays there; `ip link show dev {0}` names the program, \
         `ip link set dev {0} xdp off` removes it"
    )]
    Occupied(String),
    /// The kernel refuses to attach to an interface for another reason.
    #[error("the XDP program cannot be attached to {interface}: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A pinned object, or the folder of pins, cannot be used.
    #[error("{path}: {source}; the folder must be on a bpffs that this user may write")]
    Pin {
        /// The pin's path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Pins of another version of the layouts; their maps mean something else to this version.
    #[error(
        "{path} has layouts of version {found}, this version has {expected}; remove the folder to begin anew"
    )]
    Layout {
        /// The folder of pins.
        path: PathBuf,
        /// The version found.
        found: String,
        /// This version.
        expected: u32,
    },
    /// A pinned program was compiled from other sources.
    #[error(
        "{path} is another program than this version's (hash {found}, expected {expected}); replace it by a link update"
    )]
    Program {
        /// The pin's path.
        path: PathBuf,
        /// The hash recorded beside the pin.
        found: String,
        /// The hash of the embedded object.
        expected: String,
    },
    /// A map has another shape than expected.
    #[error("the map {map} has {found}, expected {expected}; remove its pin to begin anew")]
    Shape {
        /// The map's name.
        map: String,
        /// The shape found.
        found: String,
        /// The expected shape.
        expected: String,
    },
    /// An object has no map, program or constant of that name.
    #[error("the program {program} has no {kind} called {name}")]
    NoSuch {
        /// The program's name.
        program: &'static str,
        /// "map", "program" or "constant".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The call and its purpose.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BpfError {
    /// Returns a function that wraps the error of the call named `call`.
    pub(crate) fn call(call: &'static str) -> impl FnOnce(io::Error) -> BpfError {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => {
                BpfError::NotAvailable { feature: "the BPF system call", because: denied(&source) }
            }
            _ => BpfError::Call { call, source },
        }
    }
}

/// Returns the reason for which the kernel does not let this process use BPF.
pub(crate) fn denied(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no BPF, or a filter of system calls hides it".into(),
        _ => format!(
            "the kernel denies it ({source}); it needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
        ),
    }
}

/// The last lines of a verifier's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifierLines(Vec<String>);

impl VerifierLines {
    /// The most lines kept.
    const MOST: usize = 12;

    /// Keeps the last lines of `log` that say something.
    pub(crate) fn last_of(log: &str) -> Self {
        let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let from = lines.len().saturating_sub(Self::MOST);
        VerifierLines(lines[from..].iter().map(ToString::to_string).collect())
    }

    /// Returns the lines, the oldest first.
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for VerifierLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::VerifierLines;

    #[test]
    fn only_the_last_lines_are_kept() {
        let log: String = (0..40).map(|i| format!("line {i}\n\n")).collect();
        let lines = VerifierLines::last_of(&log);
        assert_eq!(lines.lines().len(), VerifierLines::MOST);
        assert_eq!(lines.lines().last().map(String::as_str), Some("line 39"));
    }
}
