//! Message headers (RFC 4271, section 4.1).

use super::Malformed;

/// Octets of a header: marker, length, type.
pub const HEADER_LEN: usize = 19;
/// Octets of the longest message without the capability of longer ones.
pub const MAX_MESSAGE_LEN: usize = 4096;
/// Octets before the length, all of them 255.
const MARKER: [u8; 16] = [255; 16];

/// The type of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageType {
    /// OPEN.
    Open = 1,
    /// UPDATE.
    Update = 2,
    /// NOTIFICATION.
    Notification = 3,
    /// KEEPALIVE.
    Keepalive = 4,
    /// ROUTE-REFRESH (RFC 2918).
    RouteRefresh = 5,
}

impl MessageType {
    /// Returns the type with a code.
    pub fn from_code(code: u8) -> Option<Self> {
        MessageType::ALL.into_iter().find(|known| *known as u8 == code)
    }

    const ALL: [MessageType; 5] = [
        MessageType::Open,
        MessageType::Update,
        MessageType::Notification,
        MessageType::Keepalive,
        MessageType::RouteRefresh,
    ];
}

/// A message in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// The message's type.
    pub kind: MessageType,
    /// The octets after the header.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Returns the octets of the whole message.
    #[allow(clippy::len_without_is_empty)] // a message has a header
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }
}

/// Returns the first message of a stream; `None` if the stream ends within it.
///
/// # Errors
/// If the header is malformed or of an unknown type.
pub fn frame(stream: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((head, _)) = stream.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let [marker @ .., high, low, kind] = head;
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if *marker != MARKER || length < HEADER_LEN {
        return Err(Malformed("header"));
    }
    let kind = MessageType::from_code(*kind).ok_or(Malformed("message type"))?;
    Ok(stream.get(HEADER_LEN..length).map(|body| Frame { kind, body }))
}

/// Begins a message; returns its place for [`finish`].
pub fn start(out: &mut Vec<u8>, kind: MessageType) -> usize {
    let at = out.len();
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&[0, 0, kind as u8]);
    at
}

/// Writes the length of a message that ends at the end of `out`.
pub fn finish(out: &mut [u8], at: usize) {
    let length = (out.len() - at) as u16;
    out[at + 16..at + 18].copy_from_slice(&length.to_be_bytes());
}

/// Appends a KEEPALIVE.
pub fn put_keepalive(out: &mut Vec<u8>) {
    let at = start(out, MessageType::Keepalive);
    finish(out, at);
}

#[test]
fn headers() {
    let mut octets = Vec::new();
    put_keepalive(&mut octets);
    assert_eq!(octets, [&[255; 16][..], &[0, 19, 4]].concat());
    assert_eq!(frame(&octets).unwrap().map(|f| (f.kind, f.len())), Some((MessageType::Keepalive, 19)));
    assert_eq!(frame(&octets[..18]), Ok(None));
    for (place, octet) in [(0, 0), (17, 18), (18, 6)] {
        let mut wrong = octets.clone();
        wrong[place] = octet;
        assert!(frame(&wrong).is_err(), "{place}");
    }
}
