//! The calls that have no safe form.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Lets the event loop of the current thread watch a descriptor.
///
/// # Errors
///
/// If the kernel refuses to watch the descriptor, such as a plain file's.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the AsyncFd owns the descriptor, so that it stays open for as long as it is watched.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Makes a UDP socket send its datagrams over IPv4 without a checksum (`SO_NO_CHECK`, RFC 768).
///
/// # Errors
///
/// The kernel's refusal.
pub fn leave_out_checksums(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (value, size) = ((&raw const on).cast(), size_of::<libc::c_int>() as u32);
    // SAFETY: the value lives until the call returns and has the given size; the kernel only reads it.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, value, size) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
