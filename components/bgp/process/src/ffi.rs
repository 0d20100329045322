//! The calls that Rust's libraries have no safe form of.
#![allow(unsafe_code)]

use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets the kernel drop what comes with a TTL below `ttl` (RFC 5082).
pub fn set_min_ttl(socket: &impl AsRawFd, ipv4: bool, ttl: u8) -> io::Result<()> {
    let (level, option) =
        if ipv4 { (libc::IPPROTO_IP, libc::IP_MINTTL) } else { (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) };
    let value = libc::c_int::from(ttl);
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and length are those of `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a task of the process's own thread wait until a descriptor can be read.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: what watches it owns it, so that it stays open for as long.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}
