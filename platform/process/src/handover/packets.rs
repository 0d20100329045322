//! Packets of the socket between two processes: a kind in one octet, then octets, with a descriptor beside the packet or without.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Octets of a packet: a fraction of what every kernel lets wait in a socket.
pub(super) const PACKET: usize = 65_536;

/// The kinds of packets.
pub(super) mod kind {
    /// A piece of a value; others follow.
    pub const PIECE: u8 = b'p';
    /// The last piece of a value.
    pub const LAST_PIECE: u8 = b'l';
    /// A descriptor.
    pub const DESCRIPTOR: u8 = b'd';
    /// The beginning of a part of the state.
    pub const PART: u8 = b'b';
    /// The end of the state.
    pub const END: u8 = b'e';
    /// The successor's abilities.
    pub const ABILITIES: u8 = b'a';
    /// The successor has received and checked the state.
    pub const TAKEN: u8 = b't';
    /// The successor refuses, with a reason.
    pub const REFUSED: u8 = b'r';
    /// The successor has taken over.
    pub const DONE: u8 = b'.';
}

/// Sends a packet.
pub(super) async fn send(
    socket: &UnixStream,
    kind: u8,
    octets: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    loop {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = descriptor.map(|d| [d]);
            if let Some(descriptors) = &descriptors {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let packet = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(octets)];
            Ok(rustix::net::sendmsg(socket, &packet, &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Receives the next packet's kind and descriptor; appends its octets to `into`.
pub(super) async fn receive(socket: &UnixStream, into: &mut Vec<u8>) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut packet = vec![0; PACKET + 1];
    loop {
        socket.readable().await?;
        let mut descriptor = None;
        let received = socket.try_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut data = [IoSliceMut::new(&mut packet)];
            let got = rustix::net::recvmsg(socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                    descriptor = descriptors.next();
                }
            }
            Ok(got.bytes)
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                into.extend_from_slice(&packet[1..length]);
                return Ok((packet[0], descriptor));
            }
        }
    }
}

/// Checks with the kernel that the process `expected` is at the other end.
pub(super) fn check_peer(socket: &UnixStream, expected: u32) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    match peer.pid.as_raw_nonzero().get().unsigned_abs() == expected {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another process is at the other end")),
    }
}
