//! The two hashes of a row: one chooses the line of the cache, the other is the tag.
//!
//! Both are NH (UMAC, RFC 4418, section 5.2) with keys of which one is the other shifted by four words. For any two
//! different rows, each hash is equal with a probability of at most 2^-32 over the key, and both together with at most
//! 2^-64 (`docs/xia/forwarding.md` has the bound for a whole cache).

use crate::Row;
use sluice_base::Xid;

/// Words of the key: two for each pair of words of a row, and four by which the second hash is shifted.
pub const KEY_WORDS: usize = 30;

/// 32-bit words of an XID.
const WORDS: usize = Xid::LEN / 4;
/// The place of the key's words for the row's shape.
const SHAPE: usize = WORDS * Row::MOST_EDGES;

/// The key of both hashes. Whoever knows the key can make rows that collide.
#[derive(Clone, PartialEq, Eq)]
pub struct HashKey {
    /// The words that shift the message.
    pub words: [u32; KEY_WORDS],
    /// The multiplier, an odd number, that spreads the line's hash over its high bits.
    pub multiplier: u64,
}

/// The hashes of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hashes {
    /// The hash whose high bits are the line.
    pub line: u64,
    /// The tag, without its lowest bit. A row whose tag is 0 cannot be cached.
    pub tag: u64,
}

impl HashKey {
    /// Makes a key of random words.
    pub fn draw(mut random: impl FnMut() -> u64) -> Self {
        HashKey { words: core::array::from_fn(|_| random() as u32), multiplier: random() | 1 }
    }

    /// Returns the hashes of a row. Octets are read as words in this machine's order, as the program does.
    pub fn hashes(&self, row: &Row) -> Hashes {
        let (mut tag, mut line, mut shape) = (0_u64, 0_u64, 0_u32);
        let mut mix = |at: usize, a: u32, b: u32| {
            let pair = |shift: usize| self.words.get(at + shift..at + shift + 2);
            if let (Some(&[k, l]), Some(&[m, n])) = (pair(0), pair(4)) {
                tag = tag.wrapping_add(u64::from(a.wrapping_add(k)) * u64::from(b.wrapping_add(l)));
                line = line.wrapping_add(u64::from(a.wrapping_add(m)) * u64::from(b.wrapping_add(n)));
            }
        };
        for (place, edge) in row.edges.iter().enumerate() {
            let octets = edge.xid.octets();
            let (pairs, _) = octets.as_chunks::<8>();
            for (pair, [a, b, c, d, e, f, g, h]) in pairs.iter().enumerate() {
                let first = u32::from_ne_bytes([*a, *b, *c, *d]);
                mix(WORDS * place + 2 * pair, first, u32::from_ne_bytes([*e, *f, *g, *h]));
            }
            shape |= (2 | u32::from(edge.is_sink)) << (2 * place);
        }
        mix(SHAPE, shape, 0);
        Hashes { line: line.wrapping_mul(self.multiplier), tag: tag & !super::TAG_USED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Edge;
    use sluice_base::{Rng, XidType};
    use std::collections::HashSet;

    fn row(last: u8, is_sink: bool) -> Row {
        let xid = |octet| Xid { kind: XidType::AD, id: [octet; 20] };
        let edges = [Edge { xid: xid(1), is_sink: false }, Edge { xid: xid(last), is_sink }];
        Row { edges: edges.into_iter().collect(), is_input: true }
    }

    #[test]
    fn rows_that_differ_in_an_octet_the_order_or_a_sink_have_other_hashes() {
        let mut rng = Rng::from_seed(1);
        let key = HashKey::draw(|| rng.next_u64());
        let mut rows: std::vec::Vec<Row> =
            (0..=255).flat_map(|last| [row(last, false), row(last, true)]).collect();
        rows.push(Row { edges: row(9, true).edges.into_iter().rev().collect(), is_input: true });
        rows.push(Row { edges: row(9, true).edges.into_iter().take(1).collect(), is_input: true });
        let tags: HashSet<u64> = rows.iter().map(|row| key.hashes(row).tag).collect();
        let lines: HashSet<u64> = rows.iter().map(|row| key.hashes(row).line).collect();
        assert_eq!((tags.len(), lines.len()), (rows.len(), rows.len()));
    }

    #[test]
    fn another_key_gives_other_hashes() {
        let (mut one, mut other) = (Rng::from_seed(1), Rng::from_seed(2));
        let (one, other) = (HashKey::draw(|| one.next_u64()), HashKey::draw(|| other.next_u64()));
        assert_ne!(one.hashes(&row(2, true)), other.hashes(&row(2, true)));
    }
}
