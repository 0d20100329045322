//! The prefixes of a neighbor, counted against the neighbor's bounds.

use crate::event::LimitReached;
use crate::family::FamilyIndex;
use crate::speaker::config::{PrefixCount, Stage};
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;

/// The end of a session for a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitStop {
    /// The family with the bound.
    pub family: FamilyIndex,
    /// The bound, and the exceeding count.
    pub reached: LimitReached,
    /// The time at which the session is opened again; `None` if only an operator or a changed bound opens the session.
    pub restart_at: Option<Instant>,
}

/// The state of a neighbor's bounds in a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) counts: BTreeMap<(FamilyIndex, usize), PrefixCount>,
    pub(crate) standings: BTreeMap<FamilyIndex, Standing>,
    pub(crate) stopped: Option<LimitStop>,
}

/// The state of a family's bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    /// True if the tables ignore new prefixes.
    pub(crate) is_full: bool,
}

impl Limits {
    /// Takes the state of a process before.
    pub fn resumed(stopped: Option<LimitStop>) -> Self {
        Limits { stopped, ..Limits::default() }
    }

    /// Returns the end of the session for a bound, if the session was not opened again.
    pub const fn stopped(&self) -> Option<&LimitStop> {
        self.stopped.as_ref()
    }

    /// Forgets the counts of a session that is over.
    pub fn end_session(&mut self) {
        self.counts.clear();
        self.standings.clear();
    }

    pub(crate) fn total(&self, family: FamilyIndex) -> PrefixCount {
        let of_family = self.counts.range((family, 0)..=(family, usize::MAX));
        of_family.fold(PrefixCount::default(), |sum, (_, count)| PrefixCount {
            received: sum.received.saturating_add(count.received),
            accepted: sum.accepted.saturating_add(count.accepted),
        })
    }
}
