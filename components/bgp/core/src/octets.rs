//! Strings of octets in pages by length: one allocation for many strings, without an allocator's headers between them.
//!
//! Lengths are rounded up to a multiple of 8; strings of one length so rounded share pages, so a freed place fits the
//! next string exactly. Empty pages are kept for reuse.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The divisor of lengths.
const STEP: usize = 8;
/// The octets of a page, unless a string needs more.
const PAGE: usize = 1024;
/// The most places of a page: the room in a place's number besides the page.
const PLACES: u32 = (PAGE / STEP) as u32;

/// The place of a string.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Page number and place in the page, among strings of this length.
    place: u32,
    len: u32,
}

impl Stored {
    /// The string's length.
    pub const fn len(self) -> usize {
        self.len as usize
    }

    const fn class(self) -> usize {
        self.len as usize / STEP
    }
}

/// Strings of one rounded length.
#[derive(Debug, Default)]
struct Class {
    pages: Vec<Box<[u8]>>,
    free: Vec<u32>,
    /// The place after the last one ever used.
    end: u32,
}

/// Strings of octets.
#[derive(Debug, Default)]
pub struct Octets {
    /// By length: up to 7 octets, up to 15 and so on.
    classes: Vec<Class>,
}

/// Octets of a place in a class.
const fn size(class: usize) -> usize {
    (class + 1) * STEP
}

impl Octets {
    /// Stores a string.
    ///
    /// # Panics
    /// With 2^32 octets or as many places of one length, which no memory holds.
    pub fn insert(&mut self, octets: &[u8]) -> Stored {
        let len = u32::try_from(octets.len()).expect("shorter than 4 GB");
        let class = Stored { place: 0, len }.class();
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Class::default);
        }
        let stored = Stored { place: self.classes[class].place(size(class)), len };
        self.of(stored).copy_from_slice(octets);
        stored
    }

    fn of(&mut self, stored: Stored) -> &mut [u8] {
        let page = &mut self.classes[stored.class()].pages[(stored.place / PLACES) as usize];
        &mut page[(stored.place % PLACES) as usize * size(stored.class())..][..stored.len()]
    }

    /// The string.
    #[inline]
    pub fn get(&self, stored: Stored) -> &[u8] {
        let page = &self.classes[stored.class()].pages[(stored.place / PLACES) as usize];
        &page[(stored.place % PLACES) as usize * size(stored.class())..][..stored.len()]
    }

    /// Forgets a string.
    pub fn remove(&mut self, stored: Stored) {
        self.classes[stored.class()].free.push(stored.place);
    }
}

impl Class {
    /// A free place, of `size` octets.
    fn place(&mut self, size: usize) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let in_page = (PAGE / size).max(1);
        let place = self.end;
        if place.is_multiple_of(PLACES) {
            self.pages.push(vec![0; in_page * size].into_boxed_slice());
        }
        let is_last = (place % PLACES) as usize + 1 == in_page;
        let next = place
            .checked_add(1)
            .and_then(|n| if is_last { n.checked_next_multiple_of(PLACES) } else { Some(n) });
        self.end = next.expect("fewer than 2^32 places");
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_stay_as_they_are(steps in prop::collection::vec((0..10_000_usize, any::<bool>()), 0..200)) {
            let mut octets = Octets::default();
            let mut known: Vec<(Stored, Vec<u8>)> = Vec::new();
            for (number, (len, removes)) in steps.into_iter().enumerate() {
                if removes && !known.is_empty() {
                    let (stored, _) = known.swap_remove(len % known.len());
                    octets.remove(stored);
                    continue;
                }
                // Short ones are the most common.
                let string = vec![number as u8; if number % 8 == 0 { len } else { len % 100 }];
                known.push((octets.insert(&string), string));
            }
            for (stored, string) in &known {
                prop_assert_eq!(octets.get(*stored), &string[..]);
            }
        }
    }

    #[test]
    fn a_place_is_used_again() {
        let mut octets = Octets::default();
        let first = octets.insert(&[1; 27]);
        let others: Vec<Stored> = (0..1000).map(|n| octets.insert(&[n as u8; 30])).collect();
        octets.remove(first);
        let again = octets.insert(&[7; 25]);
        assert_eq!((again.place, octets.get(again)), (first.place, &[7; 25][..]));
        assert!(others.iter().enumerate().all(|(n, stored)| octets.get(*stored) == [n as u8; 30]));
        assert_eq!(octets.classes[3].pages.len(), 1001_usize.div_ceil(PAGE / 32));
    }
}
