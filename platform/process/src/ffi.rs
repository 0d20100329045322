//! The calls that have no safe form.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
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
