//! Packets that wait for an answer of a process outside. Anybody can send packets that cause questions: their number, their octets
//! and their share of one XID are bounded, and the principal's limit bounds the time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sluice_base::Xid;

/// The way by which a packet came to the packet path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Made on this host.
    Made,
    /// From a tunnel, or in a frame to this host.
    ToThisHost,
    /// In a frame to a group of hosts. Each of them would forward a copy: the packet may be for this host only.
    ToGroup,
}

/// A packet whose decision is pending.
#[derive(Clone, Debug)]
pub(crate) struct WaitingPacket {
    /// The XID whose answer is awaited.
    pub(crate) xid: Xid,
    /// The packet, with the edges selected before.
    pub(crate) octets: Vec<u8>,
    /// The way by which the packet came here.
    pub(crate) arrival: Arrival,
    /// The number of answers that the packet has waited for before.
    pub(crate) waits: u8,
}

/// The packets that wait, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingPackets {
    packets: VecDeque<WaitingPacket>,
    octets: usize,
}

impl WaitingPackets {
    /// The most packets.
    const MOST: usize = 512;
    /// The most packets for one XID: others of the flow follow when the answer is known.
    const MOST_OF_ONE: usize = 16;
    /// The most octets of all packets.
    const MOST_OCTETS: usize = 1 << 20;
    /// The most answers that one packet waits for, one after another.
    pub(crate) const MOST_WAITS: u8 = 4;

    /// Keeps a packet. Returns false, and drops the packet, if there is no room.
    pub(crate) fn push(&mut self, packet: WaitingPacket) -> bool {
        let of_xid = self.packets.iter().filter(|waiting| waiting.xid == packet.xid).count();
        let has_room = self.packets.len() < Self::MOST
            && of_xid < Self::MOST_OF_ONE
            && self.octets + packet.octets.len() <= Self::MOST_OCTETS;
        if has_room {
            self.octets += packet.octets.len();
            self.packets.push_back(packet);
        }
        has_room
    }

    /// Takes the packets whose XID has been decided, in the order of their arrival.
    pub(crate) fn take_ready(&mut self, is_waiting: impl Fn(Xid) -> bool) -> Vec<WaitingPacket> {
        if !self.packets.iter().any(|packet| !is_waiting(packet.xid)) {
            return Vec::new();
        }
        let (waiting, ready): (Vec<_>, Vec<_>) =
            self.packets.drain(..).partition(|packet| is_waiting(packet.xid));
        self.packets = waiting.into();
        self.octets = self.packets.iter().map(|packet| packet.octets.len()).sum();
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use sluice_base::XidType;

    fn packet(octet: u8, length: usize) -> WaitingPacket {
        let xid = Xid { kind: XidType(0x12), id: [octet; 20] };
        WaitingPacket { xid, octets: vec![octet; length], arrival: Arrival::ToThisHost, waits: 0 }
    }

    #[test]
    fn packets_are_bounded_in_number_in_octets_and_for_one_xid() {
        let mut waiting = WaitingPackets::default();
        assert_eq!((0..100).filter(|_| waiting.push(packet(1, 40))).count(), WaitingPackets::MOST_OF_ONE);
        assert!(!waiting.push(packet(2, WaitingPackets::MOST_OCTETS)));
        let others = (2..=255).flat_map(|octet| [packet(octet, 40), packet(octet, 41), packet(octet, 42)]);
        let kept = others.filter(|packet| waiting.push(packet.clone())).count();
        assert_eq!(kept, WaitingPackets::MOST - WaitingPackets::MOST_OF_ONE);
    }

    #[test]
    fn packets_of_decided_xids_leave_in_order_and_make_room() {
        let mut waiting = WaitingPackets::default();
        for (octet, length) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
            assert!(waiting.push(packet(octet, length)));
        }
        assert!(waiting.take_ready(|_| true).is_empty());
        let ready = waiting.take_ready(|xid| xid.id != [1; 20]);
        assert_eq!(ready.iter().map(|packet| packet.octets.len()).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(waiting.octets, 6);
        assert_eq!(waiting.take_ready(|_| false).len(), 2);
        assert_eq!(waiting.octets, 0);
    }
}
