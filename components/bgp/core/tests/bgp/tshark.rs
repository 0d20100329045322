//! The messages of the router read by tshark, an independent decoder: the messages to a neighbor are compared field by field with
//! the expected messages.

use sluice_base::{Asn, Ipv4Prefix, Ipv6Prefix, RouterId};
use sluice_bgp::relationship::Relationship;
use sluice_bgp::wire::capability::{LongLivedFamily, RestartFamily};
use sluice_bgp::wire::{AFI_IPV6, Capability, Notification, Open, RouteRefresh, header};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net};
use sluice_testkit::tshark::{self, Packet};
use std::net::{IpAddr, Ipv6Addr};

/// The announcing neighbor, and the receivers: external, internal, with 2-octet AS numbers, and a customer.
const SOURCE: usize = 0;
const EXTERNAL: usize = 1;
const INTERNAL: usize = 2;
const OLD: usize = 3;
const CUSTOMER: usize = 4;

/// An attribute unknown to the router and to tshark.
const UNKNOWN: u8 = 200;
/// Octets of IPv4's and TCP's header before each message.
const HEADERS: usize = 40;

/// Decodes messages, one a packet, with AS paths of so many octets a number. `None` without tshark.
fn decoded(messages: &[Vec<u8>], as_octets: u8) -> Option<Vec<Packet>> {
    let file = std::env::temp_dir().join(format!(
        "sluice-tshark-{}-{:?}.pcap",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&file, sluice_testkit::capture::written(179, messages)).unwrap();
    let packets = tshark::decode(&file, "bgp", &[&format!("bgp.asn_len:{as_octets} octet")]);
    std::fs::remove_file(&file).unwrap();
    let packets = packets?;
    assert_eq!(packets.len(), messages.len());
    for packet in &packets {
        assert_eq!(packet.complaints(), [""; 0], "{packet:?}");
    }
    Some(packets)
}

/// Asserts that `packet` has exactly these values in these fields.
fn assert_shown(packet: &Packet, meant: &[(&str, &[&str])]) {
    for (field, values) in meant {
        assert_eq!(packet.shown(field), *values, "{field} of {packet:?}");
    }
}

/// An attribute in octets.
fn attribute(flags: u8, code: u8, value: &[u8]) -> Vec<u8> {
    [&[flags, code, value.len() as u8], value].concat()
}

/// The sample's attributes without its next hop, by code.
fn sample() -> Vec<u8> {
    let path = [2, 2, 0, 0, 0xfd, 0xea, 0, 6, 0x1a, 0x80, 1, 2, 0, 0, 1, 0x2c, 0, 7, 0xa1, 0x20];
    let communities = [0xfd, 0xea, 0, 7, 0xff, 0xff, 0xff, 0x04];
    let extended = [0, 2, 0xfd, 0xea, 0, 0, 0, 9, 0x40, 4, 0xfd, 0xea, 0x4a, 0x74, 0x24, 0];
    let large = [[0, 6, 0x1a, 0x80], [0, 0, 0, 1], [0, 0, 0, 2]].concat();
    [
        attribute(0x40, 1, &[2]),
        attribute(0x40, 2, &path),
        attribute(0x80, 4, &[0, 0, 0, 77]),
        attribute(0x40, 6, &[]),
        attribute(0xc0, 7, &[0, 6, 0x1a, 0x80, 192, 0, 2, 9]),
        attribute(0xc0, 8, &communities),
        attribute(0xc0, 16, &extended),
        attribute(0xc0, 25, &[&[0, 2][..], &[0x20; 16], &[0, 5]].concat()),
        attribute(0xc0, 32, &large),
        attribute(0xc0, 35, &[0, 0, 0xfd, 0xea]),
        attribute(0xc0, UNKNOWN, &[1, 2, 3]),
    ]
    .concat()
}

/// An UPDATE with these attributes, `next_hop` and two prefixes, in octets.
fn update<P: Net>(attributes: &[u8], next_hop: IpAddr, prefixes: [P; 2]) -> Vec<u8> {
    let mut nlri = vec![];
    prefixes.iter().for_each(|prefix| prefix.put(&mut nlri));
    let (attributes, nlri) = match next_hop {
        IpAddr::V4(hop) => ([attributes, &attribute(0x40, 3, &hop.octets())].concat(), nlri),
        IpAddr::V6(hop) => {
            let reach = [&[0, 2, 1, 16][..], &hop.octets(), &[0], &nlri].concat();
            ([&attribute(0x80, 14, &reach), attributes].concat(), vec![])
        }
    };
    let body = [&[0, 0][..], &(attributes.len() as u16).to_be_bytes(), &attributes, &nlri].concat();
    [&[0xff; 16][..], &(body.len() as u16 + 19).to_be_bytes(), &[2], &body].concat()
}

/// Returns a router with its neighbors that was announced [`sample`] with the prefixes 1 and 2 and, without attributes that it need not
/// have, the prefixes 3 and 4; then prefix 1 was withdrawn.
fn router<P: Net>() -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS, 65004, 65005], 1);
    dut.peers[OLD].four_octet_as = false;
    dut.peers[CUSTOMER].relationship = Some(Relationship::Customer);
    dut.link_local = Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    dut.configure();
    let hop = P::host_addr(2);
    dut.set_reach(hop, Some((0, true)));
    (0..5).for_each(|peer| dut.up(peer));
    dut.settle();
    let plain = [attribute(0x40, 1, &[0]), attribute(0x40, 2, &[2, 1, 0, 0, 0xfd, 0xea])].concat();
    for (attributes, first) in [(sample(), 1), (plain, 3)] {
        dut.say(SOURCE, &update(&attributes, hop, [P::nth(first), P::nth(first + 1)]));
        dut.settle();
    }
    dut.withdraw(SOURCE, &[P::nth(1)]);
    dut.settle();
    dut
}

/// Checks the announcement of [`sample`] to `peer`, as decoded by tshark.
fn check_sample<P: Net>(peer: usize, packet: &Packet, message: &[u8]) {
    const FIELD: &str = "bgp.update.path_attribute";
    let (is_internal, is_old, is_ipv4) = (peer == INTERNAL, peer == OLD, P::WIDTH == 32);
    let codes: Vec<u8> = [14, 1, 2, 3, 4, 5, 6, 7, 8, 16, 25, 32, 35, UNKNOWN, 17, 18]
        .into_iter()
        .filter(|code| match code {
            14 => !is_ipv4,
            3 => is_ipv4,
            4 | 5 => is_internal,
            17 | 18 => is_old,
            _ => true,
        })
        .collect();
    let flags = codes.iter().map(|code| match code {
        1..=3 | 5 | 6 => "0x40",
        4 => "0x80",
        14 => "0x90",
        &UNKNOWN => "0xe0",
        _ => "0xc0",
    });
    assert_eq!(packet.shown(&format!("{FIELD}.flags")), flags.collect::<Vec<_>>());
    let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
    assert_eq!(packet.shown(&format!("{FIELD}.type_code")), codes);

    let narrow: &[&str] = &["65001", "65002", "23456", "300", "23456"];
    let wide: &[&str] = &["65001", "65002", "400000", "300", "500000"];
    let segments: &[&str] = &["2", "1"];
    let as_path: [(&str, &[&str]); 4] = [
        (
            "bgp.update.path_attribute.as_path_segment.type",
            if is_old { &["2", "1", "2", "1"] } else { segments },
        ),
        ("bgp.update.path_attribute.as_path_segment.as2", if is_old { narrow } else { &[] }),
        ("bgp.update.path_attribute.as_path_segment.as4", if is_internal { &wide[1..] } else { wide }),
        ("bgp.update.path_attribute.aggregator_as", if is_old { &["23456", "400000"] } else { &["400000"] }),
    ];
    assert_shown(packet, &as_path);
    let origins: &[&str] = if is_old { &["192.0.2.9"; 2] } else { &["192.0.2.9"] };
    let only_internal = |value: &'static [&'static str]| if is_internal { value } else { &[] };
    assert_shown(
        packet,
        &[
            ("bgp.type", &["2"]),
            ("bgp.update.path_attribute.origin", &["2"]),
            ("bgp.update.path_attribute.multi_exit_disc", only_internal(&["77"])),
            ("bgp.update.path_attribute.local_pref", only_internal(&["100"])),
            ("bgp.update.path_attribute.aggregator_origin", origins),
            ("bgp.update.path_attribute.community_as", &["65002"]),
            ("bgp.update.path_attribute.community_value", &["7"]),
            ("bgp.update.path_attribute.community_wellknown", &["0xffffff04"]),
            // A route target, and inside the AS a bandwidth.
            ("bgp.ext_com.type", if is_internal { &["0x00", "0x40"] } else { &["0x00"] }),
            ("bgp.ext_com.stype_tr_as2", &["0x02"]),
            ("bgp.ext_com.stype_ntr_as2", only_internal(&["0x04"])),
            ("bgp.ext_com.value_an4", &["9"]),
            ("bgp.large_communities.ga", &["400000"]),
            ("bgp.large_communities.ldp1", &["1"]),
            ("bgp.large_communities.ldp2", &["2"]),
        ],
    );
    // Attributes that tshark does not know: their octets, at the place where it finds them.
    let unknown = packet.places("bgp.update.path_attributes.unknown").into_iter();
    let values: Vec<&[u8]> = unknown.map(|p| &message[p.start - HEADERS..p.end - HEADERS]).collect();
    let target = [&[0, 2][..], &[0x20; 16], &[0, 5]].concat();
    assert_eq!(values, [&target[..], &[0, 0, 0xfd, 0xea], &[1, 2, 3]]);
    check_routes::<P>(peer, packet, [1, 2]);
}

/// Checks the next hop and the prefixes of an announcement to `peer`, as decoded by tshark.
fn check_routes<P: Net>(peer: usize, packet: &Packet, prefixes: [u32; 2]) {
    let hop = P::host_addr(if peer == INTERNAL { 2 } else { 1 }).to_string();
    let prefixes = prefixes.map(|n| P::nth(n).to_string());
    let split = prefixes.each_ref().map(|p| p.split_once('/').unwrap());
    let (addresses, lengths) = (split.map(|(address, _)| address), split.map(|(_, len)| len));
    assert_shown(packet, &[("bgp.prefix_length", &lengths)]);
    if P::WIDTH == 32 {
        assert_shown(
            packet,
            &[("bgp.update.path_attribute.next_hop", &[&hop]), ("bgp.nlri_prefix", &addresses)],
        );
        return;
    }
    let link_local: &[&str] = if peer == INTERNAL { &[] } else { &["fe80::1"] };
    assert_shown(
        packet,
        &[
            ("bgp.update.path_attribute.mp_reach_nlri.afi", &["2"]),
            ("bgp.update.path_attribute.mp_reach_nlri.safi", &["1"]),
            ("bgp.update.path_attribute.mp_reach_nlri.next_hop.ipv6", &[&hop]),
            ("bgp.update.path_attribute.mp_reach_nlri.next_hop.ipv6.link_local", link_local),
            ("bgp.mp_reach_nlri_ipv6_prefix", &addresses),
        ],
    );
}

fn check_withdrawal<P: Net>(packet: &Packet) {
    let prefix = P::nth(1).to_string();
    let (address, len) = prefix.split_once('/').unwrap();
    let (codes, field): (&[&str], _) = if P::WIDTH == 32 {
        (&[], "bgp.withdrawn_prefix")
    } else {
        (&["15"], "bgp.mp_unreach_nlri_ipv6_prefix")
    };
    let meant: [(&str, &[&str]); 3] =
        [("bgp.update.path_attribute.type_code", codes), ("bgp.prefix_length", &[len]), (field, &[address])];
    assert_shown(packet, &meant);
}

fn tshark_reads_what_neighbors_are_sent<P: Net>() {
    let dut = router::<P>();
    for peer in [EXTERNAL, INTERNAL, OLD, CUSTOMER] {
        let updates: Vec<Vec<u8>> = dut.peers[peer].wire.iter().filter(|m| m[18] == 2).cloned().collect();
        let Some(packets) = decoded(&updates, if peer == OLD { 2 } else { 4 }) else { return };
        let [marker, rich, plain, withdrawal] = &packets[..] else { panic!("{peer}: {packets:?}") };
        let families: &[&str] = if P::WIDTH == 32 { &[] } else { &["2"] };
        assert_shown(
            marker,
            &[("bgp.update.path_attribute.mp_unreach_nlri.afi", families), ("bgp.prefix_length", &[])],
        );
        check_sample::<P>(peer, rich, &updates[1]);
        check_routes::<P>(peer, plain, [3, 4]);
        let marks = plain.places("bgp.update.path_attributes.unknown").into_iter();
        let marks: Vec<&[u8]> = marks.map(|p| &updates[2][p.start - HEADERS..p.end - HEADERS]).collect();
        let own = LOCAL_AS.to_be_bytes();
        assert_eq!(marks, if peer == CUSTOMER { vec![&own[..]] } else { vec![] }, "ONLY_TO_CUSTOMER");
        check_withdrawal::<P>(withdrawal);
    }
}

#[test]
fn tshark_reads_announcements_and_withdrawals_of_ipv4() {
    tshark_reads_what_neighbors_are_sent::<Ipv4Prefix>();
}

#[test]
fn tshark_reads_announcements_and_withdrawals_of_ipv6() {
    tshark_reads_what_neighbors_are_sent::<Ipv6Prefix>();
}

#[test]
fn tshark_reads_messages_that_carry_no_routes() {
    let restart = Capability::GracefulRestart {
        flags: 12,
        restart_time: 300,
        families: vec![RestartFamily { afi: AFI_IPV6, safi: 1, flags: 0x80 }],
    };
    let family = LongLivedFamily { afi: AFI_IPV6, safi: 1, flags: 0x80, stale_time: 70_000 };
    let long_lived = Capability::LongLivedRestart(vec![family]);
    let open = Open {
        version: 4,
        as_field: 23456,
        hold_time: 90,
        router_id: RouterId(0x0a00_0001),
        capabilities: vec![
            Capability::unicast(1),
            Capability::unicast(AFI_IPV6),
            Capability::RouteRefresh,
            Capability::FourOctetAs(Asn(400_000)),
            restart,
            long_lived,
            Capability::Role(3),
        ],
    };
    let mut messages = vec![vec![]; 4];
    open.put(&mut messages[0]);
    header::put_keepalive(&mut messages[1]);
    RouteRefresh::new(AFI_IPV6, 1, 0).put(&mut messages[2]);
    Notification::cease(2, "back at noon").put(&mut messages[3]);
    let Some(packets) = decoded(&messages, 4) else { return };
    let meant: [&[(&str, &[&str])]; 4] = [
        &[
            ("bgp.type", &["1"]),
            ("bgp.open.version", &["4"]),
            ("bgp.open.myas", &["23456"]),
            ("bgp.open.holdtime", &["90"]),
            ("bgp.open.identifier", &["10.0.0.1"]),
            ("bgp.cap.type", &["1", "1", "2", "65", "64", "71", "9"]),
            ("bgp.cap.gr.timers.notification_flag", &["1"]),
            ("bgp.cap.mp.afi", &["1", "2"]),
            ("bgp.cap.mp.safi", &["1", "1"]),
            ("bgp.cap.4as", &["400000"]),
            ("bgp.cap.gr.timers.restart_flag", &["1"]),
            ("bgp.cap.gr.timers.restart_time", &["300"]),
            ("bgp.cap.gr.afi", &["2"]),
            ("bgp.cap.gr.safi", &["1"]),
            ("bgp.cap.gr.flag.pfs", &["1"]),
            ("bgp.cap.unknown", &["00:02:01:80:01:11:70", "03"]),
        ],
        &[("bgp.type", &["4"]), ("bgp.length", &["19"])],
        &[("bgp.type", &["5"]), ("bgp.route_refresh.afi", &["2"]), ("bgp.route_refresh.safi", &["1"])],
        &[
            ("bgp.type", &["3"]),
            ("bgp.notify.major_error", &["6"]),
            ("bgp.notify.minor_error_cease", &["2"]),
            ("bgp.notify.communication", &["back at noon"]),
        ],
    ];
    for (packet, meant) in packets.iter().zip(meant) {
        assert_shown(packet, meant);
    }
}
