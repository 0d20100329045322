//! The writer of a session: UPDATEs of all tables become one stream.
//!
//! The writer has no queue. The driver requests octets when the peer's socket can take octets; a slow peer is a cursor that
//! stands still.

use crate::family::{ByFamily, Families, FamilyCodes, FamilyIndex};
use crate::shard::{PeerIndex, Sent};
use crate::table::Table;
use crate::wire::attribute::{Flags, code};
use crate::wire::{MessageType, header};
use alloc::vec::Vec;

/// The writer of one session: joins the tables' UPDATEs for a peer into one stream.
#[derive(Debug)]
pub struct Writer {
    peer: PeerIndex,
    /// The table that has the next turn.
    turn: usize,
    /// The number of tables, and the number that have sent all their routes of each family.
    tables: usize,
    told: ByFamily<usize>,
    /// The families on the wire.
    codes: FamilyCodes,
    /// The counts of sent messages in this session.
    pub sent: Sent,
}

impl Writer {
    /// Makes the writer of a new session.
    pub fn new(peer: PeerIndex, tables: usize, codes: FamilyCodes) -> Self {
        Writer { peer, turn: 0, tables, told: ByFamily::default(), codes, sent: Sent::default() }
    }

    /// Makes the writer of a session from before a live upgrade: all routes are advertised, and `sent` counts the messages.
    pub fn resumed(peer: PeerIndex, tables: usize, codes: FamilyCodes, sent: Sent) -> Self {
        Writer { told: ByFamily::from_fn(|_| tables), sent, ..Writer::new(peer, tables, codes) }
    }

    /// Returns the peer's number.
    pub const fn peer(&self) -> PeerIndex {
        self.peer
    }

    /// Appends messages up to about `limit` octets, and returns true if there are more. Tables take turns.
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

    /// Notes that a table has advertised all routes of these families. After the last table, the End-of-RIB markers are sent.
    #[inline]
    pub fn ended(&mut self, families: Families, out: &mut Vec<u8>) {
        for family in families.iter() {
            self.told[family] += 1;
            if self.told[family] == self.tables {
                put_end_of_rib(family, &self.codes, out);
                self.sent.updates += 1;
            }
        }
    }
}

/// Appends the End-of-RIB marker (RFC 4724, section 2).
pub fn put_end_of_rib(family: FamilyIndex, codes: &FamilyCodes, out: &mut Vec<u8>) {
    let at = header::start(out, MessageType::Update);
    if family == FamilyIndex::IPV4 {
        out.extend_from_slice(&[0, 0, 0, 0]);
    } else {
        let [a, b, safi] = codes.of(family).octets();
        out.extend_from_slice(&[0, 0, 0, 6, Flags::OPTIONAL, code::MP_UNREACH_NLRI, 3, a, b, safi]);
    }
    header::finish(out, at);
}
