//! Update groups: peers with equal Adj-RIBs-Out share one branch and one packing of UPDATEs.
//!
//! A group is a [`Branch`] and the last few packed blocks; a member is a cursor in the blocks. The member ahead packs the next
//! block, and the remaining members copy the block. Members leave a group in two cases. Members that fall too many blocks behind
//! become a separate group with the blocks still to read, so no member waits for slow members and no more blocks are queued for
//! slow members. A member that requests a refresh, or has just come up, is alone until every route is advertised. Two groups with
//! the same key, and with complete Adj-RIBs-Out, become a single group.

use super::branch::Branch;
use super::comparison::Comparison;
use super::export_view::ExportView;
use super::exporter::Exporter;
use super::group::{Group, Member, Move, Refresh};
use super::item::{Item, SentBlock};
use super::pack::{Block, Packer};
use super::rules::{Announced, Checked};
use crate::shard::Core;
use crate::shard::entry::{PathNumber, PeerIndex};
use crate::shard::queue::Cursor;
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_stage::{CheckStage, Violation};
use sluice_validation::VrpTable;

/// The most changes in a block.
pub(super) const BLOCK_CHANGES: usize = 2048;

/// The number of no group.
const NO_GROUP: u32 = u32::MAX;

/// The most blocks that a member may be behind the first member. Beyond, every member more than half as many blocks behind moves
/// to a separate group: slow members stay together.
pub(super) const MOST_BLOCKS: usize = 16;

/// The Adj-RIBs-Out of the peers, by update group (RFC 4271, section 3.2): the routes sent to the members of each group.
pub(crate) struct AdjRibOut<P: FamilyKey> {
    pub(super) groups: Vec<Option<Group<P>>>,
    /// The number of each peer's group, by peer; [`NO_GROUP`] for a peer without a group.
    pub(super) places: Vec<u32>,
    pub(super) packer: Packer,
    pub(super) items: Vec<Item>,
    /// The outcomes of the block in the making.
    pub(super) exporter: Exporter,
    /// The outcomes of the slice of a walk after a change of a view.
    comparison: Comparison,
    /// A small unused block, kept for reuse.
    pub(super) spare: Option<Arc<Block>>,
    checked: Checked,
    /// True if monitors receive the routes sent to members.
    pub notes_sent: bool,
    /// The changes sent to members and not to monitors yet.
    pub sent_blocks: Vec<SentBlock>,
}

impl<P: FamilyKey> Default for AdjRibOut<P> {
    fn default() -> Self {
        AdjRibOut {
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

impl<P: FamilyKey> AdjRibOut<P> {
    /// Puts a checking stage before the PeerOut of a peer, or, with `None`, of every peer; or removes the stage.
    pub fn check(&mut self, peer: Option<PeerIndex>, on: bool) {
        self.checked.set(peer, on);
        (0..self.groups.len()).for_each(|index| self.settle_check(index));
    }

    /// Adds or removes a group's checking stage: a group has the stage if a member is checked. The stage knows a single route of
    /// each prefix.
    pub(super) fn settle_check(&mut self, index: usize) {
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

    /// Passes changed paths to the groups with several paths of a prefix.
    pub fn note_paths(&mut self, changed: &mut Vec<(u32, PathNumber)>) {
        for paths_out in self.groups.iter_mut().flatten().filter_map(|g| g.branch.paths_out.as_mut()) {
            changed.iter().for_each(|(entry, path)| paths_out.note(*entry, *path));
        }
        changed.clear();
    }

    /// Iterates over the violations found by checking stages.
    pub fn violations(&self) -> impl Iterator<Item = &Violation<Announced<P>>> {
        self.groups.iter().flatten().filter_map(|g| g.check.as_ref()).flat_map(|c| c.violations())
    }

    pub(super) fn add(&mut self, group: Group<P>) -> usize {
        let free = self.groups.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.groups.push(None);
            self.groups.len() - 1
        });
        group.members.iter().for_each(|m| self.place(m.peer, index as u32));
        self.groups[index] = Some(group);
        index
    }

    pub(super) fn place(&mut self, peer: PeerIndex, group: u32) {
        let peer = usize::from(peer.0);
        if self.places.len() <= peer {
            self.places.resize(peer + 1, NO_GROUP);
        }
        self.places[peer] = group;
    }

    /// Returns the group of a peer, and the peer's position in the group.
    pub(super) fn find(&self, peer: PeerIndex) -> Option<(usize, usize)> {
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
    pub(super) fn split(&mut self, index: usize, leaves: impl Fn(&Member) -> bool) -> Option<usize> {
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

    /// Advertises every route to a member again: after a ROUTE-REFRESH (RFC 2918), or for changed next hops. With `Some`, `view`
    /// becomes the member's view. With a `number` above 0 the beginning and the end are marked.
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

    /// Gives members new views. Members of a group with the same new view stay together. Routes with a changed outcome under the
    /// new view are advertised, after a walk in slices; `entries` is the number of entries.
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

    /// Returns true if the members of a group are sent routes by their validation.
    pub fn ask_for_validation(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.view.asks_for_validation())
    }

    /// Exports an entry again to groups whose policies decide differently on the best path than under earlier payloads, unless a
    /// change of the entry is queued for the group anyway.
    pub fn export_again(&mut self, core: &Core<P>, entry: u32, before: &[Option<Arc<VrpTable>>]) {
        for group in self.groups.iter_mut().flatten().filter(|group| group.view.asks_for_validation()) {
            if let Some(paths_out) = &mut group.branch.paths_out {
                for path in core.adj_rib_in.entries.paths(entry).iter().map(|path| path.number) {
                    let is_other = core.adj_rib_in.path(entry, path).is_some_and(|found| {
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
            let best = group.view.best_path(&core.adj_rib_in, entry);
            let is_other = best.is_some_and(|best| {
                let policy = group.view.policy_for(best.peer);
                policy.is_some_and(|policy| core.decides_otherwise(policy, entry, best, before))
            });
            if is_other
                && !core.loc_rib.queue.is_pending(&core.adj_rib_in.entries, entry, group.branch.cursor)
            {
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

    /// Adds the members with changes to advertise to `out`. Groups at rest are free of cost, with any number of members.
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

    /// Returns the number of advertised routes, summed over groups.
    pub fn advertised_count(&self) -> usize {
        self.groups.iter().flatten().map(|group| group.branch.advertised_count() as usize).sum()
    }

    /// Iterates over the members of the groups.
    pub fn members(&self) -> impl Iterator<Item = PeerIndex> {
        self.groups.iter().flatten().flat_map(|group| &group.members).map(|member| member.peer)
    }

    /// Iterates over the branches' cursors.
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
