//! Settings of interfaces that `ethtool` shows and changes, read and set by the ioctl SIOCETHTOOL.
//!
//! All functions take the name of an interface of the calling thread's network namespace. Setting needs CAP_NET_ADMIN.

use crate::ffi;
use std::io;

const GET_DRIVER_INFO: u32 = 0x03;
const GET_TRANSMIT_CHECKSUM: u32 = 0x16;
const SET_TRANSMIT_CHECKSUM: u32 = 0x17;
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// Returns the name of the interface's driver, such as `veth`.
///
/// # Errors
///
/// If there is no such interface, or the driver has no name.
pub fn driver(interface: &str) -> io::Result<String> {
    let name = ffi::ethtool_driver(interface, GET_DRIVER_INFO)?;
    let end = name.iter().position(|octet| *octet == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Returns true if the interface joins received packets (generic receive offload). A veth with the setting has NAPI,
/// without which it drops frames that XDP sends to it.
///
/// # Errors
///
/// If there is no such interface.
pub fn gro(interface: &str) -> io::Result<bool> {
    Ok(ffi::ethtool_value(interface, GET_GRO, 0)? != 0)
}

/// Switches generic receive offload on or off.
///
/// # Errors
///
/// If there is no such interface, or the right is missing.
pub fn set_gro(interface: &str, on: bool) -> io::Result<()> {
    ffi::ethtool_value(interface, SET_GRO, on.into()).map(drop)
}

/// Returns true if the interface leaves transport checksums of sent packets to the device. A veth then sends packets with
/// unfinished checksums, which a receiver behind an XDP redirect refuses.
///
/// # Errors
///
/// If there is no such interface.
pub fn transmit_checksum(interface: &str) -> io::Result<bool> {
    Ok(ffi::ethtool_value(interface, GET_TRANSMIT_CHECKSUM, 0)? != 0)
}

/// Switches the device's transport checksums of sent packets on or off.
///
/// # Errors
///
/// If there is no such interface, or the right is missing.
pub fn set_transmit_checksum(interface: &str, on: bool) -> io::Result<()> {
    ffi::ethtool_value(interface, SET_TRANSMIT_CHECKSUM, on.into()).map(drop)
}
