//! Route reflection (RFC 4456): which peers receive whose routes, and with which attributes.

use sluice_base::{Ipv4Prefix, Ipv6Prefix, RouterId, XidPrefix};
use sluice_bgp::speaker::{Config, Input};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, OWN_ID, Route};
use std::net::IpAddr;

/// Two clients, two other internal neighbors, and an external one.
const PEERS: [u32; 5] = [LOCAL_AS, LOCAL_AS, LOCAL_AS, LOCAL_AS, 65002];
const CLIENTS: [usize; 2] = [0, 1];
const OTHERS: [usize; 2] = [2, 3];
const OUTSIDE: usize = 4;

fn hop<P: Net>(peer: usize) -> IpAddr {
    P::host_addr(peer as u8 + 2)
}

fn router<P: Net>(change: impl Fn(&mut Config)) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&PEERS, 2);
    (0..PEERS.len()).for_each(|peer| dut.set_reach(hop::<P>(peer), Some((5, true))));
    configure(&mut dut, change);
    (0..PEERS.len()).for_each(|peer| dut.up(peer));
    dut
}

fn configure<P: Net>(dut: &mut Dut<P>, change: impl Fn(&mut Config)) {
    let mut config = dut.config();
    CLIENTS.iter().for_each(|client| config.neighbors[*client].route_reflector_client = true);
    change(&mut config);
    dut.input(Input::Configure(config));
}

fn route<P: Net>(peer: usize) -> Route {
    Route { local_pref: Some(100), ..Route::new(vec![65002], hop::<P>(peer)) }
}

/// The peers that received the prefix.
fn advertised<P: Net>(dut: &Dut<P>, prefix: P) -> Vec<usize> {
    (0..PEERS.len()).filter(|peer| dut.peers[*peer].received.contains_key(&prefix)).collect()
}

fn each_kind_of_neighbor<P: Net>() {
    let mut dut = router::<P>(|_| {});
    let own = |peer: usize| P::nth(peer as u32);
    for peer in 0..PEERS.len() {
        let route = match peer {
            OUTSIDE => Route::new(vec![65002], hop::<P>(peer)),
            _ => route::<P>(peer),
        };
        dut.announce(peer, &[own(peer)], &route);
    }
    dut.settle();
    // RFC 4456, section 6: a client's routes go to everybody, another's to the clients, besides those outside.
    assert_eq!(advertised(&dut, own(CLIENTS[0])), [CLIENTS[1], OTHERS[0], OTHERS[1], OUTSIDE]);
    assert_eq!(advertised(&dut, own(OTHERS[0])), [CLIENTS[0], CLIENTS[1], OUTSIDE]);
    assert_eq!(advertised(&dut, own(OUTSIDE)), [0, 1, 2, 3]);
    // Routes learned outside are announced as ever; a reflected route has its originator and the cluster.
    for peer in CLIENTS.into_iter().chain(OTHERS) {
        assert_eq!(dut.peers[peer].received[&own(OUTSIDE)].reflected, None);
    }
    let originator = dut.peers[CLIENTS[0]].router_id;
    let reflected = &dut.peers[OTHERS[1]].received[&own(CLIENTS[0])];
    assert_eq!(reflected.reflected, Some((originator, vec![OWN_ID])));
    // RFC 4456, section 10: the rest stays as it came.
    assert_eq!(Route { reflected: None, ..reflected.clone() }, route::<P>(CLIENTS[0]));
    // Outside, nothing is left of the reflection.
    assert_eq!(dut.peers[OUTSIDE].received[&own(CLIENTS[0])].reflected, None);
}

#[test]
fn routes_of_clients_go_to_all_and_routes_of_others_to_clients() {
    each_kind_of_neighbor::<Ipv4Prefix>();
    each_kind_of_neighbor::<Ipv6Prefix>();
}

#[test]
fn a_reflected_route_keeps_its_originator_and_gets_another_cluster() {
    let cluster = Some(RouterId(0x0909_0909));
    let mut dut = router::<Ipv4Prefix>(|config| {
        config.neighbors.iter_mut().for_each(|neighbor| neighbor.cluster_id = cluster);
    });
    let prefix = Ipv4Prefix::nth(1);
    let came = Route { reflected: Some((77, vec![5, 6])), ..route::<Ipv4Prefix>(OTHERS[0]) };
    dut.announce(OTHERS[0], &[prefix], &came);
    dut.settle();
    let reflected = Some((77, vec![0x0909_0909, 5, 6]));
    assert_eq!(dut.peers[CLIENTS[0]].received[&prefix].reflected, reflected);
    // A list of 255 clusters, whose length needs two octets.
    let long: Vec<u32> = (1000..1255).collect();
    let came = Route { reflected: Some((77, long.clone())), ..route::<Ipv4Prefix>(OTHERS[0]) };
    dut.announce(OTHERS[0], &[prefix], &came);
    dut.settle();
    let expected = [vec![0x0909_0909], long].concat();
    assert_eq!(dut.peers[CLIENTS[1]].received[&prefix].reflected, Some((77, expected)));
    // The cluster's own identifier is a loop, and the BGP Identifier is none in the list of clusters.
    for (clusters, is_loop) in [(vec![5, 0x0909_0909], true), (vec![OWN_ID], false)] {
        let came = Route { reflected: Some((77, clusters)), ..route::<Ipv4Prefix>(OTHERS[0]) };
        dut.announce(OTHERS[0], &[prefix], &came);
        dut.settle();
        assert_eq!(advertised(&dut, prefix).is_empty(), is_loop);
    }
}

#[test]
fn meshed_clients_receive_no_routes_of_each_other() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    let prefix = Ipv4Prefix::nth(1);
    dut.announce(CLIENTS[0], &[prefix], &route::<Ipv4Prefix>(CLIENTS[0]));
    dut.settle();
    assert_eq!(advertised(&dut, prefix), [CLIENTS[1], OTHERS[0], OTHERS[1], OUTSIDE]);
    let meshed = |config: &mut Config| {
        config.neighbors.iter_mut().for_each(|neighbor| neighbor.client_to_client_reflection = false);
    };
    configure(&mut dut, meshed);
    dut.settle();
    assert_eq!(advertised(&dut, prefix), [OTHERS[0], OTHERS[1], OUTSIDE], "withdrawn, and no session ends");
    let index = dut.speaker.neighbor(dut.peers[CLIENTS[1]].address).unwrap().index;
    let cause = dut.speaker.tables().export_verdict(index, prefix).unwrap_err().to_string();
    assert!(cause.starts_with("the best path came from a client, as this one is"), "{cause}");
    configure(&mut dut, |_| {});
    dut.settle();
    assert_eq!(advertised(&dut, prefix), [CLIENTS[1], OTHERS[0], OTHERS[1], OUTSIDE]);
}

#[test]
fn routes_with_equal_attributes_of_several_clients_have_their_originators() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    // The next hop is no client: a client would not receive the routes.
    let next_hop = Ipv4Prefix::host_addr(20);
    dut.set_reach(next_hop, Some((1, true)));
    let shared = Route { next_hop, ..route::<Ipv4Prefix>(0) };
    for client in CLIENTS {
        dut.announce(client, &[Ipv4Prefix::nth(client as u32)], &shared);
    }
    dut.settle();
    for client in CLIENTS {
        let advertised = &dut.peers[OTHERS[0]].received[&Ipv4Prefix::nth(client as u32)];
        assert_eq!(advertised.reflected, Some((dut.peers[client].router_id, vec![OWN_ID])));
    }
}

/// Two reflectors announce a prefix; which route is used is a matter of its originator, then of its way through clusters.
fn reflected_routes<P: Net>() {
    let mut dut: Dut<P> = Dut::new(&[LOCAL_AS, LOCAL_AS, 65002], 1);
    let hops = [20, 21].map(P::host_addr);
    hops.iter().for_each(|hop| dut.set_reach(*hop, Some((1, true))));
    (0..3).for_each(|peer| dut.up(peer));
    let mut check = |reflected: [(u32, &[u32]); 2], expected: Option<usize>| {
        for (peer, (originator, clusters)) in reflected.into_iter().enumerate() {
            let reflected = Some((originator, clusters.to_vec()));
            dut.announce(peer, &[P::nth(0)], &Route { reflected, ..Route::new(vec![64600], hops[peer]) });
        }
        dut.settle();
        assert_eq!(dut.rib.get(&P::nth(0)).map(|(hop, ..)| *hop), expected.map(|peer| hops[peer]));
    };
    check([(9, &[7]), (8, &[7, 6, 5])], Some(1));
    check([(8, &[7]), (9, &[7])], Some(0));
    check([(9, &[7, 6, 5]), (9, &[8, 4])], Some(1));
    check([(9, &[8, 6]), (9, &[7, 4])], Some(0));
    // What comes back to its originator or its cluster is not used.
    check([(OWN_ID, &[7]), (9, &[7])], Some(1));
    check([(8, &[7]), (9, &[7, OWN_ID])], Some(0));
    check([(OWN_ID, &[7]), (9, &[OWN_ID])], None);
}

#[test]
fn reflected_routes_are_compared_by_originator_and_clusters() {
    reflected_routes::<Ipv4Prefix>();
    reflected_routes::<Ipv6Prefix>();
    reflected_routes::<XidPrefix>();
}
