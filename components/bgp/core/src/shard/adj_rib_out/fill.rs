//! Blocks of UPDATEs for the members of update groups.

use super::filled::Filled;
use super::group::{Group, Member, Pending, Refresh};
use super::groups::{AdjRibOut, BLOCK_CHANGES, MOST_BLOCKS};
use super::item::Source;
use super::next_hops::NextHopsFor;
use super::pack::{Block, Sent};
use super::rules::run_check;
use crate::shard::Core;
use crate::shard::entry::PeerIndex;
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<P: FamilyKey> AdjRibOut<P> {
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
            if group.branch.is_idle(core.loc_rib.queue.end()) {
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
            let Some(peer) = source.path().map(|path| core.adj_rib_in.lanes.peer(path)) else {
                return Source::NONE;
            };
            let is_originator = || reflects && core.adj_rib_in.peers[usize::from(peer.0)].info.internal;
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
        let queue_end = core.loc_rib.queue.end();
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

    /// Assumes that the old process of a live upgrade has advertised every route to every member. For groups with empty
    /// Adj-RIBs-Out.
    pub fn assume_advertised(&mut self, core: &Core<P>) {
        let mut merged: Vec<Group<P>> = Vec::new();
        for group in self.groups.drain(..).flatten() {
            match merged.iter_mut().find(|known| known.view == group.view) {
                Some(known) => known.members.extend(group.members),
                None => merged.push(group),
            }
        }
        for mut group in merged {
            while !group.branch.is_idle(core.loc_rib.queue.end()) {
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
}
