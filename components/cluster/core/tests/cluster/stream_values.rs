//! Values in the store that are not as a leader writes them.

use sluice_base::{
    Distance, Duration, Family, Forwarding, Ipv4Prefix, Provenance, RouteAction, RouteBatch, RouteSet,
    RouteUpdate, TableId,
};
use sluice_cluster::stream::follower::Follower;
use sluice_cluster::stream::loader::{LoadError, Loader};
use sluice_cluster::stream::section::{Catalog, MOST_SECTIONS, Section, SectionId, StreamOrigin, Sum};
use sluice_cluster::stream::store::{ChunkId, Key};
use sluice_cluster::stream::wire::{ChunkBody, DecodeError, Entry, Head, Routes};

fn section(name: &str) -> (Section, StreamOrigin) {
    let origin = StreamOrigin {
        distance: Distance(20),
        external: true,
        grace: Duration::from_secs(60),
        kinds: vec!["external".into()],
    };
    (Section { table: TableId::MAIN, family: Family::Ipv4, origin: name.into() }, origin)
}

fn routes(place: u32) -> Vec<(SectionId, Routes)> {
    let prefix: Ipv4Prefix = "192.0.2.0/24".parse().unwrap();
    let update = RouteUpdate { prefix, action: RouteAction::Set(place), provenance: Provenance::new(1, 2) };
    let sets = vec![RouteSet::plain(Forwarding::Discard)];
    vec![(SectionId(0), Routes::V4(RouteBatch { sets, updates: vec![update] }))]
}

fn head() -> Head {
    let catalog = Catalog { sections: vec![section("bgp")], ..Catalog::default() };
    let sums = vec![(SectionId(0), Sum::default())];
    Head { epoch: 7, element: 1, number: 1, seed: [1, 2], sequence: 3, first: 4, catalog, sums }
}

fn entry(place: u32) -> Entry {
    let (epoch, sequence, time_ms) = (7, 4, 1);
    Entry { epoch, sequence, time_ms, catalog: None, changes: routes(place), sums: Vec::new() }
}

fn chunk(id: ChunkId) -> ChunkBody {
    ChunkBody { id, sequence: 3, routes: routes(0) }
}

#[test]
fn values_come_back_and_any_damage_is_an_error() {
    let values = [head().encode(), entry(0).encode(), chunk(ChunkId::ALL).encode()];
    assert_eq!(Head::decode(&values[0]), Ok(head()));
    assert_eq!(Entry::decode(&values[1]), Ok(entry(0)));
    assert_eq!(ChunkBody::decode(&values[2]), Ok(chunk(ChunkId::ALL)));
    for (number, value) in values.iter().enumerate() {
        let decode = |octets: &[u8]| match number {
            0 => Head::decode(octets).map(drop),
            1 => Entry::decode(octets).map(drop),
            _ => ChunkBody::decode(octets).map(drop),
        };
        for length in 0..value.len() {
            assert_eq!(decode(&value[..length]), Err(DecodeError::Malformed), "{number} {length}");
        }
        assert_eq!(decode(&[value, &[0, 0][..]].concat()), Err(DecodeError::Trailing(2)));
        let error = decode(&[&[2], &value[1..]].concat()).unwrap_err();
        assert_eq!(error, DecodeError::Version(2));
        assert!(error.to_string().contains("upgrade"));
    }
}

#[test]
fn values_that_point_nowhere_are_refused() {
    assert_eq!(Entry::decode(&entry(1).encode()), Err(DecodeError::Set(1)));
    let id = ChunkId { start: 1, bits: 4 };
    assert_eq!(ChunkBody::decode(&chunk(id).encode()), Err(DecodeError::Chunk(id)));
    let mut long = head();
    long.catalog.sections = (0..=MOST_SECTIONS).map(|number| section(&number.to_string())).collect();
    assert_eq!(Head::decode(&long.encode()), Err(DecodeError::Catalog));
}

#[test]
fn a_stream_with_a_part_missing_is_refused() {
    let load = |values: &[(Key, Vec<u8>)]| {
        let mut loader = Loader::default();
        values.iter().for_each(|(key, value)| loader.add(&key.text(), value, 1));
        loader.finish(1).map(drop)
    };
    let head_value = (Key::Head, head().encode());
    let chunk_value = (Key::Chunk(ChunkId::ALL), chunk(ChunkId::ALL).encode());
    assert_eq!(load(&[]), Err(LoadError::Empty));
    assert_eq!(load(std::slice::from_ref(&head_value)), Err(LoadError::Chunks));
    assert_eq!(load(&[head_value, chunk_value.clone()]), Err(LoadError::Sum(SectionId(0))));
    let later = Head { sequence: 4, ..head() };
    assert_eq!(load(&[(Key::Head, later.encode()), chunk_value]), Err(LoadError::Entry(4)));
    let halves = ChunkId::ALL.halves().unwrap();
    let misplaced = halves.map(|id| (Key::Chunk(id), chunk(id).encode()));
    let result = load(&[&[(Key::Head, head().encode())], &misplaced[..]].concat());
    assert_eq!(result, Err(LoadError::Chunks), "the route belongs to one of the halves");
    let other = ChunkBody { id: halves[0], ..chunk(ChunkId::ALL) };
    let result = load(&[(Key::Head, head().encode()), (Key::Chunk(ChunkId::ALL), other.encode())]);
    assert!(matches!(result, Err(LoadError::Value(..))));
    let mut follower = Follower::default();
    assert_eq!(follower.follow(&[1, 2], 3), Err(DecodeError::Malformed));
    assert!(follower.needs_load() && !follower.is_complete());
}
