//! The history of a damped route: penalty and state.

use super::profiles::ProfileId;
use crate::shard::entry::PeerIndex;
use alloc::string::String;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};
use sluice_policy::source::Damping;

/// No history, at the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The exported history of a route, for a new process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryState<P> {
    /// The prefix.
    pub prefix: P,
    /// The peer.
    pub peer: u16,
    pub(crate) penalty: u32,
    pub(crate) updated: u32,
    pub(crate) flaps: u16,
    pub(crate) is_suppressed: bool,
    pub(crate) damping: Option<Damping>,
}

/// The history of a route, as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DampedView<P> {
    /// The prefix.
    pub prefix: P,
    /// The peer.
    pub peer: PeerIndex,
    /// The present penalty.
    pub penalty: u32,
    /// Withdrawals and changes of attributes since the history began.
    pub flaps: u16,
    /// The time until a suppressed route is used again, without further flaps; `None` for an unsuppressed route.
    pub suppressed_for: Option<Duration>,
    /// The name of the parameters chosen by policy; `None` for the router's.
    pub damping: Option<String>,
}

/// Counts of flap damping in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DampingCounts {
    /// Routes with a history.
    pub histories: u64,
    /// Routes suppressed now, or at the next announcement.
    pub suppressed: u64,
    /// Flaps without a history, because there are as many as may be.
    pub untracked: u64,
}

impl core::iter::Sum for DampingCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(DampingCounts::default(), |a, b| DampingCounts {
            histories: a.histories + b.histories,
            suppressed: a.suppressed + b.suppressed,
            untracked: a.untracked + b.untracked,
        })
    }
}

/// The history of a route.
#[derive(Debug)]
pub(crate) struct History<P> {
    pub prefix: P,
    pub peer: PeerIndex,
    pub flaps: u16,
    /// At `updated`.
    pub penalty: u32,
    /// Tenths of a second.
    pub updated: u32,
    /// The history's list, and the neighbors in the list.
    pub due: u32,
    pub before: u32,
    pub after: u32,
    pub is_suppressed: bool,
    pub profile: ProfileId,
}

impl<P> History<P> {
    /// A history without flaps, in no list.
    pub(super) const fn new(prefix: P, peer: PeerIndex, updated: u32, profile: ProfileId) -> Self {
        let (flaps, penalty, is_suppressed) = (0, 0, false);
        let (due, before, after) = (NONE, NONE, NONE);
        History { prefix, peer, flaps, penalty, updated, due, before, after, is_suppressed, profile }
    }
}

/// The consequence of a due history.
pub(crate) enum Outcome<P> {
    /// No consequence yet.
    Waits,
    /// The history is forgotten.
    Forgotten,
    /// The route is no longer suppressed.
    Reusable(P, PeerIndex),
}

pub(crate) fn tenths(at: Instant) -> u32 {
    // For more than 13 years.
    (at.as_nanos() / 100_000_000) as u32
}
