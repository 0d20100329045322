//! Frames and values of the store that earlier versions wrote, as each is read now (`testdata/state/README.md`).

use serde_json::{Value, json};
use sluice_cluster::announce::Announcement;
use sluice_cluster::configuration::shared::Shared;
use sluice_cluster::configuration::{KEY as CONFIGURATION, TAKEN};
use sluice_cluster::header::Stamp;
use sluice_cluster::hello::Hello;
use sluice_cluster::key::{ClusterKey, KEY_LEN, KeyRing};
use sluice_cluster::neighbors::{NeighborKey, NeighborList, Part, WantedList};
use sluice_cluster::roster::{KEY as ROSTER, Roster};
use sluice_cluster::stream::seal;
use sluice_cluster::stream::store::{ChunkId, Key};
use sluice_cluster::stream::wire::{ChunkBody, Entry, Head};
use sluice_testkit::golden;
use std::fs;
use std::path::{Path, PathBuf};

/// The beginning of the keys of a recorded store: the lab's cluster has the default name.
const START: &str = "/sluice/cluster/";

/// Returns the key of the lab's cluster.
fn keys(recording: &Path) -> KeyRing {
    let text = fs::read_to_string(recording.join("key.txt")).unwrap();
    let digits = |place: usize| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap();
    KeyRing::of(ClusterKey(core::array::from_fn::<u8, KEY_LEN, _>(digits)))
}

fn stamp(stamp: Stamp) -> Value {
    json!({ "epoch": stamp.epoch, "counter": stamp.counter })
}

/// Reads the frames of a recording, field by field.
fn frames(recording: &Path) -> Value {
    let keys = keys(recording);
    let octets = |name: &str| fs::read(recording.join(format!("frames/{name}.bin"))).unwrap();
    let hello = Hello::decode(&octets("hello"), &keys).unwrap();
    let announcement = Announcement::decode(&octets("announcement"), &keys).unwrap();
    let neighbors = NeighborList::decode(&octets("neighbors"), &keys).unwrap();
    let wanted = WantedList::decode(&octets("wanted"), &keys).unwrap();
    let key = |key: &NeighborKey| json!({ "port": key.port, "address": key.address });
    let part = match neighbors.part {
        Part::Change => json!("change"),
        Part::Round { number, is_last } => json!({ "round": number, "is_last": is_last }),
    };
    let entry = |(neighbor, mac): &(NeighborKey, Option<_>)| json!({ "neighbor": key(neighbor), "mac": mac.map(|mac: sluice_cluster::mac::Mac| mac.to_string()) });
    json!({
        "hello": { "element": hello.element, "stamp": stamp(hello.stamp) },
        "announcement": {
            "element": announcement.element,
            "mac": announcement.mac.to_string(),
            "addresses": announcement.addresses,
            "stamp": stamp(announcement.stamp),
        },
        "neighbors": {
            "element": neighbors.element,
            "stamp": stamp(neighbors.stamp),
            "part": part,
            "entries": neighbors.entries.iter().map(entry).collect::<Vec<_>>(),
        },
        "wanted": {
            "element": wanted.element,
            "stamp": stamp(wanted.stamp),
            "entries": wanted.entries.iter().map(key).collect::<Vec<_>>(),
        },
    })
}

/// Returns the files below a folder, in the order of their paths.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

/// Opens the values of a recorded store: the names behind the cluster's beginning, and the contents.
fn opened(recording: &Path) -> Vec<(String, Vec<u8>)> {
    let (keys, store) = (keys(recording), recording.join("store"));
    let open = |path: PathBuf| {
        let key = format!("/{}", path.strip_prefix(&store).unwrap().display());
        let content =
            seal::open(&key, &fs::read(&path).unwrap(), &keys).expect("the tag is the key's").to_vec();
        (key.strip_prefix(START).unwrap().to_owned(), content)
    };
    files(&store).into_iter().map(open).collect()
}

/// Reads a value of the store, field by field.
fn value(name: &str, content: &[u8]) -> Value {
    match Key::parse(name) {
        Some(Key::Head) => json!(Head::decode(content).unwrap()),
        Some(Key::Entry(_)) => json!(Entry::decode(content).unwrap()),
        Some(Key::Chunk(_)) => json!(ChunkBody::decode(content).unwrap()),
        None if name == CONFIGURATION => json!(Shared::decode(content).unwrap()),
        None if name == ROSTER => json!(Roster::decode(content).unwrap()),
        // Numbers in decimal digits: of the leading element, and of an element's configuration.
        None if name == "leader" || name.starts_with(TAKEN) => {
            json!(str::from_utf8(content).unwrap().parse::<u64>().unwrap())
        }
        None => panic!("{name} is no key"),
    }
}

#[test]
fn recorded_frames_and_values_are_read_as_they_were_meant() {
    for (_, recording) in golden::versions("cluster") {
        let values = opened(&recording);
        let store: serde_json::Map<String, Value> =
            values.iter().map(|(name, content)| (name.clone(), value(name, content))).collect();
        let found = json!({ "frames": frames(&recording), "store": store });
        golden::compare(&recording, &serde_json::to_string_pretty(&found).unwrap());
    }
}

/// What is written now is what was recorded last: a change of the format needs a version of its own, and a recording.
#[test]
fn the_newest_recording_is_what_is_written_now() {
    let (_, recording) = golden::versions("cluster").pop().unwrap();
    let keys = keys(&recording);
    let octets = |name: &str| fs::read(recording.join(format!("frames/{name}.bin"))).unwrap();
    let hello = Hello::decode(&octets("hello"), &keys).unwrap().encode(&keys.current);
    let announcement = Announcement::decode(&octets("announcement"), &keys).unwrap().encode(&keys.current);
    let neighbors = NeighborList::decode(&octets("neighbors"), &keys).unwrap().encode(&keys.current);
    let wanted = WantedList::decode(&octets("wanted"), &keys).unwrap().encode(&keys.current);
    let frames = [
        ("hello", hello.to_vec()),
        ("announcement", announcement.unwrap()),
        ("neighbors", neighbors.unwrap()),
        ("wanted", wanted.unwrap()),
    ];
    for (name, written) in frames {
        // Octets behind are Ethernet's padding.
        assert!(octets(name).starts_with(&written), "{name}");
    }
    for (name, content) in opened(&recording) {
        let written = match Key::parse(&name) {
            Some(Key::Head) => Head::decode(&content).unwrap().encode(),
            Some(Key::Entry(_)) => Entry::decode(&content).unwrap().encode(),
            Some(Key::Chunk(id)) => {
                let body = ChunkBody::decode(&content).unwrap();
                assert_eq!((body.id, body.id.size()), (id, ChunkId::ALL.size()));
                body.encode()
            }
            None if name == CONFIGURATION => Shared::decode(&content).unwrap().encode(),
            None if name == ROSTER => Roster::decode(&content).unwrap().encode(),
            None => continue,
        };
        assert_eq!(written, content, "{name}");
    }
}
