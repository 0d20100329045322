//! Socket options and queries without a wrapper in any library.
#![allow(unsafe_code)]

use nix::libc;
use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// SIOCOUTQ of tcp(7), which is TIOCOUTQ.
const SIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;

/// Octets written to a TCP connection and not yet acknowledged by the remote system.
pub fn unacknowledged(socket: impl AsFd) -> rustix::io::Result<u64> {
    // SAFETY: SIOCOUTQ takes a pointer to a C int and writes it.
    let octets: c_int = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new())? };
    Ok(u64::try_from(octets).unwrap_or(0))
}

/// Sets how many octets make a socket readable (SO_RCVLOWAT of socket(7)). As long as there are fewer, TCP acknowledges at once what
/// comes.
pub fn set_low_water(socket: &impl AsRawFd, octets: c_int) -> io::Result<()> {
    let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    let len = size_of_val(&octets) as libc::socklen_t;
    // SAFETY: the pointer and length are those of `octets`, which outlives the call.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const octets).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
