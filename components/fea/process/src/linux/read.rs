//! The kernel's routes, read back: of every program, with the next hops that the kernel names by number only.

use crate::linux::netlink::decode::{self, Message, address, attributes, u16_at, u32_at};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::*;
use crate::linux::netlink::socket::Socket;
use sluice_base::{Family, Forwarding, InterfaceIndex, IpPrefix, NextHop, TableId};
use sluice_fea::Notice;
use sluice_fea::engine::{EngineRoute, ReadError, RouteQuery, RouteReader};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

/// Reads routes with sockets of its own, opened in the network namespace of the reading thread.
pub(super) struct KernelReader;

impl RouteReader for KernelReader {
    fn dump(
        &mut self,
        query: &RouteQuery,
        each: &mut dyn FnMut(EngineRoute) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let objects = objects().map_err(error)?;
        let mut request = Messages::default();
        request.push_dump(RTM_GETROUTE, Some(query.family), 1);
        let read = |message: &Message<'_>| match route(message, &objects) {
            Some(route) if query.selects(&route) => each(route),
            _ => ControlFlow::Continue(()),
        };
        Socket::open().and_then(|socket| socket.request(&request, read)).map_err(error)
    }

    fn lookup(&mut self, addr: IpAddr) -> Result<Option<EngineRoute>, ReadError> {
        let objects = objects().map_err(error)?;
        let mut request = Messages::default();
        request.push_lookup(addr, 1);
        let mut found = None;
        let read = |message: &Message<'_>| {
            found = route(message, &objects);
            // The answer is one message, and no other one marks its end.
            ControlFlow::Break(())
        };
        match Socket::open().and_then(|socket| socket.request(&request, read)) {
            Ok(()) => Ok(found),
            Err(e) if is_no_route(&e) => Ok(None),
            Err(e) => Err(error(e)),
        }
    }
}

/// Returns true for the kernel's answers to a look-up without a matching route, or with a dropping rule only.
fn is_no_route(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL))
}

fn error(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::TimedOut => ReadError::Silent,
        _ => ReadError::Refused(format!("netlink: {error}")),
    }
}

/// The forwarding of next-hop objects, by number: the kernel names only the object in a route.
type Objects = BTreeMap<u32, Forwarding>;

fn objects() -> io::Result<Objects> {
    let (mut members, mut groups) = (BTreeMap::new(), Vec::new());
    let mut request = Messages::default();
    request.push_dump(RTM_GETNEXTHOP, None, 1);
    Socket::open()?.request(&request, |message| {
        match decode::notice(message) {
            Some(Notice::MemberIs(id, member)) => drop(members.insert(id, member)),
            Some(Notice::GroupIs(id, of)) => groups.push((id, of)),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    let leads = |hops: Vec<NextHop>| Forwarding::many(hops).unwrap_or(Forwarding::Discard);
    let mut found: Objects =
        members.iter().map(|(id, member)| (id.0, leads(member.next_hop(1).into_iter().collect()))).collect();
    for (id, of) in groups {
        let hops = of.iter().filter_map(|(member, weight)| members.get(member)?.next_hop(*weight));
        found.insert(id.0, leads(hops.collect()));
    }
    Ok(found)
}

fn route(message: &Message<'_>, objects: &Objects) -> Option<EngineRoute> {
    if message.kind != RTM_NEWROUTE {
        return None;
    }
    let [af, prefix_len, _, _, table, protocol, _, kind] = *message.body.first_chunk::<8>()?;
    let family = if i32::from(af) == libc::AF_INET6 { Family::Ipv6 } else { Family::Ipv4 };
    if u32_at(message.body, 8)? & libc::RTM_F_CLONED != 0 {
        return None;
    }
    let mut destination = match family {
        Family::Ipv4 => IpAddr::from([0; 4]),
        Family::Ipv6 => IpAddr::from([0; 16]),
    };
    let (mut table, mut metric) = (u32::from(table), 0);
    let (mut gateway, mut interface, mut source) = (None, None, None);
    let mut hops = Vec::new();
    let mut object = None;
    for (attribute, value) in attributes(message.body.get(12..)?) {
        match attribute {
            RTA_DST => destination = address(value)?,
            RTA_TABLE => table = u32_at(value, 0)?,
            RTA_PRIORITY => metric = u32_at(value, 0)?,
            RTA_GATEWAY => gateway = address(value),
            RTA_VIA => gateway = address(value.get(2..)?),
            RTA_OIF => interface = u32_at(value, 0).and_then(InterfaceIndex::new),
            RTA_NH_ID => object = u32_at(value, 0).and_then(|id| objects.get(&id)).cloned(),
            RTA_MULTIPATH => hops = next_hops(value),
            RTA_PREFSRC => source = address(value),
            _ => {}
        }
    }
    if hops.is_empty() && (gateway.is_some() || interface.is_some()) {
        hops.push(NextHop::new(gateway, interface));
    }
    let forwarding = match kind {
        libc::RTN_BLACKHOLE => Forwarding::Discard,
        libc::RTN_UNREACHABLE | libc::RTN_PROHIBIT => Forwarding::Reject,
        _ => object.or_else(|| Forwarding::many(hops)).unwrap_or(Forwarding::Discard),
    };
    let prefix = IpPrefix::new(destination, prefix_len)?;
    Some(EngineRoute { table: TableId(table), prefix, protocol, metric, forwarding, source })
}

/// The next hops of a route with several: records of their own, with attributes inside.
fn next_hops(mut octets: &[u8]) -> Vec<NextHop> {
    let mut hops = Vec::new();
    while let (Some(length), Some(weight), Some(index)) =
        (u16_at(octets, 0).map(usize::from), octets.get(3), u32_at(octets, 4))
    {
        let Some(inner) = octets.get(8..length) else { break };
        let gateway = attributes(inner).find_map(|(kind, value)| match kind {
            RTA_GATEWAY => address(value),
            RTA_VIA => address(value.get(2..)?),
            _ => None,
        });
        let weight = weight.saturating_add(1);
        hops.push(NextHop { weight, ..NextHop::new(gateway, InterfaceIndex::new(index)) });
        octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}
