//! Packet sockets (packet(7)) that the FEA opens: frames of one EtherType on one interface, many by one system call.

mod ffi;

use crate::{Frame, SocketError, descriptor};
use ffi::{BATCH, Buffers, Outgoing};
use sluice_base::{InterfaceIndex, Mac};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as fea;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tokio::io::unix::AsyncFd;

pub use ffi::Link;

/// The kernel's class of frames to this host.
pub const PACKET_HOST: u8 = 0;
/// The kernel's class of frames to another host.
pub const PACKET_OTHERHOST: u8 = 3;

/// Frames that wait for a socket with a full queue.
const MOST_WAITING: usize = 1024;

/// A packet socket, and the frames that wait to be sent.
pub struct PacketSocket {
    interface: InterfaceIndex,
    ether_type: u16,
    socket: AsyncFd<OwnedFd>,
    waiting: RefCell<Vec<Outgoing>>,
}

impl PacketSocket {
    /// Opens a socket by the FEA, which receives the groups `groups` of the link layer too. The component's `rights.toml` needs the call
    /// `fea.v1.Sockets/OpenPacket`, the EtherType in `[sockets] packet`, and the groups in `link_groups`.
    ///
    /// # Errors
    /// The FEA's refusal, or the failure of the socket's transfer.
    pub async fn open(
        frame: &Frame,
        interface: InterfaceIndex,
        name: &str,
        ether_type: u16,
        groups: &[Mac],
    ) -> Result<Rc<Self>, SocketError> {
        let request = fea::OpenPacketRequest {
            interface: name.into(),
            protocol: Some(fea::open_packet_request::Protocol::EtherType(ether_type.into())),
            groups: groups.iter().map(|group| common::Mac { octets: group.0.to_vec() }).collect(),
        };
        let reply = fea::SocketsClient::new(&frame.router, "fea").open_packet(request).await?;
        let socket = descriptor::fetch(&frame.run_dir, &reply.token).await?;
        Ok(PacketSocket::of(socket, interface, ether_type)?)
    }

    /// Takes a packet socket that was opened otherwise.
    ///
    /// # Errors
    /// The kernel refuses to watch the socket.
    pub fn of(socket: OwnedFd, interface: InterfaceIndex, ether_type: u16) -> io::Result<Rc<Self>> {
        let socket = crate::watch(socket)?;
        Ok(Rc::new(PacketSocket { interface, ether_type, socket, waiting: RefCell::default() }))
    }

    /// Receives packets, for ever, hands each to `packet`, and calls `received` after each batch.
    ///
    /// # Errors
    /// The interface is gone.
    pub async fn receive(&self, packet: impl Fn(Link, &[u8]), received: impl Fn()) -> io::Result<()> {
        let mut buffers = Buffers::default();
        loop {
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| buffers.receive(socket.as_fd())) {
                Err(_would_block) => continue,
                Ok(count) => count?,
            };
            for (link, octets) in buffers.packets() {
                packet(link, octets);
            }
            received();
            // A task that always has packets lets others run.
            tokio::task::yield_now().await;
        }
    }

    /// Sends a frame with the next flush. Frames beyond a bound are dropped, as by a full queue of the kernel.
    pub fn push(&self, to: Mac, octets: Vec<u8>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() < MOST_WAITING {
            waiting.push(Outgoing { link: Link { mac: to, class: 0, ether_type: self.ether_type }, octets });
        }
        if waiting.len() >= BATCH {
            drop(waiting);
            self.flush();
        }
    }

    /// Sends the frames that wait. A frame that the kernel does not take is dropped: the network may lose any.
    pub fn flush(&self) {
        let mut waiting = self.waiting.borrow_mut();
        let mut left = &waiting[..];
        while !left.is_empty() {
            let sent = ffi::send(self.socket.get_ref().as_fd(), self.interface.number(), left).unwrap_or(1);
            left = left.get(sent.max(1)..).unwrap_or_default();
        }
        waiting.clear();
    }
}
