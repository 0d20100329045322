//! Exported attributes: the form in which a neighbor receives a route, attribute by attribute.

use sluice_base::{InterfaceIndex, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::event::PeerEvent;
use sluice_bgp::speaker::Input;
use sluice_bgp::wire::attribute::code;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route};
use std::net::{IpAddr, Ipv6Addr};

/// An attribute in octets: flags, code and value.
type Attribute = (u8, u8, Vec<u8>);

/// A router that received a route with `others` from an external neighbor, and advertises it to an external and an internal one.
/// Returns the received attributes without a field of their own.
fn passed_on<P: Net>(others: &[Attribute]) -> [Vec<Attribute>; 2] {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 1);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..3).for_each(|peer| dut.up(peer));
    let route = Route { others: others.to_vec(), ..Route::new(vec![65002], P::host_addr(2)) };
    dut.announce(0, &[P::nth(1)], &route);
    dut.settle();
    [1, 2].map(|peer| dut.peers[peer].received[&P::nth(1)].others.clone())
}

fn non_transitive_communities_end_at_the_border<P: Net>() {
    // Link bandwidth and validation state do not leave the AS, a route target does.
    let target = [0, 2, 0xfd, 0xe9, 0, 0, 0, 1];
    let bandwidth = [0x40, 4, 0xfd, 0xe9, 0, 0, 0, 1];
    let state = [0x43, 0, 0, 0, 0, 0, 0, 2];
    let wide = |first: u8| [&[first, 2][..], &[7; 18]].concat();
    let long = |communities: &[&[u8]]| (0xc0, code::IPV6_EXTENDED_COMMUNITIES, communities.concat());
    let short = |communities: &[&[u8]]| (0xc0, code::EXTENDED_COMMUNITIES, communities.concat());
    let mixed = [short(&[&bandwidth, &target, &state]), long(&[&wide(0x40), &wide(0), &wide(0x40)])];
    let [outside, inside] = passed_on::<P>(&mixed);
    assert_eq!(outside, [short(&[&target]), long(&[&wide(0)])]);
    assert_eq!(inside, mixed);
    // Of an attribute without transitive communities nothing is left.
    let ending = [short(&[&bandwidth, &state]), long(&[&wide(0x40)])];
    let [outside, inside] = passed_on::<P>(&ending);
    assert_eq!((outside, inside), (vec![], ending.to_vec()));
}

#[test]
fn non_transitive_communities_end_at_the_border_of_the_as() {
    non_transitive_communities_end_at_the_border::<Ipv4Prefix>();
    non_transitive_communities_end_at_the_border::<Ipv6Prefix>();
}

/// Four external neighbors: two on the router's subnet, one with `next-hop-self`, one elsewhere.
/// Returns what each received for a route of the first with host `hop` as next hop.
fn advertised_next_hops<P: Net>(hop: u8) -> Vec<IpAddr> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004, 65005], 1);
    (0..3).for_each(|peer| dut.peers[peer].on_subnet = true);
    dut.peers[2].next_hop_self = true;
    dut.configure();
    dut.set_reach(P::host_addr(hop), Some((0, true)));
    (0..4).for_each(|peer| dut.up(peer));
    dut.announce(0, &[P::nth(1)], &Route::new(vec![65002], P::host_addr(hop)));
    dut.settle();
    (1..4).map(|peer| dut.peers[peer].received[&P::nth(1)].next_hop).collect()
}

fn a_neighbor_on_the_subnet<P: Net>() {
    let [own, sender, receiver, third] = [1, 2, 3, 9].map(P::host_addr);
    assert_eq!(advertised_next_hops::<P>(2), [sender, own, own]);
    assert_eq!(advertised_next_hops::<P>(9), [third, own, own]);
    // No neighbor receives its own address, nor an address that it does not reach by itself.
    assert_eq!((advertised_next_hops::<P>(3), receiver != own), (vec![own; 3], true));
    assert_eq!(advertised_next_hops::<P>(77), [own; 3]);
}

#[test]
fn a_neighbor_on_the_subnet_receives_the_next_hop_there() {
    a_neighbor_on_the_subnet::<Ipv4Prefix>();
    a_neighbor_on_the_subnet::<Ipv6Prefix>();
}

/// The subnet of the next hop counts, and not the family of the session.
#[test]
fn a_session_over_ipv4_has_next_hops_on_the_ipv6_subnet() {
    let mut dut: Dut<Ipv6Prefix> = Dut::new(&[65002, 65003, 65004], 1);
    for (last, peer) in (2..).zip(&mut dut.peers) {
        peer.address = [10, 0, 0, last].into();
    }
    (0..2).for_each(|peer| dut.peers[peer].on_subnet = true);
    dut.configure();
    for (host, expected) in [(9, [9, 1]), (77, [1, 1])] {
        let hop = Ipv6Prefix::host_addr(host);
        dut.set_reach(hop, Some((0, true)));
        (0..3).filter(|_| host == 9).for_each(|peer| dut.up(peer));
        dut.announce(0, &[Net::nth(1)], &Route::new(vec![65002], hop));
        dut.settle();
        let advertised = [1, 2].map(|peer| dut.peers[peer].received[&Net::nth(1)].next_hop);
        assert_eq!(advertised, expected.map(Ipv6Prefix::host_addr));
    }
}

#[test]
fn next_hop_self_is_advertised_at_once() {
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&[65002, 65003], 1);
    let hop = Ipv4Prefix::host_addr(9);
    dut.set_reach(hop, Some((0, true)));
    (0..2).for_each(|peer| dut.peers[peer].on_subnet = true);
    (0..2).for_each(|peer| dut.up(peer));
    dut.announce(0, &[Net::nth(1)], &Route::new(vec![65002], hop));
    dut.settle();
    for (next_hop_self, expected) in [(true, Ipv4Prefix::host_addr(1)), (false, hop)] {
        dut.peers[1].next_hop_self = next_hop_self;
        dut.configure();
        dut.settle();
        assert_eq!(dut.peers[1].received[&Net::nth(1)].next_hop, expected);
    }
}

/// A next hop on the subnet is advertised with its link-local address, and alone if unknown.
#[test]
fn link_local_addresses_of_a_next_hop_on_the_subnet() {
    let link_local = |host: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
    for known in [Some(link_local(9)), None] {
        let mut dut: Dut<Ipv6Prefix> = Dut::new(&[65002, 65003, 65004], 1);
        dut.link_local = Some(link_local(1));
        let hop = Ipv6Prefix::host_addr(9);
        dut.set_reach(hop, Some((0, true)));
        (0..2).for_each(|peer| dut.peers[peer].on_subnet = true);
        (0..3).for_each(|peer| dut.up(peer));
        let route = Route { link_local: known, ..Route::new(vec![65002], hop) };
        let many: Vec<Ipv6Prefix> = (0..600).map(Net::nth).collect();
        for prefixes in many.chunks(200) {
            dut.announce(0, prefixes, &route);
        }
        dut.settle();
        let own = (Ipv6Prefix::host_addr(1), Some(link_local(1)));
        for (peer, expected) in [(1, (hop, known)), (2, own)] {
            let advertised = dut.peers[peer].received.values();
            assert!(
                advertised.clone().all(|route| (route.next_hop, route.link_local) == expected),
                "{known:?}"
            );
            assert_eq!(advertised.len(), many.len());
        }
    }
}

/// Another router's next hop has its link-local address for those that share its subnet with this router: internal neighbors and members of
/// a route server too (RFC 2545, section 3).
#[test]
fn link_local_addresses_are_for_those_on_the_subnet() {
    let link_local = |host: u16| Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host));
    // Of the sender, of a router beside, and of one elsewhere.
    for (host, is_near) in [(2, true), (9, true), (77, false)] {
        let mut dut: Dut<Ipv6Prefix> = Dut::new(&[65002, LOCAL_AS, LOCAL_AS, 65003, 65004, 65005], 1);
        dut.link_local = link_local(1);
        let hop = Ipv6Prefix::host_addr(host);
        dut.set_reach(hop, Some((0, true)));
        [0, 1, 3, 5].into_iter().for_each(|peer| dut.peers[peer].on_subnet = true);
        let mut config = dut.config();
        // The third and the fourth are members, one of them elsewhere.
        (3..5).for_each(|member| config.neighbors[member].transparent = true);
        dut.input(Input::Configure(config));
        (0..6).for_each(|peer| dut.up(peer));
        let route = Route { link_local: link_local(host.into()), ..Route::new(vec![65002], hop) };
        let many: Vec<Ipv6Prefix> = (0..300).map(Net::nth).collect();
        dut.announce(0, &many, &route);
        dut.settle();
        let near = (hop, link_local(host.into()).filter(|_| is_near));
        let own = (Ipv6Prefix::host_addr(1), link_local(1));
        let third_party = if is_near { near } else { own };
        for (peer, expected) in [(1, near), (2, (hop, None)), (3, near), (4, (hop, None)), (5, third_party)] {
            let advertised = dut.peers[peer].received.values();
            assert_eq!(advertised.len(), many.len());
            for route in advertised {
                assert_eq!((route.next_hop, route.link_local), expected, "host {host}, neighbor {peer}");
            }
            // What an operator is shown is what was sent.
            let index = dut.speaker.neighbor(dut.peers[peer].address).unwrap().index;
            let shown = dut.speaker.tables().advertised_route(index, many[7]).unwrap();
            let shown = shown.paths[0].next_hop;
            assert_eq!((shown.address.ip(), shown.link_local), (Some(expected.0), expected.1));
        }
    }
}

/// Neighbors without a global address name a link-local one in three ways. All lead to the interface of the session, and nobody on
/// another link receives the address.
#[test]
fn next_hops_that_are_link_local_addresses() {
    let link_local = |host: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
    let (own, hop) = (link_local(1), link_local(9));
    let forms = [(hop, None), (Ipv6Addr::UNSPECIFIED, Some(hop)), (hop, Some(hop))];
    for (sender, (global, local)) in [0, 2].into_iter().flat_map(|sender| forms.map(|form| (sender, form))) {
        let mut dut: Dut<Ipv6Prefix> = Dut::new(&[65002, 65003, LOCAL_AS, LOCAL_AS], 2);
        (dut.link_local, dut.interface) = (Some(own), InterfaceIndex::new(7));
        (0..4).for_each(|peer| dut.up(peer));
        let prefix: Ipv6Prefix = Net::nth(1);
        let path = if sender == 0 { vec![65002] } else { vec![] };
        let route = Route { link_local: local, ..Route::new(path, global.into()) };
        dut.announce(sender, &[prefix], &route);
        dut.settle();
        let distance = if sender == 0 { 20 } else { 200 };
        assert_eq!(dut.rib.get(&prefix), Some(&(hop.into(), 0, distance)), "{route:?}");
        assert_eq!(dut.rib_interfaces.get(&prefix), Some(&InterfaceIndex::new(7).unwrap()));
        let expected = Some((Ipv6Prefix::host_addr(1), Some(own)));
        let advertised =
            |peer: usize| dut.peers[peer].received.get(&prefix).map(|r| (r.next_hop, r.link_local));
        assert_eq!((advertised(1), advertised(3)), (expected, expected.filter(|_| sender == 0)), "{route:?}");
        assert!(dut.speaker.tables().is_resolved());
        // The router's own address is no next hop, and nothing is left when the route goes.
        dut.announce(sender, &[prefix], &Route { link_local: None, next_hop: own.into(), ..route });
        dut.settle();
        assert_eq!((dut.rib.len(), dut.peers[1].received.len()), (0, 0));
    }
}

#[test]
fn a_link_local_next_hop_of_a_neighbor_on_no_link_is_refused() {
    let mut dut: Dut<Ipv6Prefix> = Dut::new(&[LOCAL_AS, 65003], 1);
    (0..2).for_each(|peer| dut.up(peer));
    let route = Route::new(vec![], Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9).into());
    dut.announce(0, &[Net::nth(1)], &route);
    dut.settle();
    let view = dut.speaker.neighbor(dut.peers[0].address).unwrap();
    assert_eq!((view.reader.treated_as_withdraw, dut.rib.len()), (1, 0));
}

/// The routes advertised to a neighbor are shown as they went over the wire.
fn advertised_routes_are_as_sent<P: Net>() {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004, LOCAL_AS], 2);
    dut.peers[1].on_subnet = true;
    let hop = P::host_addr(9);
    dut.set_reach(hop, Some((0, true)));
    (0..4).for_each(|peer| dut.up(peer));
    let bandwidth = (0xc0, code::EXTENDED_COMMUNITIES, vec![0x40, 4, 0xfd, 0xe9, 0, 0, 0, 1]);
    let route = Route { med: Some(7), others: vec![bandwidth], ..Route::new(vec![65002], hop) };
    let (prefix, other) = (P::nth(1), P::nth(2));
    dut.announce(0, &[prefix], &route);
    dut.announce(1, &[other], &Route::new(vec![65003], hop));
    dut.settle();
    for peer in 1..4 {
        let advertised = &dut.peers[peer].received[&prefix];
        let view = dut.speaker.neighbor(dut.peers[peer].address).unwrap();
        let tables = dut.speaker.tables();
        let shown = tables.advertised_route(view.index, prefix).unwrap();
        let [path] = &shown.paths[..] else { panic!("{shown:?}") };
        assert_eq!(path.next_hop.address.ip(), Some(advertised.next_hop));
        assert_eq!((path.view.med, path.lost), (advertised.med, None));
        let found = |code| canonical::find(&path.attributes, code).map(<[u8]>::to_vec);
        let asns: Vec<u8> = advertised.path.iter().flat_map(|asn| asn.to_be_bytes()).collect();
        assert_eq!(found(code::AS_PATH).unwrap()[2..], asns);
        assert_eq!(found(code::LOCAL_PREF), advertised.local_pref.map(|pref| pref.to_be_bytes().to_vec()));
        let others: Vec<Vec<u8>> = advertised.others.iter().map(|(_, _, value)| value.clone()).collect();
        assert_eq!(found(code::EXTENDED_COMMUNITIES).into_iter().collect::<Vec<_>>(), others);
        // Its own routes are not sent back to it.
        assert_eq!(tables.advertised_route(view.index, other).is_some(), peer != 1);
    }
}

#[test]
fn advertised_routes_are_shown_as_they_are_sent() {
    advertised_routes_are_as_sent::<Ipv4Prefix>();
    advertised_routes_are_as_sent::<Ipv6Prefix>();
}

/// An unknown attribute with a number of octets, in a route of an external neighbor.
fn large<P: Net>(octets: usize, path: Vec<u32>, hop: u8) -> Route {
    Route { others: vec![(0xd0, 99, vec![7; octets])], ..Route::new(path, P::host_addr(hop)) }
}

/// A route that fits in a message is announced, to the octet; a larger route is counted, and reported once a session.
fn routes_are_announced_as_long_as_they_fit<P: Net>() {
    // Outside the path has a number more than here: 4 octets, or 2.
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004], 1);
    dut.peers[2].four_octet_as = false;
    dut.set_reach(P::host_addr(2), Some((0, true)));
    (0..3).for_each(|peer| dut.up(peer));
    let prefix = P::nth(1);
    let longest = |dut: &Dut<P>, octets: usize| {
        let advertised = |peer: usize| dut.peers[peer].received.contains_key(&prefix);
        [1, 2].map(|peer| if advertised(peer) { octets } else { 0 })
    };
    let mut most = [0; 2];
    let mut refused = [0; 2];
    // As long as the neighbor itself can announce it.
    let end = if P::WIDTH == 32 { 4_046 } else { 4_026 };
    for octets in (2_500..3_960).step_by(100).chain(3_960..end) {
        dut.announce(0, &[prefix], &large::<P>(octets, vec![65002], 2));
        dut.settle();
        for (n, advertised) in longest(&dut, octets).into_iter().enumerate() {
            assert!(
                advertised == 0 || most[n] + 1 == advertised || advertised % 100 == 0 || advertised == 3_960,
                "{advertised} after {most:?}"
            );
            most[n] = most[n].max(advertised);
            refused[n] += u64::from(advertised == 0);
        }
    }
    // Header and lengths, ORIGIN, AS_PATH, next hop, the attribute's own header, and the longest prefix of the family.
    let rest = |width: usize| {
        let hop = if P::WIDTH == 32 { 7 + 5 } else { 9 + 16 + 17 };
        23 + 4 + (5 + 2 * width) + hop + 4
    };
    assert_eq!(most, [4_096 - rest(4), 4_096 - rest(2)]);
    dut.withdraw(0, &[prefix]);
    dut.settle();
    for (peer, refused) in [(1, refused[0]), (2, refused[1])] {
        let address = dut.peers[peer].address;
        assert!(refused > 0);
        assert_eq!(dut.speaker.neighbor(address).unwrap().writer.too_large, refused, "{address}");
        let reported = dut.events.iter().filter(|e| e.peer == address && e.what == PeerEvent::TooLarge);
        assert_eq!(reported.count(), 1);
    }
    let sender = dut.speaker.neighbor(dut.peers[0].address).unwrap();
    assert_eq!(sender.writer.too_large, 0, "its own route is not sent to it anyway");
}

#[test]
fn a_route_is_announced_as_long_as_it_fits_in_a_message() {
    routes_are_announced_as_long_as_they_fit::<Ipv4Prefix>();
    routes_are_announced_as_long_as_they_fit::<Ipv6Prefix>();
}

/// An AS path of large numbers takes half as much again for a neighbor of 2-octet numbers, and other attributes do not.
#[test]
fn what_an_old_neighbor_receives_of_a_long_path() {
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&[65002, 65003], 1);
    dut.peers[1].four_octet_as = false;
    dut.set_reach(Ipv4Prefix::host_addr(2), Some((0, true)));
    (0..2).for_each(|peer| dut.up(peer));
    let mut path = vec![100_000; 250];
    path[0] = 65002;
    for (octets, is_advertised) in [(1_000, true), (2_500, true), (2_700, false)] {
        dut.announce(0, &[Net::nth(1)], &large::<Ipv4Prefix>(octets, path.clone(), 2));
        dut.settle();
        assert_eq!(dut.peers[1].received.len(), usize::from(is_advertised), "{octets}");
    }
}
