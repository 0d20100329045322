//! The route refreshes of a session in both directions (RFC 2918, RFC 7313).

use crate::family::Families;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;

/// The refreshes between this router and a neighbor, in both directions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Refreshes {
    /// Families whose routes the neighbor announces again at present.
    pub stale: Families,
    /// The time at which routes are removed that are still stale.
    pub until: Option<Instant>,
    /// The number of the latest refresh that the neighbor asked for.
    pub(crate) sent: u32,
}

impl Refreshes {
    /// Ends the refresh of families. Returns the families with a refresh.
    pub(crate) fn end(&mut self, families: Families) -> Families {
        let ended = self.stale.and(families);
        self.stale = self.stale.without(families);
        if self.stale.is_empty() {
            self.until = None;
        }
        ended
    }
}
