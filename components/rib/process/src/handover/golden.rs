//! Recordings of the state that earlier versions handed over, `testdata/state/rib`: this version reads all of them.

use super::{ROUTES, read};
use crate::RibProcess;
use serde_json::{Value, json};
use sluice_base::{FamilyId, TableId};
use sluice_process::handover::CONFIGURATION;
use sluice_process::{Component, Driver, HandOverError, Source};
use sluice_rib::Rib;
use sluice_rib::view::{PageQuery, RouteView};
use sluice_testkit::golden;
use sluice_testkit::recording::{packets, play};
use std::collections::BTreeMap;
use tokio::net::UnixStream;

/// Reads a recording. Returns the RIB, and the version of the part with the routes.
fn rib(packets: Vec<Vec<u8>>) -> Result<(Driver<Rib>, u16), HandOverError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = std::os::unix::net::UnixStream::from(play(packets));
        socket.set_nonblocking(true)?;
        let parts = [&CONFIGURATION, &ROUTES];
        let mut source =
            Source::open(UnixStream::from_std(socket)?, "rib", RibProcess::STATE, &parts).await?;
        source.begin(&CONFIGURATION).await?;
        for _ in 0..source.take::<usize>().await? {
            source.take::<Vec<u8>>().await?;
        }
        let driver = Driver::new(Rib::new(7, 1), |_| {});
        read(&driver, &mut source).await?;
        source.finish().await?;
        Ok((driver, source.version(&ROUTES).unwrap_or_default()))
    })
}

/// Returns a route as the recordings name it.
fn named(route: &RouteView) -> Value {
    let gateway = route.announced.next_hops().first().and_then(|hop| hop.gateway);
    json!({
        "prefix": route.prefix.to_string(),
        "origin": route.origin,
        "distance": route.distance.0,
        "gateway": gateway.map(|gateway| gateway.to_string()),
    })
}

#[test]
fn states_of_earlier_versions_are_read() {
    let mut recorded = Vec::new();
    for (_, folder) in golden::versions("rib") {
        let recording = std::fs::read(folder.join("state")).expect("a recording");
        let (driver, version) =
            rib(packets(&recording)).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let expected = std::fs::read(folder.join("expected.json")).expect("what is expected");
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
        let query = PageQuery { limit: usize::MAX, ..PageQuery::default() };
        let routes = |family| driver.read(|rib| rib.routes(TableId::MAIN, family, &query).0);
        let all = [routes(FamilyId::IPV4), routes(FamilyId::IPV6)].concat();
        let mut origins = BTreeMap::<&str, usize>::new();
        all.iter().for_each(|route| *origins.entry(&route.origin).or_default() += 1);
        assert_eq!(json!(origins), expected["origins"]);
        let found: Vec<Value> = all.iter().map(named).collect();
        for route in expected["some"].as_array().expect("routes") {
            assert!(found.contains(route), "{route}");
        }
        recorded.push(version);
    }
    for version in ROUTES.reads.oldest..=ROUTES.reads.newest {
        assert!(recorded.contains(&version), "no recording has {} in version {version}", ROUTES.name);
    }
}

/// A state that is cut after a packet or in a packet, or has a packet twice or in another place, is refused.
#[test]
fn a_damaged_state_is_refused() {
    for (_, folder) in golden::versions("rib") {
        let whole = packets(&std::fs::read(folder.join("state")).expect("a recording"));
        // What follows the end is not read.
        for at in 0..whole.len() - 1 {
            let mut torn = whole.clone();
            torn[at].truncate(whole[at].len() / 2);
            let mut twice = whole.clone();
            twice.insert(at, whole[at].clone());
            let mut swapped = whole.clone();
            swapped.swap(at, at + 1);
            let damaged = [whole[..at].to_vec(), torn, twice, swapped];
            for packets in damaged.into_iter().filter(|packets| *packets != whole) {
                assert!(rib(packets).is_err(), "{}, packet {at}", folder.display());
            }
        }
    }
}
