//! The families that tests run with.

use sluice_base::interest::InterestAnswer;
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, RouteBatch};
use sluice_bgp::family::{Families, FamilyIndex};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Input, Output, Speaker};
use sluice_bgp::table::Sharded;
use std::net::IpAddr;

/// A family to test with: tests run with all of them.
pub trait Net: Sharded {
    /// Test prefix number `n`, below 65536; neighbouring numbers lie under different covers, so that they are in different
    /// tables.
    fn nth(n: u32) -> Self;
    /// Address `host` of the test's own network.
    fn host_addr(host: u8) -> IpAddr;
    /// The subnet of the hosts 0 to 15, which the router under test may share with peers.
    fn subnet() -> IpPrefix {
        IpPrefix::new(Self::host_addr(0), <Self::Hop as Prefix>::WIDTH - 4).unwrap()
    }
    fn families() -> Families;
    fn answer(answer: InterestAnswer<Self::Hop>) -> Input;
    fn interest(output: &Output) -> Option<Interest<Self::Hop>>;
    fn rib_batch(speaker: &mut Speaker, limit: usize, batch: &mut RouteBatch<Self>) -> bool {
        speaker.rib_batch(limit, batch)
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
    fn answer(answer: InterestAnswer<Self>) -> Input {
        Input::AnswerIpv4(answer)
    }
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
    fn answer(answer: InterestAnswer<Self>) -> Input {
        Input::AnswerIpv6(answer)
    }
    fn interest(output: &Output) -> Option<Interest<Self>> {
        match output {
            Output::InterestIpv6(i) => Some(*i),
            _ => None,
        }
    }
}
