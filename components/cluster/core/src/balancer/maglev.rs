//! Maglev's table (Eisenbud et al., NSDI 2016, section 3.4): from rows to elements, so that an element that joins or leaves moves
//! about its own share of the rows.

use crate::balancer::flow::mix;
use crate::inventory::ElementId;
use alloc::vec;
use alloc::vec::Vec;

/// The rows of a table: a prime number, so that each step visits all rows. The largest one below 2^14; 32 KiB of elements fit
/// the processor's first cache, and 160 elements have shares within 1 %.
pub const ROWS: u32 = 16381;

/// An element's preference list: the rows `offset`, `offset + skip`, ... modulo [`ROWS`].
struct Candidate {
    element: ElementId,
    weight: u32,
    next: u32,
    skip: u32,
    /// Turns are taken while the credit is at least the largest weight.
    credit: u32,
}

/// Returns the elements of all rows; rows are empty (0) if no element has a weight.
///
/// Elements with weight 0 are left out. Shares are in proportion to the weights. The order of `members` does not matter, as long
/// as no element occurs twice.
pub fn table(members: &[(ElementId, u16)], seed: u64) -> Vec<u16> {
    let mut rows = vec![0; ROWS as usize];
    let mut candidates: Vec<Candidate> = members
        .iter()
        .filter(|(_, weight)| *weight > 0)
        .map(|(element, weight)| {
            let hash = mix(mix(seed, element.number().into()), 0);
            let next = (hash >> 32) as u32 % ROWS;
            let skip = hash as u32 % (ROWS - 1) + 1;
            Candidate { element: *element, weight: (*weight).into(), next, skip, credit: 0 }
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.element);
    let Some(largest) = candidates.iter().map(|candidate| candidate.weight).max() else { return rows };
    let mut free = ROWS;
    loop {
        for candidate in &mut candidates {
            candidate.credit += candidate.weight;
            if candidate.credit < largest {
                continue;
            }
            candidate.credit -= largest;
            // A prime number of rows: the walk meets a free row before it comes back.
            while let Some(row) = rows.get_mut(candidate.next as usize) {
                candidate.next = (candidate.next + candidate.skip) % ROWS;
                if *row == 0 {
                    *row = candidate.element.number();
                    break;
                }
            }
            free -= 1;
            if free == 0 {
                return rows;
            }
        }
    }
}

/// Returns the row of a flow hash.
pub fn row(hash: u32) -> u32 {
    ((u64::from(hash) * u64::from(ROWS)) >> 32) as u32
}
