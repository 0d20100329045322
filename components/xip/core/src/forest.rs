//! The dependency forest: which cached decisions rest on which anchors (Linux XIA, ANCS 2015, section 4.2.2).
//!
//! A change of the routing state touches anchors, and exactly the cache entries on the anchors must be decided anew. Linux
//! XIA has a single anchor for the missing entries of a principal; here each missing entry is an anchor, so that a new route reaches
//! only decisions that looked for the XID. All nodes lie in two arenas. An attachment takes 20 octets, an anchor 32 and its index; an anchor
//! without dependents takes nothing.

use crate::anchor::{Anchor, Touch};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use sluice_base::{Prefix, Xid, XidType};
use smallvec::SmallVec;

/// The number of a cache entry, given by the cache. Numbers should be dense: the forest has a slot for each up to the largest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CacheEntryId(pub u32);

/// The end of a list.
const END: u32 = u32::MAX;

/// The attachment of an entry to an anchor. Free links are a list by `sibling`.
#[derive(Clone, Copy)]
struct Link {
    entry: u32,
    anchor: u32,
    /// The neighbors in the anchor's list.
    previous: u32,
    next: u32,
    /// The next attachment of the same entry.
    sibling: u32,
}

#[derive(Clone, Copy)]
struct Node {
    anchor: Anchor,
    /// The first attachment; [`END`] if the node is free.
    first: u32,
}

const _: () = assert!(size_of::<Link>() == 20 && size_of::<Node>() <= 36);

/// The place of an anchor reached by ranges: longest prefixes by the number of matched bits, and filters after the prefixes.
type RangeKey = (XidType, Class, [u8; 20]);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Longest(Option<u8>),
    Filter,
}

fn range_key(anchor: &Anchor) -> Option<RangeKey> {
    match anchor {
        Anchor::Longest { xid, matched } => Some((xid.kind, Class::Longest(*matched), xid.id)),
        Anchor::Filter(xid) => Some((xid.kind, Class::Filter, xid.id)),
        _ => None,
    }
}

/// The forest has no room for the attachments of an entry, which therefore must not be cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForestFull;

/// The memory of a forest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForestSize {
    /// Anchors with dependents.
    pub anchors: usize,
    /// Attachments of entries to anchors.
    pub links: usize,
    /// Octets of the arenas and of the index of exact anchors, unused capacity included.
    pub octets: usize,
}

/// The dependents of anchors.
pub struct Forest {
    hasher: FixedState,
    most_links: usize,
    exact: HashTable<u32>,
    ranges: BTreeMap<RangeKey, u32>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    links: Vec<Link>,
    free_link: u32,
    link_count: usize,
    /// The first attachment of each entry.
    entries: Vec<u32>,
}

impl Forest {
    /// Makes an empty forest for up to `most_links` attachments. Anchors come from packets: a secret `seed` keeps their authors from
    /// choosing XIDs that collide.
    pub const fn new(seed: u64, most_links: usize) -> Self {
        Forest {
            hasher: FixedState::with_seed(seed),
            most_links,
            exact: HashTable::new(),
            ranges: BTreeMap::new(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            links: Vec::new(),
            free_link: END,
            link_count: 0,
            entries: Vec::new(),
        }
    }

    fn find(&self, anchor: &Anchor) -> Option<u32> {
        match range_key(anchor) {
            Some(key) => self.ranges.get(&key).copied(),
            None => {
                let hash = self.hasher.hash_one(anchor);
                self.exact.find(hash, |node| self.nodes[*node as usize].anchor == *anchor).copied()
            }
        }
    }

    fn find_or_add(&mut self, anchor: &Anchor) -> u32 {
        let Forest { hasher, exact, ranges, nodes, free_nodes, .. } = self;
        let mut add = |nodes: &mut Vec<Node>| {
            let node = Node { anchor: *anchor, first: END };
            if let Some(free) = free_nodes.pop() {
                nodes[free as usize] = node;
                return free;
            }
            nodes.push(node);
            nodes.len() as u32 - 1
        };
        if let Some(key) = range_key(anchor) {
            return *ranges.entry(key).or_insert_with(|| add(nodes));
        }
        let hash = hasher.hash_one(anchor);
        if let Some(node) = exact.find(hash, |node| nodes[*node as usize].anchor == *anchor) {
            return *node;
        }
        let node = add(nodes);
        exact.insert_unique(hash, node, |node| hasher.hash_one(nodes[*node as usize].anchor));
        node
    }

    fn remove_node(&mut self, node: u32) {
        let anchor = self.nodes[node as usize].anchor;
        match range_key(&anchor) {
            Some(key) => {
                self.ranges.remove(&key);
            }
            None => {
                let hash = self.hasher.hash_one(anchor);
                if let Ok(found) = self.exact.find_entry(hash, |known| *known == node) {
                    found.remove();
                }
            }
        }
        self.free_nodes.push(node);
    }

    /// Attaches an entry to anchors, in place of the anchors to which it was attached before. Repeated anchors count once.
    ///
    /// # Errors
    /// The forest is full; the entry is attached to no anchor.
    pub fn attach(&mut self, entry: CacheEntryId, anchors: &[Anchor]) -> Result<(), ForestFull> {
        self.detach(entry);
        if self.link_count + anchors.len() > self.most_links {
            return Err(ForestFull);
        }
        let slot = entry.0 as usize;
        if self.entries.len() <= slot {
            self.entries.resize(slot + 1, END);
        }
        for anchor in anchors {
            let node = self.find_or_add(anchor);
            let next = self.nodes[node as usize].first;
            if next != END && self.links[next as usize].entry == entry.0 {
                continue; // new attachments are first in their list: the anchor is repeated
            }
            let link =
                Link { entry: entry.0, anchor: node, previous: END, next, sibling: self.entries[slot] };
            let place = if self.free_link == END {
                self.links.push(link);
                self.links.len() as u32 - 1
            } else {
                let place = self.free_link;
                self.free_link = core::mem::replace(&mut self.links[place as usize], link).sibling;
                place
            };
            if next != END {
                self.links[next as usize].previous = place;
            }
            self.nodes[node as usize].first = place;
            self.entries[slot] = place;
            self.link_count += 1;
        }
        Ok(())
    }

    /// Detaches an entry from all anchors. Harmless if the entry is not attached.
    pub fn detach(&mut self, entry: CacheEntryId) {
        let Some(first) = self.entries.get_mut(entry.0 as usize) else { return };
        let mut place = core::mem::replace(first, END);
        while place != END {
            let link = self.links[place as usize];
            if link.next != END {
                self.links[link.next as usize].previous = link.previous;
            }
            if link.previous != END {
                self.links[link.previous as usize].next = link.next;
            } else {
                self.nodes[link.anchor as usize].first = link.next;
                if link.next == END {
                    self.remove_node(link.anchor);
                }
            }
            self.links[place as usize].sibling = self.free_link;
            self.free_link = place;
            self.link_count -= 1;
            place = link.sibling;
        }
    }

    /// Returns the anchors of an entry, the last attached first.
    pub fn anchors_of(&self, entry: CacheEntryId) -> impl Iterator<Item = Anchor> {
        let first = self.entries.get(entry.0 as usize).copied().filter(|place| *place != END);
        let links = core::iter::successors(first, |place| {
            let sibling = self.links[*place as usize].sibling;
            (sibling != END).then_some(sibling)
        });
        links.map(|place| self.nodes[self.links[place as usize].anchor as usize].anchor)
    }

    /// Returns the nodes of the anchors in a touch.
    fn nodes(&self, touch: &Touch) -> SmallVec<[u32; 8]> {
        match touch {
            Touch::Anchor(anchor) => self.find(anchor).into_iter().collect(),
            Touch::Longest { matched, within } => {
                let (kind, first) = (within.addr().kind, within.addr().id);
                let last = last_id(first, within.id_bits());
                let class = Class::Longest(*matched);
                self.ranges.range((kind, class, first)..=(kind, class, last)).map(|(_, node)| *node).collect()
            }
            Touch::Filters { link } => self.filters(*link),
        }
    }

    /// Returns the nodes of the filters with a link ID. Filters are in order as numbers: from a filter without the link ID, the search
    /// leaps to the next number with the link ID.
    fn filters(&self, link: Xid) -> SmallVec<[u32; 8]> {
        let mut found = SmallVec::new();
        let last = (link.kind, Class::Filter, [0xff; 20]);
        let mut from = link.id;
        'leap: loop {
            for ((_, _, filter), node) in self.ranges.range((link.kind, Class::Filter, from)..=last) {
                match next_filter(filter, &link.id) {
                    None => found.push(*node),
                    Some(next) => {
                        from = next;
                        continue 'leap;
                    }
                }
            }
            return found;
        }
    }

    /// Returns the entries reached by a touch. An entry on several anchors of the touch may be returned several times.
    pub fn touched(&self, touch: &Touch) -> impl Iterator<Item = CacheEntryId> {
        self.nodes(touch).into_iter().flat_map(move |node| {
            let mut place = self.nodes[node as usize].first;
            core::iter::from_fn(move || {
                let link = self.links.get(place as usize)?;
                place = link.next;
                Some(CacheEntryId(link.entry))
            })
        })
    }

    /// Detaches the entries reached by a touch, and hands each to `drop_entry` once.
    pub fn flush(&mut self, touch: &Touch, mut drop_entry: impl FnMut(CacheEntryId)) {
        for node in self.nodes(touch) {
            while let Some(link) = self.links.get(self.nodes[node as usize].first as usize) {
                let entry = CacheEntryId(link.entry);
                self.detach(entry);
                drop_entry(entry);
            }
        }
    }

    /// Returns the number of anchors and attachments, and their memory.
    pub fn size(&self) -> ForestSize {
        let octets = self.nodes.capacity() * size_of::<Node>()
            + self.links.capacity() * size_of::<Link>()
            + (self.free_nodes.capacity() + self.entries.capacity()) * size_of::<u32>()
            + self.exact.allocation_size()
            + self.ranges.len() * size_of::<(RangeKey, u32)>();
        ForestSize { anchors: self.exact.len() + self.ranges.len(), links: self.link_count, octets }
    }
}

/// Returns the last ID whose first `bits` bits are those of `first`.
fn last_id(first: [u8; 20], bits: u8) -> [u8; 20] {
    let mut last = first;
    for (place, octet) in last.iter_mut().enumerate() {
        let kept = u32::from(bits).saturating_sub(place as u32 * 8);
        *octet |= 0xff_u8.checked_shr(kept).unwrap_or(0);
    }
    last
}

/// Returns the smallest number above `filter` that contains `link`; `None` if `filter` contains `link`.
///
/// The highest bit that the filter lacks becomes one. The bits above it stay, and the bits below it are the link ID's.
fn next_filter(filter: &[u8; 20], link: &[u8; 20]) -> Option<[u8; 20]> {
    let place = filter.iter().zip(link).position(|(filter, link)| link & !filter != 0)?;
    let mut next = *link;
    next[..place].copy_from_slice(&filter[..place]);
    let lacked = link[place] & !filter[place];
    let below = 0xff_u8 >> lacked.leading_zeros(); // the highest lacked bit and the bits below it
    next[place] = (filter[place] & !below) | (link[place] & below);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_filter_is_the_smallest_that_contains_the_link() {
        let id = |bits: u16| {
            let mut id = [0; 20];
            id[..2].copy_from_slice(&bits.to_be_bytes());
            id
        };
        for link in [0_u16, 1, 0x0110, 0x8001, 0x00ff, 0x5a5a] {
            for filter in (link..=u16::MAX).step_by(7) {
                let expected = (filter..=u16::MAX).find(|next| next & link == link);
                let found = next_filter(&id(filter), &id(link));
                assert_eq!(found, expected.filter(|next| *next != filter).map(id), "{filter:x} {link:x}");
            }
        }
    }

    #[test]
    fn the_last_id_of_a_prefix_has_ones_behind_the_prefix() {
        assert_eq!(last_id([0; 20], 0), [0xff; 20]);
        assert_eq!(last_id([7; 20], 160), [7; 20]);
        let mut last = [0xff; 20];
        (last[0], last[1]) = (0, 0x0f);
        assert_eq!(last_id([0; 20], 12), last);
    }
}
