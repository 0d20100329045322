//! System calls without a safe form in Rust's libraries.
#![allow(unsafe_code)]

use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the kernel drop packets with a TTL below `ttl` (RFC 5082).
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

/// Octets of the longest IP and TCP headers, with room to spare.
const LONGEST_SYN: usize = 512;

/// Has the kernel keep the first packets of connections to a listener, until [`saved_syn`] takes them.
pub fn save_syn(listener: &impl AsRawFd) -> io::Result<()> {
    let value: libc::c_int = 1;
    let len = size_of_val(&value) as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN);
    // SAFETY: the pointer and length are those of `value`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(listener.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the first packet of an accepted connection, from the IP header on; empty if not kept by the kernel.
pub fn saved_syn(connection: &impl AsRawFd) -> io::Result<Vec<u8>> {
    let mut packet = vec![0_u8; LONGEST_SYN];
    let mut len = LONGEST_SYN as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_SAVED_SYN);
    // SAFETY: the pointers and the length are those of `packet` and `len`, which outlive the call.
    let result = unsafe {
        libc::getsockopt(connection.as_raw_fd(), level, option, packet.as_mut_ptr().cast(), &raw mut len)
    };
    packet.truncate(len as usize);
    if result == 0 { Ok(packet) } else { Err(io::Error::last_os_error()) }
}

/// Lets a task of the process's own thread wait until a descriptor can be read.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: what watches it owns it, so that it stays open for as long.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}
