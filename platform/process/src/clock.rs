//! The host's monotonic clock, shared by every process of the host.

use nix::time::{ClockId, clock_gettime};
use sluice_base::Instant;

/// Now.
#[inline]
pub fn now() -> Instant {
    match clock_gettime(ClockId::CLOCK_MONOTONIC) {
        Ok(t) => {
            let seconds = u64::try_from(t.tv_sec()).unwrap_or(0);
            Instant::from_nanos(seconds * 1_000_000_000 + u64::try_from(t.tv_nsec()).unwrap_or(0))
        }
        // The call fails only for clocks that do not exist; this one does.
        Err(_) => Instant::ZERO,
    }
}

/// The same moment for the event loop's timers.
pub fn to_tokio(at: Instant) -> tokio::time::Instant {
    tokio::time::Instant::now() + at.saturating_since(now())
}
