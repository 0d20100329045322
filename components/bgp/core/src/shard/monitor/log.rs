//! Monitors: readers of a shard's routes for monitoring stations (BMP, RFC 7854).
//!
//! A monitor is a walk over the entries, for earlier routes, and a cursor in a log of notes, for the changes since. A note has
//! the identity of a route and no attributes: the monitor reads the route from the entry together with the note. A route that
//! changes often while a station is slow is therefore sent once, in the final state, and no attributes are stored twice.
//!
//! The log is bounded by the size of the table ([`Shard::bound_monitors`]). A monitor that falls further behind is *void*: the
//! monitor has missed changes, holds no part of the log, and can only begin anew. Without a monitor a shard has no log, and a
//! route costs a comparison with null.
use crate::shard::Shard;
use crate::shard::adj_rib_out::Source;
use crate::shard::entry::{AdjRibIn, PathNumber, PeerIndex};
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Notes that the log may have however small the table is.
const SLACK: usize = 65_536;

/// The number of a monitor among all of a router's life.
pub type MonitorId = u32;

/// A RIB that a monitor reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MonitoredRib {
    /// Adj-RIB-In before import policy (RFC 7854, section 5).
    PrePolicy,
    /// Adj-RIB-In after import policy.
    PostPolicy,
    /// The selected routes (RFC 9069).
    LocalRib,
    /// Adj-RIB-Out before export policy (RFC 8671, section 5).
    AdjRibOutPre,
    /// Adj-RIB-Out after export policy: what peers are sent.
    AdjRibOutPost,
}

impl MonitoredRib {
    /// The RIBs, in order.
    pub const ALL: [MonitoredRib; 5] = [
        MonitoredRib::PrePolicy,
        MonitoredRib::PostPolicy,
        MonitoredRib::LocalRib,
        MonitoredRib::AdjRibOutPre,
        MonitoredRib::AdjRibOutPost,
    ];

    /// Returns the name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            MonitoredRib::PrePolicy => "pre-policy",
            MonitoredRib::PostPolicy => "post-policy",
            MonitoredRib::LocalRib => "local-rib",
            MonitoredRib::AdjRibOutPre => "adj-rib-out-pre",
            MonitoredRib::AdjRibOutPost => "adj-rib-out-post",
        }
    }
}

/// A set of RIBs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MonitoredRibs(u8);

impl MonitoredRibs {
    /// Returns true if `rib` is in the set.
    #[inline]
    pub const fn has(self, rib: MonitoredRib) -> bool {
        self.0 & 1 << rib as u8 != 0
    }

    /// Iterates over the RIBs of the set.
    pub fn iter(self) -> impl Iterator<Item = MonitoredRib> {
        MonitoredRib::ALL.into_iter().filter(move |rib| self.has(*rib))
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        MonitoredRibs(self.0 | other.0)
    }

    /// Returns the RIBs that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        MonitoredRibs(self.0 & other.0)
    }

    /// Returns true if an Adj-RIB-In is in the set.
    pub const fn has_adj_rib_in(self) -> bool {
        self.has(MonitoredRib::PrePolicy) || self.has(MonitoredRib::PostPolicy)
    }

    /// Returns true if an Adj-RIB-Out is in the set.
    pub const fn has_adj_rib_out(self) -> bool {
        self.has(MonitoredRib::AdjRibOutPre) || self.has(MonitoredRib::AdjRibOutPost)
    }
}

impl FromIterator<MonitoredRib> for MonitoredRibs {
    fn from_iter<I: IntoIterator<Item = MonitoredRib>>(ribs: I) -> Self {
        MonitoredRibs(ribs.into_iter().fold(0, |all, rib| all | 1 << rib as u8))
    }
}

/// The route of a note, without the prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// A path of a peer was announced, or import policy made something else of the path.
    Path(PathNumber),
    /// A path of a peer was removed, which had this identifier.
    Removed(PeerIndex, Option<u32>),
    /// The best route is another.
    Best,
    /// The members of an update group were sent a route, or a withdrawal.
    Sent {
        /// The number of the list of members.
        members: u32,
        /// The path, with several paths of the prefix; [`PathNumber::NONE`] for members with the best path only.
        path: PathNumber,
        /// The source of the route advertised before.
        before: Source,
    },
}

/// A change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<P> {
    pub prefix: P,
    pub noted: Noted,
}

/// A monitor's places.
#[derive(Debug)]
pub(crate) struct Reader {
    id: MonitorId,
    pub ribs: MonitoredRibs,
    /// The place in the log.
    pub cursor: u64,
    /// The next entry of the walk over routes from before; `None` at the end of the walk.
    pub walk: Option<u32>,
    /// The next entry of a walk over routes for peers whose export changed meanwhile, and the RIBs that are walked.
    pub walk_out: Option<(u32, MonitoredRibs)>,
    /// True if the monitor has missed changes.
    pub is_void: bool,
}

/// The monitors of a shard, and the log.
#[derive(Debug)]
pub(crate) struct Monitor<P> {
    notes: VecDeque<Note<P>>,
    /// The place of the first note.
    start: u64,
    /// Notes that the log may have.
    bound: usize,
    readers: Vec<Reader>,
    /// The RIBs that any monitor reads.
    ribs: MonitoredRibs,
    /// Lists of members that notes name, and the number of the first list.
    lists: VecDeque<Arc<[PeerIndex]>>,
    first_list: u32,
    /// True if there is something to read that was not reported.
    has_news: bool,
}

impl<P: Copy> Monitor<P> {
    fn new() -> Self {
        Monitor {
            notes: VecDeque::new(),
            start: 0,
            bound: SLACK,
            readers: Vec::new(),
            ribs: MonitoredRibs::default(),
            lists: VecDeque::new(),
            first_list: 0,
            has_news: false,
        }
    }

    /// The place behind the last note.
    pub fn end(&self) -> u64 {
        self.start + self.notes.len() as u64
    }

    /// The note at a place that a reader has yet to read.
    pub fn note(&self, place: u64) -> Option<Note<P>> {
        self.notes.get(usize::try_from(place.checked_sub(self.start)?).ok()?).copied()
    }

    /// The members that a note names.
    pub fn members(&self, list: u32) -> &[PeerIndex] {
        self.lists.get(list.wrapping_sub(self.first_list) as usize).map_or(&[], |list| &**list)
    }

    /// The monitor of this number.
    pub fn reader_mut(&mut self, id: MonitorId) -> Option<&mut Reader> {
        self.readers.iter_mut().find(|reader| reader.id == id)
    }

    /// Adds a note.
    fn push(&mut self, prefix: P, noted: Noted) {
        self.notes.push_back(Note { prefix, noted });
        self.has_news = true;
        if self.notes.len() > self.bound {
            self.void_slowest();
        }
    }

    /// Makes the monitors void that are furthest behind.
    #[cold]
    fn void_slowest(&mut self) {
        let behind = |reader: &&mut Reader| !reader.is_void;
        let slowest = self.readers.iter().filter(|reader| !reader.is_void).map(|reader| reader.cursor).min();
        for reader in self.readers.iter_mut().filter(behind) {
            reader.is_void = Some(reader.cursor) == slowest;
        }
        self.trim();
    }

    /// Drops notes read by every monitor.
    pub fn trim(&mut self) {
        let passed = self.readers.iter().filter(|reader| !reader.is_void).map(|reader| reader.cursor).min();
        let passed = passed.unwrap_or(self.end());
        while self.start < passed && self.notes.pop_front().is_some() {
            self.start += 1;
        }
        if self.lists.len() > 1 {
            self.trim_lists();
        }
        if self.notes.is_empty() {
            self.notes.shrink_to(SLACK);
        }
    }
}

impl<P: Copy> Monitor<P> {
    /// Drops lists not named by a note, except the newest list, which later notes may name.
    fn trim_lists(&mut self) {
        let named = self.notes.iter().find_map(|note| match note.noted {
            Noted::Sent { members, .. } => Some(members),
            _ => None,
        });
        let kept = named.map_or(1, |list| self.lists.len() - list.wrapping_sub(self.first_list) as usize);
        while self.lists.len() > kept {
            self.lists.pop_front();
            self.first_list = self.first_list.wrapping_add(1);
        }
    }
}

/// The monitors of stations in a shard, which share one log.
#[derive(Debug)]
pub(crate) struct Monitors<P> {
    /// `None` without a monitor.
    pub log: Option<Box<Monitor<P>>>,
}

impl<P> Default for Monitors<P> {
    fn default() -> Self {
        Monitors { log: None }
    }
}

impl<P: FamilyKey> Monitors<P> {
    /// Notes a changed path of an entry for monitors of an Adj-RIB-In.
    #[inline(always)]
    pub fn note_adj_rib_in(&mut self, adj_rib_in: &AdjRibIn<P>, entry: u32, path: PathNumber) {
        if self.log.is_some() {
            let prefix = adj_rib_in.entries[entry].prefix;
            self.note(prefix, Noted::Path(path), MonitoredRibs::has_adj_rib_in);
        }
    }

    /// Notes that a path of an entry is about to be removed, for monitors of an Adj-RIB-In.
    #[inline(always)]
    pub fn note_removal(&mut self, adj_rib_in: &AdjRibIn<P>, entry: u32, path: PathNumber) {
        if self.log.is_some() {
            let lanes = &adj_rib_in.lanes;
            let noted = Noted::Removed(lanes.peer(path), lanes.id(entry, path));
            self.note(adj_rib_in.entries[entry].prefix, noted, MonitoredRibs::has_adj_rib_in);
        }
    }

    /// Notes another best route of an entry.
    #[inline(always)]
    pub fn note_best(&mut self, adj_rib_in: &AdjRibIn<P>, entry: u32) {
        if self.log.is_some() {
            let reads = |ribs: MonitoredRibs| {
                ribs.has(MonitoredRib::LocalRib) || ribs.has(MonitoredRib::AdjRibOutPre)
            };
            self.note(adj_rib_in.entries[entry].prefix, Noted::Best, reads);
        }
    }

    #[cold]
    fn note(&mut self, prefix: P, noted: Noted, reads: impl Fn(MonitoredRibs) -> bool) {
        if let Some(monitor) = &mut self.log
            && reads(monitor.ribs)
        {
            monitor.push(prefix, noted);
        }
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Begins to note changes of `ribs` for the monitor `id`, which is sent all present routes first.
    pub fn begin_monitor(&mut self, id: MonitorId, ribs: MonitoredRibs) {
        self.end_monitor(id);
        let monitor = self.core.monitors.log.get_or_insert_with(|| Box::new(Monitor::new()));
        let cursor = monitor.end();
        let walk_out = None;
        monitor.readers.push(Reader { id, ribs, cursor, walk: Some(0), walk_out, is_void: false });
        monitor.has_news = true;
        self.readers_changed();
    }

    /// Ends a monitor.
    pub fn end_monitor(&mut self, id: MonitorId) {
        let Some(monitor) = &mut self.core.monitors.log else { return };
        monitor.readers.retain(|reader| reader.id != id);
        self.readers_changed();
    }

    fn readers_changed(&mut self) {
        let Some(monitor) = &mut self.core.monitors.log else { return };
        monitor.ribs = monitor.readers.iter().fold(MonitoredRibs::default(), |all, r| all.or(r.ribs));
        monitor.trim();
        self.adj_rib_out.notes_sent = monitor.ribs.has_adj_rib_out();
        if monitor.readers.is_empty() {
            self.core.monitors.log = None;
            self.adj_rib_out.sent_blocks.clear();
        }
        self.bound_monitors();
    }

    /// Adapts the bound of the log to the table: the announcement of a whole table alone does not make a station void that does
    /// not read meanwhile. To be called behind each batch and each slice.
    #[inline]
    pub(crate) fn bound_monitors(&mut self) {
        if self.core.monitors.log.is_some() {
            let paths: usize = self.core.adj_rib_in.peers.iter().map(|peer| peer.paths as usize).sum();
            let routes = self.core.adj_rib_in.entries.len() + paths + self.adj_rib_out.advertised_count();
            if let Some(monitor) = &mut self.core.monitors.log {
                monitor.bound = SLACK + routes;
            }
        }
    }

    /// Returns true if monitors have unreported changes to read, and counts the changes as reported.
    #[inline]
    pub fn take_monitor_news(&mut self) -> bool {
        self.core.monitors.log.as_mut().is_some_and(|monitor| core::mem::take(&mut monitor.has_news))
    }

    /// Returns true if a monitor has missed changes, or is unknown.
    pub fn is_void(&self, id: MonitorId) -> bool {
        let readers = self.core.monitors.log.iter().flat_map(|monitor| &monitor.readers);
        readers.into_iter().find(|reader| reader.id == id).is_none_or(|reader| reader.is_void)
    }

    /// Notes what update groups were sent.
    #[inline]
    pub(crate) fn note_sent(&mut self) {
        if !self.adj_rib_out.sent_blocks.is_empty() {
            self.note_sent_blocks();
        }
    }

    #[cold]
    fn note_sent_blocks(&mut self) {
        let Shard { core, adj_rib_out, .. } = self;
        let blocks = adj_rib_out.sent_blocks.drain(..);
        let Some(monitor) = &mut core.monitors.log else { return drop(blocks) };
        for block in blocks {
            if monitor.lists.back().is_none_or(|last| **last != *block.members) {
                monitor.lists.push_back(block.members);
            }
            let members = monitor.first_list.wrapping_add(monitor.lists.len() as u32 - 1);
            for (entry, path, before) in block.changes {
                let prefix = core.adj_rib_in.entries[entry].prefix;
                monitor.push(prefix, Noted::Sent { members, path, before });
            }
        }
    }

    /// Notes a new member: groups do not send the member's routes before export policy, so monitors walk over the entries.
    pub(crate) fn note_member(&mut self) {
        self.walk_out([MonitoredRib::AdjRibOutPre].into_iter().collect());
    }

    /// Notes changed export views: monitors walk over the entries. A route read before the export under the new view is sent
    /// under the new view; no group sends the route again if the earlier view returns.
    pub(crate) fn note_views(&mut self) {
        self.walk_out([MonitoredRib::AdjRibOutPre, MonitoredRib::AdjRibOutPost].into_iter().collect());
    }

    /// Has monitors of `ribs` walk over these from the first entry on.
    fn walk_out(&mut self, ribs: MonitoredRibs) {
        let Some(monitor) = &mut self.core.monitors.log else { return };
        for reader in &mut monitor.readers {
            let before = reader.walk_out.map(|(_, ribs)| ribs).unwrap_or_default();
            let ribs = ribs.and(reader.ribs).or(before);
            if ribs != MonitoredRibs::default() {
                reader.walk_out = Some((0, ribs));
                monitor.has_news = true;
            }
        }
    }
}
