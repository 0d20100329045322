//! Messages of NWP written.

use super::{Announcement, Listed, MOST_HIDS, Message, Probe, VERSION, kind};
use crate::wire::Mac;
use alloc::vec::Vec;

/// The first four octets of a message.
pub(super) fn put_head(kind: u8, hid_count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, kind, hid_count as u8, Mac::LEN as u8]);
}

impl Message<'_> {
    /// Appends the message. Clocks and states are written where the message has them; HIDs and addresses beyond 255 are left
    /// out.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Message::Announcement(announcement) => announcement.put(out),
            Message::List(neighbors) => put_list(neighbors, out),
            Message::Probe(probe) => probe.put(out),
            Message::Challenge(challenge) => challenge.put(out),
            Message::Response(response) => response.put(out),
        }
    }
}

impl Announcement {
    fn put(&self, out: &mut Vec<u8>) {
        let hids = self.hids.get(..self.hids.len().min(MOST_HIDS)).unwrap_or_default();
        put_head(kind::ANNOUNCEMENT, hids.len(), out);
        if let Some(clock) = self.clock {
            out.extend_from_slice(&clock.to_be_bytes());
        }
        out.extend_from_slice(&self.sender.0);
        hids.iter().for_each(|hid| out.extend_from_slice(&hid.0));
    }
}

fn put_list(neighbors: &[Listed], out: &mut Vec<u8>) {
    let neighbors = neighbors.get(..neighbors.len().min(MOST_HIDS)).unwrap_or_default();
    put_head(kind::LIST, neighbors.len(), out);
    for neighbor in neighbors {
        let addresses = neighbor.addresses.get(..neighbor.addresses.len().min(255)).unwrap_or_default();
        out.extend_from_slice(&neighbor.hid.0);
        out.push(addresses.len() as u8);
        for address in addresses {
            out.extend_from_slice(&address.mac.0);
            if let Some(status) = address.status {
                out.extend_from_slice(&status.word().to_be_bytes());
            }
        }
    }
}

impl Probe {
    fn put(&self, out: &mut Vec<u8>) {
        put_head(self.kind.octet(), 0, out);
        out.extend_from_slice(&self.clock.to_be_bytes());
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.destination.0);
        if self.kind.has_investigated() {
            out.extend_from_slice(&self.investigated.unwrap_or(self.destination).0);
        }
    }
}
