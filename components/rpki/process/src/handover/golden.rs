//! Recordings of the state that earlier versions handed over, `testdata/state/rpki`: this version reads all of them.

use super::{CACHES, read};
use crate::RpkiProcess;
use serde_json::{Value, json};
use sluice_base::{Instant, IpPrefix};
use sluice_machine::{Machine, Outbox};
use sluice_process::handover::CONFIGURATION;
use sluice_process::part::{Part, Planned};
use sluice_process::{Component, HandOverError, Source};
use sluice_rpki::machine::{Input, Output, Rpki};
use sluice_testkit::golden;
use sluice_testkit::recording::{packets, play};
use sluice_validation::AnyVrp;
use tokio::net::UnixStream;

/// Reads a recording. Returns the machine with the recorded configuration, its first effects, and the version of the part.
fn rpki(packets: Vec<Vec<u8>>) -> Result<(Rpki, Vec<Output>, Option<u16>), HandOverError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = std::os::unix::net::UnixStream::from(play(packets));
        socket.set_nonblocking(true)?;
        let parts = [&CONFIGURATION, &CACHES];
        let mut source =
            Source::open(UnixStream::from_std(socket)?, "rpki", RpkiProcess::STATE, &parts).await?;
        source.begin(&CONFIGURATION).await?;
        let mut text = Vec::new();
        for _ in 0..source.take::<usize>().await? {
            text.extend(source.take::<Vec<u8>>().await?);
        }
        let change =
            serde_json::from_slice(&text).map_err(|error| HandOverError::Value(error.to_string()))?;
        let planned = Planned { part: &Part::default(), change: &change };
        let settings = crate::config::settings(planned.whole()).map_err(HandOverError::component)?;
        let state = read(&mut source).await?;
        source.finish().await?;
        let (mut machine, mut out) = (Rpki::new(1), Outbox::new());
        if let Some(state) = state {
            machine.import(Instant::ZERO, state, &mut out);
        }
        machine.handle(Instant::ZERO, Input::Configure(settings), &mut out);
        Ok((machine, out.drain().collect(), source.version(&CACHES)))
    })
}

fn named(vrp: &AnyVrp) -> Value {
    let net: IpPrefix = vrp.prefix();
    json!({ "net": net.to_string(), "max_length": vrp.max_length(), "asn": vrp.asn().0 })
}

#[test]
fn states_of_earlier_versions_are_read() {
    let mut recorded = Vec::new();
    for (_, folder) in golden::versions("rpki") {
        let recording = std::fs::read(folder.join("state")).expect("a recording");
        let (machine, effects, version) =
            rpki(packets(&recording)).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let expected = std::fs::read(folder.join("expected.json")).expect("what is expected");
        let expected: Value = serde_json::from_slice(&expected).expect("JSON");
        let caches: Vec<Value> = machine
            .view(Instant::ZERO)
            .iter()
            .map(|view| {
                json!({
                    "name": view.name, "source": view.is_source, "version": view.version,
                    "session": view.serial.map(|(session, _)| session), "serial": view.serial.map(|(_, serial)| serial),
                    "ipv4": view.vrps.0, "ipv6": view.vrps.1, "resets": view.counters.resets,
                })
            })
            .collect();
        assert_eq!(json!(caches), expected["caches"]);
        assert_eq!(machine.epochs().number(), expected["epoch"].as_u64().expect("a number"), "no new epoch");
        assert!(!effects.contains(&Output::Changed), "{effects:?}");
        let vrps: Vec<Value> =
            machine.epochs().table().expect("data").iter().map(|vrp| named(&vrp)).collect();
        assert_eq!(json!(vrps), expected["vrps"]);
        recorded.extend(version);
    }
    for version in CACHES.reads.oldest..=CACHES.reads.newest {
        assert!(recorded.contains(&version), "no recording has {} in version {version}", CACHES.name);
    }
}

/// A state that is cut after a packet or in a packet, or has a packet twice or in another place, is refused.
#[test]
fn a_damaged_state_is_refused() {
    for (_, folder) in golden::versions("rpki") {
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
                assert!(rpki(packets).is_err(), "{}, packet {at}", folder.display());
            }
        }
    }
}
