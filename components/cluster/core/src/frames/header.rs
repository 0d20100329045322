//! The header that all frames of the cluster share (`docs/cluster.md`).

use crate::inventory::ElementId;
use alloc::vec::Vec;
use core::fmt;
use sluice_wire::{Cursor, Truncated};

/// The version of the frames.
pub const VERSION: u8 = 1;
/// Octets of the header.
pub const HEADER_LEN: usize = 24;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A sign of life.
    Hello = 1,
    /// A description of the sender.
    Announcement = 2,
    /// Neighbors of the cluster, from the control plane.
    Neighbors = 3,
    /// Neighbors that routers want to know, for the control plane.
    Wanted = 4,
}

/// The order of a sender's frames: a later frame has a larger stamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Stamp {
    /// The number of the sender's start: each start has a larger one.
    pub epoch: u64,
    /// The number of the frame since the start, from 1.
    pub counter: u64,
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind.
    pub kind: Kind,
    /// The sender.
    pub element: ElementId,
    /// Octets between header and tag.
    pub length: u32,
    /// The place among the sender's frames.
    pub stamp: Stamp,
}

/// The reason against a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The frame ends early.
    Truncated(Truncated),
    /// The version is unknown.
    Version(u8),
    /// The kind is unknown, or another kind was expected.
    Kind(u8),
    /// The sender is element 0.
    Element,
    /// The length is not one of this kind.
    Length(u32),
    /// No key of the cluster gives the tag.
    Tag,
    /// The content is not well-formed, at the given offset from the header.
    Body(usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Truncated(truncated) => {
                write!(f, "the frame ends at {}, {} octets early", truncated.offset, truncated.needed)
            }
            FrameError::Version(version) => write!(f, "version {version} is unknown"),
            FrameError::Kind(kind) => write!(f, "kind {kind} is unexpected"),
            FrameError::Element => f.write_str("element 0 sends no frames"),
            FrameError::Length(length) => write!(f, "a length of {length} octets is not allowed"),
            FrameError::Tag => f.write_str("no key of the cluster gives the tag"),
            FrameError::Body(offset) => write!(f, "the content is malformed at octet {offset}"),
        }
    }
}

impl core::error::Error for FrameError {}

impl From<Truncated> for FrameError {
    fn from(truncated: Truncated) -> Self {
        FrameError::Truncated(truncated)
    }
}

impl Header {
    /// Appends the header.
    pub fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.octets());
    }

    /// Returns the octets.
    pub fn octets(&self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        octets[0] = VERSION;
        octets[1] = self.kind as u8;
        octets[2..4].copy_from_slice(&self.element.number().to_be_bytes());
        octets[4..8].copy_from_slice(&self.length.to_be_bytes());
        octets[8..16].copy_from_slice(&self.stamp.epoch.to_be_bytes());
        octets[16..24].copy_from_slice(&self.stamp.counter.to_be_bytes());
        octets
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// If the header ends early, or has an unknown version or kind, or element 0. The tag is not looked at.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self, FrameError> {
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let kind = match cursor.u8()? {
            1 => Kind::Hello,
            2 => Kind::Announcement,
            3 => Kind::Neighbors,
            4 => Kind::Wanted,
            other => return Err(FrameError::Kind(other)),
        };
        let element = ElementId::new(cursor.u16()?).ok_or(FrameError::Element)?;
        let length = cursor.u32()?;
        let stamp = Stamp { epoch: cursor.u64()?, counter: cursor.u64()? };
        Ok(Header { kind, element, length, stamp })
    }
}
