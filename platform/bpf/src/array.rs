//! An array map in this process's memory: programs see each store without a system call.

use crate::{BpfError, ffi};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// An array map with the flag `BPF_F_MMAPABLE`. Loads and stores of aligned words of 32 and 64 bits are atomic; a value of
/// several words is not.
#[derive(Debug)]
pub struct MappedArray {
    mapping: ffi::Mapping,
    entries: usize,
    octets: usize,
}

impl MappedArray {
    /// Maps all entries of an array.
    ///
    /// # Errors
    ///
    /// If the map is no array, cannot be mapped, or the kernel refuses.
    pub fn new(map: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let info = ffi::map_info(map).map_err(BpfError::call("describing a map"))?;
        if info.map_type != ffi::MAP_TYPE_ARRAY || info.map_flags & ffi::F_MMAPABLE == 0 {
            return Err(BpfError::Shape {
                map: format!("number {}", info.id),
                found: format!("type {} and flags {:#x}", info.map_type, info.map_flags),
                expected: "an array with the flag BPF_F_MMAPABLE".into(),
            });
        }
        // The kernel lays values out at multiples of 8 octets.
        let octets = (info.value_size as usize).next_multiple_of(8);
        let entries = info.max_entries as usize;
        let mapping = ffi::Mapping::new(map, octets * entries).map_err(BpfError::call("mapping an array"))?;
        Ok(MappedArray { mapping, entries, octets })
    }

    /// Maps an array whose shape is known: for a process that may not make the BPF system call, and so cannot ask for the shape.
    /// `octets` is the size of a value.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, as it does for an array with fewer octets.
    pub fn with_shape(map: BorrowedFd<'_>, entries: usize, octets: usize) -> Result<Self, BpfError> {
        let octets = octets.next_multiple_of(8);
        let mapping = ffi::Mapping::new(map, octets * entries).map_err(BpfError::call("mapping an array"))?;
        Ok(MappedArray { mapping, entries, octets })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns true for an array without entries; the kernel makes none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Loads the 64-bit word number `word` of an entry; `None` beyond the end.
    pub fn load64(&self, entry: usize, word: usize) -> Option<u64> {
        let index = self.index(entry, word, 8)?;
        Some(self.mapping.words64().get(index)?.load(Ordering::Acquire))
    }

    /// Loads the 32-bit word number `word` of an entry; `None` beyond the end.
    pub fn load32(&self, entry: usize, word: usize) -> Option<u32> {
        let index = self.index(entry, word, 4)?;
        Some(self.mapping.words32().get(index)?.load(Ordering::Acquire))
    }

    /// Stores the 64-bit word number `word` of an entry. Returns false, and stores nothing, beyond the end.
    pub fn store64(&self, entry: usize, word: usize, value: u64) -> bool {
        let place = self.index(entry, word, 8).and_then(|index| self.mapping.words64().get(index));
        place.map(|place| place.store(value, Ordering::Release)).is_some()
    }

    /// Stores the 32-bit word number `word` of an entry. Returns false, and stores nothing, beyond the end.
    pub fn store32(&self, entry: usize, word: usize, value: u32) -> bool {
        let place = self.index(entry, word, 4).and_then(|index| self.mapping.words32().get(index));
        place.map(|place| place.store(value, Ordering::Release)).is_some()
    }

    /// Returns the number of 64-bit words of the whole array.
    pub fn words(&self) -> usize {
        self.mapping.words64().len()
    }

    /// Loads the 64-bit word number `word` of the whole array; `None` beyond the end.
    pub fn load_word(&self, word: usize) -> Option<u64> {
        Some(self.mapping.words64().get(word)?.load(Ordering::Acquire))
    }

    /// Stores the 64-bit word number `word` of the whole array. Returns false, and stores nothing, beyond the end.
    pub fn store_word(&self, word: usize, value: u64) -> bool {
        self.mapping.words64().get(word).map(|place| place.store(value, Ordering::Release)).is_some()
    }

    fn index(&self, entry: usize, word: usize, octets: usize) -> Option<usize> {
        let per_entry = self.octets / octets;
        (entry < self.entries && word < per_entry).then(|| entry * per_entry + word)
    }
}
