//! The writer of a session: UPDATEs of the tables become one stream.
//!
//! The writer has no queue. The driver requests octets when the peer's socket can take octets; a slow peer is a cursor that
//! stands still.

use crate::family::{ByFamily, Families, FamilyCodes, FamilyIndex};
use crate::shard::{PeerIndex, Sent};
use crate::table::{Marks, Table};
use crate::wire::attribute::{Flags, code};
use crate::wire::route_refresh::subtype;
use crate::wire::{MessageType, RouteRefresh, header};
use alloc::vec::Vec;

/// The writer of one session: joins the tables' UPDATEs for a peer into one stream.
#[derive(Debug)]
pub struct Writer {
    peer: PeerIndex,
    /// The table that has the next turn.
    turn: usize,
    /// The number of tables, and the number of tables with complete announcements of each family.
    tables: usize,
    ended: ByFamily<usize>,
    /// The families on the wire.
    codes: FamilyCodes,
    /// True if route refreshes are marked (RFC 7313).
    marks_refreshes: bool,
    refreshes: ByFamily<Refresh>,
    /// The counts of sent messages in this session.
    pub sent: Sent,
}

impl Writer {
    /// Makes the writer of a new session.
    pub fn new(peer: PeerIndex, tables: usize, codes: FamilyCodes) -> Self {
        let (ended, refreshes, sent) = (ByFamily::default(), ByFamily::default(), Sent::default());
        Writer { peer, turn: 0, tables, ended, codes, marks_refreshes: false, refreshes, sent }
    }

    /// Returns the writer with route refreshes marked or not.
    #[must_use]
    pub(crate) const fn marking(mut self, marks_refreshes: bool) -> Self {
        self.marks_refreshes = marks_refreshes;
        self
    }

    /// Makes the writer of a session from before a live upgrade: the routes are advertised, and `sent` counts the messages.
    pub fn resumed(peer: PeerIndex, tables: usize, codes: FamilyCodes, sent: Sent) -> Self {
        Writer { ended: ByFamily::from_fn(|_| tables), sent, ..Writer::new(peer, tables, codes) }
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
            self.mark(&portion.marks, out);
            if portion.more {
                return true;
            }
        }
        false
    }

    /// Appends the messages for a table's marks.
    #[inline]
    pub fn mark(&mut self, marks: &Marks, out: &mut Vec<u8>) {
        if !marks.is_empty() {
            self.ended(marks.ended, out);
            self.mark_refreshes(marks, out);
        }
    }

    /// Records the begins and ends of route refreshes in a table's stream. The first begin is announced, and the last
    /// end. A refresh that begins before the End-of-RIB marker is not announced (RFC 7313, section 4).
    #[inline(never)]
    fn mark_refreshes(&mut self, marks: &Marks, out: &mut Vec<u8>) {
        for family in FamilyIndex::all() {
            let (begun, ended) = (marks.begun[family], marks.refreshed[family]);
            let refresh = &mut self.refreshes[family];
            if begun > refresh.number {
                let is_marked = self.marks_refreshes && self.ended[family] == self.tables;
                *refresh = Refresh { number: begun, ended: 0, is_marked };
                if is_marked {
                    put_refresh(family, &self.codes, subtype::BEGIN, out);
                }
            }
            if ended > 0 && ended == refresh.number {
                refresh.ended += 1;
                if refresh.ended == self.tables && refresh.is_marked {
                    put_refresh(family, &self.codes, subtype::END, out);
                }
            }
        }
    }

    /// Records that a table has advertised these families completely. After the last table, the End-of-RIB markers are sent.
    #[inline]
    fn ended(&mut self, families: Families, out: &mut Vec<u8>) {
        for family in families.iter() {
            self.ended[family] += 1;
            if self.ended[family] == self.tables {
                put_end_of_rib(family, &self.codes, out);
                self.sent.updates += 1;
            }
        }
    }
}

/// The latest route refresh of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Refresh {
    /// The number; 0 without a refresh.
    number: u32,
    /// The number of tables with a complete new advertisement.
    ended: usize,
    /// True if the beginning was announced.
    is_marked: bool,
}

fn put_refresh(family: FamilyIndex, codes: &FamilyCodes, subtype: u8, out: &mut Vec<u8>) {
    let code = codes.of(family);
    RouteRefresh::new(code.afi, code.safi, subtype).put(out);
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
