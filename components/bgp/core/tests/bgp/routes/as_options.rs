//! AS paths by agreement: own ASes let in, ASes of neighbors replaced, route servers that stay out of the path, and MEDs compared
//! otherwise.

use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::local_as::{LocalAs, LocalAsMode};
use sluice_bgp::relationship::Relationship;
use sluice_bgp::speaker::{Config, Identity, Input, Speaker};
use sluice_bgp::wire::attribute::code;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route};
use sluice_machine::{Machine, Outbox};
use std::net::IpAddr;

fn hop<P: Net>(peer: usize) -> IpAddr {
    P::host_addr(peer as u8 + 2)
}

fn router<P: Net>(asns: &[u32], change: impl FnOnce(&mut Config)) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(asns, 1);
    (0..asns.len()).for_each(|peer| dut.set_reach(hop::<P>(peer), Some((5, true))));
    let mut config = dut.config();
    change(&mut config);
    dut.input(Input::Configure(config));
    (0..asns.len()).for_each(|peer| dut.up(peer));
    dut
}

/// Announces a route of the first neighbor; returns the route that the second one receives.
fn passed_on<P: Net>(dut: &mut Dut<P>, path: &[u32]) -> Option<Route> {
    let route = Route { med: Some(7), ..Route::new(path.to_vec(), hop::<P>(0)) };
    dut.announce(0, &[P::nth(1)], &route);
    dut.settle();
    dut.peers[1].received.get(&P::nth(1)).cloned()
}

#[test]
fn the_own_as_is_let_in_as_often_as_allowed() {
    for (allowed, own, is_advertised) in
        [(0, 1, false), (1, 1, true), (1, 2, false), (10, 10, true), (10, 11, false)]
    {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| {
            config.neighbors[0].allow_as_in = allowed;
        });
        let path = [vec![65002], vec![LOCAL_AS; own]].concat();
        assert_eq!(passed_on(&mut dut, &path).is_some(), is_advertised, "{own} of {allowed}");
    }
}

const OTHER_AS: u32 = 64999;

fn known_by_another_as(mode: LocalAsMode) -> LocalAs {
    LocalAs { number: sluice_base::Asn(OTHER_AS), mode, dual: false }
}

#[test]
fn a_neighbor_knows_the_router_by_another_as() {
    // The mode at the neighbor that announces, the mode at the neighbor that receives, and the AS path before the origin.
    let cases: [(Option<LocalAsMode>, Option<LocalAsMode>, &[u32]); 7] = [
        (None, None, &[LOCAL_AS]),
        (Some(LocalAsMode::Prepend), None, &[LOCAL_AS, OTHER_AS]),
        (Some(LocalAsMode::NoPrepend), None, &[LOCAL_AS]),
        (Some(LocalAsMode::ReplaceAs), None, &[LOCAL_AS]),
        (None, Some(LocalAsMode::Prepend), &[OTHER_AS, LOCAL_AS]),
        (None, Some(LocalAsMode::NoPrepend), &[OTHER_AS, LOCAL_AS]),
        (None, Some(LocalAsMode::ReplaceAs), &[OTHER_AS]),
    ];
    for (announcing, advertised, before) in cases {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| {
            config.neighbors[0].local_as = announcing.map(known_by_another_as);
            config.neighbors[1].local_as = advertised.map(known_by_another_as);
        });
        let path = passed_on(&mut dut, &[65002, 9]).unwrap().path;
        assert_eq!(path, [before, &[65002, 9]].concat(), "{announcing:?}, {advertised:?}");
    }
}

#[test]
fn a_path_with_the_other_as_is_a_loop_where_the_neighbor_knows_it() {
    for (is_known, is_advertised) in [(false, true), (true, false)] {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| {
            config.neighbors[0].local_as = is_known.then(|| known_by_another_as(LocalAsMode::ReplaceAs));
        });
        assert_eq!(passed_on(&mut dut, &[65002, OTHER_AS]).is_some(), is_advertised, "{is_known}");
    }
}

#[test]
fn paths_of_full_segments_get_another_segment() {
    for length in [254, 255] {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| {
            config.neighbors[0].local_as = Some(known_by_another_as(LocalAsMode::Prepend));
            config.neighbors[1].local_as = Some(known_by_another_as(LocalAsMode::Prepend));
        });
        let long = [vec![65002], vec![9; length - 1]].concat();
        let path = passed_on(&mut dut, &long).unwrap().path;
        assert_eq!(path, [vec![OTHER_AS, LOCAL_AS, OTHER_AS], long].concat());
    }
}

#[test]
fn the_as_of_a_neighbor_is_replaced() {
    let mut dut = router::<Ipv4Prefix>(&[65002, 65003], |config| config.neighbors[1].as_override = true);
    let advertised = passed_on(&mut dut, &[65002, 65003, 9, 65003]).unwrap();
    assert_eq!(advertised.path, [LOCAL_AS, 65002, LOCAL_AS, 9, LOCAL_AS]);
    // As many as fit in a segment with this router's own before.
    let long = [vec![65002], vec![65003; 253]].concat();
    let advertised = passed_on(&mut dut, &long).unwrap();
    assert_eq!(advertised.path, [vec![LOCAL_AS, 65002], vec![LOCAL_AS; 253]].concat());
}

fn unchanged<P: Net>() {
    let mut dut = router::<P>(&[65002, 65003], |config| config.neighbors[1].transparent = true);
    let advertised = passed_on(&mut dut, &[65002, 9]).unwrap();
    assert_eq!(
        (advertised.path, advertised.next_hop, advertised.med),
        (vec![65002, 9], hop::<P>(0), Some(7))
    );
    // A neighbor without the statement gets this router's AS and next hop.
    let mut dut = router::<P>(&[65002, 65003], |_| {});
    let advertised = passed_on(&mut dut, &[65002, 9]).unwrap();
    assert_eq!((advertised.path, advertised.med), (vec![LOCAL_AS, 65002, 9], None));
    assert_ne!(advertised.next_hop, hop::<P>(0));
}

#[test]
fn a_route_server_changes_no_path_next_hop_and_med() {
    unchanged::<Ipv4Prefix>();
    unchanged::<Ipv6Prefix>();
}

/// The received route is the neighbor's: the rules of BGP change the accepted route alone.
#[test]
fn what_came_has_no_attribute_that_no_neighbor_sent() {
    let provider: fn(&mut Config) = |config| config.neighbors[0].relationship = Some(Relationship::Provider);
    let other: fn(&mut Config) =
        |config| config.neighbors[0].local_as = Some(known_by_another_as(LocalAsMode::Prepend));
    for (change, community, local_pref, mark, path) in [
        (provider, 1, 80, true, vec![65002]),
        (provider, 0, 0, true, vec![65002]),
        (other, 0, 0, false, vec![OTHER_AS, 65002]),
    ] {
        let mut dut = router::<Ipv4Prefix>(&[65002, 65003], change);
        let communities = vec![0xff, 0xff, 0, community];
        let others = vec![(0xc0, code::COMMUNITIES, communities)];
        let route = Route { others, ..Route::new(vec![65002], hop::<Ipv4Prefix>(0)) };
        dut.announce(0, &[Ipv4Prefix::nth(1)], &route);
        dut.settle();
        let shown = dut.speaker.tables().route(Ipv4Prefix::nth(1)).unwrap().paths.remove(0);
        let came = shown.received.expect("the rules of BGP changed it");
        let codes: Vec<u8> = canonical::attributes(&came.attributes).map(|a| a.code).collect();
        assert_eq!(codes, [code::ORIGIN, code::AS_PATH, code::COMMUNITIES]);
        assert_eq!((came.view.local_pref, came.view.path_length), (100, 1));
        assert_eq!((shown.view.local_pref, usize::from(shown.view.path_length)), (local_pref, path.len()));
        let is_marked = canonical::find(&shown.attributes, code::ONLY_TO_CUSTOMER).is_some();
        assert_eq!(is_marked, mark);
        assert_eq!(shown.entered.as_ref(), Some(&shown.attributes), "no policy changed it further");
    }
}

/// Attributes by code.
type Attributes = Vec<(u8, Vec<u8>)>;

/// Returns the communities of all kinds that the second neighbor is sent with the first one's route with these communities, and the
/// LOCAL_PREF by which the router decides.
fn advertised_communities(change: impl FnOnce(&mut Config), communities: &[u8]) -> Option<(Attributes, u32)> {
    let mut dut = router::<Ipv4Prefix>(&[65002, 65003], change);
    let kinds = [
        (code::COMMUNITIES, communities.to_vec()),
        // A transitive community, and one that does not leave the AS.
        (code::EXTENDED_COMMUNITIES, vec![0, 2, 0, 0, 0, 0, 0, 1, 0x43, 0, 0, 0, 0, 0, 0, 1]),
        (code::IPV6_EXTENDED_COMMUNITIES, [vec![0x40], vec![0; 19]].concat()),
        (code::LARGE_COMMUNITY, vec![0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]),
    ];
    let others = kinds.iter().map(|(code, value)| (0xc0, *code, value.clone())).collect();
    let route = Route { others, ..Route::new(vec![65002], hop::<Ipv4Prefix>(0)) };
    dut.announce(0, &[Ipv4Prefix::nth(1)], &route);
    dut.settle();
    let local_pref = dut.speaker.tables().route(Ipv4Prefix::nth(1)).unwrap().paths[0].view.local_pref;
    let advertised = dut.peers[1].received.get(&Ipv4Prefix::nth(1))?;
    let no_export = advertised.no_export.then(|| (code::COMMUNITIES, vec![0xff, 0xff, 0xff, 1]));
    let others = advertised.others.iter().map(|(_, code, value)| (*code, value.clone()));
    Some((no_export.into_iter().chain(others).collect(), local_pref))
}

#[test]
fn a_route_server_neither_processes_nor_changes_communities() {
    let members = |config: &mut Config| config.neighbors.iter_mut().for_each(|n| n.transparent = true);
    // NO_EXPORT, NO_ADVERTISE, NO_EXPORT_SUBCONFED, GRACEFUL_SHUTDOWN, and one of an AS.
    for community in [
        [0xff, 0xff, 0xff, 1],
        [0xff, 0xff, 0xff, 2],
        [0xff, 0xff, 0xff, 3],
        [0xff, 0xff, 0, 0],
        [0, 1, 0, 2],
    ] {
        let (advertised, local_pref) =
            advertised_communities(members, &community).expect("a member receives the route");
        let codes: Vec<u8> = advertised.iter().map(|(code, _)| *code).collect();
        let all = [
            code::COMMUNITIES,
            code::EXTENDED_COMMUNITIES,
            code::IPV6_EXTENDED_COMMUNITIES,
            code::LARGE_COMMUNITY,
        ];
        assert_eq!(codes, all, "{community:?}");
        assert_eq!((&advertised[0].1[..], advertised[1].1.len(), local_pref), (&community[..], 16, 100));
        // Of other external neighbors everything is as before.
        let plain = advertised_communities(|_| {}, &community);
        match community {
            [0xff, 0xff, 0xff, _] => assert_eq!(plain, None),
            _ => {
                let (advertised, local_pref) = plain.expect("a route");
                let lengths: Vec<usize> = advertised.iter().map(|(_, value)| value.len()).collect();
                assert_eq!(lengths, [4, 8, 12], "non-transitive communities stay in the AS");
                assert_eq!(local_pref, if community == [0xff, 0xff, 0, 0] { 0 } else { 100 });
            }
        }
    }
    // A neighbor that is no member receives by the rules of BGP, whoever announces the route.
    let one = |config: &mut Config| config.neighbors[0].transparent = true;
    assert_eq!(advertised_communities(one, &[0xff, 0xff, 0xff, 1]), None);
}

/// A neighbor that is a route's next hop receives no such route, and loses the route before (RFC 4271, section 5.1.3).
fn pointing_back<P: Net>(asns: &[u32], change: impl FnOnce(&mut Config)) {
    let mut dut = router::<P>(asns, change);
    dut.peers[1..].iter_mut().for_each(|peer| peer.is_next_hop = true);
    let mut advertised = |next_hop: usize| {
        dut.announce(0, &[P::nth(1)], &Route::new(vec![65002], hop::<P>(next_hop)));
        dut.settle();
        let advertised = |peer: usize| dut.peers[peer].received.get(&P::nth(1)).map(|route| route.next_hop);
        [advertised(1), advertised(2)]
    };
    assert_eq!(advertised(1), [None, Some(hop::<P>(1))]);
    assert_eq!(advertised(0), [Some(hop::<P>(0)); 2]);
    assert_eq!(advertised(1), [None, Some(hop::<P>(1))]);
    assert_eq!(advertised(2), [Some(hop::<P>(2)), None]);
}

#[test]
fn no_neighbor_receives_its_own_address_as_next_hop() {
    let transparent = |config: &mut Config| config.neighbors.iter_mut().for_each(|n| n.transparent = true);
    pointing_back::<Ipv4Prefix>(&[65002, 65003, 65004], transparent);
    pointing_back::<Ipv6Prefix>(&[65002, 65003, 65004], transparent);
    pointing_back::<Ipv4Prefix>(&[65002, LOCAL_AS, LOCAL_AS], |_| {});
}

/// Returns the neighbor whose path is the best: the first one's MED is 20, the second one's `med`.
fn best(med: Option<u32>, change: impl FnOnce(&mut Identity)) -> usize {
    let mut identity = sluice_bgp_dut::identity(1);
    change(&mut identity);
    let mut dut = Dut::<Ipv4Prefix>::with_identity(&[65002, 65003, 65004], identity);
    (0..2).for_each(|peer| dut.set_reach(hop::<Ipv4Prefix>(peer), Some((5, true))));
    (0..3).for_each(|peer| dut.up(peer));
    for (peer, med) in [(0, Some(20)), (1, med)] {
        let path = vec![[65002, 65003][peer]];
        dut.announce(
            peer,
            &[Ipv4Prefix::nth(1)],
            &Route { med, ..Route::new(path, hop::<Ipv4Prefix>(peer)) },
        );
    }
    dut.settle();
    let advertised = &dut.peers[2].received[&Ipv4Prefix::nth(1)];
    [65002, 65003].iter().position(|asn| advertised.path[1] == *asn).unwrap()
}

#[test]
fn meds_of_different_ases_are_compared_on_demand() {
    assert_eq!(best(Some(10), |_| {}), 0, "the lower router identifier decides");
    assert_eq!(best(Some(10), |identity| identity.decision.always_compare_med = true), 1);
    assert_eq!(best(Some(30), |identity| identity.decision.always_compare_med = true), 0);
}

#[test]
fn a_missing_med_is_the_best_or_the_worst() {
    assert_eq!(best(None, |identity| identity.decision.always_compare_med = true), 1);
    let both = |identity: &mut Identity| {
        identity.decision.always_compare_med = true;
        identity.decision.missing_med_worst = true;
    };
    assert_eq!(best(None, both), 0);
}

#[test]
fn the_oldest_of_equal_external_routes_stays() {
    let prefix = Ipv4Prefix::nth(1);
    for prefers_oldest in [false, true] {
        let mut identity = sluice_bgp_dut::identity(1);
        identity.decision.prefer_oldest = prefers_oldest;
        let mut dut = Dut::<Ipv4Prefix>::with_identity(&[65002, 65003, 65004], identity);
        (0..2).for_each(|peer| dut.set_reach(hop::<Ipv4Prefix>(peer), Some((5, true))));
        (0..3).for_each(|peer| dut.up(peer));
        let announce = |dut: &mut Dut<Ipv4Prefix>, peer: usize, path: &[u32]| {
            dut.announce(peer, &[prefix], &Route::new(path.to_vec(), hop::<Ipv4Prefix>(peer)));
            dut.settle();
            dut.peers[2].received[&prefix].path[1]
        };
        assert_eq!(announce(&mut dut, 1, &[65003]), 65003);
        // The other neighbor has the lower BGP Identifier.
        let stays = if prefers_oldest { 65003 } else { 65002 };
        assert_eq!(announce(&mut dut, 0, &[65002]), stays, "{prefers_oldest}");
        let state = dut.speaker.export();
        let mut after = Speaker::starting_at(state.control.identity.clone(), dut.now);
        after.import(dut.now, state, &mut Outbox::new());
        let content = |speaker: &Speaker| speaker.tables().routes::<Ipv4Prefix>().collect::<Vec<_>>();
        assert_eq!(content(&dut.speaker), content(&after), "a new process has the same best path");
        // Age is no reason against a longer path.
        assert_eq!(announce(&mut dut, 1, &[65003, 9]), 65002);
        assert_eq!(announce(&mut dut, 1, &[65003]), 65002);
    }
}
