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

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Carries out an ethtool command that has a number as argument and as result. Returns the number.
pub(crate) fn ethtool_value(interface: &str, command: u32, value: u32) -> io::Result<u32> {
    let mut data = EthtoolValue { command, value };
    // SAFETY: the commands of the callers read and write a `struct ethtool_value`, which `data` is.
    unsafe { ethtool(interface, (&raw mut data).cast()) }?;
    Ok(data.value)
}

/// Carries out the ethtool command for the driver's description. Returns the driver's name, with zeros at the end.
pub(crate) fn ethtool_driver(interface: &str, command: u32) -> io::Result<[u8; 32]> {
    let mut data = EthtoolDriver { command, driver: [0; 32], rest: [0; 160] };
    // SAFETY: the command writes a `struct ethtool_drvinfo`, which `data` is.
    unsafe { ethtool(interface, (&raw mut data).cast()) }?;
    Ok(data.driver)
}

/// Calls ioctl(2) with SIOCETHTOOL.
///
/// # Safety
///
/// `data` must be the struct that its first word, the command, reads and writes.
unsafe fn ethtool(interface: &str, data: *mut libc::c_char) -> io::Result<()> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    if interface.len() >= name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (place, octet) in name.iter_mut().zip(interface.bytes()) {
        *place = octet as libc::c_char;
    }
    let mut request =
        libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data } };
    // SAFETY: the request is a `struct ifreq` with a name that ends in a zero; the caller vouches for the data.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The request number of ethtool's ioctl (`linux/sockios.h`).
const SIOCETHTOOL: libc::Ioctl = 0x8946;
