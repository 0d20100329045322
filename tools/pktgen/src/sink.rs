//! The sink: counts the packets of a stream at an interface.

use crate::PktgenError;
use sluice_bpf::array::MappedArray;
use sluice_bpf::attach::interface_index;
use sluice_bpf::layout::Tally;
use sluice_bpf::{Embedded, Link, Loader, Mode};

/// The sequence numbers of one word of the window.
const WORD: u64 = 64;

/// The most words of the window: 1 GiB of memory in the kernel.
const MOST_WORDS: u64 = 1 << 26;

/// The sequence numbers that a sink remembers if the caller does not say.
pub const DEFAULT_WINDOW: u64 = 1 << 22;

/// A sink at an interface: drops the packets of a stream and counts them. Other packets pass. The end of the value ends
/// the counting.
#[derive(Debug)]
pub struct Sink {
    link: Link,
    tally: MappedArray,
}

impl Sink {
    /// Begins to count the packets of `stream` at an interface of this thread's network namespace.
    ///
    /// # Errors
    ///
    /// If there is no such interface, another XDP program is attached to it, or the kernel or this build lacks something.
    pub fn attach(interface: &str, stream: u32) -> Result<Self, PktgenError> {
        Sink::attach_with_window(interface, stream, DEFAULT_WINDOW)
    }

    /// Begins to count like [`Sink::attach`] and remembers the latest `window` sequence numbers, rounded up to a power of two,
    /// 64 at least: older numbers count as late.
    ///
    /// # Errors
    ///
    /// As for [`Sink::attach`].
    pub fn attach_with_window(interface: &str, stream: u32, window: u64) -> Result<Self, PktgenError> {
        interface_index(interface)?;
        let words = window.div_ceil(WORD).clamp(1, MOST_WORDS).next_power_of_two() as u32;
        let program = Loader::new(Embedded::Sink)
            .constant_u32("stream", stream)
            .constant_u32("words", words)
            .entries("seen", words)
            .load()?;
        let tally = MappedArray::new(program.map("tallies")?)?;
        let link = Link::attach(interface, program.program())?;
        Ok(Sink { link, tally })
    }

    /// Returns the counts. Counts of a moment in which packets arrive may disagree by these packets.
    pub fn tally(&self) -> Tally {
        let word = |word| self.tally.load64(0, word).unwrap_or(0);
        Tally {
            received: word(0),
            octets: word(1),
            duplicates: word(2),
            reordered: word(3),
            late: word(4),
            expected: word(5),
            first: word(6),
            last: word(7),
        }
    }

    /// Returns the hook at which packets are counted.
    pub fn mode(&self) -> &Mode {
        self.link.mode()
    }
}

/// Returns the number of missing packets up to the highest sequence number that arrived. A sink cannot know of packets lost
/// behind the highest number: compare `expected` with the packets sent. Late packets count as arrived, although some may be
/// duplicates.
pub fn lost(tally: &Tally) -> u64 {
    tally.expected.saturating_sub(tally.received.saturating_sub(tally.duplicates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_what_is_missing_of_the_expected_packets() {
        let tally = Tally { expected: 100, received: 97, duplicates: 2, late: 1, ..Tally::default() };
        assert_eq!(lost(&tally), 5);
        assert_eq!(lost(&Tally { received: 7, duplicates: 7, ..Tally::default() }), 0);
        // Late duplicates may be more than the packets that are missing.
        assert_eq!(lost(&Tally { expected: 5, received: 9, late: 4, ..Tally::default() }), 0);
    }
}
