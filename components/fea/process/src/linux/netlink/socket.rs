//! Netlink sockets.

use crate::ffi;
use crate::filter::instruction;
use crate::linux::netlink::decode::{self, Message};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::{
    NLM_F_REPLACE, NLMSG_DONE, NLMSG_ERROR, RTA_PRIORITY, RTM_DELROUTE, RTM_NEWROUTE,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, getsockname, recv, sendto,
    socket,
};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The longest wait for the kernel's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest buffer of a socket in either direction, in octets. A million refusals or notices fit no buffer; some thousands must.
const BUFFER: i32 = 32 << 20;

/// The largest datagram of the kernel in a dump; further datagrams are smaller.
pub(crate) const DATAGRAM: usize = 64 << 10;

/// A socket to the kernel's routing.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
}

impl Socket {
    /// Opens a socket, which never blocks.
    pub fn open() -> io::Result<Self> {
        Socket::open_to(SockProtocol::NetlinkRoute)
    }

    /// Opens a socket to the kernel's packet filter, which never blocks.
    pub(crate) fn open_to_filter() -> io::Result<Self> {
        Socket::open_to(SockProtocol::NetlinkNetFilter)
    }

    /// Opens a socket to the kernel's families of generic netlink, which never blocks.
    pub(crate) fn open_to_generic() -> io::Result<Self> {
        Socket::open_to(SockProtocol::NetlinkGeneric)
    }

    fn open_to(protocol: SockProtocol) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let port = getsockname::<NetlinkAddr>(fd.as_raw_fd())?.pid();
        for option in [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
            // Without CAP_NET_ADMIN in the first user namespace, up to the system's limit.
            let plain = if option == libc::SO_SNDBUFFORCE { libc::SO_SNDBUF } else { libc::SO_RCVBUF };
            ffi::set_int(fd.as_fd(), libc::SOL_SOCKET, option, BUFFER)
                .or_else(|_| ffi::set_int(fd.as_fd(), libc::SOL_SOCKET, plain, BUFFER))?;
        }
        for option in [libc::NETLINK_CAP_ACK, libc::NETLINK_EXT_ACK, libc::NETLINK_GET_STRICT_CHK] {
            ffi::set_int(fd.as_fd(), libc::SOL_NETLINK, option, 1)?;
        }
        Ok(Socket { fd, port })
    }

    /// The kernel's number of the socket, contained in every notice caused by the socket.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Joins a group of notices.
    pub fn join(&self, group: u32) -> io::Result<()> {
        ffi::set_int(self.fd.as_fd(), libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group as i32)
    }

    /// Lets the kernel drop early the notices caused by the socket `port`, and the notices of new foreign routes that replace
    /// no route and have no better preference than `preference`, a number of one octet.
    pub fn ignore(&self, port: u32, protocol: u8, preference: u32) -> io::Result<()> {
        let load = |size: u32, at: u32| instruction(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
        let jump =
            |test: u32, value, yes, no| instruction(libc::BPF_JMP | test | libc::BPF_K, yes, no, value);
        let constant = |register: u32, value: u16| instruction(register | libc::BPF_IMM, 0, 0, value.into());
        // The filter's machine loads numbers as the network writes them. A number of one octet has that octet first or last.
        let octet = u32::from(u8::MAX).to_be();
        let mut program = [
            load(libc::BPF_W, 12),
            jump(libc::BPF_JEQ, port.to_be(), 14, 0),
            load(libc::BPF_H, 4),
            jump(libc::BPF_JEQ, RTM_NEWROUTE.to_be().into(), 0, 13),
            load(libc::BPF_B, 16 + 5),
            jump(libc::BPF_JEQ, protocol.into(), 11, 0),
            load(libc::BPF_H, 6),
            jump(libc::BPF_JSET, NLM_F_REPLACE.to_be().into(), 9, 0),
            // The place of the preference among the attributes, which follow a header and a struct rtmsg; without one it is 0.
            constant(libc::BPF_LD, 16 + 12),
            constant(libc::BPF_LDX, RTA_PRIORITY),
            load(libc::BPF_W, (libc::SKF_AD_OFF + libc::SKF_AD_NLATTR) as u32),
            jump(libc::BPF_JEQ, 0, 5, 0),
            instruction(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0),
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, 0, 0, 4),
            jump(libc::BPF_JSET, !octet, 1, 0),
            jump(libc::BPF_JGE, preference.to_be(), 0, 1),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        ];
        ffi::attach_filter(self.fd.as_fd(), &mut program)
    }

    /// Lets the kernel drop early the notices of routes with the mark `protocol`.
    pub(crate) fn ignore_routes_of(&self, protocol: u8) -> io::Result<()> {
        let load = |size: u32, at: u32| instruction(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
        let equal = |value, yes, no| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
        // The filter's machine loads numbers as the network writes them.
        let mut program = [
            load(libc::BPF_H, 4),
            equal(u32::from(RTM_NEWROUTE.to_be()), 1, 0),
            equal(u32::from(RTM_DELROUTE.to_be()), 0, 3),
            load(libc::BPF_B, 16 + 5),
            equal(u32::from(protocol), 0, 1),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        ];
        ffi::attach_filter(self.fd.as_fd(), &mut program)
    }

    /// Sends a request and passes each message of the answer to `each`, until the answer ends or `each` breaks. Blocks the
    /// thread, at most [`PATIENCE`] between two datagrams; so for sockets of requests only.
    pub fn request(
        &self,
        request: &Messages,
        mut each: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.send(request.octets())?;
        let mut buffer = vec![0; DATAGRAM];
        loop {
            self.wait()?;
            while let Some(datagram) = self.receive(&mut buffer)? {
                for message in decode::messages(datagram) {
                    match message.kind {
                        NLMSG_DONE => return Ok(()),
                        NLMSG_ERROR => {
                            return match decode::error(&message) {
                                Some((code, _)) if code != 0 => Err(io::Error::from_raw_os_error(code)),
                                _ => Ok(()),
                            };
                        }
                        _ if each(&message).is_break() => return Ok(()),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Waits until the socket is readable.
    fn wait(&self) -> io::Result<()> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.as_fd(), PollFlags::POLLIN)], timeout)? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }

    /// Sends a datagram to the kernel, which processes the datagram before the call returns.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.fd.as_raw_fd(), datagram, &kernel, MsgFlags::empty()).map(drop).map_err(io::Error::from)
    }

    /// Returns the next datagram; `None` if no datagram waits.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(n) => Ok(buffer.get(..n)),
            Err(nix::Error::EAGAIN) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
