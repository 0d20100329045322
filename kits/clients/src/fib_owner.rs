//! Owning the forwarding table of the FEA.

use alloc::collections::BTreeSet;
use sluice_base::{Duration, Instant, TableId};

/// The relation of the RIB to the forwarding engine abstraction.
///
/// A FEA that starts is given every route (a *resync*): the engine keeps the routes of earlier lives until the resync ends, then
/// sweeps unannounced routes. After a start of the RIB itself, the end waits until every origin has announced its
/// routes, within [`FibOwner::SETTLE`] and [`FibOwner::GRACE`].
#[derive(Clone, Debug)]
pub struct FibOwner {
    started: Instant,
    phase: Phase,
    declines_routes: bool,
    /// The tables whose resync has begun.
    tables: BTreeSet<TableId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No FEA has accepted this RIB as the owner.
    Disconnected,
    /// The engine keeps routes of earlier lives.
    Resyncing,
    /// The end of the resync was requested and not answered yet.
    Ending,
    /// The engine has exactly the RIB's routes.
    Synchronized,
}

/// The time at which a resync may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResyncEnd {
    /// No deadline: no resync is in progress, or an event must come first.
    Waits,
    /// At this moment, unless an event comes first.
    At(Instant),
    /// Immediately.
    Now,
}

impl FibOwner {
    /// The most batches of routes in flight to the FEA.
    pub const WINDOW: u32 = 32;
    /// The shortest time after the RIB's start before routes of earlier lives are swept: origins need time to register.
    pub const SETTLE: Duration = Duration::from_secs(5);
    /// The longest time to keep routes of earlier lives for an origin that does not finish.
    pub const GRACE: Duration = Duration::from_secs(120);

    /// Returns the relation of a RIB that started at `started`, before any FEA.
    pub const fn new(started: Instant) -> Self {
        FibOwner { started, phase: Phase::Disconnected, declines_routes: false, tables: BTreeSet::new() }
    }

    /// Returns the tables whose resync begins with a FEA: the RIB's tables and the engine's. The origin of an engine's table may be gone,
    /// or may register later.
    pub fn begin_resync(
        &mut self,
        own: impl IntoIterator<Item = TableId>,
        known: impl IntoIterator<Item = TableId>,
    ) -> BTreeSet<TableId> {
        self.tables = own.into_iter().chain(known).collect();
        self.tables.clone()
    }

    /// Records that a FEA accepted the RIB as the owner and began a resync. `declines_routes`: the engine is configured to hold no
    /// routes, so that nothing needs to be waited for.
    pub const fn accepted(&mut self, declines_routes: bool) {
        self.phase = Phase::Resyncing;
        self.declines_routes = declines_routes;
    }

    /// Notes that the FEA died.
    pub const fn engine_died(&mut self) {
        self.phase = Phase::Disconnected;
    }

    /// Returns true if a FEA takes routes.
    pub fn is_connected(&self) -> bool {
        self.phase != Phase::Disconnected
    }

    /// Returns true if the engine has exactly the RIB's routes, apart from changes in flight.
    pub fn is_synchronized(&self) -> bool {
        self.phase == Phase::Synchronized
    }

    /// Returns the time from which the RIB has every origin's routes, by present knowledge.
    pub fn complete_at(&self, are_origins_refreshed: bool) -> Instant {
        self.started + if are_origins_refreshed { Self::SETTLE } else { Self::GRACE }
    }

    /// Decides when the resync ends. `is_drained`: the FEA has answered every batch, and no batch is left to send;
    /// `are_origins_refreshed`: at least one origin is registered, and each has announced its routes completely.
    pub fn resync_end(&self, now: Instant, is_drained: bool, are_origins_refreshed: bool) -> ResyncEnd {
        if self.phase != Phase::Resyncing || !is_drained {
            return ResyncEnd::Waits;
        }
        let end = self.complete_at(are_origins_refreshed);
        if self.declines_routes || now >= end { ResyncEnd::Now } else { ResyncEnd::At(end) }
    }

    /// Notes that the end of the resync is requested from the FEA, for these tables.
    pub fn end_resync(&mut self) -> BTreeSet<TableId> {
        if self.phase == Phase::Resyncing {
            self.phase = Phase::Ending;
        }
        core::mem::take(&mut self.tables)
    }

    /// Returns true if the end of the resync is still to be requested: no new FEA has begun a resync since [`FibOwner::end_resync`], and
    /// the FEA has not died.
    pub fn is_ending(&self) -> bool {
        self.phase == Phase::Ending
    }

    /// Notes that the FEA swept the routes of earlier lives.
    pub fn resynced(&mut self) {
        if self.phase == Phase::Ending {
            self.phase = Phase::Synchronized;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000);

    #[test]
    fn a_resync_ends_when_origins_are_refreshed_but_not_before_they_could_register() {
        let mut owner = FibOwner::new(START);
        assert_eq!(owner.resync_end(START, true, true), ResyncEnd::Waits, "no FEA yet");
        owner.accepted(false);
        assert_eq!(owner.resync_end(START, false, true), ResyncEnd::Waits, "routes are in flight");
        assert_eq!(owner.resync_end(START, true, true), ResyncEnd::At(START + FibOwner::SETTLE));
        assert_eq!(owner.resync_end(START, true, false), ResyncEnd::At(START + FibOwner::GRACE));
        assert_eq!(owner.resync_end(START + FibOwner::SETTLE, true, true), ResyncEnd::Now);
        assert_eq!(owner.resync_end(START + FibOwner::GRACE, true, false), ResyncEnd::Now);
        owner.end_resync();
        assert_eq!(owner.resync_end(START + FibOwner::GRACE, true, true), ResyncEnd::Waits);
        assert!(!owner.is_synchronized());
        owner.resynced();
        assert!(owner.is_synchronized());
    }

    #[test]
    fn tables_of_earlier_lives_are_resynced_too() {
        let mut owner = FibOwner::new(START);
        let tables = owner.begin_resync([TableId::MAIN], [TableId(100), TableId::MAIN]);
        assert_eq!(tables, BTreeSet::from([TableId(100), TableId::MAIN]));
        owner.accepted(false);
        assert_eq!(owner.end_resync(), tables);
    }

    #[test]
    fn a_fea_that_wants_no_routes_is_swept_at_once() {
        let mut owner = FibOwner::new(START);
        owner.accepted(true);
        assert_eq!(owner.resync_end(START, true, false), ResyncEnd::Now);
    }

    #[test]
    fn a_fea_that_takes_over_meanwhile_does_not_receive_the_end_of_the_resync_before() {
        let mut owner = FibOwner::new(START);
        owner.begin_resync([TableId::MAIN], []);
        owner.accepted(false);
        owner.end_resync();
        assert!(owner.is_ending());
        owner.begin_resync([TableId::MAIN], []);
        owner.accepted(false);
        assert!(!owner.is_ending());
        assert_eq!(owner.end_resync(), [TableId::MAIN].into(), "its own resync ends later");
    }

    #[test]
    fn a_late_answer_of_a_dead_fea_ends_nothing() {
        let mut owner = FibOwner::new(START);
        owner.accepted(false);
        owner.end_resync();
        owner.engine_died();
        owner.accepted(false);
        owner.resynced();
        assert!(owner.is_connected() && !owner.is_synchronized());
    }
}
