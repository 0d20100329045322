//! Routes of XIDs: what is malformed, what is nobody's next hop, and the numbers on the wire.

use sluice_base::{Address, Xid, XidPrefix};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::family::{FamilyCode, FamilyCodes, FamilyIndex};
use sluice_bgp::session::State;
use sluice_bgp::speaker::{Identity, Speaker};
use sluice_bgp::wire::attribute::{Attributes, code};
use sluice_bgp::wire::{Capability, FamilyKey, MessageType, Open, RouteRefresh, Update, header};
use sluice_bgp_dut::route::announcement;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, xid_of};

const PEER: u32 = 65002;

fn router() -> Dut<XidPrefix> {
    let mut dut = Dut::new(&[PEER, 65003], 2);
    dut.set_reach(XidPrefix::host_addr(9), Some((1, false)));
    dut.up(0);
    dut.up(1);
    dut
}

/// A route by way of host 9.
fn route() -> Route {
    Route::new(vec![PEER], XidPrefix::host_addr(9))
}

/// The announcement of a route, of which the octets of MP_REACH_NLRI are changed: from AFI on.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let whole = announcement(&[XidPrefix::nth(1)], &route());
    let body = &whole[header_len()..];
    let update = Update::decode(body).unwrap();
    let mut attributes = vec![];
    let mut change = Some(change);
    for attribute in Attributes::new(update.attributes, 0).map(Result::unwrap) {
        let mut value = attribute.value.to_vec();
        if attribute.code == code::MP_REACH_NLRI {
            change.take().unwrap()(&mut value);
        }
        sluice_bgp::wire::attribute::put_header(
            &mut attributes,
            attribute.flags.0 & !0x10,
            attribute.code,
            value.len(),
        );
        attributes.extend(value);
    }
    let mut out = vec![];
    let at = header::start(&mut out, MessageType::Update);
    out.extend([0, 0]);
    out.extend((attributes.len() as u16).to_be_bytes());
    out.extend(attributes);
    header::finish(&mut out, at);
    out
}

const fn header_len() -> usize {
    sluice_bgp::wire::HEADER_LEN
}

fn has_route(dut: &mut Dut<XidPrefix>) -> bool {
    dut.settle();
    dut.rib.contains_key(&XidPrefix::nth(1))
}

fn is_up(dut: &Dut<XidPrefix>) -> bool {
    dut.speaker.neighbor(dut.peers[0].address).unwrap().state == State::Established
}

#[test]
fn a_route_goes_to_the_rib_and_on_by_the_xid_of_this_router() {
    let mut dut = router();
    dut.announce(0, &[XidPrefix::nth(1), XidPrefix::nth(3)], &route());
    assert!(has_route(&mut dut));
    assert_eq!(dut.rib[&XidPrefix::nth(3)].0, XidPrefix::host_addr(9), "no next hop is on a subnet");
    let advertised = &dut.peers[1].received;
    assert_eq!((advertised.len(), advertised[&XidPrefix::nth(1)].next_hop), (2, XidPrefix::host_addr(1)));
}

#[test]
fn malformed_routes_end_the_session_as_those_of_ipv6_do() {
    let next_hop = |len: u8| {
        move |value: &mut Vec<u8>| {
            let rest = value.split_off(4 + 24);
            value[3] = len;
            value.resize(4 + usize::from(len), 0x16);
            value.extend(rest);
        }
    };
    let nlri = |octets: Vec<u8>| {
        move |value: &mut Vec<u8>| {
            value.truncate(4 + 24 + 1);
            value.extend(octets);
        }
    };
    let cases: Vec<Vec<u8>> = [
        changed(next_hop(4)),
        changed(next_hop(16)),
        changed(next_hop(32)),
        changed(nlri(vec![31, 0, 0, 0, 0x10])),
        changed(nlri([&[193][..], &[0x10; 25]].concat())),
        changed(nlri(vec![40, 0, 0, 0, 0x21])),
    ]
    .into();
    for octets in cases {
        let mut dut = router();
        dut.say(0, &octets);
        assert!(!is_up(&dut) && !has_route(&mut dut), "{octets:?}");
    }
}

#[test]
fn a_next_hop_that_is_none_withdraws() {
    for hop in [Xid::from_octets([0; 24]), xid_of(XidPrefix::host_addr(1))] {
        let mut dut = router();
        dut.announce(0, &[XidPrefix::nth(1)], &route());
        assert!(has_route(&mut dut));
        let octets = changed(|value| Address::from(hop).with_octets(|hop| value[4..28].copy_from_slice(hop)));
        dut.say(0, &octets);
        assert!(is_up(&dut) && !has_route(&mut dut), "{hop}");
        assert!(dut.events.iter().any(|event| matches!(event.what, PeerEvent::Malformed { .. })));
    }
}

#[test]
fn xids_of_no_type_are_ignored() {
    let mut dut = router();
    let octets = changed(|value| value.extend([32, 0, 0, 0, 0]));
    dut.say(0, &octets);
    assert!(has_route(&mut dut) && is_up(&dut));
    let view = dut.speaker.neighbor(dut.peers[0].address).unwrap();
    assert_eq!((view.prefixes.received[FamilyIndex::XID], view.reader.unroutable), (1, 1));
}

#[test]
fn a_neighbor_that_did_not_agree_is_neither_read_nor_sent_routes() {
    let mut dut = Dut::<XidPrefix>::new(&[PEER, 65003], 1);
    dut.set_reach(XidPrefix::host_addr(9), Some((1, true)));
    // The router wants IPv4 of its neighbors too.
    dut.families.insert(FamilyIndex::IPV4);
    dut.configure();
    dut.up(0);
    dut.up_speaking(1, vec![Capability::unicast(1)]);
    dut.announce(0, &[XidPrefix::nth(1)], &route());
    dut.say(1, &announcement(&[XidPrefix::nth(2)], &Route::new(vec![65003], XidPrefix::host_addr(9))));
    assert!(has_route(&mut dut));
    assert_eq!((dut.rib.len(), dut.peers[1].received.len()), (1, 0));
    assert!(dut.peers[1].ended[0] && dut.peers[1].updates == 1, "the End-of-RIB marker of IPv4 alone");
}

#[test]
fn configured_numbers_are_on_the_wire() {
    let codes = FamilyCodes::DEFAULT.with_xid(FamilyCode { afi: 16_400, safi: 250 });
    let mut dut = Dut::<XidPrefix>::new(&[PEER, LOCAL_AS], 1);
    dut.speaker = Speaker::new(Identity { codes, ..sluice_bgp_dut::identity(1) });
    dut.configure();
    dut.set_reach(XidPrefix::host_addr(9), Some((1, true)));
    for peer in 0..2 {
        let asn = sluice_base::Asn(dut.peers[peer].asn);
        let capabilities = [
            Capability::Multiprotocol { afi: 16_400, safi: 250 },
            Capability::FourOctetAs(asn),
            Capability::RouteRefresh,
        ];
        dut.up_speaking(peer, capabilities.into());
    }
    let numbered = |value: &mut Vec<u8>| value[..3].copy_from_slice(&[0x40, 0x10, 250]);
    // What has the usual numbers is of no family.
    dut.say(0, &announcement(&[XidPrefix::nth(1)], &route()));
    assert!(!has_route(&mut dut));
    dut.say(0, &changed(numbered));
    assert!(has_route(&mut dut));
    assert_eq!(dut.peers[1].received.len(), 1);
    dut.peers[1].received.clear();
    let mut octets = vec![];
    RouteRefresh::new(16_400, 250, 0).put(&mut octets);
    dut.say(1, &octets);
    dut.settle();
    assert_eq!(dut.peers[1].received.len(), 1);
    let opens = dut.peers[1].wire.iter().filter_map(|message| {
        let frame = header::frame(message).unwrap()?;
        (frame.kind == MessageType::Open).then(|| Open::decode(frame.body).unwrap())
    });
    let offered: Vec<Capability> = opens.flat_map(|open| open.capabilities).collect();
    assert!(offered.contains(&Capability::Multiprotocol { afi: 16_400, safi: 250 }), "{offered:?}");
    let usual = [XidPrefix::AFI.to_be_bytes()[0], XidPrefix::AFI.to_be_bytes()[1], XidPrefix::SAFI];
    let with_usual = dut.peers[1].wire.iter().filter(|m| m.windows(3).any(|octets| octets == usual)).count();
    assert_eq!(with_usual, 0);
}
