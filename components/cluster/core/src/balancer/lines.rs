//! Tables of lines: a key is in either of two lines of 64 octets, which two halves of its hash choose.
//!
//! With a quarter of the places used, a key without a free place is all but impossible; such a key is reported.

use crate::balancer::flow::mix;
use crate::balancer::words::{ADDRESS_LINES, Map, Mirror, NEIGHBOR_LINES, Place, Store, Words};
use crate::mac::Mac;
use core::net::IpAddr;
use sluice_machine::Outbox;

const NEIGHBORS_PER_LINE: u16 = 8;
const ADDRESSES_PER_LINE: u16 = 4;
const MAC_BITS: u32 = 48;
const MAC: u64 = (1 << MAC_BITS) - 1;

/// A table has no free place for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

fn lines_of(hash: u64, lines: u32) -> [u32; 2] {
    [hash as u32 & (lines - 1), (hash >> 32) as u32 & (lines - 1)]
}

fn neighbor_places(mac: Mac, seed: u64) -> impl Iterator<Item = Place> {
    let lines = lines_of(mix(mix(seed, mac.number()), 0), NEIGHBOR_LINES);
    // Alternately, so that both lines fill alike.
    let places = (0..NEIGHBORS_PER_LINE).flat_map(move |word| lines.map(|line| (line, word)));
    places.map(|(line, word)| Place::new(Map::Neighbors, line, word))
}

/// Returns the port of a neighbor; 0 if the neighbor is not in the table.
pub fn neighbor(words: &impl Words, mac: Mac, seed: u64) -> u16 {
    let found = neighbor_places(mac, seed).map(|place| words.load(place));
    let mut found = found.filter(|entry| entry & MAC == mac.number());
    found.next().map_or(0, |entry| (entry >> MAC_BITS) as u16)
}

/// Sets the port of a neighbor; 0 removes the neighbor.
///
/// # Errors
///
/// If both lines are full.
pub fn set_neighbor<O: From<Store>>(
    mirror: &mut Mirror,
    mac: Mac,
    port: u16,
    seed: u64,
    out: &mut Outbox<O>,
) -> Result<(), NoRoom> {
    let is_own = |place: &Place| mirror.load(*place) & MAC == mac.number();
    let is_free = |place: &Place| mirror.load(*place) == 0 || mirror.is_stale(*place);
    let own = neighbor_places(mac, seed).find(is_own);
    if port == 0 {
        if let Some(place) = own {
            mirror.set(place, 0, out);
        }
        return Ok(());
    }
    let place = own.or_else(|| neighbor_places(mac, seed).find(is_free)).ok_or(NoRoom)?;
    mirror.set(place, u64::from(port) << MAC_BITS | mac.number(), out);
    Ok(())
}

/// Returns an address as two words. IPv4 addresses are mapped into IPv6 (RFC 4291, section 2.5.5.2).
pub(crate) fn address_words(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let (words, _) = octets.as_chunks::<8>();
    [words[0], words[1]].map(u64::from_le_bytes)
}

fn address_places(key: [u64; 2], seed: u64) -> impl Iterator<Item = [Place; 2]> {
    let lines = lines_of(mix(mix(mix(seed, key[0]), key[1]), 0), ADDRESS_LINES);
    let places = (0..ADDRESSES_PER_LINE).flat_map(move |entry| lines.map(|line| (line, entry)));
    places.map(|(line, entry)| [0, 1].map(|half| Place::new(Map::Addresses, line, 2 * entry + half)))
}

/// Returns true for an address in the table.
pub fn has_address(words: &impl Words, key: [u64; 2], seed: u64) -> bool {
    key != [0, 0] && address_places(key, seed).any(|places| places.map(|place| words.load(place)) == key)
}

/// Adds an address.
///
/// # Errors
///
/// If both lines are full.
pub fn add_address<O: From<Store>>(
    mirror: &mut Mirror,
    key: [u64; 2],
    seed: u64,
    out: &mut Outbox<O>,
) -> Result<(), NoRoom> {
    let load = |places: &[Place; 2]| places.map(|place| mirror.load(place));
    let is_stale = |places: &[Place; 2]| places.iter().all(|p| mirror.load(*p) == 0 || mirror.is_stale(*p));
    let own = address_places(key, seed).find(|places| load(places) == key);
    let places = own.or_else(|| address_places(key, seed).find(is_stale)).ok_or(NoRoom)?;
    for (place, value) in places.into_iter().zip(key) {
        mirror.set(place, value, out);
    }
    Ok(())
}

/// Removes an address.
pub(crate) fn remove_address<O: From<Store>>(
    mirror: &mut Mirror,
    key: [u64; 2],
    seed: u64,
    out: &mut Outbox<O>,
) {
    let is_own = |places: &[Place; 2]| places.map(|place| mirror.load(place)) == key;
    if let Some(places) = address_places(key, seed).find(is_own) {
        for place in places {
            mirror.set(place, 0, out);
        }
    }
}
