//! Long-lived stale routes (RFC 9494): a last resort, marked, and only for neighbors that understand them.

use super::*;
use sluice_bgp::policy::Policies;
use sluice_bgp::shard::NotSent;
use sluice_bgp::wire::LongLivedFamily;

/// The seconds for which long-lived stale routes stay.
const LONG: u32 = 1000;

/// The capabilities of a neighbor with long-lived graceful restart (RFC 9494).
fn long_lived(is_preserved: bool) -> Vec<Capability> {
    let mut capabilities = capabilities::<Ipv4Prefix>(is_preserved);
    let flags = if is_preserved { RestartFamily::FORWARDING } else { 0 };
    let family = LongLivedFamily { afi: 1, safi: 1, flags, stale_time: LONG };
    capabilities.push(Capability::LongLivedRestart(vec![family]));
    capabilities
}

/// The capabilities of a neighbor that understands long-lived stale routes, and whose own do not stay.
fn understanding() -> Vec<Capability> {
    let restart = Capability::GracefulRestart { flags: 0, restart_time: 0, families: vec![] };
    let long_lived = Capability::LongLivedRestart(vec![]);
    vec![Capability::unicast(1), Capability::FourOctetAs(Asn(ASES[1])), restart, long_lived]
}

const REFUSED: [u8; 4] = [0xff, 0xff, 0, 7];
const STALE: [u8; 4] = [0xff, 0xff, 0, 6];

fn with_community(community: [u8; 4]) -> Route {
    let communities = (0xc0, 8, community.to_vec());
    Route { others: vec![communities], ..Route::new(vec![ASES[0]], hop::<Ipv4Prefix>()) }
}

/// A router whose first neighbor has announced routes 1 and 2, the second with NO_LLGR. The second neighbor understands long-lived
/// stale routes, or does not.
fn long_lived_router(understands: bool, change: impl FnOnce(&mut Config)) -> Dut<Ipv4Prefix> {
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&ASES, 1);
    dut.set_reach(hop::<Ipv4Prefix>(), Some((5, true)));
    let mut config = dut.config();
    change(&mut config);
    dut.input(Input::Configure(config));
    dut.up_speaking(0, long_lived(false));
    match understands {
        true => dut.up_speaking(1, understanding()),
        false => dut.up(1),
    }
    announce(&mut dut, &[1]);
    let refused = with_community(REFUSED);
    dut.announce(0, &[Ipv4Prefix::nth(2)], &refused);
    dut.settle();
    assert_eq!(advertised(&dut), [1, 2]);
    dut
}

/// Returns true if a route that the second neighbor received is marked as a long-lived stale one.
fn is_marked(dut: &Dut<Ipv4Prefix>, number: u32) -> bool {
    let advertised = &dut.peers[1].received[&Ipv4Prefix::nth(number)];
    advertised.others.iter().any(|(_, code, value)| *code == 8 && value.as_chunks::<4>().0.contains(&STALE))
}

#[test]
fn routes_stay_as_a_last_resort_after_the_time_of_a_restart() {
    let mut dut = long_lived_router(true, |_| {});
    let begin = dut.now;
    down(&mut dut);
    pass(&mut dut, begin + Duration::from_secs(u64::from(TIME) - 1));
    assert_eq!(advertised(&dut), [1, 2]);
    assert!(!is_marked(&dut, 1));
    let long = begin + Duration::from_secs(u64::from(TIME));
    pass(&mut dut, long);
    assert_eq!(advertised(&dut), [1], "NO_LLGR");
    assert!(is_marked(&dut, 1));
    assert!(dut.events.iter().any(|event| matches!(event.what, PeerEvent::LongLivedStale(_))));
    dut.hand_over();
    pass(&mut dut, long + Duration::from_secs(u64::from(LONG) - 1));
    assert_eq!(advertised(&dut), [1]);
    pass(&mut dut, long + Duration::from_secs(u64::from(LONG)));
    assert_eq!(advertised(&dut), [0; 0]);
}

#[test]
fn a_neighbor_that_comes_back_replaces_its_long_lived_stale_routes() {
    for is_preserved in [true, false] {
        let mut dut = long_lived_router(true, |_| {});
        down(&mut dut);
        let long = dut.now + Duration::from_secs(u64::from(TIME));
        pass(&mut dut, long);
        dut.up_speaking(0, long_lived(is_preserved));
        dut.settle();
        assert_eq!(advertised(&dut).is_empty(), !is_preserved);
        announce(&mut dut, &[1, 3]);
        assert!(!is_marked(&dut, 1));
        end_of_rib(&mut dut);
        assert_eq!(advertised(&dut), [1, 3]);
        // A later loss begins with the time of a restart.
        down(&mut dut);
        assert!(!is_marked(&dut, 1));
        assert_eq!(advertised(&dut), [1, 3]);
    }
}

#[test]
fn long_lived_stale_routes_lose_against_all_others() {
    let mut dut = long_lived_router(true, |_| {});
    // A longer path, from the neighbor that receives the other one.
    let worse = Route::new(vec![ASES[1], 9, 9, 9], Ipv4Prefix::host_addr(3));
    dut.set_reach(Ipv4Prefix::host_addr(3), Some((5, true)));
    dut.announce(1, &[Ipv4Prefix::nth(1)], &worse);
    dut.settle();
    let best = |dut: &Dut<Ipv4Prefix>| dut.rib[&Ipv4Prefix::nth(1)];
    let before = best(&dut);
    down(&mut dut);
    assert_eq!(best(&dut), before);
    let long = dut.now + Duration::from_secs(u64::from(TIME));
    pass(&mut dut, long);
    assert_ne!(best(&dut), before);
    // The same holds for a route that another router marked.
    dut.up_speaking(0, long_lived(false));
    let marked = with_community(STALE);
    dut.announce(0, &[Ipv4Prefix::nth(1)], &marked);
    dut.settle();
    assert_ne!(best(&dut), before);
    announce(&mut dut, &[1]);
    assert_eq!(best(&dut), before);
}

#[test]
fn neighbors_that_do_not_understand_long_lived_stale_routes_do_not_receive_them() {
    let mut dut = long_lived_router(false, |_| {});
    down(&mut dut);
    let long = dut.now + Duration::from_secs(u64::from(TIME));
    pass(&mut dut, long);
    assert!(dut.peers[1].received.is_empty());
    assert_eq!(dut.rib.len(), 1, "the router itself uses the route");
    let index = dut.speaker.neighbor(dut.peers[1].address).unwrap().index;
    let verdict = dut.speaker.tables().export_verdict(index, Ipv4Prefix::nth(1));
    assert_eq!(verdict, Err(NotSent::LongLivedStale));
}

#[test]
fn long_lived_stale_routes_stay_for_as_long_as_the_operator_allows() {
    for allowed in [0, 10] {
        let mut dut = long_lived_router(true, |config| {
            config.neighbors[0].graceful_restart.long_lived_time = allowed;
        });
        down(&mut dut);
        let long = dut.now + Duration::from_secs(u64::from(TIME));
        pass(&mut dut, long);
        assert_eq!(advertised(&dut).is_empty(), allowed == 0);
        pass(&mut dut, long + Duration::from_secs(u64::from(allowed)));
        assert_eq!(advertised(&dut), [0; 0]);
    }
}

/// A changed policy decides on marked routes, and its result carries the mark.
#[test]
fn a_policy_that_changes_meanwhile_keeps_the_mark() {
    let mut dut = long_lived_router(true, |_| {});
    down(&mut dut);
    let long = dut.now + Duration::from_secs(u64::from(TIME));
    pass(&mut dut, long);
    let mut config = dut.config();
    let preferring = serde_json::json!({"policy-statement": [{
        "name": "prefer", "term": [{"name": "all", "then": {"local-preference": 200}}],
    }]});
    config.policies = Policies::compile(serde_json::from_value(preferring).unwrap()).unwrap();
    config.neighbors[0].import = vec!["prefer".into()];
    dut.input(Input::Configure(config));
    dut.settle();
    assert_eq!(advertised(&dut), [1]);
    assert!(is_marked(&dut, 1));
}

#[test]
fn a_router_asks_its_neighbors_to_keep_its_routes_for_long() {
    let identity = Identity { is_restarted: true, ..sluice_bgp_dut::identity(1) };
    let mut dut = Dut::<Ipv4Prefix>::with_identity(&ASES, identity);
    let mut config = dut.config();
    config.neighbors.iter_mut().for_each(|neighbor| {
        (neighbor.restart_time, neighbor.long_lived_time) = (Some(TIME), LONG);
    });
    dut.input(Input::Configure(config));
    dut.up_speaking(0, long_lived(true));
    let open = dut.peers[0].wire.iter().find(|message| message[18] == MessageType::Open as u8).unwrap();
    let capabilities = Open::decode(&open[HEADER_LEN..]).unwrap().capabilities;
    let family = LongLivedFamily { afi: 1, safi: 1, flags: RestartFamily::FORWARDING, stale_time: LONG };
    assert!(capabilities.contains(&Capability::LongLivedRestart(vec![family])), "{capabilities:?}");
}
