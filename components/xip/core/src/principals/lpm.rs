//! Strings of 160 bits that are routed by their longest prefix.
//!
//! The table is a hash table by prefix: a look-up tries each number of bits that some prefix has, the longest first. Tables of the
//! Internet have at most 25 of them for IPv4.

use super::entries::{Entries, ID_BITS};
use super::table::{PLACE, Rules};
use super::{Consult, Principal};
use crate::anchor::{Anchor, Deps, Touch, Touched};
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Prefix, Xid, XidPrefix, XidType};

/// Local prefixes are dug through; the rest are redirected to a gateway of any other type.
const RULES: Rules = Rules { local: PLACE, takes_redirects: true, takes_neighbors: false };

/// Longest prefix match over IDs.
pub struct LpmPrincipal {
    kind: XidType,
    entries: Entries,
    /// The numbers of bits that prefixes have, with the number of prefixes, the longest first.
    lengths: Vec<(u8, u32)>,
}

/// Returns the ID with the first `bits` bits kept and the rest zero.
fn truncate(id: &[u8; 20], bits: u8) -> [u8; 20] {
    let mut kept = [0; 20];
    let whole = usize::from(bits / 8).min(20);
    kept[..whole].copy_from_slice(&id[..whole]);
    if let (Some(kept), Some(octet)) = (kept.get_mut(whole), id.get(whole)) {
        *kept = octet & !(0xff_u8 >> (bits % 8));
    }
    kept
}

impl LpmPrincipal {
    /// Makes a principal with an empty table; a secret `seed` keeps the table's hashes from being guessed.
    pub fn new(kind: XidType, seed: u64) -> Self {
        LpmPrincipal { kind, entries: Entries::new(seed), lengths: Vec::new() }
    }

    /// Returns the longest prefix of at most `most` bits that holds an ID: its number of bits, and its route.
    fn longest(&self, id: &[u8; 20], most: u8) -> Option<(u8, Route)> {
        let shorter = self.lengths.iter().map(|(bits, _)| *bits).skip_while(|bits| *bits > most);
        shorter.into_iter().find_map(|bits| Some((bits, self.entries.get(&truncate(id, bits), bits)?)))
    }

    fn count(&mut self, bits: u8, is_added: bool) {
        match (self.lengths.binary_search_by(|(known, _)| bits.cmp(known)), is_added) {
            (Ok(place), true) => self.lengths[place].1 += 1,
            (Ok(place), false) => {
                self.lengths[place].1 -= 1;
                if self.lengths[place].1 == 0 {
                    self.lengths.remove(place);
                }
            }
            (Err(place), true) => self.lengths.insert(place, (bits, 1)),
            (Err(_), false) => {}
        }
    }
}

impl Principal for LpmPrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult {
        let longest = self.longest(&xid.id, ID_BITS);
        deps.push(Anchor::Longest { xid, matched: longest.map(|(bits, _)| bits) });
        RULES.consult(longest.map(|(_, route)| route))
    }

    fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        if prefix.kind() != Some(self.kind) {
            return Err(ChangeError::WrongType);
        }
        RULES.check(self.kind, route)?;
        let (id, bits) = (prefix.addr().id, prefix.id_bits());
        let before = self.entries.set(&id, bits, route);
        if before.is_some() != route.is_some() {
            self.count(bits, route.is_some());
        }
        let matched = if before.is_some() {
            Some(bits)
        } else {
            bits.checked_sub(1).and_then(|shorter| self.longest(&id, shorter)).map(|(bits, _)| bits)
        };
        Ok((before != route).then_some(Touch::Longest { matched, within: prefix }).into_iter().collect())
    }

    fn view(&self, after: Option<XidPrefix>, most: usize) -> Vec<Entry> {
        self.entries.page(self.kind, after, most)
    }

    fn entry_count(&self) -> usize {
        self.entries.len()
    }
}
