//! Routes that stay when a session ends.

use crate::family::{Families, FamilyIndex};
use crate::shard::Retention;

/// The routes of a peer that stay when a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retained {
    /// The families whose routes stay.
    pub families: Families,
    /// True if routes of earlier sessions that stayed stay on (RFC 8538, section 4.1).
    pub with_earlier: bool,
}

impl Retained {
    /// Returns the paths of a family that stay.
    pub(super) fn of(self, family: FamilyIndex) -> Retention {
        match (self.families.has(family), self.with_earlier) {
            (false, _) => Retention::None,
            (true, false) => Retention::Session,
            (true, true) => Retention::WithEarlier,
        }
    }
}
