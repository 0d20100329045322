//! Paths of an entry: their numbers, and the numbers of the announcing peers.

use super::sets::PathSet;
use core::hash::Hash;
use serde::Serialize;

/// A peer's number in the shards of a router. The first numbers are the router's own sources: 0 for networks, then redistributed
/// protocols, the default route for some neighbors, and aggregates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct PeerIndex(pub u16);

impl PeerIndex {
    /// The router's own networks.
    pub const LOCAL: PeerIndex = PeerIndex(0);

    /// The default route for neighbors with `default-originate` only, without a part in the decision.
    pub const DEFAULT: PeerIndex = PeerIndex(16);

    /// The router's aggregates.
    pub const AGGREGATE: PeerIndex = PeerIndex(17);

    /// The number of sources of the router's own: the first neighbor has this number.
    pub const OWN_SOURCES: u16 = 18;

    /// The end of the numbers of peers. From here on follow numbers of lanes ([`super::lanes`]).
    pub const END: u16 = 49_152;

    /// Returns true for a source of the router's own.
    #[inline]
    pub const fn is_own(self) -> bool {
        self.0 < Self::OWN_SOURCES
    }
}

/// The number of a path among the paths of a prefix: the number of the peer, or of a lane of the peer ([`super::lanes`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PathNumber(pub u16);

impl PathNumber {
    /// The number of no path.
    pub const NONE: PathNumber = PathNumber(u16::MAX);

    /// The end of the numbers of paths: a source in two octets has spare values.
    const END: u16 = u16::MAX - 1;

    /// Returns the number of the first path that a peer has of a prefix.
    #[inline]
    pub const fn first_of(peer: PeerIndex) -> Self {
        PathNumber(peer.0)
    }

    /// Returns the number of the paths of a lane; `None` if there are no more numbers.
    pub fn of_lane(lane: usize) -> Option<Self> {
        let number = PeerIndex::END.checked_add(u16::try_from(lane).ok()?)?;
        (number < Self::END).then_some(PathNumber(number))
    }

    /// Returns the lane of a path; `None` for the first path of a peer.
    #[inline(always)]
    pub const fn lane(self) -> Option<usize> {
        if self.0 < PeerIndex::END { None } else { Some((self.0 - PeerIndex::END) as usize) }
    }

    /// Returns true for a path of a source of the router's own.
    #[inline]
    pub const fn is_own(self) -> bool {
        self.0 < PeerIndex::OWN_SOURCES
    }
}

/// A peer's route of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub attributes: PathSet,
    pub number: PathNumber,
    /// The peer's generation at the announcement; a path with an older generation is stale. To deceive the deletion stage, a
    /// session would have to come up 65,536 times during one round.
    pub generation: u16,
}

/// The mark of empty places for paths.
pub(crate) const NO_PATH: Path =
    Path { attributes: PathSet::from_bits(0), number: PathNumber::first_of(PeerIndex::LOCAL), generation: 0 };

/// The state of a restored path in the previous process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restored {
    /// The place among the paths that the peer has of the prefix.
    pub place: u16,
    /// True for a stale path.
    pub is_stale: bool,
}
