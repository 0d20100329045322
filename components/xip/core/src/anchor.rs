//! Anchors: the parts of the routing state on which decisions rest (Linux XIA, ANCS 2015, section 4.2.2).
//!
//! An XID without an entry is an anchor too: the decision rests on the absence. Present and missing entries share the anchor
//! [`Anchor::Entry`], because at any moment all dependents of an XID have seen the same of the two.

use crate::answer::NeighborId;
use core::fmt;
use core::hash::{Hash, Hasher};
use sluice_base::{Xid, XidPrefix, XidType};
use smallvec::SmallVec;

/// The number on an answer from outside, from a principal's own process or from the RIB. The giver takes answers back by token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u32);

/// A part of the routing state on which a decision rests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// The entry of an XID, present or missing. A redirect rests on the entry of the redirected XID and on the entry of its target.
    Entry(Xid),
    /// The longest prefix that holds an XID: its number of bits, or `None` if no prefix holds the XID. The decision rests on the
    /// absence of longer prefixes.
    Longest {
        /// The XID of the look-up.
        xid: Xid,
        /// Bits of the prefix, counted from the ID's first: 0 to 160.
        matched: Option<u8>,
    },
    /// The set of link IDs in a Bloom filter.
    Filter(Xid),
    /// The state of a neighbor: usable or not.
    Neighbor(NeighborId),
    /// The tunnel socket of a principal, present or missing.
    Tunnel(XidType),
    /// The principal registered under a type, or the absence of a principal.
    Principal(XidType),
    /// An answer from outside.
    Answer {
        /// The principal to which the answer was given.
        kind: XidType,
        /// The answer's token.
        token: Token,
    },
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anchor::Entry(xid) => write!(f, "entry {xid}"),
            Anchor::Longest { xid, matched: Some(bits) } => write!(f, "longest prefix of {xid}, {bits} bits"),
            Anchor::Longest { xid, matched: None } => write!(f, "no prefix of {xid}"),
            Anchor::Filter(xid) => write!(f, "filter {xid}"),
            Anchor::Neighbor(number) => write!(f, "neighbor {}", number.0),
            Anchor::Tunnel(kind) => write!(f, "tunnel of {kind}"),
            Anchor::Principal(kind) => write!(f, "principal {kind}"),
            Anchor::Answer { kind, token } => write!(f, "answer of {kind} with token {}", token.0),
        }
    }
}

impl Hash for Anchor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (tag, kind, id) = match self {
            Anchor::Entry(xid) => (0, xid.kind.0, Some(&xid.id)),
            Anchor::Longest { xid, matched } => {
                (1 + (matched.map_or(0xff, u64::from) << 8), xid.kind.0, Some(&xid.id))
            }
            Anchor::Filter(xid) => (2, xid.kind.0, Some(&xid.id)),
            Anchor::Neighbor(neighbor) => (3, neighbor.0, None),
            Anchor::Tunnel(kind) => (4, kind.0, None),
            Anchor::Principal(kind) => (5, kind.0, None),
            Anchor::Answer { kind, token } => (6 + (u64::from(token.0) << 8), kind.0, None),
        };
        state.write_u64(tag);
        state.write_u32(kind);
        if let Some(id) = id {
            hash_id(id, 0, state);
        }
    }
}

/// Hashes an ID and a small number in three words. The derived hash of 20 octets works octet by octet.
pub(crate) fn hash_id<H: Hasher>(id: &[u8; 20], salt: u32, state: &mut H) {
    let (words, rest) = id.as_chunks::<8>();
    for word in words {
        state.write_u64(u64::from_le_bytes(*word));
    }
    let rest = rest.iter().fold(0_u32, |sum, octet| (sum << 8) | u32::from(*octet));
    state.write_u64(u64::from(rest) | (u64::from(salt) << 32));
}

/// A change of the routing state, as a set of anchors: the dependents of each anchor in the set must be decided anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// A single anchor.
    Anchor(Anchor),
    /// XIDs within a prefix whose longest prefix had `matched` bits (flush rule 7 of the kernel, limited to the prefix).
    Longest {
        /// Bits of the prefix that the XIDs had matched before the change; `None` if no prefix held them.
        matched: Option<u8>,
        /// The added, changed or removed prefix.
        within: XidPrefix,
    },
    /// Bloom filters with a link ID.
    Filters {
        /// The link ID.
        link: Xid,
    },
}

impl Touch {
    /// Returns the touch of the entry of an XID.
    pub const fn entry(xid: Xid) -> Self {
        Touch::Anchor(Anchor::Entry(xid))
    }

    /// Returns the touch of a registered or missing principal.
    pub const fn principal(kind: XidType) -> Self {
        Touch::Anchor(Anchor::Principal(kind))
    }
}

/// The touches of a change, seldom more than two.
pub type Touched = SmallVec<[Touch; 2]>;

/// The anchors of a decision.
#[derive(Clone, Default, Debug)]
pub struct Deps {
    anchors: SmallVec<[Anchor; 16]>,
    is_temporary: bool,
}

impl Deps {
    /// The number of anchors up to which repetitions are left out; beyond it, the search would cost more than the repetition.
    const SEARCHED: usize = 16;

    /// Adds an anchor.
    pub fn push(&mut self, anchor: Anchor) {
        if self.anchors.len() > Self::SEARCHED || !self.anchors.contains(&anchor) {
            self.anchors.push(anchor);
        }
    }

    /// Marks the decision as temporary, and so not to be cached: no anchor will be touched at its end.
    pub(crate) const fn set_temporary(&mut self) {
        self.is_temporary = true;
    }

    /// Returns true if the decision must not be cached.
    pub(crate) const fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Returns the anchors. Long lists may repeat an anchor.
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// Removes the anchors, so that the next decision reuses the memory.
    pub fn clear(&mut self) {
        self.anchors.clear();
        self.is_temporary = false;
    }
}
