//! The calls of the interface `Sockets`: decodes requests for the broker.

use super::broker::{self, Kind, SocketRequest};
use super::{Sockets, bad, caller, os_error, relay};
use sluice_clients::{LinkGroup, LinkProtocol};
use sluice_fea::socket::Reception;
use sluice_xrl::convert;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1::{self as pb, open_packet_request::Protocol};
use sluice_xrl::{CallContext, XrlError};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Converts a number to a smaller type.
fn narrow<T: TryFrom<u32>>(what: &str, value: u32) -> Result<T, XrlError> {
    T::try_from(value).map_err(|_| bad(format!("{what} {value} is out of range")))
}

/// Converts a value; 0 means absent.
fn optional(what: &str, value: u32) -> Result<Option<u8>, XrlError> {
    narrow(what, value).map(|v: u8| (v > 0).then_some(v))
}

fn request(kind: Kind, options: Option<pb::SocketOptions>) -> Result<SocketRequest, XrlError> {
    let options = options.unwrap_or_default();
    let groups = options.multicast_groups.iter().map(|g| IpAddr::try_from(g).map_err(bad));
    let groups: Vec<IpAddr> = groups.collect::<Result<_, _>>()?;
    if groups.iter().any(|g| !g.is_multicast() || g.is_ipv4() != kind.is_ipv4()) {
        return Err(bad("a group is not a multicast address of the socket's family"));
    }
    Ok(SocketRequest {
        kind,
        interface: (!options.interface.is_empty()).then_some(options.interface),
        ttl: optional("ttl", options.ttl)?,
        min_ttl: optional("min_ttl", options.min_ttl)?,
        dscp: narrow("dscp", options.dscp)?,
        reception: Reception { groups, ..Reception::default() },
    })
}

/// The broker for calls.
pub(super) struct Served(pub(super) Rc<Sockets>);

impl pb::Sockets for Served {
    async fn open_tcp_listener(
        &self,
        ctx: &CallContext,
        r: pb::OpenTcpListenerRequest,
    ) -> Result<pb::OpenReply, XrlError> {
        let local = SocketAddr::new(convert::addr(r.local.as_ref()).map_err(bad)?, narrow("port", r.port)?);
        let backlog = if r.backlog == 0 { 128 } else { narrow("backlog", r.backlog)? };
        self.0.open(ctx, request(Kind::TcpListener { local, backlog }, r.options)?).await
    }

    async fn open_tcp(&self, ctx: &CallContext, r: pb::OpenTcpRequest) -> Result<pb::OpenReply, XrlError> {
        let local = convert::optional_addr(r.local.as_ref()).map_err(bad)?;
        let port = narrow("remote_port", r.remote_port)?;
        let remote = SocketAddr::new(convert::addr(r.remote.as_ref()).map_err(bad)?, port);
        if local.is_some_and(|l| l.is_ipv4() != remote.is_ipv4()) {
            return Err(bad("local and remote are of different families"));
        }
        let md5 = (!r.md5_password.is_empty()).then_some(r.md5_password);
        self.0.open(ctx, request(Kind::TcpConnector { local, remote, md5 }, r.options)?).await
    }

    async fn open_udp(&self, ctx: &CallContext, r: pb::OpenUdpRequest) -> Result<pb::OpenReply, XrlError> {
        let local = SocketAddr::new(convert::addr(r.local.as_ref()).map_err(bad)?, narrow("port", r.port)?);
        if let Some(remote) = convert::optional_addr(r.remote.as_ref()).map_err(bad)? {
            let remote = SocketAddr::new(remote, narrow("remote_port", r.remote_port)?);
            let is_plain = local.port() == 0 && r.last_port == 0 && remote.port() > 0;
            if !is_plain || local.is_ipv4() != remote.is_ipv4() {
                return Err(bad(
                    "a connected socket has a remote port, no local ports, and addresses of one family",
                ));
            }
            let kind = Kind::UdpConnector { local: local.ip(), remote };
            return self.0.open(ctx, request(kind, r.options)?).await;
        }
        let last = if r.last_port == 0 { None } else { Some(narrow("last_port", r.last_port)?) };
        self.0.open(ctx, request(Kind::Udp { local, last }, r.options)?).await
    }

    async fn open_raw(&self, ctx: &CallContext, r: pb::OpenRawRequest) -> Result<pb::OpenReply, XrlError> {
        let family = convert::family(r.family).map_err(bad)?;
        let ipv4 = family == sluice_base::Family::Ipv4;
        let protocol = narrow("protocol", r.protocol)?;
        let types = r.icmpv6_types.into_iter().map(|number| narrow("icmpv6_types", number));
        let mut request = request(Kind::Raw { ipv4, protocol }, r.options)?;
        request.reception.icmpv6_types = types.collect::<Result<_, _>>()?;
        request.reception.icmpv6_types.sort_unstable();
        request.reception.icmpv6_types.dedup();
        self.0.open(ctx, request).await
    }

    async fn open_packet(
        &self,
        ctx: &CallContext,
        r: pb::OpenPacketRequest,
    ) -> Result<pb::OpenReply, XrlError> {
        let protocol = match r.protocol {
            Some(Protocol::EtherType(number)) => LinkProtocol::ether_type(narrow("ether_type", number)?)
                .ok_or_else(|| bad("an EtherType is from 0x600 on")),
            Some(Protocol::Llc(point)) => narrow("llc", point).map(LinkProtocol::Llc),
            None => Err(bad("no protocol")),
        };
        let group = |mac: common::Mac| match <[u8; 6]>::try_from(mac.octets).map(LinkGroup) {
            Ok(group) if group.is_group() => Ok(group),
            _ => Err(bad("a group of the link layer has 6 octets, the first of them odd")),
        };
        let link_groups = r.groups.into_iter().map(group).collect::<Result<_, _>>()?;
        let mut request = request(Kind::Packet { protocol: protocol? }, None)?;
        request.interface = Some(r.interface);
        request.reception.link_groups = link_groups;
        self.0.open(ctx, request).await
    }

    async fn adopt_listener(
        &self,
        ctx: &CallContext,
        _: pb::AdoptListenerRequest,
    ) -> Result<pb::OpenReply, XrlError> {
        self.0.adopt(ctx).await
    }

    async fn set_tcp_md5(
        &self,
        ctx: &CallContext,
        r: pb::SetTcpMd5Request,
    ) -> Result<pb::SetTcpMd5Reply, XrlError> {
        let remote = convert::addr(r.remote.as_ref()).map_err(bad)?;
        let length = r.prefix_length.map(u8::try_from).transpose();
        let length = length.map_err(|_| bad("prefix_length: longer than an address"))?;
        self.0.with_mine(ctx, r.socket, |open| {
            let fetched = || bad("the socket was fetched already; only a listener takes keys later");
            let descriptor = open.descriptor.get().ok_or_else(fetched)?;
            broker::set_tcp_md5(&descriptor, remote, length, &r.password).map_err(os_error)
        })?;
        Ok(pb::SetTcpMd5Reply {})
    }

    async fn close_socket(
        &self,
        ctx: &CallContext,
        r: pb::CloseSocketRequest,
    ) -> Result<pb::CloseSocketReply, XrlError> {
        let pid = caller(ctx)?;
        let mut open = self.0.open.borrow_mut();
        if open.get_mut(&r.socket).is_some_and(|o| o.leave(pid))
            && let Some(closed) = open.remove(&r.socket)
            && let Some(descriptor) = closed.descriptor.get()
        {
            self.0.descriptors.withdraw(&descriptor);
        }
        Ok(pb::CloseSocketReply {})
    }

    async fn share_socket(
        &self,
        ctx: &CallContext,
        r: pb::ShareSocketRequest,
    ) -> Result<pb::ShareSocketReply, XrlError> {
        self.0.share(ctx, &r).await?;
        Ok(pb::ShareSocketReply {})
    }

    async fn start_relay(
        &self,
        ctx: &CallContext,
        r: pb::StartRelayRequest,
    ) -> Result<pb::StartRelayReply, XrlError> {
        self.0.start_relay(ctx, &r)?;
        Ok(pb::StartRelayReply {})
    }

    async fn send_packet(
        &self,
        ctx: &CallContext,
        r: pb::SendPacketRequest,
    ) -> Result<pb::SendPacketReply, XrlError> {
        let destination = convert::addr(r.destination.as_ref()).map_err(bad)?;
        let to = SocketAddr::new(destination, narrow("port", r.port)?);
        self.0.with_mine(ctx, r.socket, |open| {
            let descriptor = open.descriptor.get().ok_or_else(|| bad("the socket was fetched already"))?;
            if to.is_ipv4() != open.kind.is_ipv4() {
                return Err(bad("the destination is not of the socket's family"));
            }
            relay::send(&descriptor, to, r.interface, &r.payload).map_err(os_error)
        })?;
        Ok(pb::SendPacketReply {})
    }
}
