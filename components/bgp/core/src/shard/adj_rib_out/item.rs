//! Changes of advertised routes: sources, outcomes, and blocks of changes.

use crate::shard::entry::{PathNumber, PeerIndex, SetId};
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::Provenance;

/// The source of an advertised route, in two octets; 0 without an advertised route. With several paths of a prefix the source is
/// the number of the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Source(u16);

impl Source {
    /// No route is advertised.
    pub const NONE: Source = Source(0);

    /// A route of `peer`.
    pub const fn of(peer: PeerIndex) -> Self {
        Source(peer.0 + 1)
    }

    /// The source of a path, with several paths of a prefix.
    pub(crate) const fn of_path(path: PathNumber) -> Self {
        Source(path.0 + 1)
    }

    /// Returns the path, of several of a prefix; `None` without an advertised route.
    pub(crate) fn path(self) -> Option<PathNumber> {
        self.0.checked_sub(1).map(PathNumber)
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
pub(crate) struct Item {
    pub entry: u32,
    /// The outcome of the present route; `None` for a withdrawal.
    pub outcome: Option<OutcomeId>,
    /// The source of the present route.
    pub source: Source,
    /// The source of the route advertised before.
    pub before: Source,
    pub provenance: Provenance,
}

/// The number of an outcome: an attribute set, or changed attributes of an exporter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OutcomeId(pub u32);

/// The bit of an [`OutcomeId`] for changed attributes. The number of sets is below 2^31.
pub(super) const CHANGED: u32 = 1 << 31;

impl OutcomeId {
    /// The outcome of a path whose attributes are announced as the set has them.
    pub const fn unchanged(set: SetId) -> Self {
        OutcomeId(set.0)
    }
}

/// A block of changes sent to an update group.
#[derive(Debug)]
pub(crate) struct SentBlock {
    /// The members of the group.
    pub members: Arc<[PeerIndex]>,
    /// Entry, path and source from before of each change, as [`Noted::Sent`](crate::shard::monitor::log::Noted::Sent) has them.
    pub changes: Vec<(u32, PathNumber, Source)>,
}
