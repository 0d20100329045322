//! The sockets that the FEA may open for a component, as `rights.toml` names them in `[sockets]`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::net::IpAddr;
use core::str::FromStr;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::IpPrefix;

/// The FEA opens these sockets for a component. Empty lists allow nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketRights {
    /// TCP ports to listen on.
    pub tcp_listen: Vec<PortRight>,
    /// TCP ports to connect to.
    pub tcp_connect: Vec<PortRight>,
    /// UDP ports to bind.
    pub udp: Vec<PortRight>,
    /// UDP ports to connect to, from any free port.
    pub udp_connect: Vec<PortRight>,
    /// Unix sockets of the host to connect to, by the component itself.
    pub unix_connect: Vec<SocketPath>,
    /// IP protocols of raw sockets. Protocol 58 allows every type of ICMPv6.
    pub raw: Vec<u8>,
    /// Types of ICMPv6 for raw sockets with a filter (RFC 4443).
    pub icmpv6: Vec<u8>,
    /// Multicast groups to join.
    pub multicast: Vec<GroupPattern>,
    /// Protocols of packet sockets.
    pub packet: Vec<PacketRight>,
    /// Groups of the link layer for packet sockets to join.
    pub link_groups: Vec<LinkGroup>,
}

impl SocketRights {
    /// Returns true if some ports or EtherTypes come from the configuration.
    pub fn follow_configuration(&self) -> bool {
        let has_ports =
            self.port_lists().into_iter().flatten().any(|right| matches!(right, PortRight::Configured(_)));
        has_ports || self.packet.iter().any(|right| matches!(right, PacketRight::Configured(_)))
    }

    /// Returns the rights with each place in the configuration replaced by the ports, or EtherTypes, from `numbers_at`.
    pub fn with_configuration(&self, numbers_at: impl Fn(&str) -> Vec<u16>) -> Self {
        let resolve = |rights: &[PortRight]| {
            let mut resolved = Vec::new();
            for right in rights {
                match right {
                    PortRight::Configured(path) => {
                        resolved.extend(numbers_at(path).into_iter().map(PortRight::one));
                    }
                    range => resolved.push(range.clone()),
                }
            }
            resolved
        };
        let [tcp_listen, tcp_connect, udp, udp_connect] = self.port_lists().map(resolve);
        let mut packet = Vec::new();
        for right in &self.packet {
            match right {
                PacketRight::Configured(path) => {
                    let types = numbers_at(path).into_iter().filter_map(LinkProtocol::ether_type);
                    packet.extend(types.map(PacketRight::Protocol));
                }
                protocol => packet.push(protocol.clone()),
            }
        }
        SocketRights { tcp_listen, tcp_connect, udp, udp_connect, packet, ..self.clone() }
    }

    fn port_lists(&self) -> [&[PortRight]; 4] {
        [&self.tcp_listen, &self.tcp_connect, &self.udp, &self.udp_connect]
    }
}

/// A right to ports: `179`, `"49152-65535"`, or `"config:neighbor/*/port"` for ports from the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortRight {
    /// The ports from the first to the second one.
    Range(u16, u16),
    /// The ports at a place in the component's own part of the configuration. Allows no port until the manager has replaced the
    /// place by the configured ports.
    Configured(String),
}

impl PortRight {
    /// Returns the right to one port.
    pub const fn one(port: u16) -> Self {
        PortRight::Range(port, port)
    }

    /// Returns true if the right covers all ports from `first` to `last`.
    pub fn covers(&self, first: u16, last: u16) -> bool {
        matches!(self, PortRight::Range(from, to) if *from <= first && last <= *to)
    }
}

/// Why a text is no right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RightError(String);

impl fmt::Display for RightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for RightError {}

/// Returns the place in the configuration that a right names; `None` for other rights.
fn configured(text: &str) -> Option<Result<String, RightError>> {
    let path = text.strip_prefix("config:")?;
    let is_path = !path.is_empty() && path.split('/').all(|step| !step.is_empty());
    let wrong =
        || RightError(format!("`{text}`: a place in the configuration is as in config:neighbor/*/port"));
    Some(is_path.then(|| path.into()).ok_or_else(wrong))
}

impl FromStr for PortRight {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        if let Some(path) = configured(text) {
            return path.map(PortRight::Configured);
        }
        let wrong = || {
            RightError(format!(
                "`{text}` is no port: write 179, \"49152-65535\" or \"config:neighbor/*/port\""
            ))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first == 0 || first > last {
            return Err(wrong());
        }
        Ok(PortRight::Range(first, last))
    }
}

impl fmt::Display for PortRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortRight::Range(first, last) if first == last => first.fmt(f),
            PortRight::Range(first, last) => write!(f, "{first}-{last}"),
            PortRight::Configured(path) => write!(f, "config:{path}"),
        }
    }
}

/// The path of a Unix socket: absolute, without `..`, at most 107 octets (unix(7)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketPath(String);

impl SocketPath {
    /// Returns the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SocketPath {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let steps = text.strip_prefix('/').filter(|_| text.len() <= 107);
        let is_plain = |step: &str| !matches!(step, "" | "." | "..") && !step.contains(char::is_control);
        let is_path = steps.is_some_and(|steps| steps.split('/').all(is_plain));
        let wrong = || RightError(format!("`{text}` is no path of a Unix socket, as /run/snmpd/agentx is"));
        is_path.then(|| SocketPath(text.into())).ok_or_else(wrong)
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Multicast groups: one address, or all of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupPattern(IpPrefix);

impl GroupPattern {
    /// Returns true if the pattern covers `group`.
    pub fn covers(&self, group: IpAddr) -> bool {
        IpPrefix::new(group, self.0.len()) == Some(self.0)
    }
}

impl FromStr for GroupPattern {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let wrong = || {
            RightError(format!("`{text}` is no multicast address or prefix, as 224.0.0.5 or ff02::/16 are"))
        };
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
        let (width, shortest) = if addr.is_ipv4() { (32, 4) } else { (128, 8) };
        let len = len.unwrap_or(width);
        let prefix = IpPrefix::new(addr, len).filter(|prefix| prefix.addr() == addr);
        let is_multicast = addr.is_multicast() && len >= shortest;
        prefix.filter(|_| is_multicast).map(GroupPattern).ok_or_else(wrong)
    }
}

impl fmt::Display for GroupPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = self.0.addr();
        let is_one = self.0.len() == if addr.is_ipv4() { 32 } else { 128 };
        if is_one { addr.fmt(f) } else { self.0.fmt(f) }
    }
}

/// The protocol of a packet socket: an EtherType (`0x88cc`), or a service access point of LLC, source and destination (`"llc:fe"`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkProtocol {
    /// An EtherType, from 0x600 on (IEEE 802.3).
    EtherType(u16),
    /// A service access point (IEEE 802.2), 0xfe for IS-IS.
    Llc(u8),
}

impl LinkProtocol {
    /// Returns the protocol with an EtherType; `None` for numbers below 0x600, which are lengths.
    pub const fn ether_type(number: u16) -> Option<Self> {
        if number >= 0x600 { Some(LinkProtocol::EtherType(number)) } else { None }
    }
}

impl FromStr for LinkProtocol {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let point = text.strip_prefix("llc:").and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let number = || match text.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let protocol = point.map(LinkProtocol::Llc).or_else(|| number().and_then(Self::ether_type));
        protocol
            .ok_or_else(|| RightError(format!("`{text}` is no EtherType from 0x600 on, and no \"llc:fe\"")))
    }
}

impl fmt::Display for LinkProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkProtocol::EtherType(number) => write!(f, "{number:#06x}"),
            LinkProtocol::Llc(point) => write!(f, "llc:{point:02x}"),
        }
    }
}

/// A right to packet sockets: a protocol, or `"config:ethertype/packets"` for EtherTypes from the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PacketRight {
    /// The protocol.
    Protocol(LinkProtocol),
    /// The EtherTypes at a place in the component's own part of the configuration. Allows none until the manager has replaced the place
    /// by the configured EtherTypes.
    Configured(String),
}

impl FromStr for PacketRight {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        match configured(text) {
            Some(path) => path.map(PacketRight::Configured),
            None => text.parse().map(PacketRight::Protocol),
        }
    }
}

impl fmt::Display for PacketRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketRight::Protocol(protocol) => protocol.fmt(f),
            PacketRight::Configured(path) => write!(f, "config:{path}"),
        }
    }
}

/// A group address of the link layer, as `01:80:c2:00:00:14`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkGroup(pub [u8; 6]);

impl LinkGroup {
    /// Returns true for the address of a group, false for the address of one station.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for LinkGroup {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let wrong = || RightError(format!("`{text}` is no group address, as 01:80:c2:00:00:14 is"));
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        let group = LinkGroup(octets);
        (parts.next().is_none() && group.is_group()).then_some(group).ok_or_else(wrong)
    }
}

impl fmt::Display for LinkGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Reads a right from a number or a text.
struct NumberOrText<T>(PhantomData<T>);

impl<T: FromStr<Err = RightError>> Visitor<'_> for NumberOrText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&format!("{number}"))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let number =
            u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
        self.visit_u64(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Implements serialization as the displayed text, and deserialization from a text or a number.
macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(NumberOrText(PhantomData))
            }
        }
    )*};
}

as_text!(PortRight, SocketPath, GroupPattern, LinkProtocol, PacketRight, LinkGroup);

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn check<T: FromStr<Err = RightError> + ToString>(text: &str, expected: Option<&str>) {
        let read = text.parse::<T>();
        assert_eq!(read.as_ref().ok().map(ToString::to_string).as_deref(), expected, "{text}");
        if let Err(error) = read {
            assert!(error.to_string().contains(text), "the error names the text");
        }
    }

    #[test]
    fn texts_of_rights() {
        for same in ["1", "179", "65535", "49152-65535", "config:neighbor/*/port"] {
            check::<PortRight>(same, Some(same));
        }
        for wrong in ["0", "65536", "-", "5-4", "0-5", "1-2-3", "config:", "config:a//b", "ssh"] {
            check::<PortRight>(wrong, None);
        }
        for same in ["/run/snmpd/agentx", "/a"] {
            check::<SocketPath>(same, Some(same));
        }
        for wrong in ["", "/", "run/x", "/run/../x", "/run//x", "/run/x/", "/./x", "/a\0b"] {
            check::<SocketPath>(wrong, None);
        }
        check::<GroupPattern>("224.0.0.5/32", Some("224.0.0.5"));
        for same in ["224.0.0.5", "ff02::5", "224.0.0.0/4", "232.0.0.0/8", "ff02::/16", "ff00::/8"] {
            check::<GroupPattern>(same, Some(same));
        }
        for wrong in [
            "10.0.0.1",
            "0.0.0.0/0",
            "224.0.0.0/3",
            "224.0.0.1/24",
            "fe80::/10",
            "ff02::1/16",
            "224.0.0.5/33",
        ] {
            check::<GroupPattern>(wrong, None);
        }
        check::<LinkProtocol>("35020", Some("0x88cc"));
        check::<LinkProtocol>("0x88cc", Some("0x88cc"));
        check::<LinkProtocol>("llc:fe", Some("llc:fe"));
        for wrong in ["0x5ff", "1535", "0x10000", "llc:", "llc:100", "fe"] {
            check::<LinkProtocol>(wrong, None);
        }
        check::<LinkGroup>("01:80:C2:00:00:14", Some("01:80:c2:00:00:14"));
        for wrong in [
            "00:80:c2:00:00:14",
            "01:80:c2:00:00",
            "01:80:c2:00:00:14:15",
            "1:80:c2:00:00:14",
            "01:80:c2:00:00:zz",
        ] {
            check::<LinkGroup>(wrong, None);
        }
    }

    #[test]
    fn ranges_and_patterns_cover() {
        let range: PortRight = "49152-65535".parse().expect("valid");
        assert!(range.covers(49152, 65535) && range.covers(50000, 50000));
        assert!(!range.covers(49151, 49152) && !range.covers(179, 179));
        assert!(!"config:port".parse::<PortRight>().expect("valid").covers(1, 1));
        let pattern: GroupPattern = "232.0.0.0/8".parse().expect("valid");
        assert!(pattern.covers([232, 1, 2, 3].into()) && !pattern.covers([233, 0, 0, 1].into()));
    }

    #[test]
    fn configured_ports_take_the_place_of_their_path() {
        let tcp_connect = [PortRight::one(179), PortRight::Configured("cache/*/port".into())].into();
        let rights = SocketRights { tcp_connect, ..SocketRights::default() };
        assert!(rights.follow_configuration());
        let resolved = rights
            .with_configuration(|path| if path == "cache/*/port" { [323, 3323].into() } else { [].into() });
        assert_eq!(resolved.tcp_connect, [179, 323, 3323].map(PortRight::one));
        assert!(!resolved.follow_configuration());
        let packet = ["0x88cc", "config:type"].map(|text| text.parse().expect("valid")).into();
        let rights = SocketRights { packet, ..SocketRights::default() };
        assert!(rights.follow_configuration());
        // Numbers below 0x600 are no EtherTypes.
        let resolved = rights.with_configuration(|_| [0xc0de, 0x5ff].into());
        let expected = ["0x88cc", "0xc0de"].map(|text| text.parse().expect("valid"));
        assert_eq!(resolved.packet, expected);
    }
}
