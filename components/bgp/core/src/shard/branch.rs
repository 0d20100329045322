//! A branch: a reader of the change queue with an Adj-RIB-Out, for an update group or for the RIB.
//!
//! The Adj-RIB-Out of a branch has, for every entry, the source of the advertised route: two octets. The export rules are a function of
//! the best path, so that the source is enough to keep rule 1 (only advertised routes are withdrawn) and rule 2 (the advertised route is
//! the present best path). Several changes of an entry become one while the branch waits.

use super::Core;
use super::adj_rib_out::AdjRibOut;
use super::entry::{Path, PeerIndex};
use super::sets::SetId;
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use sluice_base::Provenance;

/// The source of an advertised route, in two octets; 0: no route is advertised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Source(u16);

impl Source {
    /// No route is advertised.
    pub const NONE: Source = Source(0);

    /// A route of `peer`.
    pub const fn of(peer: PeerIndex) -> Self {
        Source(peer.0 + 1)
    }

    /// Returns the two octets.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Makes a source from the value of [`Source::bits`].
    pub const fn from_bits(bits: u16) -> Self {
        Source(bits)
    }

    /// Returns the peer; `None` without an advertised route.
    pub fn peer(self) -> Option<PeerIndex> {
        self.0.checked_sub(1).map(PeerIndex)
    }
}

/// A change for the downstream of a branch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub entry: u32,
    /// The present route; `None` for a withdrawal.
    pub set: Option<SetId>,
    /// The source of the present route.
    pub source: Source,
    /// The source of the route advertised before.
    pub before: Source,
    pub provenance: Provenance,
}

/// A walk over all entries, for a new branch or for a refresh.
#[derive(Clone, Debug)]
pub(super) struct Dump {
    next: u32,
    /// True if advertised routes are advertised again (RFC 2918).
    again: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    adj_rib_out: AdjRibOut,
    /// The number of advertised entries.
    advertised_count: u32,
    /// The number of advertised entries by source.
    advertised_by_source: Vec<u32>,
    /// The branch's place in the change queue.
    pub cursor: u64,
    pub dump: Option<Dump>,
}

impl Branch {
    /// Makes a branch with an empty Adj-RIB-Out; the queue ends at `end`.
    pub fn new(end: u64) -> Self {
        Branch {
            adj_rib_out: AdjRibOut::default(),
            advertised_count: 0,
            advertised_by_source: Vec::new(),
            cursor: end,
            dump: Some(Dump { next: 0, again: false }),
        }
    }

    /// Advertises all present routes again.
    pub fn advertise_again(&mut self) {
        self.dump = Some(Dump { next: 0, again: true });
    }

    /// Returns the source of an entry's advertised route.
    pub fn advertised(&self, entry: u32) -> Source {
        self.adj_rib_out.get(entry)
    }

    pub const fn advertised_count(&self) -> u32 {
        self.advertised_count
    }

    /// Returns the number of a peer's advertised routes.
    pub fn advertised_by_source(&self, peer: PeerIndex) -> u32 {
        self.advertised_by_source.get(usize::from(Source::of(peer).0)).copied().unwrap_or(0)
    }

    fn count(&mut self, source: Source, change: impl Fn(u32) -> u32) {
        let place = usize::from(source.0);
        if source != Source::NONE {
            if self.advertised_by_source.len() <= place {
                self.advertised_by_source.resize(place + 1, 0);
            }
            self.advertised_by_source[place] = change(self.advertised_by_source[place]);
        }
    }

    /// Returns true if all changes were advertised.
    pub const fn is_idle(&self, end: u64) -> bool {
        self.cursor == end && self.dump.is_none()
    }

    /// Takes up to `limit` changes from the queue, then up to `limit` entries of the dump. `export` returns true for exported paths. An
    /// entry is taken at most once.
    #[inline(always)]
    pub fn gather<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        limit: usize,
        export: impl Fn(&Path) -> bool,
        items: &mut Vec<Item>,
    ) {
        self.adj_rib_out.reach(core.entries.end());
        let to = core.queue.end().min(self.cursor + limit as u64);
        while self.cursor < to {
            if let Some((entry, provenance)) = core.queue.get(&core.entries, self.cursor) {
                self.visit(core, entry, provenance, &export, items);
            }
            self.cursor += 1;
        }
        if self.dump.is_some() {
            self.gather_dump(core, limit, export, items);
        }
    }

    /// Changes go first; a refresh must not advertise a changed entry twice in one round.
    #[inline(never)]
    fn gather_dump<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        limit: usize,
        export: impl Fn(&Path) -> bool,
        items: &mut Vec<Item>,
    ) {
        let Some(mut dump) = self.dump.take() else { return };
        if dump.again && !items.is_empty() {
            self.dump = Some(dump);
            return;
        }
        let to = core.entries.end().min(dump.next + limit as u32);
        for entry in dump.next..to {
            let known = self.advertised(entry) != Source::NONE;
            let vacant = core.entries.is_vacant(entry);
            if !vacant && (dump.again || !known) {
                self.visit(core, entry, Provenance::NONE, &export, items);
            }
        }
        dump.next = to;
        self.dump = (to < core.entries.end()).then_some(dump);
    }

    #[inline(always)]
    fn visit<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        entry: u32,
        provenance: Provenance,
        export: &impl Fn(&Path) -> bool,
        items: &mut Vec<Item>,
    ) {
        let best = core.entries.best(entry).filter(|p| export(p));
        let source = best.map_or(Source::NONE, |p| Source::of(p.peer));
        let before = self.adj_rib_out.replace(entry, source);
        if (source, before) == (Source::NONE, Source::NONE) {
            return;
        }
        if source != before {
            self.count(before, |n| n - 1);
            self.count(source, |n| n + 1);
        }
        self.advertised_count += u32::from(before == Source::NONE);
        self.advertised_count -= u32::from(source == Source::NONE);
        items.push(Item { entry, set: best.map(|p| p.set), source, before, provenance });
    }
}
