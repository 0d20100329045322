//! The causes of unused and unsent routes: a test for each cause, with the words of `explain`. The lines of `explain` are tested
//! with the command.

use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::batch::DropCause;
use sluice_bgp::relationship::Relationship;
use sluice_bgp::speaker::{Config, DefaultPolicy, Input, LimitAction, MaximumPrefixes};
use sluice_bgp::table::Sharded;
use sluice_bgp::wire::Capability;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, OWN_ID, Route, TestPolicy};

type Router = Dut<Ipv4Prefix>;

/// Two external feeds of different ASes, an internal one, and an external receiver, all up.
const PEERS: [u32; 4] = [65002, 65003, LOCAL_AS, 65004];
const RECEIVER: usize = 3;

fn prefix() -> Ipv4Prefix {
    Ipv4Prefix::nth(0)
}

fn hop(host: u8) -> std::net::IpAddr {
    Ipv4Prefix::host_addr(host)
}

fn route(peer: usize, path: &[u32]) -> Route {
    Route::new(path.to_vec(), hop(peer as u8 + 2))
}

fn router() -> Router {
    router_as(|_| {})
}

fn router_as(change: impl FnOnce(&mut Config)) -> Router {
    let mut dut = Router::new(&PEERS, 2);
    (2..6).for_each(|host| dut.set_reach(hop(host), Some((5, true))));
    let mut config = dut.config();
    change(&mut config);
    dut.input(Input::Configure(config));
    (0..PEERS.len()).for_each(|peer| dut.up(peer));
    dut
}

/// Announces a route and lets everything happen.
fn announce(dut: &mut Router, peer: usize, route: &Route) {
    dut.announce(peer, &[prefix()], route);
    dut.settle();
}

/// Returns the cause for which a peer's path is not the best, or not stored.
fn not_used(dut: &Router, peer: usize) -> String {
    let index = dut.speaker.neighbor(dut.peers[peer].address).unwrap().index;
    let tables = dut.speaker.tables();
    let route = tables.route(prefix());
    match route.iter().flat_map(|route| &route.paths).find(|path| path.peer == index) {
        Some(path) => match &path.rejected_by {
            Some(by) => by.to_string(),
            None => path.lost.map_or("best".into(), |lost| lost.to_string()),
        },
        None => {
            let dropped = tables.dropped(prefix());
            let cause = dropped.iter().find(|(peer, _)| *peer == index);
            cause.map_or("nothing announced".into(), |(_, cause)| cause.to_string())
        }
    }
}

fn not_sent_of<P: Sharded>(dut: &Router, peer: usize, prefix: P) -> String {
    let index = dut.speaker.neighbor(dut.peers[peer].address).unwrap().index;
    let verdict = dut.speaker.tables().export_verdict(index, prefix);
    verdict.map_or_else(|cause| cause.to_string(), |_| "sent".into())
}

/// The cause for which a peer is not sent the prefix.
fn not_sent(dut: &Router, peer: usize) -> String {
    not_sent_of(dut, peer, prefix())
}

#[test]
fn no_route() {
    let dut = router();
    assert_eq!(not_used(&dut, 0), "nothing announced");
    assert_eq!(not_sent(&dut, RECEIVER), "there is no route");
}

#[test]
fn no_policy() {
    let mut dut = router_as(|config| {
        config.neighbors[0].default_policy = None;
        config.neighbors[RECEIVER].default_policy = None;
    });
    announce(&mut dut, 0, &route(0, &[65002]));
    assert_eq!(
        not_used(&dut, 0),
        "no import policy (RFC 8212): configure `import`, or `default-policy accept`"
    );
    announce(&mut dut, 1, &route(1, &[65003]));
    assert_eq!(
        not_sent(&dut, RECEIVER),
        "no export policy (RFC 8212): configure `export`, or `default-policy accept`"
    );
}

#[test]
fn rejected_by_a_term_or_by_none() {
    let mut dut = router_as(|config| {
        config.neighbors[0].import = TestPolicy::RejectLow.names();
        config.neighbors[1].import = TestPolicy::PreferPath.names();
        config.neighbors[1].default_policy = Some(DefaultPolicy::Reject);
        config.neighbors[RECEIVER].export = TestPolicy::RejectLow.names();
    });
    announce(&mut dut, 0, &route(0, &[65002]));
    announce(&mut dut, 1, &route(1, &[65003]));
    assert_eq!(not_used(&dut, 0), "policy RejectLow, term low: low");
    assert_eq!(not_used(&dut, 1), "no term of the policies accepts the route (default-policy reject)");
    announce(&mut dut, 2, &route(2, &[65002]));
    assert_eq!(not_sent(&dut, RECEIVER), "rejected on export: policy RejectLow, term low: low");
}

#[test]
fn maximum_prefixes() {
    let mut dut = router_as(|config| {
        config.neighbors[0].ipv4_unicast.maximum_prefixes = MaximumPrefixes {
            received: Some(1),
            action: Some(LimitAction::Discard),
            ..MaximumPrefixes::NONE
        };
    });
    let others: Vec<Ipv4Prefix> = (1..20).map(Ipv4Prefix::nth).collect();
    dut.announce(0, &others, &route(0, &[65002]));
    dut.settle();
    announce(&mut dut, 0, &route(0, &[65002]));
    assert_eq!(not_used(&dut, 0), DropCause::MaximumPrefixes.to_string());
}

#[test]
fn a_loop_of_ases() {
    let mut dut = router();
    announce(&mut dut, 0, &route(0, &[65002, LOCAL_AS, 7]));
    assert_eq!(not_used(&dut, 0), "this AS is in its AS path (RFC 4271, section 9.1.2)");
    // What counts is the latest announcement: a good one, and then none.
    announce(&mut dut, 0, &route(0, &[65002, 7]));
    assert_eq!(not_used(&dut, 0), "best");
    dut.withdraw(0, &[prefix()]);
    assert_eq!(not_used(&dut, 0), "nothing announced");
    announce(&mut dut, 0, &route(0, &[65002, LOCAL_AS]));
    dut.withdraw(0, &[prefix()]);
    assert_eq!(not_used(&dut, 0), "nothing announced");
    announce(&mut dut, 0, &route(0, &[65002, LOCAL_AS]));
    dut.down(0);
    dut.settle();
    dut.up(0);
    assert_eq!(not_used(&dut, 0), "nothing announced", "the next session has announced nothing");
}

#[test]
fn malformed_attributes() {
    let mut dut = router();
    // RFC 7606, section 7.5: ORIGIN with an undefined value.
    announce(&mut dut, 0, &Route { origin: 9, ..route(0, &[65002]) });
    assert!(not_used(&dut, 0).starts_with("malformed attributes (RFC 7606)"), "{}", not_used(&dut, 0));
}

#[test]
fn a_leak() {
    let mut dut = router_as(|config| config.neighbors[0].relationship = Some(Relationship::Customer));
    announce(&mut dut, 0, &Route { only_to_customer: Some(7), ..route(0, &[65002, 7]) });
    assert_eq!(not_used(&dut, 0), "a leak by its ONLY_TO_CUSTOMER (RFC 9234, section 5)");
}

#[test]
fn the_own_originator() {
    let mut dut = router();
    let reflected = |originator, clusters: &[u32]| Some((originator, clusters.to_vec()));
    announce(&mut dut, 2, &Route { reflected: reflected(OWN_ID, &[9]), ..route(2, &[7]) });
    assert_eq!(not_used(&dut, 2), DropCause::Reflected.to_string());
    announce(&mut dut, 2, &Route { reflected: reflected(8, &[9, OWN_ID]), ..route(2, &[7]) });
    assert_eq!(not_used(&dut, 2), DropCause::Reflected.to_string());
}

#[test]
fn next_hops() {
    let mut dut = router();
    dut.set_reach(hop(2), None);
    announce(&mut dut, 0, &route(0, &[65002]));
    assert_eq!(not_used(&dut, 0), "next hop unreachable");
    assert_eq!(not_sent(&dut, RECEIVER), "no path is usable");
    // RFC 4271, section 6.3 b: the neighbor is on the link, and the next hop is not.
    dut.set_reach(hop(3), Some((5, false)));
    announce(&mut dut, 1, &route(1, &[65003]));
    assert_eq!(not_used(&dut, 1), "next hop not on the peer's link");
}

#[test]
fn steps_of_the_decision() {
    let lost = |first: (usize, Route), second: (usize, Route)| {
        let mut dut = router();
        announce(&mut dut, first.0, &first.1);
        announce(&mut dut, second.0, &second.1);
        assert_eq!(not_used(&dut, first.0), "best");
        not_used(&dut, second.0)
    };
    let internal = |local_pref| Route { local_pref: Some(local_pref), ..route(2, &[65002]) };
    assert_eq!(lost((2, internal(200)), (0, route(0, &[65002]))), "lower local preference");
    assert_eq!(lost((0, route(0, &[65002])), (1, route(1, &[65003, 7]))), "longer AS path");
    let origin = Route { origin: 1, ..route(1, &[65003]) };
    assert_eq!(lost((0, route(0, &[65002])), (1, origin)), "higher origin");
    // MEDs of one neighboring AS are compared.
    let med = |med| Route { med: Some(med), ..internal(100) };
    assert_eq!(lost((0, Route { med: Some(1), ..route(0, &[65002]) }), (2, med(2))), "higher MED");
    assert_eq!(lost((0, route(0, &[65002])), (2, internal(100))), "internal");
    assert_eq!(lost((0, route(0, &[65002])), (1, route(1, &[65003]))), "higher router identifier");
}

#[test]
fn a_farther_next_hop() {
    let mut dut = router();
    dut.set_reach(hop(3), Some((9, true)));
    announce(&mut dut, 0, &route(0, &[65002]));
    announce(&mut dut, 1, &route(1, &[65003]));
    assert_eq!((not_used(&dut, 0), not_used(&dut, 1)), ("best".into(), "farther next hop".into()));
}

#[test]
fn communities_and_neighbors_bound_the_reach() {
    let mut dut = router();
    announce(&mut dut, 0, &Route { no_export: true, ..route(0, &[65002]) });
    assert_eq!(not_sent(&dut, RECEIVER), "community no-export (RFC 1997)");
    assert_eq!(not_sent(&dut, 0), "the best path came from this neighbor");
    dut.down(0);
    announce(&mut dut, 1, &route(1, &[65003]));
    assert_eq!(not_sent(&dut, RECEIVER), "sent");
    assert_eq!(not_sent(&dut, 0), "the session is not established");
    dut.down(1);
    let mut dut = Dut::new(&[LOCAL_AS, LOCAL_AS], 1);
    dut.set_reach(hop(2), Some((5, true)));
    (0..2).for_each(|peer| dut.up(peer));
    announce(&mut dut, 0, &route(0, &[7]));
    assert_eq!(
        not_sent(&dut, 1),
        "the best path came from an internal neighbor, as this one is (RFC 4271, section 9.2)"
    );
}

#[test]
fn a_family_that_is_not_agreed_on_or_has_no_next_hop() {
    let dut = router();
    let ipv6 = |dut: &Router| not_sent_of(dut, RECEIVER, Ipv6Prefix::nth(0));
    assert_eq!(ipv6(&dut), "the neighbor did not agree on the address family");
    // The session has IPv4 addresses only: there is no IPv6 next hop of this router's own.
    let mut dut = router_as(|config| {
        config.neighbors.iter_mut().for_each(|neighbor| neighbor.ipv6_unicast.enabled = Some(true));
    });
    dut.down(RECEIVER);
    dut.up_with(RECEIVER, &[Capability::unicast(2)]);
    assert_eq!(ipv6(&dut), "this router has no next hop of its own for the family there");
}

#[test]
fn attributes_that_do_not_fit() {
    let mut dut = router();
    // The message of the neighbor has 4,094 octets, and this router adds an AS.
    let others = vec![(0xd0, 200, vec![7; 4043])];
    announce(&mut dut, 0, &Route { others, ..route(0, &[65002]) });
    assert_eq!(not_sent(&dut, RECEIVER), "the attributes do not fit in a message");
}
