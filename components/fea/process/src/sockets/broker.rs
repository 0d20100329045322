//! The socket broker's hands: opens requested sockets. The permission is checked before.

use crate::ffi;
use crate::filter::{self, Program};
use sluice_clients::LinkProtocol;
use sluice_fea::socket::{ICMPV6, Reception, SocketKind};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

/// A socket to be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketRequest {
    /// The kind of the socket.
    pub kind: Kind,
    /// The interface of the binding.
    pub interface: Option<String>,
    /// TTL or hop limit of sent packets; `None` is the system's default.
    pub ttl: Option<u8>,
    /// The least TTL or hop limit of received packets (GTSM, RFC 5082).
    pub min_ttl: Option<u8>,
    /// The differentiated services code point of sent packets (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// The received packets beside packets to the host itself. Groups need an interface.
    pub reception: Reception,
}

/// The kinds of sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// TCP, listening.
    TcpListener {
        /// Address and port; an unspecified address is any of the family.
        local: SocketAddr,
        /// The most connections that wait to be accepted.
        backlog: i32,
    },
    /// TCP, bound and ready to connect.
    TcpConnector {
        /// The address to connect from; `None` leaves the choice to the system.
        local: Option<IpAddr>,
        /// The remote address.
        remote: SocketAddr,
        /// The MD5 key of the connection (RFC 2385).
        md5: Option<String>,
    },
    /// UDP, bound.
    Udp {
        /// Address and port.
        local: SocketAddr,
        /// The last port of the range from which a free port is chosen; `None` for the port of `local`, which sockets may share.
        last: Option<u16>,
    },
    /// UDP, connected.
    UdpConnector {
        /// The address to send from, with any free port.
        local: IpAddr,
        /// The remote address and port.
        remote: SocketAddr,
    },
    /// Raw IP.
    Raw {
        /// True for IPv4.
        ipv4: bool,
        /// The IP protocol.
        protocol: u8,
    },
    /// Packets of the link layer on the request's interface.
    Packet {
        /// The protocol.
        protocol: LinkProtocol,
    },
}

impl Kind {
    /// Returns true for sockets of IPv4.
    pub fn is_ipv4(&self) -> bool {
        match self {
            Kind::TcpListener { local, .. } | Kind::Udp { local, .. } => local.is_ipv4(),
            Kind::TcpConnector { remote, .. } | Kind::UdpConnector { remote, .. } => remote.is_ipv4(),
            Kind::Raw { ipv4, .. } => *ipv4,
            Kind::Packet { .. } => false,
        }
    }
}

impl SocketRequest {
    /// Returns the right needed from the policy.
    pub fn right(&self) -> SocketKind {
        match &self.kind {
            Kind::TcpListener { local, .. } => SocketKind::TcpListen(local.port()),
            Kind::TcpConnector { remote, .. } => SocketKind::TcpConnect(remote.port()),
            Kind::UdpConnector { remote, .. } => SocketKind::UdpConnect(remote.port()),
            Kind::Udp { local, last: None } => SocketKind::Udp(local.port()),
            Kind::Udp { local, last: Some(last) } => SocketKind::UdpRange(local.port(), *last),
            Kind::Packet { protocol } => SocketKind::Packet(*protocol),
            Kind::Raw { protocol, .. } => SocketKind::Raw(*protocol),
        }
    }

    /// Opens the socket, non-blocking and closed on exec.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let ipv4 = self.kind.is_ipv4();
        let (kind, protocol) = match &self.kind {
            Kind::TcpListener { .. } | Kind::TcpConnector { .. } => (Type::STREAM, Protocol::TCP),
            Kind::Udp { .. } | Kind::UdpConnector { .. } => (Type::DGRAM, Protocol::UDP),
            Kind::Raw { protocol, .. } => (Type::RAW, Protocol::from(i32::from(*protocol))),
            Kind::Packet { protocol } => return self.open_packet(*protocol),
        };
        let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, kind.nonblocking().cloexec(), Some(protocol))?;
        if !ipv4 && !matches!(self.kind, Kind::Raw { .. }) {
            socket.set_only_v6(true)?;
        }
        let index = self.interface.as_deref().map(interface_index).transpose()?;
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        self.set_header_fields(&socket, ipv4)?;
        self.join_groups(&socket, ipv4, index)?;
        match &self.kind {
            Kind::TcpListener { local, backlog } => {
                socket.set_reuse_address(true)?;
                socket.bind(&scoped(*local, index))?;
                socket.listen(*backlog)?;
            }
            Kind::TcpConnector { local, remote, md5 } => {
                if let Some(local) = local {
                    socket.bind(&scoped(SocketAddr::new(*local, 0), index))?;
                }
                if let Some(key) = md5 {
                    set_tcp_md5(&socket, remote.ip(), None, key)?;
                }
            }
            Kind::Udp { local, last: None } => {
                socket.set_reuse_address(true)?;
                self.request_packet_info(&socket, ipv4)?;
                socket.bind(&scoped(*local, index))?;
            }
            Kind::Udp { local, last: Some(last) } => {
                self.request_packet_info(&socket, ipv4)?;
                bind_in_range(&socket, *local, *last, index)?;
            }
            Kind::UdpConnector { local, remote } => {
                self.request_packet_info(&socket, ipv4)?;
                socket.bind(&scoped(SocketAddr::new(*local, 0), index))?;
                socket.connect(&scoped(*remote, index))?;
            }
            Kind::Raw { protocol, .. } => {
                if !self.reception.icmpv6_types.is_empty() {
                    if ipv4 || *protocol != ICMPV6 {
                        return Err(invalid("types of ICMPv6 are for IPv6 sockets of protocol 58"));
                    }
                    fix_filter(&socket, &mut Program::icmpv6(&self.reception.icmpv6_types))?;
                }
                self.request_packet_info(&socket, ipv4)?;
            }
            Kind::Packet { .. } => {}
        }
        Ok(socket.into())
    }

    /// Opens a packet socket, which receives no packets until the filter is set and locked.
    fn open_packet(&self, protocol: LinkProtocol) -> io::Result<OwnedFd> {
        let name = self.interface.as_deref().ok_or_else(|| invalid("a packet socket needs an interface"))?;
        let index = interface_index(name)?;
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking().cloexec(), None)?;
        fix_filter(&socket, &mut Program::packet(protocol, index))?;
        ffi::bind_packet(socket.as_fd(), filter::ether_type(protocol), index)?;
        for group in &self.reception.link_groups {
            ffi::join_link_group(socket.as_fd(), index, group.0)?;
        }
        Ok(socket.into())
    }

    fn set_header_fields(&self, socket: &Socket, ipv4: bool) -> io::Result<()> {
        if let Some(ttl) = self.ttl {
            let ttl = u32::from(ttl);
            if ipv4 {
                socket.set_ttl_v4(ttl)?
            } else {
                socket.set_unicast_hops_v6(ttl)?
            }
            if !self.reception.groups.is_empty() {
                if ipv4 { socket.set_multicast_ttl_v4(ttl)? } else { socket.set_multicast_hops_v6(ttl)? }
            }
        }
        if let Some(min) = self.min_ttl {
            let (level, option) = if ipv4 {
                (libc::IPPROTO_IP, libc::IP_MINTTL)
            } else {
                (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT)
            };
            ffi::set_int(socket.as_fd(), level, option, i32::from(min))?;
        }
        if self.dscp > 63 {
            return Err(invalid("a DSCP is at most 63"));
        }
        if self.dscp > 0 {
            let field = u32::from(self.dscp) << 2;
            if ipv4 { socket.set_tos_v4(field)? } else { socket.set_tclass_v6(field)? }
        }
        Ok(())
    }

    fn join_groups(&self, socket: &Socket, ipv4: bool, index: Option<u32>) -> io::Result<()> {
        if self.reception.groups.is_empty() {
            return Ok(());
        }
        let index = index.ok_or_else(|| invalid("a multicast group needs an interface"))?;
        for group in &self.reception.groups {
            match group {
                IpAddr::V4(g) => socket.join_multicast_v4_n(g, &InterfaceIndexOrAddress::Index(index))?,
                IpAddr::V6(g) => socket.join_multicast_v6(g, index)?,
            }
        }
        if ipv4 {
            socket.set_multicast_loop_v4(false)
        } else {
            socket.set_multicast_if_v6(index)?;
            socket.set_multicast_loop_v6(false)
        }
    }

    /// Requests destination, interface and TTL with each packet (RFC 3542 for IPv6).
    fn request_packet_info(&self, socket: &Socket, ipv4: bool) -> io::Result<()> {
        let options = if ipv4 {
            [(libc::IPPROTO_IP, libc::IP_PKTINFO), (libc::IPPROTO_IP, libc::IP_RECVTTL)]
        } else {
            [(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO), (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT)]
        };
        options.into_iter().try_for_each(|(level, option)| ffi::set_int(socket.as_fd(), level, option, 1))
    }
}

/// Returns the kind of a descriptor of a listening TCP socket.
pub fn listener(descriptor: &OwnedFd) -> io::Result<Kind> {
    let socket = SockRef::from(descriptor);
    let local = socket.local_addr()?.as_socket();
    let is_listener = socket.protocol()? == Some(Protocol::TCP) && socket.is_listener()?;
    let local = local.filter(|_| is_listener).ok_or_else(|| invalid("the socket is no TCP listener"))?;
    // The kernel keeps the length of the queue to itself.
    Ok(Kind::TcpListener { local, backlog: 0 })
}

/// linux/in6.h; missing in libc for Linux.
const IPV6_MINHOPCOUNT: i32 = 73;

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Sets and locks a socket's filter.
fn fix_filter(socket: &Socket, program: &mut Program) -> io::Result<()> {
    ffi::attach_filter(socket.as_fd(), program.instructions())?;
    ffi::lock_filter(socket.as_fd())
}

/// Binds a socket to the first free port from a random port on.
fn bind_in_range(socket: &Socket, local: SocketAddr, last: u16, index: Option<u32>) -> io::Result<()> {
    let ports = u32::from(last.saturating_sub(local.port())) + 1;
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|e| io::Error::other(e.to_string()))?;
    let start = u32::from_ne_bytes(random) % ports;
    for step in 0..ports {
        // Below 65,536: the offset is less than the number of ports.
        let port = local.port().saturating_add(((start + step) % ports) as u16);
        match socket.bind(&scoped(SocketAddr::new(local.ip(), port), index)) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "every port of the range is in use"))
}

/// Sets the MD5 key (RFC 2385) on a connection or a listener for segments of `peer`, or of all addresses with the first `prefix_length`
/// bits of `peer`; an empty key removes the key. The key of the longest prefix counts.
///
/// # Errors
/// The key is too long, or the kernel refuses it: a prefix is longer than an address, or the kernel is older than Linux 4.13.
pub fn set_tcp_md5(socket: &impl AsFd, peer: IpAddr, prefix_length: Option<u8>, key: &str) -> io::Result<()> {
    match ffi::set_tcp_md5(socket.as_fd(), peer, prefix_length, key.as_bytes()) {
        // There was none to remove.
        Err(e) if key.is_empty() && e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

fn interface_index(name: &str) -> io::Result<u32> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("interface {name}: {e}")))
}

/// Returns the address for `bind`: a link-local address is scoped to the interface.
fn scoped(address: SocketAddr, index: Option<u32>) -> SockAddr {
    match (address, index) {
        (SocketAddr::V6(a), Some(index)) if a.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*a.ip(), a.port(), 0, index).into()
        }
        _ => address.into(),
    }
}

/// Returns the wildcard address of the family.
pub fn unspecified(ipv4: bool) -> IpAddr {
    if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}
