//! Many packets by one system call: recvmmsg(2) and sendmmsg(2) on packet sockets.
#![allow(unsafe_code)]

use sluice_base::Mac;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets by one call.
pub const BATCH: usize = 64;
/// Octets of the largest packet that is received.
pub const LARGEST: usize = 9216;

/// The link-layer side of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The sender's address, or for a packet to send the receiver's.
    pub mac: Mac,
    /// The kernel's class of the destination (`PACKET_HOST`, `PACKET_BROADCAST`, ...).
    pub class: u8,
    /// The EtherType.
    pub ether_type: u16,
}

/// Buffers for one batch.
pub struct Buffers {
    octets: Vec<u8>,
    addresses: Box<[libc::sockaddr_ll; BATCH]>,
    lengths: [usize; BATCH],
    received: usize,
}

impl Default for Buffers {
    fn default() -> Self {
        // SAFETY: all fields of sockaddr_ll are integers, for which zeros are valid.
        let addresses = Box::new(unsafe { zeroed::<[libc::sockaddr_ll; BATCH]>() });
        Buffers { octets: vec![0; BATCH * LARGEST], addresses, lengths: [0; BATCH], received: 0 }
    }
}

impl Buffers {
    /// Receives up to [`BATCH`] packets without waiting, and returns their number.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no packet; else the kernel's error.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received = 0;
        let mut places: [libc::iovec; BATCH] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        for (place, octets) in places.iter_mut().zip(self.octets.chunks_exact_mut(LARGEST)) {
            *place = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: LARGEST };
        }
        let mut messages: [MaybeUninit<libc::mmsghdr>; BATCH] = [const { MaybeUninit::zeroed() }; BATCH];
        let addresses = self.addresses.iter_mut();
        for ((message, place), address) in messages.iter_mut().zip(&mut places).zip(addresses) {
            // SAFETY: all fields of mmsghdr are integers and pointers, for which zeros are valid.
            let header = unsafe { &mut message.assume_init_mut().msg_hdr };
            header.msg_name = std::ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            header.msg_iov = place;
            header.msg_iovlen = 1;
        }
        // SAFETY: each message points to an address and to a place of LARGEST octets, all of which live until the call
        // returns and belong to no other message.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        self.received = (received as usize).min(BATCH);
        for (message, length) in messages.iter().zip(&mut self.lengths).take(self.received) {
            // SAFETY: the message was initialized with zeros above.
            *length = (unsafe { message.assume_init_ref() }.msg_len as usize).min(LARGEST);
        }
        Ok(self.received)
    }

    /// Returns the packets of the last batch.
    pub fn packets(&self) -> impl Iterator<Item = (Link, &[u8])> {
        let addresses = self.addresses.iter().zip(&self.lengths).take(self.received);
        addresses.zip(self.octets.chunks_exact(LARGEST)).map(|((address, length), octets)| {
            let [a, b, c, d, e, f, _, _] = address.sll_addr;
            let link = Link {
                mac: Mac([a, b, c, d, e, f]),
                class: address.sll_pkttype,
                ether_type: u16::from_be(address.sll_protocol),
            };
            (link, octets.get(..*length).unwrap_or_default())
        })
    }
}

/// A packet to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The receiver's address and the EtherType.
    pub link: Link,
    /// The packet without the header of the link layer.
    pub octets: Vec<u8>,
}

/// Sends up to [`BATCH`] packets on an interface without waiting, and returns the number of those that the kernel took.
///
/// # Errors
///
/// The kernel's error about the first packet.
pub fn send(socket: BorrowedFd<'_>, interface: u32, packets: &[Outgoing]) -> io::Result<usize> {
    let count = packets.len().min(BATCH);
    // SAFETY: all fields of sockaddr_ll are integers, for which zeros are valid.
    let mut addresses = unsafe { zeroed::<[libc::sockaddr_ll; BATCH]>() };
    let mut places: [libc::iovec; BATCH] =
        std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
    let mut messages: [MaybeUninit<libc::mmsghdr>; BATCH] = [const { MaybeUninit::zeroed() }; BATCH];
    for (((packet, address), place), message) in
        packets.iter().zip(&mut addresses).zip(&mut places).zip(&mut messages)
    {
        let [a, b, c, d, e, f] = packet.link.mac.0;
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = packet.link.ether_type.to_be();
        address.sll_ifindex = interface as i32;
        address.sll_halen = 6;
        address.sll_addr = [a, b, c, d, e, f, 0, 0];
        *place =
            libc::iovec { iov_base: packet.octets.as_ptr().cast_mut().cast(), iov_len: packet.octets.len() };
        // SAFETY: all fields of mmsghdr are integers and pointers, for which zeros are valid.
        let header = unsafe { &mut message.assume_init_mut().msg_hdr };
        header.msg_name = std::ptr::from_mut(address).cast();
        header.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        header.msg_iov = place;
        header.msg_iovlen = 1;
    }
    // SAFETY: the first `count` messages point to addresses and octets that live until the call returns; the kernel
    // only reads them.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr().cast(), count as u32, libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}
