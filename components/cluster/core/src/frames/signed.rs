//! Frames with a body and a tag of HMAC-SHA-256: all frames of the cluster but hello frames.

use crate::frames::header::{FrameError, HEADER_LEN, Header, Kind, Stamp};
use crate::frames::key::{ClusterKey, KeyRing, TAG_LEN};
use crate::inventory::ElementId;
use alloc::vec::Vec;
use sluice_wire::Cursor;

/// The largest payload: an Ethernet frame without extensions.
pub(crate) const MOST_PAYLOAD: usize = 1500;
/// The largest content.
pub(crate) const MOST_BODY: usize = MOST_PAYLOAD - HEADER_LEN - TAG_LEN;

/// Returns a frame's payload; `None` if the content is larger than [`MOST_BODY`].
pub fn seal(kind: Kind, element: ElementId, stamp: Stamp, body: &[u8], key: &ClusterKey) -> Option<Vec<u8>> {
    if body.len() > MOST_BODY {
        return None;
    }
    let mut octets = Vec::with_capacity(HEADER_LEN + body.len() + TAG_LEN);
    Header { kind, element, length: body.len() as u32, stamp }.put(&mut octets);
    octets.extend_from_slice(body);
    let tag = key.tag(&octets);
    octets.extend_from_slice(&tag);
    Some(octets)
}

/// Reads a frame's payload up to the content. The tag is verified. Octets behind the tag are Ethernet's padding.
///
/// # Errors
///
/// If the payload has no such form, is a hello frame, or no key gives its tag.
pub fn open<'a>(octets: &'a [u8], keys: &KeyRing) -> Result<(Header, Cursor<'a>), FrameError> {
    let mut cursor = Cursor::new(octets);
    let header = Header::decode(&mut cursor)?;
    if header.kind == Kind::Hello {
        return Err(FrameError::Kind(header.kind as u8));
    }
    let length = header.length as usize;
    if length > MOST_BODY {
        return Err(FrameError::Length(header.length));
    }
    let body = cursor.sub(length)?;
    let tag = cursor.take(TAG_LEN)?;
    let signed = octets.get(..HEADER_LEN + length).unwrap_or_default();
    if keys.iter().any(|key| key.verifies(signed, tag)) { Ok((header, body)) } else { Err(FrameError::Tag) }
}
