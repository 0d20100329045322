//! The Adj-RIB-Out of a branch (RFC 4271, section 3.2): the source of each entry's advertised route. Branches share pages until one of
//! them writes, so that a group that splits pays only for the differences between its halves.

use super::branch::Source;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Entries of a page.
const PAGE: usize = 512;

/// The source of the advertised route, by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct AdjRibOut {
    pages: Vec<Arc<[Source; PAGE]>>,
}

impl AdjRibOut {
    /// Returns the source of an entry's advertised route.
    #[inline]
    pub fn get(&self, entry: u32) -> Source {
        self.pages.get(entry as usize / PAGE).map_or(Source::NONE, |page| page[entry as usize % PAGE])
    }

    /// Makes room for all entries before `end`.
    pub fn reach(&mut self, end: u32) {
        let pages = (end as usize).div_ceil(PAGE);
        if self.pages.len() < pages {
            self.pages.resize_with(pages, || Arc::new([Source::NONE; PAGE]));
        }
    }

    /// Notes the advertised source of an entry in reach, and returns the source before.
    #[inline]
    pub fn replace(&mut self, entry: u32, source: Source) -> Source {
        let page = &mut self.pages[entry as usize / PAGE];
        let before = page[entry as usize % PAGE];
        if before != source {
            Arc::make_mut(page)[entry as usize % PAGE] = source;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::super::PeerIndex;
    use super::*;

    #[test]
    fn copies_go_their_own_ways() {
        let [a, b] = [1, 2].map(|peer| Source::of(PeerIndex(peer)));
        let mut table = AdjRibOut::default();
        table.reach(5000);
        assert_eq!((table.replace(7, a), table.replace(4999, a)), (Source::NONE, Source::NONE));
        let mut copy = table.clone();
        assert_eq!(copy.replace(7, b), a);
        assert_eq!([table.get(7), copy.get(7), copy.get(4999), copy.get(100_000)], [a, b, a, Source::NONE]);
        assert!(
            Arc::ptr_eq(&table.pages[9], &copy.pages[9]) && !Arc::ptr_eq(&table.pages[0], &copy.pages[0])
        );
    }
}
