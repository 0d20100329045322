//! Frequencies of rows in little memory: a count-min sketch that forgets by halving (TinyLFU, ACM TOS 2017).

use alloc::vec;
use alloc::vec::Vec;

/// Counters of 4 bits a row; 16 counters to a word.
const COUNTERS: usize = 16;
const MOST: u64 = 15;
/// Increments until all counters are halved, for each word. Few, so that rows of a flood seldom share all counters with others.
const WINDOW: usize = 2;

/// Estimates how often rows were asked for lately. The estimate is never too low by more than halving, and too high only for rows that
/// share all of their counters.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    words: Vec<u64>,
    /// Increments until all counters are halved.
    left: usize,
}

impl Sketch {
    /// Makes a sketch for about `rows` rows.
    pub(super) fn new(rows: usize) -> Self {
        let words = rows.max(COUNTERS).next_power_of_two();
        Sketch { words: vec![0; words], left: words * WINDOW }
    }

    /// Returns the four counters of a row, by its hash: word and shift.
    fn places(&self, hash: u64) -> [(usize, u32); 4] {
        let mask = self.words.len() - 1;
        [0_u32, 1, 2, 3].map(|way| {
            let mixed = hash.rotate_left(way * 16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed >> 32) as usize & mask, (mixed as u32 >> 28) % COUNTERS as u32 * 4)
        })
    }

    /// Counts a row once more.
    pub(super) fn increment(&mut self, hash: u64) {
        let least = self.estimate(hash);
        for (word, shift) in self.places(hash) {
            // Only the lowest counters rise: rows that share a counter then disturb each other less.
            if let Some(word) = self.words.get_mut(word)
                && (*word >> shift) & MOST == least
                && least < MOST
            {
                *word += 1 << shift;
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.words.len() * WINDOW;
            // The highest bit of each counter is cleared, so that no bit moves into the counter beside.
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & 0x7777_7777_7777_7777);
        }
    }

    /// Returns the estimate of a row, 0 to 15.
    pub(super) fn estimate(&self, hash: u64) -> u64 {
        let counters =
            self.places(hash).map(|(word, shift)| self.words.get(word).map_or(0, |w| (w >> shift) & MOST));
        counters.into_iter().min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_rows_are_kept_before_rare_ones() {
        let mut sketch = Sketch::new(1024);
        let hash = |number: u64| number.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ number << 40;
        for rare in 0..2_000 {
            sketch.increment(hash(rare));
            sketch.increment(hash(1_000_000 + rare % 20));
        }
        let frequent = (0..20).filter(|n| sketch.estimate(hash(1_000_000 + n)) >= 10).count();
        let rare = (0..2_000).filter(|n| sketch.estimate(hash(*n)) >= 10).count();
        assert_eq!(frequent, 20);
        assert!(rare < 100, "{rare} rows of 2,000 look frequent");
    }

    #[test]
    fn old_frequencies_are_forgotten() {
        let mut sketch = Sketch::new(16);
        (0..12).for_each(|_| sketch.increment(7));
        assert_eq!(sketch.estimate(7), 12);
        (0..160_u64).for_each(|n| sketch.increment(n.wrapping_mul(0xff51_afd7_ed55_8ccd)));
        assert!(sketch.estimate(7) <= 12 && sketch.words.len() == 16);
    }
}
