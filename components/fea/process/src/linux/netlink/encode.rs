//! Values to netlink messages.

use super::number::*;
use super::sources::Sources;
use sluice_base::{Family, InterfaceAddress, InterfaceIndex, IpPrefix, TableId};
use sluice_fea::engine::{PREFERENCE, PROTOCOL};
use sluice_fea::{EngineOp, Member, Members, NextHopId, RouteTarget};
use std::net::IpAddr;

/// A sequence of messages, ready to be sent.
#[derive(Debug, Default)]
pub struct Messages {
    octets: Vec<u8>,
    /// The offset of the last message.
    start: usize,
    count: usize,
    /// The source addresses of added routes.
    pub sources: Sources,
}

impl Messages {
    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true without messages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Clears the messages; the space stays.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.count = 0;
    }

    fn begin(&mut self, kind: u16, flags: u16, sequence: u32) {
        self.start = self.octets.len();
        self.octets.extend_from_slice(&[0; 4]);
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        self.octets.extend_from_slice(&sequence.to_ne_bytes());
        self.octets.extend_from_slice(&[0; 4]);
    }

    /// Writes the length; every message and attribute is padded to 4 octets.
    fn end(&mut self) {
        let length = (self.octets.len() - self.start) as u32;
        self.octets[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
        self.count += 1;
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.octets.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.octets.extend_from_slice(&kind.to_ne_bytes());
        self.octets.extend_from_slice(value);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }

    fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    fn address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(a) => self.attribute(kind, &a.octets()),
            IpAddr::V6(a) => self.attribute(kind, &a.octets()),
        }
    }

    /// Adds the messages of `op`, with the sequence number `sequence`. Returns false for an operation without a message.
    pub fn push(&mut self, op: &EngineOp, sequence: u32) -> bool {
        match op {
            EngineOp::SetMember { id, member } => self.set_member(*id, member, sequence),
            EngineOp::SetGroup { id, members, create } => self.set_group(*id, members, *create, sequence),
            EngineOp::DeleteNextHop { id } => {
                self.begin(RTM_DELNEXTHOP, 0, sequence);
                // The kernel wants a header of zeros here: the number alone identifies the object.
                self.octets.extend_from_slice(&[0; 8]);
                self.number(NHA_ID, id.0);
                self.end();
            }
            EngineOp::SetRoute { table, prefix, target, replace, .. } => {
                return self.set_route(*table, *prefix, *target, *replace, sequence);
            }
            EngineOp::DeleteRoute { table, prefix, .. } => {
                self.begin(RTM_DELROUTE, 0, sequence);
                self.route_header(*table, *prefix, libc::RT_SCOPE_NOWHERE, libc::RTN_UNSPEC);
                self.route_key(*table, *prefix);
                self.end();
            }
            EngineOp::SetLink { interface, up, mtu } => self.set_link(*interface, *up, *mtu, sequence),
            EngineOp::AddAddress { interface, address } => {
                self.address_message(RTM_NEWADDR, *interface, address, sequence);
            }
            EngineOp::DeleteAddress { interface, address } => {
                self.address_message(RTM_DELADDR, *interface, address, sequence);
            }
            EngineOp::SetForwarding { .. } | EngineOp::SetSource { .. } => return false,
        }
        true
    }

    fn next_hop_header(&mut self, family: i32) {
        self.octets.extend_from_slice(&[family as u8, libc::RT_SCOPE_UNIVERSE, PROTOCOL, 0, 0, 0, 0, 0]);
    }

    fn set_member(&mut self, id: NextHopId, member: &Member, sequence: u32) {
        self.begin(RTM_NEWNEXTHOP, NLM_F_CREATE | NLM_F_REPLACE, sequence);
        let family_of = match member {
            Member::Via { gateway, .. } => Family::of(gateway),
            Member::Direct { family, .. } | Member::Blackhole { family } => *family,
        };
        self.next_hop_header(family(family_of));
        self.number(NHA_ID, id.0);
        match member {
            Member::Via { gateway, interface } => {
                self.address(NHA_GATEWAY, *gateway);
                self.number(NHA_OIF, interface.number());
            }
            Member::Direct { interface, .. } => self.number(NHA_OIF, interface.number()),
            Member::Blackhole { .. } => self.attribute(NHA_BLACKHOLE, &[]),
        }
        self.end();
    }

    fn set_group(&mut self, id: NextHopId, members: &Members, create: bool, sequence: u32) {
        let create = if create { NLM_F_CREATE } else { 0 };
        self.begin(RTM_NEWNEXTHOP, NLM_F_REPLACE | create, sequence);
        self.next_hop_header(libc::AF_UNSPEC);
        self.number(NHA_ID, id.0);
        let mut group = smallvec::SmallVec::<[u8; 64]>::new();
        for (member, weight) in members {
            group.extend_from_slice(&member.0.to_ne_bytes());
            // struct nexthop_grp: the weight less one, its high octet, two reserved.
            group.extend_from_slice(&[weight.saturating_sub(1), 0, 0, 0]);
        }
        self.attribute(NHA_GROUP, &group);
        self.end();
    }

    fn route_header(&mut self, table: TableId, prefix: IpPrefix, scope: u8, kind: u8) {
        // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
        let table = u8::try_from(table.0).unwrap_or(libc::RT_TABLE_UNSPEC);
        let family = family(prefix.family()) as u8;
        let header = [family, prefix.len(), 0, 0, table, PROTOCOL, scope, kind, 0, 0, 0, 0];
        self.octets.extend_from_slice(&header);
    }

    /// Writes the key of a route: destination, preference, table.
    fn route_key(&mut self, table: TableId, prefix: IpPrefix) {
        self.address(RTA_DST, prefix.addr());
        self.number(RTA_PRIORITY, PREFERENCE);
        if table.0 > 255 {
            self.number(RTA_TABLE, table.0);
        }
    }

    fn set_route(
        &mut self,
        table: TableId,
        prefix: IpPrefix,
        target: RouteTarget,
        replace: bool,
        sequence: u32,
    ) -> bool {
        let kind = match target {
            RouteTarget::Group(_) => libc::RTN_UNICAST,
            RouteTarget::Unreachable => libc::RTN_UNREACHABLE,
            RouteTarget::Other => return false,
        };
        let mode = if replace { NLM_F_REPLACE } else { NLM_F_EXCL };
        self.begin(RTM_NEWROUTE, NLM_F_CREATE | mode, sequence);
        self.route_header(table, prefix, libc::RT_SCOPE_UNIVERSE, kind);
        self.route_key(table, prefix);
        if let RouteTarget::Group(id) = target {
            self.number(RTA_NH_ID, id.0);
            if let Some(source) = self.sources.of(prefix.family()) {
                self.address(RTA_PREFSRC, source);
            }
        }
        self.end();
        true
    }

    fn set_link(&mut self, interface: InterfaceIndex, up: Option<bool>, mtu: Option<u32>, sequence: u32) {
        self.begin(RTM_NEWLINK, 0, sequence);
        let flag = libc::IFF_UP as u32;
        let flags = if up == Some(true) { flag } else { 0 };
        let change = if up.is_some() { flag } else { 0 };
        self.octets.extend_from_slice(&[0; 4]);
        for value in [interface.number(), flags, change] {
            self.octets.extend_from_slice(&value.to_ne_bytes());
        }
        if let Some(mtu) = mtu {
            self.number(IFLA_MTU, mtu);
        }
        self.end();
    }

    fn address_message(
        &mut self,
        kind: u16,
        interface: InterfaceIndex,
        address: &InterfaceAddress,
        sequence: u32,
    ) {
        let flags = if kind == RTM_NEWADDR { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
        self.begin(kind, flags, sequence);
        let family = family(Family::of(&address.addr)) as u8;
        self.octets.extend_from_slice(&[family, address.prefix_len, 0, 0]);
        self.octets.extend_from_slice(&interface.number().to_ne_bytes());
        self.address(IFA_LOCAL, address.addr);
        self.address(IFA_ADDRESS, address.peer.unwrap_or(address.addr));
        self.attribute(IFA_PROTO, &[PROTOCOL]);
        self.end();
    }

    /// Adds a message of any kind: `header` follows the netlink header, and the attributes have types and values.
    pub(crate) fn push_message(
        &mut self,
        kind: u16,
        flags: u16,
        sequence: u32,
        header: &[u8],
        attributes: &[(u16, &[u8])],
    ) {
        self.begin(kind, flags, sequence);
        self.octets.extend_from_slice(header);
        for (kind, value) in attributes {
            self.attribute(*kind, value);
        }
        self.end();
    }

    /// Adds a request for the route by which the kernel forwards packets to `addr`.
    pub(crate) fn push_lookup(&mut self, addr: IpAddr, sequence: u32) {
        self.begin(RTM_GETROUTE, 0, sequence);
        let width = if addr.is_ipv4() { 32 } else { 128 };
        self.octets.extend_from_slice(&[family(Family::of(&addr)) as u8, width, 0, 0, 0, 0, 0, 0]);
        self.octets.extend_from_slice(&(RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH).to_ne_bytes());
        self.address(RTA_DST, addr);
        self.end();
    }

    /// Adds a request for the links, addresses or next-hop objects (`kind`), or for the routes of a family, of all programs.
    pub(crate) fn push_dump(&mut self, kind: u16, family_of: Option<Family>, sequence: u32) {
        self.begin(kind, NLM_F_DUMP, sequence);
        let family = family_of.map_or(libc::AF_UNSPEC, family) as u8;
        match kind {
            RTM_GETROUTE => {
                self.octets.extend_from_slice(&[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            }
            RTM_GETLINK => self.octets.extend_from_slice(&[0; 16]),
            _ => self.octets.extend_from_slice(&[family, 0, 0, 0, 0, 0, 0, 0]),
        }
        self.end();
    }
}

/// The kernel's number for a family.
pub const fn family(family: Family) -> i32 {
    match family {
        Family::Ipv4 => libc::AF_INET,
        Family::Ipv6 => libc::AF_INET6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Provenance;
    use sluice_fea::engine::Scope;

    #[test]
    fn a_route_in_octets() {
        let mut messages = Messages::default();
        let op = EngineOp::SetRoute {
            table: TableId(1000),
            prefix: "192.0.2.0/24".parse().unwrap(),
            target: RouteTarget::Group(NextHopId(7)),
            replace: false,
            scope: Scope::All,
            provenance: Provenance::NONE,
        };
        assert!(messages.push(&op, 9));
        assert_eq!((messages.len(), messages.octets().len()), (1, 16 + 12 + 4 * 8));
        let expected: [&[u8]; 7] = [
            &[60, 0, 0, 0, 24, 0, 0x01, 0x06, 9, 0, 0, 0, 0, 0, 0, 0],
            &[2, 24, 0, 0, 0, 83, 0, 1, 0, 0, 0, 0],
            &[8, 0, 1, 0, 192, 0, 2, 0],
            &[8, 0, 6, 0, 20, 0, 0, 0],
            &[8, 0, 15, 0, 232, 3, 0, 0],
            &[8, 0, 30, 0, 7, 0, 0, 0],
            &[],
        ];
        assert_eq!(messages.octets(), expected.concat());
    }
}
