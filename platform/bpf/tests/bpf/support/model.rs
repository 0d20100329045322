//! A router in plain Rust that the ip program is compared with.

use super::frame::{ETHERNET, set_checksum, sum};
use super::routes::Routes;
use super::tables::{INCOMING, ROUTER, Tables};
use sluice_bpf::layout::*;
use std::net::IpAddr;

/// A prefix and the members among which the flow hash chooses.
pub struct Route {
    pub prefix: IpAddr,
    pub length: u8,
    pub members: Vec<u32>,
}

/// Members by index, from 1, and routes in order of growing length.
#[derive(Default)]
pub struct Model {
    pub members: Vec<Member>,
    pub routes: Vec<Route>,
}

/// The treatment of a frame: its reason, and the members to which the packet may go.
pub struct Decision<'a> {
    pub reason: Reason,
    pub members: Vec<&'a Member>,
}

impl Model {
    /// Writes members and routes into the tables; the groups have the numbers from 3 on.
    pub fn fill(&self, tables: &Tables) {
        for (index, member) in (1..).zip(&self.members) {
            tables.set_member(index, *member);
        }
        let mut routes = Routes::new(tables);
        for (index, route) in (0..).zip(&self.routes) {
            let group = index + 3;
            match route.members[..] {
                [member] => tables.set_group(group, member),
                _ => tables
                    .set_buckets(group, index, |bucket| route.members[bucket as usize % route.members.len()]),
            }
            routes.add(route.prefix, route.length, group);
        }
    }

    /// Decides on a frame of at least 14 octets that came to the incoming port.
    pub fn decide(&self, frame: &[u8]) -> Decision<'_> {
        let (ethernet, packet) = frame.split_at(ETHERNET);
        let length = trimmed(frame).len() - ETHERNET;
        let decided = match [ethernet[12], ethernet[13]] {
            [0x08, 0x00] => before_ipv4(ethernet, packet),
            [0x86, 0xdd] => before_ipv6(ethernet, packet),
            [0xc0, 0xde | 0xdf] => Err(Reason::NoTaker),
            _ => Err(Reason::OtherEthertype),
        };
        match decided {
            Err(reason) => Decision { reason, members: vec![] },
            Ok(to) => self.decide_by_route(to, length),
        }
    }

    fn decide_by_route(&self, to: IpAddr, length: usize) -> Decision<'_> {
        let covers = |route: &&Route| is_within(to, route.prefix, route.length);
        // The longest prefix comes last.
        let route = self.routes.iter().rev().find(covers);
        let members: Vec<&Member> = route.map_or(vec![], |route| {
            route.members.iter().map(|index| &self.members[*index as usize - 1]).collect()
        });
        // Members of one group differ in their MAC addresses only.
        let Some(first) = members.first() else { return Decision { reason: Reason::Kernel, members } };
        let forwarded = if to.is_ipv4() { Reason::ForwardedIpv4 } else { Reason::ForwardedIpv6 };
        let reason = match first.action {
            1 if length > first.mtu as usize => Reason::Size,
            1 if first.interface == INCOMING => Reason::SameInterface,
            1 => forwarded,
            2 => Reason::Blackhole,
            3 => Reason::Unresolved,
            _ => Reason::Kernel,
        };
        Decision { reason, members }
    }
}

/// Returns the destination, or the reason for which the packet is not looked up.
fn before_ipv4(ethernet: &[u8], packet: &[u8]) -> Result<IpAddr, Reason> {
    let Some(header) = packet.first_chunk::<20>() else { return Err(Reason::Malformed) };
    let own = usize::from(header[0] & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || own < 20 || length < own || length > packet.len() {
        return Err(Reason::Malformed);
    }
    if ethernet[..6] != ROUTER {
        return Err(Reason::Station);
    }
    if own != 20 {
        return Err(Reason::Options);
    }
    if sum(header) != 0xffff {
        return Err(Reason::Malformed);
    }
    if header[8] < 2 {
        return Err(Reason::Ttl);
    }
    if [header[12], header[16]].iter().any(|first| [0, 127].contains(first) || *first >= 224) {
        return Err(Reason::Martian);
    }
    Ok(IpAddr::from(*header.last_chunk::<4>().unwrap()))
}

/// Does for IPv6 what [`before_ipv4`] does for IPv4.
fn before_ipv6(ethernet: &[u8], packet: &[u8]) -> Result<IpAddr, Reason> {
    let Some(header) = packet.first_chunk::<40>() else { return Err(Reason::Malformed) };
    let length = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || length > packet.len() {
        return Err(Reason::Malformed);
    }
    if ethernet[..6] != ROUTER {
        return Err(Reason::Station);
    }
    if header[6] == 0 {
        return Err(Reason::Options);
    }
    if header[7] < 2 {
        return Err(Reason::Ttl);
    }
    if [&header[8..24], &header[24..]].iter().any(|address| address[..8] == [0; 8] || address[0] >= 0xfe) {
        return Err(Reason::Martian);
    }
    Ok(IpAddr::from(*header.last_chunk::<16>().unwrap()))
}

/// Returns an intact frame without what lies behind its IP packet.
pub fn trimmed(frame: &[u8]) -> &[u8] {
    let length = match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, _, _, a, b, ..] => {
            u16::from_be_bytes([*a, *b]).into()
        }
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, _, _, _, _, a, b, ..] => {
            40 + usize::from(u16::from_be_bytes([*a, *b]))
        }
        _ => frame.len(),
    };
    &frame[..frame.len().min(ETHERNET + length)]
}

/// Returns the frame as it goes out to a member. The IPv4 checksum is computed anew.
pub fn forwarded(frame: &[u8], member: &Member) -> Vec<u8> {
    let mut out = trimmed(frame).to_vec();
    out[..6].copy_from_slice(&member.destination);
    out[6..12].copy_from_slice(&member.source);
    if out[12] == 0x08 {
        out[22] -= 1;
        set_checksum(&mut out);
    } else {
        out[21] -= 1;
    }
    out
}

/// Returns true if the first `length` bits of two addresses of one family are the same.
fn is_within(address: IpAddr, prefix: IpAddr, length: u8) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    address.is_ipv4() == prefix.is_ipv4() && (bits(address) ^ bits(prefix)) & mask == 0
}
