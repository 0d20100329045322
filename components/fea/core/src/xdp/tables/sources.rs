//! Addresses of the host itself: the kernel drops received IPv4 packets with such a source, so that it gets them.
//!
//! The program asks a filter of one bit for each hash of an address. Another address with the same hash goes to the kernel too,
//! which forwards its packets.

use super::layout::Area;
use super::words::Words;
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv4Addr;
use sluice_base::{Ipv4Prefix, Prefix};

/// The most addresses of a prefix whose bits are set one by one. All packets go to the kernel while it has a larger local prefix.
const MOST_ADDRESSES: u64 = 1024;

/// The local prefixes, and how many of their addresses share each bit.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    prefixes: BTreeSet<Ipv4Prefix>,
    bits: BTreeMap<u16, u32>,
    /// The number of prefixes with more than [`MOST_ADDRESSES`].
    wide: usize,
}

/// Returns the bit of an address: the top bits of its product with the golden ratio.
pub(super) fn bit(address: Ipv4Addr) -> u16 {
    (address.to_bits().wrapping_mul(0x9e37_79b1) >> 16) as u16
}

fn addresses(prefix: Ipv4Prefix) -> u64 {
    1 << (32 - prefix.len())
}

impl Sources {
    /// Notes that the addresses of a prefix are the host's own, or are not any more.
    pub(super) fn set(&mut self, words: &mut impl Words, prefix: Ipv4Prefix, is_own: bool) {
        let changed = if is_own { self.prefixes.insert(prefix) } else { self.prefixes.remove(&prefix) };
        // The program never forwards packets of loopback addresses.
        if !changed || prefix.addr().0.is_loopback() {
            return;
        }
        if addresses(prefix) > MOST_ADDRESSES {
            self.wide = self.wide + usize::from(is_own) - usize::from(!is_own);
            (0..Area::Sources.words()).for_each(|word| self.store(words, word));
            return;
        }
        for offset in 0..addresses(prefix) as u32 {
            let bit = bit(Ipv4Addr::from_bits(prefix.addr().0.to_bits().wrapping_add(offset)));
            let count = self.bits.entry(bit).or_default();
            *count = *count + u32::from(is_own) - u32::from(!is_own);
            if *count == 0 {
                self.bits.remove(&bit);
            }
            self.store(words, usize::from(bit / 64));
        }
    }

    fn store(&self, words: &mut impl Words, word: usize) {
        let expected = self.expected(word);
        if words.load(Area::Sources, word) != expected {
            words.store(Area::Sources, word, expected);
        }
    }

    /// Returns the expected word of a number.
    pub(super) fn expected(&self, word: usize) -> u64 {
        if self.wide > 0 {
            return u64::MAX;
        }
        let first = (word * 64) as u16;
        let set = self.bits.range(first..=first | 63).map(|(bit, _)| 1 << (bit - first));
        set.fold(0, |word: u64, bit: u64| word | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Memory;
    use super::*;

    fn has(memory: &Memory, address: &str) -> bool {
        let bit = bit(address.parse().unwrap());
        memory.load(Area::Sources, usize::from(bit / 64)) >> (bit % 64) & 1 == 1
    }

    #[test]
    fn own_addresses_have_their_bits() {
        let (mut sources, mut memory) = (Sources::default(), Memory::default());
        let prefix = |text: &str| text.parse::<Ipv4Prefix>().unwrap();
        sources.set(&mut memory, prefix("10.0.0.1/32"), true);
        sources.set(&mut memory, prefix("192.0.2.0/24"), true);
        sources.set(&mut memory, prefix("192.0.2.7/32"), true);
        sources.set(&mut memory, prefix("127.0.0.0/8"), true);
        assert!(has(&memory, "10.0.0.1") && has(&memory, "192.0.2.200") && !has(&memory, "10.0.0.2"));
        sources.set(&mut memory, prefix("10.0.0.1/32"), false);
        sources.set(&mut memory, prefix("192.0.2.0/24"), false);
        assert!(!has(&memory, "10.0.0.1") && !has(&memory, "192.0.2.200"));
        assert!(has(&memory, "192.0.2.7"), "another prefix has the address too");
        // A large local prefix leaves all packets to the kernel.
        sources.set(&mut memory, prefix("10.0.0.0/8"), true);
        assert!(has(&memory, "203.0.113.9"));
        sources.set(&mut memory, prefix("10.0.0.0/8"), false);
        assert!(!has(&memory, "203.0.113.9") && has(&memory, "192.0.2.7"));
    }
}
