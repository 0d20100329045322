//! Traces as sources of routes: in the decision and on the way to neighbors like any route, and out of the RIB unless requested.

use sluice_base::{Asn, Ipv4Prefix, RouterId};
use sluice_bgp::shard::MultipathRules;
use sluice_bgp::speaker::{Input, NeighborConfig};
use sluice_bgp::wire::attribute::put_header;
use sluice_bgp::wire::{FamilyKey, MessageType, header};
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, TestPolicy, identity};
use sluice_mrt::{Addresses, Entry, MessageForm, Peer, Session, State, Writer};
use std::net::{IpAddr, Ipv4Addr};

type Prefix = Ipv4Prefix;

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const AS: u32 = 64501;
/// A next hop unreachable for the RIB.
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

/// A router with an external, an internal and an old neighbor of its AS, and a feed.
fn router() -> Dut<Prefix> {
    let mut identity = identity(2);
    identity.decision.multipath = MultipathRules { external: 4, internal: 4, relax_as_path: true };
    let mut dut = Dut::with_identity(&[65002, 65003, LOCAL_AS, 65005], identity);
    dut.peers[3].four_octet_as = false;
    (2..20).for_each(|host| dut.set_reach(Prefix::host_addr(host), Some((0, true))));
    (0..4).for_each(|peer| dut.up(peer));
    dut.settle();
    dut
}

/// The attributes of a route of the source, with an unknown attribute.
fn attributes(path: &[u32]) -> Vec<u8> {
    let mut segments = vec![2, path.len() as u8];
    segments.extend(path.iter().flat_map(|asn| asn.to_be_bytes()));
    let mut out = vec![];
    let all: [(u8, u8, &[u8]); 5] = [
        (0x40, 1, &[1]),
        (0x40, 2, &segments),
        (0x40, 3, &FAR.octets()),
        (0x80, 4, &[0, 0, 0, 9]),
        (0xe0, 99, &[1, 2, 3]),
    ];
    for (flags, code, value) in all {
        put_header(&mut out, flags, code, value.len());
        out.extend_from_slice(value);
    }
    out
}

/// A table of the source with these prefixes.
fn table(prefixes: &[u32], path: &[u32]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .peer_index(5, RouterId(9), "", &[Peer { router_id: RouterId(7), address: SOURCE, asn: Asn(AS) }])
        .unwrap();
    let attributes = attributes(path);
    let entry = Entry { peer: 0, originated: 5, path_id: None, attributes: &attributes };
    for n in prefixes {
        writer.rib(5, *n, Prefix::nth(*n).into(), &[entry]).unwrap();
    }
    writer.take()
}

fn session() -> Session {
    let addresses = Addresses::new(SOURCE, FAR.into()).unwrap();
    Session { peer_as: Asn(AS), local_as: Asn(1), interface: 0, addresses }
}

/// A message that withdraws a prefix.
fn withdrawal(n: u32) -> Vec<u8> {
    let mut nlri = vec![];
    Prefix::nth(n).put(&mut nlri);
    let mut message = vec![];
    let at = header::start(&mut message, MessageType::Update);
    message.extend([0, nlri.len() as u8]);
    message.extend(nlri);
    message.extend([0, 0]);
    header::finish(&mut message, at);
    let mut writer = Writer::new();
    writer.received_message(6_000_000, &session(), MessageForm::PLAIN, &message).unwrap();
    writer.take()
}

#[test]
fn routes_of_a_trace_are_advertised_and_not_installed() {
    let mut dut = router();
    dut.begin_injection(SOURCE, AS, false, &[]);
    dut.inject(SOURCE, &table(&[0, 1, 2], &[AS, 7])).unwrap();
    for peer in 0..4 {
        assert_eq!(dut.peers[peer].received.len(), 3, "peer {peer}");
    }
    assert!(dut.rib.is_empty(), "{:?}", dut.rib);
    // As it came, but for the next hop, the AS, and the non-transitive MULTI_EXIT_DISC.
    let advertised = dut.peers[0].received[&Prefix::nth(0)].clone();
    let expected = Route {
        origin: 1,
        others: vec![(0xe0, 99, vec![1, 2, 3])],
        ..Route::new(vec![LOCAL_AS, AS, 7], Prefix::host_addr(1))
    };
    assert_eq!(advertised, expected);
    let internal = &dut.peers[2].received[&Prefix::nth(0)];
    assert_eq!((internal.path.clone(), internal.next_hop, internal.med), (vec![AS, 7], FAR.into(), Some(9)));
    // It is no neighbor.
    assert_eq!(dut.speaker.neighbors().count(), 4);
    dut.inject(SOURCE, &withdrawal(1)).unwrap();
    assert_eq!(dut.peers[0].received.len(), 2);
    assert_eq!(dut.end_injection(SOURCE), Ok(()));
    for peer in 0..4 {
        assert!(dut.peers[peer].received.is_empty(), "peer {peer}");
    }
    assert_eq!(dut.speaker.summary().tables.iter().map(|(_, table)| table.prefixes).sum::<usize>(), 0);
}

#[test]
fn installed_routes_are_like_those_of_a_neighbor() {
    let mut dut = router();
    dut.begin_injection(SOURCE, AS, true, &[]);
    dut.inject(SOURCE, &table(&[0], &[AS, 7])).unwrap();
    // The next hop cannot be reached.
    assert!(dut.peers[0].received.is_empty() && dut.rib.is_empty());
    dut.set_reach(FAR.into(), Some((5, true)));
    dut.settle();
    assert_eq!(dut.rib[&Prefix::nth(0)].0, IpAddr::from(FAR));
    assert_eq!(dut.peers[0].received.len(), 1);
    dut.end_injection(SOURCE).unwrap();
    assert!(dut.rib.is_empty() && dut.peers[0].received.is_empty());
}

#[test]
fn routes_of_a_trace_decide_but_do_not_forward() {
    let mut dut = router();
    let two = [Prefix::nth(0), Prefix::nth(1)];
    dut.announce(0, &two, &Route::new(vec![65002, 7], Prefix::host_addr(2)));
    dut.settle();
    dut.begin_injection(SOURCE, AS, false, &[]);
    // The same length: the feed's identifier is lower, and the trace's path is no second path in forwarding.
    dut.inject(SOURCE, &table(&[0], &[AS, 7])).unwrap();
    assert_eq!(dut.rib.len(), 2);
    assert!(dut.rib_groups.is_empty(), "{:?}", dut.rib_groups);
    // Shorter: neighbors receive the trace's path, and packets have no way.
    dut.inject(SOURCE, &table(&[1], &[AS])).unwrap();
    assert_eq!(dut.peers[1].received[&Prefix::nth(1)].path, [LOCAL_AS, AS]);
    assert_eq!(dut.rib.keys().copied().collect::<Vec<_>>(), [Prefix::nth(0)]);
    dut.end_injection(SOURCE).unwrap();
    assert_eq!(dut.rib.len(), 2);
    assert_eq!(dut.peers[1].received[&Prefix::nth(1)].path, [LOCAL_AS, 65002, 7]);
}

#[test]
fn import_policy_holds_and_changes() {
    let mut dut = router();
    dut.begin_injection(SOURCE, AS, false, &TestPolicy::RejectLow.names());
    let all: Vec<u32> = (0..20).collect();
    dut.inject(SOURCE, &table(&all, &[AS, 7])).unwrap();
    assert_eq!(dut.peers[0].received.len(), 12);
    // The policy changes, and the injection goes on.
    dut.parameter = 2;
    dut.configure();
    dut.settle();
    assert_eq!(dut.peers[0].received.len(), 10);
    dut.begin_injection(SOURCE, AS, false, &[]);
    dut.settle();
    assert_eq!(dut.peers[0].received.len(), 20);
    dut.inject(SOURCE, &withdrawal(3)).unwrap();
    assert_eq!(dut.peers[0].received.len(), 19);
}

#[test]
fn a_session_that_ends_in_the_trace_takes_its_routes_along() {
    let mut dut = router();
    dut.begin_injection(SOURCE, AS, false, &[]);
    let mut writer = Writer::new();
    writer.state_change(7_000_000, &session(), State::Established, State::Idle).unwrap();
    let trace = [table(&[0, 1], &[AS]), writer.take(), table(&[1, 2], &[AS, 9])].concat();
    dut.inject(SOURCE, &trace).unwrap();
    let advertised: Vec<Prefix> = dut.peers[0].received.keys().copied().collect();
    assert_eq!(advertised.len(), 2);
    assert!([1, 2].iter().all(|n| advertised.contains(&Prefix::nth(*n))));
    assert_eq!(dut.peers[0].received[&Prefix::nth(1)].path, [LOCAL_AS, AS, 9]);
}

#[test]
fn what_was_read_of_a_torn_trace_stays_until_the_end() {
    let mut dut = router();
    dut.begin_injection(SOURCE, AS, false, &[]);
    let trace = table(&[0, 1], &[AS]);
    dut.inject(SOURCE, &trace[..trace.len() - 1]).unwrap();
    assert_eq!(dut.peers[0].received.len(), 1);
    let error = dut.inject(SOURCE, &[0xff; 40]).unwrap_err();
    assert_eq!((error.record, dut.peers[0].received.len()), (4, 2), "{error}");
    assert_eq!(dut.end_injection(SOURCE), Err(error));
    assert!(dut.peers[0].received.is_empty());
}

#[test]
fn a_neighbor_takes_the_place_of_a_trace() {
    let mut dut = router();
    let address = dut.peers[1].address;
    dut.begin_injection(SOURCE, AS, false, &[]);
    dut.inject(SOURCE, &table(&[0], &[AS])).unwrap();
    // The address of a neighbor is no source.
    dut.begin_injection(address, AS, false, &[]);
    assert_eq!(dut.inject(address, &table(&[1], &[AS])), Ok(()));
    assert_eq!(dut.peers[0].received.len(), 1);
    let mut config = dut.config();
    config.neighbors.push(NeighborConfig { passive: true, ..NeighborConfig::new(SOURCE, Asn(AS)) });
    dut.input(Input::Configure(config));
    dut.settle();
    assert!(dut.peers[0].received.is_empty());
    assert_eq!(dut.speaker.neighbors().count(), 5);
}
