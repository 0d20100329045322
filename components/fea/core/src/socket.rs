//! The rules for the opening of sockets by components, as data.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_clients::{LinkGroup, LinkProtocol, PacketRight, PortRight, SocketRights};

/// The IP protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// A requested socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SocketKind {
    /// A TCP socket that listens on a port.
    TcpListen(u16),
    /// A TCP socket to connect to a port.
    TcpConnect(u16),
    /// A UDP socket connected to a port.
    UdpConnect(u16),
    /// A UDP socket bound to a port.
    Udp(u16),
    /// A UDP socket bound to a free port of a range.
    UdpRange(u16, u16),
    /// A raw IP socket of a protocol.
    Raw(u8),
    /// A packet socket of a protocol.
    Packet(LinkProtocol),
}

/// The packets received beside packets to the host itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reception {
    /// Multicast groups to join.
    pub groups: Vec<IpAddr>,
    /// Groups of the link layer to join.
    pub link_groups: Vec<LinkGroup>,
    /// The received types of ICMPv6; empty for all.
    pub icmpv6_types: Vec<u8>,
}

impl fmt::Display for SocketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketKind::TcpListen(port) => write!(f, "listen on TCP port {port}"),
            SocketKind::TcpConnect(port) => write!(f, "connect to TCP port {port}"),
            SocketKind::UdpConnect(port) => write!(f, "connect to UDP port {port}"),
            SocketKind::Udp(port) => write!(f, "bind UDP port {port}"),
            SocketKind::UdpRange(first, last) => write!(f, "bind a UDP port from {first} to {last}"),
            SocketKind::Packet(protocol) => write!(f, "open packet sockets of {protocol}"),
            SocketKind::Raw(protocol) => write!(f, "open IP protocol {protocol}"),
        }
    }
}

/// The reason why a socket is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The component's rights do not say so.
    Kind(String, SocketKind),
    /// The rights do not name the group.
    Group(String, IpAddr),
    /// The rights do not name the link-layer group.
    LinkGroup(String, LinkGroup),
    /// The rights do not name the type of ICMPv6.
    Icmpv6Type(String, u8),
    /// The component has no socket rights at all.
    Unknown(String),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Kind(who, kind) => write!(f, "{who} may not {kind}"),
            Denied::Group(who, group) => write!(f, "{who} may not join {group}"),
            Denied::LinkGroup(who, group) => write!(f, "{who} may not join {group}"),
            Denied::Icmpv6Type(who, number) => write!(f, "{who} may not receive ICMPv6 type {number}"),
            Denied::Unknown(who) => write!(f, "{who} may not open sockets"),
        }
    }
}

impl core::error::Error for Denied {}

/// The rights of all components, by name: a class or an instance (`bgp@red`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SocketPolicy {
    /// The rights by name.
    pub components: BTreeMap<String, SocketRights>,
}

impl SocketPolicy {
    /// Checks that the component `who` may have a socket of `kind` that receives `reception`.
    pub fn check(&self, who: &str, kind: SocketKind, reception: &Reception) -> Result<(), Denied> {
        let rights = self.components.get(who).ok_or_else(|| Denied::Unknown(who.into()))?;
        let covers = |list: &[PortRight], first, last| list.iter().any(|right| right.covers(first, last));
        let is_allowed = match kind {
            SocketKind::TcpListen(port) => covers(&rights.tcp_listen, port, port),
            SocketKind::TcpConnect(port) => covers(&rights.tcp_connect, port, port),
            SocketKind::UdpConnect(port) => covers(&rights.udp_connect, port, port),
            SocketKind::Udp(port) => covers(&rights.udp, port, port),
            SocketKind::UdpRange(first, last) => covers(&rights.udp, first, last),
            SocketKind::Raw(ICMPV6) if !reception.icmpv6_types.is_empty() => {
                let is_allowed = |number: &u8| rights.raw.contains(&ICMPV6) || rights.icmpv6.contains(number);
                if let Some(number) = reception.icmpv6_types.iter().find(|number| !is_allowed(number)) {
                    return Err(Denied::Icmpv6Type(who.into(), *number));
                }
                true
            }
            SocketKind::Raw(protocol) => rights.raw.contains(&protocol),
            SocketKind::Packet(protocol) => rights.packet.contains(&PacketRight::Protocol(protocol)),
        };
        if !is_allowed {
            return Err(Denied::Kind(who.into(), kind));
        }
        let is_named = |group: &IpAddr| rights.multicast.iter().any(|pattern| pattern.covers(*group));
        if let Some(group) = reception.groups.iter().find(|group| !is_named(group)) {
            return Err(Denied::Group(who.into(), *group));
        }
        match reception.link_groups.iter().find(|group| !rights.link_groups.contains(group)) {
            Some(group) => Err(Denied::LinkGroup(who.into(), *group)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn policy() -> SocketPolicy {
        serde_json::from_value(serde_json::json!({
            "bgp": {"tcp_listen": [179], "tcp_connect": [179, "1024-65535", "config:neighbor/*/port"]},
            "ospf": {"raw": [89]},
            "rip": {"udp": [520], "multicast": ["224.0.0.9", "ff02::/16"]},
            "ntp": {"udp_connect": [123]},
            "bfd": {"udp": [3784, "49152-65535"]},
            "isis": {"packet": ["llc:fe"], "link_groups": ["01:80:c2:00:00:14"]},
            "ra": {"icmpv6": [133, 134]},
        }))
        .expect("valid")
    }

    fn check(who: &str, kind: SocketKind, reception: Reception, expected: Result<(), &str>) {
        let got = policy().check(who, kind, &reception).map_err(|e| e.to_string());
        assert_eq!(got, expected.map_err(|e| e.to_string()));
    }

    fn groups(groups: &[&str]) -> Reception {
        Reception {
            groups: groups.iter().map(|g| g.parse().expect("valid")).collect(),
            ..Reception::default()
        }
    }

    #[test]
    fn ports_protocols_and_groups() {
        use SocketKind::{Raw, TcpConnect, TcpListen, Udp, UdpConnect, UdpRange};
        let none = || groups(&[]);
        check("bgp", TcpListen(179), none(), Ok(()));
        check("bgp", TcpListen(1024), none(), Err("bgp may not listen on TCP port 1024"));
        for port in [179, 1024, u16::MAX] {
            check("bgp", TcpConnect(port), none(), Ok(()));
        }
        check("bgp", TcpConnect(22), none(), Err("bgp may not connect to TCP port 22"));
        check("bgp", TcpConnect(1023), none(), Err("bgp may not connect to TCP port 1023"));
        check("bgp", Raw(89), none(), Err("bgp may not open IP protocol 89"));
        check("ospf", Raw(89), none(), Ok(()));
        check("ospf", Raw(89), groups(&["224.0.0.5"]), Err("ospf may not join 224.0.0.5"));
        check("rip", Udp(520), groups(&["224.0.0.9", "ff02::9"]), Ok(()));
        check("rip", Udp(520), groups(&["224.0.0.9", "ff05::9"]), Err("rip may not join ff05::9"));
        check("rip", Udp(521), none(), Err("rip may not bind UDP port 521"));
        check("bfd", UdpRange(49152, 65535), none(), Ok(()));
        check("bfd", Udp(50000), none(), Ok(()));
        check("bfd", UdpRange(49151, 65535), none(), Err("bfd may not bind a UDP port from 49151 to 65535"));
        check("bfd", UdpRange(3784, 50000), none(), Err("bfd may not bind a UDP port from 3784 to 50000"));
        check("ntp", UdpConnect(123), none(), Ok(()));
        check("ntp", UdpConnect(53), none(), Err("ntp may not connect to UDP port 53"));
        check("ntp", Udp(123), none(), Err("ntp may not bind UDP port 123"));
        check("dns", UdpConnect(53), none(), Err("dns may not open sockets"));
    }

    #[test]
    fn packet_sockets_and_types_of_icmpv6() {
        use SocketKind::{Packet, Raw};
        let joining = |octets| Reception { link_groups: [LinkGroup(octets)].into(), ..Reception::default() };
        let all_intermediate_systems = [0x01, 0x80, 0xc2, 0, 0, 0x14];
        check("isis", Packet(LinkProtocol::Llc(0xfe)), joining(all_intermediate_systems), Ok(()));
        check(
            "isis",
            Packet(LinkProtocol::Llc(0xfe)),
            joining([1; 6]),
            Err("isis may not join 01:01:01:01:01:01"),
        );
        let lldp = LinkProtocol::EtherType(0x88cc);
        check("isis", Packet(lldp), groups(&[]), Err("isis may not open packet sockets of 0x88cc"));
        let types = |types: &[u8]| Reception { icmpv6_types: types.into(), ..Reception::default() };
        check("ra", Raw(ICMPV6), types(&[133, 134]), Ok(()));
        check("ra", Raw(ICMPV6), types(&[133, 135]), Err("ra may not receive ICMPv6 type 135"));
        check("ra", Raw(ICMPV6), types(&[]), Err("ra may not open IP protocol 58"));
    }
}
