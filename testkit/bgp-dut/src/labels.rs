//! The family of labels, which have IPv4 next hops.

use super::Net;
use sluice_base::interest::InterestAnswer;
use sluice_base::{Ipv4Prefix, Prefix};
use sluice_bgp::family::{Families, FamilyIndex};
use sluice_bgp::labels::Label;
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Input, Output};
use std::net::IpAddr;

impl Net for Label {
    fn nth(n: u32) -> Self {
        Self::from_parts(0x1400_0000 + ((n & 15) << 22) + ((n >> 4) << 8), 24).unwrap()
    }
    fn host_addr(host: u8) -> IpAddr {
        Ipv4Prefix::host_addr(host)
    }
    fn families() -> Families {
        Families::only(FamilyIndex::LABELS)
    }
    fn answer(answer: InterestAnswer<Ipv4Prefix>) -> Input {
        Input::AnswerIpv4(answer)
    }
    fn interest(output: &Output) -> Option<Interest<Ipv4Prefix>> {
        Ipv4Prefix::interest(output)
    }
}
