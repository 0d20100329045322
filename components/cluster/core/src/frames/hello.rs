//! Hello frames: an element's sign of life, every 10 ms. The program `balance` verifies the tag and notes the time.

use crate::frames::header::{FrameError, HEADER_LEN, Header, Kind, Stamp};
use crate::frames::key::{ClusterKey, KeyRing};
use crate::frames::sip::sip;
use crate::inventory::ElementId;
use sluice_wire::Cursor;

/// Octets of a hello frame behind the Ethernet header: the header and a tag of 64 bits.
pub const HELLO_LEN: usize = HEADER_LEN + 8;

/// A sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The sender.
    pub element: ElementId,
    /// The place among the sender's frames.
    pub stamp: Stamp,
}

impl Hello {
    /// Returns the frame's payload.
    pub fn encode(&self, key: &ClusterKey) -> [u8; HELLO_LEN] {
        let header = Header { kind: Kind::Hello, element: self.element, length: 0, stamp: self.stamp };
        let mut octets = [0; HELLO_LEN];
        let (head, tag) = octets.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&header.octets());
        tag.copy_from_slice(&sip(key.hello(), head).to_le_bytes());
        octets
    }

    /// Reads a frame's payload. Octets behind the tag are Ethernet's padding.
    ///
    /// # Errors
    ///
    /// If the payload is no hello frame, or no key gives its tag.
    pub fn decode(octets: &[u8], keys: &KeyRing) -> Result<Self, FrameError> {
        let mut cursor = Cursor::new(octets);
        let header = Header::decode(&mut cursor)?;
        if header.kind != Kind::Hello {
            return Err(FrameError::Kind(header.kind as u8));
        }
        if header.length != 0 {
            return Err(FrameError::Length(header.length));
        }
        let tag = u64::from_le_bytes(cursor.array()?);
        let signed = octets.get(..HEADER_LEN).unwrap_or_default();
        if !keys.iter().any(|key| sip(key.hello(), signed) == tag) {
            return Err(FrameError::Tag);
        }
        Ok(Hello { element: header.element, stamp: header.stamp })
    }
}
