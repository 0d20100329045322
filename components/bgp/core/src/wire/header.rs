//! The message header and framing (RFC 4271, sections 4.1 and 6.1).

use alloc::vec::Vec;
use core::fmt;

/// Octets of the header.
pub const HEADER_LEN: usize = 19;
/// Octets of the longest message, header included.
pub const MAX_MESSAGE_LEN: usize = 4096;
/// Octets of the longest message to and from a peer with the capability for extended messages (RFC 8654), OPEN and KEEPALIVE apart.
pub const MAX_EXTENDED_LEN: usize = 65_535;

const MARKER: [u8; 16] = [0xff; 16];

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MessageType {
    /// Opens a session (RFC 4271, section 4.2).
    Open = 1,
    /// Announces and withdraws routes (section 4.3).
    Update = 2,
    /// Ends a session (section 4.5).
    Notification = 3,
    /// Shows that the sender is alive (section 4.4).
    Keepalive = 4,
    /// Requests the routes again (RFC 2918).
    RouteRefresh = 5,
}

impl MessageType {
    /// The shortest and longest whole message of this type, if messages other than OPEN and KEEPALIVE may have `longest` octets.
    const fn lengths(self, longest: usize) -> (usize, usize) {
        match self {
            MessageType::Open => (29, MAX_MESSAGE_LEN),
            MessageType::Update | MessageType::RouteRefresh => (23, longest),
            MessageType::Notification => (21, longest),
            MessageType::Keepalive => (HEADER_LEN, HEADER_LEN),
        }
    }

    /// Returns the type with a code; `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => MessageType::Open,
            2 => MessageType::Update,
            3 => MessageType::Notification,
            4 => MessageType::Keepalive,
            5 => MessageType::RouteRefresh,
            _ => return None,
        })
    }
}

/// A message in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The type.
    pub kind: MessageType,
    /// The octets after the header.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Octets of the whole message.
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }

    /// Appends the whole message, header included. The body is no longer than a message's length can state.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MARKER);
        out.extend_from_slice(&u16::try_from(self.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(self.body);
    }

    /// Returns true for a header alone, as in a KEEPALIVE.
    pub const fn is_empty(&self) -> bool {
        self.body.is_empty()
    }
}

/// An invalid header: the stream is of no more use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// The marker has a zero bit.
    NotSynchronized,
    /// The length is out of range for the message type.
    BadLength(u16),
    /// The type is unknown.
    BadType(u8),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::NotSynchronized => f.write_str("the marker is not all ones"),
            HeaderError::BadLength(n) => write!(f, "message length {n} is out of range"),
            HeaderError::BadType(n) => write!(f, "unknown message type {n}"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// Returns the first message of `stream`; `None` if incomplete. A wrong header is an error as soon as the header is complete.
#[inline]
pub fn frame(stream: &[u8]) -> Result<Option<Frame<'_>>, HeaderError> {
    frame_within(stream, MAX_MESSAGE_LEN)
}

/// The first message of a stream whose messages may have `longest` octets; see [`frame`].
#[inline]
pub fn frame_within(stream: &[u8], longest: usize) -> Result<Option<Frame<'_>>, HeaderError> {
    let Some((header, rest)) = stream.split_first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    if header[..16] != MARKER {
        return Err(HeaderError::NotSynchronized);
    }
    let len = u16::from_be_bytes([header[16], header[17]]);
    let bad_length = HeaderError::BadLength(len);
    if usize::from(len) < HEADER_LEN || usize::from(len) > longest {
        return Err(bad_length);
    }
    let kind = MessageType::from_code(header[18]).ok_or(HeaderError::BadType(header[18]))?;
    let (shortest, longest) = kind.lengths(longest);
    if !(shortest..=longest).contains(&usize::from(len)) {
        return Err(bad_length);
    }
    Ok(rest.get(..usize::from(len) - HEADER_LEN).map(|body| Frame { kind, body }))
}

/// Starts a message at the end of `out` and returns where; [`finish`] puts the length in.
pub fn start(out: &mut Vec<u8>, kind: MessageType) -> usize {
    let at = out.len();
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&[0, 0, kind as u8]);
    at
}

/// Completes the message started at `at`.
///
/// # Panics
/// If the message is longer than [`MAX_EXTENDED_LEN`], which the caller must avoid.
pub fn finish(out: &mut [u8], at: usize) {
    let len = out.len() - at;
    assert!(len <= MAX_EXTENDED_LEN, "a message of {len} octets was written");
    out[at + 16..at + 18].copy_from_slice(&(len as u16).to_be_bytes());
}

/// Appends a KEEPALIVE.
pub fn put_keepalive(out: &mut Vec<u8>) {
    let at = start(out, MessageType::Keepalive);
    finish(out, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn header(len: u16, kind: u8) -> Vec<u8> {
        let mut h = vec![0xff; 16];
        h.extend_from_slice(&len.to_be_bytes());
        h.push(kind);
        h
    }

    #[test]
    fn frames() {
        let mut stream = Vec::new();
        put_keepalive(&mut stream);
        assert_eq!(stream.len(), HEADER_LEN);
        let check = |bytes: &[u8], expected: Result<Option<(MessageType, usize)>, HeaderError>| {
            assert_eq!(frame(bytes).map(|f| f.map(|f| (f.kind, f.len()))), expected, "{bytes:?}");
        };
        check(&stream, Ok(Some((MessageType::Keepalive, 19))));
        check(&stream[..18], Ok(None));
        check(&[], Ok(None));
        check(&[0; 19], Err(HeaderError::NotSynchronized));
        for (len, kind) in [(18, 4), (20, 4), (28, 1), (22, 2), (20, 3), (22, 5), (4097, 2)] {
            check(&header(len, kind), Err(HeaderError::BadLength(len)));
        }
        check(&header(19, 6), Err(HeaderError::BadType(6)));
        check(&header(23, 2), Ok(None));
        // Extended messages, but for OPEN and KEEPALIVE.
        let extended =
            |len, kind| frame_within(&header(len, kind), MAX_EXTENDED_LEN).map(|frame| frame.is_some());
        assert_eq!(extended(u16::MAX, 2), Ok(false));
        assert_eq!(extended(4097, 3), Ok(false));
        for (len, kind) in [(4097, 1), (20, 4), (18, 2)] {
            assert_eq!(extended(len, kind), Err(HeaderError::BadLength(len)));
        }
    }
}
