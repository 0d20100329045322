//! Numbers for prefixes, so that a receiver's view of a table is a set of bits.

use sluice_base::{IpPrefix, Prefix};

/// The prefixes of a run, numbered in their order of arrival.
///
/// Open addressing with at most half of the places taken: a look-up of an IPv4 prefix reads one cache line, mostly.
#[derive(Clone, Debug)]
pub struct Index {
    v4: Vec<u64>,
    v6: Vec<(u128, u64)>,
    prefixes: Vec<IpPrefix>,
    v4_taken: usize,
}

/// Bits of a number in an entry of IPv4; the prefix and its length are in the bits above.
const NUMBER_BITS: u32 = 26;
/// Odd, without a pattern: the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const SMALLEST: usize = 16;

fn key_v4(bits: u32, len: u8) -> u64 {
    u64::from(bits) << 6 | u64::from(len)
}

/// The place for a key among `places`, a power of two.
fn place(key: u64, places: usize) -> usize {
    (key.wrapping_mul(MULTIPLIER) >> (64 - places.trailing_zeros())) as usize
}

fn fold(bits: u128, len: u8) -> u64 {
    (bits >> 64) as u64 ^ (bits as u64).rotate_left(32).wrapping_mul(MULTIPLIER) ^ u64::from(len)
}

impl Default for Index {
    fn default() -> Self {
        Index { v4: vec![0; SMALLEST], v6: vec![(0, 0); SMALLEST], prefixes: Vec::new(), v4_taken: 0 }
    }
}

impl Index {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Returns true if the index is empty.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The prefix with a number.
    pub fn prefix(&self, number: usize) -> IpPrefix {
        self.prefixes[number]
    }

    /// The number of a prefix, `None` for a prefix outside the run.
    #[inline]
    pub fn number(&self, prefix: IpPrefix) -> Option<usize> {
        self.find(prefix).ok()
    }

    /// The number of a prefix that is probably `guess`: routers mostly announce prefixes in the order of their
    /// arrival.
    #[inline]
    pub fn number_near(&self, prefix: IpPrefix, guess: usize) -> Option<usize> {
        if self.prefixes.get(guess) == Some(&prefix) { Some(guess) } else { self.number(prefix) }
    }

    /// Adds a prefix to the run; returns the prefix's number.
    ///
    /// # Panics
    /// If there are 2^26 prefixes already: 67 million, more than memory is likely to have room for.
    pub fn add(&mut self, prefix: IpPrefix) -> usize {
        let free = match self.find(prefix) {
            Ok(number) => return number,
            Err(free) => free,
        };
        let number = self.prefixes.len();
        assert!(number + 1 < 1 << NUMBER_BITS, "too many prefixes");
        self.prefixes.push(prefix);
        self.put(free, prefix, number);
        let is_v4 = matches!(prefix, IpPrefix::V4(_));
        self.v4_taken += usize::from(is_v4);
        if is_v4 && self.v4_taken * 2 > self.v4.len() {
            let places = self.v4.len() * 2;
            self.v4 = vec![0; places];
            self.fill(true);
        } else if !is_v4 && (self.prefixes.len() - self.v4_taken) * 2 > self.v6.len() {
            let places = self.v6.len() * 2;
            self.v6 = vec![(0, 0); places];
            self.fill(false);
        }
        number
    }

    /// Moves a whole family into new places.
    fn fill(&mut self, v4: bool) {
        for number in 0..self.prefixes.len() {
            let prefix = self.prefixes[number];
            if matches!(prefix, IpPrefix::V4(_)) == v4
                && let Err(free) = self.find(prefix)
            {
                self.put(free, prefix, number);
            }
        }
    }

    fn put(&mut self, at: usize, prefix: IpPrefix, number: usize) {
        let stored = number as u64 + 1;
        match prefix {
            IpPrefix::V4(p) => {
                let (bits, len) = p.to_parts();
                self.v4[at] = key_v4(bits, len) << NUMBER_BITS | stored;
            }
            IpPrefix::V6(p) => {
                let (bits, len) = p.to_parts();
                self.v6[at] = (bits, u64::from(len) << NUMBER_BITS | stored);
            }
        }
    }

    /// The number, or a free place for the number. A free place always exists.
    #[inline]
    fn find(&self, prefix: IpPrefix) -> Result<usize, usize> {
        const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
        match prefix {
            IpPrefix::V4(p) => {
                let (bits, len) = p.to_parts();
                let key = key_v4(bits, len);
                let mut at = place(key, self.v4.len());
                loop {
                    match self.v4[at] {
                        0 => return Err(at),
                        entry if entry >> NUMBER_BITS == key => return Ok((entry & NUMBER) as usize - 1),
                        _ => at = (at + 1) & (self.v4.len() - 1),
                    }
                }
            }
            IpPrefix::V6(p) => {
                let (bits, len) = p.to_parts();
                let mut at = place(fold(bits, len), self.v6.len());
                loop {
                    match self.v6[at] {
                        (_, 0) => return Err(at),
                        (b, entry) if b == bits && entry >> NUMBER_BITS == u64::from(len) => {
                            return Ok((entry & NUMBER) as usize - 1);
                        }
                        _ => at = (at + 1) & (self.v6.len() - 1),
                    }
                }
            }
        }
    }
}

/// A set of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// An empty set of numbers below `len`.
    pub fn none(len: usize) -> Self {
        Bits { words: vec![0; len.div_ceil(64)] }
    }

    /// Returns true if the set has a number.
    #[inline]
    pub fn has(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Adds or removes a number; returns true if the set had the number before.
    #[inline]
    pub fn set(&mut self, number: usize, to: bool) -> bool {
        let (word, bit) = (&mut self.words[number / 64], 1 << (number % 64));
        let before = *word & bit != 0;
        *word = if to { *word | bit } else { *word & !bit };
        before
    }

    /// Returns the set in which each number below `len` stands for `times` numbers in sequence.
    pub fn repeated(&self, len: usize, times: usize) -> Bits {
        let mut all = Bits::none(len * times);
        for number in (0..len).filter(|number| self.has(*number)) {
            (0..times).for_each(|n| _ = all.set(number * times + n, true));
        }
        all
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The numbers of the set without those of `other`, in order.
    pub fn without<'a>(&'a self, other: &'a Bits) -> impl Iterator<Item = usize> + 'a {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & !b).enumerate();
        words.filter(|(_, w)| *w != 0).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_base::{Ipv4Prefix, Ipv6Prefix};
    use std::collections::BTreeMap;

    fn prefix() -> impl Strategy<Value = IpPrefix> {
        prop_oneof![
            (any::<u32>(), 0u8..=32).prop_map(|(b, l)| Ipv4Prefix::from_parts(b, l).unwrap().into()),
            (any::<u128>(), 0u8..=128).prop_map(|(b, l)| Ipv6Prefix::from_parts(b, l).unwrap().into()),
        ]
    }

    proptest! {
        #[test]
        fn each_prefix_has_a_number_of_its_own(prefixes in prop::collection::vec(prefix(), 1..400), other in prefix()) {
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for p in &prefixes {
                let next = model.len();
                prop_assert_eq!(index.add(*p), *model.entry(*p).or_insert(next));
            }
            prop_assert_eq!(index.len(), model.len());
            for (p, n) in &model {
                prop_assert_eq!((index.number(*p), index.prefix(*n)), (Some(*n), *p));
            }
            prop_assert_eq!(index.number(other), model.get(&other).copied());
            for guess in 0..prefixes.len() + 1 {
                prop_assert_eq!(index.number_near(other, guess), model.get(&other).copied());
                prop_assert_eq!(index.number_near(index.prefix(0), guess), Some(0));
            }
        }
    }

    #[test]
    fn bits() {
        let (mut a, mut b) = (Bits::none(130), Bits::none(130));
        for n in [0, 63, 64, 129] {
            assert!(!a.set(n, true) && a.set(n, true) && a.has(n));
        }
        b.set(63, true);
        assert_eq!(a.without(&b).collect::<Vec<_>>(), [0, 64, 129]);
        assert!(a.set(0, false));
        assert_eq!(a.count(), 3);
    }
}
