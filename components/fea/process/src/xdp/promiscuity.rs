//! The kernel's flag by which an interface receives frames for all stations.

use crate::linux::netlink::decode::u32_at;
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::{NLM_F_ACK, RTM_GETLINK, RTM_NEWLINK};
use crate::linux::netlink::socket::Socket;
use sluice_base::InterfaceIndex;
use std::io;
use std::ops::ControlFlow;

const FLAG: u32 = libc::IFF_PROMISC as u32;

/// Returns true if an operator or an FEA has set the flag.
pub(super) fn is_on(socket: &Socket, interface: InterfaceIndex) -> io::Result<bool> {
    let mut flags = 0;
    socket.request(&request(RTM_GETLINK, 0, interface, [0, 0]), |message| {
        flags = u32_at(message.body, 8).unwrap_or_default();
        ControlFlow::Break(())
    })?;
    Ok(flags & FLAG != 0)
}

/// Sets or clears the flag.
pub(super) fn set(socket: &Socket, interface: InterfaceIndex, is_on: bool) -> io::Result<()> {
    let flags = if is_on { FLAG } else { 0 };
    socket.request(&request(RTM_NEWLINK, NLM_F_ACK, interface, [flags, FLAG]), |_| ControlFlow::Continue(()))
}

/// A request about an interface (struct ifinfomsg), with flags and the flags that change.
fn request(kind: u16, of_message: u16, interface: InterfaceIndex, [flags, changes]: [u32; 2]) -> Messages {
    let words = [0, interface.number(), flags, changes];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut message = Messages::default();
    message.push_message(kind, of_message, 1, &header, &[]);
    message
}
