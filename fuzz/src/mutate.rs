//! Small damage, as from a broken or hostile peer.

use sluice_base::Rng;

/// Makes mutations of inputs; the same seed makes the same.
#[derive(Clone, Debug)]
pub struct Mutator {
    rng: Rng,
}

impl Mutator {
    /// A mutator with the same mutations for the same `seed`.
    pub fn new(seed: u64) -> Self {
        Mutator { rng: Rng::from_seed(seed) }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// A damaged copy of a random input, with damage in one to four places.
    pub fn mutate(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        if inputs.is_empty() {
            return Vec::new();
        }
        let pick = self.below(inputs.len());
        let mut octets = inputs[pick].clone();
        for _ in 0..=self.below(4) {
            self.damage(&mut octets, inputs);
        }
        octets.truncate(1 << 16);
        octets
    }

    fn damage(&mut self, octets: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        if octets.is_empty() {
            octets.push(self.rng.next_u64() as u8);
            return;
        }
        let at = self.below(octets.len());
        match self.below(7) {
            0 => octets[at] ^= 1 << self.below(8),
            1 => octets[at] = self.rng.next_u64() as u8,
            2 => octets[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
            3 => octets.truncate(at),
            4 => octets.insert(at, self.rng.next_u64() as u8),
            5 => {
                let end = (at + 1 + self.below(16)).min(octets.len());
                octets.drain(at..end);
            }
            _ => {
                let other = self.below(inputs.len());
                let other = &inputs[other];
                let from = self.below(other.len() + 1);
                let to = (from + self.below(64)).min(other.len());
                let piece = other[from..to].to_vec();
                octets.splice(at..at, piece);
            }
        }
    }
}
