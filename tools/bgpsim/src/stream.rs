//! The messages of a single peer, as ready octets in sequence.

use std::ops::Range;

/// The messages of a single peer, encoded once; sending a part is writing a slice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stream {
    octets: Vec<u8>,
    messages: Vec<Message>,
    stamps: Vec<Stamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    end: usize,
    prefixes: u16,
}

/// The time when a message of a trace was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// Microseconds since the trace's first message.
    pub time: u64,
    /// The message's place in the whole trace.
    pub place: u32,
}

impl Stream {
    /// Adds a message that `write` appends, with the prefixes that it announces and withdraws.
    pub(crate) fn push(&mut self, prefixes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.octets);
        // A message of 4096 octets has fewer prefixes than that.
        self.messages.push(Message { end: self.octets.len(), prefixes: prefixes as u16 });
    }

    /// Stamps the messages since the last call with `stamp`.
    pub(crate) fn stamp(&mut self, stamp: Stamp) {
        self.stamps.resize(self.messages.len(), stamp);
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns true if the stream is empty.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The octets of some messages.
    pub fn octets(&self, messages: Range<usize>) -> &[u8] {
        &self.octets[self.start(messages.start)..self.start(messages.end)]
    }

    /// The prefixes in some messages, repetitions too.
    pub fn prefixes(&self, messages: Range<usize>) -> usize {
        self.messages[messages].iter().map(|m| usize::from(m.prefixes)).sum()
    }

    /// Returns the time when a message was seen; `None` for a message without a trace.
    pub fn seen(&self, message: usize) -> Option<Stamp> {
        self.stamps.get(message).copied()
    }

    /// The first message after `from` with which a piece of at least `octets` octets ends; the end of the stream if
    /// too few octets are left.
    pub fn piece(&self, from: usize, limit: usize, octets: usize) -> usize {
        let wanted = self.start(from) + octets;
        let ends = &self.messages[from..limit];
        from + (ends.partition_point(|m| m.end < wanted) + 1).min(ends.len())
    }

    fn start(&self, message: usize) -> usize {
        message.checked_sub(1).map_or(0, |before| self.messages[before].end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices() {
        let mut stream = Stream::default();
        assert!(stream.is_empty());
        for n in 1..=4u8 {
            stream.push(n.into(), |out| out.extend(vec![n; n.into()]));
        }
        assert_eq!(stream.len(), 4);
        assert_eq!(stream.octets(0..2), [1, 2, 2]);
        assert_eq!(stream.octets(3..4), [4; 4]);
        assert!(stream.octets(2..2).is_empty());
        assert_eq!(stream.prefixes(1..3), 5);
        assert_eq!(stream.seen(0), None);
        for (from, octets, expected) in
            [(0, 1, 1), (0, 2, 2), (0, 3, 2), (0, 99, 4), (2, 4, 4), (3, 1, 4), (4, 1, 4)]
        {
            assert_eq!(stream.piece(from, 4, octets), expected, "{octets} octets from {from}");
        }
        assert_eq!(stream.piece(0, 2, 99), 2);
    }
}
