//! Packets for components without a socket of their own: received here and handed over by calls, sent on request.

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// The largest relayed packet, in octets: as large as IP's.
pub const PACKET: usize = 65_535;

/// A received packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The sender.
    pub source: SocketAddr,
    /// The destination; unspecified if unknown.
    pub destination: IpAddr,
    /// The number of the receiving interface; 0 if unknown.
    pub interface: u32,
    /// The TTL or hop limit; 0 if unknown.
    pub ttl: u32,
    /// The octets after the IP (and UDP) header.
    pub payload: Vec<u8>,
}

/// The next packet; `buffer` has room for [`PACKET`] octets. `raw_ipv4` sockets give the IP header too, which is left out.
pub fn receive(socket: &OwnedFd, raw_ipv4: bool, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut data = [IoSliceMut::new(buffer)];
    let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::in_pktinfo, i32, i32);
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut data, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
    let unknown = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let source = message.address.as_ref().and_then(socket_address).unwrap_or(unknown);
    let mut packet = Packet {
        source,
        destination: crate::sockets::broker::unspecified(source.is_ipv4()),
        interface: 0,
        ttl: 0,
        payload: Vec::new(),
    };
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                packet.destination = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into();
                packet.interface = info.ipi_ifindex.unsigned_abs();
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                packet.destination = Ipv6Addr::from(info.ipi6_addr.s6_addr).into();
                packet.interface = info.ipi6_ifindex;
            }
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                packet.ttl = ttl.unsigned_abs();
            }
            _ => {}
        }
    }
    let length = message.bytes;
    let octets = buffer.get(..length).unwrap_or_default();
    // The header's length is in its first octet, in words of 4 octets (RFC 791, section 3.1).
    let header = if raw_ipv4 { octets.first().map_or(0, |o| usize::from(o & 0xf) * 4) } else { 0 };
    packet.payload = octets.get(header..).unwrap_or_default().to_vec();
    Ok(packet)
}

/// Sends a packet; `interface` 0 leaves the choice to the system.
pub fn send(socket: &OwnedFd, to: SocketAddr, interface: u32, payload: &[u8]) -> io::Result<()> {
    let data = [IoSlice::new(payload)];
    let (ipv4, ipv6);
    let control = match to {
        _ if interface == 0 => None,
        SocketAddr::V4(_) => {
            ipv4 = libc::in_pktinfo {
                ipi_ifindex: i32::try_from(interface).unwrap_or(0),
                ipi_spec_dst: libc::in_addr { s_addr: 0 },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            Some(ControlMessage::Ipv4PacketInfo(&ipv4))
        }
        SocketAddr::V6(_) => {
            ipv6 =
                libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: [0; 16] }, ipi6_ifindex: interface };
            Some(ControlMessage::Ipv6PacketInfo(&ipv6))
        }
    };
    let to = match to {
        SocketAddr::V6(a) if a.ip().is_unicast_link_local() || a.ip().is_multicast() => {
            SocketAddr::V6(SocketAddrV6::new(*a.ip(), a.port(), 0, interface))
        }
        other => other,
    };
    let to = SockaddrStorage::from(to);
    sendmsg(socket.as_raw_fd(), &data, control.as_slice(), MsgFlags::MSG_DONTWAIT, Some(&to))?;
    Ok(())
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let ipv4 = address.as_sockaddr_in().map(|a| SocketAddr::V4(SocketAddrV4::from(*a)));
    ipv4.or_else(|| address.as_sockaddr_in6().map(|a| SocketAddr::V6(SocketAddrV6::from(*a))))
}
