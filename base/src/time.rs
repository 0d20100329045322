//! Time in cores: an instant handed in, never read.

use core::ops::{Add, Sub};
pub use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A moment on the monotonic clock of a core's driver, in nanoseconds since an origin known to the driver only.
///
/// In production the clock is the host's monotonic clock, in a simulation virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the driver's clock.
    pub const ZERO: Instant = Instant(0);

    /// The instant `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if `earlier` is in the future.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the end of time, which no clock reaches (584 years).
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the clock's origin.
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant::from_nanos(5);
        assert_eq!(t - Duration::from_secs(1), Instant::ZERO);
        assert_eq!((t + Duration::MAX).as_nanos(), u64::MAX);
        assert_eq!(Instant::ZERO.saturating_since(t), Duration::ZERO);
        assert_eq!((t + Duration::from_nanos(7)).saturating_since(t), Duration::from_nanos(7));
    }
}
