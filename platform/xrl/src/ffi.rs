//! The one place that tells the event loop of a descriptor by itself.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the event loop watch a socket for what is of interest, and nothing else.
pub(crate) fn watch(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a `UnixStream` owns its descriptor, returns the same one each time, and closes it only when it is dropped, which the
    // `AsyncFd` does after it has taken it out of the event loop.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    Ok(watched?)
}
