use super::*;
use sluice_base::{Ipv4Prefix, Prefix};
use std::net::{IpAddr, Ipv4Addr};

const BEHIND: Provenance = Provenance::NONE;

fn next_hop(n: u8) -> NextHop {
    NextHop::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)))
}

fn unreachable() -> InterestAnswer<Ipv4Prefix> {
    InterestAnswer { valid: Ipv4Prefix::from_parts(0x0a00_0000, 24).expect("a prefix"), route: None }
}

#[test]
fn a_next_hop_that_goes_before_its_entries_are_decided_leaves_nothing_to_its_successor() {
    let (mut resolver, mut out) = (Resolver::<Ipv4Prefix>::default(), Outbox::new());
    let id = resolver.acquire(next_hop(1), &mut out);
    resolver.add_path(id, 5, PeerIndex(1));
    resolver.answer(&unreachable(), BEHIND, &mut out);
    resolver.remove_path(id);
    resolver.release(id, &mut out);
    assert_eq!(resolver.acquire(next_hop(2), &mut out), id, "the place is used again");
    resolver.add_path(id, 7, PeerIndex(1));
    let mut entries = Vec::new();
    assert_eq!((resolver.slice(10, &mut entries), entries.len()), (None, 0));
    resolver.answer(&unreachable(), BEHIND, &mut out);
    assert_eq!(resolver.slice(10, &mut entries), Some(BEHIND));
    assert_eq!(entries, [7]);
    entries.clear();
    assert_eq!((resolver.slice(10, &mut entries), entries.len()), (None, 0));
}

#[test]
fn a_next_hop_is_one_peers_until_another_has_a_path_through_it() {
    let (mut resolver, mut out) = (Resolver::<Ipv4Prefix>::default(), Outbox::new());
    let id = resolver.acquire(next_hop(1), &mut out);
    let users = |resolver: &Resolver<Ipv4Prefix>| {
        [1, 2].map(|peer| resolver.is_used_by(&next_hop(1), PeerIndex(peer)))
    };
    assert_eq!(users(&resolver), [false, false]);
    (0..5).for_each(|entry| resolver.add_path(id, entry, PeerIndex(1)));
    assert_eq!(users(&resolver), [true, false]);
    resolver.add_path(id, 7, PeerIndex(2));
    assert_eq!(users(&resolver), [false, false]);
    // What a peer has beside another's is not forgotten before all of it is gone.
    resolver.remove_path(id);
    assert_eq!(users(&resolver), [false, false]);
    (0..5).for_each(|_| resolver.remove_path(id));
    resolver.add_path(id, 7, PeerIndex(2));
    assert_eq!(users(&resolver), [false, true]);
}

#[test]
fn what_came_after_an_answer_is_not_decided_again_for_it() {
    let (mut resolver, mut out) = (Resolver::<Ipv4Prefix>::default(), Outbox::new());
    let id = resolver.acquire(next_hop(1), &mut out);
    (0..5).for_each(|entry| resolver.add_path(id, entry, PeerIndex(1)));
    resolver.answer(&unreachable(), BEHIND, &mut out);
    let mut entries = Vec::new();
    assert_eq!(resolver.slice(3, &mut entries), Some(BEHIND));
    (5..9).for_each(|entry| resolver.add_path(id, entry, PeerIndex(1)));
    assert_eq!(resolver.slice(3, &mut entries), Some(BEHIND));
    assert_eq!(resolver.slice(3, &mut entries), None);
    assert_eq!(entries, [0, 1, 2, 3, 4]);
    assert!(resolver.is_settled());
}

#[test]
fn a_log_that_is_mostly_stale_is_found_once_and_not_while_it_is_in_use() {
    let (mut resolver, mut out) = (Resolver::<Ipv4Prefix>::default(), Outbox::new());
    let id = resolver.acquire(next_hop(1), &mut out);
    let count = LOG_SLACK as u32 + 3;
    (0..count).for_each(|entry| resolver.add_path(id, entry, PeerIndex(1)));
    (1..count).for_each(|_| resolver.remove_path(id));
    resolver.answer(&unreachable(), BEHIND, &mut out);
    assert_eq!(resolver.next_bloated(), None, "its entries are to be decided again");
    let mut entries = Vec::new();
    while resolver.slice(500, &mut entries).is_some() {}
    assert_eq!(entries.len(), count as usize);
    let (found, log) = resolver.next_bloated().expect("it is mostly stale");
    assert_eq!((found, log.len()), (id, count as usize));
    resolver.squeezed(id, Vec::from([0]));
    assert_eq!(resolver.next_bloated(), None);
}
