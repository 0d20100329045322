//! Addresses set by a forwarding engine and left on interfaces at the end.

use crate::linux::netlink::decode;
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::RTM_GETADDR;
use crate::linux::netlink::socket::Socket;
use sluice_base::{InterfaceAddress, InterfaceIndex};
use sluice_fea::{EngineOp, Notice};
use std::io;
use std::ops::ControlFlow;

/// Removes the addresses with Sluice's protocol number in the network namespace of the caller, and returns the count.
pub fn remove_addresses() -> io::Result<usize> {
    let found = own_addresses()?;
    let socket = Socket::open()?;
    for (interface, address) in &found {
        let mut request = Messages::default();
        request.push(&EngineOp::DeleteAddress { interface: *interface, address: *address }, 1);
        // The kernel has carried the request out when the call returns.
        socket.send(request.octets())?;
    }
    match own_addresses()?.first() {
        None => Ok(found.len()),
        Some((_, address)) => {
            Err(io::Error::other(format!("the kernel keeps {}/{}", address.addr, address.prefix_len)))
        }
    }
}

fn own_addresses() -> io::Result<Vec<(InterfaceIndex, InterfaceAddress)>> {
    let mut request = Messages::default();
    request.push_dump(RTM_GETADDR, None, 1);
    let mut found = Vec::new();
    Socket::open()?.request(&request, |message| {
        if let Some(Notice::AddressIs(interface, address, true)) = decode::notice(message) {
            found.push((interface, address));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
