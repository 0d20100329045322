//! Packets written from their parts.

use super::address::Dag;
use super::header::{LastNode, VERSION, next_header};
use alloc::vec::Vec;
use core::fmt;

/// The parts of a header that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketHead {
    /// The destination; 1 to 9 nodes.
    pub destination: Dag,
    /// The source; may be empty.
    pub source: Dag,
    /// The hop limit.
    pub hop_limit: u8,
    /// The field next_hdr.
    pub next_header: u8,
}

impl PacketHead {
    /// The hop limit of packets made on this host.
    pub const HOP_LIMIT: u8 = 128;

    /// The head of a packet for the principal of the destination's sink, with the default hop limit.
    pub const fn new(destination: Dag, source: Dag) -> Self {
        PacketHead { destination, source, hop_limit: Self::HOP_LIMIT, next_header: next_header::PRINCIPAL }
    }

    /// Appends a packet at its entry node. Addresses are written as given: callers validate them.
    ///
    /// # Errors
    /// [`BuildError`]; `out` is unchanged then.
    pub fn put(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), BuildError> {
        if self.destination.is_empty() {
            return Err(BuildError::NoDestination);
        }
        let len = u16::try_from(payload.len()).map_err(|_| BuildError::LongPayload)?;
        let [high, low] = len.to_be_bytes();
        let (num_dst, num_src) = (self.destination.len() as u8, self.source.len() as u8);
        let last_node = LastNode::Entry.octet();
        out.extend_from_slice(&[
            VERSION,
            self.next_header,
            high,
            low,
            self.hop_limit,
            num_dst,
            num_src,
            last_node,
        ]);
        self.destination.put(out);
        self.source.put(out);
        out.extend_from_slice(payload);
        Ok(())
    }
}

/// The reason why a packet cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// The destination has no nodes.
    NoDestination,
    /// The payload is longer than 65,535 octets.
    LongPayload,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::NoDestination => "the destination has no nodes",
            BuildError::LongPayload => "the payload is longer than 65,535 octets",
        })
    }
}

impl core::error::Error for BuildError {}
