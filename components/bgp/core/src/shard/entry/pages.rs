//! A value for each entry, in pages: the Adj-RIB-Out of a branch (RFC 4271, section 3.2). Branches share a page until a branch
//! writes to the page, so splitting a group costs only the differences between the halves.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// Entries of a page.
const PAGE: usize = 512;

/// Values by entry; the default for entries out of reach.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T> {
    pages: Vec<Arc<[T; PAGE]>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Pages { pages: Vec::new() }
    }
}

impl<T: Copy + PartialEq + Default> Pages<T> {
    /// Returns the value of an entry.
    #[inline]
    pub fn get(&self, entry: u32) -> T {
        self.pages.get(entry as usize / PAGE).map_or_else(T::default, |page| page[entry as usize % PAGE])
    }

    /// Makes room for all entries before `end`.
    pub fn reach(&mut self, end: u32) {
        let pages = (end as usize).div_ceil(PAGE);
        if self.pages.len() < pages {
            self.pages.resize_with(pages, || Arc::new([T::default(); PAGE]));
        }
    }

    /// Sets the value of an entry in reach, and returns the value before.
    #[inline]
    pub fn replace(&mut self, entry: u32, value: T) -> T {
        let page = &mut self.pages[entry as usize / PAGE];
        let before = page[entry as usize % PAGE];
        if before != value {
            Arc::make_mut(page)[entry as usize % PAGE] = value;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::adj_rib_out::Source;
    use crate::shard::entry::path::PeerIndex;

    #[test]
    fn copies_go_their_own_ways() {
        let [a, b] = [1, 2].map(|peer| Source::of(PeerIndex(peer)));
        let mut table = Pages::default();
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
