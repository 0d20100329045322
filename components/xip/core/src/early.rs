//! Packets that arrive before the RIB has sent its routes: a decision without them would be wrong. They wait, the first ones first, within
//! bounds.

use crate::io::Input;
use crate::links::Station;
use crate::wire::LinkDestination;
use alloc::collections::{VecDeque, vec_deque};
use alloc::vec::Vec;

/// A packet that has not been decided on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EarlyPacket {
    /// From an interface, see [`Input::Packet`].
    Link {
        /// The sender's address, and the interface.
        from: Station,
        /// The destination in the link layer.
        link: LinkDestination,
        /// The packet, which begins with the XIP header.
        octets: Vec<u8>,
    },
    /// From a tunnel.
    Datagram(Vec<u8>),
}

impl EarlyPacket {
    fn octets(&self) -> usize {
        match self {
            EarlyPacket::Link { octets, .. } | EarlyPacket::Datagram(octets) => octets.len(),
        }
    }
}

impl From<EarlyPacket> for Input {
    fn from(packet: EarlyPacket) -> Self {
        match packet {
            EarlyPacket::Link { from, link, octets } => Input::Packet { from, link, octets },
            EarlyPacket::Datagram(octets) => Input::Datagram(octets),
        }
    }
}

/// The packets that wait.
#[derive(Clone, Debug, Default)]
pub struct EarlyPackets {
    packets: VecDeque<EarlyPacket>,
    octets: usize,
    held: u64,
    lost: u64,
}

impl EarlyPackets {
    /// The most packets.
    pub const MOST: usize = 1024;
    /// The most octets of all packets.
    pub const MOST_OCTETS: usize = 2 << 20;

    /// Keeps a packet, or counts it as lost if there is no room.
    pub fn push(&mut self, packet: EarlyPacket) {
        let octets = self.octets + packet.octets();
        if self.packets.len() == Self::MOST || octets > Self::MOST_OCTETS {
            self.lost += 1;
            return;
        }
        self.octets = octets;
        self.held += 1;
        self.packets.push_back(packet);
    }

    /// Takes all packets, in the order of their arrival.
    pub fn take(&mut self) -> vec_deque::IntoIter<EarlyPacket> {
        self.octets = 0;
        core::mem::take(&mut self.packets).into_iter()
    }

    /// Returns the number of packets that had to wait.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Returns the number of packets for which there was no room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn packet(length: usize) -> EarlyPacket {
        EarlyPacket::Datagram(vec![0; length])
    }

    #[test]
    fn packets_leave_in_the_order_of_their_arrival() {
        let mut early = EarlyPackets::default();
        (1..4).for_each(|length| early.push(packet(length)));
        assert_eq!(early.take().map(|packet| packet.octets()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(early.take().count(), 0);
        assert_eq!((early.held(), early.lost()), (3, 0));
    }

    #[test]
    fn packets_beyond_the_bounds_are_counted() {
        let mut early = EarlyPackets::default();
        (0..EarlyPackets::MOST + 5).for_each(|_| early.push(packet(40)));
        assert_eq!((early.held(), early.lost()), (EarlyPackets::MOST as u64, 5));
        assert_eq!(early.take().count(), EarlyPackets::MOST);
        early.push(packet(EarlyPackets::MOST_OCTETS));
        early.push(packet(1));
        assert_eq!((early.take().count(), early.lost()), (1, 6));
        early.push(packet(1));
        assert_eq!(early.take().count(), 1);
    }
}
