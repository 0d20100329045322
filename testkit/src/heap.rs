//! How much of the heap a thread has in use: the system's allocator with a counter.
//!
//! A test program or benchmark installs the allocator:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: sluice_testkit::heap::Counting = sluice_testkit::heap::Counting;
//! let base = sluice_testkit::heap::start();
//! let octets = vec![0u8; 1000];
//! assert_eq!(sluice_testkit::heap::since(base).held, 1000);
//! # drop(octets);
//! ```
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Octets allocated minus octets freed by the current thread, and the peak since [`start`].
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The allocator. Counts the requested octets, without the system's overhead.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

fn count(change: isize) {
    HELD.set(HELD.get().wrapping_add(change));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call goes to the system's allocator unchanged. The counters have no destructor and need no initialization, so
// they neither allocate nor are ever gone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `block` came from one of the others, that is from the system, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves, both blocks are there.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: as for `dealloc`; `size` is the caller's to keep right.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// A thread's use of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Octets still allocated.
    pub held: usize,
    /// The peak.
    pub peak: usize,
}

/// Returns the octets that the current thread holds now, for [`since`]; the peak is counted anew.
pub fn start() -> isize {
    PEAK.set(HELD.get());
    HELD.get()
}

/// Returns the current thread's use since `start` returned `base`; zeros if [`Counting`] is not the program's
/// allocator.
pub fn since(base: isize) -> Usage {
    let above = |octets: isize| usize::try_from(octets.wrapping_sub(base)).unwrap_or(0);
    Usage { held: above(HELD.get()), peak: above(PEAK.get()) }
}
