//! How much of the heap is in use: the system's allocator with a counter.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Octets asked for and not given back, and the most there ever were since [`start`].
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The allocator of this program.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

/// One thread does all: a plain load and store cost less than an atomic addition, so that the counter does not weigh on
/// what is timed.
fn count(grown: usize, shrunk: usize) {
    let held = HELD.load(Relaxed).wrapping_add(grown).wrapping_sub(shrunk);
    HELD.store(held, Relaxed);
    if held > PEAK.load(Relaxed) {
        PEAK.store(held, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; the counters touch no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: `block` came from `alloc` or `realloc` above, that is from the system, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves, both blocks are there.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as for `dealloc`; `size` is the caller's to keep right.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Octets held now; the peak is counted anew from here.
pub fn start() -> usize {
    let held = HELD.load(Relaxed);
    PEAK.store(held, Relaxed);
    held
}

/// Octets held since `start` gave `base`, and the most there were.
pub fn since(base: usize) -> (usize, usize) {
    (HELD.load(Relaxed).saturating_sub(base), PEAK.load(Relaxed).saturating_sub(base))
}
