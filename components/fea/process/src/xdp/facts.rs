//! Facts of the host that decide whether the fast path may forward: neighbors, foreign routes, and messages that say that
//! something else changed. Octets of the kernel are not trusted: a message that is not understood is no fact.

use crate::linux::netlink::decode::{Message, address, attributes, u16_at, u32_at};
use crate::linux::netlink::encode::{Messages, family};
use crate::linux::netlink::number::*;
use sluice_base::{Family, InterfaceIndex, IpPrefix, Mac, TableId};
use sluice_fea::engine::PROTOCOL;
use sluice_fea::links::Neighbor;
use sluice_fea::xdp::ForeignRoute;
use std::net::IpAddr;

/// A fact in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The link-layer address of a neighbor; `None` if the neighbor does not answer.
    Neighbor(InterfaceIndex, IpAddr, Option<Mac>),
    /// A foreign route exists.
    Foreign(ForeignRoute),
    /// A foreign route is gone.
    ForeignGone(ForeignRoute),
    /// A link, a rule, a queueing discipline or a setting changed.
    Obstacle,
}

/// Returns the fact in a message; `None` if the message is of no interest or not understood.
pub fn fact(message: &Message<'_>) -> Option<Fact> {
    match message.kind {
        RTM_NEWNEIGH | RTM_DELNEIGH => neighbor(message),
        RTM_NEWROUTE => Some(Fact::Foreign(foreign(message)?)),
        RTM_DELROUTE => Some(Fact::ForeignGone(foreign(message)?)),
        RTM_NEWLINK | RTM_DELLINK | RTM_NEWRULE | RTM_DELRULE | RTM_NEWQDISC | RTM_DELQDISC
        | RTM_NEWNETCONF => Some(Fact::Obstacle),
        _ => None,
    }
}

/// struct ndmsg: family, 3 padding, interface (4), state (2), flags, type.
fn neighbor(message: &Message<'_>) -> Option<Fact> {
    let body = message.body;
    let interface = InterfaceIndex::new(u32_at(body, 4)?)?;
    let state = u16_at(body, 8)?;
    let (mut of, mut mac) = (None, None);
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            NDA_DST => of = address(value),
            NDA_LLADDR => mac = value.first_chunk::<6>().filter(|_| value.len() == 6).copied().map(Mac),
            _ => {}
        }
    }
    let is_usable = message.kind == RTM_NEWNEIGH && state & NUD_VALID != 0;
    Some(Fact::Neighbor(interface, of?, mac.filter(|_| is_usable)))
}

fn foreign(message: &Message<'_>) -> Option<ForeignRoute> {
    let body = message.body;
    let [family, length, _, _, table, protocol, ..] = *body.first_chunk::<8>()?;
    let is_cloned = u32_at(body, 8)? & libc::RTM_F_CLONED != 0;
    if is_cloned || protocol == PROTOCOL {
        return None;
    }
    let (mut destination, mut metric, mut table) = (None, 0, u32::from(table));
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            RTA_DST => destination = Some(address(value)?),
            RTA_PRIORITY => metric = u32_at(value, 0)?,
            RTA_TABLE => table = u32_at(value, 0)?,
            _ => {}
        }
    }
    let any = match i32::from(family) {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let prefix = IpPrefix::new(destination.unwrap_or(any), length)?;
    Some(ForeignRoute { prefix, table: TableId(table), metric })
}

/// Adds a request for all neighbors of IP.
pub(crate) fn push_neighbors(messages: &mut Messages, of: Family) {
    messages.push_message(
        RTM_GETNEIGH,
        NLM_F_DUMP,
        1,
        &[family(of) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[],
    );
}

/// Adds a request for one neighbor.
pub(crate) fn push_neighbor_query(messages: &mut Messages, interface: InterfaceIndex, neighbor: IpAddr) {
    let (header, octets) = neighbor_header(interface, neighbor, 0);
    messages.push_message(RTM_GETNEIGH, 0, 1, &header, &[(NDA_DST, &octets)]);
}

/// Returns true if a message is about a neighbor whose link-layer address an operator or a protocol has set: the kernel does not resolve
/// the neighbor.
pub(crate) fn is_fixed_neighbor(message: &Message<'_>) -> bool {
    let state = u16_at(message.body, 8).unwrap_or(0);
    message.kind == RTM_NEWNEIGH && state & (NUD_PERMANENT | NUD_NOARP) != 0
}

/// Adds a request that the kernel keeps a neighbor resolved. The kernel forgets the link-layer address of a fixed neighbor for it
/// ([`is_fixed_neighbor`]).
pub(crate) fn push_managed(messages: &mut Messages, interface: InterfaceIndex, neighbor: IpAddr) {
    let flags = NTF_EXT_MANAGED.to_ne_bytes();
    push_neighbor(
        messages,
        NLM_F_CREATE | NLM_F_REPLACE,
        interface,
        neighbor,
        0,
        &[(NDA_FLAGS_EXT, &flags[..])],
    );
}

/// Adds a request that the kernel no longer keeps a neighbor resolved. If the kernel knows the link-layer address
/// (`is_known`), the kernel remembers it as for any neighbor without traffic.
pub(crate) fn push_unmanaged(
    messages: &mut Messages,
    interface: InterfaceIndex,
    neighbor: IpAddr,
    is_known: bool,
) {
    if is_known {
        push_neighbor(messages, NLM_F_REPLACE, interface, neighbor, NUD_STALE, &[]);
    } else {
        let (header, octets) = neighbor_header(interface, neighbor, 0);
        messages.push_message(RTM_DELNEIGH, 0, 1, &header, &[(NDA_DST, &octets)]);
    }
}

/// Adds a request for a neighbor at a link-layer address or one that the kernel keeps resolved; `None` removes the neighbor.
pub(crate) fn push_wanted(
    messages: &mut Messages,
    interface: InterfaceIndex,
    neighbor: IpAddr,
    wanted: Option<Neighbor>,
) {
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let (own, managed) = ((NDA_PROTOCOL, &[PROTOCOL][..]), NTF_EXT_MANAGED.to_ne_bytes());
    match wanted {
        Some(Neighbor::At(mac)) => {
            let attributes = [(NDA_LLADDR, &mac.0[..]), own];
            push_neighbor(messages, flags, interface, neighbor, NUD_PERMANENT, &attributes);
        }
        Some(Neighbor::Resolved) => {
            let attributes = [(NDA_FLAGS_EXT, &managed[..]), own];
            push_neighbor(messages, flags, interface, neighbor, 0, &attributes);
        }
        None => push_unmanaged(messages, interface, neighbor, false),
    }
}

fn push_neighbor(
    messages: &mut Messages,
    flags: u16,
    interface: InterfaceIndex,
    neighbor: IpAddr,
    state: u16,
    more: &[(u16, &[u8])],
) {
    let (header, octets) = neighbor_header(interface, neighbor, state);
    let destination = [(NDA_DST, octets.as_slice())];
    let attributes: Vec<_> = destination.into_iter().chain(more.iter().copied()).collect();
    messages.push_message(RTM_NEWNEIGH, flags, 1, &header, &attributes);
}

/// Returns the header (struct ndmsg) and the octets of the address.
fn neighbor_header(interface: InterfaceIndex, neighbor: IpAddr, state: u16) -> ([u8; 12], Vec<u8>) {
    let mut header = [0; 12];
    header[0] = family(Family::of(&neighbor)) as u8;
    header[4..8].copy_from_slice(&interface.number().to_ne_bytes());
    header[8..10].copy_from_slice(&state.to_ne_bytes());
    let octets = match neighbor {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    (header, octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::netlink::decode::messages;
    use proptest::prelude::*;

    fn only(messages_of: &Messages) -> Fact {
        let facts: Vec<_> = messages(messages_of.octets()).filter_map(|m| fact(&m)).collect();
        assert_eq!(facts.len(), 1);
        facts[0]
    }

    #[test]
    fn a_neighbor_without_an_address_does_not_answer() {
        let (interface, neighbor) = (InterfaceIndex::new(3).unwrap(), "10.0.0.2".parse().unwrap());
        let mut request = Messages::default();
        push_managed(&mut request, interface, neighbor);
        assert_eq!(only(&request), Fact::Neighbor(interface, neighbor, None));
        let mut header = [2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        let attributes = [(NDA_DST, &[10, 0, 0, 2][..]), (NDA_LLADDR, &[2, 0, 0, 0, 0, 9][..])];
        let fact = |kind, header: &[u8]| {
            let mut message = Messages::default();
            message.push_message(kind, 0, 1, header, &attributes);
            only(&message)
        };
        assert_eq!(fact(RTM_NEWNEIGH, &header), Fact::Neighbor(interface, neighbor, None), "state none");
        header[8] = 0x04;
        let mac = Some(Mac([2, 0, 0, 0, 0, 9]));
        assert_eq!(fact(RTM_NEWNEIGH, &header), Fact::Neighbor(interface, neighbor, mac));
        assert_eq!(fact(RTM_DELNEIGH, &header), Fact::Neighbor(interface, neighbor, None));
    }

    #[test]
    fn foreign_routes_by_their_keys() {
        let route = |protocol: u8, attributes: &[(u16, &[u8])]| {
            let mut message = Messages::default();
            let header = [2, 24, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
            message.push_message(RTM_NEWROUTE, 0, 1, &header, attributes);
            let facts: Vec<_> = messages(message.octets()).filter_map(|m| fact(&m)).collect();
            facts.first().copied()
        };
        let metric = 100u32.to_ne_bytes();
        let attributes = [(RTA_DST, &[192, 0, 2, 0][..]), (RTA_PRIORITY, &metric[..])];
        let expected =
            ForeignRoute { prefix: "192.0.2.0/24".parse().unwrap(), table: TableId::MAIN, metric: 100 };
        assert_eq!(route(3, &attributes), Some(Fact::Foreign(expected)));
        assert_eq!(route(PROTOCOL, &attributes), None);
    }

    proptest! {
        #[test]
        fn no_bodies_do_harm(kind in 16u16..100, body in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = fact(&Message { kind, flags: 0, sequence: 0, body: &body });
        }
    }
}
