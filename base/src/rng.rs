//! Seeded randomness: the same seed gives the same numbers on every machine.

use serde::{Deserialize, Serialize};

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast and good enough for jitter and for simulations.
///
/// Never for secrets: keys and tokens come from the operating system, in a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that repeats its sequence for the same `seed`.
    pub const fn from_seed(seed: u64) -> Self {
        Rng { state: seed }
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias of the multiply-shift is below 2^-32 for bounds under 2^32.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_stays_below() {
        let (mut a, mut b) = (Rng::from_seed(7), Rng::from_seed(7));
        for bound in [1, 2, 3, 1000, u64::MAX] {
            let n = a.below(bound);
            assert!(n < bound);
            assert_eq!(n, b.below(bound));
        }
        assert_eq!(a.below(0), 0);
    }
}
