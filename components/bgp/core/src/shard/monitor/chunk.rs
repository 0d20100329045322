//! The routes of a shard for a monitoring station.
use super::log::MonitoredRib;
use crate::family::FamilyIndex;
use crate::shard::entry::PeerIndex;
use alloc::vec::Vec;

/// An UPDATE message for a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MonitoredUpdate {
    /// The family.
    pub family: FamilyIndex,
    /// The RIB that the routes are in.
    pub rib: MonitoredRib,
    /// The peer of the Adj-RIB-In or Adj-RIB-Out; the router itself for the Loc-RIB.
    pub peer: PeerIndex,
    /// True for routes from before the monitor began.
    pub is_from_before: bool,
    /// The end of the message in [`MonitorChunk::octets`]. The message begins at the end of the previous message.
    pub end: usize,
}

/// Routes for a station.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonitorChunk {
    /// The messages, in order.
    pub updates: Vec<MonitoredUpdate>,
    /// The octets of the messages.
    pub octets: Vec<u8>,
    /// True if there is more to read.
    pub has_more: bool,
    /// True once the routes from before were all read.
    pub is_walked: bool,
    /// The number of changes that the monitor has yet to read.
    pub behind: u64,
}

impl MonitorChunk {
    /// Iterates over the messages and their octets.
    pub fn messages(&self) -> impl Iterator<Item = (&MonitoredUpdate, &[u8])> {
        let begins = core::iter::once(0).chain(self.updates.iter().map(|update| update.end));
        self.updates.iter().zip(begins).map(|(update, begin)| (update, &self.octets[begin..update.end]))
    }
}
