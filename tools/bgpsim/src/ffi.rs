//! A question to a socket that no library asks for us.
#![allow(unsafe_code)]

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// SIOCOUTQ of tcp(7), which is TIOCOUTQ.
const SIOCOUTQ: Opcode = nix::libc::TIOCOUTQ as Opcode;

/// Octets that were written to a TCP connection and that the other end's system has not acknowledged.
pub fn unacknowledged(socket: impl AsFd) -> rustix::io::Result<u64> {
    // SAFETY: SIOCOUTQ takes a pointer to a C int and writes it.
    let octets: c_int = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new())? };
    Ok(u64::try_from(octets).unwrap_or(0))
}
