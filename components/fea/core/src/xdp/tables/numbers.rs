//! Numbers of objects in an area, and the quarantine of retired numbers.
//!
//! A retired number may still be known to a program run that began before. So a retired number waits until every run
//! that could know the number has ended (a grace period), and becomes free then.

use alloc::vec::Vec;

/// The numbers of an area, from a first number up to a limit.
#[derive(Debug)]
pub(super) struct Numbers {
    /// The lowest number that was never given out.
    next: u32,
    /// The number after the last one.
    end: u32,
    first: u32,
    free: Vec<u32>,
    /// Retired since the running grace period began.
    retired: Vec<u32>,
    /// Retired before the running grace period began.
    grace: Vec<u32>,
}

impl Numbers {
    /// Numbers from `first` up to, but not including, `end`.
    pub(super) fn new(first: u32, end: u32) -> Self {
        let end = end.max(first);
        Numbers { next: first, end, first, free: Vec::new(), retired: Vec::new(), grace: Vec::new() }
    }

    /// Takes a free number; `None` if none is free.
    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Retires a number, to be free after the next whole grace period.
    pub(super) fn retire(&mut self, number: u32) {
        self.retired.push(number);
    }

    /// Returns true if [`Numbers::take`] would give a number.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty() || self.next < self.end
    }

    /// Returns true if a number waits for a grace period to begin.
    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// Lets the retired numbers wait for the grace period that begins now.
    pub(super) fn begin_grace(&mut self) {
        self.grace.append(&mut self.retired);
    }

    /// Frees the numbers that waited for the grace period that ends now.
    pub(super) fn end_grace(&mut self) {
        self.free.append(&mut self.grace);
    }

    /// Returns the amounts of numbers.
    pub(super) fn usage(&self) -> Use {
        let retired = self.retired.len() + self.grace.len();
        let given = (self.next - self.first) as usize - self.free.len();
        Use { used: (given - retired) as u32, retired: retired as u32, limit: self.end - self.first }
    }
}

/// Amounts of objects in an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// Objects in use.
    pub used: u32,
    /// Objects that wait for a grace period before their numbers are free.
    pub retired: u32,
    /// The largest sum of both.
    pub limit: u32,
}
