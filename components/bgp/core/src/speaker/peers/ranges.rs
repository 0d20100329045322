//! The listen ranges with counts and the rate of new neighbors.

use crate::event::RangeRefusal;
use crate::speaker::config::ListenRange;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant, IpPrefix};

/// The neighbors admitted to a range in a second, after a first burst up to the range's limit.
pub const RATE: u64 = 50;

/// The least time between two reports of a range about the same kind of refusal; further refusals are counted.
const REPORT: Duration = Duration::from_secs(60);

/// The counters of a listen range since the router started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RangeCounters {
    /// Neighbors that came.
    pub joined: u64,
    /// Connections refused because the range, or the router, is at the limit of neighbors.
    pub refused_for_limit: u64,
    /// Connections refused because of the rate of new neighbors.
    pub refused_for_rate: u64,
    /// OPEN messages refused because of an AS not allowed in the range.
    pub refused_for_as: u64,
}

/// A listen range, as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeView {
    /// The configuration.
    pub config: ListenRange,
    /// The present neighbors.
    pub neighbors: u32,
    /// The present neighbors whose session is Established.
    pub established: u32,
    /// The counters.
    pub counters: RangeCounters,
}

/// A listen range and its state.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) config: ListenRange,
    pub(super) neighbors: u32,
    pub(super) counters: RangeCounters,
    /// The neighbors that may come at `since`, in thousandths.
    room: u64,
    since: Instant,
    /// The latest report of each kind of refusal.
    reported: [Option<Instant>; 3],
}

impl Range {
    fn new(now: Instant, config: ListenRange, counters: RangeCounters) -> Range {
        let room = u64::from(config.limit) * 1000;
        Range { config, neighbors: 0, counters, room, since: now, reported: [None; 3] }
    }

    /// Returns true if the rate allows a further neighbor now, and counts the neighbor.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_since(self.since).as_millis();
        let filled = u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(RATE);
        if filled > 0 {
            self.room = self.room.saturating_add(filled).min(u64::from(self.config.limit) * 1000);
            self.since = now;
        }
        let left = self.room.checked_sub(1000);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Counts a refusal. Returns true if the refusal is reported.
    pub(super) fn refuse(&mut self, now: Instant, refusal: RangeRefusal) -> bool {
        let (counter, place) = match refusal {
            RangeRefusal::Limit(_) => (&mut self.counters.refused_for_limit, 0),
            RangeRefusal::Rate => (&mut self.counters.refused_for_rate, 1),
            RangeRefusal::PeerAs(_) => (&mut self.counters.refused_for_as, 2),
        };
        *counter += 1;
        let is_due = self.reported[place].is_none_or(|at| now.saturating_since(at) >= REPORT);
        if is_due {
            self.reported[place] = Some(now);
        }
        is_due
    }
}

/// The listen ranges of a router, at most the 256 of the schema.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// Longest prefixes first.
    pub(super) all: Vec<Range>,
}

impl Ranges {
    /// Returns the configuration, longest prefixes first.
    pub fn configs(&self) -> impl Iterator<Item = &ListenRange> {
        self.all.iter().map(|range| &range.config)
    }

    /// Returns the counters of all ranges.
    pub fn export(&self) -> Vec<(IpPrefix, RangeCounters)> {
        self.all.iter().map(|range| (range.config.prefix, range.counters)).collect()
    }

    /// Takes counters of an earlier process, for ranges that are configured.
    pub fn import(&mut self, counters: &[(IpPrefix, RangeCounters)]) {
        for (prefix, counters) in counters {
            if let Some(range) = self.of(*prefix) {
                range.counters = *counters;
            }
        }
    }

    /// Replaces the configuration; the counters of ranges that stay go on.
    pub fn configure(&mut self, now: Instant, configs: Vec<ListenRange>) {
        let before = core::mem::take(&mut self.all);
        let counters = |prefix| before.iter().find(|range| range.config.prefix == prefix).map(|r| r.counters);
        let new = |config: ListenRange| {
            let counters = counters(config.prefix).unwrap_or_default();
            Range::new(now, config, counters)
        };
        self.all = configs.into_iter().map(new).collect();
        self.all.sort_by_key(|range| core::cmp::Reverse(range.config.prefix.len()));
    }

    pub(super) fn of(&mut self, prefix: IpPrefix) -> Option<&mut Range> {
        self.all.iter_mut().find(|range| range.config.prefix == prefix)
    }

    pub(super) fn longest(&mut self, address: IpAddr) -> Option<&mut Range> {
        self.all.iter_mut().find(|range| range.config.contains(address))
    }

    /// Notes the end of a neighbor.
    pub fn left(&mut self, prefix: IpPrefix) {
        if let Some(range) = self.of(prefix) {
            range.neighbors = range.neighbors.saturating_sub(1);
        }
    }
}
