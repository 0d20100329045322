//! Netlink messages to values. The contents are not trusted: a wrong length ends the datagram, an unknown message is
//! skipped.

use super::number::*;
use super::sources::Sources;
use sluice_base::{Family, InterfaceAddress, InterfaceIndex, IpPrefix, TableId};
use sluice_fea::engine::{Link, OtherRoute, PREFERENCE, PROTOCOL};
use sluice_fea::{Member, Members, NextHopId, Notice, RouteTarget};
use std::net::IpAddr;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The type of the message.
    pub kind: u16,
    /// The flags.
    pub flags: u16,
    /// The sequence number of the answered request.
    pub sequence: u32,
    /// The octets after the header.
    pub body: &'a [u8],
}

/// The messages of a datagram, up to the first whose length cannot be.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let (header, _) = datagram.split_first_chunk::<16>()?;
        let length = u32_at(header, 0)? as usize;
        let body = datagram.get(16..length)?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message {
            kind: u16_at(header, 4)?,
            flags: u16_at(header, 6)?,
            sequence: u32_at(header, 8)?,
            body,
        })
    })
}

/// The attributes in `octets`, up to the first whose length cannot be.
pub(crate) fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(octets, 0)?);
        let kind = u16_at(octets, 2)? & NLA_TYPE_MASK;
        let value = octets.get(4..length)?;
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|c| u16::from_ne_bytes(*c))
}

pub(crate) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|c| u32::from_ne_bytes(*c))
}

pub(crate) fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => octets.first_chunk::<4>().map(|c| IpAddr::from(*c)),
        16 => octets.first_chunk::<16>().map(|c| IpAddr::from(*c)),
        _ => None,
    }
}

fn interface(octets: &[u8], at: usize) -> Option<InterfaceIndex> {
    u32_at(octets, at).and_then(InterfaceIndex::new)
}

/// The kernel's answer to a request: the error number (0 for none) and the kernel's text, if any.
pub fn error(message: &Message<'_>) -> Option<(i32, Option<String>)> {
    let code = u32_at(message.body, 0)? as i32;
    let mut rest = message.body.get(20..).unwrap_or_default();
    if message.flags & NLM_F_CAPPED == 0 {
        // The request's body is repeated too.
        let length = u32_at(message.body, 4)? as usize;
        rest = message.body.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
    }
    let words = (message.flags & NLM_F_ACK_TLVS != 0)
        .then(|| attributes(rest).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG))
        .flatten()
        .map(|(_, text)| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    Some((code.saturating_neg(), words))
}

/// Returns the notice in a message; `None` for a message without interest or not understood.
pub fn notice(message: &Message<'_>) -> Option<Notice> {
    notice_with(message, &Sources::default())
}

/// Returns the notice in a message, of an engine whose routes have these source addresses: the target of a different route of Sluice's is
/// [`RouteTarget::Other`].
pub(crate) fn notice_with(message: &Message<'_>, sources: &Sources) -> Option<Notice> {
    match message.kind {
        RTM_NEWLINK | RTM_DELLINK => link(message),
        RTM_NEWADDR | RTM_DELADDR => interface_address(message),
        RTM_NEWROUTE | RTM_DELROUTE => route(message, sources),
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => next_hop(message),
        RTM_NEWNETCONF => forwarding(message),
        _ => None,
    }
}

fn link(message: &Message<'_>) -> Option<Notice> {
    let body = message.body;
    // Bridges report their ports in messages of their own family.
    if *body.first()? != libc::AF_UNSPEC as u8 {
        return None;
    }
    let index = interface(body, 4)?;
    if message.kind == RTM_DELLINK {
        return Some(Notice::LinkGone(index));
    }
    let flags = u32_at(body, 8)?;
    let has = |flag: i32| flags & flag as u32 != 0;
    let mut link = Link {
        index,
        name: String::new(),
        admin_up: has(libc::IFF_UP),
        running: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
        loopback: has(libc::IFF_LOOPBACK),
        point_to_point: has(libc::IFF_POINTOPOINT),
        multicast: has(libc::IFF_MULTICAST),
        mtu: 0,
        mac: Vec::new(),
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            IFLA_IFNAME => link.name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_ADDRESS if !link.loopback => link.mac = value.to_vec(),
            _ => {}
        }
    }
    Some(Notice::LinkIs(link))
}

fn interface_address(message: &Message<'_>) -> Option<Notice> {
    let body = message.body;
    let prefix_len = *body.get(1)?;
    let mut flags = u32::from(*body.get(2)?);
    let index = interface(body, 4)?;
    let (mut first, mut local, mut own) = (None, None, false);
    for (kind, value) in attributes(body.get(8..)?) {
        match kind {
            IFA_ADDRESS => first = address(value),
            IFA_LOCAL => local = address(value),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            IFA_PROTO => own = value.first() == Some(&PROTOCOL),
            _ => {}
        }
    }
    // With both, IFA_ADDRESS is the far end, unless they are equal (as always for IPv4 on a LAN).
    let addr = local.or(first)?;
    let peer = first.filter(|a| *a != addr);
    let address = InterfaceAddress { addr, prefix_len, peer };
    if message.kind == RTM_DELADDR {
        return Some(Notice::AddressGone(index, address));
    }
    // It is reported again when duplicate address detection is over.
    let usable = flags & IFA_F_TENTATIVE == 0 || flags & IFA_F_OPTIMISTIC != 0;
    usable.then_some(Notice::AddressIs(index, address, own))
}

fn route(message: &Message<'_>, sources: &Sources) -> Option<Notice> {
    let body = message.body;
    let [family, prefix_len, _, tos, table, protocol, _, kind] = *body.first_chunk::<8>()?;
    let cloned = u32_at(body, 8)? & libc::RTM_F_CLONED != 0;
    if cloned || tos != 0 {
        return None;
    }
    let (mut destination, mut preference, mut table) = (None, 0, u32::from(table));
    let (mut target, mut next_hops, mut output) = (RouteTarget::Other, 1, None);
    let mut source = None;
    if kind == libc::RTN_UNREACHABLE {
        target = RouteTarget::Unreachable;
    }
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            RTA_DST => destination = Some(address(value)?),
            RTA_PRIORITY => preference = u32_at(value, 0)?,
            RTA_TABLE => table = u32_at(value, 0)?,
            RTA_NH_ID if kind == libc::RTN_UNICAST || kind == libc::RTN_BLACKHOLE => {
                target = RouteTarget::Group(NextHopId(u32_at(value, 0)?));
            }
            RTA_OIF => output = interface(value, 0),
            RTA_PREFSRC => source = address(value),
            // An IPv4 route is one with all its next hops.
            RTA_MULTIPATH if i32::from(family) == libc::AF_INET6 => next_hops = next_hop_count(value),
            _ => {}
        }
    }
    let any = match i32::from(family) {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let (prefix, table) = (IpPrefix::new(destination.unwrap_or(any), prefix_len)?, TableId(table));
    if preference < PREFERENCE && protocol != PROTOCOL && table != TableId::LOCAL {
        let other = OtherRoute { table, prefix, metric: preference, protocol, interface: output, next_hops };
        return Some(match message.kind {
            RTM_DELROUTE => Notice::OtherRouteGone(other),
            _ => Notice::OtherRouteIs(other),
        });
    }
    if preference != PREFERENCE {
        return None;
    }
    if message.kind == RTM_DELROUTE {
        return Some(Notice::RouteGone { table, prefix });
    }
    let replaced = message.flags & NLM_F_REPLACE != 0;
    if matches!(target, RouteTarget::Group(_)) && source != sources.of(prefix.family()) {
        target = RouteTarget::Other;
    }
    let target = (protocol == PROTOCOL).then_some(target);
    Some(Notice::RouteIs { table, prefix, target, replaced })
}

/// Returns the number of next hops in a multipath attribute: struct rtnexthop begins with the octets of a next hop, in steps of 4.
fn next_hop_count(mut value: &[u8]) -> u32 {
    let mut count = 0;
    while let Some(length) = u16_at(value, 0) {
        count += 1;
        let step = usize::from(length).next_multiple_of(4).max(8);
        value = value.get(step..).unwrap_or_default();
    }
    count.max(1)
}

fn next_hop(message: &Message<'_>) -> Option<Notice> {
    let body = message.body;
    let [family, _, protocol, _] = *body.first_chunk::<4>()?;
    let family = match i32::from(family) {
        libc::AF_INET6 => Family::Ipv6,
        _ => Family::Ipv4,
    };
    let (mut id, mut oif, mut gateway, mut blackhole) = (None, None, None, false);
    let mut members: Option<Members> = None;
    for (kind, value) in attributes(body.get(8..)?) {
        match kind {
            NHA_ID => id = u32_at(value, 0).map(NextHopId),
            NHA_OIF => oif = interface(value, 0),
            NHA_GATEWAY => gateway = address(value),
            NHA_BLACKHOLE => blackhole = true,
            NHA_GROUP => {
                let member = |c: &[u8]| Some((NextHopId(u32_at(c, 0)?), c.get(4)?.saturating_add(1)));
                members = value.chunks_exact(8).map(member).collect();
            }
            _ => {}
        }
    }
    let id = id?;
    // The number decides, not the mark: a program that replaces an object puts its own mark on it.
    let concerns_us = id.is_in_own_range() || protocol == PROTOCOL;
    match (message.kind, protocol) {
        _ if !concerns_us => return None,
        (RTM_DELNEXTHOP, _) => return Some(Notice::NextHopGone(id)),
        (_, PROTOCOL) => {}
        _ => return Some(Notice::NextHopForeign(id)),
    }
    if let Some(members) = members {
        return Some(Notice::GroupIs(id, members));
    }
    let member = match (blackhole, gateway, oif) {
        (true, _, _) => Member::Blackhole { family },
        (false, Some(gateway), Some(interface)) => Member::Via { gateway, interface },
        (false, None, Some(interface)) => Member::Direct { family, interface },
        (false, _, None) => return None,
    };
    Some(Notice::MemberIs(id, member))
}

/// Decodes the host's switch for forwarding of a family (linux/netconf.h).
fn forwarding(message: &Message<'_>) -> Option<Notice> {
    let family = match i32::from(*message.body.first()?) {
        libc::AF_INET => Family::Ipv4,
        libc::AF_INET6 => Family::Ipv6,
        _ => return None,
    };
    // The header is one octet, padded to four.
    let value = |wanted: u16| {
        let mut all = attributes(message.body.get(4..)?);
        all.find(|(kind, _)| *kind == wanted).and_then(|(_, value)| u32_at(value, 0))
    };
    let whole_host = value(NETCONFA_IFINDEX)? == NETCONFA_IFINDEX_ALL;
    let enabled = value(NETCONFA_FORWARDING)? != 0;
    whole_host.then_some(Notice::ForwardingIs(family, enabled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::netlink::encode::Messages;
    use proptest::prelude::*;
    use sluice_base::Provenance;
    use sluice_fea::EngineOp;
    use sluice_fea::engine::Scope;

    fn check(op: EngineOp, expected: Notice) {
        let mut out = Messages::default();
        assert!(out.push(&op, 1));
        let got: Vec<_> = messages(out.octets()).filter_map(|m| notice(&m)).collect();
        assert_eq!(got, [expected]);
    }

    #[test]
    fn a_route_with_another_source_address_is_another_one() {
        let (ours, other): (IpAddr, IpAddr) = ("10.9.9.9".parse().unwrap(), "10.9.9.8".parse().unwrap());
        let target = RouteTarget::Group(NextHopId(5));
        let sources = |source: Option<IpAddr>| {
            let mut sources = Sources::default();
            sources.set(sluice_base::Family::Ipv4, source);
            sources
        };
        let seen = |written: Option<IpAddr>, wanted: Option<IpAddr>| {
            let mut out = Messages::default();
            out.sources.set(sluice_base::Family::Ipv4, written);
            let (table, prefix, scope) = (TableId(254), "192.0.2.0/24".parse().unwrap(), Scope::All);
            let provenance = Provenance::NONE;
            out.push(&EngineOp::SetRoute { table, prefix, target, replace: true, scope, provenance }, 1);
            let message = messages(out.octets()).next().unwrap();
            match notice_with(&message, &sources(wanted)) {
                Some(Notice::RouteIs { target, .. }) => target,
                other => panic!("{other:?}"),
            }
        };
        for (written, wanted, is_ours) in [
            (None, None, true),
            (Some(ours), Some(ours), true),
            (None, Some(ours), false),
            (Some(other), Some(ours), false),
            (Some(other), None, false),
        ] {
            let expected = if is_ours { target } else { RouteTarget::Other };
            assert_eq!(seen(written, wanted), Some(expected), "{written:?} {wanted:?}");
        }
    }

    #[test]
    fn what_we_say_is_what_we_hear() {
        let interface = InterfaceIndex::new(3).unwrap();
        let (table, prefix) = (TableId(70_000), "2001:db8::/32".parse().unwrap());
        let target = RouteTarget::Group(NextHopId(5));
        let (scope, provenance) = (Scope::All, Provenance::NONE);
        check(
            EngineOp::SetRoute { table, prefix, target, replace: true, scope, provenance },
            Notice::RouteIs { table, prefix, target: Some(target), replaced: true },
        );
        check(
            EngineOp::DeleteRoute { table, prefix, scope, provenance },
            Notice::RouteGone { table, prefix },
        );
        for member in [
            Member::Via { gateway: "10.0.0.1".parse().unwrap(), interface },
            Member::Via { gateway: "fe80::1".parse().unwrap(), interface },
            Member::Direct { family: sluice_base::Family::Ipv6, interface },
            Member::Blackhole { family: sluice_base::Family::Ipv4 },
        ] {
            check(EngineOp::SetMember { id: NextHopId(9), member }, Notice::MemberIs(NextHopId(9), member));
        }
        let members: Members = [(NextHopId(1), 1), (NextHopId(2), 255)].into_iter().collect();
        check(
            EngineOp::SetGroup { id: NextHopId(3), members: members.clone(), create: true },
            Notice::GroupIs(NextHopId(3), members),
        );
        let address = InterfaceAddress { addr: "10.0.0.1".parse().unwrap(), prefix_len: 24, peer: None };
        check(EngineOp::AddAddress { interface, address }, Notice::AddressIs(interface, address, true));
    }

    #[test]
    fn an_error_number_without_a_positive_counterpart() {
        let body = [&i32::MIN.to_ne_bytes()[..], &[0; 16]].concat();
        let message = Message { kind: NLMSG_ERROR, flags: NLM_F_CAPPED, sequence: 1, body: &body };
        assert_eq!(error(&message), Some((i32::MAX, None)));
    }

    proptest! {
        #[test]
        fn no_octets_do_harm(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in messages(&octets) {
                let _ = (notice(&message), error(&message));
            }
        }

        #[test]
        fn no_bodies_do_harm(kind in 16u16..110, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let message = Message { kind, flags: 0xffff, sequence: 0, body: &body };
            let _ = (notice(&message), error(&message));
        }
    }
}
