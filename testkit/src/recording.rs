//! Recordings of the state that a process hands over ([`crate::golden`]), played to a reader.
//!
//! A recording is a sequence of packets: the kind of the packet in one octet, the number of octets of the rest in four (high
//! octet first), the rest. A descriptor is recorded as a packet of the kind `d` without octets.

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Returns the packets of a recording.
///
/// # Panics
/// The recording is cut.
pub fn packets(recording: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = recording;
    while let Some((head, after)) = rest.split_first_chunk::<5>() {
        let [kind, length @ ..] = *head;
        let (octets, after) = after.split_at(u32::from_be_bytes(length) as usize);
        packets.push([&[kind], octets].concat());
        rest = after;
    }
    assert!(rest.is_empty(), "the recording is cut");
    packets
}

/// Sends packets to a socket, by a thread, and returns the reader's end. Each packet of the kind `d` has a socket beside it.
///
/// # Panics
/// The kernel makes no sockets.
pub fn play(packets: Vec<Vec<u8>>) -> OwnedFd {
    let (ours, theirs) = pair();
    std::thread::spawn(move || {
        for packet in packets {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let (descriptor, _end) = pair();
            let descriptors = [descriptor.as_fd()];
            if packet.first() == Some(&b'd') {
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            }
            let octets = [IoSlice::new(&packet)];
            // A reader that refuses closes the socket.
            if rustix::net::sendmsg(&ours, &octets, &mut ancillary, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
        // Answers are read until the reader closes the socket: the kernel drops what was sent if they are not.
        let _ = rustix::net::shutdown(&ours, rustix::net::Shutdown::Write);
        let mut answer = [0_u8; 4096];
        while rustix::net::recv(&ours, &mut answer, RecvFlags::empty()).is_ok_and(|(read, _)| read > 0) {}
    });
    theirs
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a pair of sockets")
}
