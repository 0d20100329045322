//! Update groups: peers with equal Adj-RIBs-Out share one branch and one packing of UPDATEs.
//!
//! A group is a [`Branch`] and the last few packed blocks; a member is a cursor in the blocks. The member ahead packs the next
//! block, and the remaining members copy the block. Members leave a group in two cases. Members that fall too many blocks behind become
//! a separate group with the blocks still to read, so that no member waits for slow members and nothing is queued for slow members. A
//! member that requests a refresh, or has just come up, is alone until all routes are advertised. Two groups of one key that have advertised
//! everything become one group.

use super::Core;
use super::branch::{Branch, Item, Source};
use super::entry::{PathNumber, PeerIndex};
use super::export_view::ExportView;
use super::exporter::Exporter;
use super::filled::Filled;
use super::monitor::SentBlock;
use super::pack::{Block, NextHopsFor, Packer, Sent};
use super::queue::Cursor;
use super::reexport::Comparison;
use super::rules::{Announced, Checked, run_check};
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_stage::{CheckStage, Violation};
use sluice_validation::VrpTable;

/// Changes that go into one block.
const BLOCK_CHANGES: usize = 2048;
/// The number of no group.
const NO_GROUP: u32 = u32::MAX;
/// When a member is this many blocks behind the first member, all members more than half as many blocks behind become a separate group:
/// slow members stay together.
const MOST_BLOCKS: usize = 16;

#[derive(Debug)]
struct Member {
    peer: PeerIndex,
    /// The number of the block that the member reads next.
    block: u64,
    /// The next message in the block.
    message: usize,
    /// True if the End-of-RIB marker was sent.
    end_of_rib: bool,
    refresh: Refresh,
}

/// A route refresh of a member (RFC 7313), with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refresh {
    /// No refresh, or one without marks.
    None,
    /// The mark of the beginning is due.
    Begins(u32),
    /// Routes are advertised again.
    Runs(u32),
}

/// A block, and the number of members that have yet to read the block. The count avoids a look at all members, of which there may be
/// thousands.
#[derive(Clone)]
struct Pending {
    block: Arc<Block>,
    unread: usize,
}

/// Members of a group with another view from now on.
struct Move {
    group: usize,
    view: Arc<ExportView>,
    peers: Vec<PeerIndex>,
}

struct Group<P: FamilyKey> {
    view: Arc<ExportView>,
    branch: Branch,
    blocks: VecDeque<Pending>,
    /// The number of the first of `blocks`.
    first: u64,
    /// By peer.
    members: Vec<Member>,
    check: Option<Box<CheckStage<Announced<P>>>>,
}

impl<P: FamilyKey> Group<P> {
    fn end(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// Notes that a member has read the block of this number. Returns the last block that all members have read, if any.
    fn read(&mut self, number: u64) -> Option<Arc<Block>> {
        if let Some(pending) = self.blocks.get_mut((number - self.first) as usize) {
            pending.unread -= 1;
        }
        self.drop_read_blocks()
    }

    /// Counts the readers of each block again after a change of members, and drops blocks without readers.
    fn recount(&mut self) {
        for (number, pending) in (self.first..).zip(&mut self.blocks) {
            pending.unread = self.members.iter().filter(|m| m.block <= number).count();
        }
        self.drop_read_blocks();
    }

    /// Drops blocks that all members have read, and returns the last dropped block.
    fn drop_read_blocks(&mut self) -> Option<Arc<Block>> {
        let mut last = None;
        while self.blocks.front().is_some_and(|pending| pending.unread == 0) {
            last = self.blocks.pop_front().map(|pending| pending.block);
            self.first += 1;
        }
        last
    }

    /// Returns changes that the members are sent, for monitors.
    #[cold]
    fn sent_block(&self, items: &[Item]) -> SentBlock {
        let has_paths = self.view.paths.is_some();
        let path = |item: &Item| item.source.path().or(item.before.path()).filter(|_| has_paths);
        let change = |item: &Item| (item.entry, path(item).unwrap_or(PathNumber::NONE), item.before);
        SentBlock {
            members: self.members.iter().map(|member| member.peer).collect(),
            changes: items.iter().map(change).collect(),
        }
    }

    /// Returns true if all changes are packed and read: the group's Adj-RIB-Out is complete then.
    fn is_settled(&self, queue_end: Cursor) -> bool {
        self.blocks.is_empty() && self.branch.is_idle(queue_end) && !self.branch.is_reexporting()
    }
}

/// The update groups of a shard.
pub(super) struct Groups<P: FamilyKey> {
    groups: Vec<Option<Group<P>>>,
    /// The number of each peer's group, by peer; [`NO_GROUP`] for a peer without a group.
    places: Vec<u32>,
    packer: Packer,
    items: Vec<Item>,
    /// The outcomes of the block in the making.
    exporter: Exporter,
    /// The outcomes of the slice of a walk after a change of a view.
    comparison: Comparison,
    /// A small unused block, kept for reuse.
    spare: Option<Arc<Block>>,
    checked: Checked,
    /// True if monitors are told what members are sent.
    pub notes_sent: bool,
    /// The changes that members were sent and that no monitor was told.
    pub sent_blocks: Vec<SentBlock>,
}

impl<P: FamilyKey> Default for Groups<P> {
    fn default() -> Self {
        Groups {
            groups: Vec::new(),
            places: Vec::new(),
            packer: Packer::default(),
            items: Vec::new(),
            exporter: Exporter::default(),
            comparison: Comparison::default(),
            spare: None,
            checked: Checked::default(),
            notes_sent: false,
            sent_blocks: Vec::new(),
        }
    }
}

impl<P: FamilyKey> Groups<P> {
    /// Puts a checking stage before the PeerOut of a peer, or of all peers without one; or removes it.
    pub fn check(&mut self, peer: Option<PeerIndex>, on: bool) {
        self.checked.set(peer, on);
        (0..self.groups.len()).for_each(|index| self.settle_check(index));
    }

    /// A group has a checking stage if one of the members is checked. The stage knows one route of each prefix.
    fn settle_check(&mut self, index: usize) {
        let Some(group) = &mut self.groups[index] else { return };
        let is_wanted = group.members.iter().any(|member| self.checked.covers(member.peer));
        match is_wanted && group.view.paths.is_none() {
            true => _ = group.check.get_or_insert_with(|| Box::new(CheckStage::late())),
            false => group.check = None,
        }
    }

    /// Returns true if members of a group are sent several paths of a prefix.
    pub fn send_several_paths(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.view.paths.is_some())
    }

    /// Takes changed paths to the groups whose members are sent several paths of a prefix.
    pub fn note_paths(&mut self, changed: &mut Vec<(u32, PathNumber)>) {
        for paths_out in self.groups.iter_mut().flatten().filter_map(|g| g.branch.paths_out.as_mut()) {
            changed.iter().for_each(|(entry, path)| paths_out.note(*entry, *path));
        }
        changed.clear();
    }

    /// Iterates over the violations that the checking stages found.
    pub fn violations(&self) -> impl Iterator<Item = &Violation<Announced<P>>> {
        self.groups.iter().flatten().filter_map(|g| g.check.as_ref()).flat_map(|c| c.violations())
    }

    fn add(&mut self, group: Group<P>) -> usize {
        let free = self.groups.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        group.members.iter().for_each(|m| self.place(m.peer, index as u32));
        self.groups[index] = Some(group);
        index
    }

    fn place(&mut self, peer: PeerIndex, group: u32) {
        let peer = usize::from(peer.0);
        if self.places.len() <= peer {
            self.places.resize(peer + 1, NO_GROUP);
        }
        self.places[peer] = group;
    }

    /// The group of a peer, and the peer's position in it.
    fn find(&self, peer: PeerIndex) -> Option<(usize, usize)> {
        let index = *self.places.get(usize::from(peer.0)).filter(|index| **index != NO_GROUP)? as usize;
        let group = self.groups.get(index)?.as_ref()?;
        Some((index, group.members.binary_search_by_key(&peer, |m| m.peer).ok()?))
    }

    /// Adds a member with an empty Adj-RIB-Out.
    pub fn join(&mut self, peer: PeerIndex, view: Arc<ExportView>, queue_end: Cursor) {
        self.leave(peer);
        let is_checked = self.checked.covers(peer) && view.paths.is_none();
        let check = is_checked.then(|| Box::new(CheckStage::new()));
        let mut branch = Branch::new(queue_end);
        branch.paths_out = view.paths.map(|_| Box::default());
        self.add(Group {
            view,
            branch,
            blocks: VecDeque::new(),
            first: 0,
            members: Vec::from([Member {
                peer,
                block: 0,
                message: 0,
                end_of_rib: false,
                refresh: Refresh::None,
            }]),
            check,
        });
    }

    pub fn leave(&mut self, peer: PeerIndex) {
        let Some((index, position)) = self.find(peer) else { return };
        self.place(peer, NO_GROUP);
        if let Some(group) = &mut self.groups[index] {
            group.members.remove(position);
            group.recount();
            if group.members.is_empty() {
                self.groups[index] = None;
            }
            self.settle_check(index);
        }
    }

    /// Moves members into a new group with the same Adj-RIB-Out.
    fn split(&mut self, index: usize, leaves: impl Fn(&Member) -> bool) -> Option<usize> {
        let group = self.groups[index].as_mut()?;
        let (leaving, staying): (Vec<Member>, Vec<Member>) = group.members.drain(..).partition(leaves);
        group.members = staying;
        let mut own = Group {
            view: group.view.clone(),
            branch: group.branch.clone(),
            blocks: group.blocks.clone(),
            first: group.first,
            members: leaving,
            check: None,
        };
        own.recount();
        group.recount();
        if group.members.is_empty() {
            self.groups[index] = None;
        }
        let own = self.add(own);
        self.settle_check(index);
        self.settle_check(own);
        Some(own)
    }

    /// Advertises all routes to a member again: after a ROUTE-REFRESH (RFC 2918), or because the member is told other next hops. The
    /// member has the view `view` from now on, if there is one. A `number` above 0 has the beginning and the end marked.
    pub fn refresh(&mut self, peer: PeerIndex, view: Option<Arc<ExportView>>, number: u32) {
        let Some((index, _)) = self.find(peer) else { return };
        if let Some(own) = self.split(index, |m| m.peer == peer)
            && let Some(group) = &mut self.groups[own]
        {
            group.branch.advertise_again();
            if number > 0 {
                group.members.iter_mut().for_each(|member| member.refresh = Refresh::Begins(number));
            }
            group.view = view.unwrap_or_else(|| group.view.clone());
        }
    }

    /// Gives members other views. Members of one group with one new view stay together. Routes with another outcome under the new view are
    /// advertised, after a walk in slices; `entries` is the number of entries.
    pub fn set_views(&mut self, views: &[(PeerIndex, Arc<ExportView>)], entries: u32) {
        let mut moves: Vec<Move> = Vec::new();
        for (peer, view) in views {
            let Some((group, _)) = self.find(*peer) else { continue };
            if self.groups[group].as_ref().is_some_and(|group| group.view == *view) {
                continue;
            }
            match moves.iter_mut().find(|known| known.group == group && known.view == *view) {
                Some(known) => known.peers.push(*peer),
                None => moves.push(Move { group, view: view.clone(), peers: Vec::from([*peer]) }),
            }
        }
        for Move { group, view, peers } in moves {
            if let Some(own) = self.split(group, |member| peers.contains(&member.peer))
                && let Some(group) = &mut self.groups[own]
            {
                let old = core::mem::replace(&mut group.view, view);
                group.branch.change_view(old, entries);
            }
        }
    }

    /// Returns true if the members of a group are told routes by their validation.
    pub fn ask_for_validation(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.view.asks_for_validation())
    }

    /// Has the groups export an entry again whose policies decide otherwise on its best path than under earlier payloads, unless a
    /// change of the entry waits for them anyway.
    pub fn export_again(&mut self, core: &Core<P>, entry: u32, before: &[Option<Arc<VrpTable>>]) {
        for group in self.groups.iter_mut().flatten().filter(|group| group.view.asks_for_validation()) {
            if let Some(paths_out) = &mut group.branch.paths_out {
                for path in core.entries.paths(entry).iter().map(|path| path.number) {
                    let is_other = core.path(entry, path).is_some_and(|found| {
                        let mut policies =
                            group.view.policy_for(found.peer).into_iter().chain(&group.view.further);
                        policies.any(|policy| core.decides_otherwise(policy, entry, found, before))
                    });
                    if is_other {
                        paths_out.note(entry, path);
                    }
                }
                continue;
            }
            let best = core.best_towards(&group.view, entry);
            let is_other = best.is_some_and(|best| {
                let policy = group.view.policy_for(best.peer);
                policy.is_some_and(|policy| core.decides_otherwise(policy, entry, best, before))
            });
            if is_other && !core.queue.is_pending(&core.entries, entry, group.branch.cursor) {
                group.branch.due.insert(entry);
            }
        }
    }

    /// Returns true if a group has entries to compare after a change of its view.
    pub fn is_reexporting(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.branch.is_reexporting())
    }

    /// Compares up to `limit` entries of a group whose view changed.
    pub fn compare_slice(&mut self, core: &Core<P>, limit: usize) {
        let mut groups = self.groups.iter_mut().flatten();
        if let Some(group) = groups.find(|group| group.branch.is_reexporting()) {
            group.branch.compare_slice(core, &group.view, limit, &mut self.comparison);
        }
    }

    /// Returns true if there are changes to advertise to a member.
    pub fn has_output(&self, peer: PeerIndex, queue_end: Cursor) -> bool {
        let Some((index, position)) = self.find(peer) else { return false };
        self.groups[index].as_ref().is_some_and(|group| {
            let member = &group.members[position];
            member.block < group.end() || !group.branch.is_idle(queue_end) || !member.end_of_rib
        })
    }

    /// Adds all members with changes to advertise to `out`. Groups at rest cost nothing, whatever the number of members.
    pub fn with_output(&self, queue_end: Cursor, out: &mut Vec<PeerIndex>) {
        for group in self.groups.iter().flatten() {
            // A newcomer is sent its End-of-RIB marker together with the end of the dump: no settled group owes one.
            if group.is_settled(queue_end) {
                continue;
            }
            let (end, is_behind) = (group.end(), !group.branch.is_idle(queue_end));
            let with_output = group.members.iter().filter(|m| is_behind || m.block < end);
            out.extend(with_output.map(|m| m.peer));
        }
    }

    /// Returns the Adj-RIB-Out of a member: the view and the branch of the group.
    pub fn adj_rib_out(&self, peer: PeerIndex) -> Option<(&Arc<ExportView>, &Branch)> {
        let (index, _) = self.find(peer)?;
        self.groups[index].as_ref().map(|g| (&g.view, &g.branch))
    }

    /// Fills `out` with UPDATEs for `peer`, up to about `limit` octets; `hop` has the next hops to advertise to the peer.
    pub fn fill(
        &mut self,
        core: &Core<P>,
        peer: PeerIndex,
        hop: &NextHopsFor<'_, P::Hop>,
        limit: usize,
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) -> Filled {
        let mut place = self.find(peer);
        loop {
            let Some((index, position)) = place else { return Filled::Dry };
            let Some(group) = &mut self.groups[index] else { return Filled::Dry };
            let member = &mut group.members[position];
            if let Refresh::Begins(number) = member.refresh {
                member.refresh = Refresh::Runs(number);
                return Filled::BeginOfRefresh(number);
            }
            if let Some(Pending { block, .. }) = group.blocks.get((member.block - group.first) as usize) {
                while let Some(message) = block.message(member.message) {
                    if out.len() >= limit {
                        return Filled::Full;
                    }
                    block.copy::<P>(message, Source::of(peer), hop, out, sent);
                    member.message += 1;
                }
                let number = member.block;
                block.count_too_large(Source::of(peer), sent);
                member.block += 1;
                member.message = 0;
                if let Some(block) = group.read(number) {
                    self.keep(block);
                }
                continue;
            }
            if group.branch.dump.is_none() && !core::mem::replace(&mut member.end_of_rib, true) {
                return Filled::EndOfRib;
            }
            if let Refresh::Runs(number) = member.refresh
                && group.branch.dump.is_none()
            {
                member.refresh = Refresh::None;
                return Filled::EndOfRefresh(number);
            }
            if group.branch.is_idle(core.queue.end()) {
                if self.groups.len() > 1 {
                    self.merge(core, index);
                }
                return Filled::Dry;
            }
            if out.len() >= limit {
                return Filled::Full;
            }
            if group.blocks.len() >= MOST_BLOCKS {
                let half = group.first + (MOST_BLOCKS / 2) as u64;
                self.split(index, |m| m.block < half);
                place = self.find(peer);
                continue;
            }
            self.produce(core, index);
        }
    }

    /// Keeps a block for the next single routes, if no group shares the block.
    fn keep(&mut self, mut block: Arc<Block>) {
        if Arc::get_mut(&mut block).is_some_and(|block| block.is_small()) {
            self.spare = Some(block);
        }
    }

    /// Packs the next block of a group.
    fn produce(&mut self, core: &Core<P>, index: usize) {
        let Some(group) = &mut self.groups[index] else { return };
        self.items.clear();
        self.exporter.clear();
        group.branch.gather_for(core, &group.view, BLOCK_CHANGES, &mut self.exporter, &mut self.items);
        let too_large = core::mem::take(&mut self.exporter.too_large);
        if let Some(check) = &mut group.check {
            run_check(check, core, &group.view, &self.items);
        }
        if self.items.is_empty() && too_large.is_empty() {
            return;
        }
        if self.notes_sent {
            self.sent_blocks.push(group.sent_block(&self.items));
        }
        let (places, number) = (&self.places, index as u32);
        // ORIGINATOR_ID is made of the peer of a route (RFC 4456, section 8).
        let reflects = group.view.reflection.is_some();
        let watched = |source: Source| {
            let Some(peer) = source.path().map(|path| core.lanes.peer(path)) else { return Source::NONE };
            let is_originator = || reflects && core.peers[usize::from(peer.0)].info.internal;
            let is_member = places.get(usize::from(peer.0)) == Some(&number);
            if is_member || is_originator() { Source::of(peer) } else { Source::NONE }
        };
        let mut block = self.spare.take().unwrap_or_default();
        if let Some(block) = Arc::get_mut(&mut block) {
            self.packer.pack(core, &group.view, &self.exporter, &self.items, watched, block);
            block.too_large = too_large;
            block.reduced = self.exporter.reduced_among(core, &self.items);
        }
        let unread = group.members.len();
        group.blocks.push_back(Pending { block, unread });
    }

    /// Merges a settled group into a settled group of an equal view.
    fn merge(&mut self, core: &Core<P>, index: usize) {
        let queue_end = core.queue.end();
        let Some(group) = self.groups[index].as_ref().filter(|g| g.is_settled(queue_end)) else { return };
        let view = &group.view;
        // Several paths are selected by what is known of their next hops now. Until the entries of a changed next hop are decided again, of two
        // settled groups one may have selected a path by the change, and the other one not.
        if view.paths.is_some() && core.resolver.has_work() {
            return;
        }
        let is_equal = |g: &Group<P>| Arc::ptr_eq(&g.view, view) || g.view == *view;
        let settled = |g: &Group<P>| g.is_settled(queue_end) && is_equal(g);
        let other = |(i, g): (usize, &Option<Group<P>>)| i != index && g.as_ref().is_some_and(settled);
        let Some(other) = self.groups.iter().enumerate().position(other) else { return };
        // Into the lower place, so that there are no more places to look at than groups.
        let (target, index) = (other.min(index), other.max(index));
        let Some(group) = self.groups[index].take() else { return };
        while self.groups.pop_if(|last| last.is_none()).is_some() {}
        group.members.iter().for_each(|m| self.place(m.peer, target as u32));
        if let Some(target) = &mut self.groups[target] {
            let block = target.end();
            target.members.extend(group.members.into_iter().map(|m| Member { block, message: 0, ..m }));
            target.members.sort_unstable_by_key(|m| m.peer);
        }
        self.settle_check(target);
    }

    /// Assumes that all routes are advertised to all members, by the process before a live upgrade. For groups with empty
    /// Adj-RIBs-Out.
    pub fn assume_advertised(&mut self, core: &Core<P>) {
        let mut told: Vec<Group<P>> = Vec::new();
        for group in self.groups.drain(..).flatten() {
            match told.iter_mut().find(|known| known.view == group.view) {
                Some(known) => known.members.extend(group.members),
                None => told.push(group),
            }
        }
        for mut group in told {
            while !group.branch.is_idle(core.queue.end()) {
                self.exporter.clear();
                group.branch.gather_for(
                    core,
                    &group.view,
                    BLOCK_CHANGES,
                    &mut self.exporter,
                    &mut self.items,
                );
                self.items.clear();
            }
            group.members.iter_mut().for_each(|m| m.end_of_rib = true);
            group.members.sort_unstable_by_key(|m| m.peer);
            // A stage that saw nothing of what is taken for advertised would find violations.
            group.check = None;
            let index = self.add(group);
            self.settle_check(index);
        }
    }

    /// Returns the number of advertised routes, over all groups.
    pub fn advertised_count(&self) -> usize {
        self.groups.iter().flatten().map(|group| group.branch.advertised_count() as usize).sum()
    }

    /// Iterates over the members of all groups.
    pub fn members(&self) -> impl Iterator<Item = PeerIndex> {
        self.groups.iter().flatten().flat_map(|group| &group.members).map(|member| member.peer)
    }

    /// Iterates over the cursors of all branches.
    pub fn cursors(&mut self) -> impl Iterator<Item = &mut Cursor> {
        self.groups.iter_mut().flatten().map(|g| &mut g.branch.cursor)
    }

    /// Returns a view of each group for operators: export view, members, pending blocks, and the distance to the end of the queue.
    pub fn plumbing(&self) -> impl Iterator<Item = (Arc<ExportView>, Vec<PeerIndex>, usize, Cursor, bool)> {
        self.groups.iter().flatten().map(|g| {
            let members = g.members.iter().map(|m| m.peer).collect();
            (g.view.clone(), members, g.blocks.len(), g.branch.cursor, g.check.is_some())
        })
    }
}
