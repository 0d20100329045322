//! The kernel's own routes, read from it when somebody asks: what `show routes --kernel` tells.
//!
//! A dump of a full table cannot be entered in the middle. A thread with a socket of its own reads it and stops when a few pages
//! wait, so that a slow reader costs no memory and the event loop no time.

use crate::netlink::PROTOCOL;
use crate::netlink::decode::{self, Message, address, attributes, u16_at, u32_at};
use crate::netlink::encode::Messages;
use crate::netlink::number::{RTA_DST, RTA_NH_ID, RTA_PRIORITY, RTA_TABLE};
use crate::netlink::socket::Socket;
use sluice_base::{Family, Forwarding, InterfaceIndex, IpPrefix, NextHop, TableId};
use sluice_fea::{Member, Notice};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as pb;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::sync::mpsc;

/// Routes in a page.
pub const PAGE: usize = 2000;
/// Pages that wait for a reader.
const PAGES: usize = 4;
/// Readers whose dumps are kept open.
const STREAMS: usize = 8;
/// How long the kernel may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const RTM_GETROUTE: u16 = 26;
const RTM_GETNEXTHOP: u16 = 106;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;

/// Which routes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Of this family.
    pub family: Family,
    /// Of this table.
    pub table: TableId,
    /// Only those that Sluice installed.
    pub ours_only: bool,
    /// Only this prefix.
    pub exact: Option<IpPrefix>,
}

/// Dumps that are being read, by connection.
#[derive(Default)]
pub struct Streams(RefCell<BTreeMap<u64, Stream>>);

struct Stream {
    query: Query,
    last: Option<IpPrefix>,
    left: Vec<pb::KernelRoute>,
    pages: mpsc::Receiver<io::Result<Vec<pb::KernelRoute>>>,
}

impl Streams {
    /// The page after `after` (the first for `None`), and whether more follow.
    pub async fn page(
        &self,
        connection: u64,
        query: Query,
        after: Option<IpPrefix>,
        limit: usize,
    ) -> Result<(Vec<pb::KernelRoute>, bool), XrlError> {
        let known = self.0.borrow_mut().remove(&connection);
        let mut stream = match known {
            Some(s) if after.is_some() && s.query == query && s.last == after => s,
            _ if after.is_some() => {
                return Err(XrlError::BadArguments("after: not what the last page ended with".into()));
            }
            _ => Stream { query, last: None, left: Vec::new(), pages: start(query) },
        };
        let mut routes = std::mem::take(&mut stream.left);
        let mut ended = false;
        while routes.len() < limit.max(1) && !ended {
            match stream.pages.recv().await {
                Some(page) => routes.extend(page.map_err(|e| XrlError::Internal(format!("netlink: {e}")))?),
                None => ended = true,
            }
        }
        if routes.len() > limit {
            stream.left = routes.split_off(limit);
        }
        let more = !ended || !stream.left.is_empty();
        if more {
            stream.last = routes.last().and_then(|r| r.net.as_ref()).and_then(|n| IpPrefix::try_from(n).ok());
            let mut all = self.0.borrow_mut();
            if all.len() >= STREAMS {
                all.pop_first();
            }
            all.insert(connection, stream);
        }
        Ok((routes, more))
    }
}

/// Starts a thread that reads a dump.
fn start(query: Query) -> mpsc::Receiver<io::Result<Vec<pb::KernelRoute>>> {
    let (pages, receiver) = mpsc::channel(PAGES);
    std::thread::spawn(move || {
        if let Err(error) = dump(query, &pages) {
            // Who asked may be gone.
            let _ = pages.blocking_send(Err(error));
        }
    });
    receiver
}

fn request(family: Family, flags: u16, destination: Option<IpAddr>) -> Vec<u8> {
    let (af, width) = match family {
        Family::Ipv4 => (libc::AF_INET as u8, 32),
        Family::Ipv6 => (libc::AF_INET6 as u8, 128),
    };
    let octets = match destination {
        Some(IpAddr::V4(a)) => a.octets().to_vec(),
        Some(IpAddr::V6(a)) => a.octets().to_vec(),
        None => Vec::new(),
    };
    let attribute = if octets.is_empty() { 0 } else { 4 + octets.len() };
    let length = 28 + attribute;
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&(length as u32).to_ne_bytes());
    message.extend_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    let look = if destination.is_some() { RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH } else { 0 };
    message.extend_from_slice(&[af, if destination.is_some() { width } else { 0 }, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(&look.to_ne_bytes());
    if attribute > 0 {
        message.extend_from_slice(&(attribute as u16).to_ne_bytes());
        message.extend_from_slice(&RTA_DST.to_ne_bytes());
        message.extend_from_slice(&octets);
    }
    message
}

/// Waits until a socket is readable.
pub fn wait(socket: &Socket) -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], timeout) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Where our next-hop objects lead, by number: the kernel names in a route only the object.
type Objects = BTreeMap<u32, Forwarding>;

fn objects() -> io::Result<Objects> {
    let socket = Socket::open()?;
    let mut request = Messages::default();
    request.push_dump(RTM_GETNEXTHOP, None, 1);
    socket.send(request.octets())?;
    let (mut members, mut groups) = (BTreeMap::new(), Vec::new());
    let mut buffer = vec![0; 1 << 16];
    'all: loop {
        wait(&socket)?;
        while let Some(datagram) = socket.receive(&mut buffer)? {
            for message in decode::messages(datagram) {
                if matches!(message.kind, NLMSG_DONE | NLMSG_ERROR) {
                    break 'all;
                }
                match decode::notice(&message) {
                    Some(Notice::MemberIs(id, member)) => drop(members.insert(id, member)),
                    Some(Notice::GroupIs(id, of)) => groups.push((id, of)),
                    _ => {}
                }
            }
        }
    }
    let hop = |member: &Member, weight: u8| match member {
        Member::Via { gateway, interface } => {
            Some(NextHop { weight, ..NextHop::via_on(*gateway, *interface) })
        }
        Member::Direct { interface, .. } => Some(NextHop { weight, ..NextHop::on(*interface) }),
        Member::Blackhole { .. } => None,
    };
    let leads = |hops: Vec<NextHop>| Forwarding::many(hops).unwrap_or(Forwarding::Discard);
    let mut found: Objects =
        members.iter().map(|(id, member)| (id.0, leads(hop(member, 1).into_iter().collect()))).collect();
    for (id, of) in groups {
        let hops = of.iter().filter_map(|(member, weight)| hop(members.get(member)?, *weight));
        found.insert(id.0, leads(hops.collect()));
    }
    Ok(found)
}

fn dump(query: Query, pages: &mpsc::Sender<io::Result<Vec<pb::KernelRoute>>>) -> io::Result<()> {
    let objects = objects()?;
    let socket = Socket::open()?;
    socket.send(&request(query.family, NLM_F_DUMP, None))?;
    let mut buffer = vec![0; 1 << 16];
    let mut page = Vec::new();
    loop {
        wait(&socket)?;
        while let Some(datagram) = socket.receive(&mut buffer)? {
            for message in decode::messages(datagram) {
                match message.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        let _ = pages.blocking_send(Ok(page));
                        return Ok(());
                    }
                    _ => page.extend(wanted(&message, &query, &objects)),
                }
            }
            if page.len() >= PAGE && pages.blocking_send(Ok(std::mem::take(&mut page))).is_err() {
                return Ok(()); // nobody reads any more
            }
        }
    }
}

fn wanted(message: &Message<'_>, query: &Query, objects: &Objects) -> Option<pb::KernelRoute> {
    let (table, prefix, route) = route(message, objects)?;
    let exact = query.exact.is_none_or(|e| e == prefix);
    (table == query.table && exact && (route.ours || !query.ours_only)).then_some(route)
}

/// The route that the kernel forwards an address by.
pub fn lookup(addr: IpAddr) -> io::Result<Option<pb::KernelRoute>> {
    let socket = Socket::open()?;
    socket.send(&request(Family::of(&addr), 0, Some(addr)))?;
    let mut buffer = vec![0; 1 << 16];
    wait(&socket)?;
    let Some(datagram) = socket.receive(&mut buffer)? else { return Ok(None) };
    let objects = objects()?;
    Ok(decode::messages(datagram).find_map(|m| route(&m, &objects)).map(|(_, _, route)| route))
}

fn route(message: &Message<'_>, objects: &Objects) -> Option<(TableId, IpPrefix, pb::KernelRoute)> {
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
    let (mut gateway, mut interface) = (None, None);
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
    let route = pb::KernelRoute {
        net: Some(prefix.into()),
        protocol: protocol.into(),
        ours: protocol == PROTOCOL,
        metric,
        forwarding: Some((&forwarding).into()),
    };
    Some((TableId(table), prefix, route))
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
