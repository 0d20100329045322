//! The division of a stream of octets into messages.

use super::wire::{Frame, HEADER_LEN, HeaderError, MAX_MESSAGE_LEN, header};
use alloc::vec::Vec;

/// Cuts the stream of one connection into messages.
#[derive(Debug)]
pub struct Framer {
    pending: Vec<u8>,
    taken: bool,
    /// Octets of the longest message.
    longest: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Framer::with(Vec::new())
    }
}

impl Framer {
    /// Makes a reader with the beginning of a message.
    pub fn with(pending: Vec<u8>) -> Self {
        Framer { pending, taken: false, longest: MAX_MESSAGE_LEN }
    }

    /// Takes messages of up to `longest` octets from now on (RFC 8654).
    pub const fn allow(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Returns the beginning of an incomplete message.
    pub fn pending(&self) -> &[u8] {
        if self.taken { &[] } else { &self.pending }
    }

    /// The next message of what was kept and `input`, from which the message is taken; `None` when all of `input` is taken
    /// and the next message is not complete. After an error the stream is of no more use.
    #[inline]
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'s>>, HeaderError> {
        if core::mem::take(&mut self.taken) {
            self.pending.clear();
        }
        if !self.pending.is_empty() {
            return self.join(input);
        }
        let frame = header::frame_within(input, self.longest)?;
        match &frame {
            Some(frame) => *input = &input[frame.len()..],
            None => {
                self.pending.extend_from_slice(input);
                *input = &[];
            }
        }
        Ok(frame)
    }

    /// The next message, whose beginning was kept.
    #[inline(never)]
    fn join<'s>(&'s mut self, input: &mut &[u8]) -> Result<Option<Frame<'s>>, HeaderError> {
        self.fill(HEADER_LEN, input);
        // A whole header has the message's length; `frame` checks that it is in range.
        if header::frame_within(&self.pending, self.longest)?.is_none() && self.pending.len() >= HEADER_LEN {
            let len = u16::from_be_bytes([self.pending[16], self.pending[17]]);
            self.fill(len.into(), input);
        }
        let frame = header::frame_within(&self.pending, self.longest)?;
        self.taken = frame.is_some();
        Ok(frame)
    }

    fn fill(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.pending.len()).min(input.len());
        let (head, tail) = input.split_at(missing);
        self.pending.extend_from_slice(head);
        *input = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notification;
    use alloc::vec;
    use alloc::vec::Vec;

    fn stream() -> (Vec<u8>, usize) {
        let mut out = vec![];
        for n in 0..5u8 {
            header::put_keepalive(&mut out);
            let n = Notification { code: 6, subcode: n, data: vec![n; usize::from(n) * 300] };
            n.put(&mut out);
        }
        (out, 10)
    }

    #[test]
    fn messages_come_out_whole_however_they_come_in() {
        let (stream, expected) = stream();
        for piece in [1, 2, 3, 18, 19, 20, 37, 500, 4096, stream.len()] {
            let mut framer = Framer::default();
            let mut got = vec![];
            for mut chunk in stream.chunks(piece) {
                while let Some(frame) = framer.next(&mut chunk).unwrap() {
                    let at = header::start(&mut got, frame.kind);
                    got.extend_from_slice(frame.body);
                    header::finish(&mut got, at);
                }
                assert!(chunk.is_empty());
            }
            assert_eq!(got, stream, "pieces of {piece}");
        }
        assert_eq!(expected, 10);
    }

    #[test]
    fn a_bad_header_ends_the_stream() {
        let mut framer = Framer::default();
        let mut input: &[u8] = &[0xff; 10];
        assert_eq!(framer.next(&mut input), Ok(None));
        let mut input: &[u8] = &[0; 10];
        assert_eq!(framer.next(&mut input), Err(HeaderError::NotSynchronized));
    }
}
