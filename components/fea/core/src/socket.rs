//! Who may open which socket: the rules, as data.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// What a component may have opened. Empty lists allow nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketRights {
    /// TCP ports that it may listen on.
    pub tcp_listen: Vec<u16>,
    /// TCP ports that it may connect to.
    pub tcp_connect: Vec<u16>,
    /// The first of the TCP ports that it may connect to beside these, up to the last; none if absent.
    pub tcp_connect_from: Option<u16>,
    /// UDP ports that it may bind.
    pub udp: Vec<u16>,
    /// IP protocols of raw sockets.
    pub raw: Vec<u8>,
    /// Multicast groups that it may join.
    pub multicast: Vec<IpAddr>,
}

/// A socket that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SocketKind {
    /// A TCP socket that listens on this port.
    TcpListen(u16),
    /// A TCP socket to connect to this port.
    TcpConnect(u16),
    /// A UDP socket bound to this port.
    Udp(u16),
    /// A raw IP socket of this protocol.
    Raw(u8),
}

impl fmt::Display for SocketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketKind::TcpListen(port) => write!(f, "listen on TCP port {port}"),
            SocketKind::TcpConnect(port) => write!(f, "connect to TCP port {port}"),
            SocketKind::Udp(port) => write!(f, "bind UDP port {port}"),
            SocketKind::Raw(protocol) => write!(f, "open IP protocol {protocol}"),
        }
    }
}

/// Why a socket is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The component's rights do not say so.
    Kind(String, SocketKind),
    /// Nor do they name this group.
    Group(String, IpAddr),
    /// The component has no socket rights at all.
    Unknown(String),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Kind(who, kind) => write!(f, "{who} may not {kind}"),
            Denied::Group(who, group) => write!(f, "{who} may not join {group}"),
            Denied::Unknown(who) => write!(f, "{who} may not open sockets"),
        }
    }
}

impl core::error::Error for Denied {}

/// The rights of all components, by component class.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SocketPolicy {
    /// The rights by class.
    pub components: BTreeMap<String, SocketRights>,
}

impl SocketPolicy {
    /// Whether the component class `who` may have a socket of `kind` that joins `groups`.
    pub fn check(&self, who: &str, kind: SocketKind, groups: &[IpAddr]) -> Result<(), Denied> {
        let rights = self.components.get(who).ok_or_else(|| Denied::Unknown(who.into()))?;
        let allowed = match kind {
            SocketKind::TcpListen(port) => rights.tcp_listen.contains(&port),
            SocketKind::TcpConnect(port) => {
                rights.tcp_connect.contains(&port) || rights.tcp_connect_from.is_some_and(|from| port >= from)
            }
            SocketKind::Udp(port) => rights.udp.contains(&port),
            SocketKind::Raw(protocol) => rights.raw.contains(&protocol),
        };
        if !allowed {
            return Err(Denied::Kind(who.into(), kind));
        }
        match groups.iter().find(|g| !rights.multicast.contains(g)) {
            Some(group) => Err(Denied::Group(who.into(), *group)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn check(who: &str, kind: SocketKind, groups: &[&str], expected: Result<(), &str>) {
        let rip = SocketRights {
            udp: [520].into(),
            multicast: ["224.0.0.9".parse().unwrap()].into(),
            ..SocketRights::default()
        };
        let bgp = SocketRights {
            tcp_listen: [179].into(),
            tcp_connect: [179].into(),
            tcp_connect_from: Some(1024),
            ..SocketRights::default()
        };
        let ospf = SocketRights { raw: [89].into(), ..SocketRights::default() };
        let components = [("rip", rip), ("bgp", bgp), ("ospf", ospf)];
        let policy =
            SocketPolicy { components: components.into_iter().map(|(n, r)| (n.to_string(), r)).collect() };
        let groups: Vec<IpAddr> = groups.iter().map(|g| g.parse().unwrap()).collect();
        let got = policy.check(who, kind, &groups).map_err(|e| e.to_string());
        assert_eq!(got, expected.map_err(|e| e.to_string()));
    }

    #[test]
    fn rights() {
        check("bgp", SocketKind::TcpListen(179), &[], Ok(()));
        check("bgp", SocketKind::TcpConnect(179), &[], Ok(()));
        check("bgp", SocketKind::TcpConnect(22), &[], Err("bgp may not connect to TCP port 22"));
        check("bgp", SocketKind::TcpConnect(1023), &[], Err("bgp may not connect to TCP port 1023"));
        check("bgp", SocketKind::TcpConnect(1024), &[], Ok(()));
        check("bgp", SocketKind::TcpConnect(u16::MAX), &[], Ok(()));
        check("bgp", SocketKind::TcpListen(1024), &[], Err("bgp may not listen on TCP port 1024"));
        check("bgp", SocketKind::Raw(89), &[], Err("bgp may not open IP protocol 89"));
        check("ospf", SocketKind::Raw(89), &[], Ok(()));
        check("ospf", SocketKind::Raw(89), &["224.0.0.5"], Err("ospf may not join 224.0.0.5"));
        check("rip", SocketKind::Udp(520), &["224.0.0.9"], Ok(()));
        check("rip", SocketKind::Udp(521), &[], Err("rip may not bind UDP port 521"));
        check("ntp", SocketKind::Udp(123), &[], Err("ntp may not open sockets"));
    }
}
