//! The wait for the first snapshot of interfaces.

use sluice_base::{Duration, Instant};

/// Decides whether decisions that depend on interfaces may be made.
///
/// Before the FEA has announced all interfaces, every next hop looks unreachable and no session knows its subnet; a decision made
/// then would have to be revised. The wait is bounded, so that a router without a working FEA still answers.
#[derive(Clone, Debug)]
pub struct FirstSnapshot {
    deadline: Instant,
    is_complete: bool,
}

impl FirstSnapshot {
    /// The longest wait for the FEA after the start of the client.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// Begins the wait at `started`.
    pub fn new(started: Instant) -> Self {
        FirstSnapshot { deadline: started + Self::TIMEOUT, is_complete: false }
    }

    /// Ends the wait: the FEA has announced all interfaces.
    pub const fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns true if the wait is over at `now`: the snapshot is complete, or the timeout has passed.
    pub fn is_over(&self, now: Instant) -> bool {
        self.is_complete || now >= self.deadline
    }

    /// The moment at which the wait ends without a snapshot.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_ends_with_the_snapshot_or_the_timeout() {
        let start = Instant::from_nanos(7);
        let mut snapshot = FirstSnapshot::new(start);
        assert!(!snapshot.is_over(start));
        assert!(snapshot.is_over(snapshot.deadline()));
        snapshot.complete();
        assert!(snapshot.is_over(start));
    }
}
