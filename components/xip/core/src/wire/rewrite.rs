//! Changes of a packet in place: the selected edge and the hop limit.

use super::address::Node;
use super::edge::EdgeByte;
use super::header::{FIXED_LEN, HeaderError, LastNode, Packet, RowError, place};
use super::{AddressError, LinkDestination};
use sluice_base::Xid;

/// A packet that passed the checks at reception and whose octets may change.
#[derive(Debug)]
pub struct PacketMut<'a> {
    octets: &'a mut [u8],
    edges_row: usize,
}

impl<'a> PacketMut<'a> {
    /// Checks a packet from a device, as [`Packet::receive`] does.
    ///
    /// # Errors
    /// The first failed check.
    pub fn receive(link: LinkDestination, octets: &'a mut [u8]) -> Result<Self, HeaderError> {
        let packet = Packet::receive(link, octets)?;
        let (len, edges_row) = (packet.octets().len(), packet.edges_row());
        let octets = octets.get_mut(..len).ok_or(HeaderError::ShortPayload)?;
        Ok(PacketMut { octets, edges_row })
    }

    /// Checks a packet, as [`Packet::parse`] does.
    ///
    /// # Errors
    /// The first failed check.
    pub fn parse(octets: &'a mut [u8]) -> Result<Self, HeaderError> {
        Self::receive(LinkDestination::ThisHost, octets)
    }

    /// Returns the packet to read.
    ///
    /// # Errors
    /// None in practice: every change keeps the header's checks true.
    pub fn packet(&self) -> Result<Packet<'_>, HeaderError> {
        Packet::parse(self.octets)
    }

    /// The packet's octets without padding.
    pub fn octets(&self) -> &[u8] {
        self.octets
    }

    /// Selects edge `edge` (0 to 3) of the current row: marks the edge and moves last_node to the edge's target.
    ///
    /// # Errors
    /// [`AddressError::EdgeOutOfRange`] if the row has no such edge or the edge leads to no destination row. The packet is
    /// unchanged then.
    pub fn select(&mut self, edge: u8) -> Result<LastNode, RowError> {
        const OUT_OF_RANGE: RowError = RowError::Edges(AddressError::EdgeOutOfRange);
        let edge = usize::from(edge);
        if edge >= Node::EDGES {
            return Err(OUT_OF_RANGE);
        }
        let place = FIXED_LEN + self.edges_row * Node::LEN + Xid::LEN + edge;
        let num_dst = self.octets.get(place::NUM_DST).copied().unwrap_or(0);
        let octet = self.octets.get_mut(place).ok_or(OUT_OF_RANGE)?;
        let target = EdgeByte(*octet);
        if target.index() >= num_dst {
            return Err(OUT_OF_RANGE);
        }
        *octet = target.chosen().0;
        self.octets[place::LAST_NODE] = target.index();
        self.edges_row = usize::from(target.index());
        Ok(LastNode::Row(target.index()))
    }

    /// Decrements the hop limit of a packet that is forwarded. Returns false, and changes nothing, if the limit is 0: such a
    /// packet is dropped.
    #[must_use]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let limit = &mut self.octets[place::HOP_LIMIT];
        let next = limit.checked_sub(1);
        *limit = next.unwrap_or(0);
        next.is_some()
    }
}
