//! The families that tests run with.

use sluice_base::interest::InterestAnswer;
use sluice_base::{
    Address, FamilyId, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, RouteBatch, Xid, XidPrefix, XidType,
};
use sluice_bgp::family::{Families, FamilyIndex};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Input, Output, Speaker};
use sluice_bgp::table::Sharded;
use std::net::IpAddr;

/// A family to test with: tests run with all of them.
pub trait Net: Sharded {
    /// Test prefix number `n`, below 65536; neighboring numbers lie under different covers, so that they are in different
    /// tables.
    fn nth(n: u32) -> Self;
    /// Address `host` of the test's own network.
    fn host_addr(host: u8) -> IpAddr;
    /// The subnet of the hosts 0 to 15, which the router under test may share with peers.
    fn subnet() -> IpPrefix {
        IpPrefix::new(Self::host_addr(0), <Self::Hop as Prefix>::WIDTH - 4).unwrap()
    }
    /// True if next hops are IP addresses: these may have to be on a subnet, and may be sent to others there.
    fn has_ip_hops() -> bool {
        <Self::Hop as Prefix>::ID.ip().is_some()
    }
    /// The next hop that stands for a host: its address, or an XID made of that.
    fn hop_addr(host: IpAddr) -> <Self::Hop as Prefix>::Addr {
        let address = match Self::Hop::ID {
            FamilyId::XID => xid_of(host).into(),
            _ => Address::Ip(host),
        };
        address.try_into().unwrap()
    }
    /// The host that a next hop stands for.
    fn host_of(hop: Address) -> IpAddr {
        hop.ip().or_else(|| Xid::try_from(hop).ok()?.tunnel_end()).unwrap()
    }
    /// The families of a router that has this one.
    fn families() -> Families;
    /// The input for an answer of the RIB.
    fn answer(answer: InterestAnswer<Self::Hop>) -> Input;
    /// The question about a next hop in an output.
    fn interest(output: &Output) -> Option<Interest<Self::Hop>>;
    /// Takes a batch of routes for the RIB; returns true if the table has nothing more.
    fn rib_batch(speaker: &mut Speaker, limit: usize, batch: &mut RouteBatch<Self>) -> bool {
        speaker.rib_batch(limit, batch)
    }
}

/// The XID of port 13781 of a host.
pub fn xid_of(host: IpAddr) -> Xid {
    let IpAddr::V4(host) = host else { panic!("{host} has no U4ID") };
    let [a, b, c, d] = host.octets();
    let mut id = [0; 20];
    id[..6].copy_from_slice(&[a, b, c, d, 0x35, 0xd5]);
    Xid { kind: XidType::U4ID, id }
}

/// Whole XIDs, and some prefixes.
impl Net for XidPrefix {
    fn nth(n: u32) -> Self {
        let mut id = [0; 20];
        id[..4].copy_from_slice(&((n & 15) << 28 | n >> 4).to_be_bytes());
        let (kind, bits) = if n.is_multiple_of(3) { (XidType::LPM, 32) } else { (XidType::AD, 160) };
        XidPrefix::of_type(kind, id, bits).unwrap()
    }
    fn host_addr(host: u8) -> IpAddr {
        Ipv4Prefix::host_addr(host)
    }
    fn subnet() -> IpPrefix {
        Ipv4Prefix::subnet()
    }
    fn families() -> Families {
        Families::only(FamilyIndex::XID)
    }
    /// The input for an answer of the RIB.
    fn answer(answer: InterestAnswer<Self>) -> Input {
        Input::AnswerXid(answer)
    }
    /// The question about a next hop in an output.
    fn interest(output: &Output) -> Option<Interest<Self>> {
        match output {
            Output::InterestXid(i) => Some(*i),
            _ => None,
        }
    }
}

impl Net for Ipv4Prefix {
    fn nth(n: u32) -> Self {
        Self::from_parts(0x1400_0000 + ((n & 15) << 22) + ((n >> 4) << 8), 24).unwrap()
    }
    fn host_addr(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }
    fn families() -> Families {
        Families::only(FamilyIndex::IPV4)
    }
    /// The input for an answer of the RIB.
    fn answer(answer: InterestAnswer<Self>) -> Input {
        Input::AnswerIpv4(answer)
    }
    /// The question about a next hop in an output.
    fn interest(output: &Output) -> Option<Interest<Self>> {
        match output {
            Output::InterestIpv4(i) => Some(*i),
            _ => None,
        }
    }
}

impl Net for Ipv6Prefix {
    fn nth(n: u32) -> Self {
        Self::from_parts((0x2a00 << 112) + (u128::from(n & 15) << 98) + (u128::from(n >> 4) << 80), 48)
            .unwrap()
    }
    fn host_addr(host: u8) -> IpAddr {
        let mut octets = [0; 16];
        (octets[0], octets[1], octets[15]) = (0x20, 0x01, host);
        IpAddr::from(octets)
    }
    fn families() -> Families {
        Families::only(FamilyIndex::IPV6)
    }
    /// The input for an answer of the RIB.
    fn answer(answer: InterestAnswer<Self>) -> Input {
        Input::AnswerIpv6(answer)
    }
    /// The question about a next hop in an output.
    fn interest(output: &Output) -> Option<Interest<Self>> {
        match output {
            Output::InterestIpv6(i) => Some(*i),
            _ => None,
        }
    }
}
