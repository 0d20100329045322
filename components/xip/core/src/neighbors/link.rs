//! The state of a link, with its probes.

use super::io::Link;
use crate::wire::Mac;
use alloc::vec::Vec;
use sluice_base::Instant;

/// The state of a link.
#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) settings: Link,
    /// True if the local HIDs changed since the last tick.
    pub(super) is_changed: bool,
    /// The time of the last answer with lists.
    pub(super) answered: Option<Instant>,
    pub(super) probing: Option<Probing>,
    pub(super) investigations: Vec<Investigation>,
    /// True if a full table was reported since the link's settings changed.
    pub(super) is_full_reported: bool,
}

/// A probe of a neighbor that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Probing {
    pub(super) target: Mac,
    /// The investigators that were asked; none while the target alone is.
    pub(super) investigators: Option<Vec<Mac>>,
    pub(super) has_investigator_answered: bool,
    pub(super) is_repeated: bool,
}

/// A probe on behalf of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Investigation {
    pub(super) requester: Mac,
    pub(super) target: Mac,
    pub(super) until: Instant,
}
