//! The frames of an XRL connection (docs/xrl.md, "Frames"). Pure: octets to values and back.
//!
//! Every frame is `u32 length, u8 kind, u32 sequence, u16 method, body`, in network order; the length counts the
//! octets behind it.

use crate::XrlError;
use sluice_wire::Cursor;

/// Octets of a frame before its body, including the length.
pub const HEADER: usize = 11;
/// Octets of the length field itself.
const LENGTH: usize = 4;
/// Largest value of the length field.
pub const MAX_LENGTH: usize = 16 << 20;
/// The protocol's version, in the frames Hello and Datagram.
pub const VERSION: u16 = 2;
/// Octets of the largest datagram over IPv4.
pub(crate) const MAX_DATAGRAM: usize = 65_507;

/// The body of a Hello frame.
pub const MAGIC: &[u8; 4] = b"XRL\n";
/// Methods that a connection may bind: their numbers are lower.
pub(crate) const MAX_METHODS: u16 = 4096;
/// Octets of a method key.
pub const KEY: usize = 16;

/// The Finder's word that a caller may use a method: a keyed hash of the method and the caller.
pub type Key = [u8; KEY];

/// Checks the protocol's version of a caller.
pub(crate) fn check_version(theirs: u16) -> Result<(), XrlError> {
    if theirs == VERSION {
        return Ok(());
    }
    Err(XrlError::Protocol(format!(
        "version {theirs} of the XRL protocol; expected {VERSION}: install a client of this router's version"
    )))
}

/// The purpose of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Caller, first frame: `method` is the version, the body [`MAGIC`].
    Hello = 1,
    /// Caller: binds the number `method` to the body's method with its key.
    Bind = 2,
    /// Caller: carry out `method` with the arguments in the body.
    Call = 3,
    /// Caller: the same, within as many milliseconds as in the body's first u32.
    CallWithin = 4,
    /// Caller: cancels the call `sequence`. A reply still follows, usually error 10.
    Cancel = 5,
    /// Target: the result of the call `sequence`.
    Reply = 6,
    /// Target: why the call `sequence` failed.
    Error = 7,
    /// Target: the reason for closing the connection.
    Close = 8,
    /// Caller, by UDP: a whole call; `method` is the version, 0 from callers that state none.
    Datagram = 9,
}

impl Kind {
    fn from_octet(octet: u8) -> Option<Self> {
        Some(match octet {
            1 => Kind::Hello,
            2 => Kind::Bind,
            3 => Kind::Call,
            4 => Kind::CallWithin,
            5 => Kind::Cancel,
            6 => Kind::Reply,
            7 => Kind::Error,
            8 => Kind::Close,
            9 => Kind::Datagram,
            _ => return None,
        })
    }
}

/// A frame in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The purpose.
    pub kind: Kind,
    /// The frame's call; chosen by the caller, unique among waiting calls.
    pub sequence: u32,
    /// The method, as bound by the caller on the connection.
    pub method: u16,
    /// The rest.
    pub body: &'a [u8],
}

/// The reason why octets are not a frame; the connection is unreadable after such an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is below the header's or above [`MAX_LENGTH`].
    #[error("frame length {0}")]
    Length(u32),
    /// An unknown kind.
    #[error("frame kind {0}")]
    Kind(u8),
    /// A malformed body of the kind.
    #[error("malformed {0:?} frame")]
    Body(Kind),
}

/// The first frame in `data` and its length in octets, or `None` if the frame is incomplete.
pub fn decode(data: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((head, rest)) = data.split_first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*head);
    let size = length as usize;
    if !(HEADER - LENGTH..=MAX_LENGTH).contains(&size) {
        return Err(FrameError::Length(length));
    }
    let Some(frame) = rest.get(..size) else {
        return Ok(None);
    };
    let [kind, s0, s1, s2, s3, m0, m1, body @ ..] = frame else {
        return Err(FrameError::Length(length));
    };
    let kind = Kind::from_octet(*kind).ok_or(FrameError::Kind(*kind))?;
    let sequence = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
    Ok(Some((Frame { kind, sequence, method: u16::from_be_bytes([*m0, *m1]), body }, LENGTH + size)))
}

/// The length of the frame at the start of `data` in octets; 0 while unknown.
pub fn announced_size(data: &[u8]) -> usize {
    data.first_chunk::<LENGTH>().map_or(0, |l| (u32::from_be_bytes(*l) as usize).min(MAX_LENGTH) + LENGTH)
}

/// Begins a frame in `out`; after the body was appended, [`end`] with the returned value ends the frame.
pub fn begin(out: &mut Vec<u8>, kind: Kind, sequence: u32, method: u16) -> usize {
    let start = out.len();
    let [s0, s1, s2, s3] = sequence.to_be_bytes();
    let [m0, m1] = method.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, kind as u8, s0, s1, s2, s3, m0, m1]);
    start
}

/// Ends the frame that was begun at `start`. A frame that is too large is removed, and its size is the error.
pub fn end(out: &mut Vec<u8>, start: usize) -> Result<(), usize> {
    let length = out.len().saturating_sub(start + LENGTH);
    if length > MAX_LENGTH {
        out.truncate(start);
        return Err(length);
    }
    if let Some(field) = out.get_mut(start..start + LENGTH) {
        // Not above MAX_LENGTH, so it fits.
        field.copy_from_slice(&(length as u32).to_be_bytes());
    }
    Ok(())
}

/// Appends a whole frame whose body is known to be short.
pub fn put(out: &mut Vec<u8>, frame: Frame<'_>) -> Result<(), usize> {
    let start = begin(out, frame.kind, frame.sequence, frame.method);
    out.extend_from_slice(frame.body);
    end(out, start)
}

/// Appends the Hello frame.
pub fn put_hello(out: &mut Vec<u8>) {
    let start = begin(out, Kind::Hello, 0, VERSION);
    out.extend_from_slice(MAGIC);
    let _fits = end(out, start);
}

/// The body of a Bind frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bind<'a> {
    /// The caller's key of the method.
    pub key: Key,
    /// The number of the grant of rights by which the Finder gave the key.
    pub grant: u64,
    /// The name by which the Finder knows the caller; at most 255 octets.
    pub principal: &'a str,
    /// `INSTANCE/PACKAGE.SERVICE/METHOD`.
    pub path: &'a str,
}

/// A caller's description of itself.
type Caller<'a> = (Key, u64, &'a str);

impl<'a> Bind<'a> {
    fn encode_caller(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.grant.to_be_bytes());
        let length = self.principal.len().min(usize::from(u8::MAX));
        out.push(length as u8);
        out.extend_from_slice(&self.principal.as_bytes()[..length]);
    }

    fn decode_caller(c: &mut Cursor<'a>, kind: Kind) -> Result<Caller<'a>, FrameError> {
        let wrong = |_| FrameError::Body(kind);
        let key = c.array().map_err(wrong)?;
        let grant = u64::from_be_bytes(c.array().map_err(wrong)?);
        let length = c.u8().map_err(wrong)?;
        let principal = c.take(length.into()).map_err(wrong)?;
        let principal = std::str::from_utf8(principal).map_err(|_| FrameError::Body(kind))?;
        Ok((key, grant, principal))
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_caller(out);
        out.extend_from_slice(self.path.as_bytes());
    }

    /// Reads the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut c = Cursor::new(body);
        let (key, grant, principal) = Self::decode_caller(&mut c, Kind::Bind)?;
        let path = std::str::from_utf8(c.rest()).map_err(|_| FrameError::Body(Kind::Bind))?;
        Ok(Bind { key, grant, principal, path })
    }
}

/// The body of a Datagram frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// The method's key and path.
    pub bind: Bind<'a>,
    /// Milliseconds until the caller gives up; 0: no limit.
    pub within_ms: u32,
    /// The arguments.
    pub arguments: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Appends the fields before the arguments: the caller as in Bind, milliseconds, u16 length of the path, path.
    pub fn encode_head(bind: &Bind<'_>, within_ms: u32, out: &mut Vec<u8>) {
        bind.encode_caller(out);
        out.extend_from_slice(&within_ms.to_be_bytes());
        let length = bind.path.len().min(usize::from(u16::MAX));
        out.extend_from_slice(&(length as u16).to_be_bytes());
        out.extend_from_slice(&bind.path.as_bytes()[..length]);
    }

    /// Reads the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, FrameError> {
        let wrong = |_| FrameError::Body(Kind::Datagram);
        let mut c = Cursor::new(body);
        let (key, grant, principal) = Bind::decode_caller(&mut c, Kind::Datagram)?;
        let within_ms = c.u32().map_err(wrong)?;
        let length = c.u16().map_err(wrong)?;
        let path = c.take(length.into()).map_err(wrong)?;
        let path = std::str::from_utf8(path).map_err(|_| FrameError::Body(Kind::Datagram))?;
        Ok(Datagram { bind: Bind { key, grant, principal, path }, within_ms, arguments: c.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout() {
        let mut out = Vec::new();
        put(&mut out, Frame { kind: Kind::Call, sequence: 0x0102_0304, method: 0x0506, body: b"ab" })
            .unwrap();
        assert_eq!(out, [0, 0, 0, 9, 3, 1, 2, 3, 4, 5, 6, b'a', b'b']);
    }

    #[test]
    fn what_is_refused() {
        let check = |data: &[u8], expected| assert_eq!(decode(data), expected);
        check(&[], Ok(None));
        check(&[0, 0, 0, 7, 3, 0, 0, 0, 0, 0], Ok(None));
        check(&[0, 0, 0, 6], Err(FrameError::Length(6)));
        check(&[0xff; 11], Err(FrameError::Length(u32::MAX)));
        check(&[0, 0, 0, 7, 99, 0, 0, 0, 0, 0, 0], Err(FrameError::Kind(99)));
    }

    #[test]
    fn a_frame_that_is_too_large_leaves_nothing() {
        let mut out = vec![1];
        let start = begin(&mut out, Kind::Call, 1, 1);
        out.resize(MAX_LENGTH + HEADER + 1, 0);
        assert!(end(&mut out, start).is_err());
        assert_eq!(out, [1]);
    }

    proptest! {
        #[test]
        fn frames_come_back(sequence: u32, method: u16, body: Vec<u8>, tail: Vec<u8>) {
            let frame = Frame { kind: Kind::Reply, sequence, method, body: &body };
            let mut out = Vec::new();
            put(&mut out, frame).unwrap();
            let size = out.len();
            out.extend_from_slice(&tail);
            prop_assert_eq!(decode(&out), Ok(Some((frame, size))));
            prop_assert_eq!(decode(&out[..size - 1]), Ok(None));
        }

        #[test]
        fn datagrams_come_back(
            key: [u8; 16],
            grant: u64,
            principal in "[a-zé@]{0,100}",
            within_ms: u32,
            path: String,
            arguments: Vec<u8>,
        ) {
            let bind = Bind { key, grant, principal: &principal, path: &path };
            let mut body = Vec::new();
            bind.encode(&mut body);
            prop_assert_eq!(Bind::decode(&body), Ok(bind));
            let mut out = Vec::new();
            Datagram::encode_head(&bind, within_ms, &mut out);
            out.extend_from_slice(&arguments);
            prop_assert_eq!(Datagram::decode(&out), Ok(Datagram { bind, within_ms, arguments: &arguments }));
        }

        #[test]
        fn garbage_never_panics(data: Vec<u8>) {
            if let Ok(Some((frame, _))) = decode(&data) {
                let _ = (Bind::decode(frame.body), Datagram::decode(frame.body), crate::XrlError::decode(frame.body));
            }
        }
    }
}
