//! The way to an address, as the kernel has it: the answer to a route look-up (rtnetlink(7)), and the interface of an address of the host.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrLike, recv, sendto,
    socket,
};
use sluice_base::IpPrefix;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
/// Asks for the entry of the table rather than the resolved route.
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
/// The protocol number of the router's routes.
const OURS: u8 = 83;

/// The way to an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The interface that packets leave by.
    pub interface: String,
    /// The next hop; none if the address is on the link.
    pub gateway: Option<IpAddr>,
    /// The route's prefix.
    pub prefix: IpPrefix,
    /// True if the router made the route.
    pub is_ours: bool,
}

/// A route as the kernel answers.
#[derive(Debug, PartialEq)]
struct Answer {
    protocol: u8,
    length: u8,
    destination: Option<IpAddr>,
    gateway: Option<IpAddr>,
    interface: Option<u32>,
}

/// Returns the way to an address; `None` without a route or a kernel answer.
pub fn to(address: IpAddr) -> Option<Way> {
    let hop = ask(address, 0).ok()?;
    // Before Linux 4.19 (IPv6: 5.1) the flag is not known, and the answer is the address itself.
    let entry = ask(address, RTM_F_FIB_MATCH).ok()?;
    let interface = nix::net::if_::if_indextoname(hop.interface?).ok()?.into_string().ok()?;
    let unspecified = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let prefix = IpPrefix::new(entry.destination.unwrap_or(unspecified), entry.length)?;
    Some(Way { interface, gateway: hop.gateway, prefix, is_ours: entry.protocol == OURS })
}

/// Returns the interface with an address of the host.
pub(crate) fn interface_of(address: IpAddr) -> Option<String> {
    let mut all = getifaddrs().ok()?;
    let found = all.find(|interface| {
        interface.address.as_ref().is_some_and(|own| match (own.as_sockaddr_in(), own.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()) == address,
            (_, Some(v6)) => IpAddr::V6(v6.ip()) == address,
            _ => false,
        })
    });
    found.map(|interface| interface.interface_name)
}

fn ask(address: IpAddr, flags: u32) -> io::Result<Answer> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkRoute,
    )?;
    let kernel = NetlinkAddr::new(0, 0);
    debug_assert_eq!(kernel.family(), Some(AddressFamily::Netlink));
    sendto(socket.as_raw_fd(), &request(address, flags), &kernel, MsgFlags::empty())?;
    // The kernel answers before the request returns.
    let mut octets = [0; 8192];
    let length = recv(socket.as_raw_fd(), &mut octets, MsgFlags::empty())?;
    answer(&octets[..length]).ok_or_else(|| io::Error::other("no route"))
}

fn request(address: IpAddr, flags: u32) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (AddressFamily::Inet, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AddressFamily::Inet6, v6.octets().to_vec()),
    };
    let attribute = 4 + octets.len();
    let mut out = Vec::new();
    out.extend((16 + 12 + attribute as u32).to_ne_bytes());
    out.extend(RTM_GETROUTE.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend([0; 8]);
    out.extend([family as i32 as u8, octets.len() as u8 * 8, 0, 0, 0, 0, 0, 0]);
    out.extend(flags.to_ne_bytes());
    out.extend((attribute as u16).to_ne_bytes());
    out.extend(RTA_DST.to_ne_bytes());
    out.extend(octets);
    out
}

/// Reads the kernel's answer; `None` for an error or a malformed answer.
fn answer(octets: &[u8]) -> Option<Answer> {
    let u16_at = |at: usize| Some(u16::from_ne_bytes(octets.get(at..at + 2)?.try_into().ok()?));
    let length = u32::from_ne_bytes(octets.get(..4)?.try_into().ok()?) as usize;
    if u16_at(4)? != RTM_NEWROUTE {
        return None;
    }
    let message = octets.get(16..length)?;
    let (head, mut rest) = message.split_at_checked(12)?;
    let mut answer = Answer {
        protocol: *head.get(5)?,
        length: *head.get(1)?,
        destination: None,
        gateway: None,
        interface: None,
    };
    while let Some((head, _)) = rest.split_first_chunk::<4>() {
        let [l0, l1, k0, k1] = *head;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes([k0, k1]) {
            RTA_DST => answer.destination = ip(value),
            RTA_GATEWAY => answer.gateway = ip(value),
            RTA_VIA => answer.gateway = ip(value.get(2..)?),
            RTA_OIF => answer.interface = Some(u32::from_ne_bytes(value.try_into().ok()?)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(answer)
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(|v4| IpAddr::V4(v4.into()));
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(|v6| IpAddr::V6(v6.into()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_knows_the_way_to_itself() {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let way = to(home).unwrap();
        assert_eq!((way.interface.as_str(), way.gateway, way.is_ours), ("lo", None, false));
        assert_eq!(interface_of(home).as_deref(), Some("lo"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(mut octets: Vec<u8>, length in 0u32..200) {
            let _ = answer(&octets);
            if let Some(head) = octets.get_mut(..6) {
                head[..4].copy_from_slice(&length.to_ne_bytes());
                head[4..].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
            }
            let _ = answer(&octets);
        }
    }
}
