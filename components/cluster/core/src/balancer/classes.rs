//! The words of a class: its members and its table.

use crate::balancer::maglev::{self, ROWS};
use crate::balancer::policy::Mode;
use crate::balancer::words::{BLOCK, CLASS_BLOCKS, MEMBERS, Map, Mirror, Place, Store, Words};
use crate::inventory::ElementId;
use alloc::vec::Vec;
use sluice_machine::Outbox;

/// The numbers of modes in the program (`enum balance_mode`).
pub const OFF: u32 = 0;
/// The members in turn.
pub(crate) const ROUND_ROBIN: u32 = 1;
/// By the flow hash.
pub(crate) const FLOW: u32 = 2;

/// Elements of 16 bits in a word.
const PER_WORD: usize = 4;

/// Writes a class. Members beyond the [`MEMBERS`]th are left out. A class that is `None` is off.
///
/// The table is written before the members. Each word changes by itself, so that a row leads to its element from before or
/// from after the change.
pub fn write<O: From<Store>>(
    mirror: &mut Mirror,
    class: u32,
    policy: Option<(Mode, &[(ElementId, u16)])>,
    seed: u64,
    out: &mut Outbox<O>,
) {
    let (mode, members) = policy.unwrap_or((Mode::RoundRobin, &[]));
    let members = members.get(..MEMBERS).unwrap_or(members);
    let rows = match mode {
        Mode::RoundRobin => Vec::new(),
        Mode::Flow => {
            let alike: Vec<_> = members.iter().map(|(element, _)| (*element, 1)).collect();
            maglev::table(&alike, seed)
        }
        Mode::Weighted => maglev::table(members, seed),
    };
    for number in 0..CLASS_BLOCKS * BLOCK / PER_WORD {
        let value = packed(rows.iter().copied().skip(number * PER_WORD));
        let (block, word) = (number * PER_WORD / BLOCK, number % (BLOCK / PER_WORD));
        let entry = class * CLASS_BLOCKS as u32 + block as u32;
        mirror.set(Place::new(Map::Blocks, entry, word as u16), value, out);
    }
    // Without a weight, an element is not a last resort either.
    let chosen: Vec<u16> = members
        .iter()
        .filter(|(_, weight)| mode != Mode::Weighted || *weight > 0)
        .map(|(element, _)| element.number())
        .collect();
    for number in 0..MEMBERS / PER_WORD {
        let value = packed(chosen.iter().copied().skip(number * PER_WORD));
        mirror.set(Place::new(Map::Classes, class, 1 + number as u16), value, out);
    }
    let number = match (policy, mode) {
        (None, _) => OFF,
        (_, Mode::RoundRobin) => ROUND_ROBIN,
        _ => FLOW,
    };
    let word = u64::from(number) | (chosen.len() as u64) << 32;
    mirror.set(Place::new(Map::Classes, class, 0), word, out);
}

/// Returns an element's rows in the table of a class, and all rows. In the mode round robin, all are 0.
pub fn share(mirror: &Mirror, class: u32, element: ElementId) -> (u32, u32) {
    let (mut own, mut all) = (0, 0);
    for number in 0..CLASS_BLOCKS * BLOCK / PER_WORD {
        let (block, word) = (number * PER_WORD / BLOCK, number % (BLOCK / PER_WORD));
        let entry = class * CLASS_BLOCKS as u32 + block as u32;
        let value = mirror.load(Place::new(Map::Blocks, entry, word as u16));
        for row in (0..PER_WORD).map(|at| (value >> (16 * at)) as u16).filter(|row| *row != 0) {
            all += 1;
            own += u32::from(row == element.number());
        }
    }
    (own, all)
}

/// Packs the next elements into a word.
fn packed(elements: impl Iterator<Item = u16>) -> u64 {
    elements.take(PER_WORD).enumerate().fold(0, |word, (at, element)| word | u64::from(element) << (16 * at))
}

const _: () = assert!(ROWS as usize <= CLASS_BLOCKS * BLOCK);
