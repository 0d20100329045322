//! The ip program on frames made by hand.
#![cfg(feature = "xdp")]
#![allow(clippy::unwrap_used)]

mod support;

use sluice_bpf::layout::*;
use support::frame::{ETHERNET, ipv4, ipv6, sum};
use support::tables::{Chain, ROUTER};

fn hop(interface: u32) -> Member {
    let destination = [2, 0, 0, 0, 1, interface as u8];
    Member { action: MemberAction::Forward as u32, interface, mtu: 1500, destination, source: ROUTER }
}

/// Runs `work` on a thread of its own, with a chain whose node tables have `nodes` entries.
fn with_chain(nodes: u32, work: impl FnOnce(Chain) + Send + 'static) {
    if support::usable() {
        std::thread::spawn(move || work(Chain::load(nodes))).join().unwrap();
    }
}

#[test]
fn packets_are_sent_with_new_macs_and_one_hop_less() {
    with_chain(2, |chain| {
        let (to4, to6) = ("198.51.100.1".parse().unwrap(), "2001:db8:1::1".parse().unwrap());
        let frame4 = ipv4("192.0.2.1".parse().unwrap(), to4, 18);
        let frame6 = ipv6("2001:db8::1".parse().unwrap(), to6, 18);
        for frame in [&frame4, &frame6] {
            assert_eq!(chain.reason(frame).0, Reason::Kernel);
        }
        chain.tables.set_member(1, hop(77));
        chain.tables.set_group(3, 1);
        chain.tables.set_ipv4(to4, 3);
        chain.tables.set_ipv6(to6, 3);
        let (reason, ran) = chain.reason(&frame4);
        assert_eq!(reason, Reason::ForwardedIpv4);
        assert_eq!(ran.frame[..12], [&hop(77).destination[..], &ROUTER].concat());
        assert_eq!((ran.frame[22], sum(&ran.frame[ETHERNET..34])), (63, 0xffff));
        let (reason, ran) = chain.reason(&frame6);
        assert_eq!(reason, Reason::ForwardedIpv6);
        assert_eq!((ran.frame[21], &ran.frame[22..]), (63, &frame6[22..]));
    });
}
