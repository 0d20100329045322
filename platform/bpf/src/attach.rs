//! Attaching a program to an interface as a link: the kernel's own driver hook if the driver has one, else the generic hook.

use crate::{BpfError, ffi};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The hook at which a program sees frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel allocates anything for the frame.
    Native,
    /// In the network stack, at some times the cost.
    Generic {
        /// The reason for which the driver does not take the program.
        because: String,
    },
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Native => f.write_str("native"),
            Mode::Generic { because } => write!(f, "generic ({because})"),
        }
    }
}

/// A program's attachment to an interface. It ends when the link is dropped, unless the link is pinned.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    interface: String,
    mode: Mode,
}

impl Link {
    /// Attaches a program to an interface of this thread's network namespace: natively, else generically.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or another XDP program is attached to it; that program stays.
    pub fn attach(interface: &str, program: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let index = interface_index(interface)?;
        let (fd, mode) = match ffi::link_create(program, index, ffi::XDP_NATIVE) {
            Ok(fd) => (fd, Mode::Native),
            Err(error) if refused_by_driver(&error) => {
                let fd =
                    ffi::link_create(program, index, ffi::XDP_GENERIC).map_err(|e| failure(interface, e))?;
                (fd, Mode::Generic { because: reason(&error) })
            }
            Err(error) => return Err(failure(interface, error)),
        };
        Ok(Link { fd, interface: interface.into(), mode })
    }

    /// Makes a link of a descriptor that was pinned or received.
    pub(crate) fn of(fd: OwnedFd, interface: &str, mode: Mode) -> Self {
        Link { fd, interface: interface.into(), mode }
    }

    /// Replaces the program. Each frame is seen by either the old or the new program.
    ///
    /// # Errors
    ///
    /// If the link was detached, or the kernel refuses the program.
    pub fn update(&self, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        ffi::link_update(self.fd.as_fd(), program).map_err(|error| failure(&self.interface, error))
    }

    /// Returns the kernel's number of the attached program.
    ///
    /// # Errors
    ///
    /// If the kernel cannot describe the link.
    pub fn program_id(&self) -> Result<u32, BpfError> {
        Ok(self.info()?.program)
    }

    /// Returns the index of the interface; 0 after the interface was removed.
    ///
    /// # Errors
    ///
    /// If the kernel cannot describe the link.
    pub fn interface_index(&self) -> Result<u32, BpfError> {
        Ok(self.info()?.interface)
    }

    fn info(&self) -> Result<ffi::LinkInfo, BpfError> {
        ffi::link_info(self.fd.as_fd()).map_err(BpfError::call("describing a link"))
    }

    /// Returns the name that the interface had when the program was attached.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the hook.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the index of an interface of this thread's network namespace.
///
/// # Errors
///
/// If there is no such interface.
pub fn interface_index(interface: &str) -> Result<u32, BpfError> {
    nix::net::if_::if_nametoindex(interface).map_err(|_| BpfError::NoInterface(interface.into()))
}

/// Returns true if the driver, not the kernel's core, refused the program.
fn refused_by_driver(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ERANGE | libc::EINVAL))
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver has no native XDP".into(),
        Some(libc::ERANGE) => "the interface's MTU is too large for native XDP".into(),
        _ => format!("the driver refused native XDP: {error}"),
    }
}

/// The kernel answers EBUSY if a program is attached at the same hook, and EEXIST if at the other.
fn failure(interface: &str, source: io::Error) -> BpfError {
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => BpfError::Occupied(interface.into()),
        Some(libc::EPERM) => BpfError::NotAvailable {
            feature: "attaching XDP programs",
            because: crate::error::denied(&source),
        },
        _ => BpfError::Attach { interface: interface.into(), source },
    }
}
