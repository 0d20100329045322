//! An update group: members with the same export view, and the blocks that members have yet to read.

use super::branch::Branch;
use super::export_view::ExportView;
use super::item::{Item, SentBlock};
use super::pack::Block;
use super::rules::Announced;
use crate::shard::entry::{PathNumber, PeerIndex};
use crate::shard::queue::Cursor;
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_stage::CheckStage;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) peer: PeerIndex,
    /// The number of the block that the member reads next.
    pub(super) block: u64,
    /// The next message in the block.
    pub(super) message: usize,
    /// True if the End-of-RIB marker was sent.
    pub(super) end_of_rib: bool,
    pub(super) refresh: Refresh,
}

/// A route refresh of a member (RFC 7313), with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refresh {
    /// No refresh, or a refresh without marks.
    None,
    /// The mark of the beginning is due.
    Begins(u32),
    /// Routes are advertised again.
    Runs(u32),
}

/// A block, and the number of members yet to read the block. The count avoids a scan of the members, possibly thousands.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) block: Arc<Block>,
    pub(super) unread: usize,
}

/// Members of a group with a new view.
pub(super) struct Move {
    pub(super) group: usize,
    pub(super) view: Arc<ExportView>,
    pub(super) peers: Vec<PeerIndex>,
}

pub(super) struct Group<P: FamilyKey> {
    pub(super) view: Arc<ExportView>,
    pub(super) branch: Branch,
    pub(super) blocks: VecDeque<Pending>,
    /// The number of the first of `blocks`.
    pub(super) first: u64,
    /// By peer.
    pub(super) members: Vec<Member>,
    pub(super) check: Option<Box<CheckStage<Announced<P>>>>,
}

impl<P: FamilyKey> Group<P> {
    pub(super) fn end(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// Notes a member's reading of the block of this number. Returns the last block read by every member, if any.
    pub(super) fn read(&mut self, number: u64) -> Option<Arc<Block>> {
        if let Some(pending) = self.blocks.get_mut((number - self.first) as usize) {
            pending.unread -= 1;
        }
        self.drop_read_blocks()
    }

    /// Counts the readers of each block again after a change of members, and drops blocks without readers.
    pub(super) fn recount(&mut self) {
        for (number, pending) in (self.first..).zip(&mut self.blocks) {
            pending.unread = self.members.iter().filter(|m| m.block <= number).count();
        }
        self.drop_read_blocks();
    }

    /// Drops blocks read by every member, and returns the last dropped block.
    fn drop_read_blocks(&mut self) -> Option<Arc<Block>> {
        let mut last = None;
        while self.blocks.front().is_some_and(|pending| pending.unread == 0) {
            last = self.blocks.pop_front().map(|pending| pending.block);
            self.first += 1;
        }
        last
    }

    /// Returns changes sent to the members, for monitors.
    #[cold]
    pub(super) fn sent_block(&self, items: &[Item]) -> SentBlock {
        let has_paths = self.view.paths.is_some();
        let path = |item: &Item| item.source.path().or(item.before.path()).filter(|_| has_paths);
        let change = |item: &Item| (item.entry, path(item).unwrap_or(PathNumber::NONE), item.before);
        SentBlock {
            members: self.members.iter().map(|member| member.peer).collect(),
            changes: items.iter().map(change).collect(),
        }
    }

    /// Returns true if every change is packed and read: the group's Adj-RIB-Out is complete.
    pub(super) fn is_settled(&self, queue_end: Cursor) -> bool {
        self.blocks.is_empty() && self.branch.is_idle(queue_end) && !self.branch.is_reexporting()
    }
}
