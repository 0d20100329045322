//! The system calls that have no safe wrapper.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets `command` enter `namespaces`, in order, before it starts.
pub(crate) fn enter_namespaces(command: &mut Command, namespaces: Vec<OwnedFd>) {
    // SAFETY: between fork and exec the closure only calls setns, which is async-signal-safe, on descriptors that it owns.
    unsafe {
        command.pre_exec(move || {
            for ns in &namespaces {
                nix::sched::setns(ns.as_fd(), nix::sched::CloneFlags::empty())?;
            }
            Ok(())
        });
    }
}

/// A descriptor that means the process `pid`, whatever happens to the number later.
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::pid_t::try_from(pid).unwrap_or(-1), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends `signal` to the process that `pidfd` means.
pub(crate) fn pidfd_send_signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open; a null siginfo is allowed.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
