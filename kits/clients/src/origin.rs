//! Being an origin of routes in the RIB.

use sluice_base::Duration;

/// The relation of one origin to the RIB.
///
/// A RIB that starts knows no origin and, after a crash, holds the routes of earlier lives as stale. The origin registers,
/// announces everything again, and then ends the refresh, upon which the RIB sweeps what is still stale.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Counts registrations, so that what was begun for one is not ended for the next.
    registration: u64,
    is_registered: bool,
    is_refresh_due: bool,
    coalesce: Duration,
}

impl Origin {
    /// The most batches of routes in flight to the RIB; beyond that the origin waits, which bounds memory.
    pub const WINDOW: u32 = 8;

    /// Returns true if the RIB knows the origin.
    pub const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Notes that the RIB registered the origin: everything must be announced, then the refresh ends.
    pub const fn registered(&mut self) {
        self.registration += 1;
        self.is_registered = true;
        self.is_refresh_due = true;
    }

    /// Notes that the RIB died. Routes in flight are lost; the next RIB gets all routes.
    pub const fn rib_died(&mut self) {
        self.is_registered = false;
        self.is_refresh_due = false;
        self.coalesce = Duration::ZERO;
    }

    /// Returns the number of the registration whose refresh must still be ended; `None` if the RIB waits for nothing.
    pub fn refresh_due(&self) -> Option<u64> {
        self.is_refresh_due.then_some(self.registration)
    }

    /// Ends the refresh if one is due and `is_all_announced`. Returns true if the RIB must be notified now.
    pub const fn end_refresh(&mut self, is_all_announced: bool) -> bool {
        let ends = self.is_refresh_due && is_all_announced;
        if ends {
            self.is_refresh_due = false;
        }
        ends
    }

    /// Stores for how long the RIB allows changes to be coalesced, from its newest answer; zero where a forwarding engine, a
    /// subscriber or a next hop depends on the origin's routes.
    pub const fn answered(&mut self, coalesce: Duration) {
        self.coalesce = coalesce;
    }

    /// The time for which changes may be coalesced.
    pub const fn coalesce(&self) -> Duration {
        self.coalesce
    }

    /// The delay before the next batch is collected. A batch that was full is followed at once: more routes wait anyway.
    pub const fn next_batch_delay(&self, was_full: bool) -> Duration {
        if was_full { Duration::ZERO } else { self.coalesce }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_registration_has_one_end_of_refresh() {
        let mut origin = Origin::default();
        assert!(!origin.end_refresh(true), "nothing is due before a registration");
        origin.registered();
        assert!(origin.is_registered() && !origin.end_refresh(false));
        assert!(origin.end_refresh(true) && !origin.end_refresh(true));
        origin.registered();
        origin.rib_died();
        assert!(!origin.is_registered() && origin.refresh_due().is_none());
        origin.registered();
        assert_eq!(origin.refresh_due(), Some(3));
        assert!(origin.end_refresh(true));
    }

    #[test]
    fn only_the_last_batch_is_followed_by_a_pause() {
        let mut origin = Origin::default();
        origin.registered();
        origin.answered(Duration::from_secs(1));
        assert_eq!(origin.next_batch_delay(true), Duration::ZERO);
        assert_eq!(origin.next_batch_delay(false), Duration::from_secs(1));
        origin.rib_died();
        assert_eq!(origin.next_batch_delay(false), Duration::ZERO, "the next RIB has not answered yet");
    }
}
