//! Recordings of the state that earlier versions handed over, `testdata/state/bgp`: this version reads all of them.

use super::Received;
use super::parts;
use crate::BgpProcess;
use crate::config;
use crate::service::paths::path;
use serde_json::{Map, Value, json};
use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::speaker::Settings;
use sluice_bgp::table::Sharded;
use sluice_process::handover::CONFIGURATION;
use sluice_process::part::{Part, Planned};
use sluice_process::{Component, HandOverError, Source, StatePart};
use sluice_testkit::golden;
use sluice_testkit::recording::{packets, play};
use std::collections::BTreeSet;
use tokio::net::UnixStream;

/// The versions of parts, by name.
type Versions = BTreeSet<(&'static str, u16)>;

/// Reads a recording up to the listeners.
async fn read(packets: Vec<Vec<u8>>) -> Result<(Received, Versions), HandOverError> {
    let socket = std::os::unix::net::UnixStream::from(play(packets));
    socket.set_nonblocking(true)?;
    let all: Vec<&StatePart> = std::iter::once(&CONFIGURATION).chain(parts::ALL).collect();
    let mut source = Source::open(UnixStream::from_std(socket)?, "bgp", BgpProcess::STATE, &all).await?;
    source.begin(&CONFIGURATION).await?;
    let mut text = Vec::new();
    for _ in 0..source.take::<usize>().await? {
        text.extend(source.take::<Vec<u8>>().await?);
    }
    let change = serde_json::from_slice(&text).map_err(HandOverError::component)?;
    let planned = Planned { part: &Part::default(), change: &change };
    let settings: Settings = config::settings(planned.whole()).map_err(HandOverError::component)?;
    let received = Received::read(&settings, 7, &mut source).await?;
    let versions = parts::ALL.iter().filter_map(|part| Some((part.name, source.version(part)?)));
    Ok((received, versions.collect()))
}

fn here<F: Future>(act: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(act)
}

/// Returns the numbers of prefixes and paths of a family, and those paths that the recording names.
fn family<P: Sharded>(received: &Received, named: &Map<String, Value>) -> Value {
    let (mut prefixes, mut count, mut some) = (0, 0, Map::new());
    for route in received.tables.iter().flat_map(|table| table.shard::<P>().routes(0, usize::MAX, |_| true).0)
    {
        prefixes += 1;
        count += route.paths.len();
        let prefix = route.prefix.to_string();
        if named.contains_key(&prefix) {
            let paths = route.paths.into_iter().map(|view| {
                let path = path(view, false, &received.control);
                let local_pref = path.local_pref.unwrap_or_default();
                format!("{} {local_pref} {}", path.neighbor, path.as_path)
            });
            some.insert(prefix, paths.collect());
        }
    }
    json!({ "prefixes": prefixes, "paths": count, "some": some })
}

#[test]
fn states_of_earlier_versions_are_read() {
    let mut recorded = Versions::new();
    for (_, folder) in golden::versions("bgp") {
        let recording = std::fs::read(folder.join("state")).expect("a recording");
        let (received, versions) =
            here(read(packets(&recording))).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let expected = std::fs::read(folder.join("expected.json")).expect("what is expected");
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
        for session in expected["sessions"].as_array().expect("sessions") {
            let address = session["address"].as_str().and_then(|text| text.parse().ok()).expect("an address");
            let is_up = received.control.established(address).is_some();
            assert_eq!(
                is_up,
                session["state"].as_str().is_some_and(|state| state.eq_ignore_ascii_case("established")),
                "{address}"
            );
        }
        assert_eq!(received.connections.len(), expected["sessions"].as_array().expect("sessions").len());
        let named = |family: &str| expected[family]["some"].as_object().expect("paths").clone();
        assert_eq!(family::<Ipv4Prefix>(&received, &named("ipv4")), expected["ipv4"]);
        assert_eq!(family::<Ipv6Prefix>(&received, &named("ipv6")), expected["ipv6"]);
        recorded.extend(versions);
    }
    for part in parts::ALL {
        for version in part.reads.oldest..=part.reads.newest {
            assert!(
                recorded.contains(&(part.name, version)),
                "no recording has {} in version {version}",
                part.name
            );
        }
    }
}

/// A state that is cut after a packet or in a packet is refused.
#[test]
fn a_damaged_state_is_refused() {
    for (_, folder) in golden::versions("bgp") {
        let mut whole = packets(&std::fs::read(folder.join("state")).expect("a recording"));
        // The mark before the listeners, where a recording ends.
        whole.pop_if(|packet| packet.first() == Some(&b'b'));
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at].truncate(whole[at].len() / 2);
            let damaged = [whole[..at].to_vec(), torn];
            for packets in damaged.into_iter().filter(|packets| *packets != whole) {
                assert!(here(read(packets)).is_err(), "{}, packet {at}", folder.display());
            }
        }
    }
}
