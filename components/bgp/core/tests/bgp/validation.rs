//! Validation of origins: policies ask for states, and a new epoch of payloads sends only changes.

use serde_json::json;
use sluice_base::{Asn, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::policy::{AspaProcedure, Policies};
use sluice_bgp::shard::RevalidationProgress;
use sluice_bgp::speaker::{Config, Input, OriginData};
use sluice_bgp::table::Sharded;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route};
use sluice_validation::{AnyVrp, AspaSet, ChangedPrefixes, Providers, VrpTable};
use std::sync::Arc;

const MANY: u32 = 3000;
/// The origin of the feed's routes.
const ORIGIN: u32 = 7;

fn policies() -> Policies {
    let source = json!({"policy-statement": [
        {"name": "valid-only", "term": [
            {"name": "invalid", "from": {"validation": ["invalid"]}, "then": {"reject": [null], "reason": "invalid origin"}},
        ]},
        {"name": "preferred", "term": [
            {"name": "valid", "from": {"validation": ["valid"]}, "then": {"med": "5"}},
        ]},
        {"name": "no-leaks", "term": [
            {"name": "leaked", "from": {"aspa": ["invalid"]}, "then": {"reject": [null]}},
        ]},
        {"name": "verified", "term": [
            {"name": "verified", "from": {"aspa": ["valid"]}, "then": {"med": "5"}},
        ]},
    ]});
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}

fn router<P: Net>(import: &[&str], export: &[&str]) -> (Dut<P>, Config) {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    let mut config = Config { policies: policies(), ..dut.config() };
    config.neighbors[0].import = import.iter().map(ToString::to_string).collect();
    config.neighbors[1].export = export.iter().map(ToString::to_string).collect();
    dut.input(Input::Configure(config.clone()));
    (0..3).for_each(|peer| dut.up(peer));
    let prefixes: Vec<P> = (0..MANY).map(P::nth).collect();
    for chunk in prefixes.chunks(400) {
        dut.announce(0, chunk, &Route::new(vec![65002, ORIGIN], P::host_addr(2)));
    }
    dut.settle();
    (dut, config)
}

fn vrp<P: Net>(n: u32, asn: u32) -> AnyVrp {
    let prefix = P::nth(n).as_ip().unwrap();
    AnyVrp::new(prefix, prefix.len(), Asn(asn)).unwrap()
}

/// An epoch, with the difference to the epoch before.
fn epoch(before: &mut Option<Arc<VrpTable>>, vrps: impl IntoIterator<Item = AnyVrp>) -> Input {
    let table = Arc::new(VrpTable::new(vrps));
    let changed = before.as_ref().map_or(ChangedPrefixes::All, |before| before.changes_to(&table).prefixes());
    *before = Some(table.clone());
    Input::Origins(OriginData { table: Some(table), changed })
}

fn progress<P: Net + Sharded>(dut: &Dut<P>) -> RevalidationProgress {
    dut.speaker.tables().revalidation::<P>()
}

fn import_follows_epochs<P: Net + Sharded>() {
    let (mut dut, config) = router::<P>(&["valid-only"], &[]);
    // Without data nothing is invalid.
    assert_eq!(dut.sent(), [(MANY.into(), 0); 2]);
    let mut known = None;
    let wrong = |count: u32| (0..count).map(|n| vrp::<P>(n, 9));
    assert_eq!(dut.news(epoch(&mut known, wrong(10))), [(0, 10); 2]);
    assert_eq!(dut.news(epoch(&mut known, wrong(10))), [(0, 0); 2], "equal data");
    // Only routes under changed payloads are decided on again.
    let before = progress(&dut);
    let right = [vrp::<P>(3, ORIGIN), vrp::<P>(2000, ORIGIN)];
    assert_eq!(dut.news(epoch(&mut known, wrong(12).chain(right))), [(1, 2); 2]);
    let after = progress(&dut);
    assert_eq!(after.covered - before.covered, 4, "two invalid, one valid, one that was not found");
    assert_eq!(after.visited - before.visited, u64::from(MANY));
    // Rejected routes stay known, with their reason.
    let feed = dut.speaker.neighbor(dut.peers[0].address).unwrap().index;
    assert_eq!(dut.speaker.tables().rejected::<P>(feed), 11);
    // A fresh route has its state at once.
    let hop = P::host_addr(2);
    dut.announce(0, &[P::nth(MANY)], &Route::new(vec![65002, ORIGIN], hop));
    dut.settle();
    let fresh = epoch(&mut known, [vrp::<P>(MANY + 1, 9)]);
    assert_eq!(dut.news(fresh), [(11, 0); 2], "the others are not found");
    let before = dut.sent();
    dut.announce(0, &[P::nth(MANY + 1)], &Route::new(vec![65002, ORIGIN], hop));
    dut.settle();
    assert_eq!(dut.sent(), before);
    // What the router announces is what one announces that knew the data from the beginning.
    let last = epoch(&mut known, wrong(77));
    dut.input(last);
    dut.settle();
    let mut cold: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    cold.set_reach(hop, Some((0, true)));
    cold.input(Input::Configure(config));
    cold.input(Input::Origins(OriginData { table: known.clone(), changed: ChangedPrefixes::All }));
    (0..3).for_each(|peer| cold.up(peer));
    let prefixes: Vec<P> = (0..MANY + 2).map(P::nth).collect();
    for chunk in prefixes.chunks(400) {
        cold.announce(0, chunk, &Route::new(vec![65002, ORIGIN], hop));
    }
    cold.settle();
    assert_eq!(dut.peers[1].received, cold.peers[1].received);
    // No data: everything is accepted again.
    let none = Input::Origins(OriginData { table: None, changed: ChangedPrefixes::All });
    assert_eq!(dut.news(none), [(77, 0); 2]);
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

fn export_follows_epochs<P: Net + Sharded>() {
    let (mut dut, _) = router::<P>(&[], &["preferred", "valid-only"]);
    let mut known = None;
    let right = |count: u32| (0..count).map(|n| vrp::<P>(n, ORIGIN));
    // Ten routes have another MED, for the neighbor whose policy asks; the other one is sent nothing.
    assert_eq!(dut.news(epoch(&mut known, right(10))), [(10, 0), (0, 0)]);
    assert_eq!(dut.peers[1].received[&P::nth(9)].med, Some(5));
    let invalid = [vrp::<P>(20, 9), vrp::<P>(21, 9)];
    assert_eq!(dut.news(epoch(&mut known, right(9).chain(invalid))), [(1, 2), (0, 0)]);
    assert_eq!(dut.peers[1].received[&P::nth(9)].med, None);
    // A changed payload that leaves the state as it was sends nothing.
    let same = [vrp::<P>(20, 10), vrp::<P>(21, 9)];
    assert_eq!(dut.news(epoch(&mut known, right(9).chain(same))), [(0, 0); 2]);
    // Several epochs while the walk is on: in the end what holds is announced.
    let before = dut.sent();
    for count in [1, 30, 2, 40, 3, 50] {
        let input = epoch(&mut known, right(count));
        dut.input(input);
        dut.slice(1);
    }
    dut.settle();
    let valid = dut.peers[1].received.values().filter(|route| route.med == Some(5)).count();
    assert_eq!((valid, dut.peers[1].received.len()), (50, MANY as usize));
    assert_eq!(dut.sent()[1], before[1]);
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

/// A route that import policy accepts and export policy marks for the same reason is announced once.
fn both_directions<P: Net + Sharded>() {
    let (mut dut, _) = router::<P>(&["valid-only"], &["preferred"]);
    let mut known = None;
    let wrong = [vrp::<P>(0, 9), vrp::<P>(1, 9)];
    assert_eq!(dut.news(epoch(&mut known, wrong)), [(0, 2); 2]);
    let right = wrong.into_iter().chain([vrp::<P>(0, ORIGIN)]);
    assert_eq!(dut.news(epoch(&mut known, right)), [(1, 0); 2]);
    assert_eq!(dut.peers[1].received[&P::nth(0)].med, Some(5));
}

/// ASPAs, with the difference to the ASPAs before.
fn aspas(before: &mut Option<Arc<VrpTable>>, aspas: &[(u32, &[u32])]) -> Input {
    let providers = |asns: &[u32]| Providers::new(asns.iter().copied().map(Asn).collect()).unwrap();
    let aspas = AspaSet::new(aspas.iter().map(|(customer, asns)| (Asn(*customer), providers(asns))));
    let table = Arc::new(VrpTable::default().with_aspas(aspas));
    let changed = before
        .as_ref()
        .map_or(ChangedPrefixes::All, |before| before.changed_states(&table, &before.changes_to(&table)));
    *before = Some(table.clone());
    Input::Origins(OriginData { table: Some(table), changed })
}

/// Import policy of a customer rejects leaks, export policy marks verified paths.
fn paths_follow_aspas<P: Net + Sharded>() {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, LOCAL_AS], 2);
    let hop = P::host_addr(2);
    dut.set_reach(hop, Some((0, true)));
    let mut config = Config { policies: policies(), ..dut.config() };
    config.neighbors[0].import = vec!["no-leaks".into()];
    config.neighbors[0].aspa_procedure = Some(AspaProcedure::Upstream);
    config.neighbors[1].export = vec!["verified".into()];
    dut.input(Input::Configure(config));
    (0..3).for_each(|peer| dut.up(peer));
    // Ten routes of AS 7, the others of AS 8.
    let prefixes: Vec<P> = (0..MANY).map(P::nth).collect();
    let (few, many) = prefixes.split_at(10);
    dut.announce(0, few, &Route::new(vec![65002, 7], hop));
    many.chunks(400).for_each(|chunk| dut.announce(0, chunk, &Route::new(vec![65002, 8], hop)));
    dut.settle();
    assert_eq!(dut.sent(), [(MANY.into(), 0); 2]);
    let mut known = None;
    // The first ASPA concerns every path; it leaves those of AS 8 unknown.
    assert_eq!(dut.news(aspas(&mut known, &[(7, &[1])])), [(0, 10); 2]);
    // Only entries with a changed customer in a path are decided on again.
    let before = progress(&dut);
    assert_eq!(dut.news(aspas(&mut known, &[(7, &[65002]), (99, &[1])])), [(10, 0); 2]);
    let after = progress(&dut);
    assert_eq!((after.covered - before.covered, after.visited - before.visited), (10, MANY.into()));
    assert_eq!(dut.peers[1].received[&P::nth(9)].med, Some(5));
    assert_eq!(dut.peers[1].received[&P::nth(10)].med, None);
    // An ASPA that leaves the result as it was sends nothing.
    assert_eq!(dut.news(aspas(&mut known, &[(7, &[1, 65002])])), [(0, 0); 2]);
    // Without the ASPA the path is unknown: the mark goes, for the neighbor that is sent it.
    assert_eq!(dut.news(aspas(&mut known, &[(8, &[65002])])), [(u64::from(MANY), 0), (0, 0)]);
    assert_eq!(dut.peers[1].received[&P::nth(10)].med, Some(5));
    // The last ASPA goes.
    assert_eq!(dut.news(aspas(&mut known, &[])), [(u64::from(MANY) - 10, 0), (0, 0)]);
    // A neighbor whose paths are not verified has no leaks.
    assert_eq!(dut.news(aspas(&mut known, &[(65002, &[0]), (7, &[1])])), [(0, 10); 2]);
    dut.announce(1, few, &Route::new(vec![65003, 7], P::host_addr(2)));
    dut.settle();
    assert!(dut.peers[0].received.len() >= 10);
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn paths_follow_aspas_ipv4() {
    paths_follow_aspas::<Ipv4Prefix>();
}

#[test]
fn paths_follow_aspas_ipv6() {
    paths_follow_aspas::<Ipv6Prefix>();
}

#[test]
fn both_directions_ipv4() {
    both_directions::<Ipv4Prefix>();
}

#[test]
fn both_directions_ipv6() {
    both_directions::<Ipv6Prefix>();
}

#[test]
fn import_follows_epochs_ipv4() {
    import_follows_epochs::<Ipv4Prefix>();
}

#[test]
fn import_follows_epochs_ipv6() {
    import_follows_epochs::<Ipv6Prefix>();
}

#[test]
fn export_follows_epochs_ipv4() {
    export_follows_epochs::<Ipv4Prefix>();
}

#[test]
fn export_follows_epochs_ipv6() {
    export_follows_epochs::<Ipv6Prefix>();
}

#[test]
fn rejected_routes_are_stored_where_validation_decides() {
    let mut dut: Dut<Ipv4Prefix> = Dut::new(&[65002, 65003], 2);
    let hop = Ipv4Prefix::host_addr(2);
    dut.set_reach(hop, Some((0, true)));
    let mut config = Config { policies: policies(), ..dut.config() };
    config.neighbors[0].import = vec!["valid-only".into()];
    config.neighbors[0].keep_rejected = false;
    dut.input(Input::Configure(config));
    (0..2).for_each(|peer| dut.up(peer));
    let mut known = None;
    dut.input(epoch(&mut known, [vrp::<Ipv4Prefix>(0, 9)]));
    dut.announce(0, &[Ipv4Prefix::nth(0)], &Route::new(vec![65002, ORIGIN], hop));
    dut.settle();
    assert_eq!(dut.peers[1].received.len(), 0);
    dut.input(epoch(&mut known, []));
    dut.settle();
    assert_eq!((dut.peers[1].received.len(), dut.peers[0].asked), (1, 0), "the neighbor was not asked");
}
