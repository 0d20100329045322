//! The routes for monitors, as UPDATE messages (RFC 7854, section 5; RFC 8671; RFC 9069).
//!
//! A chunk is made of items: identities of routes, each with the route's present attributes, or without attributes for a
//! withdrawal. Items with equal attributes share messages. AS numbers have four octets, independent of the peer's session (RFC
//! 7854, section 4.2, A flag).

use super::chunk::{MonitorChunk, MonitoredUpdate};
use super::encoding::{Attributes, Item, put_next_hop, put_update};
use super::log::{MonitorId, MonitoredRib, MonitoredRibs, Note, Noted};
use crate::attributes::canonical;
use crate::family::FamilyIndex;
use crate::shard::adj_rib_out::{ExportView, Exported, Exporter, NextHopsFor, Source, put_address};
use crate::shard::entry::{Path, PathNumber, PeerIndex, SetId};
use crate::shard::{Core, Shard};
use crate::wire::FamilyKey;
use crate::wire::attribute::code;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Routes that are looked at for a chunk, as a multiple of the limit of changes: an Adj-RIB-Out has as many of a change as there are peers.
const WORK: usize = 4;

/// Attributes as sent: all but MP_REACH_NLRI, and the next hop.
type MadeAttributes = (Vec<u8>, Vec<u8>);

/// The items of a chunk, and attributes that no set has.
struct Gather<'a, P: FamilyKey> {
    shard: &'a Shard<P>,
    ribs: MonitoredRibs,
    is_from_before: bool,
    /// Routes that were looked at.
    visits: usize,
    items: Vec<Item<P>>,
    made: Vec<MadeAttributes>,
    by_content: HashMap<MadeAttributes, u32, foldhash::fast::FixedState>,
}

impl<P: FamilyKey> Shard<P> {
    /// Appends messages for a monitor: up to about `limit` changes, and as many earlier routes. `hops` has the next hops towards
    /// a peer. A void or unknown monitor has no messages.
    pub fn monitored<'h>(
        &mut self,
        id: MonitorId,
        limit: usize,
        hops: impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>,
        chunk: &mut MonitorChunk,
    ) {
        let Some(mut monitor) = self.core.monitors.log.take() else { return };
        if let Some(reader) = monitor.reader_mut(id).filter(|reader| !reader.is_void) {
            let (mut walk, mut walk_out) = (reader.walk, reader.walk_out);
            let (ribs, mut end) = (reader.ribs, reader.cursor);
            let stop = monitor.end().min(end + limit as u64);
            let mut gather = Gather::new(self, ribs);
            while end < stop && gather.visits < WORK * limit {
                if let Some(note) = monitor.note(end) {
                    let members = match note.noted {
                        Noted::Sent { members, .. } => monitor.members(members),
                        _ => &[],
                    };
                    gather.note(&note, members, &hops);
                }
                end += 1;
            }
            gather.is_from_before = true;
            gather.walk(&mut walk, limit, |gather, entry| gather.entry(entry, &hops));
            if let Some((next, out_ribs)) = walk_out {
                gather.ribs = out_ribs;
                let mut next = Some(next);
                gather.walk(&mut next, limit, |gather, entry| gather.entry_out(entry, &hops));
                walk_out = next.map(|next| (next, out_ribs));
            }
            gather.pack(chunk);
            let log_end = monitor.end();
            if let Some(reader) = monitor.reader_mut(id) {
                (reader.cursor, reader.walk, reader.walk_out) = (end, walk, walk_out);
                chunk.has_more |= end < log_end || walk.is_some() || walk_out.is_some();
                chunk.is_walked &= walk.is_none();
                chunk.behind += log_end - end;
            }
            monitor.trim();
        }
        self.core.monitors.log = Some(monitor);
    }
}

impl<'a, P: FamilyKey> Gather<'a, P> {
    fn new(shard: &'a Shard<P>, ribs: MonitoredRibs) -> Self {
        Gather {
            shard,
            ribs,
            is_from_before: false,
            visits: 0,
            items: Vec::new(),
            made: Vec::new(),
            by_content: HashMap::default(),
        }
    }

    /// Visits up to about `limit` entries of a walk.
    fn walk(&mut self, next: &mut Option<u32>, limit: usize, visit: impl Fn(&mut Self, u32)) {
        let Some(place) = next else { return };
        let end = self.shard.core.adj_rib_in.entries.end();
        let stop = end.min(place.saturating_add(limit as u32));
        while *place < stop && self.visits < WORK * limit {
            if !self.shard.core.adj_rib_in.entries.paths(*place).is_empty() {
                visit(self, *place);
            }
            *place += 1;
        }
        if *place >= end {
            *next = None;
        }
    }

    fn push(
        &mut self,
        rib: MonitoredRib,
        (peer, prefix, path_id): (PeerIndex, P, Option<u32>),
        attributes: Attributes,
    ) {
        if self.ribs.has(rib) {
            let (is_from_before, has_path_id) = (self.is_from_before, path_id.is_some());
            self.items.push(Item { rib, peer, is_from_before, attributes, has_path_id, prefix, path_id });
        }
    }

    /// Adds the routes that a note is about.
    fn note<'h>(
        &mut self,
        note: &Note<P>,
        members: &[PeerIndex],
        hops: &impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>,
    ) {
        let shard = self.shard;
        let core = &shard.core;
        let Note { prefix, noted } = *note;
        let entry = core.adj_rib_in.find(prefix);
        match noted {
            Noted::Path(number) => {
                // A path that is gone has a note of its own.
                let path = entry.and_then(|entry| {
                    let position = core.adj_rib_in.entries.position(entry, number)?;
                    Some((entry, core.adj_rib_in.entries.paths(entry)[position]))
                });
                if let Some((entry, path)) = path {
                    self.path(entry, &path);
                }
            }
            Noted::Removed(peer, path_id) => {
                let position = entry.and_then(|entry| {
                    Some((
                        entry,
                        core.adj_rib_in.lanes.position(&core.adj_rib_in.entries, entry, peer, path_id)?,
                    ))
                });
                if let Some((entry, position)) = position {
                    self.path(entry, &core.adj_rib_in.entries.paths(entry)[position]);
                } else if !peer.is_own() {
                    self.push(MonitoredRib::PrePolicy, (peer, prefix, path_id), Attributes::None);
                    self.push(MonitoredRib::PostPolicy, (peer, prefix, path_id), Attributes::None);
                }
            }
            Noted::Best => {
                let best = entry.and_then(|entry| core.adj_rib_in.best(entry));
                let attributes = best.map_or(Attributes::None, |best| Attributes::Set(best.set));
                self.push(MonitoredRib::LocalRib, (PeerIndex::LOCAL, prefix, None), attributes);
                if self.ribs.has(MonitoredRib::AdjRibOutPre) {
                    for peer in shard.adj_rib_out.members() {
                        self.out_pre(entry, (peer, prefix), true, hops);
                    }
                }
            }
            Noted::Sent { path, before, .. } => {
                for peer in members {
                    self.sent(entry, (*peer, prefix), path, before, hops);
                    self.out_pre(entry, (*peer, prefix), false, hops);
                }
            }
        }
    }

    /// Adds all routes of an entry.
    fn entry<'h>(&mut self, entry: u32, hops: &impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>) {
        let shard = self.shard;
        let core = &shard.core;
        let prefix = core.adj_rib_in.entries[entry].prefix;
        if self.ribs.has_adj_rib_in() {
            core.adj_rib_in.entries.paths(entry).iter().for_each(|path| self.path(entry, path));
        }
        if let Some(best) = core.adj_rib_in.best(entry) {
            let attributes = Attributes::Set(best.set);
            self.push(MonitoredRib::LocalRib, (PeerIndex::LOCAL, prefix, None), attributes);
        }
        self.entry_out(entry, hops);
    }

    /// Adds the routes of an entry that peers are sent, and would be sent without export policy.
    fn entry_out<'h>(&mut self, entry: u32, hops: &impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>) {
        if !self.ribs.has_adj_rib_out() {
            return;
        }
        let shard = self.shard;
        let prefix = shard.core.adj_rib_in.entries[entry].prefix;
        for peer in shard.adj_rib_out.members() {
            let Some((_, branch)) = shard.adj_rib_out.adj_rib_out(peer) else { continue };
            match &branch.paths_out {
                None => self.sent(Some(entry), (peer, prefix), PathNumber::NONE, Source::NONE, hops),
                Some(paths_out) => {
                    for path in paths_out.sent(entry) {
                        self.sent(Some(entry), (peer, prefix), path, Source::NONE, hops);
                    }
                }
            }
            self.out_pre(Some(entry), (peer, prefix), false, hops);
        }
    }

    /// Adds a path of an Adj-RIB-In. A path of an earlier session counts as absent; a path awaiting the end of a route refresh is
    /// reported when announced again or removed.
    fn path(&mut self, entry: u32, path: &Path) {
        self.visits += 1;
        let core = &self.shard.core;
        let peer = core.adj_rib_in.lanes.peer(path.number);
        if peer.is_own() || path.generation != core.adj_rib_in.peers[usize::from(peer.0)].generation {
            return;
        }
        let key = (peer, core.adj_rib_in.entries[entry].prefix, core.adj_rib_in.lanes.id(entry, path.number));
        let (received, accepted) =
            (core.adj_rib_in.sets.received(path.attributes), core.adj_rib_in.sets.accepted(path.attributes));
        self.push(MonitoredRib::PrePolicy, key, Attributes::Set(received));
        self.push(MonitoredRib::PostPolicy, key, accepted.map_or(Attributes::None, Attributes::Set));
    }

    /// Adds a route sent to a peer: the best route of an entry, or a path of several. The route advertised before had the source
    /// `before`.
    fn sent<'h>(
        &mut self,
        entry: Option<u32>,
        (peer, prefix): (PeerIndex, P),
        path: PathNumber,
        before: Source,
        hops: &impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>,
    ) {
        if !self.ribs.has(MonitoredRib::AdjRibOutPost) {
            return;
        }
        self.visits += 1;
        let (shard, core) = (self.shard, &self.shard.core);
        let Some((view, branch)) = shard.adj_rib_out.adj_rib_out(peer) else { return };
        let path_id = view.paths.map(|_| core.adj_rib_in.lanes.sent_id(path));
        let number = entry.and_then(|entry| match &branch.paths_out {
            Some(paths_out) => paths_out.sent(entry).contains(&path).then_some((entry, path)),
            None => {
                let source = branch.advertised(entry).peer().filter(|source| *source != peer);
                source.and_then(|_| Some((entry, view.best_number(&core.adj_rib_in, entry)?)))
            }
        });
        let number = number.filter(|(_, number)| core.adj_rib_in.lanes.peer(*number) != peer);
        let made = number.and_then(|(entry, path)| self.exported(view, entry, path, &hops(peer)?));
        let was_sent = match (&branch.paths_out, before.path()) {
            (_, None) => false,
            (Some(_), Some(before)) => core.adj_rib_in.lanes.peer(before) != peer,
            (None, Some(_)) => before.peer() != Some(peer),
        };
        if made.is_some() || was_sent {
            let key = (peer, prefix, path_id);
            self.push(MonitoredRib::AdjRibOutPost, key, made.map_or(Attributes::None, Attributes::Made));
        }
    }

    /// Adds the best route of an entry for a peer, before export policy. Peers with several paths of a prefix are left out: the
    /// choice of paths depends on the policy.
    fn out_pre<'h>(
        &mut self,
        entry: Option<u32>,
        (peer, prefix): (PeerIndex, P),
        withdraws: bool,
        hops: &impl Fn(PeerIndex) -> Option<NextHopsFor<'h, P::Hop>>,
    ) {
        if !self.ribs.has(MonitoredRib::AdjRibOutPre) {
            return;
        }
        self.visits += 1;
        let (shard, core) = (self.shard, &self.shard.core);
        let Some((view, branch)) = shard.adj_rib_out.adj_rib_out(peer) else { return };
        if branch.paths_out.is_some() {
            return;
        }
        let view = ExportView { policy: None, ..(**view).clone() };
        let made = entry.and_then(|entry| {
            let number = view.best_number(&core.adj_rib_in, entry)?;
            if core.adj_rib_in.lanes.peer(number) == peer {
                return None;
            }
            self.exported(&view, entry, number, &hops(peer)?)
        });
        if made.is_some() || withdraws {
            let key = (peer, prefix, None);
            self.push(MonitoredRib::AdjRibOutPre, key, made.map_or(Attributes::None, Attributes::Made));
        }
    }

    /// Makes the attributes of a path for peers with a view; `None` if the path is not exported.
    fn exported(
        &mut self,
        view: &ExportView,
        entry: u32,
        path: PathNumber,
        hops: &NextHopsFor<'_, P::Hop>,
    ) -> Option<u32> {
        let core = &self.shard.core;
        let accepted = core.adj_rib_in.path(entry, path)?;
        let mut exporter = Exporter::default();
        let outcome = exporter.export(core, view, entry, accepted)?;
        let mut exported = Exported::default();
        let wide = ExportView { four_octet_as: true, ..view.clone() };
        exported.make(core, &exporter.subject(core, outcome, accepted), &wide);
        if exported.points_back::<P>(hops) {
            return None;
        }
        let hop = exported.next_hop_towards::<P>(hops).to_vec();
        let mut attributes = core::mem::take(&mut exported.attributes);
        if P::HAS_OWN_FIELDS {
            let at = exported.next_hop_at;
            attributes.get_mut(at..at + hop.len())?.copy_from_slice(&hop);
        }
        let key = (attributes, hop);
        if let Some(known) = self.by_content.get(&key) {
            return Some(*known);
        }
        let number = self.made.len() as u32;
        self.made.push(key.clone());
        self.by_content.insert(key, number);
        Some(number)
    }

    /// Packs the items into messages.
    fn pack(mut self, chunk: &mut MonitorChunk) {
        // Routes noted several times are equal items.
        self.items.sort_unstable();
        self.items.dedup();
        let core = &self.shard.core;
        let key =
            |item: &Item<P>| (item.rib, item.peer, item.is_from_before, item.attributes, item.has_path_id);
        for run in self.items.chunk_by(|a, b| key(a) == key(b)) {
            let Item { rib, peer, is_from_before, .. } = run[0];
            let (attributes, hop) = match run[0].attributes {
                Attributes::None => (None, Vec::new()),
                Attributes::Set(set) => {
                    let (attributes, hop) = of_set(core, set);
                    (Some(attributes), hop)
                }
                Attributes::Made(number) => {
                    let (attributes, hop) = self.made[number as usize].clone();
                    (Some(attributes), hop)
                }
            };
            let mut rest = run;
            while !rest.is_empty() {
                let out = &mut chunk.octets;
                let count = put_update(core.code.octets(), attributes.as_deref(), &hop, rest, out);
                rest = &rest[count..];
                let (family, end) = (FamilyIndex::of::<P>(), out.len());
                chunk.updates.push(MonitoredUpdate { family, rib, peer, is_from_before, end });
            }
        }
    }
}

/// Returns the attributes of a set without MP_REACH_NLRI, and the next hop's octets.
fn of_set<P: FamilyKey>(core: &Core<P>, set: SetId) -> MadeAttributes {
    let set = &core.adj_rib_in.sets[set];
    let mut hop = Vec::new();
    let next_hop = core.resolver.next_hop_of(set.hop);
    put_address(&next_hop, &mut hop);
    if let Some(link_local) = next_hop.link_local {
        hop.extend_from_slice(&link_local.octets());
    }
    let mut attributes = Vec::new();
    let mut needs_next_hop = P::HAS_OWN_FIELDS;
    for attribute in canonical::attributes(core.adj_rib_in.sets.octets(set)) {
        if attribute.code > code::NEXT_HOP && core::mem::take(&mut needs_next_hop) {
            put_next_hop(&hop, &mut attributes);
        }
        attribute.put(&mut attributes);
    }
    if needs_next_hop {
        put_next_hop(&hop, &mut attributes);
    }
    (attributes, hop)
}
