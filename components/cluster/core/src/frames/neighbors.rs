//! Lists of neighbors in frames: the control plane's table for all elements, and the neighbors that routers want to know.
//!
//! The control plane sends each change at once, and the whole table again and again in numbered parts. An element that has
//! received all parts of a round drops the neighbors that the round did not name.

use crate::frames::header::{FrameError, Kind, Stamp};
use crate::frames::key::{ClusterKey, KeyRing};
use crate::frames::signed;
use crate::inventory::{ElementId, PortNumber};
use crate::mac::Mac;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::Serialize;
use sluice_wire::Cursor;

/// Neighbors of a frame, so that any of them fit.
pub const MOST_ENTRIES: usize = 56;

/// A neighbor's place: the outer port and the address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct NeighborKey {
    /// The port.
    pub port: PortNumber,
    /// The address.
    pub address: IpAddr,
}

/// The part of the table that a frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Changes since the frames before.
    Change,
    /// A part of a round, by number from 0.
    Round {
        /// The number.
        number: u16,
        /// True for the last part.
        is_last: bool,
    },
}

/// A frame with neighbors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NeighborList {
    /// The sender.
    pub element: ElementId,
    /// The place among the sender's frames of this kind.
    pub stamp: Stamp,
    /// The part of the table.
    pub part: Part,
    /// The neighbors with their MAC addresses; `None` for neighbors that are gone.
    pub entries: Vec<(NeighborKey, Option<Mac>)>,
}

/// A frame with wanted neighbors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedList {
    /// The sender.
    pub element: ElementId,
    /// The place among the sender's frames of this kind.
    pub stamp: Stamp,
    /// The neighbors.
    pub entries: Vec<NeighborKey>,
}

impl NeighborList {
    /// Returns the frame's payload; `None` for more than [`MOST_ENTRIES`] neighbors.
    pub fn encode(&self, key: &ClusterKey) -> Option<Vec<u8>> {
        if self.entries.len() > MOST_ENTRIES {
            return None;
        }
        let (kind, number) = match self.part {
            Part::Change => (0, 0),
            Part::Round { number, is_last } => (if is_last { 2 } else { 1 }, number),
        };
        let mut body: Vec<u8> = Vec::new();
        body.push(kind);
        body.extend_from_slice(&u16::to_be_bytes(number));
        for (neighbor, mac) in &self.entries {
            body.extend_from_slice(&mac.map_or([0; 6], |mac| mac.0));
            put(&mut body, neighbor);
        }
        signed::seal(Kind::Neighbors, self.element, self.stamp, &body, key)
    }

    /// Reads a frame's payload.
    ///
    /// # Errors
    ///
    /// If the payload is no such frame, no key gives its tag, or the content is malformed.
    pub fn decode(octets: &[u8], keys: &KeyRing) -> Result<Self, FrameError> {
        let (header, mut body) = signed::open(octets, keys)?;
        if header.kind != Kind::Neighbors {
            return Err(FrameError::Kind(header.kind as u8));
        }
        let at = body.offset();
        let (kind, number) = (body.u8()?, body.u16()?);
        let part = match kind {
            0 => Part::Change,
            1 | 2 => Part::Round { number, is_last: kind == 2 },
            _ => return Err(FrameError::Body(at)),
        };
        let mut entries = Vec::new();
        while !body.is_empty() {
            let mac = Mac(body.array()?);
            entries.push((neighbor(&mut body)?, (mac != Mac([0; 6])).then_some(mac)));
        }
        Ok(NeighborList { element: header.element, stamp: header.stamp, part, entries })
    }
}

impl WantedList {
    /// Returns the frame's payload; `None` for more than [`MOST_ENTRIES`] neighbors.
    pub fn encode(&self, key: &ClusterKey) -> Option<Vec<u8>> {
        if self.entries.len() > MOST_ENTRIES {
            return None;
        }
        let mut body = Vec::new();
        self.entries.iter().for_each(|neighbor| put(&mut body, neighbor));
        signed::seal(Kind::Wanted, self.element, self.stamp, &body, key)
    }

    /// Reads a frame's payload.
    ///
    /// # Errors
    ///
    /// If the payload is no such frame, no key gives its tag, or the content is malformed.
    pub fn decode(octets: &[u8], keys: &KeyRing) -> Result<Self, FrameError> {
        let (header, mut body) = signed::open(octets, keys)?;
        if header.kind != Kind::Wanted {
            return Err(FrameError::Kind(header.kind as u8));
        }
        let mut entries = Vec::new();
        while !body.is_empty() {
            entries.push(neighbor(&mut body)?);
        }
        Ok(WantedList { element: header.element, stamp: header.stamp, entries })
    }
}

fn put(body: &mut Vec<u8>, neighbor: &NeighborKey) {
    body.extend_from_slice(&neighbor.port.number().to_be_bytes());
    match neighbor.address {
        IpAddr::V4(address) => {
            body.push(4);
            body.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            body.push(6);
            body.extend_from_slice(&address.octets());
        }
    }
}

fn neighbor(body: &mut Cursor<'_>) -> Result<NeighborKey, FrameError> {
    let at = body.offset();
    let port = PortNumber::new(body.u16()?).ok_or(FrameError::Body(at))?;
    let address = match body.u8()? {
        4 => IpAddr::V4(Ipv4Addr::from(body.array::<4>()?)),
        6 => IpAddr::V6(Ipv6Addr::from(body.array::<16>()?)),
        _ => return Err(FrameError::Body(at)),
    };
    Ok(NeighborKey { port, address })
}
