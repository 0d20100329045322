//! The pace of repairs of repeated foreign changes: at once the first time, then less and less often, so that two
//! programs with conflicting routes do not burn the processor.

use crate::engine::NextHopId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Family, Instant, InterfaceAddress, InterfaceIndex, IpPrefix, TableId};

/// The pause after the first repair; each further repair doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The most things watched. Further things are repaired at once, as if for the first time.
const LIMIT: usize = 16_384;

/// An object to repair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Drift {
    /// A route.
    Route(TableId, IpPrefix),
    /// A member or a group.
    NextHop(NextHopId),
    /// The switch that has the host forward packets of a family.
    Forwarding(Family),
    /// The settings of an interface.
    Link(InterfaceIndex),
    /// An address of an interface.
    Address(InterfaceIndex, InterfaceAddress),
}

/// A recently repaired thing.
#[derive(Clone, Copy, Debug)]
struct Watch {
    /// The time of the next allowed repair.
    next: Instant,
    /// The pause before that time.
    pause: Duration,
    /// True if the thing waits for the repair.
    waiting: bool,
}

/// The waiting repairs, by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    watched: BTreeMap<Drift, Watch>,
    /// Not after the first of the watches' ends.
    deadline: Option<Instant>,
}

/// The treatment of a drift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Repair now.
    Now,
    /// A first wait: [`Repairs::due`] returns the drift later.
    FirstWait,
    /// A wait: [`Repairs::due`] returns the drift later.
    Wait,
}

impl Repairs {
    /// Returns true if `damage` may be repaired at `now`.
    pub(crate) fn ask(&mut self, now: Instant, damage: Drift) -> Verdict {
        if let Some(watch) = self.watched.get_mut(&damage).filter(|w| now < w.next) {
            let first = watch.pause == FIRST_PAUSE && !watch.waiting;
            watch.waiting = true;
            return if first { Verdict::FirstWait } else { Verdict::Wait };
        }
        if self.watched.len() < LIMIT {
            self.watch(damage, now, FIRST_PAUSE);
        }
        Verdict::Now
    }

    fn watch(&mut self, damage: Drift, now: Instant, pause: Duration) {
        let next = now + pause;
        self.watched.insert(damage, Watch { next, pause, waiting: false });
        self.deadline = Some(self.deadline.map_or(next, |d| d.min(next)));
    }

    /// Returns the time when to call [`Repairs::due`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the waiting drifts that may be repaired now. Things without a change since the last repair are forgotten.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Drift> {
        let mut due = Vec::new();
        self.watched.retain(|damage, watch| {
            if watch.next <= now && watch.waiting {
                due.push((*damage, watch.pause));
            }
            watch.next > now
        });
        self.deadline = self.watched.values().map(|w| w.next).min();
        for (damage, pause) in &due {
            self.watch(*damage, now, (*pause * 2).min(LONGEST_PAUSE));
        }
        due.into_iter().map(|(damage, _)| damage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fight_slows_down() {
        let mut repairs = Repairs::default();
        let thing = Drift::NextHop(NextHopId(1));
        let (mut now, mut repaired) = (Instant::ZERO, 0);
        // Somebody breaks it every millisecond for ten minutes.
        for _ in 0..600_000 {
            now = now + Duration::from_millis(1);
            repaired += repairs.due(now).len();
            repaired += usize::from(repairs.ask(now, thing) == Verdict::Now);
        }
        assert!((10..30).contains(&repaired), "{repaired}");
        now = now + LONGEST_PAUSE * 3;
        repairs.due(now);
        repairs.due(now + LONGEST_PAUSE);
        assert_eq!(repairs.next_deadline(), None, "forgotten");
        assert_eq!(repairs.ask(now + LONGEST_PAUSE * 2, thing), Verdict::Now);
    }
}
