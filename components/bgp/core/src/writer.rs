//! The writer of a session: what all tables have for a peer becomes one stream.
//!
//! Nothing is queued here. The driver asks for octets when the peer's socket can take them; a slow peer is a cursor that
//! stands still.

use crate::family::{ByFamily, Families, FamilyIndex};
use crate::shard::{PeerIndex, Sent};
use crate::table::Table;
use crate::wire::attribute::{Flags, code};
use crate::wire::{MessageType, header};
use alloc::vec::Vec;

/// The writer of one session: joins what the tables have for a peer into its stream.
#[derive(Debug)]
pub struct Writer {
    peer: PeerIndex,
    /// The table that has the next turn.
    turn: usize,
    /// The number of tables, and the number that have sent all their routes of each family.
    tables: usize,
    told: ByFamily<usize>,
    /// The counts of sent messages in this session.
    pub sent: Sent,
}

impl Writer {
    /// A writer of a session that has just come up.
    pub fn new(peer: PeerIndex, tables: usize) -> Self {
        Writer { peer, turn: 0, tables, told: ByFamily::default(), sent: Sent::default() }
    }

    /// The writer of a session whose peer was told everything, and that so much was sent in.
    pub fn resumed(peer: PeerIndex, tables: usize, sent: Sent) -> Self {
        Writer { told: ByFamily::from_fn(|_| tables), sent, ..Writer::new(peer, tables) }
    }

    /// The peer's number.
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// Appends messages up to about `limit` octets; returns whether there is more. Tables take turns.
    pub fn fill(&mut self, tables: &mut [Table], limit: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + limit;
        for _ in 0..tables.len() {
            let portion = tables[self.turn].fill(self.peer, end, out, &mut self.sent);
            self.turn = (self.turn + 1) % tables.len();
            self.ended(portion.ended, out);
            if portion.more {
                return true;
            }
        }
        false
    }

    /// A table has told all its routes of these families: when the last one has, the peer hears it.
    #[inline]
    pub fn ended(&mut self, families: Families, out: &mut Vec<u8>) {
        for family in families.iter() {
            self.told[family] += 1;
            if self.told[family] == self.tables {
                put_end_of_rib(family, out);
                self.sent.updates += 1;
            }
        }
    }
}

/// Appends the End-of-RIB marker (RFC 4724, section 2).
pub fn put_end_of_rib(family: FamilyIndex, out: &mut Vec<u8>) {
    let at = header::start(out, MessageType::Update);
    if family == FamilyIndex::IPV4 {
        out.extend_from_slice(&[0, 0, 0, 0]);
    } else {
        let row = family.row();
        let [a, b] = row.afi.to_be_bytes();
        out.extend_from_slice(&[0, 0, 0, 6, Flags::OPTIONAL, code::MP_UNREACH_NLRI, 3, a, b, row.safi]);
    }
    header::finish(out, at);
}
