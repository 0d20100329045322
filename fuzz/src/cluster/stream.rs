//! The values of the stream of the RIB in the store.

use sluice_base::{
    Distance, Family, Forwarding, Ipv4Prefix, Prefix, Provenance, RouteAction, RouteBatch, RouteSet,
    RouteUpdate, TableId,
};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::stream::follower::Follower;
use sluice_cluster::stream::leader::{GATHER_TIME, Leader};
use sluice_cluster::stream::loader::Loader;
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::store::{Key, Outcome};
use sluice_cluster::stream::wire::{ChunkBody, Entry, Head, Routes};
use std::time::Duration;

/// The keys and values that a leader writes, in the order of its transactions.
fn written() -> Vec<(Key, Vec<u8>)> {
    let Some(element) = ElementId::new(1) else { return Vec::new() };
    let now = sluice_base::Instant::ZERO;
    let mut leader = Leader::new(now, 1, element, [1, 2], None);
    let update = |number: u32| RouteUpdate {
        prefix: Ipv4Prefix::from_parts(0x0a00_0000 + (number << 8), 24)
            .unwrap_or(Ipv4Prefix::default_route()),
        action: RouteAction::Set(0),
        provenance: Provenance::new(1, 2),
    };
    let sets = vec![RouteSet::plain(Forwarding::Discard)];
    let routes = Routes::V4(RouteBatch { sets, updates: (0..40).map(update).collect() });
    let section = Section { table: TableId::MAIN, family: Family::Ipv4, origin: "bgp".into() };
    let grace = Duration::from_secs(1);
    let origin =
        StreamOrigin { distance: Distance(20), external: true, grace, kinds: vec!["external".into()] };
    leader.announce(now, &section, &origin, &routes);
    let mut all = Vec::new();
    let mut revision = 1;
    while let Some(transaction) = leader.next_transaction(now + GATHER_TIME, 0) {
        all.extend(transaction.puts);
        revision += 1;
        leader.answered(Outcome::Done(revision));
    }
    all
}

/// The seeds: the kind of a value, and the value.
pub fn seeds() -> Vec<Vec<u8>> {
    let kind = |key: &Key| match key {
        Key::Head => 0,
        Key::Entry(_) => 1,
        Key::Chunk(_) => 2,
    };
    written().into_iter().map(|(key, octets)| [&[kind(&key)], &octets[..]].concat()).collect()
}

/// Reads a value in place of the one that a leader wrote.
pub fn value(input: &[u8]) {
    let Some((kind, octets)) = input.split_first() else { return };
    let kind = kind % 3;
    match kind {
        0 => drop(Head::decode(octets).map(|head| assert_eq!(Head::decode(&head.encode()), Ok(head)))),
        1 => drop(Entry::decode(octets).map(|entry| assert_eq!(Entry::decode(&entry.encode()), Ok(entry)))),
        _ => drop(
            ChunkBody::decode(octets).map(|body| assert_eq!(ChunkBody::decode(&body.encode()), Ok(body))),
        ),
    }
    let (mut loader, mut whole) = (Loader::default(), Loader::default());
    let mut all: std::collections::BTreeMap<Key, Vec<u8>> = written().into_iter().collect();
    let chunks = all.extract_if(.., |key, _| matches!(key, Key::Chunk(_))).collect::<Vec<_>>();
    let log = all.extract_if(.., |key, _| matches!(key, Key::Entry(_))).collect::<Vec<_>>();
    for (key, good) in all.into_iter().chain(chunks).chain(log) {
        let is_replaced = kind
            == match key {
                Key::Head => 0,
                Key::Entry(_) => 1,
                Key::Chunk(_) => 2,
            };
        loader.add(&key.text(), if is_replaced { octets } else { &good }, 1);
        whole.add(&key.text(), &good, 1);
    }
    let mut follower = Follower::default();
    if let Ok(loaded) = whole.finish(1) {
        follower.loaded(loaded);
    }
    // An error is a refusal, and the routes stay.
    let _ = follower.follow(octets, 2);
    if let Ok(loaded) = loader.finish(3) {
        follower.loaded(loaded);
    }
    while follower.run_slice() {}
    let sections: Vec<Section> = follower.waiting().cloned().collect();
    for section in sections {
        follower.take(&section, 100);
    }
}
